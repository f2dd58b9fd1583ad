//! The fields of a submit that say when a job may start, how long it may run and when it is run again.

use std::collections::BTreeMap;

use muster_domain::MemoryGrowth;
use muster_domain::limits::MAX_KEEP;
use muster_domain::retry::{Backoff, RetryOn, RetryPolicy};
use muster_domain::{Concurrency, IfUnmet, OnDisconnect, Resources, Rule, Span, Timestamp, Unique, signal};

use crate::config::Limits;
use crate::error::ApiError;
use crate::lenient::lenient_object;
use crate::submission::check_text;
use crate::{clock, duration};

/// Longer than this is a mistake: a hundred years.
const MOST_SECONDS: f64 = 3.2e9;
/// Memory grows by no more than this from one attempt to the next.
const MOST_GROWTH: f64 = 100.0;
/// Lists of codes and signals are no longer than all codes there are.
const MOST_CODES: usize = 256;
/// Delays grow by this factor when the submitter gives a delay and no factor.
const DEFAULT_FACTOR: f64 = 2.0;

lenient_object! {
    /// When failed attempts are repeated.
    pub(crate) struct RetryBody {
        initial_seconds: f64 = "initial_seconds",
        factor: f64 = "factor",
        max_seconds: f64 = "max_seconds",
        jitter: f64 = "jitter",
        exit_codes: Vec<i32> = "exit_codes",
        signals: Vec<String> = "signals",
        lost: bool = "lost",
        timeout: bool = "timeout",
        oom: bool = "oom",
        oom_memory_factor: f64 = "oom_memory_factor",
        oom_memory_max_mb: u64 = "oom_memory_max_mb",
        requeue_exit_codes: Vec<i32> = "requeue_exit_codes",
    }
}

lenient_object! {
    /// At most so many of a key at once.
    pub(crate) struct ConcurrencyBody { key: String = "key", limit: u32 = "limit" }
}

lenient_object! {
    /// At most one unfinished job of a key.
    pub(crate) struct UniqueBody { key: String = "key", on_conflict: String = "on_conflict" }
}

impl RetryBody {
    pub(crate) fn check(self) -> Result<RetryPolicy, ApiError> {
        let initial = seconds("initial_seconds", self.initial_seconds)?.unwrap_or(Span::ZERO);
        let factor = self.factor.unwrap_or(DEFAULT_FACTOR);
        if !(1.0..=1e6).contains(&factor) {
            return Err(ApiError::invalid_field("factor", "factor must be from 1 to 1000000"));
        }
        let jitter = self.jitter.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&jitter) {
            return Err(ApiError::invalid_field("jitter", "jitter must be from 0 to 1"));
        }
        let backoff = Backoff {
            initial,
            factor_milli: if initial == Span::ZERO { 0 } else { (factor * 1e3) as u32 },
            cap: seconds("max_seconds", self.max_seconds)?.unwrap_or(Span::ZERO),
            jitter_percent: (jitter * 100.0).round() as u8,
        };
        let on = RetryOn {
            exit_codes: codes("exit_codes", self.exit_codes)?,
            signals: self.signals.as_deref().map(signals).transpose()?,
            lost: self.lost.unwrap_or(true),
            timeout: self.timeout.unwrap_or(true),
            oom: self.oom.unwrap_or(true),
        };
        let oom_memory = memory_growth(self.oom_memory_factor, self.oom_memory_max_mb)?;
        let requeue = codes("requeue_exit_codes", self.requeue_exit_codes)?;
        let default = RetryPolicy::default().requeue_exit_codes;
        Ok(RetryPolicy { backoff, on, requeue_exit_codes: requeue.unwrap_or(default), oom_memory })
    }
}

