//! `muster run --pty`: a job in a terminal, with ours as its keyboard and screen.
//!
//! Guarantee: the job does not depend on us. When our end of the session is lost it goes on, and we come back to it as long as
//! that is possible; a new attempt of it is entered like the first.

use std::time::Duration;

use muster_client::{Client, LogQuery};
use muster_protocol::{Job, SubmitRequest, TerminalKind, TerminalOpen};
use tokio::time::Instant;

use super::run::{cancel, tell_end};
use crate::exit;
use crate::failure::UsageError;
use crate::follow::{Sink, Streams, copy};
use crate::output::{after_key, note};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::terminal::{DetachKeys, Left, Wish, has_terminal, running, size};

/// How long a lost session is tried to be had again.
const COME_BACK: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(300);
/// How often, and with which pause, it is looked whether an attempt is over.
const LOOKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Makes a request one of a job in a terminal like ours.
pub(super) fn ask(request: &mut SubmitRequest, detach: bool, many: bool) -> anyhow::Result<()> {
    let wrong = |text: &str| Err(UsageError(text.to_owned()).into());
    if many || request.gang_size.is_some() {
        return wrong("--pty is for one job: arrays and gangs have no one terminal");
    }
    if !detach && !has_terminal() {
        return wrong("--pty needs a terminal at standard input and output; leave it out to run without one");
    }
    request.pty = Some(size().unwrap_or_default());
    if let Ok(term) = std::env::var("TERM") {
        request.env.entry("TERM".to_owned()).or_insert(term);
    }
    Ok(())
}

/// What follows the session of one attempt.
enum Next {
    /// Wait for the end, or for the next attempt.
    Wait,
    Leave(u8),
}

/// Stays with a job until it has ended or we are told to leave it. `keys` leave a job that can go on without us.
pub(super) async fn follow(
    client: &Client,
    job: &Job,
    keys: DetachKeys,
    signals: &mut Signals,
    settings: &Settings,
) -> anyhow::Result<u8> {
    let (mut entered, mut seen) = (0, 0);
    loop {
        let job = tokio::select! {
            job = running(client, &job.id, seen) => job?,
            code = signals.next() => {
                after_key();
                note("cancelling the job");
                cancel(client, &job.id).await;
                return Ok(code);
            }
        };
        if exit::is_final(job.status) {
            // Too short for us to be there: what it wrote is kept.
            if entered != job.lease {
                print(client, &job, settings).await?;
            }
            tell_end(&job);
            return Ok(exit::of_job(&job));
        }
        if seen > 0 {
            note(&format!("{} runs again, attempt {}", job.id, job.attempts));
        }
        seen = job.lease;
        match stay(client, &job, &keys, &mut entered).await? {
            Next::Wait => {}
            Next::Leave(code) => return Ok(code),
        }
    }
}

/// Attached to one attempt, again and again while the connection breaks.
async fn stay(client: &Client, job: &Job, keys: &DetachKeys, entered: &mut u64) -> anyhow::Result<Next> {
    let mut lost_at: Option<Instant> = None;
    loop {
        let wish = Wish {
            open: TerminalOpen { size: size(), ..TerminalOpen::default() },
            raw: true,
            input: true,
            detach: keys.clone(),
            forwards_signals: false,
        };
        let begun = Instant::now();
        let left = match client.open_terminal(&job.id, TerminalKind::Attach).await {
            Ok(terminal) => {
                let left = crate::terminal::serve(terminal, wish).await?;
                if !matches!(left, Left::Refused(_)) {
                    *entered = job.lease;
                }
                left
            }
            Err(error) => Left::Lost(error),
        };
        match left {
            Left::Ended(end) if end.exit_code.is_some() || end.signal.is_some() => return Ok(Next::Wait),
            Left::Ended(end) => {
                let reason = end.reason.unwrap_or_else(|| "the session has ended".to_owned());
                note(&format!("{reason}; {} goes on, `muster attach {}` comes back", job.id, job.id));
                return Ok(Next::Leave(exit::LOST));
            }
            // An attempt that has ended without us, or has just not begun.
            Left::Refused(reason) => {
                if has_moved_on(client, job).await {
                    return Ok(Next::Wait);
                }
                if lost_at.get_or_insert(Instant::now()).elapsed() > COME_BACK {
                    anyhow::bail!("{}: {reason}", job.id);
                }
            }
            Left::Detached => {
                note(&format!("detached; {} goes on, `muster attach {}` comes back", job.id, job.id));
                return Ok(Next::Leave(exit::OK));
            }
            Left::BySignal(code) => {
                note(&format!("left; {} goes on, `muster attach {}` comes back", job.id, job.id));
                return Ok(Next::Leave(code));
            }
            Left::BrokenPipe => return Ok(Next::Leave(exit::BROKEN_PIPE)),
            Left::Lost(error) => {
                if error.status().is_some_and(|status| status.as_u16() == 409) {
                    return Ok(Next::Wait);
                }
                let fatal = error.status().is_some() && !error.is_transient();
                let since = *lost_at.get_or_insert(Instant::now());
                // A session that has lasted begins the time anew.
                let since = if begun.elapsed() > COME_BACK { *lost_at.insert(Instant::now()) } else { since };
                if fatal || since.elapsed() > COME_BACK {
                    note(&format!(
                        "the terminal is lost; {} goes on, and `muster attach {}` comes back: {error}",
                        job.id, job.id
                    ));
                    return Ok(Next::Leave(exit::LOST));
                }
                if since.elapsed() < PAUSE {
                    note(&format!("the terminal is lost, coming back: {error}"));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whether the attempt is over, of which the scheduler may hear only in a moment.
async fn has_moved_on(client: &Client, job: &Job) -> bool {
    for _ in 0..LOOKS {
        match client.job(&job.id).await {
            Ok(now) if now.lease == job.lease && now.status == job.status => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            _ => return true,
        }
    }
    false
}

/// Everything that the last attempt wrote.
async fn print(client: &Client, job: &Job, settings: &Settings) -> anyhow::Result<()> {
    if job.lease == 0 {
        return Ok(());
    }
    let mut sink = Sink::new(Streams::Both, settings.screen, false);
    let mut query = LogQuery { job_id: job.id.clone(), from_lease: Some(job.lease), ..LogQuery::default() };
    copy(client, &mut query, &mut sink).await
}
