//! A small workload that anybody can play, with all its figures.

mod reference;

use muster_domain::{Span, Timestamp};
use muster_planner::board::QueueTerms;
use muster_planner::policy::{Policy, PolicyName};
use muster_replay::{Estimates, Settings, TraceJob, Workload, replay};

use reference::{cluster, figures, gpus, play, play_policy, workload};

/// Numbers that look random and are the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Many short singles, some long ones, some gangs of whole nodes; more than four nodes of eight can take.
fn mixed() -> Workload {
    let mut numbers = Numbers(7);
    let mut clock = 0;
    let job = |_| {
        clock += numbers.below(1500);
        let kind = numbers.below(10);
        let (tasks, each) = match kind {
            0 => (2 + numbers.below(2) as u32, 8),
            1 | 2 => (1, 4),
            _ => (1, 1),
        };
        let run =
            if kind.is_multiple_of(3) { 20_000 + numbers.below(40_000) } else { 10 + numbers.below(4_000) };
        TraceJob {
            submit: Timestamp::default() + Span::from_secs(clock as u32),
            run: Span::from_secs(run as u32),
            limit: Some(Span::from_secs((run + numbers.below(2 * run)) as u32)),
            tasks,
            need: gpus(each),
            queue: 0,
            user: 0,
            priority: 0,
            preemptible: true,
        }
    };
    workload((0..400).map(job).collect())
}

#[test]
fn every_policy_gives_its_figures() {
    let workload = mixed();
    let cluster = cluster(4, gpus(8));
    let row = |policy: Policy, estimates| {
        let settings = Settings { estimates, ..Settings::default() };
        let outcome = play_policy(&workload, &cluster, &policy, &settings);
        let seen = figures(&workload, &outcome);
        let stops: u32 = outcome.jobs.iter().map(|job| job.preemptions).sum();
        format!("{} {:.2} {:.2} {:.4} {stops}", policy.name, seen.wait, seen.flow, seen.slowdown)
    };
    let by_level = Policy { preempt_by_level: true, ..Policy::default() };
    let policies = PolicyName::ALL.into_iter().map(Policy::named).chain([by_level]);
    let seen: Vec<String> = policies.map(|policy| row(policy, Estimates::Limit)).collect();
    let expected = [
        "fifo 810455.15 828846.34 552.6109 0",
        "greedy 151478.64 169869.83 77.1095 0",
        "largest-gang 319889.08 338280.28 210.0267 0",
        "sjf 299514.22 317905.41 8.6374 0",
        "sjf-easy 92638.50 111029.70 3.8680 0",
        "easy 166363.99 184755.19 66.1341 0",
        "easy-sjbf 127890.77 146281.97 17.2810 0",
        "muster 135507.38 153898.57 22.4990 0",
        "muster 94983.95 113375.14 4.5286 300",
    ];
    assert_eq!(seen, expected);
    let seen = [Policy::named(PolicyName::EasySjbf), by_level].map(|policy| row(policy, Estimates::History));
    assert_eq!(seen, ["easy-sjbf 152102.75 170493.94 17.1724 0", "muster 173312.53 191703.73 18.4660 569"]);
}

/// One team has taken what the other owns and left idle; the owner comes and gets it at once.
#[test]
fn the_owner_of_a_quota_gets_it_back() {
    let job = |submit: u32, run: u32, tasks: u32, queue: u32| TraceJob {
        submit: Timestamp::default() + Span::from_secs(submit),
        run: Span::from_secs(run),
        limit: None,
        tasks,
        need: gpus(1),
        queue,
        user: 0,
        priority: 0,
        preemptible: true,
    };
    let mut workload = workload((0..16).map(|_| job(0, 9000, 1, 1)).chain([job(1000, 100, 6, 0)]).collect());
    workload.queues = vec!["owner".to_owned(), "other".to_owned()];
    let mut cluster = cluster(2, gpus(8));
    let starts = |cluster: &muster_replay::Cluster, workload: &Workload| {
        let outcome = play(workload, cluster, PolicyName::Muster, &Settings::default());
        let stops: u32 = outcome.jobs.iter().map(|job| job.preemptions).sum();
        (outcome.jobs[16].start.since(workload.jobs[16].submit), stops)
    };
    let (waited, stops) = starts(&cluster, &workload);
    assert!(waited > Span::from_secs(1000) && stops == 0, "{waited:?} {stops}");
    let own = |own: u64| QueueTerms { nominal: Some(gpus(own)), ..QueueTerms::default() };
    cluster.queues = [("owner".to_owned(), own(8)), ("other".to_owned(), own(8))].into();
    assert_eq!(starts(&cluster, &workload), (Span::ZERO, 6));

    workload.jobs[16].preemptible = false;
    workload.jobs[16].tasks = 9;
    let policy = Policy::named(PolicyName::Muster);
    let refused = replay(&workload, &cluster, &policy, &Settings::default(), &mut |_| ()).unwrap_err();
    assert!(refused.to_string().contains("job 17") && refused.to_string().contains("owner"), "{refused}");
}
