//! The rules of gangs for any sequence of triggers: whatever comes in whatever order, no gang is torn, epochs
//! only grow, and only those who caused a stop pay for it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use muster_domain::lifecycle::{lapse, reserve};
use muster_domain::{
    Caller, Exit, GangId, GangMembership, Job, JobId, JobSpec, Needs, Patience, Phase, Place, ReportKind,
    Span, Status, Timestamp, Trigger, WorkerId, gang_transition, invariants, transition,
};
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_micros(1_000_000_000_000);
const MAX_ATTEMPTS: u32 = 3;

fn gang(size: u32, min: Option<u32>, keep_done: bool) -> Vec<Job> {
    let task = |index: u32| {
        let id = GangId::from_random([9; 16]);
        let membership = GangMembership { id, size, index, min, per_worker: 1, keep_done, topology: None };
        let spec = JobSpec {
            max_attempts: MAX_ATTEMPTS,
            timeout: Some(Span::from_secs(60)),
            gang: Some(membership),
            ..JobSpec::shell("x")
        };
        let mut bytes = [0; 16];
        bytes[15] = index as u8 + 1;
        Job::new(JobId::from_random(bytes), Arc::new(spec), Phase::Blocked { needs: Needs::default() }, START)
    };
    (0..size).map(task).collect()
}

fn patience(seconds: u32) -> Patience {
    Patience { timeout: Span::from_secs(seconds), listening_since: Timestamp::default() }
}

/// Places as many of the tasks that wait as there are workers for.
fn place(tasks: &mut [Job], workers: usize, now: Timestamp) {
    let open = tasks.iter().filter(|task| !task.is_terminal()).take(workers);
    let places: Vec<Place> = open
        .enumerate()
        .map(|(number, task)| Place {
            task: task.id,
            worker: WorkerId::new(format!("w{number}")),
            host: String::new(),
            port: None,
            address: String::new(),
            devices: None,
        })
        .collect();
    if !places.is_empty() {
        let _ = reserve(tasks, &places, now);
    }
}

fn claim(tasks: &mut [Job], at: usize, now: Timestamp) {
    let worker = tasks[at].worker().cloned();
    let _ = transition(
        &mut tasks[at],
        &Trigger::Claim { worker, key: None, devices: None, prepares: false, terms: None },
        now,
    );
}

fn take(tasks: &mut [Job], at: usize, now: Timestamp) {
    let worker = tasks[at].worker().cloned();
    let claim = Trigger::Claim { worker, key: None, devices: None, prepares: true, terms: None };
    let _ = transition(&mut tasks[at], &claim, now);
}

fn trigger(kind: u8, task: &Job) -> Trigger {
    let lease = (!kind.is_multiple_of(3)).then_some(task.lease);
    let caller = Caller { lease, worker: None };
    let report = |kind| Trigger::Report {
        caller: caller.clone(),
        kind,
        exit: Exit { code: Some(1), signal: None },
        message: None,
        outputs: None,
        spent: None,
    };
    match kind % 18 {
        0 => report(ReportKind::Done),
        1 | 2 => report(ReportKind::Failed),
        3 => report(ReportKind::Released),
        4 => report(ReportKind::Preempted),
        5 => report(ReportKind::Finished),
        6 => Trigger::StopAcknowledged { caller, epoch: i64::from(task.preemption_epoch) },
        7 => Trigger::Silence { patience: patience(30) },
        8 => Trigger::StopOverdue { patience: patience(45) },
        9 => Trigger::Overrun,
        10 => Trigger::ExitPresumed,
        14..=16 => Trigger::Prepared { caller },
        11 if kind > 200 => Trigger::Cancel { message: None },
        13 => report(ReportKind::Lost),
        17 => report(ReportKind::Refused),
        _ => Trigger::Preempt { message: None, in_favour_of: None },
    }
}