/// Who asks for no memory has no limit that could grow.
pub(crate) fn check_growth(retry: &RetryPolicy, resources: Option<&Resources>) -> Result<(), ApiError> {
    if retry.oom_memory.is_none() || resources.is_some_and(|resources| resources.memory_mb > 0) {
        return Ok(());
    }
    let message = "oom_memory_factor needs an amount of memory that can grow: ask for memory_mb too";
    Err(ApiError::invalid_field("oom_memory_factor", message))
}

fn memory_growth(factor: Option<f64>, most_mb: Option<u64>) -> Result<Option<MemoryGrowth>, ApiError> {
    let Some(factor) = factor else {
        let message = "oom_memory_max_mb bounds oom_memory_factor, which is missing";
        return match most_mb {
            Some(_) => Err(ApiError::invalid_field("oom_memory_max_mb", message)),
            None => Ok(None),
        };
    };
    if !(1.0..=MOST_GROWTH).contains(&factor) || factor <= 1.0 {
        let message = format!("oom_memory_factor must be more than 1 and at most {MOST_GROWTH}");
        return Err(ApiError::invalid_field("oom_memory_factor", message));
    }
    Ok(Some(MemoryGrowth { factor_milli: (factor * 1e3).round() as u32, most_mb }))
}

fn codes(field: &'static str, codes: Option<Vec<i32>>) -> Result<Option<Vec<i32>>, ApiError> {
    let Some(codes) = codes else { return Ok(None) };
    if codes.len() > MOST_CODES || codes.iter().any(|code| !(0..=255).contains(code)) {
        return Err(ApiError::invalid_field(field, format!("{field} must be numbers from 0 to 255")));
    }
    Ok(Some(codes))
}

fn signals(names: &[String]) -> Result<Vec<i32>, ApiError> {
    if names.len() > MOST_CODES {
        return Err(ApiError::over_limit("signals", MOST_CODES, "entries"));
    }
    names.iter().map(|name| known_signal("signals", name)).collect()
}

fn known_signal(field: &'static str, name: &str) -> Result<i32, ApiError> {
    signal::parse(name).ok_or_else(|| {
        let message = format!("{field}: {name:?} is no signal; give a name such as SIGTERM or a number");
        ApiError::invalid_field(field, message)
    })
}

pub(crate) fn stop_signal(name: Option<String>) -> Result<Option<i32>, ApiError> {
    let name = name.filter(|name| !name.is_empty());
    name.map(|name| known_signal("stop_signal", &name)).transpose()
}

impl ConcurrencyBody {
    pub(crate) fn check(self, limits: &Limits) -> Result<Concurrency, ApiError> {
        let key = key("concurrency", self.key, limits)?;
        let limit = self.limit.unwrap_or(1);
        if limit == 0 {
            return Err(ApiError::invalid_field(
                "concurrency",
                "the limit of concurrency must be at least 1",
            ));
        }
        Ok(Concurrency { key, limit })
    }
}

impl UniqueBody {
    pub(crate) fn check(self, limits: &Limits) -> Result<Unique, ApiError> {
        let replace = match self.on_conflict.as_deref().unwrap_or("existing") {
            "existing" | "" => false,
            "replace" => true,
            other => {
                let message = format!("on_conflict must be existing or replace, not {other:?}");
                return Err(ApiError::invalid_field("unique", message));
            }
        };
        Ok(Unique { key: key("unique", self.key, limits)?, replace })
    }
}

fn key(field: &'static str, key: Option<String>, limits: &Limits) -> Result<String, ApiError> {
    let key = key.filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| ApiError::invalid_field(field, format!("{field} needs a key")))?;
    check_text(field, &key, limits.name)?;
    Ok(key)
}

/// A number of seconds; zero means nothing was asked for.
pub(crate) fn seconds(field: &'static str, value: Option<f64>) -> Result<Option<Span>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    if !(0.0..=MOST_SECONDS).contains(&value) {
        return Err(ApiError::invalid_field(
            field,
            format!("{field} must be from 0 to {MOST_SECONDS} seconds"),
        ));
    }
    let span = Span::from_micros((value * 1e6) as u64);
    Ok((span > Span::ZERO).then_some(span))
}

