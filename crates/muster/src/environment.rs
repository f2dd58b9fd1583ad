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
pub(crate) const UTC: &str = "MUSTER_UTC";
pub(crate) const TZ: &str = "TZ";
pub(crate) const CONFIG: &str = "MUSTER_CONFIG";
pub(crate) const DATA_DIR: &str = "MUSTER_DATA_DIR";
pub(crate) const LISTEN: &str = "MUSTER_LISTEN";
pub(crate) const HOSTNAME: &str = "MUSTER_HOSTNAME";
pub(crate) const ALLOW_ORIGIN: &str = "MUSTER_ALLOW_ORIGIN";
pub(crate) const LOOPBACK: &str = "MUSTER_LOOPBACK";
pub(crate) const INSECURE: &str = "MUSTER_INSECURE";
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

/// Who the environment says is at the keyboard.
pub(crate) fn user() -> Option<String> {
    let named = |name: &str| std::env::var(name).ok().filter(|user| !user.is_empty());
    named(USER).or_else(|| named(LOGNAME))
}

/// What the program reads.
pub(crate) const READ: [Variable; 33] = [
    Variable { name: URL, help: "The scheduler to talk to. A job finds the URL of its own scheduler here." },
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
];

/// What a job finds in its environment.
pub(crate) const GIVEN_TO_JOBS: [Variable; 16] = [
    Variable { name: URL, help: "The scheduler that the job belongs to." },
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
