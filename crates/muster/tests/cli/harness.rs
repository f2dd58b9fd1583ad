//! Starts the program in a directory of its own, with nothing of ours in its environment.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use muster_tests::{ContainerEngine, Process, eventually, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes; a test that reaches it has failed.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Whether there is such a process. One that has ended and waits for its parent is none.
pub(crate) fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// The program, without settings of the surrounding environment.
pub(crate) fn muster(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(|name| name.starts_with("MUSTER_")) {
            command.env_remove(variable);
        }
    }
    command.env("HOME", directory).env_remove("XDG_DATA_HOME").env_remove("COLUMNS").current_dir(directory);
    // Screens show local time, which is not to depend on where the tests run.
    command.env("TZ", "UTC");
    command
}

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{self:?}"))
    }

    /// Fails the test unless the program succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code(), 0, "{self:?}");
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn line(&self) -> String {
        self.stdout.trim_end().to_owned()
    }
}

/// A program that runs; its output is collected as it comes.
#[derive(Debug)]
pub(crate) struct Started {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

fn collect(mut source: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

impl Started {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self { child, stdout, stderr }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Whether the program has a handler for the signal by now.
    pub(crate) fn catches(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal as i32 - 1)) != 0
    }

    pub(crate) fn finish(mut self) -> Finished {
        let status = eventually("the program ends", BOUND, || self.child.try_wait().unwrap());
        let stdout = self.stdout.take().unwrap().join().unwrap();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        Finished { status, stdout, stderr }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn launch(directory: &Path, port: u16, arguments: &[&str]) -> Process {
    launch_by(muster(directory), directory, port, arguments)
}

fn launch_by(mut command: Command, directory: &Path, port: u16, arguments: &[&str]) -> Process {
    command.args(["up", "--json", "--port", &port.to_string()]).args(arguments).env("MUSTER_WORKERS", "2");
    // Every start has its own log, so that its own announcement is awaited.
    let starts = std::fs::read_dir(directory).unwrap().count();
    Process::start("muster up", command, &directory.join(format!("up-{starts}.log")))
}

/// A `muster up` on a port of its own.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) process: Process,
    pub(crate) url: String,
    pub(crate) directory: TempDir,
}

impl Up {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let directory = TempDir::with_prefix("muster-test-").unwrap();
        let process = launch(directory.path(), 0, arguments);
        let mut up = Self { process, url: String::new(), directory };
        up.await_ready();
        up
    }

    /// Starts with this engine for containers.
    pub(crate) fn start_contained(engine: &ContainerEngine) -> Self {
        let directory = TempDir::with_prefix("muster-test-").unwrap();
        let mut command = muster(directory.path());
        command.env("DOCKER_HOST", format!("unix://{}", engine.socket().display()));
        let process = launch_by(command, directory.path(), 0, &[]);
        let mut up = Self { process, url: String::new(), directory };
        up.await_ready();
        up
    }

    /// Starts with these settings of a scheduler in its `muster.toml`.
    pub(crate) fn start_configured(settings: &str) -> Self {
        let directory = TempDir::with_prefix("muster-test-").unwrap();
        std::fs::write(directory.path().join("muster.toml"), format!("[scheduler]\n{settings}\n")).unwrap();
        let process = launch(directory.path(), 0, &[]);
        let mut up = Self { process, url: String::new(), directory };
        up.await_ready();
        up
    }

    /// Kills without a chance to tidy up, and starts again on the same port and data.
    pub(crate) fn kill_and_restart(&mut self) {
        self.process.kill9();
        let port = self.url.rsplit(':').next().unwrap().parse().unwrap();
        self.process = launch(self.directory.path(), port, &[]);
        self.await_ready();
    }

    fn await_ready(&mut self) {
        let process = &mut self.process;
        self.url = eventually("muster up is ready", BOUND, || {
            assert!(process.is_alive(), "{}", process.output());
            let output = process.output();
            let ready = output.lines().rfind(|line| line.contains("\"url\""))?;
            let ready: Value = serde_json::from_str(ready).ok()?;
            Some(ready["url"].as_str()?.to_owned())
        });
    }

    /// The program as a client of this scheduler.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = muster(self.directory.path());
        command.env("MUSTER_URL", &self.url).args(arguments);
        command
    }

    pub(crate) fn start_command(&self, arguments: &[&str]) -> Started {
        Started::spawn(self.command(arguments))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.start_command(arguments).finish()
    }

    /// Runs with something on standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Finished {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Started { child, stdout, stderr }.finish()
    }

    pub(crate) fn submit(&self, arguments: &[&str]) -> String {
        let words: Vec<&str> = ["submit"].into_iter().chain(arguments.iter().copied()).collect();
        self.run(&words).ok().line()
    }

    pub(crate) fn show(&self, job: &str) -> Value {
        self.run(&["show", job, "--json"]).ok().json()
    }

    pub(crate) fn await_status(&self, job: &str, status: &str) {
        until(&format!("{job} is {status}"), BOUND, || self.show(job)["status"] == status);
    }

    /// The one job that there is.
    pub(crate) fn only_job(&self) -> String {
        eventually("there is a job", BOUND, || {
            let jobs = self.run(&["ls", "--json"]).ok().json();
            jobs[0]["id"].as_str().map(str::to_owned)
        })
    }
}

impl Drop for Up {
    /// Ends the jobs with it: the first signal asks, the second does not.
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.process.is_alive() && Instant::now() < deadline {
            self.process.signal(Signal::SIGTERM);
            thread::sleep(Duration::from_millis(50));
        }
    }
}
