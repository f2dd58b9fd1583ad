//! The program that an engine runs beside a job: its number on this machine, its signals, its end.
//!
//! Guarantee: a signal is sent only to a process that the system still shows in the container.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bollard::Docker;
use bollard::exec::{ResizeExecOptions, StartExecOptions};
use bollard::models::{ExecConfig, ExecInspectResponse};
use nix::errno::Errno;
use nix::libc;
use tokio::time::{Instant, sleep, timeout};

use super::REQUEST;
use crate::containers::errors::{status, words};
use crate::containers::process_end::watch_end;
use crate::keeper::descendants;

/// Between two questions whether it has begun, or ended.
const ROUND: Duration = Duration::from_millis(20);
/// How long its first process may go without a question to the engine.
const LOOK: Duration = Duration::from_secs(2);
/// How long an engine that does not answer is asked.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the size of a terminal is told that the engine is still making.
const TRIES: u32 = 50;
/// The exit code of what was killed, with the container or by name.
const KILLED: i64 = 137;

/// A program in a container.
#[derive(Debug, Clone)]
pub(super) struct Program {
    client: Docker,
    id: String,
    /// Its number on this machine; 0 as long as it is not known.
    pid: Arc<AtomicI32>,
}

impl Program {
    pub(super) fn new(client: Docker, id: String) -> Self {
        Self { client, id, pid: Arc::default() }
    }

    async fn inspect(&self) -> Result<ExecInspectResponse, bollard::errors::Error> {
        let asked = timeout(REQUEST, self.client.inspect_exec(&self.id)).await;
        asked.unwrap_or(Err(bollard::errors::Error::RequestTimeoutError))
    }

    /// Waits for its end and says with which code.
    pub(super) async fn end(&self) -> Result<i64, String> {
        let mut heard = Instant::now();
        loop {
            let found = match self.inspect().await {
                Ok(found) => found,
                // The container is gone, and all that was in it.
                Err(error) if status(&error) == Some(404) => return Ok(KILLED),
                Err(error) if heard.elapsed() > PATIENCE => return Err(words(&error)),
                Err(_) => {
                    sleep(ROUND).await;
                    continue;
                }
            };
            heard = Instant::now();
            if let (Some(code), false) = (found.exit_code, found.running.unwrap_or(false)) {
                return Ok(code);
            }
            let pid = found.pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
            let Some(pid) = pid else {
                sleep(ROUND).await;
                continue;
            };
            self.pid.store(pid, Ordering::Relaxed);
            match watch_end(pid) {
                Ok(end) => drop(timeout(LOOK, end.readable()).await),
                Err(_) => sleep(ROUND).await,
            }
            // The engine may hear of it a moment later.
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Sends a signal to the program and its group; a kill goes to all that it has started too.
    pub(super) async fn signal(&self, signal: i32) {
        let Some((pid, inside)) = self.process().await else { return };
        let started = if signal == libc::SIGKILL { descendants(pid) } else { Vec::new() };
        let sent = match send(-pid, signal) {
            Err(Errno::ESRCH) => send(pid, signal),
            sent => sent,
        };
        for process in started {
            process.signal(signal);
        }
        if sent == Err(Errno::EPERM) {
            self.signal_from_inside(inside, signal).await;
        }
    }

    /// Its number here and in the container, if it is alive.
    async fn process(&self) -> Option<(i32, i32)> {
        let pid = match self.pid.load(Ordering::Relaxed) {
            0 => i32::try_from(self.inspect().await.ok()?.pid?).ok().filter(|pid| *pid > 0)?,
            pid => pid,
        };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let numbers: Vec<i32> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        // A process of this machine has one number, and none of a container has.
        (numbers.len() > 1).then(|| (pid, *numbers.last().unwrap_or(&0)))
    }

    /// Where this process may not signal it, one in the container may.
    async fn signal_from_inside(&self, inside: i32, signal: i32) {
        let Ok(found) = self.inspect().await else { return };
        let Some(container) = found.container_id else { return };
        let script = format!("kill -{signal} -{inside} 2>/dev/null || kill -{signal} {inside}");
        let config = ExecConfig {
            user: Some("0".to_owned()),
            cmd: Some(["sh", "-c", &script].map(str::to_owned).to_vec()),
            ..ExecConfig::default()
        };
        // A container without a shell keeps the program until it ends.
        if let Ok(made) = self.client.create_exec(&container, config).await {
            let options = StartExecOptions { detach: true, ..StartExecOptions::default() };
            let _ = timeout(REQUEST, self.client.start_exec(&made.id, Some(options))).await;
        }
    }

    /// Tells the size of its terminal.
    pub(super) async fn resize(&self, width: u16, height: u16) -> bool {
        let options = ResizeExecOptions { height, width };
        matches!(timeout(REQUEST, self.client.resize_exec(&self.id, options)).await, Ok(Ok(())))
    }

    /// The same when the terminal is still being made.
    pub(super) async fn resize_first(&self, width: u16, height: u16) {
        for _ in 0..TRIES {
            if self.resize(width, height).await {
                return;
            }
            sleep(ROUND).await;
        }
    }
}

fn send(target: i32, signal: i32) -> Result<(), Errno> {
    #[expect(unsafe_code, reason = "the safe wrapper does not know real-time signals")]
    // SAFETY: the call takes two integers and touches no memory of ours.
    let sent = unsafe { libc::kill(target, signal) };
    Errno::result(sent).map(drop)
}
