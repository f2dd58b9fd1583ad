//! Compares the three accounts and lists every disagreement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use muster_tests::{Http, id_of};
use serde_json::Value;

use crate::is_final;
use crate::ledger::Entry;
use crate::load::Submitted;

/// What never changes once a job has ended.
type Ending = (Value, Value, Value, Value);

/// Watches the jobs all the while and remembers how each was first seen to have ended.
pub(crate) struct Observer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<String, Ending>>,
}

impl Observer {
    pub(crate) fn start(http: Http) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut seen = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
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

    pub(crate) fn stop(self) -> BTreeMap<String, Ending> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn read_jobs(http: Http) -> Vec<Value> {
    let answer = http.request("GET", "/jobs").try_send().ok().filter(|response| response.status == 200);
    answer.and_then(|response| serde_json::from_slice(&response.body).ok()).unwrap_or_default()
}

fn ending(job: &Value) -> Ending {
    (job["status"].clone(), job["done_at"].clone(), job["lease"].clone(), job["attempts"].clone())
}

/// Every way in which the accounts disagree.
pub(crate) fn compare(
    jobs: &[Value],
    acknowledged: &[Submitted],
    seen: &BTreeMap<String, Ending>,
    ledger: &[Entry],
) -> Vec<String> {
    let store: BTreeMap<String, &Value> = jobs.iter().map(|job| (id_of(job), job)).collect();
    let mut offences = Vec::new();
    offences.extend(lost_or_doubled(&store, acknowledged));
    offences.extend(changed_endings(&store, seen));
    offences.extend(double_starts(ledger));
    offences.extend(false_ends(&store, acknowledged, ledger));
    offences.extend(wrong_order(acknowledged, ledger));
    offences
}

/// Nothing acknowledged is lost, and a repeated submit has made no second job.
fn lost_or_doubled(store: &BTreeMap<String, &Value>, acknowledged: &[Submitted]) -> Vec<String> {
    let mut offences = Vec::new();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for job in store.values() {
        *names.entry(job["name"].as_str().unwrap_or_default()).or_default() += 1;
    }
    for submitted in acknowledged {
        if !store.contains_key(&submitted.id) {
            offences.push(format!("lost: {submitted:?}"));
        }
        let count = names.get(submitted.name.as_str()).copied().unwrap_or_default();
        if count > 1 {
            offences.push(format!("{count} jobs were made of one submit: {submitted:?}"));
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
fn double_starts(ledger: &[Entry]) -> Vec<String> {
    let mut offences = Vec::new();
    let mut started = BTreeSet::new();
    for entry in ledger {
        match entry.word.as_str() {
            "start" if !started.insert((&entry.job, entry.lease)) => {
                offences.push(format!("started twice: {entry:?}"));
            }
            "overlap" => offences.push(format!("two processes of one job at once: {entry:?}")),
            _ => {}
        }
    }
    offences
}

/// A job that is done ran to its end under its last lease and never again; a failed one used its attempts.
fn false_ends(store: &BTreeMap<String, &Value>, acknowledged: &[Submitted], ledger: &[Entry]) -> Vec<String> {
    let mut offences = Vec::new();
    for submitted in acknowledged {
        let Some(job) = store.get(&submitted.id) else { continue };
        let lease = job["lease"].as_u64().unwrap_or_default();
        let of_job = || ledger.iter().filter(|entry| entry.job == submitted.id);
        let ended = of_job().any(|entry| entry.word == "end" && entry.lease == lease);
        let later = of_job().any(|entry| entry.lease > lease);
        let expected = if submitted.fails { "failed" } else { "done" };
        if job["status"] != expected {
            offences.push(format!("{expected} was expected: {job}"));
        }
        if job["status"] == "done" && !ended {
            offences.push(format!("done, yet its last lease never ran to the end: {job}"));
        }
        if later {
            offences.push(format!("ran under a later lease than the store knows: {job}"));
        }
    }
    offences
}

/// No job started before what it depends on had ended.
fn wrong_order(acknowledged: &[Submitted], ledger: &[Entry]) -> Vec<String> {
    let position =
        |word: &str, job: &str| ledger.iter().position(|entry| entry.word == word && entry.job == job);
    let mut offences = Vec::new();
    for submitted in acknowledged {
        let Some(start) = position("start", &submitted.id) else { continue };
        for dependency in &submitted.depends_on {
            if position("end", dependency).is_none_or(|end| end > start) {
                offences.push(format!("started before {dependency} had ended: {submitted:?}"));
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(id: &str, lease: u64, status: &str) -> Value {
        json!({ "id": id, "name": id, "status": status, "lease": lease, "attempts": 1, "done_at": "t" })
    }

    fn submitted(id: &str, depends_on: &[&str]) -> Submitted {
        let depends_on = depends_on.iter().map(ToString::to_string).collect();
        Submitted { id: id.into(), name: id.into(), depends_on, fails: false }
    }

    fn ledger(lines: &[(&str, &str, u64)]) -> Vec<Entry> {
        lines
            .iter()
            .map(|(word, job, lease)| Entry { word: (*word).into(), job: (*job).into(), lease: *lease })
            .collect()
    }

    #[track_caller]
    fn finds(offence: &str, jobs: &[Value], acknowledged: &[Submitted], lines: &[(&str, &str, u64)]) {
        let seen = BTreeMap::from([("a".to_owned(), ending(&job("a", 1, "done")))]);
        let offences = compare(jobs, acknowledged, &seen, &ledger(lines));
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
        finds("2 jobs were made", &[done.clone(), twin], asked, &RAN);
        finds("an end has changed", &[job("a", 1, "pending")], asked, &RAN);
        finds("started twice", stored, asked, &[("start", "a", 1), ("start", "a", 1), ("end", "a", 1)]);
        finds("two processes", stored, asked, &[("overlap", "a", 1), ("start", "a", 1), ("end", "a", 1)]);
        finds("never ran to the end", stored, asked, &[("start", "a", 1)]);
        finds("later lease", stored, asked, &[("start", "a", 1), ("end", "a", 1), ("start", "a", 2)]);
        finds("done was expected", &[job("a", 1, "failed")], asked, &RAN);
    }

    #[test]
    fn a_start_before_its_dependency_is_found() {
        let jobs = [job("a", 1, "done"), job("b", 1, "done")];
        let asked = [submitted("a", &[]), submitted("b", &["a"])];
        let early = [("start", "a", 1), ("start", "b", 1), ("end", "a", 1), ("end", "b", 1)];
        finds("started before", &jobs, &asked, &early);
    }
}
