//! The kills: who, when and for how long, all drawn from the seed.

use std::thread;
use std::time::{Duration, Instant};

use muster_tests::{Postgres, Scheduler, Worker};
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The schedulers of this test take a lease away after four seconds of silence.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(5);

/// Everything that may be killed.
pub(crate) struct Victims {
    pub(crate) scheduler: Scheduler,
    pub(crate) workers: Vec<Worker>,
    pub(crate) cluster: Option<Postgres>,
}

/// Kills and revives until the time is up; everything runs again at the end. Returns what was done.
pub(crate) fn commit(victims: &mut Victims, seed: u64, length: Duration) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(seed);
    let start = Instant::now();
    let mut deeds = Vec::new();
    while start.elapsed() < length {
        thread::sleep(Duration::from_millis(random.random_range(300..2500)));
        let mut down = Duration::from_millis(random.random_range(0..2000));
        let number = random.random_range(0..victims.workers.len());
        let worker = &mut victims.workers[number];
        let kinds = if victims.cluster.is_some() { 8 } else { 6 };
        let deed = match random.random_range(0..kinds) {
            0 | 1 => kill_scheduler(victims, down),
            2 => kill_worker(worker, down),
            3 => {
                down += LONGER_THAN_A_LEASE;
                kill_worker(worker, down)
            }
            4 => {
                down += LONGER_THAN_A_LEASE;
                freeze_worker(worker, down)
            }
            5 => kill_keeper(worker),
            6 => kill_postgres(victims, down, Postgres::kill9),
            _ => kill_postgres(victims, down, Postgres::stop_immediate),
        };
        deeds.push(format!("{:6.2} s: {deed}, {down:?} down", start.elapsed().as_secs_f64()));
    }
    deeds
}

fn kill_scheduler(victims: &mut Victims, down: Duration) -> &'static str {
    victims.scheduler.kill9();
    thread::sleep(down);
    victims.scheduler.restart();
    "scheduler killed"
}

fn kill_worker(worker: &mut Worker, down: Duration) -> &'static str {
    worker.kill9();
    thread::sleep(down);
    worker.restart();
    "worker killed"
}

/// The worker's agent stands still and goes on as if nothing had been; its jobs must not be running by then.
fn freeze_worker(worker: &mut Worker, down: Duration) -> &'static str {
    worker.process().signal(Signal::SIGSTOP);
    thread::sleep(down);
    worker.process().signal(Signal::SIGCONT);
    "worker frozen"
}

fn kill_keeper(worker: &Worker) -> &'static str {
    if worker.kill9_keeper() { "keeper killed" } else { "no keeper to kill" }
}

fn kill_postgres(victims: &mut Victims, down: Duration, stop: fn(&Postgres)) -> &'static str {
    let Some(cluster) = &victims.cluster else { return "nothing" };
    stop(cluster);
    thread::sleep(down);
    cluster.restart();
    assert!(victims.scheduler.process().is_alive(), "the scheduler did not survive the loss of its store");
    victims.scheduler.await_ready();
    "PostgreSQL killed"
}
