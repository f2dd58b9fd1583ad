//! When a job starts, when it ends at the latest, and when it is tried again: options of `run` and `submit`.

use std::time::Duration;

use clap::Args;
use muster_document::amounts as document_amounts;
use muster_protocol::{DependencyRule, IfUnmet, Retry};

use super::amounts;
use super::times::{self, WrittenTime};

const RULE_HELP: &str = "What the jobs to wait for must come to: all_success, all_done, all_failed, one_failed, \
                         one_success, none_failed or always [default: all_success]";

/// What decides about start, end and repetition.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct ConditionArgs {
    /// A job that must be done first; may be repeated
    #[arg(long = "after", value_name = "JOB", help_heading = "Start")]
    pub(crate) after: Vec<String>,
    #[arg(long = "needs", help = "A job to wait for, with what it must come to, such as JOB:all_done; may be repeated", value_name = "JOB[:RULE]", value_parser = need, help_heading = "Start")]
    pub(crate) needs: Vec<WrittenNeed>,
    #[arg(long, value_name = "RULE", value_parser = rule, help = RULE_HELP, help_heading = "Start")]
    pub(crate) rule: Option<DependencyRule>,
    /// What becomes of the job when that can no longer be: fail, cancel or run
    #[arg(long, value_name = "WHAT", value_parser = if_unmet, help_heading = "Start")]
    pub(crate) if_unmet: Option<IfUnmet>,
    /// Do not start before then: "2026-05-05 08:33" local time, 2026-05-05T08:33:00Z or 2h from now
    #[arg(long, value_name = "TIME", value_parser = times::time, conflicts_with = "delay", help_heading = "Start")]
    pub(crate) not_before: Option<WrittenTime>,
    /// Do not start before this time has passed, such as 10m
    #[arg(long, visible_alias = "begin", value_name = "TIME", value_parser = amounts::duration, help_heading = "Start")]
    pub(crate) delay: Option<Duration>,
    /// Do not start until `muster release`
    #[arg(long, help_heading = "Start")]
    pub(crate) hold: bool,
    /// At most N jobs with this key run at a time [default of N: 1]
    #[arg(long, value_name = "KEY[=N]", value_parser = concurrency, help_heading = "Start")]
    pub(crate) concurrency: Option<(String, u32)>,
    /// At most one unfinished job has this key: submitting again returns it
    #[arg(long, value_name = "KEY", help_heading = "Start")]
    pub(crate) unique: Option<String>,
    /// Replace the job that has the key, as long as it waits
    #[arg(long, requires = "unique", help_heading = "Start")]
    pub(crate) replace: bool,
    /// Stop an attempt that runs longer, such as 1h; it counts as failed
    #[arg(long, value_name = "TIME", value_parser = positive_duration, help_heading = "End")]
    pub(crate) timeout: Option<Duration>,
    /// Fail the job if it has not ended by then: "2026-05-05 08:33" local time, 2026-05-05T08:33:00Z or 2h from now
    #[arg(long, value_name = "TIME", value_parser = times::time, help_heading = "End")]
    pub(crate) deadline: Option<WrittenTime>,
    /// The polite signal when the job is stopped, such as SIGINT [default: SIGTERM]
    #[arg(long, value_name = "SIGNAL", value_parser = signal, help_heading = "End")]
    pub(crate) signal: Option<String>,
    /// Time between the polite signal and the kill when the job is stopped, such as 30s
    #[arg(long, value_name = "TIME", value_parser = amounts::duration, help_heading = "End")]
    pub(crate) grace: Option<Duration>,
    /// When the worker reaches no scheduler: stop the job soon, or keep it for a time such as keep=30m; lost jobs start
    /// elsewhere no earlier [default: what the scheduler says]
    #[arg(long, value_name = "stop|keep=TIME", value_parser = on_disconnect, help_heading = "End")]
    pub(crate) on_disconnect: Option<String>,
    /// Attempts in all, the first one included [default: 3, for run 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..), help_heading = "Repetition")]
    pub(crate) max_retries: Option<i64>,
    /// Wait before another attempt: 10s, growing by a factor, up to a limit, such as 10s:2:5m
    #[arg(long, value_name = "TIME[:FACTOR[:MAX]]", value_parser = backoff, help_heading = "Repetition")]
    pub(crate) backoff: Option<Retry>,
    /// Only these causes are worth another attempt: exit=1,2, signal=KILL, lost, timeout, oom; may be repeated
    #[arg(long, value_name = "CAUSE", value_parser = cause, help_heading = "Repetition")]
    pub(crate) retry_on: Vec<Cause>,
    /// After an attempt that ran out of memory, ask for this much more: x2, or x2:64G with the most; never more than a worker
    /// has. `run` then makes up to 3 attempts, after this cause only, where nothing else is said about them
    #[arg(long, value_name = "xFACTOR[:MAX]", value_parser = oom_memory, help_heading = "Repetition")]
    pub(crate) oom_memory: Option<Growth>,
    /// Run again after this exit code without counting the attempt; may be repeated [default: 75]
    #[arg(long = "requeue-exit-code", value_name = "CODE", value_parser = clap::value_parser!(i32).range(1..=255), value_delimiter = ',', help_heading = "Repetition")]
    pub(crate) requeue_exit_codes: Vec<i32>,
}

