//! What goes wrong in a live run besides messages and transactions: schedulers that crash or lose the store, clocks
//! that are set, networks that fall apart, workers that are gone, and operators.

use std::sync::atomic::Ordering;
use std::time::Duration;

use muster_domain::{Bid, Job, JobId, Resources, Role, Span, Status};
use muster_store::Command;
use tokio::time::Instant;

use super::network::Message;
use super::stage::{Stage, World};
use super::workload;
use crate::faults::Mischief;
use crate::plan::GangPlan;
use crate::worker::Reach;

/// By how many seconds the clock of a scheduler is set wrong, at most.
const FARTHEST_JUMP: u32 = 300;

/// Gangs that operators submit besides, at most so many at a time.
const SIBLINGS: usize = 6;

impl Stage {
    /// Lets one thing after the other go wrong until somebody calms everything down.
    pub(crate) async fn troubles(self) {
        loop {
            let (pause, what) = {
                let mut world = self.world();
                (world.pause(200, 4_000), world.random.below(100))
            };
            tokio::time::sleep(pause).await;
            if self.world().calm {
                return;
            }
            match what {
                0..6 => self.lose_scheduler(),
                6..12 => self.cut_from_store(),
                12..18 => self.slow_down(),
                18..23 => self.set_a_clock(),
                23..27 => self.take_over(),
                27..35 => self.part(),
                35..45 => self.lose_a_worker(),
                45..60 => self.echo(),
                60..68 => self.submit_sibling(),
                _ => self.operate(),
            }
        }
    }

