//! `muster ls`.
//!
//! Guarantee: everything is printed page by page, so that a list of any length fits in memory; only an
//! order that is not the scheduler's holds the rows, whose number is bounded then.

use jiff::Timestamp;
use muster_client::{Client, JobFilter};
use muster_protocol::Job;

use crate::args::{JobOrder, LsArgs, USUAL_COLUMNS};
use crate::exit;
use crate::failure::UsageError;
use crate::job_reference::named;
use crate::output::{JobTable, Screen, json, note, sort};
use crate::set_reference::{Named, resolve_any};
use crate::settings::Settings;

/// As many as the scheduler gives on one page.
const PAGE: usize = 1000;

pub(crate) async fn run(args: &LsArgs, settings: &Settings) -> anyhow::Result<u8> {
    args.check().map_err(UsageError)?;
    let client = settings.client()?;
    let screen = settings.screen;
    let now = Timestamp::now();
    let since = settings.since(args.since.as_ref(), now)?;
    let (of_set, tasks) = of_set(&client, args).await?;
    let mut pages = Pages {
        tasks,
        wanted: if args.all { usize::MAX } else { args.limit as usize },
        filter: JobFilter {
            statuses: args.statuses(),
            queue: args.queue.clone(),
            name: args.name.clone(),
            worker: args.worker.clone(),
            tag: args.tag.clone(),
            since,
            ..of_set
        },
        more: true,
        order: args.is_sorted().then_some((args.sort, args.reverse)),
        now,
    };
    let shown = if screen.json {
        print_json(&mut pages, &client).await?
    } else if args.quiet {
        print_ids(&mut pages, &client, screen).await?
    } else {
        print_table(&mut pages, &client, table(args, now, screen), screen).await?
    };
    if shown == 0 && !screen.json {
        note("no jobs");
    } else if pages.more && !screen.json {
        note(&format!("these are the newest {shown}; --limit N or --all shows more"));
    }
    Ok(exit::OK)
}

/// The part of the filter that names a pipeline or an array; of a gang, its tasks themselves.
async fn of_set(client: &Client, args: &LsArgs) -> anyhow::Result<(JobFilter, Option<Vec<Job>>)> {
    let mut filter = JobFilter { step: args.step.clone(), ..JobFilter::default() };
    let Some(text) = &args.set else { return Ok((filter, None)) };
    match resolve_any(client, text).await? {
        Named::Gang(id) => {
            let mut tasks = named(client.gang(&id).await, &id, client)?;
            let statuses = args.statuses();
            tasks.retain(|task| statuses.is_empty() || statuses.contains(&task.status));
            tasks.retain(|task| args.worker.is_none() || task.worker_id == args.worker);
            return Ok((filter, Some(tasks)));
        }
        Named::Pipeline(pipeline) => filter.pipeline = Some(pipeline.set.id),
        Named::Array(array) => filter.array = Some(array.id),
        Named::Job(id) => anyhow::bail!("{id} is a job; `muster show {text}` shows it"),
    }
    Ok((filter, None))
}

/// The pages of a list, up to a number of jobs.
struct Pages {
    /// The rows themselves, where they are known already.
    tasks: Option<Vec<Job>>,
    wanted: usize,
    filter: JobFilter,
    /// Whether the scheduler has more than was read.
    more: bool,
    /// An order of our own, for which all rows are one page.
    order: Option<(JobOrder, bool)>,
    now: Timestamp,
}

impl Pages {
    async fn next(&mut self, client: &Client) -> anyhow::Result<Option<Vec<Job>>> {
        let Some((order, reverse)) = self.order else { return self.read(client).await };
        let Some(mut all) = self.read(client).await? else { return Ok(None) };
        while let Some(jobs) = self.read(client).await? {
            all.extend(jobs);
        }
        sort(&mut all, order, reverse, self.now);
        Ok(Some(all))
    }

    async fn read(&mut self, client: &Client) -> anyhow::Result<Option<Vec<Job>>> {
        if let Some(tasks) = self.tasks.take() {
            self.more = false;
            return Ok(Some(tasks));
        }
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

fn table(args: &LsArgs, now: Timestamp, screen: Screen) -> JobTable {
    let columns = if args.columns.is_empty() { &USUAL_COLUMNS } else { args.columns.as_slice() };
    JobTable::new(columns, !args.no_header, now, screen)
}

async fn print_table(
    pages: &mut Pages,
    client: &Client,
    mut table: JobTable,
    screen: Screen,
) -> anyhow::Result<usize> {
    let mut shown = 0;
    while let Some(jobs) = pages.next(client).await? {
        if jobs.is_empty() {
            continue;
        }
        screen.line(&table.page(&jobs))?;
        shown += jobs.len();
    }
    Ok(shown)
}
