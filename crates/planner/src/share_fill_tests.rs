//! How much memory of GPUs nobody gets when more is wanted than there is, by where shares of a GPU are put.
//!
//! The rule of the product against three others: the first device with room, the emptiest one, and the one where
//! the least is left that is of no use for the work that comes (which is told here what will come).

use muster_domain::{Device, GpuNeed, JobId, PoolAt, Requirement, Resources, WorkerId};

use crate::devices::Devices;
use crate::fit::WorkerView;
use crate::order::Candidate;
use crate::place::{View, place};
use crate::policy::Policies;

/// Percent of a GPU, and jobs per mille that want so much: shares that fill a device exactly, and any tenths.
const EVEN: &[(u64, u64)] = &[(25, 190), (50, 190), (100, 530), (200, 30), (400, 20), (800, 40)];
const TENTHS: &[(u64, u64)] = &[
    (10, 42),
    (20, 42),
    (30, 42),
    (40, 42),
    (50, 42),
    (60, 42),
    (70, 42),
    (80, 42),
    (90, 42),
    (100, 530),
    (200, 30),
    (400, 20),
    (800, 40),
];

const GPU_MB: u64 = 80_000;
const WORKERS: usize = 16;
const GPUS: usize = 8;
const SEEDS: u64 = 20;
/// Jobs that come at once.
const BATCH: usize = 16;

/// What is free of each device of each worker.
type Free = Vec<[u64; GPUS]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    FirstFit,
    Emptiest,
    Fragments,
}

/// A row of numbers that is the same every time (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn need_of(percent: u64) -> GpuNeed {
    match percent {
        0..100 => GpuNeed::Share { vram_mb: percent * GPU_MB / 100 },
        _ => GpuNeed::Whole { count: percent / 100, vram_mb: 0 },
    }
}

/// Jobs until 130 % of what there is are wanted.
fn arrivals(seed: u64, shapes: &[(u64, u64)]) -> Vec<GpuNeed> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let each = |(percent, times): &(u64, u64)| std::iter::repeat_n(*percent, *times as usize);
    let urn: Vec<u64> = shapes.iter().flat_map(each).collect();
    let (mut wanted, mut jobs) = (0, Vec::new());
    while wanted < (WORKERS * GPUS) as u64 * 130 {
        let percent = urn[(next(&mut state) % urn.len() as u64) as usize];
        wanted += percent;
        jobs.push(need_of(percent));
    }
    jobs
}

const fn serves(free_mb: u64, need: GpuNeed) -> bool {
    match need {
        GpuNeed::Whole { .. } => free_mb == GPU_MB,
        GpuNeed::Share { vram_mb } => free_mb >= vram_mb,
    }
}

fn fits(devices: &[u64; GPUS], need: GpuNeed) -> bool {
    let wanted = if let GpuNeed::Whole { count, .. } = need { count } else { 1 };
    devices.iter().filter(|free| serves(**free, need)).count() as u64 >= wanted
}

/// Memory that is of no use for the shapes, each weighed by how often it comes: all that is free where a shape does
/// not fit, else what is free on devices that do not serve it.
fn fragments(devices: &[u64; GPUS], shapes: &[(u64, u64)]) -> i128 {
    let of = |(percent, times): &(u64, u64)| {
        let need = need_of(*percent);
        let fits = fits(devices, need);
        let lost: u64 = devices.iter().filter(|free| !fits || !serves(**free, need)).sum();
        i128::from(lost) * i128::from(*times)
    };
    shapes.iter().map(of).sum()
}

/// The place of a device among all for a share, the smaller the better.
fn key(rule: Rule, devices: &[u64; GPUS], at: usize, share: u64, shapes: &[(u64, u64)]) -> (i128, bool, u64) {
    match rule {
        Rule::FirstFit => (0, false, 0),
        Rule::Emptiest => (-i128::from(devices.iter().sum::<u64>()), false, GPU_MB - devices[at]),
        Rule::Fragments => {
            let mut after = *devices;
            after[at] -= share;
            let growth = fragments(&after, shapes) - fragments(devices, shapes);
            (growth, devices[at] == GPU_MB, devices[at])
        }
    }
}

