//! The state machine as a whole: its page in the documentation is what the code does, and its promises hold for
//! any sequence of triggers.
//!
//! `MUSTER_UPDATE_DOCS=1 cargo test -p muster-domain` writes docs/state-machine.md anew.

#![expect(clippy::unwrap_used, clippy::format_push_string, reason = "tests")]

mod cases;
mod explore;
mod names;
mod page;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use muster_domain::{
    Caller, Change, Ended, EventKind, Exit, Hold, Job, JobId, JobSpec, Lease, Needs, Patience, Phase,
    ReportKind, Rule, Span, Status, Timestamp, Trigger, WorkerId, transition,
};
use proptest::prelude::*;

use explore::{Edge, Edges};
use names::{PHASES, REPORTS, STOPS, TRIGGERS};

static SINGLES: LazyLock<Edges> = LazyLock::new(explore::singles);
static GANGS: LazyLock<Edges> = LazyLock::new(explore::gangs);
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

fn job(phase: Phase, max_attempts: u32) -> Job {
    let spec = JobSpec {
        max_attempts,
        timeout: Some(Span::from_millis(1)),
        deadline: Some(NOW),
        ..JobSpec::shell("x")
    };
    Job::new(JobId::from_random([1; 16]), Arc::new(spec), phase, NOW)
}

fn after(mut job: Job, triggers: &[Trigger]) -> Job {
    for trigger in triggers {
        transition(&mut job, trigger, NOW).unwrap();
    }
    job
}

fn holder() -> Caller {
    Caller { lease: None, worker: Some(WorkerId::new("w")) }
}

fn claim() -> Trigger {
    Trigger::Claim {
        worker: Some(WorkerId::new("w")),
        key: None,
        devices: None,
        prepares: false,
        terms: None,
    }
}

fn hold() -> Trigger {
    Trigger::Hold { hold: Hold::Asked { message: None } }
}

fn cancel() -> Trigger {
    Trigger::Cancel { message: None }
}

fn impatient() -> Patience {
    Patience { timeout: Span::ZERO, listening_since: Timestamp::default() }
}

fn ended(ended: Ended) -> Trigger {
    Trigger::DependencyEnded { rule: Rule::AllSuccess, ended, ancestor: JobId::from_random([9; 16]) }
}

#[test]
fn the_page_in_the_documentation_is_what_the_code_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machine.md");
    let page = page::page(&SINGLES, &GANGS);
    if std::env::var_os("MUSTER_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/state-machine.md is out of date: run `make docs`");
}

fn exercised(edges: &Edges) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let triggers = edges.iter().map(|edge| edge.trigger).filter(|name| TRIGGERS.contains(name)).collect();
    let phases = edges.iter().map(|edge| edge.to.name).collect();
    (triggers, phases)
}

fn without<'a>(all: &[&'a str], missing: &[&str]) -> BTreeSet<&'a str> {
    all.iter().copied().filter(|name| !missing.contains(name)).collect()
}

#[test]
fn every_trigger_and_every_phase_is_on_the_page() {
    let (singles, gangs) = (&*SINGLES, &*GANGS);
    let (triggers, phases) = exercised(singles);
    assert_eq!(triggers, without(TRIGGERS, &[]));
    assert_eq!(phases, without(PHASES, &["reserved", "preempted", "finished"]));
    let (triggers, phases) = exercised(gangs);
    // The tasks of a gang wait for a time, and on hold, in `blocked`.
    assert_eq!(triggers, without(TRIGGERS, &["Due"]));
    assert_eq!(phases, without(PHASES, &["pending", "delayed", "held"]));
    for edges in [singles, gangs] {
        let words: BTreeSet<&str> = edges.iter().map(|edge| edge.words.as_str()).collect();
        let missing: Vec<_> = REPORTS.iter().filter(|name| !words.contains(**name)).collect();
        assert!(missing.is_empty(), "no job accepts {missing:?}");
    }
    let stops: BTreeSet<&str> = singles.iter().chain(gangs).filter_map(stop_of).collect();
    assert_eq!(stops, without(STOPS, &[]));
}

fn stop_of(edge: &Edge) -> Option<&'static str> {
    let note = edge.to.note;
    (edge.to.status == Status::Preempting).then(|| note.split(' ').next().unwrap_or(note))
}

#[test]
fn every_event_of_a_job_is_on_the_page() {
    // Written by others than the transition functions.
    let outside = [
        "queue_changed",
        "room_made",
        "pinned",
        "worker_registered",
        "worker_offline",
        "worker_quarantined",
        "worker_released",
        "terminal_opened",
        "image_pulling",
        "image_pulled",
    ];
    let edges = SINGLES.iter().chain(&*GANGS);
    let events: BTreeSet<&str> = edges.flat_map(|edge| edge.events.iter().copied()).collect();
    let events: BTreeSet<&str> = events.into_iter().filter(|event| *event != explore::REFUND).collect();
    assert_eq!(events, without(&EventKind::NAMES, &outside));
}

/// Of two schedulers one may have a slow clock.
#[test]
fn a_heartbeat_by_a_slow_clock_makes_no_job_look_silent() {
    let mut running = after(job(Phase::Pending, 3), &[claim()]);
    let behind = NOW - Span::from_secs(75);
    transition(&mut running, &Trigger::Heartbeat { caller: holder() }, behind).unwrap();
    assert_eq!(running.last_sign_of_life(), NOW);
    let patience = Patience { timeout: Span::from_secs(30), listening_since: behind };
    let silent = transition(&mut running, &Trigger::Silence { patience }, NOW + Span::from_secs(7));
    assert!(silent.is_err() && running.status() == Status::Running);
}

