//! Clients that submit without pause and insist until each submit is acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use muster_tests::{Http, id_of};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::ledger::Ledger;

const CLIENTS: u64 = 3;

/// A submit that was answered with 201.
#[derive(Debug, Clone)]
pub(crate) struct Submitted {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) depends_on: Vec<String>,
    pub(crate) fails: bool,
}

/// The running clients.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Submitted>>>,
}

impl Load {
    pub(crate) fn start(http: Http, ledger: &Ledger, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ledger = Arc::new(ledger.clone());
        let clients = (0..CLIENTS).map(|number| {
            let (stop, ledger) = (Arc::clone(&stop), Arc::clone(&ledger));
            thread::spawn(move || Client::new(http, seed, number).submit_until(&stop, &ledger))
        });
        Self { clients: clients.collect(), stop }
    }

    /// Ends the clients, each after its current submit, and collects what was acknowledged.
    pub(crate) fn stop(self) -> Vec<Submitted> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

struct Client {
    http: Http,
    number: u64,
    random: StdRng,
    acknowledged: Vec<Submitted>,
}

impl Client {
    fn new(http: Http, seed: u64, number: u64) -> Self {
        Self { http, number, random: StdRng::seed_from_u64(seed ^ (number + 1)), acknowledged: Vec::new() }
    }

    fn submit_until(mut self, stop: &AtomicBool, ledger: &Ledger) -> Vec<Submitted> {
        while !stop.load(Ordering::Relaxed) {
            let submitted = self.submit_one(ledger);
            self.acknowledged.push(submitted);
            thread::sleep(Duration::from_millis(self.random.random_range(50..400)));
        }
        self.acknowledged
    }

    /// Submits one job: most succeed after a while, some fail twice and for good, some follow an earlier one.
    fn submit_one(&mut self, ledger: &Ledger) -> Submitted {
        let name = format!("client-{}-{}", self.number, self.acknowledged.len());
        let fails = self.random.random_bool(0.1);
        let good: Vec<&Submitted> = self.acknowledged.iter().filter(|earlier| !earlier.fails).collect();
        let follows = !good.is_empty() && self.random.random_bool(0.25);
        let depends_on =
            if follows { vec![good[self.random.random_range(0..good.len())].id.clone()] } else { Vec::new() };
        let seconds = self.random.random_range(0.0..1.2);
        let request = json!({
            "command": ledger.command(seconds, u8::from(fails)),
            "name": name,
            "idempotency_key": name,
            "depends_on": depends_on,
            "max_retries": if fails { 2 } else { 100 },
        });
        let id = id_of(&self.insist(&request));
        Submitted { id, name, depends_on, fails }
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
