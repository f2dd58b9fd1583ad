//! What outlives its job: every process that a job has started carries the job's id in its environment, also one that has
//! left the job's group and session.
//!
//! A process may live for ten seconds after its job has ended, counted from when its machine is whole: an agent that
//! was killed ends nothing before it is back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::is_final;
use crate::Http;

/// How long a process may outlive its job.
const GRACE: Duration = Duration::from_secs(10);

/// Since when each worker has been whole, by its directory.
#[derive(Debug, Default)]
pub struct Calm(Mutex<BTreeMap<PathBuf, Option<Instant>>>);

impl Calm {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something of the worker is down or frozen.
    pub fn broken(&self, worker: &Path) {
        self.lock().insert(worker.to_owned(), None);
    }

    /// Everything of the worker runs.
    pub fn whole(&self, worker: &Path) {
        self.lock().insert(worker.to_owned(), Some(Instant::now()));
    }

    /// Does something that none of these workers is whole during.
    pub fn without<T>(&self, workers: &[PathBuf], work: impl FnOnce() -> T) -> T {
        // Something else may have happened to one of them meanwhile, which ends later: it counts as whole from then on.
        for worker in workers {
            self.broken(worker);
        }
        let done = work();
        for worker in workers {
            self.whole(worker);
        }
        done
    }

    fn lasts(&self, worker: &Path) -> bool {
        self.lock().get(worker).copied().flatten().is_some_and(|since| since.elapsed() > GRACE)
    }

    fn knows(&self, worker: &Path) -> bool {
        self.lock().contains_key(worker)
    }
}

/// A process that a job has started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    pid: i32,
    job: String,
    lease: String,
    worker: PathBuf,
    command: String,
}

impl Found {
    fn read(pid: i32) -> Option<Self> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let value = |name: &str| {
            let variable = environment.split(|byte| *byte == 0).find_map(|variable| {
                variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(String::from_utf8_lossy)
            });
            variable.map(std::borrow::Cow::into_owned)
        };
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ").chars().take(60).collect();
        let (job, worker) = (value("MUSTER_JOB_ID")?, PathBuf::from(value("MUSTER_WORKER_DIR")?));
        Some(Self { pid, job, lease: value("MUSTER_LEASE")?, worker, command })
    }

    fn all(calm: &Calm) -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(Self::read).filter(|found| calm.knows(&found.worker)).collect()
    }
}

/// Looks for such processes until it is stopped.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Watch {
    pub fn start(schedulers: Vec<Http>, calm: Arc<Calm>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut ended = BTreeMap::new();
            let mut offences = BTreeMap::new();
            for http in schedulers.into_iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                look(http, &calm, &mut ended, &mut offences);
                thread::sleep(Duration::from_secs(1));
            }
            offences.into_values().collect()
        });
        Self { stop, thread }
    }

    /// Waits until everything has had its time, and says what was or is alive for too long.
    pub fn stop(self, calm: &Calm) -> Vec<String> {
        let deadline = Instant::now() + GRACE + GRACE / 2;
        while Instant::now() < deadline && !Found::all(calm).is_empty() {
            thread::sleep(Duration::from_millis(200));
        }
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch only reads")
    }
}

fn look(
    http: Http,
    calm: &Calm,
    ended: &mut BTreeMap<String, Instant>,
    offences: &mut BTreeMap<Found, String>,
) {
    let found = Found::all(calm);
    let jobs: BTreeSet<&String> = found.iter().map(|found| &found.job).collect();
    for job in jobs {
        if !ended.contains_key(job) && has_ended(http, job) {
            ended.insert(job.clone(), Instant::now());
        }
    }
    for found in found {
        let Some(since) = ended.get(&found.job).map(Instant::elapsed) else { continue };
        if since > GRACE && calm.lasts(&found.worker) {
            let told = format!("alive after its job ended: {} s, {found:?}", since.as_secs());
            offences.entry(found).or_insert(told);
        }
    }
}

fn has_ended(http: Http, job: &str) -> bool {
    let answer = http.request("GET", &format!("/jobs/{job}")).try_send();
    let job = answer.ok().filter(|response| response.status == 200).map(|response| response.json());
    job.is_some_and(|job| is_final(job["status"].as_str().unwrap_or_default()))
}
