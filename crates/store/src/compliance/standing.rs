//! Standing: what a job has had and how long it has waited decide its place in the line, as the policy says.

use muster_domain::{Hold, Job, JobSpec, Reason, ReportKind, Span, Status};

use super::Stage;
use super::band::membership;
use crate::command::Command;

const fn hours(hours: u32) -> Span {
    Span::from_secs(hours * 3600)
}

/// Stops a running job politely, so that it waits again.
async fn stop(stage: &Stage, job: &Job) -> Job {
    stage.control(Command::Preempt { job: job.id, message: None }).await.unwrap();
    stage.report(job, ReportKind::Preempted).await.unwrap()
}

async fn ahead(stage: &Stage, job: &Job) -> u64 {
    let reasons = stage.reasons(job.id).await;
    let ahead = |reason: &Reason| if let Reason::Ahead { jobs, .. } = reason { Some(*jobs) } else { None };
    reasons.iter().find_map(ahead).unwrap_or(0)
}

pub async fn who_has_had_much_goes_behind_who_has_not(stage: &Stage) {
    let first = stage.shell("long").await;
    let running = stage.claim().await.unwrap();
    stage.advance(hours(5));
    let stopped = stop(stage, &running).await;
    assert_eq!((stopped.status(), stopped.served), (Status::Pending, hours(5)));
    let fresh = stage.shell("fresh").await;
    let urgent = stage.submit(JobSpec { priority: 1, ..JobSpec::shell("urgent") }).await;
    assert_eq!(
        [ahead(stage, &urgent).await, ahead(stage, &fresh).await, ahead(stage, &first).await],
        [0, 1, 2]
    );
    for expected in [urgent.id, fresh.id, first.id] {
        assert_eq!(stage.claim().await.unwrap().id, expected);
    }
}

pub async fn a_short_stop_costs_no_place(stage: &Stage) {
    let first = stage.shell("short").await;
    let running = stage.claim().await.unwrap();
    stage.advance(hours(3));
    let fresh = stage.shell("fresh").await;
    stop(stage, &running).await;
    assert_eq!(
        stage.claim().await.unwrap().id,
        first.id,
        "it came first and has had less than its first service"
    );
    assert_eq!(stage.claim().await.unwrap().id, fresh.id);
}

pub async fn time_is_counted_once_as_run_or_as_waited(stage: &Stage) {
    let id = stage.submit(JobSpec { max_attempts: 9, ..JobSpec::shell("x") }).await.id;
    let standing = async || {
        let job = stage.get(id).await;
        (job.served, job.waited)
    };
    stage.advance(hours(1));
    let hold = Hold::Asked { message: None };
    stage.control(Command::Hold { job: id, message: None }).await.unwrap();
    assert_eq!(stage.get(id).await.hold, Some(hold));
    stage.advance(hours(10));
    stage.control(Command::Release { job: id }).await.unwrap();
    assert_eq!(standing().await, (Span::ZERO, hours(1)), "held is not waiting");
    stage.advance(hours(2));
    let running = stage.claim().await.unwrap();
    stage.advance(hours(1));
    stage.report(&running, ReportKind::Failed).await.unwrap();
    assert_eq!(standing().await, (hours(1), hours(3)));
    let running = stage.claim().await.unwrap();
    stage.advance(hours(4));
    stage.control(Command::Preempt { job: id, message: None }).await.unwrap();
    stage.advance(hours(1));
    stage.report(&running, ReportKind::Preempted).await.unwrap();
    assert_eq!(standing().await, (hours(6), hours(3)), "it held its place while it stopped");
    let running = stage.claim().await.unwrap();
    stage.advance(hours(1));
    stage.report(&running, ReportKind::Done).await.unwrap();
    assert_eq!(standing().await, (hours(7), hours(3)));
}

pub async fn a_gang_that_has_had_much_goes_behind_another(stage: &Stage) {
    stage.crew(4).await;
    let first = stage.gang(4).await;
    stage.start_gang(first).await;
    // Four tasks take four times as much as one: an hour is their first service.
    stage.advance(hours(2));
    let tasks = stage.tasks(first).await;
    stage.control(Command::Preempt { job: tasks[0].id, message: None }).await.unwrap();
    stage.finish_drain(first).await;
    let second = stage.submit_gang(JobSpec::shell("fresh"), membership(4)).await;
    assert!(stage.tasks(first).await.iter().all(|task| task.served == hours(2)));
    stage.crew_alive(4).await;
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(stage.statuses(second).await, [Status::Reserved; 4]);
    assert_eq!(stage.statuses(first).await, [Status::Blocked; 4]);
}

pub async fn an_edit_of_the_priority_moves_a_job(stage: &Stage) {
    let (first, second) = (stage.shell("a").await, stage.shell("b").await);
    let edit = muster_domain::Edit { priority: Some(3), ..muster_domain::Edit::default() };
    stage.control(Command::Edit { job: second.id, edit }).await.unwrap();
    assert_eq!((ahead(stage, &first).await, ahead(stage, &second).await), (1, 0));
    assert_eq!(stage.claim().await.unwrap().id, second.id);
}

