//! What attempts used: kept with the job and its events, and summed up.

use muster_domain::access::{Principal, UserRole};
use muster_domain::usage::hour_of;
use muster_domain::{
    Caller, EventKind, Exit, Job, JobSpec, QueueName, ReportKind, Resources, Span, Spent, Status, UsageSum,
};

use super::Stage;
use super::band::membership;
use crate::command::{Command, Report};
use crate::query::{EndedFilter, EventFilter, UsageFilter, UsageLine};
use crate::store::StoreExt;

fn of(user: &str) -> JobSpec {
    let resources = Resources { cpu_millis: 2000, memory_mb: 1024, gpus: 1, ..Resources::default() };
    let (user, queue) = (Some(user.to_owned()), Some(QueueName::new("q")));
    JobSpec { user, queue, resources: Some(resources), ..JobSpec::shell("x") }
}

fn spent(cpu_ms: u64) -> Spent {
    Spent {
        cpu_user_ms: Some(cpu_ms),
        cpu_system_ms: Some(0),
        peak_memory_bytes: Some(256 << 20),
        ..Spent::default()
    }
}

async fn end(stage: &Stage, job: &Job, kind: ReportKind, spent: Option<Spent>) -> Job {
    let caller = Caller { lease: Some(job.lease), worker: None };
    let exit = Exit { code: Some(i32::from(kind == ReportKind::Failed)), signal: None };
    let report = Report { job: job.id, caller, kind, exit, message: None, outputs: None, spent };
    stage.one(Command::Report(report)).await.unwrap();
    stage.get(job.id).await
}

async fn run(stage: &Stage, spec: JobSpec, seconds: u32, cpu_ms: u64) -> Job {
    let id = stage.submit(spec).await.id;
    let job = stage.claim().await.unwrap();
    assert_eq!(job.id, id, "another job was pending");
    stage.advance(Span::from_secs(seconds));
    end(stage, &job, ReportKind::Done, Some(spent(cpu_ms))).await
}

fn everything(stage: &Stage) -> UsageFilter {
    let to_hour = hour_of(stage.now()) + 1;
    UsageFilter { from_hour: 0, to_hour, by_day: false, user: None, queue: None, seen_by: None }
}

async fn sums(stage: &Stage, filter: UsageFilter) -> Vec<UsageLine> {
    stage.store.usage(filter).await.unwrap()
}

async fn users(stage: &Stage, filter: UsageFilter) -> Vec<String> {
    sums(stage, filter).await.into_iter().map(|line| line.user).collect()
}

pub async fn attempts_are_kept_with_the_job_and_summed_up(stage: &Stage) {
    let id = stage.submit(of("ann")).await.id;
    let first = stage.claim().await.unwrap();
    stage.advance(Span::from_secs(100));
    let waiting = end(stage, &first, ReportKind::Failed, Some(spent(50_000))).await;
    assert_eq!(waiting.status(), Status::Pending);
    assert_eq!(waiting.spent.as_ref().map(|spent| spent.last), Some(spent(50_000)));
    let second = stage.claim().await.unwrap();
    stage.advance(Span::from_secs(50));
    let done = end(stage, &second, ReportKind::Done, Some(spent(30_000))).await;
    // A report that is repeated counts once.
    assert_eq!(end(stage, &second, ReportKind::Done, Some(spent(30_000))).await, done);
    let known = done.spent.clone().unwrap();
    assert_eq!((known.last, known.total()), (spent(30_000), spent(80_000)));

    let events = stage.store.events(EventFilter { job: Some(id), after: 0, limit: 100 }).await.unwrap();
    let measured: Vec<(&str, Option<u64>, bool)> = events
        .iter()
        .filter_map(|event| {
            let measured = event.measured.as_ref()?;
            Some((event.kind.name(), measured.spent.cpu_user_ms, measured.requested == of("ann").resources))
        })
        .collect();
    assert_eq!(measured, [("requeued", Some(50_000), true), ("done", Some(30_000), true)]);

    let lines = sums(stage, everything(stage)).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.user.as_str(), line.queue.as_str(), line.day), ("ann", "q", 0));
    let expected = UsageSum {
        jobs: 1,
        jobs_failed: 0,
        attempts: 2,
        wall_ms: 150_000,
        cpu_ms: 80_000,
        cpu_requested_ms: 300_000,
        cpu_compared_ms: 80_000,
        cpu_compared_requested_ms: 300_000,
        memory_compared: 256 * 150,
        memory_compared_requested: 1024 * 150,
        gpu_ms: 150_000,
        read_bytes: 0,
        written_bytes: 0,
        peak_memory_bytes: 256 << 20,
    };
    assert_eq!(line.sum, expected);
}

pub async fn sums_are_by_hour_and_outlive_their_jobs(stage: &Stage) {
    let begin = hour_of(stage.now());
    run(stage, of("ann"), 3 * 3600, 60_000).await;
    run(stage, of("bob"), 60, 1_000).await;
    run(stage, of("ann"), 60, 1_000).await;
    let whole = sums(stage, everything(stage)).await;
    let wall = |lines: &[UsageLine]| lines.iter().map(|line| line.sum.wall_ms).collect::<Vec<_>>();
    assert_eq!(wall(&whole), [10_860_000, 60_000]);
    // Of a part of the time only what ran then, of one user only its own.
    let one = UsageFilter { from_hour: begin + 1, to_hour: begin + 2, ..everything(stage) };
    assert_eq!(wall(&sums(stage, one.clone()).await), [3_600_000]);
    assert_eq!(sums(stage, one).await[0].sum.attempts, 0, "it ended later");
    let bob = UsageFilter { user: Some("bob".to_owned()), ..everything(stage) };
    assert_eq!(users(stage, bob).await, ["bob"]);
    let other = UsageFilter { queue: Some(QueueName::new("other")), ..everything(stage) };
    assert!(users(stage, other).await.is_empty());
    let days = UsageFilter { by_day: true, ..everything(stage) };
    let of_days: Vec<(i64, String)> =
        sums(stage, days).await.into_iter().map(|line| (line.day - begin / 24, line.user)).collect();
    assert_eq!(of_days, [(0, "ann".to_owned()), (1, "ann".to_owned()), (1, "bob".to_owned())]);

    stage.advance(Span::from_secs(3600));
    let swept = stage.sweep_with(muster_domain::Timestamp::default(), Some(Span::ZERO)).await;
    assert_eq!(swept.removed, 3);
    assert_eq!(wall(&sums(stage, everything(stage)).await), wall(&whole));
    stage.advance(Span::from_secs(4 * 366 * 24 * 3600));
    stage.sweep().await;
    assert!(sums(stage, everything(stage)).await.is_empty(), "what is that old is forgotten");
}

