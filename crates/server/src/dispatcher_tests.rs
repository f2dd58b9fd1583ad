//! Parked requests: woken, timed out, gone, closed; and stop orders.

use std::sync::Arc;
use std::time::Duration;

use muster_domain::{Job, Phase, StopReason, Timestamp, WorkerId};
use muster_store::{Ask, Command, Outcome, Wake};

use super::{Dispatcher, Handed, Waiting};
use crate::testing::{FakeStore, running_job, start_batcher};
use crate::wake::WakeHub;

const LONG: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(5);

struct Bench {
    store: Arc<FakeStore>,
    hub: Arc<WakeHub>,
    dispatcher: Arc<Dispatcher>,
}

fn bench(store: FakeStore) -> Bench {
    let store = Arc::new(store);
    let (batcher, parts) = start_batcher(&store, 100);
    let hub = parts.hub;
    let dispatcher =
        Arc::new(Dispatcher::new(store.clone(), batcher, hub.clone(), parts.metrics.clone(), TICK));
    let runner = dispatcher.clone();
    tokio::spawn(async move { runner.run(std::future::pending()).await });
    Bench { store, hub, dispatcher }
}

impl Bench {
    fn waiting(&self, worker: &str) -> Waiting {
        let worker = WorkerId::new(worker);
        let ask = Ask { worker: Some(worker.clone()), max: 1, ..Ask::default() };
        Waiting {
            ask: Some(ask),
            worker: Some(worker),
            orders: false,
            prepared: Vec::new(),
            as_of: self.hub.work_generation(),
        }
    }

    fn park(&self, waiting: Waiting, wait: Duration) -> tokio::task::JoinHandle<Handed> {
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move { dispatcher.park(waiting, wait).await })
    }

    /// Waits until so many requests are parked.
    async fn parked(&self, count: usize) {
        while self.dispatcher.registry().parked.len() != count {
            tokio::task::yield_now().await;
        }
    }

    fn add_job(&self, number: u8) -> Job {
        let job = running_job(number, "w");
        self.store.jobs.lock().unwrap().push_back(job.clone());
        job
    }

    fn wake_work(&self) {
        self.hub.publish(&Wake { work: true, ..Wake::default() });
    }
}

fn job_in(handed: Handed) -> Job {
    let Handed::Work(delivery) = handed else { panic!("no work") };
    match delivery.take().pop() {
        Some(Ok(Outcome::Claimed(mut jobs))) => jobs.pop().unwrap().job,
        other => panic!("no claim: {other:?}"),
    }
}

