//! `muster wait`: until jobs, pipelines and arrays have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_client::{Client, EventReader};
use muster_protocol::{Job, JobSet, JobStatus, SetKind};
use serde_json::Value;

use crate::args::WaitArgs;
use crate::exit;
use crate::follow::Patience;
use crate::job_reference::named;
use crate::output::{Progress, Screen, after_key, human, json, note, set_ended};
use crate::progress::{JobProgress, Until};
use crate::set_reference::{Named, resolve_any};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::watch::short;

/// More ids than this are no help on a screen.
const MOST_NAMED: usize = 10;

/// How often a pipeline or an array is looked at: soon at first, then as often as people look.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const SLOWEST_LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &WaitArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    for_ids(&client, args.ids.clone(), args.timeout, settings).await
}

/// Waits for what is named, prints how each ended, and returns the code of the first that did not succeed.
pub(crate) async fn for_ids(
    client: &Client,
    texts: Vec<String>,
    timeout: Option<Duration>,
    settings: &Settings,
) -> anyhow::Result<u8> {
    let mut signals = Signals::listen()?;
    let mut order = Vec::new();
    let mut jobs = Vec::new();
    let mut sets = Vec::new();
    for text in &texts {
        match resolve_any(client, text).await? {
            Named::Job(id) => {
                order.push(id.clone());
                jobs.push(id);
            }
            Named::Pipeline(pipeline) => {
                order.push(pipeline.set.id.clone());
                sets.push(pipeline.set);
            }
            Named::Array(array) => {
                order.push(array.id.clone());
                sets.push(*array);
            }
        }
    }
    let open = jobs.iter().cloned().collect();
    let screen = settings.screen;
    // One line has room for one thing; sets have a bar of their own.
    let spoken_of = if sets.is_empty() { jobs.clone() } else { Vec::new() };
    let progress = JobProgress::start(client, spoken_of, Until::Ended);
    let mut jobs = Jobs { client: client.clone(), screen, ids: jobs, open, ended: BTreeMap::new(), progress };
    let mut sets = Sets { client: client.clone(), screen, open: sets, ended: BTreeMap::new() };
    let both = async { tokio::try_join!(jobs.until_all_ended(), sets.until_all_ended()).map(|_| ()) };
    let waited = tokio::select! {
        ended = tokio::time::timeout(timeout.unwrap_or(Duration::MAX), both) => Ok(ended),
        code = signals.next() => Err(code),
    };
    let all_ended = match waited {
        Ok(Ok(ended)) => ended.map(|()| true)?,
        Ok(Err(_)) => false,
        Err(code) => {
            after_key();
            tell_how_to_come_back(&jobs, &sets);
            return Ok(code);
        }
    };
    if screen.json {
        json::document(&in_order(&order, &jobs, &sets)?)?;
    }
    if !all_ended {
        let open = jobs.open.len() + sets.open.len();
        note(&format!("the time is up, {open} of {} have not ended", order.len()));
        return Ok(exit::TIMED_OUT);
    }
    Ok(first_failure(order.iter().map(|id| match (jobs.ended.get(id), sets.ended.get(id)) {
        (Some(job), _) => exit::of_job(job),
        (None, Some(set)) => of_set(set),
        (None, None) => exit::FAILURE,
    })))
}

/// Waits for one set whatever signals come, for a caller who means something else by them.
pub(crate) async fn for_set(client: &Client, set: JobSet, settings: &Settings) -> anyhow::Result<u8> {
    let screen = settings.screen;
    let mut sets = Sets { client: client.clone(), screen, open: vec![set], ended: BTreeMap::new() };
    sets.until_all_ended().await?;
    let ended: Vec<&JobSet> = sets.ended.values().collect();
    if screen.json {
        json::document(&ended)?;
    }
    Ok(first_failure(ended.into_iter().map(of_set)))
}

/// Nobody is harmed by an end of the waiting, and everybody should know it.
fn tell_how_to_come_back(jobs: &Jobs, sets: &Sets) {
    let ids = jobs.open.iter().map(String::as_str).chain(sets.open.iter().map(|set| set.id.as_str()));
    let open: Vec<&str> = ids.map(short).collect();
    if let [only] = open.as_slice() {
        note(&format!("no longer waiting; {only} goes on"));
        note(&format!("`muster wait {only}` waits again, `muster cancel {only}` ends it"));
    } else if open.len() <= MOST_NAMED {
        note(&format!("no longer waiting; {} go on", open.len()));
        note(&format!("to wait again: muster wait {}", open.join(" ")));
    } else {
        note(&format!("no longer waiting; {} go on: `muster ls --status active,waiting`", open.len()));
    }
}

fn in_order(order: &[String], jobs: &Jobs, sets: &Sets) -> serde_json::Result<Vec<Value>> {
    let mut values = Vec::new();
    for id in order {
        if let Some(job) = jobs.ended.get(id) {
            values.push(serde_json::to_value(job)?);
        } else if let Some(set) = sets.ended.get(id) {
            values.push(serde_json::to_value(set)?);
        }
    }
    Ok(values)
}

