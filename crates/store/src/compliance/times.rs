//! Time: delays, deadlines, timeouts, and what follows a failure by its cause.

use muster_domain::retry::{Backoff, RetryOn, RetryPolicy};
use muster_domain::{Exit, Job, JobSpec, MemoryGrowth, Rejection, ReportKind, Span, Status, WorkerId};

use super::band::membership;
use super::stage::{Stage, lease, memory};
use crate::command::{Command, Outcome, Report};

async fn exit_with(stage: &Stage, job: &Job, code: i32) -> Result<Job, Rejection> {
    let exit = Exit { code: Some(code), signal: None };
    let caller = lease(job.lease.0);
    let report = Report {
        job: job.id,
        caller,
        kind: ReportKind::Failed,
        exit,
        message: None,
        outputs: None,
        spent: None,
    };
    match stage.one(Command::Report(report)).await? {
        Outcome::Reported { job, .. } => Ok(job),
        other => panic!("{other:?}"),
    }
}

pub async fn not_before_delays_the_start(stage: &Stage) {
    let until = stage.now() + Span::from_secs(60);
    let job = stage.submit(JobSpec { not_before: Some(until), ..JobSpec::shell("later") }).await;
    assert_eq!(job.status(), Status::Delayed);
    assert_eq!(stage.sweep().await.next_due, Some(until));
    assert!(stage.claim().await.is_none());
    stage.advance(Span::from_secs(60));
    assert_eq!(stage.sweep().await.alarms, 1);
    assert_eq!(stage.claim().await.unwrap().id, job.id);
    assert_eq!(stage.event_names(job.id).await, ["submitted", "due", "claimed"]);
}

pub async fn back_off_delays_the_next_attempt(stage: &Stage) {
    let backoff = Backoff {
        initial: Span::from_secs(10),
        factor_milli: 3000,
        cap: Span::from_secs(100),
        jitter_percent: 0,
    };
    let retry = RetryPolicy { backoff, ..RetryPolicy::default() };
    let id = stage.submit(JobSpec { retry, ..JobSpec::shell("flaky") }).await.id;
    for seconds in [10, 30] {
        let job = stage.claim().await.unwrap();
        let after = exit_with(stage, &job, 1).await.unwrap();
        assert_eq!(after.delayed_until(), Some(stage.now() + Span::from_secs(seconds)));
        assert!(stage.claim().await.is_none());
        stage.advance(Span::from_secs(seconds));
        stage.sweep().await;
    }
    let last = stage.claim().await.unwrap();
    assert_eq!(exit_with(stage, &last, 1).await.unwrap().status(), Status::Failed);
    assert_eq!(stage.get(id).await.attempts, 3);
}

pub async fn requeue_codes_cost_nothing(stage: &Stage) {
    stage.submit(JobSpec { max_attempts: 1, ..JobSpec::shell("x") }).await;
    for _ in 0..5 {
        let job = stage.claim().await.unwrap();
        assert_eq!(job.attempts, 1);
        let after = exit_with(stage, &job, 75).await.unwrap();
        assert_eq!((after.status(), after.attempts), (Status::Pending, 0));
    }
}

pub async fn retry_on_is_obeyed(stage: &Stage) {
    let on = RetryOn { exit_codes: Some(vec![2]), lost: false, ..RetryOn::default() };
    let retry = RetryPolicy { on, ..RetryPolicy::default() };
    let spec = || JobSpec { retry: retry.clone(), ..JobSpec::shell("x") };
    stage.submit(spec()).await;
    let job = stage.claim().await.unwrap();
    assert_eq!(exit_with(stage, &job, 2).await.unwrap().status(), Status::Pending);
    let job = stage.claim().await.unwrap();
    assert_eq!(exit_with(stage, &job, 1).await.unwrap().status(), Status::Failed, "with attempts left");
    stage.submit(spec()).await;
    stage.claim().await.unwrap();
    stage.advance(Span::from_secs(31));
    assert_eq!(stage.sweep().await.failed, 1);
    stage.submit(spec()).await;
    let job = stage.claim().await.unwrap();
    let lost = stage.report(&job, ReportKind::Lost).await.unwrap();
    assert_eq!(
        lost.status(),
        Status::Failed,
        "a worker that says so itself is the same: {:?}",
        lost.reason()
    );
    assert_eq!(stage.report(&job, ReportKind::Lost).await.unwrap(), lost, "and may say it twice");
}