proptest! {
    #[test]
    fn no_sequence_of_triggers_tears_a_gang(
        size in 2_u32..5,
        spare in any::<bool>(),
        keep_done in any::<bool>(),
        mixed in any::<bool>(),
        script in prop::collection::vec((0_u8..8, any::<u8>(), 0_usize..5, 0_u32..40), 1..80),
    ) {
        let mut tasks = gang(size, spare.then_some(size - 1), keep_done);
        let mut now = START;
        for (what, kind, at, seconds) in script {
            let at = at % tasks.len();
            let before = tasks.clone();
            match what {
                0 | 1 => place(&mut tasks, size as usize - usize::from(kind % 4 == 0), now),
                2 if mixed => claim(&mut tasks, at, now),
                2 | 3 => take(&mut tasks, at, now),
                4 => now = now + Span::from_secs(seconds),
                5 => drop(lapse(&mut tasks, patience(30), now)),
                _ => {
                    let (id, trigger) = (tasks[at].id, trigger(kind, &tasks[at]));
                    if gang_transition(&mut tasks, id, &trigger, now).is_err() {
                        prop_assert_eq!(&tasks, &before, "a refused trigger changed something");
                    }
                }
            }
            prop_assert_eq!(invariants::check(&tasks, &[]), vec![]);
            for (old, new) in before.iter().zip(&tasks) {
                prop_assert!(new.preemption_epoch >= old.preemption_epoch, "an epoch went back");
                prop_assert!(new.lease >= old.lease);
                prop_assert!(!old.is_terminal() || new == old, "a task that had ended changed");
            }
            // In one step at most one task pays: the others keep or get back what they had.
            let paid = before.iter().zip(&tasks).filter(|(old, new)| {
                old.status() == Status::Running && !matches!(new.status(), Status::Running | Status::Finished | Status::Done)
                    && new.attempts == old.attempts && old.attempts > 0
            });
            prop_assert!(paid.count() <= 1, "more than one task paid for a stop");
        }
    }
}

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    let mut tasks = gang(3, None, false);
    place(&mut tasks, 2, START);
    assert!(tasks.iter().all(|task| task.status() == Status::Blocked));
    place(&mut tasks, 3, START);
    assert!(tasks.iter().all(|task| task.status() == Status::Reserved));
    let again = tasks.clone();
    place(&mut tasks, 3, START);
    assert_eq!(tasks, again, "what is placed is not placed again");
}

#[test]
fn with_every_worker_gone_a_gang_comes_to_rest_in_bounded_time() {
    let mut tasks = gang(3, None, false);
    place(&mut tasks, 3, START);
    claim(&mut tasks, 0, START);
    claim(&mut tasks, 1, START);
    // The third never claims: 30 seconds later the others are told to stop, and 45 later taken for gone.
    let lapsed = START + Span::from_secs(31);
    lapse(&mut tasks, patience(30), lapsed).unwrap();
    let forced = lapsed + Span::from_secs(46);
    for at in 0..2 {
        let id = tasks[at].id;
        gang_transition(&mut tasks, id, &Trigger::StopOverdue { patience: patience(45) }, forced).unwrap();
    }
    assert!(tasks.iter().all(|task| task.status() == Status::Blocked && task.attempts == 0));
}

#[test]
fn what_finished_during_a_drain_is_run_again_unless_the_gang_keeps_what_is_done() {
    let after_a_drain = |keep_done: bool| {
        let mut tasks = gang(2, None, keep_done);
        place(&mut tasks, 2, START);
        claim(&mut tasks, 0, START);
        claim(&mut tasks, 1, START);
        let first = tasks[0].id;
        let stop = Trigger::Preempt { message: None, in_favour_of: None };
        gang_transition(&mut tasks, first, &stop, START).unwrap();
        for (at, kind) in [(0, ReportKind::Finished), (1, ReportKind::Preempted)] {
            let (id, lease) = (tasks[at].id, Some(tasks[at].lease));
            let gone = Trigger::Report {
                caller: Caller { lease, worker: None },
                kind,
                exit: Exit { code: Some(0), signal: None },
                message: None,
                outputs: None,
                spent: None,
            };
            gang_transition(&mut tasks, id, &gone, START).unwrap();
        }
        [tasks[0].status(), tasks[1].status()]
    };
    assert_eq!(after_a_drain(true), [Status::Done, Status::Blocked]);
    assert_eq!(after_a_drain(false), [Status::Blocked, Status::Blocked]);
}

