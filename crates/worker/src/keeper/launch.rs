//! Starts one process and waits for its end.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use muster_seal::SecretValue;
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::cgroups::Entrance;
use super::hostfile::{self, Hostfile};
use super::mark::Mark;
use super::message::StartSpec;
use super::outputs::Handles;
use super::spawn::{self, Plan};
use super::view::View;
use crate::attempt_files::variables;
use crate::job_user::{JobUser, acting_as, hand_over};
use crate::results;

/// A directory whose files are kept when the attempt has ended.
pub(super) const ARTIFACTS_VARIABLE: &str = "MUSTER_ARTIFACTS";
/// Where programs are looked for when the job has no `PATH`.
pub(super) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a process finds besides what its job asked for.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) base_env: &'a [(String, String)],
    pub(super) handles: Handles,
    pub(super) result: &'a Path,
    /// The directory for artifacts.
    pub(super) artifacts: &'a Path,
    pub(super) hostfile: Option<&'a Hostfile>,
    /// The variables of secrets, each with a value or the path of a file.
    pub(super) secrets: &'a [(String, SecretValue)],
    pub(super) mark: Option<Mark>,
    pub(super) group: Option<Entrance<'a>>,
    /// What it reads from, writes to and is controlled by, where it has a terminal.
    pub(super) terminal: Option<&'a File>,
    pub(super) no_new_privileges: bool,
    pub(super) user: Option<&'a JobUser>,
    /// What it sees of the file system.
    pub(super) view: Option<View<'a>>,
}

/// Starts the process in a session of its own and returns its number, or says in words why there is none.
pub(super) fn spawn(spec: &StartSpec, around: &Surroundings<'_>) -> Result<u32, String> {
    let name = spec.argv.first().filter(|name| !name.is_empty()).ok_or("the command is empty")?;
    let program = as_user(around.user, || find_program(name, spec, around.base_env))?;
    let zero = |what: &str| format!("cannot start {name:?}: {what} has a zero byte in it");
    let text = |bytes: &[u8], what: &str| CString::new(bytes).map_err(|_| zero(what));
    let argv = spec.argv.iter().map(|argument| text(argument.as_bytes(), "an argument"));
    let argv = argv.collect::<Result<Vec<_>, _>>()?;
    let env = environment(spec, around);
    let env = env.into_iter().map(|(name, value)| text(&[name, b"=", value].concat(), "the environment"));
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let stdin = spec.stdin.as_deref().map(stdin).transpose()?;
    hand_over(around.user, &stdin)?;
    let plan = Plan {
        program: &text(program.as_os_str().as_bytes(), "the program")?,
        argv: &argv,
        env: &env,
        directory: &text(spec.cwd.as_bytes(), "the working directory")?,
        stdio: match around.terminal {
            Some(terminal) => [terminal.as_fd(); 3],
            None => [
                match &stdin {
                    Some(file) => file.as_fd(),
                    None => nothing().map_err(|error| format!("cannot open /dev/null: {error}"))?.as_fd(),
                },
                around.handles.stdout.as_fd(),
                around.handles.stderr.as_fd(),
            ],
        },
        mark: around.mark,
        group: around.group,
        terminal: around.terminal.is_some(),
        no_new_privileges: around.no_new_privileges,
        user: around.user,
        expendable: false,
        view: around.view,
    };
    spawn::spawn(&plan).map_err(|error| explain(&error, name, spec, around.view.is_some()))
}

/// Opens the standard input of an attempt. Nobody else needs its name, so that it goes when the attempt ends.
fn stdin(path: &str) -> Result<File, String> {
    let file = File::open(path).map_err(|error| format!("cannot open the standard input {path}: {error}"))?;
    // What cannot be removed now is removed with the other leftovers.
    let _ = std::fs::remove_file(path);
    Ok(file)
}

/// What jobs read from; opened once.
fn nothing() -> io::Result<&'static File> {
    static NOTHING: OnceLock<File> = OnceLock::new();
    if let Some(file) = NOTHING.get() {
        return Ok(file);
    }
    let file = File::open("/dev/null")?;
    Ok(NOTHING.get_or_init(|| file))
}

/// Of two variables with one name the later counts.
fn environment<'a>(spec: &'a StartSpec, around: &'a Surroundings<'_>) -> BTreeMap<&'a [u8], &'a [u8]> {
    let base = around.base_env.iter().filter(|(name, _)| !spec.unset.contains(name));
    let base = base.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let of_user = around.user.into_iter().flat_map(JobUser::variables);
    let of_user = of_user.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let given = spec.env.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut env: BTreeMap<&[u8], &[u8]> = base.chain(of_user).chain(given).collect();
    env.extend(around.secrets.iter().map(|(name, value)| (name.as_bytes(), value.bytes())));
    let files = variables(&spec.paths).into_iter().filter(|(_, path)| !path.is_empty());
    env.extend(files.map(|(name, path)| (name.as_bytes(), path.as_bytes())));
    env.insert(results::VARIABLE.as_bytes(), around.result.as_os_str().as_bytes());
    env.insert(ARTIFACTS_VARIABLE.as_bytes(), around.artifacts.as_os_str().as_bytes());
    if let Some(file) = around.hostfile {
        env.insert(hostfile::VARIABLE.as_bytes(), file.path().as_os_str().as_bytes());
    }
    env
}

/// Blocks until the process has ended, and leaves it unreaped: its number stays taken, so signals to its
/// group cannot hit a stranger.
pub(super) fn wait_for_end(pid: u32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    while waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
        == Err(Errno::EINTR)
    {}
}

/// Looks at files as the user of an attempt sees them.
pub(super) fn as_user<T>(
    user: Option<&JobUser>,
    look: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    acting_as(user, || Ok(look())).map_err(|error| error.to_string())?
}

fn find_program(name: &str, spec: &StartSpec, base_env: &[(String, String)]) -> Result<PathBuf, String> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = spec.env.iter().chain(base_env).find(|(key, _)| key == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, value)| value.as_str());
    let mut denied = None;
    for directory in std::env::split_paths(path) {
        let candidate = Path::new(&spec.cwd).join(directory).join(name);
        match std::fs::metadata(&candidate) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => return Ok(candidate),
            Ok(found) if found.is_file() => denied = Some(candidate),
            _ => {}
        }
    }
    match denied {
        Some(path) => Err(format!("cannot start {name:?}: {} is not executable", path.display())),
        None => Err(format!("cannot start {name:?}: no such program in PATH ({path})")),
    }
}

/// Whether there is a file that may be run.
pub(super) fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The system's error does not say whether the program or the directory is missing.
fn explain(error: &io::Error, name: &str, spec: &StartSpec, has_own_tmp: bool) -> String {
    let is_hidden = |place: &&str| Path::new(&spec.cwd).starts_with(place);
    if let Some(place) = super::private_tmp::PLACES.into_iter().find(is_hidden).filter(|_| has_own_tmp) {
        return format!(
            "cannot enter the working directory {:?}: this worker gives each attempt a {place} of its own (--private-tmp)",
            spec.cwd
        );
    }
    if spec.user.is_some() {
        // It says itself what its user could not do.
        return format!("cannot start {name:?}: {error}");
    }
    match std::fs::metadata(&spec.cwd) {
        Err(cause) => format!("cannot enter the working directory {:?}: {cause}", spec.cwd),
        Ok(found) if !found.is_dir() => format!("the working directory {:?} is not a directory", spec.cwd),
        Ok(_) => format!("cannot start {name:?}: {error}"),
    }
}
