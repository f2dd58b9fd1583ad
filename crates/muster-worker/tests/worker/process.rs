//! The worker's process and what belongs to it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::scheduler::{PATIENCE, Scheduler};

/// A worker with a data directory of its own; everything that it has started ends with it.
pub(crate) struct Worker {
    child: Child,
    scheduler: Scheduler,
    flags: Vec<String>,
    /// What a shell does before it becomes the worker; nothing where it is empty.
    words: String,
    directory: Arc<TempDir>,
}

impl Worker {
    /// Starts a worker that beats often.
    pub(crate) fn start(scheduler: &Scheduler, flags: &[&str]) -> Self {
        let directory = Arc::new(TempDir::with_prefix("muster-worker-test-").unwrap());
        Self::start_in(directory, scheduler, "", flags)
    }

    /// Starts a worker whose data lies outside of `/tmp`.
    pub(crate) fn start_outside_tmp(scheduler: &Scheduler, flags: &[&str]) -> Self {
        Self::start_in(outside_tmp(), scheduler, "", flags)
    }

    /// The same with one slot, after these words of a shell, which may change how `$@` is started.
    pub(crate) fn start_outside_tmp_after(scheduler: &Scheduler, words: &str, flag: &str) -> Self {
        Self::start_in(outside_tmp(), scheduler, words, &["--workers=1", flag])
    }

    /// Starts a worker with one slot by somebody who ignores these signals.
    pub(crate) fn start_ignoring(scheduler: &Scheduler, signals: &[&str]) -> Self {
        Self::start_after(scheduler, &format!("trap '' {}", signals.join(" ")))
    }

    /// Starts a worker with one slot by somebody who has this umask.
    pub(crate) fn start_under(umask: &str, scheduler: &Scheduler) -> Self {
        Self::start_after(scheduler, &format!("umask {umask}"))
    }

    /// Starts a worker with one slot after these words of a shell.
    pub(crate) fn start_after(scheduler: &Scheduler, words: &str) -> Self {
        let directory = Arc::new(TempDir::with_prefix("muster-worker-test-").unwrap());
        Self::start_in(directory, scheduler, words, &["--workers=1"])
    }

    fn start_in(directory: Arc<TempDir>, scheduler: &Scheduler, words: &str, flags: &[&str]) -> Self {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let child = launch(scheduler, words, &flags, directory.path());
        Self { child, scheduler: scheduler.clone(), flags, words: words.to_owned(), directory }
    }

    /// Starts again in the same data directory.
    pub(crate) fn restart(&mut self) {
        self.child = launch(&self.scheduler, &self.words, &self.flags, self.directory.path());
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What belongs to attempts: notices, markers, checkpoints on their way.
    pub(crate) fn attempt_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory().join("data/attempts")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Waits until nothing of any attempt is there.
    pub(crate) fn no_file_is_left(&self) {
        eventually("the files are removed", || self.attempt_files().is_empty().then_some(()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Kills only the agent, and waits until it is gone.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the worker ends", || child.try_wait().unwrap())
    }

    /// The keeper of the data directory, if it lives.
    pub(crate) fn keeper(&self) -> Option<Pid> {
        self.keepers().into_iter().find(|pid| name_of(*pid) == "muster-keeper")
    }

    /// The process that watches the keeper, if it lives.
    pub(crate) fn guard(&self) -> Option<Pid> {
        self.keepers().into_iter().find(|pid| name_of(*pid) == "muster-guard")
    }

    /// The keeper of the data directory and its guard, as far as they live.
    pub(crate) fn keepers(&self) -> Vec<Pid> {
        let marker = self.directory.path().as_os_str().as_encoded_bytes();
        let ours = processes().filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            contains(&line, b"__keeper") && contains(&line, marker) && is_alive(pid.as_raw())
        });
        ours.collect()
    }

    /// What the worker wrote to its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("worker.log")).unwrap_or_default()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let marker = self.directory.path().as_os_str().as_encoded_bytes().to_vec();
        for pid in processes() {
            let of =
                |file: &str| contains(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default(), &marker);
            if of("cmdline") || of("environ") {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        // Nobody is left who could remove its control groups.
        let groups = fs::read_to_string(self.directory().join("data/cgroups")).unwrap_or_default();
        for tree in groups.lines() {
            for slot in fs::read_dir(tree).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(slot.path());
            }
            let _ = fs::remove_dir(tree);
        }
        if std::thread::panicking() {
            eprintln!("--- log of the worker ---\n{}", self.log());
        }
    }
}

fn outside_tmp() -> Arc<TempDir> {
    Arc::new(TempDir::with_prefix_in("muster-worker-test-", env!("CARGO_TARGET_TMPDIR")).unwrap())
}

fn name_of(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn launch(scheduler: &Scheduler, words: &str, flags: &[String], directory: &Path) -> Child {
    let worker = command(scheduler, flags, directory);
    if words.is_empty() {
        return spawn(worker, directory);
    }
    let mut command = Command::new("sh");
    let script = format!("{words}; exec \"$@\"");
    command.args(["-c", &script, "-"]).arg(worker.get_program()).args(worker.get_args());
    command.current_dir(directory);
    spawn(command, directory)
}

fn spawn(mut command: Command, directory: &Path) -> Child {
    let log = File::options().create(true).append(true).open(directory.join("worker.log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

fn command(scheduler: &Scheduler, flags: &[String], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster-worker"));
    command
        .arg(format!("--scheduler=http://{}", scheduler.address))
        .args(["--job-heartbeat-interval", "200ms", "--log", "debug,hyper=warn"])
        .arg("--data-dir")
        .arg(directory.join("data"))
        .args(flags)
        .current_dir(directory)
        .env("SECRET_OF_THE_WORKER", "hush")
        .env("LC_TEST", "passed")
        // As if the worker itself had been started by somebody's launcher.
        .envs([
            ("RANK", "9"),
            ("WORLD_SIZE", "9"),
            ("LOCAL_RANK", "9"),
            ("SLURM_JOB_ID", "9"),
            ("PET_NNODES", "9"),
        ]);
    command
}

fn processes() -> impl Iterator<Item = Pid> {
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(move |pid| *pid != own).map(Pid::from_raw)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether a process exists and is not just waiting to be collected.
pub(crate) fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Waits until something is there, within the bound of all tests.
pub(crate) fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The files of output that a worker has.
pub(crate) fn output_files(worker: &Worker) -> Vec<PathBuf> {
    let entries = fs::read_dir(worker.directory().join("data/output")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
