//! Compares the three accounts and lists every disagreement.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::faults::Faults;
use super::is_final;
use super::ledger::{Entry, Task};
use super::load::Submitted;
use crate::{Http, id_of};

/// What never changes once a job has ended.
pub type Ending = (Value, Value, Value, Value);

/// Watches the jobs all the while and remembers how each was first seen to have ended.
#[derive(Debug)]
pub struct Observer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<String, Ending>>,
}

impl Observer {
    pub fn start(schedulers: Vec<Http>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut seen = BTreeMap::new();
            for http in schedulers.into_iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                for job in read_jobs(http) {
                    if is_final(job["status"].as_str().unwrap_or_default()) {
                        seen.entry(id_of(&job)).or_insert_with(|| ending(&job));
                    }
                }
                thread::sleep(Duration::from_millis(300));
            }
            seen
        });
        Self { stop, thread }
    }

    pub fn stop(self) -> BTreeMap<String, Ending> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the observer only reads")
    }
}

fn read_jobs(http: Http) -> Vec<Value> {
    let answer = http.request("GET", "/jobs").try_send().ok().filter(|response| response.status == 200);
    answer.and_then(|response| serde_json::from_slice(&response.body).ok()).unwrap_or_default()
}

fn ending(job: &Value) -> Ending {
    (job["status"].clone(), job["done_at"].clone(), job["lease"].clone(), job["attempts"].clone())
}

/// Every way in which the accounts disagree, less what faults excuse.
pub fn compare(
    jobs: &[Value],
    acknowledged: &[Submitted],
    seen: &BTreeMap<String, Ending>,
    ledger: &[Entry],
    faults: &Faults,
) -> Vec<String> {
    let store: BTreeMap<String, &Value> = jobs.iter().map(|job| (id_of(job), job)).collect();
    let mut of_job: BTreeMap<&str, Vec<(usize, &Entry)>> = BTreeMap::new();
    for (position, entry) in ledger.iter().enumerate() {
        of_job.entry(&entry.job).or_default().push((position, entry));
    }
    let mut offences = Vec::new();
    offences.extend(lost_or_doubled(&store, acknowledged));
    offences.extend(changed_endings(&store, seen));
    offences.extend(double_starts(ledger, faults));
    offences.extend(false_ends(&store, acknowledged, &of_job));
    offences.extend(wrong_order(acknowledged, &of_job));
    let torn = torn_rounds(ledger).into_iter().filter(|torn| !torn.is_excused(faults));
    offences.extend(torn.map(|torn| torn.to_string()));
    offences.extend(bad_inputs(ledger));
    offences
}

