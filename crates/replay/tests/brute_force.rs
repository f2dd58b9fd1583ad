//! The policies beside an implementation that keeps nothing from one pass to the next and tries everything.

use muster_domain::{Resources, Span, Timestamp};
use muster_planner::policy::{Policy, PolicyName};
use muster_replay::{Cluster, Estimates, Events, NodeGroup, Settings, TraceJob, Workload, replay};
use proptest::prelude::*;

/// Submit, run, limit, tasks, GPUs of each.
type Job = (u32, u32, u32, u32, u64);

/// What runs: expected end, true end, job, nodes of its tasks.
type Running = (u32, u32, usize, Vec<usize>);

struct Naive<'a> {
    jobs: &'a [Job],
    policy: PolicyName,
    free: Vec<u64>,
    running: Vec<Running>,
    waiting: Vec<usize>,
    starts: Vec<u32>,
}

/// Tightest first, the first of equals; whole or not at all. Small enough to be tried on one node first.
fn best_fit(free: &[u64], tasks: u32, each: u64) -> Option<Vec<usize>> {
    let whole = each * u64::from(tasks);
    let on_one = (0..free.len()).filter(|node| free[*node] >= whole).min_by_key(|node| (free[*node], *node));
    if let Some(node) = on_one {
        return Some(vec![node; tasks as usize]);
    }
    let mut left = free.to_vec();
    let mut nodes = Vec::new();
    let most = *free.iter().max()? / each;
    for together in (1..=most).rev() {
        for _ in 0..free.len() {
            if u64::from(tasks) - (nodes.len() as u64) < together {
                break;
            }
            let fits = (0..left.len()).filter(|node| !nodes.contains(node) && left[*node] >= together * each);
            let Some(node) = fits.min_by_key(|node| (left[*node], *node)) else { break };
            left[node] -= together * each;
            nodes.extend(std::iter::repeat_n(node, together as usize));
        }
    }
    (nodes.len() == tasks as usize).then_some(nodes)
}

impl Naive<'_> {
    fn start(&mut self, job: usize, nodes: Vec<usize>, now: u32) {
        let (_, run, limit, _, each) = self.jobs[job];
        for node in &nodes {
            self.free[*node] -= each;
        }
        self.running.push((now + limit, now + run, job, nodes));
        self.waiting.retain(|other| *other != job);
        self.starts[job] = now;
    }

    fn places(&self, job: usize) -> Option<Vec<usize>> {
        best_fit(&self.free, self.jobs[job].3, self.jobs[job].4)
    }

    fn sort(&mut self) {
        let (jobs, policy) = (self.jobs, self.policy);
        self.waiting.sort_by_key(|job| {
            let (submit, _, limit, tasks, each) = jobs[*job];
            let rank = match policy {
                PolicyName::LargestGang => u64::MAX - u64::from(tasks) * each,
                PolicyName::Sjf | PolicyName::SjfEasy => u64::from(limit),
                _ => 0,
            };
            (rank, submit, *job)
        });
    }

    /// The room at the time when the job fits, if nothing more starts; the time; whether a set of nodes
    /// that is held beyond it leaves room.
    fn shadow(&self, job: usize, now: u32) -> (u32, Vec<u64>) {
        let (_, _, _, tasks, each) = self.jobs[job];
        let mut ends: Vec<u32> = self.running.iter().map(|running| running.0).collect();
        ends.sort_unstable();
        for end in ends {
            let mut free = self.free.clone();
            for (_, _, other, nodes) in self.running.iter().filter(|running| running.0 <= end) {
                for node in nodes {
                    free[*node] += self.jobs[*other].4;
                }
            }
            if best_fit(&free, tasks, each).is_some() {
                return (end.max(now), free);
            }
        }
        unreachable!("everything fits an empty cluster")
    }

    fn pass(&mut self, now: u32) {
        self.sort();
        let strict = !matches!(self.policy, PolicyName::Greedy | PolicyName::LargestGang);
        let mut blocked = None;
        for job in self.waiting.clone() {
            match self.places(job) {
                Some(nodes) => self.start(job, nodes, now),
                None if strict => {
                    blocked = Some(job);
                    break;
                }
                None => {}
            }
        }
        let Some(first) = blocked.filter(|_| !matches!(self.policy, PolicyName::Fifo | PolicyName::Sjf))
        else {
            return;
        };
        let (at, mut then) = self.shadow(first, now);
        let mut others: Vec<usize> = self.waiting.iter().copied().filter(|job| *job != first).collect();
        if self.policy == PolicyName::EasySjbf {
            others.sort_by_key(|job| (self.jobs[*job].2, self.jobs[*job].0, *job));
        }
        for job in others {
            let (_, _, limit, _, each) = self.jobs[job];
            let Some(nodes) = self.places(job) else { continue };
            if now + limit > at {
                let mut left = then.clone();
                // What is held beyond the time must be free then.
                for node in &nodes {
                    left[*node] -= each;
                }
                if best_fit(&left, self.jobs[first].3, self.jobs[first].4).is_none() {
                    continue;
                }
                then = left;
            }
            self.start(job, nodes, now);
        }
    }

    fn play(mut self) -> Vec<u32> {
        let mut arrived = 0;
        loop {
            let arrival = self.jobs.get(arrived).map(|job| job.0);
            let end = self.running.iter().map(|running| running.1).min();
            let Some(now) = arrival.into_iter().chain(end).min() else { return self.starts };
            for (_, _, job, nodes) in self.running.extract_if(.., |running| running.1 == now) {
                for node in nodes {
                    self.free[node] += self.jobs[job].4;
                }
            }
            while self.jobs.get(arrived).is_some_and(|job| job.0 == now) {
                self.waiting.push(arrived);
                arrived += 1;
            }
            self.pass(now);
        }
    }
}