pub async fn a_deadline_ends_what_waits(stage: &Stage) {
    let deadline = Some(stage.now() + Span::from_secs(5));
    let job = stage.submit(JobSpec { deadline, ..JobSpec::shell("x") }).await;
    let child = stage.after(&[job.id]).await;
    stage.advance(Span::from_secs(5));
    assert_eq!(stage.sweep().await.alarms, 1);
    let failed = stage.get(job.id).await;
    assert_eq!((failed.status(), failed.reason().as_deref()), (Status::Failed, Some("deadline passed")));
    assert_eq!(stage.status(child.id).await, Status::Failed);
}

pub async fn a_deadline_stops_what_runs(stage: &Stage) {
    let deadline = Some(stage.now() + Span::from_secs(5));
    stage.submit(JobSpec { deadline, ..JobSpec::shell("x") }).await;
    let job = stage.claim_by("w1").await.unwrap();
    stage.advance(Span::from_secs(6));
    stage.sweep().await;
    assert_eq!(stage.heartbeat(&job).await.unwrap().status(), Status::Preempting);
    let ended = stage.report(&job, ReportKind::Preempted).await.unwrap();
    assert_eq!((ended.status(), ended.reason().as_deref()), (Status::Failed, Some("deadline passed")));
}

pub async fn an_overrun_is_stopped_and_fails_as_timeout(stage: &Stage) {
    let spec = JobSpec { timeout: Some(Span::from_secs(5)), max_attempts: 1, ..JobSpec::shell("x") };
    stage.submit(spec).await;
    let job = stage.claim_by("w1").await.unwrap();
    stage.advance(Span::from_secs(6));
    assert_eq!(stage.sweep().await.alarms, 0, "the worker is given the time to do it itself");
    stage.advance(Span::from_secs(2));
    assert_eq!(stage.sweep().await.alarms, 1);
    // Even a process that ends well now has run too long.
    let ended = stage.report(&job, ReportKind::Done).await.unwrap();
    assert_eq!((ended.status(), ended.reason().as_deref()), (Status::Failed, Some("timeout")));
}

pub async fn a_timeout_report_is_a_failure_with_its_reason(stage: &Stage) {
    stage.submit(JobSpec { timeout: Some(Span::from_secs(5)), max_attempts: 2, ..JobSpec::shell("x") }).await;
    let job = stage.claim().await.unwrap();
    assert_eq!(stage.report(&job, ReportKind::TimedOut).await.unwrap().status(), Status::Pending);
    let job = stage.claim().await.unwrap();
    let ended = stage.report(&job, ReportKind::TimedOut).await.unwrap();
    assert_eq!((ended.status(), ended.reason().as_deref()), (Status::Failed, Some("timeout")));
    assert_eq!(stage.report(&job, ReportKind::TimedOut).await.unwrap(), ended, "repeated");
}

pub async fn an_attempt_out_of_memory_is_a_failure_of_its_own(stage: &Stage) {
    stage.submit(JobSpec { max_attempts: 2, ..JobSpec::shell("x") }).await;
    let job = stage.claim().await.unwrap();
    assert_eq!(stage.report(&job, ReportKind::OutOfMemory).await.unwrap().status(), Status::Pending);
    let job = stage.claim().await.unwrap();
    let ended = stage.report(&job, ReportKind::OutOfMemory).await.unwrap();
    assert_eq!((ended.status(), ended.reason().as_deref()), (Status::Failed, Some("out of memory")));
    assert_eq!(stage.report(&job, ReportKind::OutOfMemory).await.unwrap(), ended, "repeated");
    let on = RetryOn { oom: false, ..RetryOn::default() };
    stage
        .submit(JobSpec { retry: RetryPolicy { on, ..RetryPolicy::default() }, ..JobSpec::shell("x") })
        .await;
    let job = stage.claim().await.unwrap();
    let ended = stage.report(&job, ReportKind::OutOfMemory).await.unwrap();
    assert_eq!(ended.status(), Status::Failed, "with attempts left");
}

/// A job that wants twice the memory after running out of it.
fn growing(memory_mb: u64) -> JobSpec {
    let oom_memory = Some(MemoryGrowth { factor_milli: 2_000, most_mb: None });
    let retry = RetryPolicy { oom_memory, ..RetryPolicy::default() };
    JobSpec { retry, resources: Some(memory(memory_mb)), max_attempts: 9, ..JobSpec::shell("x") }
}

