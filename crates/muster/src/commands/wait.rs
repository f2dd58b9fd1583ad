//! `muster wait`: until jobs, gangs, pipelines and arrays have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_client::{Client, EventReader};
use muster_protocol::{Job, JobSet, JobStatus, SetKind};
use serde_json::Value;

use crate::args::WaitArgs;
use crate::exit;
use crate::follow::{EndedGang, Patience, ended_gang};
use crate::gang;
use crate::job_reference::named;
use crate::output::{GangDocument, Progress, Screen, after_key, gang_ended, human, json, note, set_ended};
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
    let Wanted { order, jobs, gangs, sets } = resolve(client, &texts).await?;
    let open = jobs.iter().cloned().collect();
    let screen = settings.screen;
    // One line has room for one thing; sets have a bar of their own.
    let spoken_of = if sets.is_empty() { [jobs.as_slice(), &gangs].concat() } else { Vec::new() };
    let progress = JobProgress::start(client, spoken_of, Until::Ended);
    let mut all = Waited {
        jobs: Jobs {
            client: client.clone(),
            screen,
            ids: jobs,
            open,
            ended: BTreeMap::new(),
            progress: &progress,
        },
        gangs: Gangs {
            client: client.clone(),
            screen,
            open: gangs,
            ended: BTreeMap::new(),
            progress: &progress,
        },
        sets: Sets { client: client.clone(), screen, open: sets, ended: BTreeMap::new() },
    };
    let waited = tokio::select! {
        ended = tokio::time::timeout(timeout.unwrap_or(Duration::MAX), all.until_all_ended()) => Ok(ended),
        code = signals.next() => Err(code),
    };
    let all_ended = match waited {
        Ok(Ok(ended)) => ended.map(|()| true)?,
        Ok(Err(_)) => false,
        Err(code) => {
            after_key();
            tell_how_to_come_back(&all);
            return Ok(code);
        }
    };
    if screen.json {
        json::document(&all.in_order(&order)?)?;
    }
    if !all_ended {
        let open = all.open().len();
        note(&format!("the time is up, {open} of {} have not ended", order.len()));
        return Ok(exit::TIMED_OUT);
    }
    Ok(first_failure(order.iter().map(|id| all.code(id))))
}

/// What is to be waited for, by kind, and the order in which it was named.
#[derive(Default)]
struct Wanted {
    order: Vec<String>,
    jobs: Vec<String>,
    gangs: Vec<String>,
    sets: Vec<JobSet>,
}

async fn resolve(client: &Client, texts: &[String]) -> anyhow::Result<Wanted> {
    let mut wanted = Wanted::default();
    for text in texts {
        let id = match resolve_any(client, text).await? {
            Named::Job(id) => {
                wanted.jobs.push(id.clone());
                id
            }
            Named::Gang(id) => {
                wanted.gangs.push(id.clone());
                id
            }
            Named::Pipeline(pipeline) => {
                wanted.sets.push(pipeline.set.clone());
                pipeline.set.id
            }
            Named::Array(array) => {
                let id = array.id.clone();
                wanted.sets.push(*array);
                id
            }
        };
        wanted.order.push(id);
    }
    Ok(wanted)
}

/// All that is waited for, by kind.
struct Waited<'a> {
    jobs: Jobs<'a>,
    gangs: Gangs<'a>,
    sets: Sets,
}

impl Waited<'_> {
    async fn until_all_ended(&mut self) -> anyhow::Result<()> {
        let (jobs, gangs, sets) = (&mut self.jobs, &mut self.gangs, &mut self.sets);
        tokio::try_join!(jobs.until_all_ended(), gangs.until_all_ended(), sets.until_all_ended())?;
        Ok(())
    }

    fn open(&self) -> Vec<&str> {
        let jobs = self.jobs.open.iter().map(String::as_str);
        let gangs = self.gangs.open.iter().map(String::as_str);
        jobs.chain(gangs).chain(self.sets.open.iter().map(|set| set.id.as_str())).collect()
    }

    fn code(&self, id: &str) -> u8 {
        let job = self.jobs.ended.get(id).map(exit::of_job);
        let gang = || self.gangs.ended.get(id).map(|gang| gang::exit_code(&gang.tasks, &gang.events));
        let set = || self.sets.ended.get(id).map(of_set);
        job.or_else(gang).or_else(set).unwrap_or(exit::FAILURE)
    }

    fn in_order(&self, order: &[String]) -> serde_json::Result<Vec<Value>> {
        let mut values = Vec::new();
        for id in order {
            if let Some(job) = self.jobs.ended.get(id) {
                values.push(serde_json::to_value(job)?);
            } else if let Some(EndedGang { tasks, events }) = self.gangs.ended.get(id) {
                values.push(serde_json::to_value(GangDocument::new(id, tasks, events))?);
            } else if let Some(set) = self.sets.ended.get(id) {
                values.push(serde_json::to_value(set)?);
            }
        }
        Ok(values)
    }
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
fn tell_how_to_come_back(all: &Waited<'_>) {
    let open: Vec<&str> = all.open().into_iter().map(short).collect();
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
        | JobStatus::Preempted
        | JobStatus::Finished => exit::FAILURE,
    }
}

/// Jobs are heard of by their events.
struct Jobs<'a> {
    client: Client,
    screen: Screen,
    ids: Vec<String>,
    /// Those that have not ended yet.
    open: BTreeSet<String>,
    ended: BTreeMap<String, Job>,
    progress: &'a JobProgress,
}

impl Jobs<'_> {
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

/// Gangs are looked at: an end of one is the end of all of its tasks.
struct Gangs<'a> {
    client: Client,
    screen: Screen,
    open: Vec<String>,
    ended: BTreeMap<String, EndedGang>,
    progress: &'a JobProgress,
}

impl Gangs<'_> {
    async fn until_all_ended(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        let mut pause = FIRST_LOOK;
        loop {
            for id in self.open.clone() {
                match self.client.gang(&id).await {
                    Ok(tasks) if gang::is_final(gang::state(&tasks)) => self.settle(&id).await?,
                    Ok(_) => patience.restore(),
                    Err(error) if error.is_transient() => patience.bear(error).await?,
                    Err(error) => return named(Err(error), &id, &self.client),
                }
            }
            if self.open.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SLOWEST_LOOK);
        }
    }

    async fn settle(&mut self, id: &str) -> anyhow::Result<()> {
        let ended = ended_gang(&self.client, id).await?;
        if !self.screen.json {
            self.screen.line(&gang_ended(id, &ended.tasks, &ended.events, self.screen))?;
        }
        self.progress.ended(id);
        self.open.retain(|open| open != id);
        self.ended.insert(id.to_owned(), ended);
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
