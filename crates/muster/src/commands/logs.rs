//! `muster logs`.

use std::sync::Arc;

use muster_protocol::LogStream;

use crate::args::LogsArgs;
use crate::exit;
use crate::follow::{Attempt, Follower, Pulse, Sink, Streams, copy_attempt, follow};
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
    let sink = Sink { streams, json: settings.screen.json };
    if let Some(number) = args.attempt
        && number > job.attempts
        && (!args.follow || number > job.max_retries)
    {
        anyhow::bail!("{id} has had {} attempts, there is no output of attempt {number}", job.attempts);
    }
    if args.follow && args.attempt.is_none() && !exit::is_final(job.status) {
        if job.attempts == 0 {
            note(&format!("{id} has not started yet; `muster why {}` says why", args.job));
        }
        let follower = Follower { client, job_id: id, first_attempt: job.attempts.max(1), sink };
        follow(follower).await?;
        return Ok(exit::OK);
    }
    if job.attempts == 0 && args.attempt.is_none() {
        note(&format!("{id} has not run, so that it has no output"));
        return Ok(exit::OK);
    }
    let number = args.attempt.unwrap_or(job.attempts);
    let attempt = Attempt { job_id: id, number, follow: args.follow };
    copy_attempt(client, attempt, sink, Arc::new(Pulse::default())).await?;
    Ok(exit::OK)
}
