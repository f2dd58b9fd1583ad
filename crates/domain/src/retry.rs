//! What follows a failed attempt: another one (now or later), a free one, or the end.
//!
//! Guarantees: the same job and attempt always get the same delay (jitter comes from a seed that the
//! caller derives, not from chance), and a delay never exceeds the cap.

use serde::{Deserialize, Serialize};

use crate::job::Exit;
use crate::memory_growth::MemoryGrowth;
use crate::time::Span;

/// Exit codes that ask for another run without counting the attempt, unless the job says otherwise.
/// 75 is what `sysexits` calls a temporary failure.
pub const DEFAULT_REQUEUE_CODES: [i32; 1] = [75];

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The process ended badly, or could not be started (no code and no signal).
    Exit(Exit),
    WorkerLost,
    Timeout,
    /// It was killed because it wanted more memory than it may have.
    OutOfMemory,
    /// The worker could not start it, and no other attempt would be different.
    Refused,
}

/// How the delay between attempts grows. All zero: no delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    pub initial: Span,
    /// Growth per attempt in thousandths: 2000 doubles. 0 counts as 1000.
    pub factor_milli: u32,
    /// The longest delay; zero means none is set.
    pub cap: Span,
    /// Up to this many per cent are taken off or put on.
    pub jitter_percent: u8,
}

impl Backoff {
    /// The delay after the given failed attempt (1 is the first), for a seed that spreads jobs apart.
    pub fn delay(&self, attempt: u32, seed: u64) -> Span {
        let factor = f64::from(self.factor_milli.max(1)) / 1e3;
        let factor = if self.factor_milli == 0 { 1.0 } else { factor };
        let grown =
            self.initial.as_micros() as f64 * factor.powi(attempt.saturating_sub(1).min(1_000) as i32);
        let cap = match self.cap.as_micros() {
            0 => i64::MAX as f64,
            cap => cap as f64,
        };
        let spread = f64::from(self.jitter_percent.min(100)) / 100.0;
        // A fraction in [-1, 1) from the seed's upper bits.
        let fraction = (scramble(seed) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let delayed = (grown.min(cap) * (1.0 + spread * fraction)).clamp(0.0, cap);
        Span::from_micros(delayed as u64)
    }
}

/// Spreads a seed over all bits (the finaliser of splitmix64, a well-known public mixing function).
const fn scramble(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Which failures are worth another attempt. Everything is, unless the job says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryOn {
    /// Only these exit codes; `None` means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_codes: Option<Vec<i32>>,
    /// Only these signals; `None` means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signals: Option<Vec<i32>>,
    pub lost: bool,
    pub timeout: bool,
    pub oom: bool,
}

impl Default for RetryOn {
    fn default() -> Self {
        Self { exit_codes: None, signals: None, lost: true, timeout: true, oom: true }
    }
}

impl RetryOn {
    fn covers(&self, cause: Cause) -> bool {
        let listed = |list: &Option<Vec<i32>>, value| list.as_ref().is_none_or(|list| list.contains(&value));
        match cause {
            Cause::WorkerLost => self.lost,
            Cause::Timeout => self.timeout,
            Cause::OutOfMemory => self.oom,
            Cause::Refused => false,
            Cause::Exit(Exit { signal: Some(signal), .. }) => listed(&self.signals, signal),
            Cause::Exit(Exit { code: Some(code), .. }) => listed(&self.exit_codes, code),
            Cause::Exit(Exit { code: None, signal: None }) => true,
        }
    }
}

/// All that a job says about failed attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryPolicy {
    pub backoff: Backoff,
    pub on: RetryOn,
    /// Exit codes after which the job runs again without the attempt being counted.
    pub requeue_exit_codes: Vec<i32>,
    /// How much more memory the next attempt asks for after one that ran out of it; as much as before when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_memory: Option<MemoryGrowth>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            on: RetryOn::default(),
            requeue_exit_codes: DEFAULT_REQUEUE_CODES.to_vec(),
            oom_memory: None,
        }
    }
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Run again; the attempt is not counted.
    Requeue { delay: Span },
    /// Run again; the attempt counts.
    Retry { delay: Span },
    /// No attempt is left.
    Exhausted,
    /// The job does not want another attempt after this kind of failure.
    NotRetried,
}

