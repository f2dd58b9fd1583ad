//! How fast a board plans: clusters of several sizes, queues of several lengths, mixed shapes and gangs.
//!
//! `cargo run --release -p muster-replay --example board_speed` prints one row for each size. What a pass costs
//! should follow what changed, not what exists.

use std::time::{Duration, Instant};

use muster_domain::{Requirement, Resources, Span, Timestamp};
use muster_planner::board::{Board, Past, QueueId, ShapeId, Unit, UnitId};
use muster_planner::policy::{Policy, PolicyName};

const QUEUES: u32 = 50;
/// Changes that are timed one by one.
const CHANGES: usize = 2000;

/// Numbers that look random and are the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct Load {
    board: Board,
    numbers: Numbers,
    shapes: Vec<(ShapeId, u32)>,
    sent: u64,
    running: Vec<UnitId>,
    now: Timestamp,
}

impl Load {
    fn new(name: PolicyName, nodes: u32) -> Self {
        let mut board = Board::new(Policy::named(name));
        let node = Resources { gpus: 8, cpu_millis: 64_000, memory_mb: 512_000, ..Resources::default() };
        for _ in 0..nodes {
            board.add_node(&node, None, [].iter());
        }
        // GPUs, cores, tasks.
        let kinds = [
            (1, 4, 1),
            (1, 8, 1),
            (2, 8, 1),
            (4, 16, 1),
            (8, 32, 1),
            (0, 2, 1),
            (0, 8, 1),
            (8, 32, 2),
            (8, 32, 8),
            (1, 4, 4),
        ];
        let shapes = kinds.map(|(gpus, cpus, tasks)| {
            let resources =
                Resources { gpus, cpu_millis: cpus * 1000, memory_mb: 8000, ..Resources::default() };
            (board.shape(&Requirement { resources, ..Requirement::default() }), tasks)
        });
        Self {
            board,
            numbers: Numbers(11),
            shapes: shapes.to_vec(),
            sent: 0,
            running: Vec::new(),
            now: Timestamp::default(),
        }
    }

    fn submit(&mut self) {
        let (shape, tasks) = self.shapes[self.numbers.below(self.shapes.len() as u64) as usize];
        let unit = Unit {
            shape,
            tasks,
            queue: QueueId(self.numbers.below(u64::from(QUEUES)) as u32),
            priority: self.numbers.below(3) as i32,
            submit: self.now,
            seq: self.sent,
            estimate: Some(Span::from_secs(60 + self.numbers.below(86_400) as u32)),
            preemptible: false,
        };
        self.sent += 1;
        self.board.submit(unit, Past::default(), self.now);
    }

    fn pass(&mut self) -> usize {
        let plan = self.board.pass(self.now);
        self.running.extend(plan.starts.iter().map(|start| start.unit));
        plan.starts.len()
    }

    fn end_one(&mut self) {
        let position = self.numbers.below(self.running.len() as u64) as usize;
        let id = self.running.swap_remove(position);
        self.board.end(id, self.now);
    }

    /// Times a pass after each of many changes: the middle one, and the slowest of a hundred.
    fn timed(&mut self, change: impl Fn(&mut Self)) -> (Duration, Duration) {
        let mut times = Vec::with_capacity(CHANGES);
        for _ in 0..CHANGES {
            self.now = self.now + Span::from_millis(100);
            let begun = Instant::now();
            change(self);
            self.pass();
            times.push(begun.elapsed());
        }
        times.sort();
        (times[CHANGES / 2], times[CHANGES * 99 / 100])
    }
}

/// Memory that the process holds, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn measure(name: PolicyName, nodes: u32, queued: u64) {
    let before = resident();
    let mut load = Load::new(name, nodes);
    let begun = Instant::now();
    for _ in 0..queued {
        load.submit();
    }
    let submit = begun.elapsed() / queued as u32;
    let memory = resident().saturating_sub(before);
    let begun = Instant::now();
    let starts = load.pass();
    let full = begun.elapsed();
    let begun = Instant::now();
    load.pass();
    let again = begun.elapsed();
    let ended = load.timed(Load::end_one);
    let sent = load.timed(Load::submit);
    println!(
        "| {name} | {nodes} | {queued} | {submit:.1?} | {starts} | {:.0} | {full:.1?} | {again:.1?} | {:.1?} / {:.1?} | {:.1?} / {:.1?} | {memory} |",
        starts as f64 / full.as_secs_f64(),
        ended.0,
        ended.1,
        sent.0,
        sent.1,
    );
}

fn main() {
    println!(
        "| policy | nodes | queued | a submit | starts of the full pass | starts/s | full pass | pass without a change | \
         pass after an end, middle / 99 % | pass after a submit, middle / 99 % | MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for name in [PolicyName::Muster, PolicyName::Easy] {
        for nodes in [100, 1_000, 10_000] {
            for queued in [10_000, 100_000, 1_000_000] {
                measure(name, nodes, queued);
            }
        }
    }
}
