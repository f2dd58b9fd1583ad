//! The words of the page. Each list makes both the names and the `match` over all variants, so that a new
//! variant does not compile before it has a name here, and is missed by the test until it is exercised.

use muster_domain::{EndReason, Hold, Job, Phase, Preparation, ReportKind, Status, StopReason, Trigger};

macro_rules! named {
    ($all:ident, $name_of:ident, $type:ident, { $($variant:ident => $name:literal,)* }) => {
        pub(crate) const $all: &[&str] = &[$($name),*];

        pub(crate) const fn $name_of(value: &$type) -> &'static str {
            match value {
                $($type::$variant { .. } => $name,)*
            }
        }
    };
}

named!(TRIGGERS, trigger_name, Trigger, {
    DependencyEnded => "Dependency ended",
    Due => "Due",
    Hold => "Hold",
    Release => "Release",
    Claim => "Claim",
    Prepared => "Prepared",
    Report => "Report",
    Heartbeat => "Heartbeat",
    StopAcknowledged => "Stop acknowledged",
    SaveCheckpoint => "Save checkpoint",
    Silence => "Silence",
    Overrun => "Overrun",
    Expire => "Expire",
    StopOverdue => "Stop overdue",
    ExitPresumed => "Exit presumed",
    Cancel => "Cancel",
    Preempt => "Preempt",
    Retry => "Retry",
    Revive => "Revive",
});

named!(PHASES, phase_name, Phase, {
    Pending => "pending",
    Delayed => "delayed",
    Held => "held",
    Blocked => "blocked",
    Reserved => "reserved",
    Running => "running",
    Preempting => "preempting",
    Preempted => "preempted",
    Finished => "finished",
    Done => "done",
    Failed => "failed",
    Cancelled => "cancelled",
});

named!(REPORTS, report_name, ReportKind, {
    Done => "`done`",
    Failed => "`failed`",
    TimedOut => "`timed out`",
    OutOfMemory => "`oom`",
    Released => "`released`",
    Preempted => "`preempted`",
    Finished => "`finished`",
    Lost => "`lost`",
    Refused => "`refused`",
});

named!(STOPS, stop_name, StopReason, {
    Cancel => "cancel",
    Timeout => "timeout",
    Deadline => "deadline",
    Preempt => "preempt",
    Gang => "gang",
});

/// A state as the page shows it: its name, and what else decides on what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    pub(crate) status: Status,
    pub(crate) name: &'static str,
    pub(crate) note: &'static str,
}

impl State {
    pub(crate) fn of(job: &Job) -> Self {
        Self { status: job.status(), name: phase_name(&job.phase), note: note(job) }
    }
}

fn note(job: &Job) -> &'static str {
    match &job.phase {
        Phase::Blocked { needs } if job.spec.gang.is_some() => match (needs.unfinished(), &job.hold) {
            (0, None) => "to be placed",
            (0, Some(_)) => "on hold",
            (_, None) => "by a dependency",
            (_, Some(_)) => "by a dependency, on hold",
        },
        Phase::Blocked { .. } if job.hold.is_some() => "on hold",
        Phase::Reserved { claim: None, .. } => "not claimed",
        Phase::Reserved { claim: Some(Preparation { prepared_at: None, .. }), .. } => "claimed",
        Phase::Reserved { .. } => "prepared",
        Phase::Preempting { stop, .. } | Phase::Preempted { stop, finished: false, .. } => stop_note(stop),
        Phase::Preempted { finished: true, .. } => "said it is done",
        Phase::Failed { reason, .. } | Phase::Cancelled { reason, .. } => end_note(reason),
        Phase::Blocked { .. }
        | Phase::Pending
        | Phase::Delayed { .. }
        | Phase::Held { .. }
        | Phase::Running { .. }
        | Phase::Finished { .. }
        | Phase::Done { .. } => "",
    }
}

const fn stop_note(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::Gang(stop) if stop.restart.is_some() => "gang starts again",
        StopReason::Gang(_) => "gang fails",
        StopReason::Cancel { .. }
        | StopReason::Timeout
        | StopReason::Deadline
        | StopReason::Preempt { .. } => stop_name(stop),
    }
}

const fn end_note(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::DependencyFailed { .. }
        | EndReason::DependencyCancelled { .. }
        | EndReason::Skipped { .. } => "by a dependency",
        EndReason::NotNeeded => "not needed",
        EndReason::Attempt { .. }
        | EndReason::WorkerLost { .. }
        | EndReason::Timeout
        | EndReason::OutOfMemory { .. }
        | EndReason::Deadline
        | EndReason::Gang { .. }
        | EndReason::Cancelled { .. } => "",
    }
}

/// All of a job that can decide on what follows; jobs with the same key behave alike.
pub(crate) fn key(job: &Job) -> String {
    let noted = matches!(job.phase, Phase::Preempting { exit_reported_at: Some(_), .. });
    let open = match &job.phase {
        Phase::Blocked { needs } => needs.unfinished(),
        _ => 0,
    };
    let hold = match job.hold {
        None => 0,
        Some(Hold::Asked { .. }) => 1,
        Some(Hold::Poison { .. }) => 2,
    };
    let (state, attempts, lost) = (State::of(job), job.attempts, job.lost_on.len());
    format!("{state:?} {attempts} {lost} {noted} {open} {hold}")
}
