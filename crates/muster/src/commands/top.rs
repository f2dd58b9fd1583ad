//! `muster top`: what uses the cluster now, live or printed once.

use jiff::Timestamp;
use muster_protocol::{Job, Summary, Worker};
use serde::Serialize;

use crate::args::{JobColumn, TopArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::output::{JobTable, human, json, note};
use crate::settings::Settings;
use crate::watch::{self, Arrangement, Filter, Session, Snapshot, Wanted};

/// As many as the scheduler gives on one page.
const PAGE: u32 = 1000;

const COLUMNS: [JobColumn; 7] = [
    JobColumn::Id,
    JobColumn::Name,
    JobColumn::Queue,
    JobColumn::Worker,
    JobColumn::Ran,
    JobColumn::Needs,
    JobColumn::Command,
];

/// The same for programs.
#[derive(Serialize)]
struct Top<'a> {
    summary: &'a Summary,
    workers: &'a [Worker],
    /// Those that a worker has, in the order that was asked for.
    jobs: &'a [Job],
    /// Whether there are more jobs than these.
    more: bool,
}

pub(crate) async fn run(args: &TopArgs, settings: &Settings) -> anyhow::Result<u8> {
    let filter = args.filter.join(" ");
    if !args.once && !settings.screen.json {
        let session = Session { arrangement: Arrangement::Top, order: args.sort, filter };
        return watch::run(session, settings).await;
    }
    let filter = Filter::parse(&filter).map_err(UsageError)?;
    let wanted = Wanted { filter, running: PAGE, waiting: 0, ended: 0, sets: 0 };
    let mut snapshot = watch::read(&settings.client()?, &wanted).await?;
    snapshot.running.jobs.retain(|job| wanted.filter.matches(job));
    args.sort.sort(&mut snapshot.running.jobs);
    print(&snapshot, settings)?;
    Ok(exit::OK)
}

fn print(snapshot: &Snapshot, settings: &Settings) -> anyhow::Result<()> {
    let (screen, jobs) = (settings.screen, snapshot.running.jobs.as_slice());
    if screen.json {
        let Snapshot { summary, workers, running, .. } = snapshot;
        json::document(&Top { summary, workers, jobs, more: running.more })?;
        return Ok(());
    }
    let now = Timestamp::now();
    if snapshot.workers.is_empty() {
        note("no workers; start one with `muster-worker --scheduler URL`");
    } else {
        screen.line(&human::workers(&snapshot.workers, now, screen))?;
    }
    if jobs.is_empty() {
        note(&format!("nothing runs, {} jobs wait", snapshot.waiting_count()));
        return Ok(());
    }
    if !snapshot.workers.is_empty() {
        screen.line("")?;
    }
    screen.line(&JobTable::new(&COLUMNS, true, now, screen).page(jobs))?;
    if snapshot.running.more {
        note(&format!("these are the newest {} of {}", jobs.len(), snapshot.running_count()));
    }
    Ok(())
}