    /// Now and then all schedulers are away together, for longer than silence is borne of workers without a fence.
    pub(crate) async fn blackouts(self, longest: Duration) {
        loop {
            let (pause, lasts) = {
                let mut world = self.world();
                let longest = u32::try_from(longest.as_millis()).unwrap_or(u32::MAX);
                (world.pause(20_000, 90_000), world.pause(35_000.min(longest), longest))
            };
            tokio::time::sleep(pause).await;
            if self.world().calm {
                return;
            }
            self.world().fault("all schedulers away");
            let count = self.world().instances.len();
            let back = Instant::now() + lasts;
            while Instant::now() < back && !self.world().calm {
                // Those that something else brings back are away again at once.
                for index in 0..count {
                    self.crash(index);
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            for index in 0..count {
                let _ = self.start(index).await;
            }
        }
    }

    fn any_scheduler(&self) -> usize {
        let mut world = self.world();
        let count = world.instances.len();
        world.random.below(count)
    }

    fn until(&self, low: u32, high: u32) -> Instant {
        Instant::now() + self.world().pause(low, high)
    }

    fn lose_scheduler(&self) {
        let index = self.any_scheduler();
        let pause = self.world().pause(0, 20_000);
        self.world().fault("scheduler crashed");
        self.crash(index);
        let stage = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // A directory that cannot be opened shows as a scheduler that never comes back.
            let _ = stage.start(index).await;
        });
        // The clock of a machine that begins anew is often set just then.
        let later = self.world().pause(0, 12);
        let set = self.world().random.chance(400);
        if set {
            let stage = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(pause + later).await;
                if !stage.world().calm {
                    stage.set_clock(index);
                }
            });
        }
    }

    fn cut_from_store(&self) {
        let (index, until) = (self.any_scheduler(), self.until(500, 40_000));
        let mut world = self.world();
        world.fault("scheduler cut off from the store");
        world.instances[index].cut_until = Some(until);
        drop(world);
        let stage = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(until + Duration::from_millis(5)).await;
            stage.reconnect(index);
        });
    }

    fn slow_down(&self) {
        let (index, until) = (self.any_scheduler(), self.until(1_000, 20_000));
        let mut world = self.world();
        world.fault("store slow");
        let everyone = world.random.chance(300);
        for (at, instance) in world.instances.iter_mut().enumerate() {
            if everyone || at == index {
                instance.slow_until = Some(until);
            }
        }
    }

    /// Somebody sets the wall clock of a scheduler, or sets it right again.
    fn set_a_clock(&self) {
        self.set_clock(self.any_scheduler());
    }

    fn set_clock(&self, index: usize) {
        let mut world = self.world();
        world.fault("clock set");
        let seconds = i64::from(world.random.within(1, FARTHEST_JUMP));
        let wrong = match world.random.below(3) {
            0 => 0,
            1 => seconds,
            _ => -seconds,
        };
        world.instances[index].wrong.store(wrong * 1_000_000, Ordering::Relaxed);
    }

    /// Somebody takes all leadership over, also while passes are under way, and does nothing with it.
    fn take_over(&self) {
        let lease = Span::from(self.world().pause(1, 4_000));
        let now = {
            let mut world = self.world();
            world.fault("leadership taken over");
            world.now()
        };
        // By a clock that is ahead of every lease.
        let ahead = now + Span::from_secs(60);
        let roles = Role::ALL.to_vec();
        let bid = Bid { holder: "somebody else".into(), roles, lease };
        self.commit(None, ahead, vec![Command::Lead(bid.clone())]);
        // And lets it end by the right clock.
        self.commit(None, now, vec![Command::Lead(bid)]);
    }

    /// Some workers cannot reach one or all schedulers.
    fn part(&self) {
        let (index, until) = (self.any_scheduler(), self.until(1_000, 60_000));
        let mut world = self.world();
        world.fault("network fell apart");
        let from_all = world.random.chance(400);
        for worker in 0..world.ledger.workers.len() {
            if world.random.chance(500) {
                continue;
            }
            for scheduler in 0..world.instances.len() {
                if from_all || scheduler == index {
                    world.cuts.insert((worker, scheduler), until);
                }
            }
        }
    }

    fn lose_a_worker(&self) {
        let mut world = self.world();
        let index = {
            let count = world.ledger.workers.len();
            world.random.below(count)
        };
        if !world.ledger.workers[index].is_up() {
            return;
        }
        let crashes = world.random.chance(500);
        if crashes {
            world.fault("worker crashed");
            world.lives[index] += 1;
            world.ledger.workers[index].crash();
        } else {
            world.fault("worker cut off");
            world.ledger.workers[index].reach = Reach::Cut;
        }
        let back = world.pause(2_000, 100_000);
        drop(world);
        let stage = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(back).await;
            stage.bring_back(index);
        });
    }

    fn bring_back(&self, index: usize) {
        let mut world = self.world();
        let was_down = world.ledger.workers[index].reach == Reach::Down;
        world.ledger.workers[index].reach = Reach::Up;
        drop(world);
        if was_down {
            let stage = self.clone();
            let home = self.any_scheduler();
            tokio::spawn(async move { stage.register(index, home).await });
        }
        self.urgent(index).notify_one();
    }

    /// Something that a worker said long ago is heard once more.
    fn echo(&self) {
        let to = self.any_scheduler();
        let message = {
            let mut world = self.world();
            let at = {
                let count = world.echoes.len();
                world.random.below(count)
            };
            world.echoes.get(at).map(|(_, message)| message.clone())
        };
        if let Some(message) = message {
            self.world().fault("old message repeated");
            self.slip(to, &message);
        }
    }

    fn submit_sibling(&self) {
        let plan = {
            let mut world = self.world();
            let first = |job: &&Job| job.spec.gang.as_ref().is_some_and(|gang| gang.index == 0);
            let jobs = world.ledger.state.jobs().iter();
            if jobs.filter(first).filter(|job| !job.is_terminal()).count() >= SIBLINGS + workload::GANGS {
                return;
            }
            let random = &mut world.random;
            let memory_mb = u64::from(random.within(2, 5)) * 100;
            GangPlan {
                size: random.within(2, 4),
                per_worker: random.within(1, 2),
                keep_done: random.chance(300),
                priority: random.within(0, 2) as i32,
                need: Resources { memory_mb, ..Resources::default() },
                ..GangPlan::default()
            }
        };
        workload::submit_gang(self, &plan);
    }

    /// Somebody does something to a job, through a scheduler.
    fn operate(&self) {
        let (what, honest) = {
            let mut world = self.world();
            (world.random.below(9), world.ledger.watch.fenced)
        };
        // Who says of a process that runs that it has ended makes the job start a second time; no fence helps then.
        let what = if honest && matches!(what, 2 | 3 | 8) { 0 } else { what };
        let (wanted, path): (fn(&Job) -> bool, &str) = match what {
            0 | 1 => (|job| job.status() == Status::Running, "preempt"),
            2 => (|job| job.status() == Status::Running, "fail"),
            3 => (|job| job.status() == Status::Preempting, "done"),
            4 => (|job| waits(job) && job.spec.gang.is_some(), "cancel"),
            5 => (waits, "hold"),
            6 => (|job| job.hold.is_some(), "unhold"),
            7 => (|job| job.status() == Status::Failed, "retry"),
            _ => (|job| job.status() == Status::Running && job.spec.gang.is_none(), "release"),
        };
        let picked = self.world().pick(wanted);
        if let Some(job) = picked {
            self.ask(job, path);
        }
    }

    fn ask(&self, job: JobId, path: &str) {
        let to = self.any_scheduler();
        self.slip(to, &Message::new("POST", format!("/jobs/{job}/{path}"), ""));
    }

    /// Nothing goes wrong any more, and everyone comes back.
    pub(crate) async fn calm_down(&self) {
        let (count, workers) = {
            let mut world = self.world();
            world.calm = true;
            world.mischief = Mischief::none();
            world.weather = super::stage::StoreWeather::default();
            world.cuts.clear();
            for instance in &mut world.instances {
                (instance.cut_until, instance.slow_until) = (None, None);
                instance.wrong.store(0, Ordering::Relaxed);
            }
            (world.instances.len(), world.ledger.workers.len())
        };
        for index in 0..count {
            let _ = self.start(index).await;
            self.reconnect(index);
        }
        for index in 0..workers {
            if !self.world().ledger.workers[index].is_up() {
                self.bring_back(index);
            }
        }
        // The clocks come back slowly.
        self.world().ledger.watch.slack = Span::from_secs(FARTHEST_JUMP * 2);
    }

    /// Lets go of what was held because it was lost with worker after worker, or by an operator.
    pub(crate) fn let_go(&self) {
        let held = self.world().pick(|job| job.hold.is_some());
        if let Some(job) = held {
            self.ask(job, "unhold");
        }
    }
}

impl World {
    /// One of the jobs that are as wanted.
    fn pick(&mut self, wanted: impl Fn(&Job) -> bool) -> Option<JobId> {
        let jobs = self.ledger.state.jobs().iter().filter(|job| wanted(job));
        let jobs: Vec<JobId> = jobs.map(|job| job.id).collect();
        self.random.pick(&jobs).copied()
    }
}

fn waits(job: &Job) -> bool {
    matches!(job.status(), Status::Pending | Status::Blocked | Status::Delayed)
}