/// Takes what a job wants, if it is there. Whole devices go where the fewest are idle, as in the product, but with
/// the simpler rules to the first or the emptiest worker.
fn take(rule: Rule, free: &mut Free, need: GpuNeed, shapes: &[(u64, u64)]) -> bool {
    let idle = |devices: &[u64; GPUS]| devices.iter().filter(|free| **free == GPU_MB).count();
    let fitting = (0..WORKERS).filter(|worker| fits(&free[*worker], need));
    match need {
        GpuNeed::Whole { count, .. } => {
            let chosen = fitting.min_by_key(|worker| match rule {
                Rule::FirstFit => 0,
                Rule::Emptiest => GPUS - idle(&free[*worker]),
                Rule::Fragments => idle(&free[*worker]),
            });
            let Some(worker) = chosen else { return false };
            let given = free[worker].iter_mut().filter(|free| **free == GPU_MB).take(count as usize);
            given.for_each(|free| *free = 0);
        }
        GpuNeed::Share { vram_mb } => {
            let devices = |worker| (0..GPUS).map(move |at| (worker, at));
            let all = fitting.flat_map(devices).filter(|(worker, at)| free[*worker][*at] >= vram_mb);
            let best = all.min_by_key(|(worker, at)| {
                let devices = &free[*worker];
                (key(rule, devices, *at, vram_mb, shapes), idle(devices))
            });
            let Some((worker, at)) = best else { return false };
            free[worker][at] -= vram_mb;
        }
    }
    true
}

/// What nobody has when all have come and nobody has left, in percent of a GPU.
fn left_by(rule: Rule, jobs: &[GpuNeed], shapes: &[(u64, u64)]) -> u64 {
    let mut free: Free = vec![[GPU_MB; GPUS]; WORKERS];
    // Room only shrinks: who does not fit at once never does.
    for need in jobs {
        take(rule, &mut free, *need, shapes);
    }
    free.iter().flatten().sum::<u64>() * 100 / GPU_MB
}

fn candidate(seq: u64, need: GpuNeed) -> Candidate {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seq.to_be_bytes());
    let resources = match need {
        GpuNeed::Whole { count, .. } => Resources { gpus: count, ..Resources::default() },
        GpuNeed::Share { vram_mb } => Resources { vram_mb, ..Resources::default() },
    };
    Candidate {
        id: JobId::from_random(bytes),
        priority: 0,
        pool: PoolAt::default(),
        rank: 0,
        seq,
        requirement: Requirement { resources, ..Requirement::default() },
        limits: Vec::new(),
        avoid: Vec::new(),
        seat: None,
        fixed: false,
        ends: None,
    }
}

/// The same by the passes of the product.
fn left_by_passes(jobs: &[GpuNeed]) -> u64 {
    let known: Vec<Device> =
        (0..GPUS as u32).map(|index| Device { index, vram_mb: GPU_MB, ..Device::default() }).collect();
    let worker = |at: usize| WorkerView {
        id: Some(WorkerId::new(format!("w{at:02}"))),
        total: Some(Resources::default().with_devices(&known)),
        wants: u32::MAX,
        devices: Some(Devices::idle(&known)),
        ..WorkerView::default()
    };
    let mut workers: Vec<WorkerView> = (0..WORKERS).map(worker).collect();
    for batch in jobs.chunks(BATCH) {
        let candidates = (0..).zip(batch).map(|(seq, need)| candidate(seq, *need)).collect();
        let view = View { workers, candidates, ..View::default() };
        let placed = place(&view, &Policies::default());
        workers = view.workers;
        for placement in placed {
            let (worker, job) = (&mut workers[placement.worker], &view.candidates[placement.candidate]);
            worker.used.add(&job.requirement.resources);
            worker.devices.as_mut().unwrap().hold(placement.devices.as_ref());
        }
    }
    let free: u64 = workers.iter().filter_map(|worker| Some(worker.devices.as_ref()?.free_vram())).sum();
    free * 100 / GPU_MB
}

#[test]
fn shares_beside_each_other_leave_no_more_than_other_rules_do() {
    for (name, shapes) in [("quarters and halves", EVEN), ("tenths", TENTHS)] {
        let rows: Vec<Vec<GpuNeed>> = (1..=SEEDS).map(|seed| arrivals(seed, shapes)).collect();
        let by = |rule| rows.iter().map(|jobs| left_by(rule, jobs, shapes)).sum::<u64>();
        let product: u64 = rows.iter().map(|jobs| left_by_passes(jobs)).sum();
        let (first, emptiest, fragments) = (by(Rule::FirstFit), by(Rule::Emptiest), by(Rule::Fragments));
        println!(
            "{name}, percent of a GPU left of {} GPUs: first {first}, emptiest {emptiest}, fragments {fragments}, \
             product {product}",
            WORKERS as u64 * GPUS as u64 * SEEDS
        );
        assert!(product <= first, "{name}: {product} left, the first device with room leaves {first}");
        assert!(product < emptiest, "{name}: {product} left, the emptiest device leaves {emptiest}");
        assert!(product <= fragments, "{name}: {product} left, the least fragments leave {fragments}");
    }
}
