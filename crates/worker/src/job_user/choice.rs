//! Whose user the jobs of this worker run as: checked once at the start, and found out for each job.
//!
//! Guarantees: a worker that cannot do what it was told does not start; a name that a client only claimed becomes nobody's
//! user; nobody becomes root unless that was allowed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_protocol::Job;
use nix::unistd::{User, geteuid};

use super::plain_file::is_guarded;
use super::{JobUser, RunAs, acting_as, lookup, ways};
use crate::error::WorkerError;

/// How long what was looked up is remembered: the user database may be on another machine.
const REMEMBERED: Duration = Duration::from_secs(10);
/// With this, processes that have changed their user can be looked into by others of that user before they have their program.
const OPEN_PROCESSES: &str = "1";

/// Why a job cannot run here as the user that it should run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoUser {
    /// It would not elsewhere either.
    Unproven(String),
    /// On another machine it may.
    Here(String),
}

/// Whose user jobs run as.
#[derive(Debug)]
pub(crate) struct JobUsers {
    mode: Mode,
    allows_root: bool,
    worker: String,
    known: HashMap<String, (Instant, Option<JobUser>)>,
}

#[derive(Debug)]
enum Mode {
    Worker,
    Fixed(JobUser),
    Submitter,
}

impl JobUsers {
    /// Checks that jobs can run as they are to.
    pub(crate) fn choose(
        run_as: &RunAs,
        allows_root: bool,
        worker: &str,
        data_dir: &Path,
    ) -> Result<Self, WorkerError> {
        let mode = choose(run_as, allows_root);
        let mode = mode.and_then(|mode| match mode {
            Mode::Worker => Ok(mode),
            Mode::Fixed(_) | Mode::Submitter => prepare(&mode, data_dir).map(|()| mode),
        });
        let mode = mode.map_err(|why| WorkerError::RunAs { wanted: run_as.to_string(), why })?;
        Ok(Self { mode, allows_root, worker: worker.to_owned(), known: HashMap::new() })
    }

    /// Whether jobs may have other users than the worker.
    pub(crate) const fn are_others(&self) -> bool {
        !matches!(self.mode, Mode::Worker)
    }

    /// The user that a job runs as; `None` for the worker's own.
    pub(crate) fn of_job(&mut self, job: &Job) -> Result<Option<JobUser>, NoUser> {
        match &self.mode {
            Mode::Worker => return Ok(None),
            Mode::Fixed(user) => return Ok(Some(user.clone())),
            Mode::Submitter => {}
        }
        let worker = &self.worker;
        let Some(name) = job.proven_user.clone() else {
            return Err(NoUser::Unproven(unproven(job.user.as_deref(), worker)));
        };
        let Some(user) = self.find(&name).map_err(NoUser::Here)? else {
            return Err(NoUser::Here(format!(
                "worker {} runs jobs as their submitter, and there is no user {name} on its machine: make one there (useradd -m \
                 {name}), or send the job to other workers by tags",
                self.worker
            )));
        };
        if user.uid == 0 && !self.allows_root {
            return Err(NoUser::Here(root_refused(&format!(
                "the submitter {name} is root on worker {}",
                self.worker
            ))));
        }
        Ok(Some(user))
    }

    fn find(&mut self, name: &str) -> Result<Option<JobUser>, String> {
        if let Some((since, known)) = self.known.get(name)
            && since.elapsed() < REMEMBERED
        {
            return Ok(known.clone());
        }
        let found = lookup::find(name)?;
        self.known.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        // Whoever is missing may be made any moment.
        if found.is_some() {
            self.known.insert(name.to_owned(), (Instant::now(), found.clone()));
        }
        Ok(found)
    }
}

fn unproven(claimed: Option<&str>, worker: &str) -> String {
    let who = match claimed {
        Some(name) => format!("the scheduler has not proven that {name} submitted this job"),
        None => "the scheduler does not know who submitted this job".to_owned(),
    };
    format!(
        "worker {worker} runs jobs as their submitter, and {who}: submit it with your own account (muster login), without naming \
         another user, to a scheduler of this version"
    )
}

fn root_refused(what: &str) -> String {
    format!(
        "{what}, and a job of root could do anything to the machine and to other jobs: run it as another user, or start the worker \
         with --allow-root-jobs"
    )
}

fn choose(run_as: &RunAs, allows_root: bool) -> Result<Mode, String> {
    let own = geteuid();
    match run_as {
        RunAs::Worker => Ok(Mode::Worker),
        RunAs::User(name) => {
            let Some(user) = lookup::find(name)? else {
                return Err(format!(
                    "there is no user {name} on this machine: make one (useradd -m {name}), or name another"
                ));
            };
            if user.uid == own.as_raw() && !own.is_root() {
                return Ok(Mode::Worker);
            }
            if user.uid == 0 && !allows_root {
                return Err(root_refused(&format!("the user {name} is root")));
            }
            if own.is_root() { Ok(Mode::Fixed(user)) } else { Err(not_root()) }
        }
        RunAs::Submitter if own.is_root() => Ok(Mode::Submitter),
        RunAs::Submitter => Err(not_root()),
    }
}

