//! The scheduler as it runs, under a simulated clock and network: the server's own routes, batcher, dispatcher and
//! loops, several instances of them on one store, and workers that speak the real protocol to them.
//!
//! One thread runs everything, on a runtime whose time stands still while there is something to do and then jumps to
//! the next thing that is due. What goes wrong follows from the seed alone, so that a run repeats exactly. The
//! store is the memory store; each scheduler sees it through a way that may be slow, broken or lossy.

mod agent;
mod network;
mod scheduler;
mod stage;
mod store;
mod trouble;
mod workload;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_domain::{Job, Resources, Span, Status};
use tokio::runtime::Builder;

use self::scheduler::Instance;
use self::stage::{Stage, StoreWeather};
use crate::broken::Broken;
use crate::faults::Mischief;
use crate::ledger::Ledger;
use crate::mail::Network;
use crate::random::Random;
use crate::worker::SimWorker;

/// How long a time may be, with everything that goes wrong in it.
const FAULTY_SLACK: Span = Span::from_secs(1800);
/// In which everything has to end once nothing goes wrong any more.
const END_BOUND: Duration = Duration::from_secs(3 * 3600);

/// What is to be simulated.
#[derive(Debug, Clone)]
pub struct LivePlan {
    pub schedulers: usize,
    pub workers: usize,
    /// How long things go wrong.
    pub trouble: Duration,
    pub max_attempts: u32,
    /// Workers stop each job before its lease ends, as the real ones do, and no job may ever run twice at a time.
    pub fenced: bool,
    /// All schedulers are away at a time, for so long at most; `None` when that never happens.
    pub blackouts: Option<Duration>,
    /// Nothing but that goes wrong.
    pub only_blackouts: bool,
}

impl Default for LivePlan {
    fn default() -> Self {
        Self {
            schedulers: 3,
            workers: 6,
            trouble: Duration::from_secs(600),
            max_attempts: 1000,
            fenced: false,
            blackouts: None,
            only_blackouts: false,
        }
    }
}

/// What a live run has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveReport {
    pub transactions: u64,
    /// How often gangs were stopped.
    pub stops: u64,
    /// How many entered a worker that kept room for somebody else, and how many of them stayed beside it.
    pub passed: (u64, u64),
    pub faults: BTreeMap<&'static str, u64>,
    /// Processes that workers stopped because their lease was about to end.
    pub fenced: u64,
    pub statuses: BTreeMap<Status, usize>,
    /// The same for two runs in which the same happened at the same times.
    pub digest: u64,
    /// How long the run took, by its own clock.
    pub lasted: Duration,
}

/// Runs a cluster through trouble and to its end.
pub fn run_live(seed: u64, plan: &LivePlan) -> Result<LiveReport, Broken> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(Broken::Setup)?;
    let data = tempfile::tempdir().map_err(Broken::Setup)?;
    runtime.block_on(async {
        let stage = set_up(seed, plan, data);
        let result = tokio::select! {
            biased;
            () = stage.breach() => Ok(()),
            result = play(&stage, seed, plan) => result,
        };
        let schedulers = stage.world().instances.len();
        for index in 0..schedulers {
            stage.crash(index);
        }
        let mut world = stage.world();
        match world.broken.take() {
            Some(broken) => Err(broken),
            None => result.map(|()| report(&world)),
        }
    })
}

fn set_up(seed: u64, plan: &LivePlan, data: tempfile::TempDir) -> Stage {
    let resources = Resources {
        memory_mb: workload::MEMORY_MB,
        gpus: workload::GPUS,
        vram_mb: workload::VRAM_MB,
        ..Resources::default()
    };
    let worker = |n: usize| SimWorker::new(&format!("w{n:03}"), resources.clone(), Some(4));
    let mut ledger = Ledger { workers: (0..plan.workers).map(worker).collect(), ..Ledger::default() };
    ledger.watch.slack = FAULTY_SLACK;
    ledger.watch.fenced = plan.fenced;
    let instance = |n: usize| Instance::new(seed.rotate_left(17) ^ (n as u64 + 1));
    Stage::new(seed, ledger, (0..plan.schedulers).map(instance).collect(), data)
}

async fn play(stage: &Stage, seed: u64, plan: &LivePlan) -> Result<(), Broken> {
    for index in 0..plan.schedulers {
        stage.start(index).await.map_err(|error| Broken::Setup(std::io::Error::other(error)))?;
    }
    for index in 0..plan.workers {
        stage.employ(index, plan.fenced);
    }
    workload::fill(stage, &mut Random::new(seed ^ 0x776f_726b), plan.max_attempts);
    {
        let mut world = stage.world();
        let lasts = Some((2_000, 60_000));
        if plan.only_blackouts {
            world.mischief = Mischief { lasts, ..Mischief::none() };
        } else {
            world.make_mischief(lasts);
        }
    }
    if let Some(longest) = plan.blackouts {
        tokio::spawn(stage.clone().blackouts(longest));
    }
    if !plan.only_blackouts {
        tokio::spawn(stage.clone().troubles());
    }
    tokio::time::sleep(plan.trouble).await;
    stage.calm_down().await;
    let end = tokio::time::Instant::now() + END_BOUND;
    while !stage.world().ledger.state.jobs().iter().all(Job::is_terminal) {
        if tokio::time::Instant::now() > end {
            let world = stage.world();
            return Err(world.ledger.stuck(world.now()));
        }
        stage.let_go();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

impl stage::World {
    /// Everything that can go wrong with messages, processes and transactions.
    fn make_mischief(&mut self, lasts: Option<(u32, u32)>) {
        let network = Network { lost: 20, answers_lost: 20, doubled: 20, late: 10 };
        self.mischief = Mischief { network, lasts, finishes: 50, ..Mischief::plenty() };
        self.weather = StoreWeather { refused: 5, collides: 5, answers_lost: 5 };
    }
}

fn report(world: &stage::World) -> LiveReport {
    let mut statuses = BTreeMap::new();
    for job in world.ledger.state.jobs() {
        *statuses.entry(job.status()).or_default() += 1;
    }
    LiveReport {
        transactions: world.ledger.transactions,
        stops: world.ledger.books.stops,
        passed: (world.ledger.rooms.entered, world.ledger.rooms.stayed),
        faults: world.faults.clone(),
        fenced: world.fenced,
        statuses,
        digest: world.ledger.digest,
        lasted: world.lasted(),
    }
}
