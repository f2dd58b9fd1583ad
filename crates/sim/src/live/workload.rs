//! What runs in a live cluster: gangs and single jobs that compete, some of them in queues with quotas.

use muster_domain::{Amounts, Dimension, GangId, QueueName, Resources, Span};
use muster_store::{Command, QueueSettings, TermsChange};

use super::stage::Stage;
use crate::plan::{GangPlan, JobPlan};
use crate::random::Random;

/// Gangs at the start, and as many single jobs.
pub(crate) const GANGS: usize = 24;

/// Memory of a worker.
pub(crate) const MEMORY_MB: u64 = 1000;
/// GPUs of a worker, and their memory in all.
pub(crate) const GPUS: u64 = 4;
pub(crate) const VRAM_MB: u64 = 400;

fn memory(memory_mb: u64) -> Amounts {
    [(Dimension::MemoryMb, memory_mb)].into_iter().collect()
}

/// Two queues that borrow from each other, and one that lets few jobs run.
fn queues() -> [QueueSettings; 4] {
    let queue =
        |name: &str, terms: TermsChange| QueueSettings { terms, ..QueueSettings::new(QueueName::new(name)) };
    let below = || Some(Some(QueueName::new("lab")));
    [
        queue("lab", TermsChange { nominal: Some(Some(memory(400))), ..TermsChange::default() }),
        queue(
            "research",
            TermsChange {
                parent: below(),
                nominal: Some(Some(memory(1200))),
                borrow: Some(Some(memory(500))),
                ..TermsChange::default()
            },
        ),
        queue(
            "teaching",
            TermsChange {
                parent: below(),
                nominal: Some(Some(memory(800))),
                lend: Some(Some(memory(600))),
                ..TermsChange::default()
            },
        ),
        queue("narrow", TermsChange { max_running: Some(Some(3)), ..TermsChange::default() }),
    ]
}

/// Sets the queues and submits everything.
pub(crate) fn fill(stage: &Stage, random: &mut Random, attempts: u32) {
    for queue in queues() {
        stage.by_hand(Command::PutQueue(queue));
    }
    let mut gangs = Vec::new();
    for n in 0..GANGS {
        let queue = some_queue(random, &["research", "research", "teaching"]);
        let size = random.within(2, if queue.is_some() { 3 } else { 6 });
        let after = match random.pick(&gangs).copied() {
            Some(before) if random.chance(200) => vec![GangId::to_string(&before)],
            _ => Vec::new(),
        };
        let plan = GangPlan {
            size,
            min: random.chance(200).then(|| size.div_ceil(2)),
            per_worker: random.within(1, 2),
            keep_done: n % 2 == 0,
            priority: random.within(0, 2) as i32,
            max_attempts: attempts,
            need: if queue.is_some() { plain(random, 250) } else { wants(random, 10, 50) },
            after,
            queue,
            timeout: limit(random),
        };
        gangs.push(submit_gang(stage, &plan));
        let queue = some_queue(random, &["research", "teaching", "narrow"]);
        let need = wants(random, 5, 100);
        let priority = random.within(0, 2) as i32;
        let timeout = limit(random);
        submit(
            stage,
            &JobPlan { priority, need, max_attempts: attempts, queue, timeout, ..JobPlan::default() },
        );
    }
}

/// A time limit of some, far longer than anything runs: it says when room will be there for others.
fn limit(random: &mut Random) -> Option<Span> {
    let minutes = random.pick(&[15, 30, 60]).copied()?;
    random.chance(600).then(|| Span::from_secs(minutes * 60))
}

fn some_queue(random: &mut Random, names: &[&str]) -> Option<QueueName> {
    if random.chance(400) {
        return None;
    }
    random.pick(names).map(|name| QueueName::new(*name))
}

fn plain(random: &mut Random, most: u32) -> Resources {
    Resources { memory_mb: u64::from(random.within(50, most)), ..Resources::default() }
}

/// Some want whole GPUs, some a part of one.
fn wants(random: &mut Random, most: u32, unit: u64) -> Resources {
    let need = Resources { memory_mb: u64::from(random.within(1, most)) * unit, ..Resources::default() };
    match random.within(0, 5) {
        0 => Resources { gpus: 1, ..need },
        1 => Resources { gpus: 2, vram_mb: 100, ..need },
        2 => Resources { vram_mb: u64::from(random.within(2, 8)) * 10, ..need },
        _ => need,
    }
}

pub(crate) fn submit_gang(stage: &Stage, plan: &GangPlan) -> GangId {
    let (id, command) = {
        let mut world = stage.world();
        let (id, tasks, command) = plan.command(&mut world.random);
        for task in tasks {
            world.ledger.books.open(task, Some(id));
        }
        (id, command)
    };
    stage.by_hand(command);
    id
}

fn submit(stage: &Stage, plan: &JobPlan) {
    let command = {
        let mut world = stage.world();
        let (id, command) = plan.command(&mut world.random);
        world.ledger.books.open(id, None);
        command
    };
    stage.by_hand(command);
}
