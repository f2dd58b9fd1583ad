//! `muster ls`.

use jiff::Timestamp;
use muster_client::JobFilter;
use muster_protocol::Job;

use crate::args::LsArgs;
use crate::exit;
use crate::output::{human, json, note};
use crate::settings::Settings;

/// As many as the scheduler gives on one page.
const PAGE: u32 = 1000;

pub(crate) async fn run(args: &LsArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let now = Timestamp::now();
    let wanted = if args.all { usize::MAX } else { args.limit as usize };
    let mut filter = JobFilter {
        statuses: args.statuses.clone(),
        queue: args.queue.clone(),
        name: args.name.clone(),
        tag: args.tag.clone(),
        since: args.since.map(|since| since.from(now)),
        ..JobFilter::default()
    };
    let mut jobs: Vec<Job> = Vec::new();
    let more = loop {
        if jobs.len() >= wanted {
            break filter.cursor.is_some();
        }
        filter.limit = Some(PAGE.min((wanted - jobs.len()).try_into().unwrap_or(PAGE)));
        let page = client.jobs(&filter).await?;
        jobs.extend(page.jobs);
        filter.cursor = page.next;
        if filter.cursor.is_none() {
            break false;
        }
    };
    jobs.truncate(wanted);
    print(&jobs, args, settings, now)?;
    if more && !settings.screen.json {
        note(&format!("these are the newest {}; --limit N or --all shows more", jobs.len()));
    }
    Ok(exit::OK)
}

fn print(jobs: &[Job], args: &LsArgs, settings: &Settings, now: Timestamp) -> anyhow::Result<()> {
    let screen = settings.screen;
    if screen.json {
        json::document(&jobs)?;
    } else if args.quiet {
        for job in jobs {
            screen.line(&job.id)?;
        }
    } else if jobs.is_empty() {
        note("no jobs");
    } else {
        screen.line(&human::jobs(jobs, now, screen))?;
    }
    Ok(())
}
