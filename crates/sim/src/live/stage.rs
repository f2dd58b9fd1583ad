//! What all parts of a live run share: the store with the checks behind it, the schedulers, the workers, and
//! which of them can reach each other.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_domain::{Job, Span, Status, Timestamp};
use muster_store::{Applied, Command, Outcome, Wake};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::network::Message;
use super::scheduler::Instance;
use crate::broken::Broken;
use crate::faults::Mischief;
use crate::leaders::is_unled;
use crate::ledger::{Ledger, Moment};
use crate::random::Random;
use crate::worker::ProcessKey;

/// Where the clock starts: a round time, far from zero.
pub(crate) const START: i64 = 1_700_000_000_000_000;

/// Messages that are kept to be heard once more.
const ECHOES: usize = 64;

/// How the way to the store is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoreWeather {
    /// Out of a thousand transactions: not reached, met another, committed without an answer.
    pub(crate) refused: u32,
    pub(crate) collides: u32,
    pub(crate) answers_lost: u32,
}

/// Everything that changes.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    began: Instant,
    pub(crate) random: Random,
    /// What the network does to the messages of each worker.
    pub(crate) lines: Vec<Random>,
    pub(crate) mischief: Mischief,
    pub(crate) weather: StoreWeather,
    pub(crate) instances: Vec<Instance>,
    /// How often each worker has begun anew.
    pub(crate) lives: Vec<u64>,
    /// Workers that cannot reach a scheduler, and until when.
    pub(crate) cuts: BTreeMap<(usize, usize), Instant>,
    /// The jobs that were handed out, and when.
    pub(crate) handed: BTreeMap<ProcessKey, (Job, Timestamp)>,
    pub(crate) echoes: VecDeque<(usize, Message)>,
    pub(crate) broken: Option<Broken>,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Processes that were stopped because their lease was about to end.
    pub(crate) fenced: u64,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
}

impl World {
    /// The time that passes for everyone.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(START) + Span::from(self.began.elapsed())
    }

    /// How long the run has taken so far.
    pub(crate) fn lasted(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    pub(crate) fn is_cut(&self, worker: usize, scheduler: usize) -> bool {
        let cut = self.cuts.get(&(worker, scheduler)).is_some_and(|until| *until > Instant::now());
        cut || !self.ledger.workers[worker].is_up()
    }

    /// So many milliseconds, by chance.
    pub(crate) fn pause(&mut self, low: u32, high: u32) -> Duration {
        Duration::from_millis(u64::from(self.random.within(low, high)))
    }

    pub(crate) fn remember(&mut self, worker: usize, message: &Message) {
        if self.echoes.len() == ECHOES {
            self.echoes.pop_front();
        }
        self.echoes.push_back((worker, message.clone()));
    }

    fn hand_out(&mut self, applied: &Applied) {
        let now = self.now();
        for answer in &applied.answers {
            let Ok(Outcome::Claimed(jobs)) = answer else { continue };
            for claimed in jobs {
                let key = (claimed.job.id, claimed.job.lease);
                self.handed.entry(key).or_insert_with(|| (claimed.job.clone(), now));
            }
        }
    }
}

#[derive(Debug)]
struct Parts {
    world: Mutex<World>,
    /// Something to say at once, for each worker.
    urgent: Vec<Notify>,
    /// A promise did not hold.
    breach: Notify,
    data: TempDir,
}

/// The handle that every task of a run has.
#[derive(Debug, Clone)]
pub(crate) struct Stage(Arc<Parts>);

