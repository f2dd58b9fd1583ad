//! Every environment variable that the command line reads, and those that a job finds set.
//!
//! Guarantee: the program reads no other variable of ours; the reference page is made from this list.

/// One variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
}

pub(crate) const URL: &str = "MUSTER_URL";
pub(crate) const CA_FILE: &str = "MUSTER_CA_FILE";
pub(crate) const TLS_FINGERPRINT: &str = "MUSTER_TLS_FINGERPRINT";
pub(crate) const UTC: &str = "MUSTER_UTC";
pub(crate) const TZ: &str = "TZ";
pub(crate) const CONFIG: &str = "MUSTER_CONFIG";
pub(crate) const DATA_DIR: &str = "MUSTER_DATA_DIR";
pub(crate) const LISTEN: &str = "MUSTER_LISTEN";
pub(crate) const HOSTNAME: &str = "MUSTER_HOSTNAME";
pub(crate) const ALLOW_ORIGIN: &str = "MUSTER_ALLOW_ORIGIN";
pub(crate) const LOOPBACK: &str = "MUSTER_LOOPBACK";
pub(crate) const INSECURE: &str = "MUSTER_INSECURE";
pub(crate) const TLS_CERT: &str = "MUSTER_TLS_CERT";
pub(crate) const TLS_KEY: &str = "MUSTER_TLS_KEY";
pub(crate) const TLS_SELF_SIGNED: &str = "MUSTER_TLS_SELF_SIGNED";
pub(crate) const PORT: &str = "MUSTER_PORT";
pub(crate) const WORKERS: &str = "MUSTER_WORKERS";
pub(crate) const DB_DRIVER: &str = "MUSTER_DB_DRIVER";
pub(crate) const DB_URL: &str = "MUSTER_DB_URL";
pub(crate) const POLICY: &str = "MUSTER_POLICY";
pub(crate) const DRAIN_TIMEOUT: &str = "MUSTER_DRAIN_TIMEOUT";
pub(crate) const LOG: &str = "MUSTER_LOG";
pub(crate) const CPUS: &str = "MUSTER_CPUS";
pub(crate) const MEMORY: &str = "MUSTER_MEMORY_MB";
pub(crate) const GPUS: &str = "MUSTER_GPUS";
pub(crate) const VRAM: &str = "MUSTER_VRAM_MB";
pub(crate) const COUNTERS: &str = "MUSTER_COUNTERS";
pub(crate) const LABELS: &str = "MUSTER_LABELS";
pub(crate) const TAGS: &str = "MUSTER_TAGS";
pub(crate) const JOB_ID: &str = "MUSTER_JOB_ID";
pub(crate) const LEASE: &str = "MUSTER_LEASE";
pub(crate) const TOKEN: &str = "MUSTER_TOKEN";
pub(crate) const PREEMPT_FILE: &str = "MUSTER_PREEMPT_FILE";
pub(crate) const DONE_FILE: &str = "MUSTER_DONE_FILE";
pub(crate) const NO_COLOR: &str = "NO_COLOR";
pub(crate) const COLUMNS: &str = "COLUMNS";
pub(crate) const USER: &str = "USER";
pub(crate) const LOGNAME: &str = "LOGNAME";
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
pub(crate) const HOME: &str = "HOME";
pub(crate) const API_TOKEN: &str = "MUSTER_API_TOKEN";

/// Who the environment says is at the keyboard.
pub(crate) fn user() -> Option<String> {
    let named = |name: &str| std::env::var(name).ok().filter(|user| !user.is_empty());
    named(USER).or_else(|| named(LOGNAME))
}

/// Where settings of a user are kept.
pub(crate) fn config_home() -> Option<std::path::PathBuf> {
    let named =
        |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(std::path::PathBuf::from);
    named(XDG_CONFIG_HOME).or_else(|| Some(named(HOME)?.join(".config")))
}