#[tokio::test]
async fn a_wake_up_claims_for_all_parked_requests_in_one_transaction() {
    let bench = bench(FakeStore::open());
    let polls = ["a", "b", "c"].map(|worker| bench.park(bench.waiting(worker), LONG));
    bench.parked(3).await;
    for number in 1..=3 {
        bench.add_job(number);
    }
    bench.wake_work();
    for poll in polls {
        job_in(poll.await.unwrap());
    }
    let batches = bench.store.begun(1).await;
    assert_eq!((batches.len(), batches[0].len()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn work_that_came_before_the_request_was_parked_is_not_missed() {
    let bench = bench(FakeStore::open());
    let waiting = bench.waiting("w");
    let job = bench.add_job(1);
    bench.wake_work();
    // The dispatcher uses the wake-up up while nobody is parked.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let handed = bench.dispatcher.park(waiting, Duration::from_secs(3)).await;
    assert_eq!(job_in(handed).id, job.id);
}

#[tokio::test(start_paused = true)]
async fn the_safety_tick_finds_what_no_wake_up_told() {
    let bench = bench(FakeStore::open());
    let poll = bench.park(bench.waiting("w"), LONG);
    bench.parked(1).await;
    let job = bench.add_job(1);
    let begun = tokio::time::Instant::now();
    assert_eq!(job_in(poll.await.unwrap()).id, job.id);
    assert!(begun.elapsed() <= TICK, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_time_is_up_gets_nothing_and_is_gone() {
    let bench = bench(FakeStore::open());
    let begun = tokio::time::Instant::now();
    let handed = bench.dispatcher.park(bench.waiting("w"), Duration::from_secs(2)).await;
    assert!(matches!(handed, Handed::Nothing));
    assert_eq!(begun.elapsed().as_secs(), 2);
    bench.parked(0).await;
}

#[tokio::test]
async fn jobs_for_a_client_that_is_gone_are_handed_back() {
    let bench = bench(FakeStore::scripted(|_| None));
    let poll = bench.park(bench.waiting("w"), LONG);
    bench.parked(1).await;
    let job = bench.add_job(9);
    bench.wake_work();
    bench.store.begun(1).await;
    poll.abort();
    assert!(poll.await.is_err());
    bench.store.gate.add_permits(1_000);
    let batches = bench.store.begun(2).await;
    assert!(matches!(&batches[1][0], Command::Report(report) if report.job == job.id), "{:?}", batches[1]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_during_a_claim_waits_for_its_answer() {
    let bench = bench(FakeStore::scripted(|_| None));
    let poll = bench.park(bench.waiting("w"), Duration::from_millis(100));
    bench.parked(1).await;
    let job = bench.add_job(1);
    bench.wake_work();
    bench.store.begun(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!poll.is_finished());
    bench.store.gate.add_permits(1_000);
    assert_eq!(job_in(poll.await.unwrap()).id, job.id);
}

#[tokio::test]
async fn closing_and_leaving_answer_at_once() {
    let bench = bench(FakeStore::open());
    let leaver = bench.park(bench.waiting("leaver"), LONG);
    let other = bench.park(bench.waiting("other"), LONG);
    bench.parked(2).await;
    bench.dispatcher.leave(&WorkerId::new("leaver"));
    assert!(matches!(leaver.await.unwrap(), Handed::Nothing));
    bench.parked(1).await;
    bench.dispatcher.close();
    assert!(matches!(other.await.unwrap(), Handed::Nothing));
    let late = bench.dispatcher.park(bench.waiting("late"), LONG).await;
    assert!(matches!(late, Handed::Nothing));
}

fn stopping_job(number: u8, worker: &str) -> Job {
    let mut job = running_job(number, worker);
    job.preemption_epoch = 1;
    job.phase = Phase::Preempting {
        exit_reported_at: None,
        worker: Some(WorkerId::new(worker)),
        last_heartbeat: None,
        drain_started_at: Timestamp::default(),
        stop: StopReason::Cancel { message: None },
    };
    job
}

#[tokio::test]
async fn a_stop_order_ends_the_wait_of_its_worker_only() {
    let bench = bench(FakeStore::open());
    let orders = |worker: &str| Waiting { ask: None, orders: true, ..bench.waiting(worker) };
    let concerned = bench.park(orders("concerned"), LONG);
    let other = bench.park(orders("other"), LONG);
    bench.parked(2).await;
    let job = stopping_job(4, "concerned");
    bench.store.stopping.lock().unwrap().push(job.clone());
    bench.hub.publish(&Wake { stops: vec![WorkerId::new("concerned")], ..Wake::default() });
    match concerned.await.unwrap() {
        Handed::Stops(jobs) => assert_eq!(jobs, std::slice::from_ref(&job)),
        _ => panic!("no orders"),
    }
    assert!(!other.is_finished());
    assert!(bench.dispatcher.fresh(vec![job]).is_empty(), "an order is not repeated at once");
}

#[tokio::test(start_paused = true)]
async fn an_order_is_repeated_after_a_while() {
    let bench = bench(FakeStore::open());
    let job = stopping_job(4, "w");
    assert_eq!(bench.dispatcher.fresh(vec![job.clone()]).len(), 1);
    assert_eq!(bench.dispatcher.fresh(vec![job.clone()]).len(), 0);
    tokio::time::advance(TICK).await;
    assert_eq!(bench.dispatcher.fresh(vec![job]).len(), 1);
}
