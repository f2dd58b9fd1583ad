//! Removing what nobody looks after any more.
//!
//! The keeper and its guard speak to no engine themselves: they start this program once more, which removes the container of one
//! attempt, or all containers of a data directory.
//!
//! Guarantees: nothing of a worker that runs no containers is ever done; a removal is bounded in time; processes are ended even
//! if the engine does not answer.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::Docker;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep, timeout};

use super::engine::Reach;
use super::errors::status;
use super::labels::{DIRECTORY, key_of};
use super::note::Note;
use crate::keeper::Key;
use crate::orphans;

/// The first argument of a program that removes; then the data directory, and the name of one container or nothing.
const REMOVAL_ARGUMENT: &str = "__container-removal";
/// Names the engine once a container was started. Without it there is nothing to remove.
const IN_USE: &str = "container-engine";
/// How long an engine is asked.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(50);

/// Notes that there may be containers of this data directory, and where.
pub(crate) fn mark_in_use(directory: &Path, reach: &Reach) -> std::io::Result<()> {
    // Several attempts may begin at once.
    static GATE: Mutex<()> = Mutex::new(());
    let _gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    let (path, text) = (directory.join(IN_USE), serde_json::to_vec(reach)?);
    if fs::read(&path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let aside = path.with_extension("new");
    fs::write(&aside, text)?;
    fs::rename(aside, path)
}

/// Whether a container was ever started for this data directory.
pub(crate) fn is_in_use(directory: &Path) -> bool {
    directory.join(IN_USE).exists()
}

pub(super) fn reach(directory: &Path) -> Option<Reach> {
    serde_json::from_slice(&fs::read(directory.join(IN_USE)).ok()?).ok()
}

/// Has a process of its own remove the container of one attempt, or all. Waits for it.
pub(crate) fn remove_in_process(directory: &Path, name: Option<&str>) {
    if !is_in_use(directory) {
        return;
    }
    let removal = Command::new("/proc/self/exe")
        .arg0("muster-container-removal")
        .arg(REMOVAL_ARGUMENT)
        .arg(directory)
        .args(name)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    if let Err(error) = removal {
        eprintln!("keeper: containers cannot be removed now: {error}");
    }
}

/// Removes containers if this process was started for that, and `None` otherwise.
pub(crate) fn run_from_arguments() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != OsStr::new(REMOVAL_ARGUMENT) {
        return None;
    }
    let directory = PathBuf::from(arguments.next()?);
    let name = arguments.next().and_then(|name| name.into_string().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let done = runtime.block_on(async {
        if let Some(name) = name {
            return remove_one(&directory, &name).await;
        }
        orphans::kill_orphans(&directory).await;
        remove_all_here(&directory).await
    });
    Some(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn remove_one(directory: &Path, name: &str) -> bool {
    let Some(client) = reach(directory).and_then(|reach| reach.client().ok()) else { return false };
    removed(&client, name, Instant::now()).await
}

/// Removes all containers of a data directory. Says whether none is left.
pub(crate) async fn remove_all_here(directory: &Path) -> bool {
    let Some(reach) = reach(directory) else { return true };
    remove_strangers(&reach, directory, &HashSet::new(), Duration::ZERO).await.is_ok()
}

/// Removes the containers of a data directory whose attempt is not among the known ones, of those that are old enough.
/// Returns how many there were.
pub(crate) async fn remove_strangers(
    reach: &Reach,
    directory: &Path,
    known: &HashSet<Key>,
    older_than: Duration,
) -> Result<usize, String> {
    let (client, begun) = (reach.client()?, Instant::now());
    let label = format!("{DIRECTORY}={}", directory.to_string_lossy());
    let filters = HashMap::from([("label".to_owned(), vec![label])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let listed = timeout(PATIENCE, client.list_containers(Some(options))).await;
    let listed = listed.map_err(|_| "the container engine does not answer".to_owned())?;
    let mut count = 0;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_old = |created: Option<i64>| {
        let created = created.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
        older_than.is_zero() || now.saturating_sub(created) > older_than.as_secs()
    };
    for found in listed.map_err(|error| super::errors::words(&error))? {
        let key = found.labels.as_ref().and_then(key_of);
        let Some(id) = found.id.filter(|_| key.is_none_or(|key| !known.contains(&key))) else { continue };
        if !is_old(found.created) {
            continue;
        }
        if !removed(&client, &id, begun).await {
            return Err(format!("the container {id} cannot be removed"));
        }
        count += 1;
    }
    Ok(count)
}

/// Removes one container and waits until it is gone.
async fn removed(client: &Docker, name: &str, begun: Instant) -> bool {
    loop {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        match timeout(PATIENCE, client.remove_container(name, Some(options))).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) if status(&error) == Some(404) => return true,
            // Somebody else removes it just now, or the engine is starting.
            Ok(Err(_)) | Err(_) if begun.elapsed() < PATIENCE => sleep(ROUND).await,
            Ok(Err(_)) | Err(_) => return false,
        }
    }
}

/// Ends the first process of a container without the engine, and with it all others of the container. The system is asked whether
/// it still is the one that was noted.
pub(crate) fn end_first_process(note: &Note) {
    let (Some(container), Some(pid)) = (&note.container, note.first_process) else { return };
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if groups.contains(container.as_str()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_mark_nothing_is_asked() {
        let root = tempfile::tempdir().unwrap();
        assert!(!is_in_use(root.path()));
        assert!(remove_all_here(root.path()).await);
        let reach = Reach { socket: "/no/such/socket".into(), api: (1, 41), is_podman: false };
        mark_in_use(root.path(), &reach).unwrap();
        mark_in_use(root.path(), &reach).unwrap();
        assert!(is_in_use(root.path()));
        assert!(!remove_all_here(root.path()).await, "there is no engine");
    }

    #[test]
    fn a_process_of_something_else_is_left_alone() {
        let own = i32::try_from(std::process::id()).unwrap();
        let note = Note { container: Some("f".repeat(64)), first_process: Some(own), ..Note::default() };
        end_first_process(&note);
    }
}
