//! How long jobs have run before: what is expected of the next one of the same name.
//!
//! Guarantees: an expectation lies between the last two runs; it is written again only when it has changed by
//! more than a fifth; what runs for longer than was expected is expected to take twice as long, and so on.

use serde::{Deserialize, Serialize};

use crate::ids::QueueName;
use crate::job::Job;
use crate::phase::Phase;
use crate::time::{Span, Timestamp};

/// Bytes of a user, queue and name together.
const LONGEST: usize = 512;

/// Jobs that are taken for runs of the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
    pub user: Option<String>,
    pub queue: Option<QueueName>,
    pub name: String,
}

impl Series {
    /// The series of a job; `None` for a job without a name, or with names that are too long to be kept.
    pub fn of(job: &Job) -> Option<Self> {
        let spec = &job.spec;
        let series = Self { user: spec.user.clone(), queue: spec.queue.clone(), name: spec.name.clone()? };
        let queue = series.queue.as_ref().map_or(0, |queue| queue.as_str().len());
        let bytes = series.name.len() + queue + series.user.as_ref().map_or(0, String::len);
        (bytes <= LONGEST).then_some(series)
    }
}

/// The last two run times of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTimes {
    pub last: Span,
    pub before: Span,
}

impl RunTimes {
    /// After the first run.
    pub const fn first(run: Span) -> Self {
        Self { last: run, before: run }
    }

    /// After one more run.
    #[must_use]
    pub const fn then(self, run: Span) -> Self {
        Self { last: run, before: self.last }
    }

    /// What is expected of the next run: the mean of the last two.
    pub const fn expected(self) -> Span {
        Span::from_micros(self.last.as_micros().midpoint(self.before.as_micros()))
    }

    /// Whether the expectation differs so much from another one that it is worth writing.
    pub const fn differs_from(self, other: Self) -> bool {
        let (new, old) = (self.expected().as_micros(), other.expected().as_micros());
        new.abs_diff(old) > old / 5
    }
}

/// What is left of a run that was expected to take so long and has taken `ran`.
fn left(expected: Span, ran: Span) -> Span {
    let (ran, mut all) = (ran.as_micros(), expected.as_micros().max(1));
    while all <= ran && all < u64::MAX {
        all = all.saturating_mul(2);
    }
    Span::from_micros(all.saturating_sub(ran))
}

impl Job {
    /// How long it took, once it has ended well: what its series learns from. One that was stopped in between went on
    /// where it was, so that all its runs count.
    pub fn run_time(&self) -> Option<Span> {
        let Phase::Done { at } = self.phase else { return None };
        Some(if self.preemption_epoch > 0 { self.served } else { at.since(self.started_at?) })
    }

    /// When it will have ended if it starts now: by its time limit, else as runs before it let expect; `None`
    /// when nobody can say.
    pub fn ends_if_started(&self, now: Timestamp) -> Option<Timestamp> {
        let expected = || Some(left(self.expected?, self.served));
        Some(now + self.spec.timeout.or_else(expected)?)
    }

    /// The same for a job that runs since `since`.
    pub fn ends_by(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let ran = now.since(since);
        let expected = || Some(now + left(self.expected?, self.served + ran));
        self.spec.timeout.map(|timeout| since + timeout).or_else(expected)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::ids::JobId;
    use crate::spec::JobSpec;

    fn secs(seconds: u32) -> Span {
        Span::from_secs(seconds)
    }

    fn expecting(seconds: u32) -> Job {
        let spec = Arc::new(JobSpec::shell("x"));
        let id = JobId::from_random([1; 16]);
        Job { expected: Some(secs(seconds)), ..Job::new(id, spec, Phase::Pending, Timestamp::default()) }
    }

    #[test]
    fn the_last_two_runs_say_what_to_expect_and_small_changes_are_not_worth_it() {
        let runs = RunTimes::first(secs(100));
        assert_eq!((runs.expected(), runs.then(secs(200)).expected()), (secs(100), secs(150)));
        assert_eq!(runs.then(secs(200)).then(secs(300)).expected(), secs(250));
        assert!(!runs.then(secs(140)).differs_from(runs) && runs.then(secs(141)).differs_from(runs));
        assert!(runs.then(secs(59)).differs_from(runs) && !runs.then(secs(60)).differs_from(runs));
        assert!(RunTimes::first(secs(1)).differs_from(RunTimes::first(Span::ZERO)));
    }

    #[test]
    fn a_time_limit_is_believed_first_and_what_has_run_already_counts() {
        let now = Timestamp::from_micros(1_000_000_000);
        let job = expecting(100);
        assert_eq!(job.ends_if_started(now), Some(now + secs(100)));
        assert_eq!(job.ends_by(now - secs(30), now), Some(now + secs(70)));
        let stopped = Job { served: secs(60), ..job.clone() };
        assert_eq!(stopped.ends_if_started(now), Some(now + secs(40)));
        assert_eq!(stopped.ends_by(now - secs(30), now), Some(now + secs(10)));
        let mut spec = JobSpec::shell("x");
        assert_eq!(Job { expected: None, ..job.clone() }.ends_if_started(now), None);
        spec.timeout = Some(secs(500));
        let limited = Job { spec: Arc::new(spec), ..job };
        assert_eq!(limited.ends_by(now - secs(30), now), Some(now + secs(470)));
    }

    proptest! {
        #[test]
        fn what_outlives_its_expectation_is_given_as_much_again(expected in 0_u32..1000, ran in 0_u32..100_000) {
            let now = Timestamp::from_micros(1_000_000_000_000);
            let ends = expecting(expected).ends_by(now - secs(ran), now).unwrap();
            prop_assert!(ends > now);
            let all = ends.since(now - secs(ran));
            prop_assert!(all.as_micros() <= secs(ran.max(expected) * 2).as_micros().max(1));
        }
    }
}
