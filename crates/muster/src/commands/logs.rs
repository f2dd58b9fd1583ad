//! `muster logs`: of a job, or of all tasks of a gang.

use anyhow::bail;
use jiff::Timestamp;
use muster_client::{Client, LogQuery};
use muster_protocol::{Job, LogStream};

use crate::args::LogsArgs;
use crate::exit;
use crate::failure::UsageError;
use crate::follow::{
    Follower, GangFollower, Part, Rank, RankSink, Sink, Streams, copy, copy_ranks, follow, follow_gang,
};
use crate::gang;
use crate::job_reference::named;
use crate::output::{after_key, note, status};
use crate::progress::{JobProgress, Until};
use crate::set_reference::{JobOrGang, resolve_job_or_gang};
use crate::settings::Settings;
use crate::signals::Signals;

pub(crate) async fn run(args: &LogsArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let streams = match (args.stdout, args.stderr) {
        (true, _) => Streams::Only(LogStream::Stdout),
        (_, true) => Streams::Only(LogStream::Stderr),
        _ => Streams::Both,
    };
    match resolve_job_or_gang(&client, &args.job).await? {
        JobOrGang::Job(id) => Box::pin(of_job(args, client, id, streams, settings)).await,
        JobOrGang::Gang(id) => Box::pin(of_gang(args, client, id, streams, settings)).await,
    }
}

async fn of_job(
    args: &LogsArgs,
    client: Client,
    id: String,
    streams: Streams,
    settings: &Settings,
) -> anyhow::Result<u8> {
    if args.rank.is_some() {
        return Err(UsageError(format!("--rank chooses tasks of a gang, and {id} is a job")).into());
    }
    let job = named(client.job(&id).await, &id, &client)?;
    if let Some(number) = args.attempt
        && number > job.attempts
        && (!args.follow || number > job.max_retries)
    {
        bail!("{id} has had {} attempts, there is no output of attempt {number}", job.attempts);
    }
    let mut sink = Sink::new(streams, settings.screen, args.timestamps);
    let since = settings.since(args.since.as_ref(), Timestamp::now())?;
    let mut query = query(args, &job, streams, since);
    if args.follow && args.attempt.is_none() && !exit::is_final(job.status) {
        let until_start = (job.attempts == 0).then(|| tell_waiting(&client, &id, &args.job));
        let first_attempt = job.attempts.max(1);
        let following = follow(Follower { client, query, first_attempt, tells_pulls: false, sink });
        let code = unless_left(Box::pin(async {
            following.await.map(|shown| exit::of_shown(exit::OK, shown.incomplete))
        }))
        .await?;
        drop(until_start);
        return Ok(code);
    }
    if job.lease == 0 && args.attempt.is_none() {
        note(&format!("{id} has not run, so that it has no output"));
        return Ok(exit::OK);
    }
    copy(&client, &mut query, &mut sink).await?;
    Ok(exit::of_shown(exit::OK, args.follow && sink.is_incomplete()))
}

/// To the end of the following, or of the patience of whoever looks.
async fn unless_left(following: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        followed = following => followed,
        code = signals.next() => {
            after_key();
            Ok(code)
        }
    }
}

async fn of_gang(
    args: &LogsArgs,
    client: Client,
    id: String,
    streams: Streams,
    settings: &Settings,
) -> anyhow::Result<u8> {
    let tasks = named(client.gang(&id).await, &id, &client)?;
    let size = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    let wanted: Vec<u32> = args.rank.as_ref().map_or_else(|| (0..size).collect(), |ranks| ranks.0.clone());
    if let Some(rank) = wanted.iter().find(|rank| **rank >= size) {
        bail!("{id} has the ranks 0 to {}, and no rank {rank}", size.saturating_sub(1));
    }
    let since = settings.since(args.since.as_ref(), Timestamp::now())?;
    let chosen: Vec<&Job> = tasks.iter().filter(|task| wanted.contains(&task.gang_index)).collect();
    let started = chosen.iter().any(|task| task.lease > 0);
    let ranks = |all: &[&Job]| -> Vec<Rank> {
        let rank = |task: &&Job| Rank { index: task.gang_index, query: query(args, task, streams, since) };
        all.iter().map(rank).collect()
    };
    let mut sink = RankSink::new(size, streams, args.timestamps, settings.screen);
    if args.follow && args.attempt.is_none() && !gang::is_final(gang::state(&tasks)) {
        let until_start = (!started).then(|| tell_waiting(&client, &id, &args.job));
        let first_task = tasks.first().map(|task| task.id.clone()).unwrap_or_default();
        let part = if started { Part::Both } else { Part::Coming };
        let ranks = ranks(&chosen);
        let following = follow_gang(GangFollower { client, gang_id: id, first_task, ranks, sink, part });
        let code = unless_left(Box::pin(async {
            following.await.map(|shown| exit::of_shown(exit::OK, shown.incomplete))
        }))
        .await?;
        drop(until_start);
        return Ok(code);
    }
    if !started {
        note(&format!("{id} has not run, so that it has no output"));
        return Ok(exit::OK);
    }
    let run: Vec<&Job> = chosen.into_iter().filter(|task| task.lease > 0).collect();
    copy_ranks(&client, ranks(&run), Part::Past, &mut sink).await?;
    Ok(exit::of_shown(exit::OK, args.follow && sink.is_incomplete()))
}

/// Says what the job waits for, on a terminal for as long as it does.
fn tell_waiting(client: &Client, id: &str, typed: &str) -> JobProgress {
    if !status::is_possible() {
        note(&format!("{id} has not started yet; `muster why {typed}` says why"));
    }
    JobProgress::start(client, vec![id.to_owned()], Until::Started)
}

/// The newest attempt, and when following those after it; since a time, all of them.
fn query(args: &LogsArgs, job: &Job, streams: Streams, since: Option<Timestamp>) -> LogQuery {
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
