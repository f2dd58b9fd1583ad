//! Exit codes: the one table from how a job ended to what the shell sees.

use muster_protocol::{Job, JobStatus};

pub(crate) const OK: u8 = 0;
/// The command itself failed.
pub(crate) const FAILURE: u8 = 1;
/// Wrong arguments or configuration.
pub(crate) const USAGE: u8 = 2;
/// All went well, but something of the output that was to be shown is gone.
pub(crate) const INCOMPLETE: u8 = 123;
/// Time ran out: that of `wait --timeout`, or that of the job; what timeout(1) exits with.
pub(crate) const TIMED_OUT: u8 = 124;
/// The job failed without an exit code: it could not be started, its worker was lost, a dependency failed.
pub(crate) const NO_EXIT_CODE: u8 = 125;
/// The job was cancelled, by Ctrl-C or otherwise; what a shell shows for SIGINT.
pub(crate) const CANCELLED: u8 = 130;
/// Left because of SIGTERM; what a shell shows for it.
pub(crate) const TERMINATED: u8 = 143;
/// Left because the terminal went away; what a shell shows for SIGHUP.
pub(crate) const HUNG_UP: u8 = 129;
/// The connection to a program elsewhere was lost, so that nobody knows its end; what ssh exits with.
pub(crate) const LOST: u8 = 255;
/// The reader of the output left; what a shell shows for SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// Added to the number of a signal, as shells do.
const SIGNAL_BASE: i32 = 128;

/// The documented codes, for the reference page.
pub(crate) const DOCUMENTED: [(&str, &str); 13] = [
    ("0", "Success. `run` and `wait`: every job is done."),
    ("1", "Failure: the scheduler refused, was not reached, or something else went wrong."),
    ("2", "Wrong arguments or configuration."),
    (
        "N",
        "`run` and `wait`: the exit code of the job (of the first that failed; of a gang, of the task that failed first).",
    ),
    ("128+S", "`run` and `wait`: the job was ended by signal S."),
    (
        "123",
        "`run` and `logs -f`: a part of the output is missing; standard error says which. `run`: the job itself is done.",
    ),
    (
        "124",
        "`run` and `wait`: the job ran longer than its timeout, or its deadline passed. `wait --timeout`: the time ran out before the jobs ended.",
    ),
    (
        "125",
        "`run` and `wait`: the job failed without an exit code, because it could not be started, its worker was lost or a job that it depends on failed.",
    ),
    (
        "130",
        "`run` and `wait`: the job was cancelled, by Ctrl-C or by anybody else. `wait`, `logs -f`: left by Ctrl-C, and the job goes on.",
    ),
    ("129", "`exec`, `attach` and `run --pty`: left because the terminal went away."),
    ("141", "`run`: nobody reads the output any more, so that the job was cancelled."),
    ("143", "`run`: left because of a second SIGTERM. `wait`, `logs -f`, `watch`: left because of SIGTERM."),
    (
        "255",
        "`exec`, `attach` and `run --pty`: the connection was lost, so that the end of the program is not known.",
    ),
];

/// Whether the job will never run again.
pub(crate) fn is_final(status: JobStatus) -> bool {
    match status {
        JobStatus::Done | JobStatus::Failed | JobStatus::Cancelled => true,
        JobStatus::Pending
        | JobStatus::Blocked
        | JobStatus::Reserved
        | JobStatus::Running
        | JobStatus::Preempting
        | JobStatus::Preempted
        | JobStatus::Finished => false,
    }
}

/// What `run` and `wait` exit with for a job that ended.
pub(crate) fn of_job(job: &Job) -> u8 {
    match job.status {
        JobStatus::Done => OK,
        JobStatus::Cancelled => CANCELLED,
        // Whatever the process exited with when it was stopped says less.
        JobStatus::Failed if ran_out_of_time(job) => TIMED_OUT,
        JobStatus::Failed => of_failure(job.exit_code, job.signal),
        JobStatus::Pending
        | JobStatus::Blocked
        | JobStatus::Reserved
        | JobStatus::Running
        | JobStatus::Preempting
        | JobStatus::Preempted
        | JobStatus::Finished => FAILURE,
    }
}

/// What those who show output exit with. A failure says more than output that is missing.
pub(crate) fn of_shown(code: u8, incomplete: bool) -> u8 {
    if code == OK && incomplete { INCOMPLETE } else { code }
}

/// Whether the job failed because of its timeout or its deadline.
pub(crate) fn ran_out_of_time(job: &Job) -> bool {
    matches!(job.reason.as_deref(), Some("timeout" | "deadline passed"))
}

fn of_failure(exit_code: Option<i32>, signal: Option<i32>) -> u8 {
    if let Some(signal) = signal {
        return u8::try_from(SIGNAL_BASE.saturating_add(signal)).unwrap_or(NO_EXIT_CODE);
    }
    match exit_code {
        // A failed job must never look like a success.
        Some(0) | None => NO_EXIT_CODE,
        Some(code) => u8::try_from(code).unwrap_or(FAILURE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_ran_out_of_time_looks_like_nothing_else() {
        let job = |ending: &str| -> Job {
            let text = format!(
                r#"{{"id":"job-1","command":"x","status":"failed","created_at":"2026-05-05T08:33:00Z","max_retries":1,"attempts":1,{ending}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(of_job(&job(r#""reason":"timeout","signal":9"#)), TIMED_OUT);
        assert_eq!(of_job(&job(r#""reason":"timeout","exit_code":0"#)), TIMED_OUT);
        assert_eq!(of_job(&job(r#""reason":"deadline passed""#)), TIMED_OUT);
        assert_eq!(of_job(&job(r#""reason":"exit code 3","exit_code":3"#)), 3);
    }

    #[test]
    fn missing_output_shows_unless_something_else_failed() {
        assert_eq!([of_shown(OK, false), of_shown(OK, true), of_shown(3, true)], [OK, INCOMPLETE, 3]);
    }

    #[test]
    fn failures_map_to_what_a_shell_would_show() {
        let cases = [
            (Some(3), None, 3),
            (Some(255), None, 255),
            (None, Some(9), 137),
            (Some(0), Some(15), 143),
            (None, None, 125),
            (Some(0), None, 125),
            (Some(-1), None, 1),
            (Some(4096), None, 1),
            (None, Some(i32::MAX), 125),
        ];
        for (exit_code, signal, expected) in cases {
            assert_eq!(of_failure(exit_code, signal), expected, "{exit_code:?} {signal:?}");
        }
    }
}