impl Stage {
    pub(crate) fn new(seed: u64, ledger: Ledger, instances: Vec<Instance>, data: TempDir) -> Self {
        let workers = ledger.workers.len();
        let line =
            |n: usize| Random::new(seed ^ (0x6c69_6e65 + n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let world = World {
            ledger,
            began: Instant::now(),
            random: Random::new(seed),
            lines: (0..workers).map(line).collect(),
            mischief: Mischief::none(),
            weather: StoreWeather::default(),
            instances,
            lives: vec![0; workers],
            cuts: BTreeMap::new(),
            handed: BTreeMap::new(),
            echoes: VecDeque::new(),
            broken: None,
            faults: BTreeMap::new(),
            fenced: 0,
            calm: false,
        };
        let urgent = (0..workers).map(|_| Notify::new()).collect();
        Self(Arc::new(Parts { world: Mutex::new(world), urgent, breach: Notify::new(), data }))
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn urgent(&self, worker: usize) -> &Notify {
        &self.0.urgent[worker]
    }

    pub(crate) fn data_dir(&self) -> &Path {
        self.0.data.path()
    }

    /// Resolves when a promise did not hold.
    pub(crate) async fn breach(&self) {
        self.0.breach.notified().await;
    }

    /// Commits for a scheduler, or for somebody outside, checks, and wakes the others. `None` when the run is
    /// over.
    pub(crate) fn commit(
        &self,
        by: Option<usize>,
        told: Timestamp,
        commands: Vec<Command>,
    ) -> Option<Applied> {
        let mut world = self.world();
        if world.broken.is_some() {
            return None;
        }
        let now = world.now();
        let (unled, refused) = (by.is_some() && commands.iter().any(is_unled), world.ledger.leaders.refused);
        let applied = if unled {
            Err(world.ledger.broken(now, "a pass was made under no leadership".to_owned()))
        } else {
            world.ledger.apply(Moment { now, told }, commands)
        };
        if world.ledger.leaders.refused > refused {
            world.fault("pass of a former leader refused");
        }
        match applied {
            Ok(applied) => {
                world.hand_out(&applied);
                if !applied.wake.is_empty() {
                    self.wake(&mut world, by, &applied.wake);
                }
                Some(applied)
            }
            Err(broken) => {
                self.breaks(&mut world, broken);
                None
            }
        }
    }

    /// A promise did not hold.
    pub(crate) fn breaks(&self, world: &mut World, broken: Broken) {
        world.broken.get_or_insert(broken);
        self.0.breach.notify_one();
    }

    /// Somebody outside changes something, at once and by a right clock.
    pub(crate) fn by_hand(&self, command: Command) {
        let now = self.world().now();
        self.commit(None, now, vec![command]);
    }

    /// Passes a wake-up on to the schedulers that did not commit themselves.
    fn wake(&self, world: &mut World, by: Option<usize>, wake: &Wake) {
        for index in 0..world.instances.len() {
            let instance = &mut world.instances[index];
            if Some(index) == by || instance.server.is_none() {
                continue;
            }
            // A line that breaks is opened again, and then everything is looked at.
            let breaks = instance.random.chance(5);
            let delay = if breaks { (1_000, 5_000) } else { (1, 30) };
            let delay = Duration::from_millis(u64::from(instance.random.within(delay.0, delay.1)));
            let (stage, life) = (self.clone(), instance.life);
            let wake = (!breaks).then(|| wake.clone());
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                stage.deliver(index, life, wake);
            });
        }
    }

    fn deliver(&self, index: usize, life: u64, wake: Option<Wake>) {
        let mut world = self.world();
        let everything = world.everything();
        let instance = &mut world.instances[index];
        if instance.life != life || instance.is_cut_off() {
            // It is told everything when it can be reached again.
            return;
        }
        if let Some(wakes) = &instance.wakes {
            let _ = wakes.send(wake.unwrap_or(everything));
        }
    }

    /// The scheduler can reach the store again; something may have been missed.
    pub(crate) fn reconnect(&self, index: usize) {
        let life = self.world().instances[index].life;
        self.deliver(index, life, None);
    }
}

impl World {
    fn everything(&self) -> Wake {
        let stopping = self.ledger.state.jobs().iter().filter(|job| job.status() == Status::Preempting);
        let stops = stopping.filter_map(|job| job.worker().cloned()).collect();
        Wake { work: true, gangs: true, events: true, alarm: Some(Timestamp::default()), stops }
    }
}
