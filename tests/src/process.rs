//! A child process that ends with the value that holds it, and whose output is shown when a test fails.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::eventually;
use crate::watchdog;

/// The path of one of our programs: beside the running test, where cargo puts both.
pub fn binary(name: &str) -> PathBuf {
    let test = env::current_exe().expect("the test knows its own path");
    let directory = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let path = directory.join(name);
    assert!(path.is_file(), "{} is missing; run first: cargo build --workspace", path.display());
    path
}

/// A running child.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts the command with its output going to a file. Settings of the surrounding environment that would
    /// change what our programs do are taken away.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Self {
        let output =
            File::options().create(true).append(true).open(log).expect("the log file can be written");
        let errors = output.try_clone().expect("a file can be shared");
        for (variable, _) in env::vars_os() {
            let ours = variable.to_str().is_some_and(|text| text.starts_with("MUSTER_"));
            if ours && !command.get_envs().any(|(set, _)| set == variable) {
                command.env_remove(variable);
            }
        }
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        // A copy of a program is busy for as long as a process that another test has just forked holds it open for writing.
        let child =
            eventually("the program can be started", Duration::from_secs(10), || match command.spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => None,
                started => Some(started),
            });
        let child = child.unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        watchdog::add(child.id());
        Self { child, name: name.to_owned(), log: log.to_owned(), ended: None }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, once there is one.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("it is our own child");
            if self.ended.is_some() {
                watchdog::remove(self.child.id());
            }
        }
        self.ended
    }

    pub fn is_alive(&mut self) -> bool {
        self.ended().is_none()
    }

    /// Sends a signal; nothing happens when the process has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.is_alive() {
            kill(Pid::from_raw(self.child.id() as i32), signal).expect("it is our own child");
        }
    }

    /// Kills without a chance to tidy up, and waits for the end.
    pub fn kill9(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait(Duration::from_secs(10));
    }

    /// Waits for the end, which the test has brought about.
    pub fn wait(&mut self, bound: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        eventually(&what, bound, || self.ended())
    }

    /// Everything that the process has written.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            watchdog::remove(self.child.id());
        }
        if std::thread::panicking() {
            let output = self.output();
            let lines: Vec<&str> = output.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- the last lines of {} ---\n{tail}\n---", self.name);
        }
    }
}