#[expect(clippy::unwrap_used, reason = "what goes wrong here has to fail the test")]
fn ends(tasks: &mut [Job], at: usize, kind: ReportKind, now: Timestamp) {
    let (id, lease) = (tasks[at].id, Some(tasks[at].lease));
    let exit = Exit { code: Some(i32::from(kind != ReportKind::Done)), signal: None };
    let caller = Caller { lease, worker: None };
    let report = Trigger::Report { caller, kind, exit, message: None, outputs: None, spent: None };
    gang_transition(tasks, id, &report, now).unwrap();
}

fn started(size: u32, keep_done: bool) -> Vec<Job> {
    let mut tasks = gang(size, None, keep_done);
    place(&mut tasks, size as usize, START);
    (0..size as usize).for_each(|at| claim(&mut tasks, at, START));
    tasks
}

fn statuses(tasks: &[Job]) -> Vec<Status> {
    tasks.iter().map(Job::status).collect()
}

#[test]
fn the_exit_of_a_task_counts_as_done_with_the_last_one() {
    let mut tasks = started(2, false);
    ends(&mut tasks, 0, ReportKind::Done, START);
    assert_eq!(statuses(&tasks), [Status::Finished, Status::Running]);
    assert_eq!(tasks[0].worker(), None, "its room is free");
    let again = tasks.clone();
    ends(&mut tasks, 0, ReportKind::Done, START);
    assert_eq!(tasks, again, "a repeated report is answered as the first was");
    ends(&mut tasks, 1, ReportKind::Done, START);
    assert_eq!(statuses(&tasks), [Status::Done, Status::Done]);
    assert_eq!(tasks[0].ran_on, Some(WorkerId::new("w0")));
}

#[test]
fn a_task_that_is_lost_near_the_end_starts_all_of_them_again() {
    let mut tasks = started(3, false);
    ends(&mut tasks, 0, ReportKind::Done, START);
    let later = START + Span::from_secs(60);
    let (heard, lost) = (tasks[1].id, tasks[2].id);
    let beat = Trigger::Heartbeat { caller: Caller { lease: Some(tasks[1].lease), worker: None } };
    gang_transition(&mut tasks, heard, &beat, later).unwrap();
    gang_transition(&mut tasks, lost, &Trigger::Silence { patience: patience(30) }, later).unwrap();
    assert_eq!(statuses(&tasks), [Status::Finished, Status::Preempting, Status::Preempted]);
    ends(&mut tasks, 1, ReportKind::Preempted, later);
    assert_eq!(statuses(&tasks), [Status::Blocked; 3]);
    assert_eq!(
        tasks.iter().map(|task| task.attempts).collect::<Vec<_>>(),
        [0, 0, 1],
        "only the lost one pays"
    );
}

#[test]
fn a_program_that_fails_for_good_fails_the_gang_with_those_that_had_finished() {
    let mut tasks = started(2, false);
    ends(&mut tasks, 0, ReportKind::Done, START);
    tasks[1].attempts = MAX_ATTEMPTS;
    ends(&mut tasks, 1, ReportKind::Failed, START);
    assert_eq!(statuses(&tasks), [Status::Failed, Status::Failed]);
}

#[test]
fn a_placement_that_lapses_beside_a_finished_task_is_made_again() {
    let mut tasks = gang(2, None, false);
    place(&mut tasks, 2, START);
    claim(&mut tasks, 0, START);
    ends(&mut tasks, 0, ReportKind::Done, START);
    assert_eq!(statuses(&tasks), [Status::Finished, Status::Reserved]);
    lapse(&mut tasks, patience(30), START + Span::from_secs(31)).unwrap();
    assert_eq!(statuses(&tasks), [Status::Blocked, Status::Blocked]);
    assert!(tasks.iter().all(|task| task.attempts == 0));
}

fn prepared(tasks: &mut [Job], at: usize, now: Timestamp) {
    let (id, lease) = (tasks[at].id, Some(tasks[at].lease));
    let said = Trigger::Prepared { caller: Caller { lease, worker: None } };
    gang_transition(tasks, id, &said, now).unwrap();
}