/// The token that the environment gives.
pub(crate) fn api_token() -> Option<String> {
    std::env::var(API_TOKEN).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// What the program reads.
pub(crate) const READ: [Variable; 41] = [
    Variable { name: URL, help: "The scheduler to talk to. A job finds the URL of its own scheduler here." },
    Variable {
        name: CA_FILE,
        help: "CA certificates that are trusted beside those of the system. A job finds those of its worker here.",
    },
    Variable {
        name: TLS_FINGERPRINT,
        help: "The only certificate that is accepted from the scheduler. A job finds that of its own scheduler here.",
    },
    Variable { name: CONFIG, help: "The configuration file, instead of ./muster.toml." },
    Variable { name: DATA_DIR, help: "`muster up`: the directory that holds everything that is kept." },
    Variable { name: LISTEN, help: "`muster up`: the address to listen on." },
    Variable { name: HOSTNAME, help: "`muster up`: names by which clients reach it, comma-separated." },
    Variable {
        name: ALLOW_ORIGIN,
        help: "`muster up`: origins whose web pages may use it, comma-separated.",
    },
    Variable { name: LOOPBACK, help: "`muster up`: which users of this machine it serves, same or any." },
    Variable { name: INSECURE, help: "`muster up`: true to listen beyond loopback without authentication." },
    Variable { name: TLS_CERT, help: "`muster up`: the certificate to serve HTTPS with." },
    Variable { name: TLS_KEY, help: "`muster up`: the private key of the certificate." },
    Variable {
        name: TLS_SELF_SIGNED,
        help: "`muster up`: true for HTTPS with a certificate of its own making.",
    },
    Variable { name: PORT, help: "`muster up`: the port to listen on." },
    Variable { name: WORKERS, help: "`muster up`: how many jobs run at the same time." },
    Variable { name: DB_DRIVER, help: "`muster up`: sqlite, postgres or memory." },
    Variable { name: DB_URL, help: "`muster up`: the file or the URL of the database." },
    Variable { name: POLICY, help: "`muster up`: who goes first and who may pass." },
    Variable {
        name: DRAIN_TIMEOUT,
        help: "`muster up`: how long running jobs may take to finish at the end.",
    },
    Variable { name: CPUS, help: "`muster up`: the cores that the worker offers." },
    Variable { name: MEMORY, help: "`muster up`: the memory that the worker offers, in MiB or with a unit." },
    Variable { name: GPUS, help: "`muster up`: the GPUs that the worker offers." },
    Variable { name: LABELS, help: "`muster up`: where the worker is, such as `rack=a,zone=1`." },
    Variable {
        name: VRAM,
        help: "`muster up`: the GPU memory that the worker offers, in MiB or with a unit.",
    },
    Variable {
        name: COUNTERS,
        help: "`muster up`: named counters that the worker offers, as NAME=N,NAME=N.",
    },
    Variable { name: TAGS, help: "`muster up`: the tags of the worker, with commas between them." },
    Variable { name: JOB_ID, help: "`muster checkpoint`, inside a job: which one." },
    Variable { name: LEASE, help: "`muster checkpoint save`: under which lease, where there is no token." },
    Variable { name: TOKEN, help: "`muster checkpoint save`, `muster notice`: proves which job speaks." },
    Variable { name: PREEMPT_FILE, help: "`muster notice`: where the notice appears." },
    Variable { name: DONE_FILE, help: "`muster done`: the file to make." },
    Variable { name: LOG, help: "What to log, such as `info` or `muster_server=debug,warn`." },
    Variable { name: NO_COLOR, help: "No colours, when set to anything but nothing." },
    Variable { name: COLUMNS, help: "The width of tables, when standard output is not a terminal." },
    Variable {
        name: UTC,
        help: "Read and show times in UTC instead of local time, when set to anything but nothing, 0, no or false.",
    },
    Variable {
        name: TZ,
        help: "The local time zone, such as `Europe/Berlin`, instead of that of /etc/localtime.",
    },
    Variable { name: USER, help: "`muster run` and `muster submit`: who submits, without --user." },
    Variable { name: LOGNAME, help: "The same, when USER is not set." },
    Variable {
        name: API_TOKEN,
        help: "The token to show to the scheduler, instead of what `muster login` has kept.",
    },
    Variable {
        name: XDG_CONFIG_HOME,
        help: "Where `muster login` keeps what it was given (muster/credentials.json), and `muster secret` the trusted keys (muster/known-keys.json) [default: $HOME/.config].",
    },
    Variable { name: HOME, help: "The same, when XDG_CONFIG_HOME is not set." },
];

/// What a job finds in its environment.
pub(crate) const GIVEN_TO_JOBS: [Variable; 18] = [
    Variable { name: URL, help: "The scheduler that the job belongs to." },
    Variable { name: CA_FILE, help: "CA certificates to trust, where the worker was given some." },
    Variable { name: TLS_FINGERPRINT, help: "Its certificate, where that is pinned." },
    Variable { name: JOB_ID, help: "The id of the job." },
    Variable { name: "MUSTER_WORKER_ID", help: "The worker that runs it." },
    Variable { name: "MUSTER_ATTEMPT", help: "1 for the first attempt." },
    Variable { name: LEASE, help: "The number under which this attempt holds the job; it only grows." },
    Variable { name: TOKEN, help: "Lets the job speak for itself." },
    Variable { name: PREEMPT_FILE, help: "The path of a file that appears when the job is told to stop." },
    Variable {
        name: DONE_FILE,
        help: "The path of a file that says, once it is made, that the job has finished.",
    },
    Variable {
        name: "MUSTER_CHECKPOINT_FILE",
        help: "A file with the checkpoint to start from; not set when there is none.",
    },
    Variable {
        name: "MUSTER_CHECKPOINT_OUT",
        help: "A path for a checkpoint that is saved when the attempt has ended.",
    },
    Variable {
        name: "MUSTER_CHECKPOINT_DIR",
        help: "A directory that all attempts of the job on one worker share.",
    },
    Variable { name: "CHECKPOINT_DATA", help: "The checkpoint in base64, if it has at most 64 KiB." },
    Variable {
        name: "MUSTER_OUTPUT",
        help: "A file for what the job hands on: `key=value` lines, or one JSON object.",
    },
    Variable {
        name: "MUSTER_NEEDS_<STEP>_<KEY>",
        help: "What a step that this one needs handed on; in capitals, other characters as `_`.",
    },
    Variable {
        name: "MUSTER_ARRAY_INDEX",
        help: "The index of an element of an array or of a multiplied step.",
    },
    Variable { name: "MUSTER_ARRAY_ITEM", help: "The line or the element that this job is for." },
];