/// `JOB:RULE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenNeed {
    pub(crate) job: String,
    pub(crate) rule: Option<DependencyRule>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    ExitCodes(Vec<i32>),
    Signals(Vec<String>),
    Lost,
    Timeout,
    OutOfMemory,
}

fn need(text: &str) -> Result<WrittenNeed, String> {
    match text.split_once(':') {
        Some((job, word)) => Ok(WrittenNeed { job: job.to_owned(), rule: Some(rule(word)?) }),
        None => Ok(WrittenNeed { job: text.to_owned(), rule: None }),
    }
}

/// The words of the API are the words here.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(text.replace('-', "_"))).ok()
}

fn rule(text: &str) -> Result<DependencyRule, String> {
    word(text).ok_or_else(|| {
        format!(
            "{text:?} is no rule; there are all_success, all_done, all_failed, one_failed, one_success, \
             none_failed and always"
        )
    })
}

fn if_unmet(text: &str) -> Result<IfUnmet, String> {
    word(text).ok_or_else(|| format!("{text:?} is none of fail, cancel and run"))
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = amounts::duration(text)?;
    if duration.is_zero() {
        return Err("a job with no time at all could not run; leave the option out for no limit".into());
    }
    Ok(duration)
}

fn signal(text: &str) -> Result<String, String> {
    document_amounts::signal(text)
        .ok_or_else(|| format!("{text:?} is no signal; write for example SIGINT, TERM or 2"))
}

fn concurrency(text: &str) -> Result<(String, u32), String> {
    let (key, limit) = text.split_once('=').unwrap_or((text, "1"));
    match limit.trim().parse::<u32>() {
        Ok(limit) if limit > 0 && !key.is_empty() => Ok((key.to_owned(), limit)),
        _ => Err(format!("{text:?} is not a key and a number; write KEY=N, for example database=2")),
    }
}

fn backoff(text: &str) -> Result<Retry, String> {
    let wrong = || format!("{text:?} is no back-off; write for example 10s, 10s:2 or 10s:2:5m");
    let mut parts = text.split(':');
    let seconds = |part: &str| document_amounts::duration(part).map(|time| time.as_secs_f64());
    let mut retry = Retry {
        initial_seconds: Some(parts.next().and_then(seconds).ok_or_else(wrong)?),
        ..Retry::default()
    };
    if let Some(factor) = parts.next() {
        let factor = factor.parse::<f64>().ok().filter(|factor| (1.0..=1000.0).contains(factor));
        retry.factor = Some(factor.ok_or_else(wrong)?);
    }
    if let Some(most) = parts.next() {
        retry.max_seconds = Some(seconds(most).ok_or_else(wrong)?);
    }
    if parts.next().is_some() { Err(wrong()) } else { Ok(retry) }
}

/// How much more memory, and the most in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Growth {
    factor: f64,
    most_mb: Option<u64>,
}

fn oom_memory(text: &str) -> Result<Growth, String> {
    let growth = document_amounts::memory_growth(text);
    let growth = growth.map(|(factor, most_mb)| Growth { factor, most_mb });
    growth.ok_or_else(|| format!("{text:?} is no growth; write for example x2, x1.5 or x2:64G"))
}

fn cause(text: &str) -> Result<Cause, String> {
    let wrong = || format!("{text:?} is no cause; write exit=1,2, signal=KILL, lost, timeout or oom");
    match text.split_once('=') {
        Some(("exit", codes)) => {
            let codes: Option<Vec<i32>> = codes
                .split(',')
                .map(|code| code.trim().parse().ok().filter(|code| (1..=255).contains(code)))
                .collect();
            codes.map(Cause::ExitCodes).ok_or_else(wrong)
        }
        Some(("signal", signals)) => {
            signals.split(',').map(signal).collect::<Result<_, _>>().map(Cause::Signals)
        }
        None if text == "lost" => Ok(Cause::Lost),
        None if text == "timeout" => Ok(Cause::Timeout),
        None if text == "oom" => Ok(Cause::OutOfMemory),
        Some(_) | None => Err(wrong()),
    }
}

