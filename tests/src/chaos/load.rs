//! Clients that submit without pause and insist until each submit is acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::ledger::{Labour, Ledger};
use crate::{Gang, Http, id_of};

const CLIENTS: u64 = 3;

/// Attempts that nothing but a program that fails should use up.
const PLENTY: u32 = 1_000;

/// Sizes of checkpoints: one that fits into the environment of a job, and one that does not.
const CHECKPOINT_BYTES: [usize; 2] = [1_000, 200_000];

/// A submit that was acknowledged.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The job, or the first task of a gang.
    pub id: String,
    pub name: String,
    pub depends_on: Vec<String>,
    pub fails: bool,
    /// The tasks of a gang.
    pub tasks: Vec<String>,
    /// The size of the checkpoints that it saves.
    pub checkpoints: Option<usize>,
}

impl Submitted {
    /// The jobs that were made of it.
    pub fn jobs(&self) -> &[String] {
        if self.tasks.is_empty() { std::slice::from_ref(&self.id) } else { &self.tasks }
    }
}

/// Of what the load is made, in shares of all submits; the rest are jobs that only sleep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mix {
    pub gangs: f64,
    pub checkpoints: f64,
    pub children: f64,
}

/// How many submits were acknowledged so far.
#[derive(Debug, Default)]
pub struct Progress {
    pub jobs: AtomicUsize,
    pub gangs: AtomicUsize,
}

/// The running clients.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    clients: Vec<JoinHandle<Vec<Submitted>>>,
}

impl Load {
    /// Each client speaks to one of the schedulers.
    pub fn start(schedulers: &[Http], ledger: &Ledger, seed: u64, mix: Mix) -> Self {
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let ledger = Arc::new(ledger.clone());
        let clients = (0..CLIENTS).map(|number| {
            let (stop, progress, ledger) = (Arc::clone(&stop), Arc::clone(&progress), Arc::clone(&ledger));
            let http = schedulers[number as usize % schedulers.len()];
            thread::spawn(move || {
                Client::new(http, seed, number, mix).submit_until(&stop, &progress, &ledger)
            })
        });
        Self { clients: clients.collect(), stop, progress }
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Ends the clients, each after its current submit, and collects what was acknowledged.
    pub fn stop(self) -> Vec<Submitted> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.clients.into_iter().map(|client| client.join().expect("no client gave up"));
        ended.flatten().collect()
    }
}

struct Client {
    http: Http,
    number: u64,
    random: StdRng,
    mix: Mix,
    acknowledged: Vec<Submitted>,
}

impl Client {
    fn new(http: Http, seed: u64, number: u64, mix: Mix) -> Self {
        let random = StdRng::seed_from_u64(seed ^ (number + 1));
        Self { http, number, random, mix, acknowledged: Vec::new() }
    }

    fn submit_until(mut self, stop: &AtomicBool, progress: &Progress, ledger: &Ledger) -> Vec<Submitted> {
        while !stop.load(Ordering::Relaxed) {
            let gang = self.mix.gangs > 0.0 && self.random.random_bool(self.mix.gangs);
            let submitted = if gang { self.submit_gang(ledger) } else { self.submit_one(ledger) };
            let counter = if gang { &progress.gangs } else { &progress.jobs };
            counter.fetch_add(1, Ordering::Relaxed);
            self.acknowledged.push(submitted);
            thread::sleep(Duration::from_millis(self.random.random_range(50..400)));
        }
        self.acknowledged
    }

    fn name(&self) -> String {
        format!("client-{}-{}", self.number, self.acknowledged.len())
    }

    /// Submits one job: most succeed after a while, some fail twice and for good, some follow an earlier one.
    fn submit_one(&mut self, ledger: &Ledger) -> Submitted {
        let name = self.name();
        let fails = self.random.random_bool(0.1);
        let singles = |earlier: &&Submitted| !earlier.fails && earlier.tasks.is_empty();
        let good: Vec<&Submitted> = self.acknowledged.iter().filter(singles).collect();
        let follows = !good.is_empty() && self.random.random_bool(0.25);
        let depends_on =
            if follows { vec![good[self.random.random_range(0..good.len())].id.clone()] } else { Vec::new() };
        let labour = self.labour();
        let request = json!({
            "command": ledger.command(labour, u8::from(fails)),
            "name": name,
            "idempotency_key": name,
            "depends_on": depends_on,
            "max_retries": if fails { 2 } else { PLENTY },
        });
        let id = id_of(&self.insist(&request));
        let checkpoints = if let Labour::Checkpoints(bytes) = labour { Some(bytes) } else { None };
        Submitted { id, name, depends_on, fails, tasks: Vec::new(), checkpoints }
    }

    fn labour(&mut self) -> Labour {
        let (draw, seconds) = (self.random.random_range(0.0..1.0), self.random.random_range(0.0..1.2));
        let bytes = CHECKPOINT_BYTES[self.random.random_range(0..CHECKPOINT_BYTES.len())];
        if draw < self.mix.checkpoints {
            Labour::Checkpoints(bytes)
        } else if draw < self.mix.checkpoints + self.mix.children {
            Labour::Child(seconds)
        } else {
            Labour::Sleep(seconds)
        }
    }

    /// Submits a gang whose tasks all succeed after a while.
    fn submit_gang(&mut self, ledger: &Ledger) -> Submitted {
        let name = self.name();
        let seconds = self.random.random_range(0.8..2.0);
        let request = json!({
            "command": ledger.command(Labour::Sleep(seconds), 0),
            "name": name,
            "idempotency_key": name,
            "gang_size": self.random.random_range(2..=4),
            "max_retries": PLENTY,
        });
        let gang = Gang::of(&self.insist(&request));
        let id = gang.tasks.first().cloned().unwrap_or_default();
        Submitted { id, name, depends_on: Vec::new(), fails: false, tasks: gang.tasks, checkpoints: None }
    }

    /// Repeats the request until it is acknowledged; the key makes the repetition harmless.
    fn insist(&mut self, request: &Value) -> Value {
        loop {
            let sent = self.http.request("POST", "/jobs").body(request.to_string()).try_send();
            match sent {
                Ok(response) if matches!(response.status, 200 | 201) => return response.json(),
                Ok(response) => assert_eq!(response.status, 503, "{}", response.text()),
                Err(_) => {}
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}
