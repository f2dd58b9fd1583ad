//! The operator of a drill: ends the quarantine of workers at once, and releases jobs that lost three workers in a row. A kill
//! of a keeper looks like a worker on which everything fails, and of a machine like a job that takes its workers along;
//! without somebody who knows better most of the cluster would soon get no gangs, and some jobs would stay on hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::{Http, id_of};

/// Looks at the workers until it is stopped.
#[derive(Debug)]
pub struct Operator {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(usize, usize)>,
}

impl Operator {
    pub fn start(schedulers: Vec<Http>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut lifted, mut released) = (0, 0);
            for http in schedulers.into_iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                lifted += lift(http);
                released += release(http);
                thread::sleep(Duration::from_millis(500));
            }
            (lifted, released)
        });
        Self { stop, thread }
    }

    /// How many quarantines were ended, and how many jobs released.
    pub fn stop(self) -> (usize, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the operator bears with a scheduler that does not answer")
    }
}

fn lift(http: Http) -> usize {
    let shut = read(http, "/workers").into_iter().filter(|worker| !worker["quarantine"].is_null());
    shut.filter(|worker| post(http, &format!("/workers/{}/release", id_of(worker)))).count()
}

fn release(http: Http) -> usize {
    let held = read(http, "/jobs?status=held");
    held.iter().filter(|job| post(http, &format!("/jobs/{}/unhold", id_of(job)))).count()
}

fn read(http: Http, target: &str) -> Vec<Value> {
    let answer = http.request("GET", target).try_send().ok().filter(|response| response.status == 200);
    answer.and_then(|response| serde_json::from_slice(&response.body).ok()).unwrap_or_default()
}

fn post(http: Http, target: &str) -> bool {
    let answer = http.request("POST", target).header("Content-Length", "0").try_send();
    answer.is_ok_and(|response| response.status == 200)
}