/// Workers with so many slots each, alive now.
async fn slots(stage: &Stage, workers: usize, slots: u32) {
    for number in 0..workers {
        stage.register(&format!("w{number}"), muster_domain::Resources::default(), Some(slots)).await;
    }
}

pub async fn who_has_waited_for_very_long_is_pinned_and_goes_first(stage: &Stage) {
    let old = stage.shell("old").await;
    let running = stage.claim().await.unwrap();
    stage.advance(hours(5));
    stop(stage, &running).await;
    stage.advance(hours(23));
    slots(stage, 1, 4).await;
    let fresh = stage.shell("fresh").await;
    stage.look().await;
    assert!(!stage.get(old.id).await.pinned, "a day is the bound");
    assert_eq!(stage.why_codes(old.id).await, ["nobody_asks", "ahead", "level"]);
    stage.advance(hours(1));
    stage.crew_alive(1).await;
    stage.look().await;
    assert!(stage.get(old.id).await.pinned && !stage.get(fresh.id).await.pinned);
    assert_eq!(stage.why_codes(old.id).await, ["nobody_asks", "pinned"]);
    assert_eq!(stage.event_names(old.id).await.last(), Some(&"pinned"));
    let urgent = stage.submit(JobSpec { priority: 1, ..JobSpec::shell("urgent") }).await;
    for expected in [urgent.id, old.id, fresh.id] {
        assert_eq!(stage.claim_by("w0").await.unwrap().id, expected);
    }
    // It stays pinned until it has run for as long as it waited: 24 hours, of which it had run for 5 before.
    stage.advance(hours(18));
    stage.crew_alive(1).await;
    stage.look().await;
    assert!(stage.get(old.id).await.pinned);
    stage.advance(hours(2));
    stage.crew_alive(1).await;
    stage.look().await;
    assert!(!stage.get(old.id).await.pinned);
}

pub async fn no_more_than_a_tenth_of_the_pool_is_pinned(stage: &Stage) {
    slots(stage, 1, 20).await;
    // Three lines: only the first of each can be pinned at a time.
    let mut old = Vec::new();
    for priority in [0, 1, 2] {
        old.push(stage.submit(JobSpec { priority, ..JobSpec::shell("old") }).await.id);
        stage.submit(JobSpec { priority, ..JobSpec::shell("behind") }).await;
    }
    stage.advance(hours(25));
    stage.crew_alive(1).await;
    stage.look().await;
    let mut pinned = Vec::new();
    for id in old {
        pinned.push(stage.get(id).await.pinned);
    }
    assert_eq!(pinned, [false, true, true], "two of twenty, the most important first");
    stage.look().await;
    assert_eq!(stage.all().await.iter().filter(|job| job.pinned).count(), 2);
    // One that is gone makes room for the next.
    let first = stage.claim_by("w0").await.unwrap();
    assert!(first.pinned);
    stage.report(&first, ReportKind::Done).await.unwrap();
    stage.look().await;
    assert_eq!(stage.all().await.iter().filter(|job| job.pinned).count(), 2);
}

pub async fn a_gang_of_any_size_may_be_the_one_that_is_pinned(stage: &Stage) {
    stage.crew(4).await;
    let gang = stage.gang(4).await;
    let impossible = stage.gang(5).await;
    let younger = stage.gang(2).await;
    stage.advance(hours(25));
    stage.crew_alive(4).await;
    stage.look().await;
    let pinned = async |gang| stage.tasks(gang).await.iter().all(|task| task.pinned);
    assert!(pinned(gang).await, "all of its tasks");
    assert!(!pinned(impossible).await && !pinned(younger).await);
    assert_eq!(stage.plan().await.placed, 1);
    let tasks = stage.claim_gang(gang).await;
    assert!(tasks.iter().all(|task| task.pinned && task.status() == Status::Running));
}

pub async fn what_is_cancelled_is_no_longer_pinned(stage: &Stage) {
    slots(stage, 1, 1).await;
    let old = stage.shell("old").await;
    stage.advance(hours(25));
    stage.crew_alive(1).await;
    stage.look().await;
    assert!(stage.get(old.id).await.pinned);
    stage.cancel(old.id).await.unwrap();
    assert!(!stage.get(old.id).await.pinned);
}

pub async fn ranks_that_another_policy_wrote_are_written_anew(stage: &Stage) {
    let ranked = async |after| match stage.one(Command::Rank { after, limit: 2 }).await.unwrap() {
        crate::command::Outcome::Ranked { next } => next,
        other => panic!("{other:?}"),
    };
    let mut jobs = Vec::new();
    for priority in [0, 3, 1] {
        jobs.push(stage.submit(JobSpec { priority, ..JobSpec::shell("x") }).await);
    }
    let done = stage.run_to_done_or_claim().await;
    assert_eq!(done.id, jobs[1].id);
    let next = ranked(0).await;
    assert_eq!(next, Some(jobs[2].seq), "two at a time, and what has ended is passed over");
    assert_eq!(ranked(jobs[2].seq).await, None);
    assert_eq!(ranked(0).await, None, "once is enough");
    for expected in [jobs[2].id, jobs[0].id] {
        assert_eq!(stage.claim().await.unwrap().id, expected);
    }
}
