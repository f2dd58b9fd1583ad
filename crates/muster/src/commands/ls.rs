//! `muster ls`.
//!
//! Guarantee: ids and JSON are printed page by page, so that a list of any length fits in memory.

use jiff::Timestamp;
use muster_client::{Client, JobFilter};
use muster_protocol::Job;

use crate::args::LsArgs;
use crate::exit;
use crate::output::{Screen, human, json, note};
use crate::settings::Settings;

/// As many as the scheduler gives on one page.
const PAGE: usize = 1000;

pub(crate) async fn run(args: &LsArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let screen = settings.screen;
    let now = Timestamp::now();
    let mut pages = Pages {
        wanted: if args.all { usize::MAX } else { args.limit as usize },
        filter: JobFilter {
            statuses: args.statuses.clone(),
            queue: args.queue.clone(),
            name: args.name.clone(),
            tag: args.tag.clone(),
            since: args.since.map(|since| since.from(now)),
            ..JobFilter::default()
        },
        more: true,
    };
    let shown = if screen.json {
        print_json(&mut pages, &client).await?
    } else if args.quiet {
        print_ids(&mut pages, &client, screen).await?
    } else {
        print_table(&mut pages, &client, screen, now).await?
    };
    if shown == 0 && !screen.json {
        note("no jobs");
    } else if pages.more && !screen.json {
        note(&format!("these are the newest {shown}; --limit N or --all shows more"));
    }
    Ok(exit::OK)
}

/// The pages of a list, up to a number of jobs.
struct Pages {
    wanted: usize,
    filter: JobFilter,
    /// Whether the scheduler has more than was read.
    more: bool,
}

impl Pages {
    async fn next(&mut self, client: &Client) -> anyhow::Result<Option<Vec<Job>>> {
        if self.wanted == 0 || !self.more {
            return Ok(None);
        }
        self.filter.limit = Some(PAGE.min(self.wanted) as u32);
        let page = client.jobs(&self.filter).await?;
        self.more = page.next.is_some();
        self.filter.cursor = page.next;
        self.wanted = self.wanted.saturating_sub(page.jobs.len());
        Ok(Some(page.jobs))
    }
}

async fn print_json(pages: &mut Pages, client: &Client) -> anyhow::Result<usize> {
    let mut list = json::List::default();
    while let Some(jobs) = pages.next(client).await? {
        list.add(&jobs)?;
    }
    Ok(list.end()?)
}

async fn print_ids(pages: &mut Pages, client: &Client, screen: Screen) -> anyhow::Result<usize> {
    let mut shown = 0;
    while let Some(jobs) = pages.next(client).await? {
        shown += jobs.len();
        let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        if !ids.is_empty() {
            screen.line(&ids.join("\n"))?;
        }
    }
    Ok(shown)
}

/// The widths of the columns depend on all rows, so that these are read first.
async fn print_table(
    pages: &mut Pages,
    client: &Client,
    screen: Screen,
    now: Timestamp,
) -> anyhow::Result<usize> {
    let mut all = Vec::new();
    while let Some(jobs) = pages.next(client).await? {
        all.extend(jobs);
    }
    if !all.is_empty() {
        screen.line(&human::jobs(&all, now, screen))?;
    }
    Ok(all.len())
}