fn starts_of_the_replay(jobs: &[Job], nodes: usize, policy: PolicyName) -> Vec<u32> {
    let job = |(submit, run, limit, tasks, gpus): &Job| TraceJob {
        submit: Timestamp::default() + Span::from_secs(*submit),
        run: Span::from_secs(*run),
        limit: Some(Span::from_secs(*limit)),
        tasks: *tasks,
        need: Resources { gpus: *gpus, ..Resources::default() },
        queue: 0,
        user: 0,
        priority: 0,
        preemptible: false,
    };
    let workload = Workload {
        jobs: jobs.iter().map(job).collect(),
        queues: vec!["all".to_owned()],
        users: vec!["anyone".to_owned()],
    };
    let each = Resources { gpus: 4, ..Resources::default() };
    let group = NodeGroup { count: nodes as u32, each, ..NodeGroup::default() };
    let cluster = Cluster { nodes: vec![group], ..Cluster::default() };
    let settings = Settings { events: Events::Batched, estimates: Estimates::Limit, ..Settings::default() };
    let outcome = replay(&workload, &cluster, &Policy::named(policy), &settings, &mut |_| {});
    let second = |at: Timestamp| (at.as_micros() / 1_000_000) as u32;
    let jobs = outcome.map(|outcome| outcome.jobs).unwrap_or_default();
    jobs.iter().map(|job| second(job.start)).collect()
}

fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = (0_u32..4, 1_u32..20, 0_u32..8, 1_u32..7, 1_u64..5);
    prop::collection::vec(job, 1..30).prop_map(|jobs| {
        let mut submit = 0;
        let later = |(wait, run, over, tasks, each): Job| {
            submit += wait;
            // It must fit three nodes of four.
            let room = 3 * (4 / each) as u32;
            (submit, run, run + over, tasks.min(room), each)
        };
        jobs.into_iter().map(later).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_job_starts_when_trying_everything_would_start_it(jobs in any_jobs(), pick in 0_usize..7, nodes in 3_usize..5) {
        let policy = PolicyName::ALL[pick];
        let naive = Naive {
            jobs: &jobs,
            policy,
            free: vec![4; nodes],
            running: Vec::new(),
            waiting: Vec::new(),
            starts: vec![0; jobs.len()],
        };
        let expected = naive.play();
        prop_assert_eq!(starts_of_the_replay(&jobs, nodes, policy), expected, "{}", policy);
    }
}
