//! A list of jobs in the columns that were asked for, page by page.
//!
//! Guarantee: one page is in memory; the columns of later pages stand where those of the first do.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;
use muster_protocol::Job;

use super::human::{command, id, state};
use super::quantities::{age, printable, resources, span};
use super::screen::Screen;
use super::style;
use super::table::{Column, Content, Pages};
use crate::args::{JobColumn, JobOrder};

/// The table of `muster ls`.
#[derive(Debug)]
pub(crate) struct JobTable {
    shown: Vec<JobColumn>,
    pages: Pages,
    now: Timestamp,
    screen: Screen,
}

impl JobTable {
    pub(crate) fn new(shown: &[JobColumn], header: bool, now: Timestamp, screen: Screen) -> Self {
        let columns = shown.iter().map(|shown| column(*shown)).collect();
        Self { shown: shown.to_vec(), pages: Pages::new(columns, header, screen), now, screen }
    }

    /// The next rows as text, with the titles before the first; no end of the last line.
    pub(crate) fn page(&mut self, jobs: &[Job]) -> String {
        let row = |job: &Job| -> Vec<Content> {
            self.shown.iter().map(|shown| cell(*shown, job, self.now, self.screen)).collect()
        };
        let rows: Vec<Vec<Content>> = jobs.iter().map(row).collect();
        self.pages.page(&rows)
    }
}

fn column(shown: JobColumn) -> Column {
    match shown {
        JobColumn::Id => Column::fixed("ID"),
        JobColumn::Name => Column::elastic("NAME", 4),
        JobColumn::Status => Column::fixed("STATUS"),
        JobColumn::Attempt => Column::right("ATTEMPT"),
        JobColumn::Queue => Column::elastic("QUEUE", 5),
        JobColumn::Priority => Column::right("PRIORITY"),
        JobColumn::Worker => Column::elastic("WORKER", 6),
        JobColumn::Age => Column::right("AGE"),
        JobColumn::Ran => Column::right("RAN"),
        JobColumn::Waited => Column::right("WAITED"),
        JobColumn::Submitted => Column::fixed("SUBMITTED"),
        JobColumn::Started => Column::fixed("STARTED"),
        JobColumn::Ended => Column::fixed("ENDED"),
        JobColumn::Exit => Column::right("EXIT"),
        JobColumn::Reason => Column::elastic("REASON", 12),
        JobColumn::Needs => Column::elastic("NEEDS", 6),
        JobColumn::Tags => Column::elastic("TAGS", 4),
        JobColumn::After => Column::elastic("AFTER", 12),
        JobColumn::Pipeline => Column::fixed("PIPELINE"),
        JobColumn::Array => Column::fixed("ARRAY"),
        JobColumn::Step => Column::elastic("STEP", 6),
        JobColumn::Index => Column::right("INDEX"),
        JobColumn::Gang => Column::fixed("GANG"),
        JobColumn::Rank => Column::right("RANK"),
        JobColumn::Directory => Column::elastic("DIRECTORY", 9),
        JobColumn::Command => Column::elastic("COMMAND", 12),
    }
}