/// The lines of each job, with their places in the ledger.
type Lines<'l> = BTreeMap<&'l str, Vec<(usize, &'l Entry)>>;

/// Nothing acknowledged is lost, and a repeated submit has made no second job.
fn lost_or_doubled(store: &BTreeMap<String, &Value>, acknowledged: &[Submitted]) -> Vec<String> {
    let mut offences = Vec::new();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for job in store.values() {
        *names.entry(job["name"].as_str().unwrap_or_default()).or_default() += 1;
    }
    for submitted in acknowledged {
        if !submitted.jobs().iter().all(|id| store.contains_key(id)) {
            offences.push(format!("lost: {submitted:?}"));
        }
        let count = names.get(submitted.name.as_str()).copied().unwrap_or_default();
        if count > submitted.jobs().len() {
            offences.push(format!("several jobs were made of one submit: {count} of {submitted:?}"));
        }
    }
    offences
}

/// No terminal state has changed since it was first seen.
fn changed_endings(store: &BTreeMap<String, &Value>, seen: &BTreeMap<String, Ending>) -> Vec<String> {
    let changed =
        seen.iter().filter(|(id, before)| store.get(*id).map(|job| ending(job)).as_ref() != Some(*before));
    changed.map(|(id, before)| format!("an end has changed: {before:?}, now {:?}", store.get(id))).collect()
}

/// No lease of a job was started twice, and no two processes of one job were alive at once.
fn double_starts(ledger: &[Entry], faults: &Faults) -> Vec<String> {
    let mut offences = Vec::new();
    let mut started = BTreeSet::new();
    let mut workers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in ledger {
        match entry.word.as_str() {
            "start" => {
                if !started.insert((&entry.job, entry.lease)) {
                    offences.push(format!("started twice: {entry:?}"));
                }
                workers.entry(&entry.job).or_default().push(&entry.worker);
            }
            "overlap" => {
                let before = workers.get(entry.job.as_str()).map_or(&[][..], Vec::as_slice);
                if !before.iter().any(|worker| faults.was_frozen(worker, entry.at)) {
                    offences.push(format!(
                        "two processes of one job at once: {entry:?}, the other on {before:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    offences
}

/// A job that is done ran to its end under its last lease and never again; only one that fails by itself has failed.
fn false_ends(
    store: &BTreeMap<String, &Value>,
    acknowledged: &[Submitted],
    lines: &Lines<'_>,
) -> Vec<String> {
    let mut offences = Vec::new();
    for (submitted, id) in acknowledged.iter().flat_map(|one| one.jobs().iter().map(move |id| (one, id))) {
        let Some(job) = store.get(id) else { continue };
        let lease = job["lease"].as_u64().unwrap_or_default();
        let of_job = || lines.get(id.as_str()).into_iter().flatten().map(|(_, entry)| entry);
        let ended = of_job().any(|entry| entry.word == "end" && entry.lease == lease);
        let later = of_job().any(|entry| entry.lease > lease);
        let expected = if submitted.fails { "failed" } else { "done" };
        if job["status"] != expected {
            offences.push(format!("{expected} was expected: {}", brief(job)));
        }
        if job["status"] == "done" && !ended {
            offences.push(format!("done, yet its last lease never ran to the end: {}", brief(job)));
        }
        if later {
            offences.push(format!("ran under a later lease than the store knows: {}", brief(job)));
        }
    }
    offences
}

/// What a job is recognised and judged by.
fn brief(job: &Value) -> String {
    let facts =
        ["id", "name", "status", "reason", "exit_code", "attempts", "lease", "gang_id", "reservation_epoch"];
    facts.map(|fact| format!("{fact} {}", job[fact])).join(", ")
}

/// No job started before what it depends on had ended.
fn wrong_order(acknowledged: &[Submitted], lines: &Lines<'_>) -> Vec<String> {
    let position = |word: &str, job: &str| {
        let mut of_job = lines.get(job).into_iter().flatten();
        of_job.find(|(_, entry)| entry.word == word).map(|(position, _)| *position)
    };
    let mut offences = Vec::new();
    for submitted in acknowledged {
        let Some(start) = position("start", &submitted.id) else { continue };
        for dependency in &submitted.depends_on {
            if position("end", dependency).is_none_or(|end| end > start) {
                offences
                    .push(format!("started before its dependency had ended: {dependency}, {submitted:?}"));
            }
        }
    }
    offences
}

/// A task that came to its end although others of its round had not started.
#[derive(Debug)]
pub struct Torn {
    end: Entry,
    started: u64,
    pub missing: Vec<Task>,
}

impl Torn {
    /// Whether something kept every one of the others from its start.
    pub fn is_excused(&self, faults: &Faults) -> bool {
        self.missing.iter().all(|task| faults.kept_away(task, self.started))
    }
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: Vec<u64> = self.missing.iter().map(|task| task.index).collect();
        let (started, end) = (self.started, &self.end);
        write!(f, "a task ended before all of its round had started: {missing:?} of {started}, {end:?}")
    }
}

/// The tasks that ended before all of their round had started.
pub fn torn_rounds(ledger: &[Entry]) -> Vec<Torn> {
    let mut started: BTreeMap<(&str, u64), BTreeMap<u64, u64>> = BTreeMap::new();
    let mut torn = Vec::new();
    for entry in ledger {
        let Some(task) = &entry.task else { continue };
        let round = started.entry((&task.gang, task.round)).or_default();
        match entry.word.as_str() {
            "start" => {
                round.insert(task.index, entry.at);
            }
            "end" if round.len() < task.size as usize => {
                let missing = (0..task.size).filter(|index| !round.contains_key(index));
                let missing = missing.map(|index| Task { index, ..task.clone() }).collect();
                let started = round.values().min().copied().unwrap_or(entry.at);
                torn.push(Torn { end: entry.clone(), started, missing });
            }
            _ => {}
        }
    }
    torn
}

/// What a job finds is exact: its checkpoint, which is not older than what was acknowledged, and its upload.
fn bad_inputs(ledger: &[Entry]) -> Vec<String> {
    let told = |entry: &Entry| match entry.word.as_str() {
        "corrupt" | "stale" => Some(format!("a checkpoint is {}: {entry:?}", entry.word)),
        "damaged" => Some(format!("an upload is damaged: {entry:?}")),
        _ => None,
    };
    ledger.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::ledger::Task;
    use serde_json::json;

    fn job(id: &str, lease: u64, status: &str) -> Value {
        json!({ "id": id, "name": id, "status": status, "lease": lease, "attempts": 1, "done_at": "t" })
    }

    fn submitted(id: &str, depends_on: &[&str]) -> Submitted {
        let depends_on = depends_on.iter().map(ToString::to_string).collect();
        Submitted {
            id: id.into(),
            name: id.into(),
            depends_on,
            fails: false,
            tasks: Vec::new(),
            checkpoints: None,
            artifact: None,
        }
    }

    fn ledger(lines: &[(&str, &str, u64)]) -> Vec<Entry> {
        lines
            .iter()
            .map(|(word, job, lease)| Entry {
                word: (*word).into(),
                job: (*job).into(),
                lease: *lease,
                at: 0,
                worker: "w".into(),
                task: None,
            })
            .collect()
    }

    #[track_caller]
    fn finds(offence: &str, jobs: &[Value], acknowledged: &[Submitted], lines: &[(&str, &str, u64)]) {
        let seen = BTreeMap::from([("a".to_owned(), ending(&job("a", 1, "done")))]);
        let offences = compare(jobs, acknowledged, &seen, &ledger(lines), &Faults::default());
        if offence.is_empty() {
            assert_eq!(offences, Vec::<String>::new());
        } else {
            assert!(offences.iter().any(|found| found.contains(offence)), "{offence}: {offences:?}");
        }
    }

    const RAN: [(&str, &str, u64); 2] = [("start", "a", 1), ("end", "a", 1)];

    #[test]
    fn every_kind_of_offence_is_found() {
        let (done, asked) = (job("a", 1, "done"), submitted("a", &[]));
        let asked = std::slice::from_ref(&asked);
        let stored = std::slice::from_ref(&done);
        finds("", stored, asked, &RAN);
        finds("lost", &[], asked, &RAN);
        let mut twin = job("b", 1, "done");
        twin["name"] = json!("a");
        finds("several jobs were made", &[done.clone(), twin], asked, &RAN);
        finds("an end has changed", &[job("a", 1, "pending")], asked, &RAN);
        finds("started twice", stored, asked, &[("start", "a", 1), ("start", "a", 1), ("end", "a", 1)]);
        finds("two processes", stored, asked, &[("overlap", "a", 1), ("start", "a", 1), ("end", "a", 1)]);
        finds("never ran to the end", stored, asked, &[("start", "a", 1)]);
        finds("later lease", stored, asked, &[("start", "a", 1), ("end", "a", 1), ("start", "a", 2)]);
        finds("checkpoint is stale", stored, asked, &[RAN[0], ("stale", "a", 1), RAN[1]]);
        finds("upload is damaged", stored, asked, &[RAN[0], ("damaged", "a", 1), RAN[1]]);
        finds("done was expected", &[job("a", 1, "failed")], asked, &RAN);
    }

    #[test]
    fn a_task_that_ends_before_another_of_its_round_has_started_is_found() {
        let line = |word: &str, index, round| Entry {
            word: word.into(),
            job: format!("t{index}"),
            lease: round,
            at: 0,
            worker: "w".into(),
            task: Some(Task { gang: "g".into(), round, index, size: 2 }),
        };
        let whole = [line("start", 0, 1), line("start", 1, 1), line("end", 0, 1), line("end", 1, 1)];
        assert!(torn_rounds(&whole).is_empty());
        let stopped = [line("start", 0, 1), line("start", 0, 2), line("start", 1, 2), line("end", 0, 2)];
        assert!(torn_rounds(&stopped).is_empty(), "a round in which nobody came to the end may be torn");
        let torn = [line("start", 0, 1), line("start", 1, 2), line("end", 0, 1), line("start", 1, 1)];
        assert_eq!(torn_rounds(&torn).len(), 1);
    }

    #[test]
    fn a_start_before_its_dependency_is_found() {
        let jobs = [job("a", 1, "done"), job("b", 1, "done")];
        let asked = [submitted("a", &[]), submitted("b", &["a"])];
        let early = [("start", "a", 1), ("start", "b", 1), ("end", "a", 1), ("end", "b", 1)];
        finds("started before", &jobs, &asked, &early);
    }
}