#[test]
fn a_gang_task_never_leaves_through_the_pending_path() {
    let mut spec = JobSpec::shell("x");
    spec.gang = Some(muster_domain::GangMembership {
        min: None,
        per_worker: 1,
        keep_done: false,
        topology: None,
        id: muster_domain::GangId::from_random([3; 16]),
        size: 2,
        index: 0,
    });
    let mut task = Job::new(
        JobId::from_random([1; 16]),
        Arc::new(spec),
        Phase::Blocked { needs: Needs::all_success(1) },
        NOW,
    );
    assert_eq!(
        transition(&mut task, &ended(Ended::Done), NOW),
        Ok(Change::Happened(muster_domain::EventKind::Unblocked))
    );
    assert_eq!(task.status(), Status::Blocked, "it waits for its gang");
    task.phase = Phase::Pending;
    assert!(transition(&mut task, &claim(), NOW).is_err());
}

fn any_caller() -> impl Strategy<Value = Caller> {
    let lease = prop::option::of((0_u64..8).prop_map(Lease));
    let worker = prop::option::of((0_u8..2).prop_map(|n| WorkerId::new(format!("w{n}"))));
    (lease, worker).prop_map(|(lease, worker)| Caller { lease, worker })
}

fn any_trigger() -> impl Strategy<Value = Trigger> {
    let kind = prop_oneof![
        Just(ReportKind::Done),
        Just(ReportKind::Failed),
        Just(ReportKind::TimedOut),
        Just(ReportKind::OutOfMemory),
        Just(ReportKind::Released),
        Just(ReportKind::Preempted),
        Just(ReportKind::Finished),
        Just(ReportKind::Lost),
        Just(ReportKind::Refused)
    ];
    let exit = Exit { code: Some(1), signal: None };
    let report = (any_caller(), kind).prop_map(move |(caller, kind)| Trigger::Report {
        caller,
        kind,
        exit,
        message: None,
        outputs: None,
        spent: None,
    });
    prop_oneof![
        1 => Just(ended(Ended::Done)),
        1 => any::<bool>().prop_map(|cancelled| {
            ended(if cancelled { Ended::Cancelled } else { Ended::Failed })
        }),
        4 => prop::option::of(Just(WorkerId::new("w0"))).prop_map(|worker| Trigger::Claim { worker, key: None, devices: None, prepares: false, terms: None }),
        4 => report,
        1 => any_caller().prop_map(|caller| Trigger::Heartbeat { caller }),
        1 => (any_caller(), 0_i64..3).prop_map(|(caller, epoch)| Trigger::StopAcknowledged { caller, epoch }),
        1 => (any_caller(), 0_i64..3).prop_map(|(caller, epoch)| Trigger::SaveCheckpoint { caller, epoch: Some(epoch), bytes: 1, file: None }),
        1 => Just(Trigger::Silence { patience: impatient() }),
        1 => Just(Trigger::StopOverdue { patience: impatient() }),
        1 => Just(Trigger::Due),
        1 => Just(hold()),
        1 => Just(Trigger::Release),
        1 => Just(Trigger::Overrun),
        1 => Just(Trigger::Expire),
        1 => Just(cancel()),
    ]
}

proptest! {
    #[test]
    fn promises_hold_for_any_sequence(
        blocked in any::<bool>(),
        max_attempts in 1_u32..4,
        triggers in prop::collection::vec(any_trigger(), 1..60),
    ) {
        let mut job = job(if blocked { Phase::Blocked { needs: Needs::all_success(2) } } else { Phase::Pending }, max_attempts);
        for (step, trigger) in triggers.iter().enumerate() {
            let before = job.clone();
            let now = NOW + Span::from_secs(step as u32 + 1);
            let result = transition(&mut job, trigger, now);
            if matches!(result, Err(_) | Ok(Change::Repeated)) {
                prop_assert_eq!(&job, &before, "refused or repeated, so nothing changed");
            }
            prop_assert!(!before.is_terminal() || job.phase == before.phase, "a terminal job changed");
            prop_assert!(job.lease >= before.lease, "a lease went back");
            prop_assert!(job.attempts <= max_attempts, "too many attempts");
            prop_assert!(job.preemption_epoch >= before.preemption_epoch);
            prop_assert_eq!(job.is_terminal(), job.done_at().is_some());
        }
    }

    #[test]
    fn a_closed_lease_can_never_speak_again(triggers in prop::collection::vec(any_trigger(), 1..60)) {
        let mut job = job(Phase::Pending, 3);
        for trigger in &triggers {
            let _ = transition(&mut job, trigger, NOW);
            let Some(closed) = job.closed else { continue };
            for kind in [ReportKind::Done, ReportKind::Failed, ReportKind::Released, ReportKind::Preempted] {
                let mut copy = job.clone();
                let caller = Caller { lease: Some(closed.lease), worker: None };
                let late = Trigger::Report { caller, kind, exit: Exit::default(), message: None, outputs: None, spent: None };
                let _ = transition(&mut copy, &late, NOW);
                prop_assert_eq!(&copy, &job);
            }
        }
    }
}