fn asked(job: &Job) -> u64 {
    job.spec.resources.as_ref().map_or(0, |resources| resources.memory_mb)
}

pub async fn an_attempt_out_of_memory_is_followed_by_one_with_more_up_to_the_largest_worker(stage: &Stage) {
    stage.register("small", memory(150), None).await;
    let id = stage.submit(growing(64)).await.id;
    let job = stage.claim_by("small").await.unwrap();
    let again = stage.report(&job, ReportKind::OutOfMemory).await.unwrap();
    assert_eq!((again.status(), asked(&again)), (Status::Pending, 128));
    assert_eq!(asked(&stage.get(id).await), 128, "as it is stored");
    let names = ["submitted", "claimed", "requeued", "edited"];
    assert_eq!(stage.event_names(id).await, names);
    // Another cause changes nothing.
    let job = stage.claim_by("small").await.unwrap();
    assert_eq!(asked(&job), 128, "as it is handed out");
    assert_eq!(asked(&stage.report(&job, ReportKind::Failed).await.unwrap()), 128);
    // As much as there is, and not more.
    let job = stage.claim_by("small").await.unwrap();
    assert_eq!(asked(&stage.report(&job, ReportKind::OutOfMemory).await.unwrap()), 150);
    // It does not wait for ever.
    let job = stage.claim_by("small").await.unwrap();
    assert_eq!(asked(&stage.report(&job, ReportKind::OutOfMemory).await.unwrap()), 150);
    // A larger worker: the planner goes by what is asked for now.
    stage.register("large", memory(1_000), None).await;
    let job = stage.claim_by("large").await.unwrap();
    assert_eq!(asked(&stage.report(&job, ReportKind::OutOfMemory).await.unwrap()), 300);
    assert!(stage.claim_by("small").await.is_none(), "it has too little");
    assert_eq!(stage.claim_by("large").await.map(|job| job.id), Some(id));
}

pub async fn a_gang_that_ran_out_of_memory_asks_for_more_as_a_whole(stage: &Stage) {
    stage.register("a", memory(300), None).await;
    stage.register("b", memory(200), None).await;
    let gang = stage.submit_gang(growing(64), membership(2)).await;
    let all = async || stage.tasks(gang).await.iter().map(asked).collect::<Vec<_>>();
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[0], ReportKind::OutOfMemory).await.unwrap();
    assert_eq!(all().await, [64, 64], "nothing changes while a task runs");
    stage.finish_drain(gang).await;
    assert_eq!(all().await, [128, 128]);
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[1], ReportKind::OutOfMemory).await.unwrap();
    stage.finish_drain(gang).await;
    assert_eq!(all().await, [200, 200], "as much as two workers have");
    stage.start_gang(gang).await;
}

pub async fn alarms_are_due_in_time(stage: &Stage) {
    let base = stage.now();
    for seconds in [30, 10, 20] {
        let not_before = Some(base + Span::from_secs(seconds));
        stage.submit(JobSpec { not_before, ..JobSpec::shell("x") }).await;
    }
    for seconds in [10, 20, 30] {
        assert_eq!(stage.sweep().await.next_due, Some(base + Span::from_secs(seconds)));
        stage.advance(Span::from_secs(10));
        assert_eq!(stage.sweep().await.alarms, 1);
    }
    assert_eq!(stage.sweep().await.next_due, None);
}

pub async fn another_worker_is_preferred_after_a_failure(stage: &Stage) {
    stage.register("a", memory(1), None).await;
    stage.register("b", memory(9), None).await;
    stage.shell("x").await;
    let job = stage.claim_by("a").await.unwrap();
    let after = exit_with(stage, &job, 1).await.unwrap();
    assert_eq!(after.tried, [WorkerId::new("a")]);
    let ask = |worker: &str| {
        Command::Claim(crate::Ask { worker: Some(WorkerId::new(worker)), max: 1, ..crate::Ask::default() })
    };
    let answers = stage.apply(vec![ask("a"), ask("b")]).await;
    let got = |answer: &crate::Answer| matches!(answer, Ok(Outcome::Claimed(jobs)) if jobs.len() == 1);
    assert_eq!(answers.iter().map(got).collect::<Vec<_>>(), [false, true]);
}
