//! `muster usage`.

use jiff::Timestamp;
use muster_client::UsageQuestion;

use crate::args::UsageArgs;
use crate::exit;
use crate::failure::UsageError;
use crate::job_reference::{self, named};
use crate::output::{attempt_usage, json, note, usage_table};
use crate::settings::Settings;

pub(crate) async fn run(args: &UsageArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let screen = settings.screen;
    if let Some(job) = &args.job {
        let id = job_reference::resolve(&client, job).await?;
        let attempts = named(client.attempts(&id).await, &id, &client)?;
        if screen.json {
            json::document(&attempts)?;
        } else if attempts.is_empty() {
            note("it has not been started");
        } else {
            screen.line(&attempt_usage(&attempts, screen))?;
        }
        return Ok(exit::OK);
    }
    let now = Timestamp::now();
    let since = settings.since(args.since.as_ref(), now)?;
    let until = settings.back("--until", args.until.as_ref(), now)?;
    if let (Some(since), until) = (since, until.unwrap_or(now))
        && since >= until
    {
        return Err(UsageError("--since must be earlier than --until".to_owned()).into());
    }
    let question = UsageQuestion {
        by: args.by.name(),
        since,
        until,
        user: args.user.as_deref(),
        queue: args.queue.as_deref(),
    };
    let report = client.usage(&question).await?;
    if screen.json {
        json::document(&report)?;
        return Ok(exit::OK);
    }
    if report.rows.is_empty() {
        note(&format!(
            "no attempt ended between {} and {}",
            screen.zone.time(report.since),
            screen.zone.time(report.until)
        ));
    } else {
        screen.line(&usage_table(&report, args.by, screen))?;
    }
    if !report.complete {
        note(
            "more jobs ended in that time; these are the latest 10000. Choose a shorter time with --since and --until",
        );
    }
    Ok(exit::OK)
}