/// The code of the first that did not succeed, in the order of the command line.
fn first_failure(codes: impl IntoIterator<Item = u8>) -> u8 {
    codes.into_iter().find(|code| *code != exit::OK).unwrap_or(exit::OK)
}

/// Many jobs have many exit codes; that of a set says only whether all went well.
fn of_set(set: &JobSet) -> u8 {
    match set.status {
        JobStatus::Done => exit::OK,
        JobStatus::Cancelled => exit::CANCELLED,
        JobStatus::Failed
        | JobStatus::Pending
        | JobStatus::Blocked
        | JobStatus::Reserved
        | JobStatus::Running
        | JobStatus::Preempting
        | JobStatus::Preempted => exit::FAILURE,
    }
}

/// Jobs are heard of by their events.
struct Jobs {
    client: Client,
    screen: Screen,
    ids: Vec<String>,
    /// Those that have not ended yet.
    open: BTreeSet<String>,
    ended: BTreeMap<String, Job>,
    progress: JobProgress,
}

impl Jobs {
    /// Listens first and looks second, so that no end falls between the two.
    async fn until_all_ended(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        while !self.open.is_empty() {
            let only = if let [only] = self.ids.as_slice() { Some(only.as_str()) } else { None };
            match self.client.follow_events(only, None).await {
                Ok(mut events) => {
                    patience.restore();
                    self.look().await?;
                    self.listen(&mut events).await?;
                }
                Err(error) => patience.bear(error).await?,
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> anyhow::Result<()> {
        for id in self.open.clone() {
            self.check(&id).await?;
        }
        Ok(())
    }

    /// Goes on until all jobs have ended or the stream has.
    async fn listen(&mut self, events: &mut EventReader) -> anyhow::Result<()> {
        while !self.open.is_empty() {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if !matches!(event.kind.as_str(), "done" | "failed" | "cancelled") {
                continue;
            }
            if let Some(id) = event.job_id.filter(|id| self.open.contains(id)) {
                self.check(&id).await?;
            }
        }
        Ok(())
    }

    async fn check(&mut self, id: &str) -> anyhow::Result<()> {
        let job = named(self.client.job(id).await, id, &self.client)?;
        if exit::is_final(job.status) {
            if !self.screen.json {
                self.screen.line(&human::ended(&job, self.screen))?;
            }
            self.progress.ended(id);
            self.open.remove(id);
            self.ended.insert(id.to_owned(), job);
        }
        Ok(())
    }
}

/// Sets are looked at: their counts say how far they are, which is what people want to see meanwhile.
struct Sets {
    client: Client,
    screen: Screen,
    open: Vec<JobSet>,
    ended: BTreeMap<String, JobSet>,
}

impl Sets {
    async fn until_all_ended(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        let mut progress = Progress::new(self.screen);
        let mut pause = FIRST_LOOK;
        loop {
            self.settle(&mut progress)?;
            if self.open.is_empty() {
                return Ok(());
            }
            progress.show(&self.open);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SLOWEST_LOOK);
            for index in 0..self.open.len() {
                let (kind, id) = (self.open[index].kind, self.open[index].id.clone());
                let found = match kind {
                    SetKind::Pipeline => self.client.pipeline(&id).await.map(|pipeline| pipeline.set),
                    SetKind::Array => self.client.array(&id).await,
                };
                match found {
                    Ok(set) => {
                        patience.restore();
                        self.open[index] = set;
                    }
                    Err(error) => patience.bear(error).await?,
                }
            }
        }
    }

    /// Tells of those that have ended.
    fn settle(&mut self, progress: &mut Progress) -> anyhow::Result<()> {
        let (ended, open): (Vec<JobSet>, Vec<JobSet>) =
            self.open.drain(..).partition(|set| exit::is_final(set.status));
        self.open = open;
        if !ended.is_empty() {
            progress.clear();
        }
        for set in ended {
            if !self.screen.json {
                self.screen.line(&set_ended(&set, self.screen))?;
            }
            self.ended.insert(set.id.clone(), set);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(status: &str, more: &str) -> Job {
        let text = format!(
            r#"{{"id":"job-1","command":"x","status":"{status}","created_at":"2026-05-05T08:33:00Z","max_retries":1,"attempts":1{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_first_failure_on_the_line_decides() {
        let done = exit::of_job(&job("done", r#","exit_code":0"#));
        let three = exit::of_job(&job("failed", r#","exit_code":3"#));
        let killed = exit::of_job(&job("failed", r#","signal":9"#));
        let cancelled = exit::of_job(&job("cancelled", r#","signal":15"#));
        assert_eq!(first_failure([]), 0);
        assert_eq!(first_failure([done, done]), 0);
        assert_eq!(first_failure([done, three, killed]), 3);
        assert_eq!(first_failure([killed, three]), 137);
        assert_eq!(first_failure([cancelled]), 130);
    }
}
