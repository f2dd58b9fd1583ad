//! `muster logs`.

use jiff::Timestamp;
use muster_client::LogQuery;
use muster_protocol::{Job, LogStream};

use crate::args::LogsArgs;
use crate::exit;
use crate::follow::{Follower, Sink, Streams, copy, follow};
use crate::job_reference::{named, resolve};
use crate::output::note;
use crate::settings::Settings;

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
        if job.attempts == 0 {
            note(&format!("{id} has not started yet; `muster why {}` says why", args.job));
        }
        let first_attempt = job.attempts.max(1);
        follow(Follower { client, query, first_attempt, sink }).await?;
        return Ok(exit::OK);
    }
    if job.attempts == 0 && args.attempt.is_none() {
        note(&format!("{id} has not run, so that it has no output"));
        return Ok(exit::OK);
    }
    copy(client, query, sink).await?;
    Ok(exit::OK)
}

/// The newest attempt, and when following those after it; since a time, all of them.
fn query(args: &LogsArgs, job: &Job, streams: Streams, now: Timestamp) -> LogQuery {
    let since = args.since.map(|since| since.from(now));
    let newest = job.attempts.max(1);
    LogQuery {
        job_id: job.id.clone(),
        stream: streams.only(),
        attempt: args.attempt,
        from_attempt: (args.attempt.is_none() && since.is_none()).then_some(newest),
        tail: args.tail,
        since,
        timestamps: args.timestamps,
        follow: args.follow,
        cursor: None,
    }
}
