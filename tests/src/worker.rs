//! A real `muster-worker` process.
//!
//! The worker keeps its jobs alive when it is killed itself. Everything that it has started has to do with its
//! data directory, and is found and ended by that when the test ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::process::{Process, binary};
use crate::scheduler::{Scheduler, Settings};
use crate::wait::{eventually, until};

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    pub id: String,
    pub slots: u32,
    pub settings: Settings,
}

impl WorkerSettings {
    pub fn new(id: &str, slots: u32) -> Self {
        Self { id: id.to_owned(), slots, settings: Settings::default() }
    }

    /// Adds a setting by the name of its flag.
    #[must_use]
    pub fn set(mut self, flag: &str, value: &str) -> Self {
        self.settings = self.settings.set(flag, value);
        self
    }
}

/// A worker and its data directory, which a restarted one finds again.
#[derive(Debug)]
pub struct Worker {
    process: Process,
    settings: WorkerSettings,
    url: String,
    directory: Arc<TempDir>,
}

impl Worker {
    /// Starts a worker and waits until the scheduler lists it.
    pub fn start(scheduler: &Scheduler, settings: WorkerSettings) -> Self {
        Self::start_by(scheduler, &scheduler.url(), settings)
    }

    /// Starts a worker that reaches the scheduler by another address.
    pub fn start_by(scheduler: &Scheduler, url: &str, settings: WorkerSettings) -> Self {
        let mut worker = Self::start_unheard(url, settings);
        worker.await_registered(scheduler);
        worker
    }

    /// Starts a worker and waits for nothing: the scheduler may not tell us about it.
    pub fn start_unheard(url: &str, settings: WorkerSettings) -> Self {
        let directory = TempDir::with_prefix("muster-worker-").expect("the temporary directory is writable");
        let directory = Arc::new(directory);
        let process = launch(url, &settings, &directory);
        Self { process, settings, url: url.to_owned(), directory }
    }

    /// Starts again with the same id and data directory after the process has ended.
    pub fn restart(&mut self) {
        self.process = launch(&self.url, &self.settings, &self.directory);
    }

    fn await_registered(&mut self, scheduler: &Scheduler) {
        let id = self.settings.id.clone();
        let process = &mut self.process;
        eventually("the worker is registered", Duration::from_secs(30), || {
            if let Some(status) = process.ended() {
                panic!("the worker ended with {status}:\n{}", process.output());
            }
            let workers = scheduler.workers();
            workers.into_iter().find(|worker| worker["id"] == id.as_str() && worker["status"] == "active")
        });
    }

    pub fn id(&self) -> &str {
        &self.settings.id
    }

    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Kills the process that holds the jobs; false when there is none at the moment.
    pub fn kill9_keeper(&self) -> bool {
        self.signal_keeper(Signal::SIGKILL)
    }

    /// Signals the process that holds the jobs; false when there is none at the moment.
    pub fn signal_keeper(&self, signal: Signal) -> bool {
        let keepers = processes_of(self.directory.path()).into_iter().filter(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim_end() == "muster-keeper"
        });
        keepers.filter(|pid| kill(Pid::from_raw(*pid), signal).is_ok()).count() > 0
    }

    /// Signals everything that runs on this worker's machine: the agent, the keeper and all that jobs have started.
    pub fn signal_machine(&self, signal: Signal) {
        for pid in processes_of(self.directory.path()) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Ends the worker's machine, as a power cut does: nothing of it is left.
    pub fn kill9_machine(&mut self) {
        until("everything on the machine has ended", Duration::from_secs(20), || {
            self.signal_machine(Signal::SIGKILL);
            !self.process.is_alive() && processes_of(self.directory.path()).is_empty()
        });
    }

    /// Asks for a polite end and waits for it.
    pub fn terminate(&mut self, bound: Duration) -> ExitStatus {
        self.process.signal(Signal::SIGTERM);
        self.process.wait(bound)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.process.signal(Signal::SIGKILL);
        for pid in processes_of(self.directory.path()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// The processes that have to do with the directory: by their environment, their arguments, where they stand or
/// where their output goes. The directory's name is unique, so that no other process is meant.
fn processes_of(directory: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id() as i32;
    pids.filter(|pid| *pid != own && concerns(*pid, directory)).collect()
}

fn concerns(pid: i32, directory: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let marker = directory.as_os_str().as_encoded_bytes();
    let mentions = |file: &str| {
        let content = fs::read(process.join(file)).unwrap_or_default();
        content.windows(marker.len()).any(|window| window == marker)
    };
    let leads_there =
        |link: &str| fs::read_link(process.join(link)).is_ok_and(|path| path.starts_with(directory));
    ["environ", "cmdline"].into_iter().any(mentions) || ["cwd", "fd/1", "fd/2"].into_iter().any(leads_there)
}

fn launch(url: &str, settings: &WorkerSettings, directory: &TempDir) -> Process {
    let mut command = Command::new(binary("muster-worker"));
    command.args(["--scheduler", url, "--worker-id", &settings.id, "--workers", &settings.slots.to_string()]);
    command.arg("--data-dir").arg(directory.path()).current_dir(directory.path());
    settings.settings.apply(&mut command);
    Process::start("muster-worker", command, &directory.path().join("worker.log"))
}
