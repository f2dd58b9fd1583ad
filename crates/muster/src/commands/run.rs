//! `muster run`: one job or one gang in the foreground, with its output, its exit code and Ctrl-C.

use std::time::Duration;

use jiff::Timestamp;
use muster_client::{Client, ClientError, LogQuery, status_name};
use muster_protocol::{Job, JobStatus, SubmitRequest, Why};
use tokio::task::JoinHandle;

use super::submit::print_job;
use super::{array, gang, pty};
use crate::args::RunArgs;
use crate::embedded::{self, Embedded};
use crate::exit;
use crate::failure::is_broken_pipe;
use crate::follow::{Followed, Follower, Sink, Streams, follow};
use crate::job_reference::GANG_PREFIX;
use crate::job_request;
use crate::output::{after_key, note, status};
use crate::progress::{JobProgress, Until};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::terminal::DetachKeys;
use crate::upload;

/// A job that has not started by then is explained.
const SOON: Duration = Duration::from_secs(2);
/// A person who watches wants to see the first failure, not the third.
const ATTEMPTS: i64 = 1;
/// The same where each asks for more memory than the one before.
const ATTEMPTS_WITH_MORE_MEMORY: i64 = 3;

pub(crate) async fn run(args: &RunArgs, settings: &Settings) -> anyhow::Result<u8> {
    let mut signals = Signals::listen()?;
    let mut private = None;
    let client = find_scheduler(args, settings, &mut private).await?;
    let code = run_on(args, settings, client, private.is_some(), &mut signals).await;
    if let Some(embedded) = private {
        embedded.stop_now().await;
    }
    code
}

/// A client of the scheduler that was named, or answers at the usual place, or is started for this job.
async fn find_scheduler(
    args: &RunArgs,
    settings: &Settings,
    private: &mut Option<Embedded>,
) -> anyhow::Result<Client> {
    let is_gang = args.job.gang.gang.is_some();
    if args.own_scheduler {
        return start_private(private, is_gang).await;
    }
    let client = settings.client()?;
    if settings.url_is_explicit && !args.keep {
        return Ok(client);
    }
    match client.health().await {
        Err(ClientError::Unreachable { .. }) if args.keep => embedded::start_in_background(client).await,
        Err(ClientError::Unreachable { .. }) if args.detach => anyhow::bail!(
            "no scheduler answers at {}, and --detach needs one that goes on: start it with `muster up`, \
             or add --keep",
            client.url()
        ),
        Err(ClientError::Unreachable { .. }) => {
            note(&format!("no scheduler at {}, using a private one", client.url()));
            start_private(private, is_gang).await
        }
        Ok(_) | Err(_) => Ok(client),
    }
}

/// A scheduler of our own. How a gang is spread depends on the workers, so that one must be there for it.
async fn start_private(private: &mut Option<Embedded>, is_gang: bool) -> anyhow::Result<Client> {
    let start = Timestamp::now();
    let client = private.insert(Embedded::start_private().await?).client();
    if is_gang {
        embedded::registered(&client, start).await;
    }
    Ok(client)
}

/// One attempt, unless more memory is to be tried.
fn set_attempts(request: &mut SubmitRequest) {
    let grows = request.retry.as_mut().filter(|retry| retry.oom_memory_factor.is_some());
    let Some(retry) = grows else {
        request.max_retries.get_or_insert(ATTEMPTS);
        return;
    };
    if request.max_retries.is_some() {
        return;
    }
    request.max_retries = Some(ATTEMPTS_WITH_MORE_MEMORY);
    let nothing_said = retry.exit_codes.is_none() && retry.lost.is_none() && retry.oom.is_none();
    if nothing_said {
        (retry.exit_codes, retry.signals) = (Some(Vec::new()), Some(Vec::new()));
        (retry.lost, retry.timeout, retry.oom) = (Some(false), Some(false), Some(true));
    }
}

