//! What the scheduler is told about an end.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

use muster_protocol::{JobReport, ReportKind};
use serde_json::Value;

use super::start::REPORTS_PER_CALL;
use crate::job_user::JobUser;
use crate::keeper::{End, FinishedBy, Key, OutOfMemory, Outcome, StopCause};
use crate::results;

/// The most bytes of results in one request, so that any scheduler takes it.
const RESULT_BYTES_PER_CALL: usize = 1024 * 1024;

/// The report of an end; `None` when the lease is lost and nobody wants to hear of it.
pub(super) fn of_end(key: &Key, end: &End) -> Option<JobReport> {
    let (kind, message) = match (end.cause, &end.outcome) {
        (Some(StopCause::LeaseLost), _) => return None,
        // Whoever was told to stop and says that all is done has the last word.
        (Some(_), _) if end.finished.is_some() => (ReportKind::Finished, None),
        // Whatever else it exits with after a stop order, it did not end by itself.
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
        (None, outcome @ (Outcome::Exited(_) | Outcome::Signalled(_))) if end.out_of_memory.is_some() => {
            (ReportKind::Oom, end.out_of_memory.map(|memory| out_of_memory(memory, outcome)))
        }
        (None, Outcome::Exited(_) | Outcome::Signalled(_)) => (ReportKind::Failed, None),
        (None, Outcome::Lost(why)) => (ReportKind::Lost, Some(why.to_string())),
        (None, Outcome::Vanished(why)) => (ReportKind::Released, Some(why.to_string())),
        (None, Outcome::NotStarted(reason)) => (ReportKind::Failed, Some(reason.clone())),
    };
    let mut report = plain(key, kind, message.or_else(|| end.complaint.clone()));
    report.rule = end.cause.map(|cause| rule(cause, end));
    report.usage = end.usage;
    match end.outcome {
        Outcome::Exited(code) => report.exit_code = Some(code),
        Outcome::Signalled(signal) => report.signal = Some(signal),
        Outcome::NotStarted(_) | Outcome::Withdrawn | Outcome::Vanished(_) | Outcome::Lost(_) => {}
    }
    Some(report)
}

/// What was used and what was allowed, in words.
fn out_of_memory(memory: OutOfMemory, outcome: &Outcome) -> String {
    let used = mebibytes(memory.peak_bytes);
    let mut words = match memory.limit_bytes {
        Some(limit) => format!("out of memory: used {used} of its limit of {}", mebibytes(limit)),
        None => format!("out of memory: used {used}, and the machine had no more"),
    };
    if let Outcome::Exited(code) = outcome {
        let _ = write!(words, "; one of its processes was killed, then it ended with exit code {code}");
    }
    words
}

/// Rounded to what people say.
fn mebibytes(bytes: u64) -> String {
    let mebi = bytes as f64 / f64::from(1 << 20);
    if mebi < 10.0 { format!("{mebi:.1} MiB") } else { format!("{mebi:.0} MiB") }
}

/// By what rule the end of a job that was told to stop was judged, in words.
fn rule(cause: StopCause, end: &End) -> String {
    let exit = match &end.outcome {
        Outcome::Exited(code) => format!("exit {code}"),
        Outcome::Signalled(signal) => format!("ended by signal {signal}"),
        Outcome::NotStarted(_) => "could not be started".to_owned(),
        Outcome::Withdrawn => "not started yet".to_owned(),
        Outcome::Vanished(why) | Outcome::Lost(why) => why.to_string(),
    };
    let judged = match (end.finished, cause) {
        (Some(FinishedBy::Marker), _) => format!("declared done ({exit})"),
        (Some(FinishedBy::ExitCode), _) => "exit 0 after a notice: counts as success".to_owned(),
        (None, StopCause::Timeout) => format!("{exit} after the timeout"),
        (None, _) if end.comes_back => format!("{exit} after a notice: comes back"),
        (None, _) => format!("{exit} after an order to stop"),
    };
    match &end.complaint {
        Some(complaint) => format!("{judged}; {complaint}"),
        None => judged,
    }
}

/// The report of an end with what the job left for its dependants. The file stays until the report is answered:
/// an agent that comes after this one must find it again.
pub(super) fn with_result(key: &Key, end: &End, user: Option<&JobUser>) -> Option<JobReport> {
    let mut report = of_end(key, end)?;
    let wanted = match report.kind {
        ReportKind::Done | ReportKind::Finished | ReportKind::Failed => !end.files.result.is_empty(),
        ReportKind::TimedOut
        | ReportKind::Oom
        | ReportKind::Released
        | ReportKind::Preempted
        | ReportKind::Lost
        | ReportKind::Refused => false,
    };
    if wanted {
        match results::read(Path::new(&end.files.result), user) {
            Ok(values) => report.outputs = values.map(Value::Object),
            Err(mistake) => report.message = Some(mistake),
        }
    }
    Some(report)
}

/// How many reports go into the next request.
pub(super) fn batch_length(ready: &VecDeque<JobReport>) -> usize {
    let mut left = RESULT_BYTES_PER_CALL;
    let fits = |report: &&JobReport| {
        let length = report.outputs.as_ref().map_or(0, |values| values.to_string().len());
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    };
    // One always goes, or nothing ever would.
    let count = ready.iter().take(REPORTS_PER_CALL).take_while(fits).count();
    count.max(1).min(ready.len())
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
        rule: None,
        outputs: None,
        usage: None,
    }
}

