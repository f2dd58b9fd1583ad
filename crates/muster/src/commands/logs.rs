//! `muster logs`.

use jiff::Timestamp;
use muster_client::{Client, LogQuery};
use muster_protocol::{Job, LogStream};

use crate::args::LogsArgs;
use crate::exit;
use crate::follow::{Follower, Sink, Streams, copy, follow};
use crate::job_reference::{named, resolve};
use crate::output::{after_key, note, status};
use crate::progress::{JobProgress, Until};
use crate::settings::Settings;
use crate::signals::Signals;

pub(crate) async fn run(args: &LogsArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let id = resolve(&client, &args.job).await?;
    let job = named(client.job(&id).await, &id, &client)?;
    let streams = match (args.stdout, args.stderr) {
        (true, _) => Streams::Only(LogStream::Stdout),
        (_, true) => Streams::Only(LogStream::Stderr),
        _ => Streams::Both,
    };
    if let Some(number) = args.attempt
        && number > job.attempts
        && (!args.follow || number > job.max_retries)
    {
        anyhow::bail!("{id} has had {} attempts, there is no output of attempt {number}", job.attempts);
    }
    let sink = Sink::new(streams, settings.screen.json, args.timestamps);
    let query = query(args, &job, streams, Timestamp::now());
    if args.follow && args.attempt.is_none() && !exit::is_final(job.status) {
        let until_start = (job.attempts == 0).then(|| tell_waiting(&client, &id, &args.job));
        let first_attempt = job.attempts.max(1);
        let mut signals = Signals::listen()?;
        let code = tokio::select! {
            followed = follow(Follower { client, query, first_attempt, sink }) => followed.map(|_| exit::OK)?,
            code = signals.next() => {
                after_key();
                code
            }
        };
        drop(until_start);
        return Ok(code);
    }
    if job.lease == 0 && args.attempt.is_none() {
        note(&format!("{id} has not run, so that it has no output"));
        return Ok(exit::OK);
    }
    copy(client, query, sink).await?;
    Ok(exit::OK)
}

/// Says what the job waits for, on a terminal for as long as it does.
fn tell_waiting(client: &Client, id: &str, typed: &str) -> JobProgress {
    if !status::is_possible() {
        note(&format!("{id} has not started yet; `muster why {typed}` says why"));
    }
    JobProgress::start(client, vec![id.to_owned()], Until::Started)
}

/// The newest attempt, and when following those after it; since a time, all of them.
fn query(args: &LogsArgs, job: &Job, streams: Streams, now: Timestamp) -> LogQuery {
    let since = args.since.map(|since| since.from(now));
    LogQuery {
        job_id: job.id.clone(),
        stream: streams.only(),
        attempt: args.attempt,
        from_lease: (args.attempt.is_none() && since.is_none()).then_some(job.lease),
        tail: args.tail,
        since,
        timestamps: args.timestamps,
        follow: args.follow,
        cursor: None,
    }
}
