//! The operator of a drill: ends the quarantine of workers at once. A kill of a keeper looks like a worker on which everything
//! fails, and without somebody who knows better most of the cluster would soon get no gangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::Http;

/// Looks at the workers until it is stopped.
#[derive(Debug)]
pub struct Operator {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Operator {
    pub fn start(schedulers: Vec<Http>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut lifted = 0;
            for http in schedulers.into_iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                lifted += lift(http);
                thread::sleep(Duration::from_millis(500));
            }
            lifted
        });
        Self { stop, thread }
    }

    /// How many quarantines were ended.
    pub fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the operator bears with a scheduler that does not answer")
    }
}

fn lift(http: Http) -> usize {
    let answer = http.request("GET", "/workers").try_send().ok().filter(|response| response.status == 200);
    let workers: Vec<Value> =
        answer.and_then(|response| serde_json::from_slice(&response.body).ok()).unwrap_or_default();
    let shut = workers.iter().filter(|worker| !worker["quarantine"].is_null());
    let released = shut.filter(|worker| {
        let target = format!("/workers/{}/release", worker["id"].as_str().unwrap_or_default());
        let answer = http.request("POST", &target).header("Content-Length", "0").try_send();
        answer.is_ok_and(|response| response.status == 200)
    });
    released.count()
}