fn not_root() -> String {
    let own = geteuid();
    let name = User::from_uid(own).ok().flatten().map_or_else(|| own.to_string(), |user| user.name);
    format!(
        "the worker runs as {name}, and only root can start jobs as other users: start it as root, or with --run-as worker"
    )
}

/// Checks what protects the worker from its jobs, and lets their users reach what is theirs.
fn prepare(mode: &Mode, data_dir: &Path) -> Result<(), String> {
    let dumpable = std::fs::read_to_string("/proc/sys/fs/suid_dumpable").unwrap_or_default();
    if dumpable.trim() == OPEN_PROCESSES {
        return Err("fs.suid_dumpable is 1, so that users could look into processes of the worker while these become theirs: set it \
                    to 0 or 2 (sysctl fs.suid_dumpable=0)"
            .to_owned());
    }
    if !is_guarded() {
        return Err("the system does not know openat2, by which files of jobs are opened safely; it needs Linux 5.6 or later, and a \
                    sandbox that lets the call pass"
            .to_owned());
    }
    ways::open(data_dir)?;
    let Mode::Fixed(user) = mode else { return Ok(()) };
    let rooms: PathBuf = crate::attempt_room::rooms_directory(data_dir).join(".");
    let reached = acting_as(Some(user), || std::fs::metadata(&rooms));
    reached.map(drop).map_err(|error| {
        format!("the user {} cannot get to the data directory {}: {error}", user.name, data_dir.display())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn job(user: Option<&str>, proven: Option<&str>) -> Job {
        Job { user: user.map(str::to_owned), proven_user: proven.map(str::to_owned), ..Job::default() }
    }

    fn users(run_as: &str, allows_root: bool, data_dir: &Path) -> Result<JobUsers, String> {
        let run_as: RunAs = run_as.parse().unwrap();
        JobUsers::choose(&run_as, allows_root, "w1", data_dir).map_err(|error| error.to_string())
    }

    /// A directory that everyone can get to.
    fn data_dir() -> tempfile::TempDir {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        root
    }

    #[test]
    fn a_worker_that_cannot_do_it_does_not_start() {
        let data = data_dir();
        let nobody_there = users("user:no-such-user-here", false, data.path()).unwrap_err();
        assert!(nobody_there.contains("no user no-such-user-here"), "{nobody_there}");
        let root = users("user:root", false, data.path()).unwrap_err();
        assert!(root.contains("--allow-root-jobs"), "{root}");
        assert!(users("user:root", true, data.path()).unwrap().are_others());
        assert!(!users("worker", false, Path::new("/nowhere")).unwrap().are_others());
        let inner = data.path().join("closed/data");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::set_permissions(data.path().join("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let closed = users("submitter", false, &inner).unwrap_err();
        assert!(closed.contains("closed is closed to them") && closed.contains("--data-dir"), "{closed}");
    }

    #[test]
    fn only_what_is_proven_and_known_here_becomes_a_user() {
        let data = data_dir();
        let mut users_here = users("submitter", false, data.path()).unwrap();
        let claimed = users_here.of_job(&job(Some("daemon"), None)).unwrap_err();
        assert!(
            matches!(&claimed, NoUser::Unproven(why) if why.contains("not proven that daemon") && why.contains("w1"))
        );
        assert!(matches!(users_here.of_job(&job(None, None)), Err(NoUser::Unproven(_))));
        let missing = users_here.of_job(&job(None, Some("no-such-user-here"))).unwrap_err();
        assert!(
            matches!(&missing, NoUser::Here(why) if why.contains("useradd -m no-such-user-here") && why.contains("w1"))
        );
        let root = users_here.of_job(&job(None, Some("root"))).unwrap_err();
        assert!(matches!(&root, NoUser::Here(why) if why.contains("--allow-root-jobs")));
        let daemon = users_here.of_job(&job(Some("daemon"), Some("daemon"))).unwrap().unwrap();
        assert_eq!((daemon.name.as_str(), daemon.uid > 0), ("daemon", true));
        let mut lenient = users("submitter", true, data.path()).unwrap();
        assert_eq!(lenient.of_job(&job(None, Some("root"))).unwrap().unwrap().uid, 0);
        let mut own = users("worker", false, data.path()).unwrap();
        assert_eq!(own.of_job(&job(Some("daemon"), None)), Ok(None));
    }
}