#[test]
fn a_round_starts_as_one_when_the_last_task_is_prepared() {
    let mut tasks = gang(3, None, false);
    place(&mut tasks, 3, START);
    (0..3).for_each(|at| take(&mut tasks, at, START));
    let later = START + Span::from_secs(20);
    prepared(&mut tasks, 0, later);
    prepared(&mut tasks, 2, later);
    prepared(&mut tasks, 2, later);
    assert_eq!(statuses(&tasks), [Status::Reserved; 3]);
    prepared(&mut tasks, 1, later);
    assert_eq!(statuses(&tasks), [Status::Running; 3]);
    assert!(tasks.iter().all(|task| task.started_at == Some(later) && task.attempts == 1));
    let waited = Span::from_secs(20);
    assert!(
        tasks.iter().all(|task| (task.waited, task.served) == (waited, Span::ZERO)),
        "it waited until then"
    );
}

/// A worker that fell silent after it had prepared its task is not started with; nor does everything wait for ever where
/// everything is slow.
#[test]
fn a_round_starts_with_those_who_were_heard_of_just_now() {
    let second = |number: u32| START + Span::from_secs(number);
    for pause in [1, 4, 20] {
        let mut tasks = gang(2, None, false);
        place(&mut tasks, 2, START);
        (0..2).for_each(|at| take(&mut tasks, at, START));
        prepared(&mut tasks, 0, START);
        for at in 5..60 {
            prepared(&mut tasks, 1, second(at));
            assert_eq!(statuses(&tasks), [Status::Reserved; 2], "nothing is heard of the other one");
        }
        // Both are there again, and each is heard of every so many seconds, in turn.
        let turns = (1..20_u32).map(|turn| ((turn % 2) as usize, second(60 + turn * pause)));
        let mut turns = turns.skip_while(|(at, now)| {
            prepared(&mut tasks, *at, *now);
            tasks[0].status() != Status::Running
        });
        assert!(turns.next().is_some(), "it never starts with a pause of {pause} s");
    }
}

#[test]
fn a_task_that_takes_too_long_to_prepare_gives_the_round_up() {
    let mut tasks = gang(2, None, false);
    place(&mut tasks, 2, START);
    (0..2).for_each(|at| take(&mut tasks, at, START));
    let alarm = tasks[0].alarm().unwrap();
    assert_eq!(tasks[0].alarm(), tasks[1].alarm());
    prepared(&mut tasks, 1, START);
    assert_eq!(tasks[1].alarm(), None, "it is ready");
    let id = tasks[0].id;
    assert!(gang_transition(&mut tasks, id, &Trigger::Overrun, START).is_err());
    gang_transition(&mut tasks, id, &Trigger::Overrun, alarm).unwrap();
    assert_eq!(statuses(&tasks), [Status::Preempting; 2]);
    assert!(tasks.iter().all(|task| task.attempts == 0));
}

/// Whoever is lost while its gang is drained, and is not to run again after a loss, takes the gang with it.
#[test]
fn a_task_that_is_lost_for_good_during_a_drain_fails_its_gang() {
    for lost in [true, false] {
        let mut tasks = gang(2, None, false);
        for task in &mut tasks {
            Arc::make_mut(&mut task.spec).retry.on.lost = lost;
        }
        place(&mut tasks, 2, START);
        claim(&mut tasks, 0, START);
        claim(&mut tasks, 1, START);
        let (first, second) = (tasks[0].id, tasks[1].id);
        let preempt = Trigger::Preempt { message: None, in_favour_of: None };
        gang_transition(&mut tasks, first, &preempt, START).unwrap();
        let caller = Caller { lease: Some(tasks[0].lease), worker: None };
        let exit = Exit { code: Some(0), signal: None };
        let kind = ReportKind::Preempted;
        let report = Trigger::Report { caller, kind, exit, message: None, outputs: None, spent: None };
        gang_transition(&mut tasks, first, &report, START).unwrap();
        let later = START + Span::from_secs(46);
        gang_transition(&mut tasks, second, &Trigger::StopOverdue { patience: patience(45) }, later).unwrap();
        let expected = if lost { Status::Blocked } else { Status::Failed };
        assert_eq!(tasks.iter().map(Job::status).collect::<Vec<_>>(), [expected; 2]);
    }
}