fn cell(shown: JobColumn, job: &Job, now: Timestamp, screen: Screen) -> Content {
    let some = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let words = |text: Option<&str>| some(text.map(printable));
    let text = match shown {
        JobColumn::Id => id(&job.id, screen),
        JobColumn::Name => words(job.name.as_deref()),
        JobColumn::Status => return (state(job, now).to_owned(), style::of_status(job.status)),
        JobColumn::Attempt => format!("{}/{}", job.attempts, job.max_retries),
        JobColumn::Queue => words(job.queue_name.as_deref()),
        JobColumn::Priority => job.priority.to_string(),
        JobColumn::Worker => words(job.worker_id.as_deref()),
        JobColumn::Age => age(job.created_at, now),
        JobColumn::Ran => some(job.started_at.map(|started| span(started, job.done_at.unwrap_or(now)))),
        JobColumn::Waited => span(job.created_at, end_of_wait(job, now)),
        JobColumn::Submitted => screen.zone.bare(job.created_at),
        JobColumn::Started => some(job.started_at.map(|at| screen.zone.bare(at))),
        JobColumn::Ended => some(job.done_at.map(|at| screen.zone.bare(at))),
        JobColumn::Exit => match (job.signal, job.exit_code) {
            (Some(signal), _) => format!("signal {signal}"),
            (None, Some(code)) => code.to_string(),
            (None, None) => "-".to_owned(),
        },
        JobColumn::Reason => words(job.reason.as_deref().or(job.held.as_deref())),
        JobColumn::Needs => some(job.resources.as_ref().map(resources)),
        JobColumn::Tags => words(Some(&job.tags.join(","))),
        JobColumn::After => {
            some(Some(job.depends_on.iter().map(|job| id(job, screen)).collect::<Vec<_>>().join(",")))
        }
        JobColumn::Pipeline => some(job.pipeline_id.as_deref().map(|set| id(set, screen))),
        JobColumn::Array => some(job.array_id.as_deref().map(|set| id(set, screen))),
        JobColumn::Step => words(job.step.as_deref()),
        JobColumn::Gang => some(job.gang_id.as_deref().map(|gang| id(gang, screen))),
        JobColumn::Rank => some(job.gang_id.as_ref().map(|_| job.gang_index.to_string())),
        JobColumn::Index => some(job.array_index.map(|index| index.to_string())),
        JobColumn::Directory => words(job.working_dir.as_deref()),
        JobColumn::Command => command(job),
    };
    (text, None)
}

fn end_of_wait(job: &Job, now: Timestamp) -> Timestamp {
    job.started_at.or(job.done_at).unwrap_or(now)
}

/// Puts jobs, which come newest first, in the order that was asked for.
pub(crate) fn sort(jobs: &mut [Job], order: JobOrder, reverse: bool, now: Timestamp) {
    match order {
        JobOrder::Submitted => {}
        JobOrder::Started => jobs.sort_by_key(|job| Reverse(job.started_at)),
        JobOrder::Ended => jobs.sort_by_key(|job| Reverse(job.done_at)),
        JobOrder::Ran => jobs.sort_by_key(|job| Reverse(millis_run(job, now))),
        JobOrder::Waited => jobs.sort_by_key(|job| {
            Reverse(end_of_wait(job, now).as_millisecond().saturating_sub(job.created_at.as_millisecond()))
        }),
        JobOrder::Priority => jobs.sort_by_key(|job| Reverse(job.priority)),
        JobOrder::Name => jobs.sort_by(|one, other| one.name.cmp(&other.name)),
        JobOrder::Queue => jobs.sort_by(|one, other| one.queue_name.cmp(&other.queue_name)),
        JobOrder::Status => jobs.sort_by_key(|job| job.status),
        JobOrder::Worker => jobs.sort_by(|one, other| one.worker_id.cmp(&other.worker_id)),
        JobOrder::Needs => jobs.sort_by(|one, other| by_needs(other, one)),
    }
    if reverse {
        jobs.reverse();
    }
}

/// How long the job has run, or did; `None` before its start.
fn millis_run(job: &Job, now: Timestamp) -> Option<i64> {
    let started = job.started_at?;
    Some(job.done_at.unwrap_or(now).as_millisecond().saturating_sub(started.as_millisecond()))
}

