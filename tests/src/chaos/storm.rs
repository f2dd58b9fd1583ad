//! Kills and freezes, several victims at once: who, when and for how long is drawn from the seed, one stream for each
//! victim, so that the same seed plays the same deeds on each, as far as the machine keeps pace.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use muster_s3_testkit::Seaweed;

use super::leftovers::Calm;
use crate::container_engine::ContainerEngine;
use crate::{Postgres, Scheduler, Worker};

/// Milliseconds. The schedulers of a drill take a lease away after four seconds of silence: long is longer.
const SHORT: Range<u64> = 0..2_000;
const LONG: Range<u64> = 5_000..7_000;

/// How long a scheduler may need until it is ready, while its database may be down.
const READY_BOUND: Duration = Duration::from_secs(120);

/// Everything that may be harmed.
#[derive(Debug)]
pub struct Cluster {
    pub schedulers: Vec<Scheduler>,
    pub workers: Vec<Worker>,
    pub database: Option<Postgres>,
    /// What jobs in containers run by; all workers share it.
    pub engine: ContainerEngine,
    /// Where artifacts and uploads lie; a directory of the scheduler otherwise.
    pub bucket: Option<Seaweed>,
}

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub seed: u64,
    pub kills: usize,
    pub limit: Duration,
}

/// One kill or freeze.
#[derive(Debug, Clone)]
pub struct Deed {
    pub at: Duration,
    pub victim: String,
    pub what: &'static str,
    pub down: Duration,
}

/// What the storm has done and seen.
#[derive(Debug, Default)]
pub struct Log {
    pub deeds: Vec<Deed>,
    /// Programs that ended although nobody had killed them, or did not come back.
    pub offences: Vec<String>,
}

/// A program, or a machine, that can be harmed and is whole again afterwards.
trait Victim {
    fn name(&self) -> String;
    /// Milliseconds between two deeds.
    fn pause(&self) -> Range<u64>;
    /// Says what was wrong before anything was done to it, and puts it right.
    fn inspect(&mut self) -> Option<String>;
    fn harm(&mut self, random: &mut StdRng) -> Result<(&'static str, Duration), String>;
}

fn span(random: &mut StdRng, range: Range<u64>) -> Duration {
    Duration::from_millis(random.random_range(range))
}

fn short_or_long(random: &mut StdRng) -> Duration {
    let range = if random.random_bool(0.6) { SHORT } else { LONG };
    span(random, range)
}

impl Victim for &mut Scheduler {
    fn name(&self) -> String {
        format!("scheduler {}", self.url())
    }

    fn pause(&self) -> Range<u64> {
        2_000..8_000
    }

    fn inspect(&mut self) -> Option<String> {
        let status = self.process().ended()?;
        self.supervise(READY_BOUND);
        Some(format!("ended by itself: {}, {status}", self.name()))
    }

    fn harm(&mut self, random: &mut StdRng) -> Result<(&'static str, Duration), String> {
        let down = short_or_long(random);
        if random.random_bool(0.3) {
            self.process().signal(Signal::SIGSTOP);
            thread::sleep(down);
            self.process().signal(Signal::SIGCONT);
            return Ok(("scheduler frozen", down));
        }
        self.kill9();
        thread::sleep(down);
        if self.supervise(READY_BOUND) {
            Ok(("scheduler killed", down))
        } else {
            Err(format!("did not come back: {}", self.name()))
        }
    }
}

/// Signals what runs in the containers of a worker: its machine stands for theirs, and their engine is nobody's.
fn signal_containers(worker: &str, signal: Signal) {
    let marker = format!("MUSTER_WORKER_ID={worker}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids.filter(|pid| *pid != std::process::id() as i32) {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// A worker's machine, with its mark in the calendar of calm.
struct Machine<'w> {
    worker: &'w mut Worker,
    calm: &'w Calm,
    directory: PathBuf,
}

impl Machine<'_> {
    fn do_harm(&mut self, random: &mut StdRng) -> (&'static str, Duration) {
        let down = short_or_long(random);
        let worker = &mut *self.worker;
        match random.random_range(0..8) {
            0 | 1 => {
                worker.kill9();
                thread::sleep(down);
                worker.restart();
                ("agent killed", down)
            }
            2 => {
                worker.process().signal(Signal::SIGSTOP);
                thread::sleep(down);
                worker.process().signal(Signal::SIGCONT);
                ("agent frozen", down)
            }
            3 => {
                worker.kill9_keeper();
                ("keeper killed", Duration::ZERO)
            }
            4 => {
                worker.signal_keeper(Signal::SIGSTOP);
                thread::sleep(down);
                worker.signal_keeper(Signal::SIGCONT);
                ("keeper frozen", down)
            }
            5 => {
                worker.kill9_keeper();
                worker.kill9();
                thread::sleep(down);
                worker.restart();
                ("agent and keeper killed", down)
            }
            6 => {
                worker.kill9_machine();
                signal_containers(worker.id(), Signal::SIGKILL);
                thread::sleep(down);
                worker.restart();
                ("machine killed", down)
            }
            _ => {
                worker.signal_machine(Signal::SIGSTOP);
                signal_containers(worker.id(), Signal::SIGSTOP);
                thread::sleep(down);
                signal_containers(worker.id(), Signal::SIGCONT);
                worker.signal_machine(Signal::SIGCONT);
                ("machine frozen", down)
            }
        }
    }
}

impl Victim for Machine<'_> {
    fn name(&self) -> String {
        format!("worker {}", self.worker.id())
    }

    fn pause(&self) -> Range<u64> {
        1_000..6_000
    }