pub async fn what_nobody_measured_is_counted_by_its_time(stage: &Stage) {
    stage
        .register("a", Resources { cpu_millis: 4000, memory_mb: 4096, gpus: 2, ..Resources::default() }, None)
        .await;
    let lost = stage.submit(of("ann")).await;
    stage.claim_by("a").await.unwrap();
    stage.advance(Span::from_secs(3600));
    stage.sweep().await;
    assert_eq!(stage.get(lost.id).await.status(), Status::Pending);
    assert_eq!(stage.get(lost.id).await.spent, None);
    stage.cancel(lost.id).await.unwrap();
    // What never ran used nothing.
    let never = stage.submit(of("bob")).await;
    stage.cancel(never.id).await.unwrap();
    let lines = sums(stage, everything(stage)).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.sum.attempts, line.sum.jobs, line.sum.wall_ms), (1, 1, 3_600_000));
    assert_eq!((line.sum.cpu_ms, line.sum.cpu_efficiency()), (0, None));
}

pub async fn tasks_of_a_gang_are_counted_each(stage: &Stage) {
    for worker in ["a", "b"] {
        stage
            .register(
                worker,
                Resources { cpu_millis: 4000, memory_mb: 4096, gpus: 1, ..Resources::default() },
                None,
            )
            .await;
    }
    let gang = stage.submit_gang(of("ann"), membership(2)).await;
    stage.plan().await;
    let tasks = [stage.claim_by("a").await.unwrap(), stage.claim_by("b").await.unwrap()];
    stage.advance(Span::from_secs(10));
    end(stage, &tasks[0], ReportKind::Done, Some(spent(4_000))).await;
    stage.advance(Span::from_secs(10));
    end(stage, &tasks[1], ReportKind::Done, Some(spent(6_000))).await;
    for task in stage.tasks(gang).await {
        assert_eq!(task.status(), Status::Done);
        let filter = EventFilter { job: Some(task.id), after: 0, limit: 100 };
        let events = stage.store.events(filter).await.unwrap();
        let of_event = events.iter().find(|event| matches!(event.kind, EventKind::Finished { .. })).unwrap();
        assert_eq!(of_event.measured.as_ref().map(|one| one.spent), task.spent.map(|spent| spent.last));
    }
    let lines = sums(stage, everything(stage)).await;
    let sum = lines[0].sum;
    assert_eq!((sum.attempts, sum.jobs, sum.wall_ms, sum.cpu_ms, sum.gpu_ms), (2, 2, 30_000, 10_000, 30_000));
}

pub async fn sums_and_ended_jobs_are_shown_to_those_who_may_see_them(stage: &Stage) {
    let begin = stage.now();
    run(stage, JobSpec { queue: None, ..of("ann") }, 10, 1).await;
    run(stage, JobSpec { private: true, queue: None, ..of("bob") }, 10, 1).await;
    let middle = stage.now();
    run(stage, JobSpec { queue: None, ..of("carl") }, 10, 1).await;
    let user = |name: &str| Principal::User { name: name.to_owned(), role: UserRole::User, queues: None };
    let seen = async |principal: Principal| {
        users(stage, UsageFilter { seen_by: Some(principal), ..everything(stage) }).await
    };
    assert_eq!(seen(user("bob")).await, ["ann", "bob", "carl"]);
    assert_eq!(seen(user("ann")).await, ["ann", "carl"]);
    assert_eq!(seen(Principal::Local).await, ["ann", "bob", "carl"]);

    stage.advance(Span::from_secs(1));
    let ended = async |filter: EndedFilter| {
        let (jobs, complete) = stage.store.ended_jobs(filter).await.unwrap();
        (jobs.into_iter().filter_map(|job| job.spec.user.clone()).collect::<Vec<_>>(), complete)
    };
    let all =
        EndedFilter { since: begin, until: stage.now(), user: None, queue: None, limit: 10, seen_by: None };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(ended(all.clone()).await, (names(&["carl", "bob", "ann"]), true));
    let hidden = EndedFilter { seen_by: Some(user("ann")), ..all.clone() };
    assert_eq!(ended(hidden).await, (names(&["carl", "ann"]), true));
    let later = EndedFilter { since: middle + Span::from_secs(1), ..all.clone() };
    assert_eq!(ended(later).await, (names(&["carl"]), true));
    assert_eq!(ended(EndedFilter { until: middle, ..all.clone() }).await, (names(&["ann"]), true));
    assert_eq!(ended(EndedFilter { limit: 2, ..all.clone() }).await, (names(&["carl", "bob"]), false));
    assert_eq!(ended(EndedFilter { user: Some("bob".to_owned()), ..all }).await, (names(&["bob"]), true));
}