async fn run_on(
    args: &RunArgs,
    settings: &Settings,
    client: Client,
    private: bool,
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    let mut request: SubmitRequest = job_request::build(&client, &args.job, &args.command, settings).await?;
    set_attempts(&mut request);
    if args.job.stdin.is_none() && !args.array.is_asked_for() {
        request.stdin_upload = upload::implicit(&client).await?;
    }

    if args.pty {
        pty::ask(&mut request, args.detach, args.array.is_asked_for())?;
    }
    if args.array.is_asked_for() {
        let watched = array::Watched { args: &args.array, detach: args.detach };
        return watched.run(&client, request, settings, signals).await;
    }
    if request.gang_size.is_some() {
        return gang::run(&client, &request, args.detach, settings, signals).await;
    }
    let job = client.submit(&request).await?;
    if args.detach {
        print_job(&job, settings)?;
        return Ok(exit::OK);
    }
    for warning in &job.warnings {
        note(warning);
    }
    if args.pty {
        let keys = if private { DetachKeys::none() } else { args.detach_keys.clone().unwrap_or_default() };
        return pty::follow(&client, &job, keys, signals, settings).await;
    }
    let sink = Sink::new(Streams::Both, settings.screen, false);
    let query = LogQuery { job_id: job.id.clone(), from_lease: Some(0), follow: true, ..LogQuery::default() };
    let follower = Follower { client: client.clone(), query, first_attempt: 1, tells_pulls: true, sink };
    let following = tokio::spawn(follow(follower));
    let (followed, by_us) = match watch(following, &client, &job.id, signals).await? {
        Watched::Ended { result, cancelled } => (result, cancelled),
        Watched::Left(code) => return Ok(code),
    };
    let Followed { job: ended, incomplete } = *followed;
    sink.end(&ended)?;
    if !by_us {
        tell_end(&ended);
    }
    Ok(exit::of_shown(exit::of_job(&ended), incomplete))
}

/// What became of what was watched.
pub(super) enum Watched<T> {
    Ended {
        result: Box<T>,
        /// We asked for it.
        cancelled: bool,
    },
    /// Somebody would not wait for the end.
    Left(u8),
}

/// Waits for the end of the job or the gang; the first signal cancels it, the second leaves.
pub(super) async fn watch<T>(
    mut following: JoinHandle<anyhow::Result<T>>,
    client: &Client,
    id: &str,
    signals: &mut Signals,
) -> anyhow::Result<Watched<T>> {
    let mut cancelling = false;
    let _progress = JobProgress::start(client, vec![id.to_owned()], Until::Started);
    let waiting = tell_waiting(client, id);
    tokio::pin!(waiting);
    let mut told = false;
    loop {
        tokio::select! {
            () = &mut waiting, if !told => told = true,
            followed = &mut following => {
                return match followed? {
                    Ok(ended) => Ok(Watched::Ended { result: Box::new(ended), cancelled: cancelling }),
                    Err(error) if is_broken_pipe(&error) => {
                        // Nobody reads any more; a plain command would have died of it.
                        cancel(client, id).await;
                        Ok(Watched::Left(exit::BROKEN_PIPE))
                    }
                    Err(error) => Err(error.context(format!("lost sight of {id}, which may still run"))),
                };
            }
            code = signals.next() => {
                if cancelling {
                    after_key();
                    note(&format!("leaving; {id} may still run"));
                    following.abort();
                    return Ok(Watched::Left(code));
                }
                cancelling = true;
                after_key();
                let what = if is_gang(id) { "gang" } else { "job" };
                note(&format!("cancelling the {what}; once more leaves at once"));
                let (client, id) = (client.clone(), id.to_owned());
                tokio::spawn(async move { cancel(&client, &id).await });
            }
        }
    }
}

/// A job that does not start soon waits for something; people want to know for what.
async fn tell_waiting(client: &Client, id: &str) {
    if status::is_possible() {
        // The line at the bottom says it, and goes on saying it.
        return;
    }
    tokio::time::sleep(SOON).await;
    let Ok(why) = why(client, id).await else { return };
    if matches!(why.status, JobStatus::Pending | JobStatus::Blocked | JobStatus::Reserved) {
        for reason in &why.reasons {
            note(&format!("waiting: {}", reason.message));
        }
    }
}

fn is_gang(id: &str) -> bool {
    id.starts_with(GANG_PREFIX)
}

async fn why(client: &Client, id: &str) -> Result<Why, ClientError> {
    if is_gang(id) { client.gang_why(id).await } else { client.why(id).await }
}

pub(super) async fn cancel(client: &Client, id: &str) {
    let cancelled = if is_gang(id) { client.cancel_gang(id).await } else { client.cancel(id).await };
    if let Err(error) = cancelled {
        // A job that has just ended cannot be cancelled, and need not be.
        if error.status().is_none_or(|status| status.as_u16() != 409) {
            note(&format!("cannot cancel {id}: {error}"));
        }
    }
}

/// Says what the exit code alone does not.
pub(super) fn tell_end(job: &Job) {
    let code = exit::of_job(job);
    // The signal that ended it may have been anybody's.
    let was_out_of_memory = job.reason.as_deref().is_some_and(|reason| reason.starts_with("out of memory"));
    if !was_out_of_memory && ![exit::NO_EXIT_CODE, exit::CANCELLED, exit::TIMED_OUT].contains(&code) {
        return;
    }
    match job.reason.as_deref() {
        Some(reason) => note(reason),
        None => note(&format!("{} ended as {}", job.id, status_name(job.status))),
    }
}