    fn inspect(&mut self) -> Option<String> {
        let status = self.worker.process().ended()?;
        self.worker.restart();
        Some(format!("ended by itself: {}, {status}", self.name()))
    }

    fn harm(&mut self, random: &mut StdRng) -> Result<(&'static str, Duration), String> {
        self.calm.broken(&self.directory);
        let done = self.do_harm(random);
        self.calm.whole(&self.directory);
        Ok(done)
    }
}

/// The engine of all workers; while it is away none of them is whole.
struct Engine<'e> {
    daemon: &'e ContainerEngine,
    calm: &'e Calm,
    directories: Vec<PathBuf>,
}

impl Victim for Engine<'_> {
    fn name(&self) -> String {
        "dockerd".to_owned()
    }

    fn pause(&self) -> Range<u64> {
        8_000..20_000
    }

    fn inspect(&mut self) -> Option<String> {
        None
    }

    fn harm(&mut self, random: &mut StdRng) -> Result<(&'static str, Duration), String> {
        let down = short_or_long(random);
        let what = self.calm.without(&self.directories, || match random.random_range(0..3) {
            0 => {
                self.daemon.signal(Signal::SIGSTOP);
                thread::sleep(down);
                self.daemon.signal(Signal::SIGCONT);
                "dockerd frozen"
            }
            number => {
                let signal = if number == 1 { Signal::SIGKILL } else { Signal::SIGTERM };
                self.daemon.end(signal);
                thread::sleep(down);
                self.daemon.restart();
                "dockerd ended"
            }
        });
        Ok((what, down))
    }
}

impl Victim for &Seaweed {
    fn name(&self) -> String {
        "S3".to_owned()
    }

    fn pause(&self) -> Range<u64> {
        6_000..16_000
    }

    fn inspect(&mut self) -> Option<String> {
        None
    }

    fn harm(&mut self, random: &mut StdRng) -> Result<(&'static str, Duration), String> {
        let down = short_or_long(random);
        self.kill();
        thread::sleep(down);
        self.launch();
        Ok(("S3 killed", down))
    }
}

impl Victim for &Postgres {
    fn name(&self) -> String {
        "PostgreSQL".to_owned()
    }

    fn pause(&self) -> Range<u64> {
        6_000..16_000
    }

    fn inspect(&mut self) -> Option<String> {
        None
    }

    fn harm(&mut self, random: &mut StdRng) -> Result<(&'static str, Duration), String> {
        let down = short_or_long(random);
        let what = match random.random_range(0..3) {
            0 => {
                self.kill9();
                "PostgreSQL killed"
            }
            1 => {
                self.stop_immediate();
                "PostgreSQL stopped at once"
            }
            _ => {
                self.signal_all(Signal::SIGSTOP);
                thread::sleep(down);
                self.signal_all(Signal::SIGCONT);
                return Ok(("PostgreSQL frozen", down));
            }
        };
        thread::sleep(down);
        self.restart();
        Ok((what, down))
    }
}

/// What the threads of the victims share.
struct Rage<'s> {
    start: Instant,
    bounds: Bounds,
    count: AtomicUsize,
    log: Mutex<Log>,
    enough: &'s (dyn Fn() -> bool + Sync),
}

impl Rage<'_> {
    fn is_over(&self) -> bool {
        let done = self.count.load(Ordering::Relaxed) >= self.bounds.kills && (self.enough)();
        done || self.start.elapsed() > self.bounds.limit
    }

    /// Harms one victim again and again.
    fn on(&self, mut victim: impl Victim, stream: u64) {
        let mut random = StdRng::seed_from_u64(self.bounds.seed.wrapping_mul(1_000).wrapping_add(stream));
        loop {
            thread::sleep(span(&mut random, victim.pause()));
            let ended = victim.inspect();
            if self.is_over() {
                self.note(|log| log.offences.extend(ended));
                return;
            }
            let at = self.start.elapsed();
            let harmed = victim.harm(&mut random);
            self.count.fetch_add(1, Ordering::Relaxed);
            self.note(|log| {
                log.offences.extend(ended);
                match harmed {
                    Ok((what, down)) => log.deeds.push(Deed { at, victim: victim.name(), what, down }),
                    Err(offence) => log.offences.push(offence),
                }
            });
        }
    }

    fn note(&self, write: impl FnOnce(&mut Log)) {
        write(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Harms everything until there were enough kills and `enough` says so, or the time is up; all is whole at the end.
pub fn rage(cluster: &mut Cluster, calm: &Calm, bounds: Bounds, enough: &(dyn Fn() -> bool + Sync)) -> Log {
    let rage =
        Rage { start: Instant::now(), bounds, count: AtomicUsize::new(0), log: Mutex::default(), enough };
    let directories: Vec<PathBuf> = cluster.workers.iter().map(Worker::directory).collect();
    thread::scope(|scope| {
        let rage = &rage;
        for (stream, scheduler) in cluster.schedulers.iter_mut().enumerate() {
            scope.spawn(move || rage.on(scheduler, stream as u64));
        }
        for (stream, worker) in cluster.workers.iter_mut().enumerate() {
            let directory = worker.directory();
            let machine = Machine { worker, calm, directory };
            scope.spawn(move || rage.on(machine, 100 + stream as u64));
        }
        if let Some(database) = &cluster.database {
            scope.spawn(move || rage.on(database, 200));
        }
        if let Some(bucket) = &cluster.bucket {
            scope.spawn(move || rage.on(bucket, 300));
        }
        let engine = Engine { daemon: &cluster.engine, calm, directories };
        scope.spawn(move || rage.on(engine, 400));
    });
    let mut log = rage.log.into_inner().unwrap_or_else(PoisonError::into_inner);
    log.deeds.sort_by_key(|deed| deed.at);
    log
}
