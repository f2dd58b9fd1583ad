//! `--gang`, for `submit` and `run`: one command, several tasks that start together, one id.

use muster_client::{Client, LogQuery};
use muster_protocol::{GangSubmitted, SubmitRequest};
use serde::Serialize;

use super::run::{Watched, watch};
use super::wait;
use crate::args::SubmitArgs;
use crate::exit;
use crate::follow::{EndedGang, FollowedGang, GangFollower, Part, Rank, RankSink, Streams, follow_gang};
use crate::gang::{Round, exit_code, reason, rounds};
use crate::job_request;
use crate::output::{GangDocument, json, note};
use crate::settings::Settings;
use crate::signals::Signals;

/// The last line for programs: how the gang ended.
#[derive(Serialize)]
struct End<'a> {
    gang: GangDocument<'a>,
}

pub(crate) async fn submit(args: &SubmitArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let request = job_request::build(&client, &args.job, &args.command, settings).await?;
    let gang = client.submit_gang(&request).await?;
    if args.wait && settings.screen.json {
        tell(&gang);
    } else {
        print(&gang, settings)?;
    }
    if args.wait { wait::for_ids(&client, vec![gang.gang_id], None, settings).await } else { Ok(exit::OK) }
}

/// Remarks of the scheduler.
fn tell(gang: &GangSubmitted) {
    for warning in &gang.warnings {
        note(warning);
    }
}

/// Prints what identifies the gang.
fn print(gang: &GangSubmitted, settings: &Settings) -> anyhow::Result<()> {
    tell(gang);
    if settings.screen.json {
        json::document(gang)?;
    } else {
        settings.screen.line(&gang.gang_id)?;
    }
    Ok(())
}

/// `muster run --gang`: the output of all tasks, to their end.
pub(crate) async fn run(
    client: &Client,
    request: &SubmitRequest,
    detach: bool,
    settings: &Settings,
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    let gang = client.submit_gang(request).await?;
    if detach {
        print(&gang, settings)?;
        return Ok(exit::OK);
    }
    tell(&gang);
    let following = tokio::spawn(follow_gang(follower(client, &gang, settings)));
    let (followed, by_us) = match watch(following, client, &gang.gang_id, signals).await? {
        Watched::Ended { result, cancelled } => (result, cancelled),
        Watched::Left(code) => return Ok(code),
    };
    let FollowedGang { ended, incomplete } = *followed;
    let EndedGang { tasks, events } = &ended;
    if settings.screen.json {
        json::line(&End { gang: GangDocument::new(&gang.gang_id, tasks, events) })?;
    }
    if !by_us {
        tell_end(&ended);
    }
    Ok(exit::of_shown(exit_code(tasks, events), incomplete))
}

fn follower(client: &Client, gang: &GangSubmitted, settings: &Settings) -> GangFollower {
    let query = |job: &String| LogQuery {
        job_id: job.clone(),
        from_lease: Some(0),
        follow: true,
        ..LogQuery::default()
    };
    let ranks = (0_u32..).zip(&gang.tasks).map(|(index, job)| Rank { index, query: query(job) }).collect();
    let size = u32::try_from(gang.tasks.len()).unwrap_or(u32::MAX);
    GangFollower {
        client: client.clone(),
        gang_id: gang.gang_id.clone(),
        first_task: gang.tasks.first().cloned().unwrap_or_default(),
        ranks,
        sink: RankSink::new(size, Streams::Both, false, settings.screen),
        part: Part::Coming,
    }
}

/// Says why it ended badly, unless the end of its last round said so.
fn tell_end(ended: &EndedGang) {
    let told = rounds(&ended.events).last().is_some_and(Round::is_broken_off);
    if let Some(why) = reason(&ended.tasks, &ended.events).filter(|_| !told) {
        note(&why);
    }
}
