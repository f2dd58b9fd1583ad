//! The end of a worker: no new jobs, running ones may finish, what is left is stopped and handed back.

use std::time::Duration;

use muster_protocol::ReportKind;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use super::agent_loop::Agent;
use crate::keeper::{StopCause, StopSpec, ToKeeper};

/// How long a poll that may claim something is waited for, once the scheduler knows that we leave.
const LAST_POLL: Duration = Duration::from_secs(1);
/// What reports and output get after the last process is gone.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// What checkpoints that are still on the way get on top.
const LAST_CHECKPOINTS: Duration = Duration::from_secs(60);
/// All that a forced end waits for.
const FORCED: Duration = Duration::from_secs(2);

/// What the host asks of the worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shutdown {
    #[default]
    No,
    /// Finish, within the limit.
    Graceful,
    /// Kill the jobs and go.
    Force,
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExitSummary {
    /// Jobs that came to an end here.
    pub jobs: u64,
    /// Jobs had to be stopped because the time for a shutdown was over.
    pub over_limit: bool,
    pub forced: bool,
}

impl ExitSummary {
    /// The exit code of a worker's process.
    pub fn exit_code(self) -> u8 {
        u8::from(self.over_limit || self.forced)
    }
}

/// A first SIGTERM or SIGINT asks for an orderly end, a second one forces it.
pub fn shutdown_on_signals() -> std::io::Result<watch::Receiver<Shutdown>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(Shutdown::No);
    tokio::spawn(async move {
        for stage in [Shutdown::Graceful, Shutdown::Force] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            sender.send_replace(stage);
        }
        // The receiver treats a lost sender as silence; keeping it costs nothing.
        std::future::pending::<()>().await;
    });
    Ok(receiver)
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Running jobs may finish until then.
    Finishing(Instant),
    /// Everything was told to stop; nothing is waited for beyond this time.
    Stopping(Instant),
}

/// The state of the shutdown.
#[derive(Debug)]
pub(super) struct Drain {
    stage: Stage,
    poll_until: Option<Instant>,
    /// Checkpoints were given more time.
    extended: bool,
    pub(super) summary: ExitSummary,
}

impl Drain {
    pub(super) fn new() -> Self {
        Self { stage: Stage::Serving, poll_until: None, extended: false, summary: ExitSummary::default() }
    }

    pub(super) fn is_serving(&self) -> bool {
        self.stage == Stage::Serving
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let stage = match self.stage {
            Stage::Serving => None,
            Stage::Finishing(until) | Stage::Stopping(until) => Some(until),
        };
        [stage, self.poll_until].into_iter().flatten().min()
    }
}

impl Agent {
    /// The host has asked for something.
    pub(super) fn on_shutdown(&mut self, asked: Shutdown) {
        match asked {
            Shutdown::Graceful if self.drain.is_serving() => self.begin_drain(),
            Shutdown::No | Shutdown::Graceful => {}
            Shutdown::Force => self.force(),
        }
    }

    fn begin_drain(&mut self) {
        let now = Instant::now();
        tracing::info!(jobs = self.held.live(), "worker shutting down");
        self.drain.stage = Stage::Finishing(now + self.config.timing.shutdown);
        for key in self.held.queued_keys() {
            self.executor.send(ToKeeper::Withdraw { key });
        }
        self.release_unstarted();
        if self.calls.poll_max() == Some(0) {
            self.calls.abandon_poll();
        } else if self.calls.poll_max().is_some() {
            self.calls.recall();
            self.drain.poll_until = Some(now + LAST_POLL);
        }
    }

    fn force(&mut self) {
        if self.drain.summary.forced {
            return;
        }
        tracing::warn!(jobs = self.held.live(), "forced to end, killing the jobs");
        self.drain.summary.forced = true;
        self.drain.stage = Stage::Stopping(Instant::now() + FORCED);
        self.calls.abandon_poll();
        self.release_unstarted();
        self.stop_all(Some(0));
    }

    /// Hands back what is being prepared, or waits for the others of its gang.
    fn release_unstarted(&mut self) {
        for key in self.held.unstarted_keys() {
            self.report_unstarted(&key, ReportKind::Released, None);
        }
    }

    /// Tells every job to stop and that it will go on elsewhere, with its own grace or a given one. Returns the
    /// longest grace.
    fn stop_all(&mut self, grace_ms: Option<u64>) -> u64 {
        let mut longest = 0;
        for key in self.held.live_keys() {
            let own = self.held.get(&key).map_or(0, |held| held.note.grace_ms);
            let grace_ms = grace_ms.unwrap_or(own);
            longest = longest.max(grace_ms);
            let cause = StopCause::Shutdown;
            let stop = StopSpec { key, grace_ms, cause, signal: None, scope: None, words: None };
            self.executor.send(ToKeeper::Stop(Box::new(stop)));
        }
        longest
    }

    /// Does what is due. Returns whether the worker can end now.
    pub(super) fn drain_step(&mut self, now: Instant) -> bool {
        if self.drain.poll_until.is_some_and(|until| now >= until) {
            self.calls.abandon_poll();
            self.drain.poll_until = None;
        }
        let over = self.held.is_empty()
            && self.ready.is_empty()
            && self.calls.poll_max().is_none()
            && !self.calls.is_reporting()
            && !self.calls.is_recalling();
        match self.drain.stage {
            Stage::Finishing(_) | Stage::Stopping(_) if over => true,
            Stage::Finishing(until) if now >= until => {
                let jobs = self.held.live();
                if jobs > 0 {
                    tracing::warn!(jobs, "the time for a shutdown is over, stopping the jobs");
                    self.drain.summary.over_limit = true;
                }
                let grace = Duration::from_millis(self.stop_all(None));
                self.drain.stage = Stage::Stopping(now + grace + LAST_WORDS);
                false
            }
            Stage::Stopping(until) if now >= until => {
                if self.held.is_saving() && !self.drain.summary.forced && !self.drain.extended {
                    self.drain.extended = true;
                    self.drain.stage = Stage::Stopping(now + LAST_CHECKPOINTS);
                    return false;
                }
                tracing::error!(jobs = self.held.len(), "ending although not everything could be reported");
                self.drain.summary.over_limit = true;
                true
            }
            Stage::Serving | Stage::Finishing(_) | Stage::Stopping(_) => false,
        }
    }
}
