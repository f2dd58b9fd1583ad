//! Black holes: workers on which job after job fails at once while others do well.
//!
//! Guarantee: a worker is set aside only on evidence against itself: several different jobs failed on it,
//! one after the other and each soon after its start, while another worker had jobs that succeeded. A
//! series of bad jobs on every worker sets nobody aside.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::time::{Span, Timestamp};

/// A failure this soon after the start counts against the worker.
pub const QUICK: Span = Span::from_secs(10);
/// This many different jobs in a row make a black hole.
pub const STREAK: usize = 5;
/// How long a worker is set aside before one job is sent to try it; doubles with each probe that fails.
pub const FIRST_PROBE: Span = Span::from_secs(300);
const LONGEST_PROBE: Span = Span::from_secs(3600);
/// A success is written down only when the last one is older than this.
pub const SUCCESS_GRAIN: Span = Span::from_secs(30);

/// One job that failed at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuickFailure {
    pub job: JobId,
    pub at: Timestamp,
    pub what: String,
}

/// A worker that gets no work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    pub since: Timestamp,
    /// When one job is sent to try it again.
    pub probe_at: Timestamp,
    /// How long it was set aside the last time.
    pub pause: Span,
    pub evidence: Vec<QuickFailure>,
    /// Its key was revoked: it is set aside until it joins again, and nothing tries it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}

impl Quarantine {
    /// The evidence in words, one line for each job.
    pub fn lines(&self) -> Vec<String> {
        self.evidence.iter().map(|failure| format!("{}: {}", failure.job, failure.what)).collect()
    }
}

/// How jobs fared on a worker lately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Jobs that failed at once, one after the other; emptied by any other end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streak: Vec<QuickFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
}

/// What an end meant for the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing worth writing down.
    Unchanged,
    Noted,
    /// A probe went well: the worker gets work again.
    Recovered,
    /// A probe failed: it is set aside for longer.
    StillBad,
}

impl Health {
    /// Whether there is nothing to remember.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// A job did well, or at least ran for a while.
    pub fn did_well(&mut self, now: Timestamp) -> Verdict {
        let stale = self.last_success.is_none_or(|last| now.since(last) > SUCCESS_GRAIN);
        let recovered = self.quarantine.take().is_some();
        if !stale && self.streak.is_empty() && !recovered {
            return Verdict::Unchanged;
        }
        self.streak.clear();
        self.last_success = Some(now);
        if recovered { Verdict::Recovered } else { Verdict::Noted }
    }

    /// A job failed at once.
    pub fn failed_at_once(&mut self, failure: QuickFailure) -> Verdict {
        if let Some(quarantine) = &mut self.quarantine {
            quarantine.pause = (quarantine.pause + quarantine.pause).min(LONGEST_PROBE);
            quarantine.probe_at = failure.at + quarantine.pause;
            quarantine.evidence.push(failure);
            let surplus = quarantine.evidence.len().saturating_sub(2 * STREAK);
            quarantine.evidence.drain(..surplus);
            return Verdict::StillBad;
        }
        self.streak.retain(|earlier| earlier.job != failure.job);
        self.streak.push(failure);
        let surplus = self.streak.len().saturating_sub(STREAK);
        self.streak.drain(..surplus);
        Verdict::Noted
    }

    /// Sets the worker aside if its series is long enough and `elsewhere`, the last success on any other
    /// active worker, shows that jobs can succeed. Returns the evidence.
    pub fn judge(&mut self, elsewhere: Option<Timestamp>, now: Timestamp) -> Option<Vec<String>> {
        let begin = self.streak.first()?.at;
        let others_do_well = elsewhere.is_some_and(|success| success + SUCCESS_GRAIN >= begin);
        if self.streak.len() < STREAK || !others_do_well || self.quarantine.is_some() {
            return None;
        }
        let evidence = std::mem::take(&mut self.streak);
        let quarantine = Quarantine {
            since: now,
            probe_at: now + FIRST_PROBE,
            pause: FIRST_PROBE,
            evidence,
            revoked: false,
        };
        let lines = quarantine.lines();
        self.quarantine = Some(quarantine);
        Some(lines)
    }

    /// How many jobs the worker may get now, beyond those it holds; `None` when nothing bounds it.
    pub fn allowance(&self, holds: u32, now: Timestamp) -> Option<u32> {
        let quarantine = self.quarantine.as_ref()?;
        Some(u32::from(holds == 0 && now >= quarantine.probe_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn failure(job: u8, seconds: i64) -> QuickFailure {
        QuickFailure { job: JobId::from_random([job; 16]), at: at(seconds), what: "exit code 1".into() }
    }

    fn streak(length: u8) -> Health {
        let mut health = Health::default();
        for job in 0..length {
            health.failed_at_once(failure(job, 1000 + i64::from(job)));
        }
        health
    }

    #[test]
    fn five_different_jobs_in_a_row_set_a_worker_aside_when_others_do_well() {
        let mut health = streak(5);
        let evidence = health.judge(Some(at(1003)), at(1010)).unwrap();
        assert_eq!(evidence.len(), 5);
        assert_eq!(health.allowance(0, at(1011)), Some(0));
        assert_eq!(health.allowance(0, at(1010) + FIRST_PROBE), Some(1));
        assert_eq!(health.allowance(1, at(1010) + FIRST_PROBE), Some(0));
    }

    #[test]
    fn nothing_less_does() {
        assert!(streak(4).judge(Some(at(1003)), at(1010)).is_none());
        assert!(streak(5).judge(None, at(1010)).is_none(), "nobody else did well");
        assert!(streak(5).judge(Some(at(900)), at(1010)).is_none(), "success lies before the series");
        let mut same = Health::default();
        for _ in 0..9 {
            same.failed_at_once(failure(1, 1000));
        }
        assert!(same.judge(Some(at(1003)), at(1010)).is_none(), "one job again and again");
        let mut mended = streak(4);
        mended.did_well(at(1005));
        mended.failed_at_once(failure(9, 1006));
        assert!(mended.judge(Some(at(1006)), at(1010)).is_none(), "a success in between");
    }

    #[test]
    fn a_probe_that_fails_waits_longer_and_one_that_succeeds_ends_it() {
        let mut health = streak(5);
        health.judge(Some(at(1003)), at(1010));
        assert_eq!(health.failed_at_once(failure(7, 1400)), Verdict::StillBad);
        assert_eq!(health.quarantine.as_ref().unwrap().probe_at, at(1400) + FIRST_PROBE + FIRST_PROBE);
        assert_eq!(health.did_well(at(3000)), Verdict::Recovered);
        assert_eq!(health.allowance(5, at(3000)), None);
    }
}