/// The key that a report is about.
pub(super) fn key_of(job_id: &str, lease: u64) -> Key {
    Key { job_id: job_id.into(), lease }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome, cause: Option<StopCause>) -> Option<JobReport> {
        of_end(&key_of("job-1", 3), &end(outcome, cause))
    }

    fn end(outcome: Outcome, cause: Option<StopCause>) -> End {
        End { cause, ..End::of(outcome) }
    }

    #[test]
    fn results_go_with_ends_that_the_job_came_to_by_itself() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("result");
        std::fs::write(&path, "rows=5\n").unwrap();
        let report = |outcome, cause| {
            let mut end = end(outcome, cause);
            end.files.result = path.to_string_lossy().into_owned();
            with_result(&key_of("job-1", 3), &end, None).unwrap()
        };
        let values = Some(serde_json::json!({"rows": "5"}));
        assert_eq!(report(Outcome::Exited(0), None).outputs, values);
        assert_eq!(report(Outcome::Exited(1), None).outputs, values);
        assert_eq!(report(Outcome::Exited(0), Some(StopCause::Timeout)).outputs, None);
        assert_eq!(report(Outcome::Exited(0), Some(StopCause::Order)).outputs, None);
        assert!(path.exists(), "the next agent may need it");
    }

    #[test]
    fn a_mistake_in_the_result_does_not_change_the_end() {
        let mut end = end(Outcome::Exited(0), None);
        end.complaint = Some("line 3 is wrong".to_owned());
        let report = with_result(&key_of("job-1", 3), &end, None).unwrap();
        assert_eq!((report.kind, report.message.as_deref()), (ReportKind::Done, Some("line 3 is wrong")));
        assert_eq!(report.outputs, None);
    }

    #[test]
    fn a_request_carries_a_bounded_amount_of_results() {
        let large = Value::String("x".repeat(400_000));
        let report = |outputs: Option<&Value>| {
            let mut report = plain(&key_of("job-1", 3), ReportKind::Done, None);
            report.outputs = outputs.cloned();
            report
        };
        let plain: VecDeque<_> = (0..600).map(|_| report(None)).collect();
        assert_eq!(batch_length(&plain), REPORTS_PER_CALL);
        let mixed: VecDeque<_> =
            [None, Some(&large), Some(&large), None, Some(&large), None].map(report).into();
        assert_eq!(batch_length(&mixed), 4);
        let huge = Value::String("x".repeat(2_000_000));
        assert_eq!(batch_length(&VecDeque::from([report(Some(&huge))])), 1);
        assert_eq!(batch_length(&VecDeque::new()), 0);
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
    fn want_of_memory_is_a_kind_of_its_own_with_both_numbers() {
        let report = |outcome, limit_bytes, cause| {
            let out_of_memory = Some(OutOfMemory { limit_bytes, peak_bytes: 64 << 20 });
            let report = of_end(&key_of("job-1", 3), &End { out_of_memory, ..end(outcome, cause) }).unwrap();
            (report.kind, report.message.unwrap_or_default())
        };
        let (kind, message) = report(Outcome::Signalled(9), Some(64 << 20), None);
        assert_eq!(
            (kind, message.as_str()),
            (ReportKind::Oom, "out of memory: used 64 MiB of its limit of 64 MiB")
        );
        let (kind, message) = report(Outcome::Exited(137), None, None);
        assert_eq!(kind, ReportKind::Oom);
        assert!(message.contains("had no more; one of its processes was killed"), "{message}");
        assert_eq!(report(Outcome::Signalled(9), None, Some(StopCause::Timeout)).0, ReportKind::TimedOut);
        assert_eq!((mebibytes(1_500_000), mebibytes(0)), ("1.4 MiB".to_owned(), "0.0 MiB".to_owned()));
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

    #[test]
    fn who_says_that_all_is_done_has_finished() {
        for cause in [StopCause::Order, StopCause::Timeout, StopCause::Shutdown, StopCause::Fence] {
            let finished = Some(FinishedBy::Marker);
            let end = End { finished, ..end(Outcome::Exited(3), Some(cause)) };
            let report = of_end(&key_of("job-1", 3), &end).unwrap();
            assert_eq!((report.kind, report.exit_code), (ReportKind::Finished, Some(3)));
            assert_eq!(report.rule.as_deref(), Some("declared done (exit 3)"));
        }
    }

    #[test]
    fn the_rule_is_told_in_words() {
        let rule = |outcome, cause, comes_back| {
            let end = End { comes_back, ..end(outcome, cause) };
            of_end(&key_of("job-1", 3), &end).unwrap().rule
        };
        assert_eq!(rule(Outcome::Exited(0), None, false), None, "nobody told it to stop");
        let order = Some(StopCause::Order);
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(rule(Outcome::Exited(0), order, true), said("exit 0 after a notice: comes back"));
        assert_eq!(
            rule(Outcome::Signalled(9), order, false),
            said("ended by signal 9 after an order to stop")
        );
        let timeout = Some(StopCause::Timeout);
        assert_eq!(rule(Outcome::Exited(1), timeout, false), said("exit 1 after the timeout"));
        let mut end = End { finished: Some(FinishedBy::ExitCode), ..end(Outcome::Exited(0), order) };
        let rule = of_end(&key_of("job-1", 3), &end).unwrap().rule;
        assert_eq!(rule, said("exit 0 after a notice: counts as success"));
        end.complaint = said("its checkpoint was not saved: 5 bytes: no room");
        let rule = of_end(&key_of("job-1", 3), &end).unwrap().rule.unwrap();
        assert!(rule.ends_with("; its checkpoint was not saved: 5 bytes: no room"), "{rule}");
    }
}
