//! What can happen to a job: every trigger, in the words of the page, as the holder of the job would send it.

use muster_domain::{
    Caller, Ended, Exit, Hold, Job, JobId, Needs, Patience, Phase, ReportKind, Rule, Span, Timestamp,
    Trigger, WorkerId,
};

use crate::names::report_name;

/// A trigger and what it means.
pub(crate) struct Case {
    pub(crate) words: String,
    pub(crate) trigger: Trigger,
}

fn case(words: &str, trigger: Trigger) -> Case {
    Case { words: words.to_owned(), trigger }
}

/// Silence is over at once.
pub(crate) fn impatient() -> Patience {
    Patience { timeout: Span::ZERO, listening_since: Timestamp::default() }
}

fn report(caller: Caller, kind: ReportKind, code: i32) -> Trigger {
    let exit = Exit { code: Some(code), signal: None };
    Trigger::Report { caller, kind, exit, message: None, outputs: None, spent: None }
}

fn dependency(ended: Ended) -> Trigger {
    Trigger::DependencyEnded { rule: Rule::AllSuccess, ended, ancestor: JobId::from_random([9; 16]) }
}

/// The worker that the job is placed on, or one that it has not met.
fn worker(job: &Job) -> WorkerId {
    job.worker().cloned().unwrap_or_else(|| WorkerId::new(format!("w{}", job.lease.0)))
}

/// Every trigger, for this job.
pub(crate) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = waiting();
    // A dependency can end only while it is waited for.
    if matches!(&job.phase, Phase::Blocked { needs } if needs.unfinished() == 0) {
        cases.retain(|case| !matches!(case.trigger, Trigger::DependencyEnded { .. }));
    }
    let worker = Some(worker(job));
    let claim =
        |prepares| Trigger::Claim { worker: worker.clone(), key: None, devices: None, prepares, terms: None };
    cases.push(case("a worker takes it and starts it", claim(false)));
    if job.spec.gang.is_some() {
        cases.push(case("a worker takes it and prepares it", claim(true)));
    }
    cases.extend(reports(job));
    cases.extend(stops());
    cases
}

fn waiting() -> Vec<Case> {
    vec![
        case("a dependency is done", dependency(Ended::Done)),
        case("a dependency failed", dependency(Ended::Failed)),
        case("a dependency was cancelled", dependency(Ended::Cancelled)),
        case("a dependency was skipped", dependency(Ended::Skipped)),
        case("its delay is over", Trigger::Due),
        case("somebody asks for it", Trigger::Hold { hold: Hold::Asked { message: None } }),
        case("somebody asks for it", Trigger::Release),
        case("its dependencies are done", Trigger::Retry { needs: Needs::default() }),
        case("a dependency is not done", Trigger::Retry { needs: Needs::all_success(1) }),
        case("its dependencies run again and are done", Trigger::Revive { needs: Needs::default() }),
        case("a dependency runs again", Trigger::Revive { needs: Needs::all_success(1) }),
    ]
}

/// What a worker says. It names its lease, but for the one report without proof.
fn reports(job: &Job) -> Vec<Case> {
    let holder = || Caller { lease: Some(job.lease), worker: None };
    let epoch = i64::from(job.preemption_epoch);
    let save = |epoch| Trigger::SaveCheckpoint { caller: holder(), epoch, bytes: 1, file: None };
    let mut cases = Vec::new();
    for kind in [
        ReportKind::Done,
        ReportKind::Failed,
        ReportKind::TimedOut,
        ReportKind::OutOfMemory,
        ReportKind::Released,
        ReportKind::Preempted,
        ReportKind::Finished,
        ReportKind::Lost,
        ReportKind::Refused,
    ] {
        cases.push(case(report_name(&kind), report(holder(), kind, 1)));
    }
    let asks = report(holder(), ReportKind::Failed, 75);
    cases.push(case("`failed`, the exit code asks for another run", asks));
    let unproven = report(Caller::default(), ReportKind::Failed, 1);
    cases.push(case("`failed` without lease or worker", unproven));
    cases.push(case("the worker has everything ready for the start", Trigger::Prepared { caller: holder() }));
    cases.push(case("a sign of life", Trigger::Heartbeat { caller: holder() }));
    let acknowledged = Trigger::StopAcknowledged { caller: holder(), epoch };
    cases.push(case("the worker says that the process is gone", acknowledged));
    cases.push(case("the job saves one at any time", save(None)));
    cases.push(case("the job saves one during its stop", save(Some(epoch))));
    cases
}

fn stops() -> Vec<Case> {
    vec![
        case("its worker gave no sign of life for too long", Trigger::Silence { patience: impatient() }),
        case("the attempt, or its preparation, takes too long", Trigger::Overrun),
        case("its deadline passes", Trigger::Expire),
        case("the stop takes too long", Trigger::StopOverdue { patience: impatient() }),
        case("an exit was reported without proof, and no heartbeat contradicted it", Trigger::ExitPresumed),
        case("somebody asks for it", Trigger::Cancel { message: None }),
        case("it is to make room", Trigger::Preempt { message: None, in_favour_of: None }),
    ]
}
