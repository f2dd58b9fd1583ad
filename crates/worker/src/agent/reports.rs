//! What the scheduler is told about an end.

use muster_protocol::{JobReport, ReportKind};

use crate::keeper::{End, Key, Outcome, StopCause};

/// The report of an end; `None` when the lease is lost and nobody wants to hear of it.
pub(super) fn of_end(key: &Key, end: &End) -> Option<JobReport> {
    let (kind, message) = match (end.cause, &end.outcome) {
        (Some(StopCause::LeaseLost), _) => return None,
        // Whatever it exits with after a stop order, it did not end by itself.
        (Some(StopCause::Order), _) => (ReportKind::Preempted, None),
        // Nor did it after its time was over, even if it cleaned up and exited with 0.
        (Some(StopCause::Timeout), _) => (ReportKind::TimedOut, None),
        (Some(StopCause::Shutdown), _) => {
            (ReportKind::Released, Some("the worker is shutting down".to_owned()))
        }
        (Some(StopCause::Fence), _) => {
            (ReportKind::Released, Some("the worker was cut off from the scheduler".to_owned()))
        }
        (None, Outcome::Withdrawn) => (ReportKind::Released, None),
        (None, Outcome::Exited(0)) => (ReportKind::Done, None),
        (None, Outcome::Exited(_) | Outcome::Signalled(_)) => (ReportKind::Failed, None),
        (None, Outcome::NotStarted(reason)) => (ReportKind::Failed, Some(reason.clone())),
    };
    let mut report = plain(key, kind, message);
    match end.outcome {
        Outcome::Exited(code) => report.exit_code = Some(code),
        Outcome::Signalled(signal) => report.signal = Some(signal),
        Outcome::NotStarted(_) | Outcome::Withdrawn => {}
    }
    Some(report)
}

/// A report on a job that has no end of its own.
pub(super) fn plain(key: &Key, kind: ReportKind, message: Option<String>) -> JobReport {
    JobReport {
        job_id: key.job_id.to_string(),
        lease: key.lease,
        kind,
        exit_code: None,
        signal: None,
        message,
        outputs: None,
    }
}

/// The key that a report is about.
pub(super) fn key_of(job_id: &str, lease: u64) -> Key {
    Key { job_id: job_id.into(), lease }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::Files;

    fn report(outcome: Outcome, cause: Option<StopCause>) -> Option<JobReport> {
        let end =
            End { outcome, cause, stdout_bytes: 0, stderr_bytes: 0, files: Files::default(), run_us: 1 };
        of_end(&key_of("job-1", 3), &end)
    }

    #[test]
    fn ends_become_reports() {
        let done = report(Outcome::Exited(0), None).unwrap();
        assert_eq!((done.kind, done.exit_code, done.lease), (ReportKind::Done, Some(0), 3));
        let failed = report(Outcome::Exited(7), None).unwrap();
        assert_eq!((failed.kind, failed.exit_code), (ReportKind::Failed, Some(7)));
        let killed = report(Outcome::Signalled(9), None).unwrap();
        assert_eq!((killed.kind, killed.signal), (ReportKind::Failed, Some(9)));
        let missing = report(Outcome::NotStarted("no such program".into()), None).unwrap();
        assert_eq!((missing.kind, missing.message.as_deref()), (ReportKind::Failed, Some("no such program")));
    }

    #[test]
    fn a_stop_decides_whatever_the_exit_code() {
        let kind = |outcome, cause| report(outcome, Some(cause)).map(|report| report.kind);
        assert_eq!(kind(Outcome::Exited(0), StopCause::Order), Some(ReportKind::Preempted));
        assert_eq!(kind(Outcome::Withdrawn, StopCause::Order), Some(ReportKind::Preempted));
        assert_eq!(kind(Outcome::Signalled(15), StopCause::Shutdown), Some(ReportKind::Released));
        assert_eq!(kind(Outcome::Signalled(9), StopCause::Fence), Some(ReportKind::Released));
        assert_eq!(kind(Outcome::Exited(0), StopCause::Timeout), Some(ReportKind::TimedOut));
        assert_eq!(kind(Outcome::Signalled(9), StopCause::Timeout), Some(ReportKind::TimedOut));
        assert_eq!(kind(Outcome::Exited(0), StopCause::LeaseLost), None);
        assert_eq!(report(Outcome::Withdrawn, None).unwrap().kind, ReportKind::Released);
    }
}