pub(crate) fn time(field: &'static str, text: Option<String>) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let parsed = text.parse::<jiff::Timestamp>().map(clock::from_wire);
    parsed.map(Some).map_err(|_| {
        let message = format!("{field} must be a time such as 2026-05-05T08:33:00Z, not {text:?}");
        ApiError::invalid_field(field, message)
    })
}

/// The later of the time and the delay, where both are given.
pub(crate) fn not_before(
    text: Option<String>,
    delay_seconds: Option<f64>,
    now: Timestamp,
) -> Result<Option<Timestamp>, ApiError> {
    let at = time("not_before", text)?;
    let after = seconds("delay_seconds", delay_seconds)?.map(|delay| now + delay);
    Ok(at.max(after))
}

pub(crate) fn if_unmet(text: Option<&str>) -> Result<Option<IfUnmet>, ApiError> {
    match text {
        None | Some("") => Ok(None),
        Some("fail") => Ok(Some(IfUnmet::Fail)),
        Some("cancel") => Ok(Some(IfUnmet::Cancel)),
        Some("run") => Ok(Some(IfUnmet::Run)),
        Some(other) => {
            let message = format!("if_unmet must be fail, cancel or run, not {other:?}");
            Err(ApiError::invalid_field("if_unmet", message))
        }
    }
}

fn rule(field: &'static str, text: &str) -> Result<Rule, ApiError> {
    Rule::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
        let message = format!("{field} must be one of {}, not {text:?}", names.join(", "));
        ApiError::invalid_field(field, message)
    })
}

/// The rule of each dependency, in order; empty when all must succeed.
pub(crate) fn rules(
    depends_on: &[String],
    common: Option<String>,
    own: Option<BTreeMap<String, String>>,
) -> Result<Vec<Rule>, ApiError> {
    let common = match common.filter(|text| !text.is_empty()) {
        Some(text) => rule("rule", &text)?,
        None => Rule::default(),
    };
    let own = own.unwrap_or_default();
    if let Some(stray) = own.keys().find(|name| !depends_on.contains(name)) {
        let message = format!("rules names {stray:?}, which depends_on does not");
        return Err(ApiError::invalid_field("rules", message));
    }
    if common == Rule::default() && own.is_empty() {
        return Ok(Vec::new());
    }
    depends_on.iter().map(|name| own.get(name).map_or(Ok(common), |text| rule("rules", text))).collect()
}
/// What becomes of a running job when its worker reaches no scheduler, as it is written.
pub(crate) fn on_disconnect(text: Option<&str>) -> Result<Option<OnDisconnect>, ApiError> {
    let wrong = || {
        let most = MAX_KEEP.as_micros() / 1_000_000 / 3600;
        let message =
            format!("on_disconnect must be stop, or keep with a time of up to {most}h such as keep=30m");
        ApiError::invalid_field("on_disconnect", message)
    };
    match text.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some("stop") => Ok(Some(OnDisconnect::Stop)),
        Some(text) => {
            let time = text.strip_prefix("keep=").and_then(duration::parse).ok_or_else(wrong)?;
            let span = Span::from(time);
            if span == Span::ZERO || span > MAX_KEEP {
                Err(wrong())
            } else {
                Ok(Some(OnDisconnect::Keep(span)))
            }
        }
    }
}

/// The same as it is shown.
pub(crate) fn on_disconnect_text(wish: OnDisconnect) -> String {
    match wish {
        OnDisconnect::Stop => "stop".to_owned(),
        OnDisconnect::Keep(span) if span.as_micros() % 1_000_000 == 0 => {
            format!("keep={}s", span.as_micros() / 1_000_000)
        }
        OnDisconnect::Keep(span) => format!("keep={}ms", span.as_micros() / 1_000),
    }
}