impl RetryPolicy {
    /// Decides after `attempts` of `max_attempts`, the failed one included.
    pub fn next(&self, cause: Cause, attempts: u32, max_attempts: u32, seed: u64) -> Next {
        let delay = self.backoff.delay(attempts, seed ^ u64::from(attempts));
        if let Cause::Exit(Exit { code: Some(code), signal: None }) = cause
            && self.requeue_exit_codes.contains(&code)
        {
            return Next::Requeue { delay };
        }
        if !self.on.covers(cause) {
            return Next::NotRetried;
        }
        if attempts >= max_attempts {
            return Next::Exhausted;
        }
        Next::Retry { delay }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exit(code: i32) -> Cause {
        Cause::Exit(Exit { code: Some(code), signal: None })
    }

    #[test]
    fn without_a_policy_every_failure_is_retried_at_once_until_attempts_run_out() {
        let policy = RetryPolicy::default();
        for cause in
            [exit(1), Cause::WorkerLost, Cause::Timeout, Cause::OutOfMemory, Cause::Exit(Exit::default())]
        {
            assert_eq!(policy.next(cause, 1, 3, 7), Next::Retry { delay: Span::ZERO });
            assert_eq!(policy.next(cause, 3, 3, 7), Next::Exhausted);
        }
        assert_eq!(policy.next(exit(75), 3, 3, 7), Next::Requeue { delay: Span::ZERO });
    }

    #[test]
    fn the_cause_decides() {
        let (lost, timeout, oom) = (false, false, false);
        let on = RetryOn { exit_codes: Some(vec![2]), signals: Some(vec![9]), lost, timeout, oom };
        let policy = RetryPolicy { on, requeue_exit_codes: Vec::new(), ..RetryPolicy::default() };
        let killed = |signal| Cause::Exit(Exit { code: None, signal: Some(signal) });
        let retried = |cause| matches!(policy.next(cause, 1, 3, 0), Next::Retry { .. });
        assert!(retried(exit(2)) && retried(killed(9)));
        assert!(
            !retried(exit(1))
                && !retried(killed(11))
                && !retried(Cause::WorkerLost)
                && !retried(Cause::Timeout)
                && !retried(Cause::OutOfMemory)
        );
        assert!(!retried(exit(75)));
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let backoff = Backoff {
            initial: Span::from_secs(1),
            factor_milli: 2000,
            cap: Span::from_secs(5),
            jitter_percent: 0,
        };
        let seconds: Vec<f64> = (1..=5).map(|attempt| backoff.delay(attempt, 3).as_secs_f64()).collect();
        assert_eq!(seconds, [1.0, 2.0, 4.0, 5.0, 5.0]);
    }

    proptest! {
        #[test]
        fn a_delay_stays_within_jitter_and_cap_and_repeats(
            initial in 0_u32..100_000, factor in 0_u32..4000, cap in 0_u32..1_000_000,
            jitter in 0_u8..=100, attempt in 1_u32..2000, seed in any::<u64>(),
        ) {
            let backoff = Backoff {
                initial: Span::from_millis(initial), factor_milli: factor,
                cap: Span::from_millis(cap), jitter_percent: jitter,
            };
            let delay = backoff.delay(attempt, seed);
            prop_assert_eq!(delay, backoff.delay(attempt, seed));
            if cap > 0 {
                prop_assert!(delay <= Span::from_millis(cap));
            }
            if attempt == 1 && cap == 0 {
                let bare = f64::from(initial) / 1e3;
                let slack = bare * f64::from(jitter) / 100.0 + 1e-5;
                prop_assert!((delay.as_secs_f64() - bare).abs() <= slack);
            }
        }
    }
}
