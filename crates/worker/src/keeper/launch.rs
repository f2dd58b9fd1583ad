//! Starts one process and waits for its end.
//!
//! Guarantee: nothing here forces the standard library off `posix_spawn`: no hook before `exec`, and
//! the program is always given as a path (a bare name together with a changed `PATH` would fork).

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::hostfile::{self, Hostfile};
use super::message::StartSpec;
use super::outputs::Handles;
use crate::results;

/// Where programs are looked for when the job has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts the process in a group of its own, or says in words why there is none.
pub(super) fn spawn(
    spec: &StartSpec,
    base_env: &[(String, String)],
    handles: Handles,
    result: &Path,
    hostfile: Option<&Hostfile>,
) -> Result<Child, String> {
    let name = spec.argv.first().filter(|name| !name.is_empty()).ok_or("the command is empty")?;
    let program = find_program(name, spec, base_env)?;
    let mut command = Command::new(&program);
    command
        .arg0(name)
        .args(&spec.argv[1..])
        .env_clear()
        .envs(base_env.iter().filter(|(name, _)| !spec.unset.contains(name)).map(pair))
        .envs(spec.env.iter().map(pair))
        .env(results::VARIABLE, result)
        .envs(hostfile.map(|file| (hostfile::VARIABLE, file.path())))
        .current_dir(&spec.cwd)
        .stdin(Stdio::null())
        .stdout(handles.stdout)
        .stderr(handles.stderr)
        .process_group(0);
    command.spawn().map_err(|error| explain(&error, name, spec))
}

fn pair((name, value): &(String, String)) -> (&str, &str) {
    (name, value)
}

/// Blocks until the process has ended, and leaves it unreaped: its number stays taken, so signals to its
/// group cannot hit a stranger.
pub(super) fn wait_for_end(pid: u32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    while waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
        == Err(Errno::EINTR)
    {}
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

/// The system's error does not say whether the program or the directory is missing.
fn explain(error: &io::Error, name: &str, spec: &StartSpec) -> String {
    match std::fs::metadata(&spec.cwd) {
        Err(cause) => format!("cannot enter the working directory {:?}: {cause}", spec.cwd),
        Ok(found) if !found.is_dir() => format!("the working directory {:?} is not a directory", spec.cwd),
        Ok(_) => format!("cannot start {name:?}: {error}"),
    }
}