impl ConditionArgs {
    /// What the options say about further attempts, when they say anything.
    pub(crate) fn retry(&self) -> Option<Retry> {
        let causes = self.retry_on.is_empty() && self.requeue_exit_codes.is_empty();
        if self.backoff.is_none() && causes && self.oom_memory.is_none() {
            return None;
        }
        let mut retry = self.backoff.clone().unwrap_or_default();
        if !self.retry_on.is_empty() {
            // What is not named is not worth an attempt.
            let (mut codes, mut signals) = (Vec::new(), Vec::new());
            let (mut lost, mut timeout, mut oom) = (false, false, false);
            for cause in &self.retry_on {
                match cause {
                    Cause::ExitCodes(more) => codes.extend(more),
                    Cause::Signals(more) => signals.extend(more.iter().cloned()),
                    Cause::Lost => lost = true,
                    Cause::Timeout => timeout = true,
                    Cause::OutOfMemory => oom = true,
                }
            }
            (retry.exit_codes, retry.signals) = (Some(codes), Some(signals));
            (retry.lost, retry.timeout, retry.oom) = (Some(lost), Some(timeout), Some(oom));
        }
        if let Some(growth) = self.oom_memory {
            (retry.oom_memory_factor, retry.oom_memory_max_mb) = (Some(growth.factor), growth.most_mb);
        }
        if !self.requeue_exit_codes.is_empty() {
            retry.requeue_exit_codes = Some(self.requeue_exit_codes.clone());
        }
        Some(retry)
    }
}

/// `stop`, or `keep=` and a time.
fn on_disconnect(text: &str) -> Result<String, String> {
    let time = text.strip_prefix("keep=").map(amounts::duration).transpose()?;
    match time {
        Some(time) if !time.is_zero() => Ok(text.to_owned()),
        None if text == "stop" => Ok(text.to_owned()),
        _ => Err("write stop, or keep with a time such as keep=30m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_have_rules() {
        let all_done = Some(DependencyRule::AllDone);
        assert_eq!(need("job-1:all_done"), Ok(WrittenNeed { job: "job-1".into(), rule: all_done }));
        assert_eq!(need("job-1:all-done").map(|need| need.rule), Ok(all_done));
        assert_eq!(need("abc"), Ok(WrittenNeed { job: "abc".into(), rule: None }));
        assert!(need("abc:some").unwrap_err().contains("all_success"));
        assert_eq!(if_unmet("run"), Ok(IfUnmet::Run));
        assert!(if_unmet("skip").is_err());
    }

    #[test]
    fn back_off_in_up_to_three_parts() {
        let retry = backoff("10s:1.5:5m").unwrap();
        assert_eq!(
            (retry.initial_seconds, retry.factor, retry.max_seconds),
            (Some(10.0), Some(1.5), Some(300.0))
        );
        assert_eq!(backoff("1m").unwrap().initial_seconds, Some(60.0));
        for text in ["", "x", "10s:0", "10s:2:x", "10s:2:5m:1", "10s:"] {
            assert!(backoff(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_named_causes_count() {
        let args = ConditionArgs {
            retry_on: vec![cause("exit=1,2").unwrap(), cause("signal=kill").unwrap(), cause("lost").unwrap()],
            ..ConditionArgs::default()
        };
        let retry = args.retry().unwrap();
        assert_eq!(retry.exit_codes, Some(vec![1, 2]));
        assert_eq!(retry.signals, Some(vec!["SIGKILL".to_owned()]));
        assert_eq!((retry.lost, retry.timeout), (Some(true), Some(false)));
        assert_eq!(ConditionArgs::default().retry(), None);
        for text in ["exit", "exit=", "exit=0", "exit=300", "signal=NONE", "never"] {
            assert!(cause(text).is_err(), "{text}");
        }
    }

    #[test]
    fn more_memory_is_a_factor_and_perhaps_the_most() {
        let args =
            ConditionArgs { oom_memory: Some(oom_memory("x2:1G").unwrap()), ..ConditionArgs::default() };
        let retry = args.retry().unwrap();
        assert_eq!((retry.oom_memory_factor, retry.oom_memory_max_mb), (Some(2.0), Some(1024)));
        assert_eq!(retry.oom, None);
        assert!(oom_memory("2").unwrap_err().contains("x2:64G"));
    }

    #[test]
    fn keys_have_a_limit() {
        assert_eq!(concurrency("db=2"), Ok(("db".into(), 2)));
        assert_eq!(concurrency("db"), Ok(("db".into(), 1)));
        assert!(concurrency("db=0").is_err() && concurrency("=2").is_err());
        assert!(positive_duration("0").is_err());
    }
}