/// Compares what two jobs need: GPUs are scarcest, then cores, then memory.
fn by_needs(one: &Job, other: &Job) -> Ordering {
    let amounts = |job: &Job| {
        job.resources
            .as_ref()
            .map_or((0, 0, 0), |needs| (needs.gpus, (needs.cpus * 1000.0).round() as u64, needs.memory_mb))
    };
    amounts(one).cmp(&amounts(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::USUAL_COLUMNS;

    fn job(text: &str) -> Job {
        serde_json::from_str(text).unwrap()
    }

    fn two_jobs() -> Vec<Job> {
        vec![
            job(
                r#"{"id":"job-3f0c1a2b-0000-4000-8000-000000000001","command":"","argv":["python","train.py","--lr","0.1 0.2"],
                    "status":"running","created_at":"2026-05-05T08:33:00Z","max_retries":3,"attempts":1,"name":"train",
                    "worker_id":"worker-1a2b3c4d","started_at":"2026-05-05T08:33:10Z","resources":{"cpus":2}}"#,
            ),
            job(
                r#"{"id":"job-77aa0000-0000-4000-8000-000000000002","command":"sleep 1;\necho done","status":"pending",
                    "created_at":"2026-05-05T08:00:00Z","max_retries":3,"attempts":0,"priority":7,"queue_name":"night"}"#,
            ),
        ]
    }

    fn now() -> Timestamp {
        "2026-05-05T08:34:00Z".parse().unwrap()
    }

    fn screen(width: Option<u16>) -> Screen {
        Screen { json: false, colour: false, width, zone: crate::zone::Zone::UTC }
    }

    fn table(columns: &[JobColumn], width: Option<u16>) -> String {
        JobTable::new(columns, true, now(), screen(width)).page(&two_jobs())
    }

    #[test]
    fn the_list_of_jobs_fits_eighty_columns() {
        let expected = "\
ID            NAME   STATUS   ATTEMPT  WORKER           AGE  COMMAND
job-3f0c1a2b  train  running      1/3  worker-1a2b3c4d  60s  python train.py --…
job-77aa0000  -      pending      0/3  -                34m  sleep 1;\\necho done";
        let text = table(&USUAL_COLUMNS, Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_piped_has_whole_ids_and_commands() {
        let text = table(&USUAL_COLUMNS, None);
        assert!(text.contains("job-3f0c1a2b-0000-4000-8000-000000000001"));
        assert!(text.ends_with("sleep 1;\\necho done"), "{text}");
        assert!(text.contains("python train.py --lr '0.1 0.2'"), "{text}");
    }

    #[test]
    fn columns_as_asked_for() {
        use JobColumn::{Needs, Priority, Queue, Ran, Started, Waited};
        let expected = "\
QUEUE  PRIORITY    RAN  WAITED  STARTED              NEEDS
-             0  50.0s   10.0s  2026-05-05 08:33:10  2 cpus
night         7      -  34m00s  -                    -";
        assert_eq!(table(&[Queue, Priority, Ran, Waited, Started, Needs], None), expected);
    }

    #[test]
    fn later_pages_keep_the_places_of_the_columns() {
        let mut table = JobTable::new(&[JobColumn::Name, JobColumn::Status], true, now(), screen(Some(80)));
        let jobs = two_jobs();
        let mut long = jobs[1].clone();
        long.name = Some("a-name-longer-than-all-before".into());
        assert_eq!(table.page(&jobs[..1]), "NAME   STATUS\ntrain  running");
        assert_eq!(table.page(&[long]), "a-na…  pending");
        assert_eq!(table.page(&[]), "");
    }

    #[test]
    fn orders_begin_with_what_matters_most() {
        let ids = |order, reverse| {
            let mut jobs = two_jobs();
            sort(&mut jobs, order, reverse, now());
            jobs.iter().map(|job| job.id[..8].to_owned()).collect::<Vec<_>>()
        };
        let (running, pending) = ("job-3f0c".to_owned(), "job-77aa".to_owned());
        let first = [running.clone(), pending.clone()];
        let last = [pending, running];
        assert_eq!(ids(JobOrder::Submitted, false), first);
        assert_eq!(ids(JobOrder::Submitted, true), last);
        assert_eq!(ids(JobOrder::Ran, false), first);
        assert_eq!(ids(JobOrder::Waited, false), last);
        assert_eq!(ids(JobOrder::Priority, false), last);
        assert_eq!(ids(JobOrder::Needs, false), first);
    }
}
