//! What attempts used of their machines, for one job and summed up over many.
//!
//! Guarantees: what was not measured is absent and never counts as zero; the hours of an attempt add up to the attempt;
//! efficiency compares only attempts of which both sides are known.

use serde::{Deserialize, Serialize, Serializer};

use crate::job::Job;
use crate::resources::Resources;
use crate::spec::JobSpec;
use crate::time::Timestamp;

/// Microseconds of an hour.
const HOUR: i64 = 3_600_000_000;
/// The most that one attempt adds to a sum, so that sums of hostile numbers stay in what a database can keep.
const MOST: u64 = 1 << 50;
/// An attempt is spread over no more hours than these; what is older is counted in the first of them.
const MOST_HOURS: i64 = 2_000;

/// What one attempt used, or several together. What could not be measured is absent.
///
/// Written as a list of these numbers in this order, without what is absent at its end: it is kept for every attempt. Read
/// as well by name, as it was written before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// CPU time in the program, and in the kernel on its behalf.
    #[serde(rename = "u")]
    pub cpu_user_ms: Option<u64>,
    #[serde(rename = "s")]
    pub cpu_system_ms: Option<u64>,
    /// The most memory at a time.
    #[serde(rename = "m")]
    pub peak_memory_bytes: Option<u64>,
    /// Of block devices.
    #[serde(rename = "r")]
    pub read_bytes: Option<u64>,
    #[serde(rename = "w")]
    pub written_bytes: Option<u64>,
    /// The most GPU memory at a time, over all GPUs.
    #[serde(rename = "g")]
    pub peak_gpu_memory_bytes: Option<u64>,
}

impl Serialize for Spent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = [
            self.cpu_user_ms,
            self.cpu_system_ms,
            self.peak_memory_bytes,
            self.read_bytes,
            self.written_bytes,
            self.peak_gpu_memory_bytes,
        ];
        let length = numbers.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        serializer.collect_seq(&numbers[..length])
    }
}

impl Spent {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All CPU time, as far as it was measured.
    pub fn cpu_ms(&self) -> Option<u64> {
        added(self.cpu_user_ms, self.cpu_system_ms)
    }

    /// Of two attempts together: sums, and the higher peaks.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            cpu_user_ms: added(self.cpu_user_ms, other.cpu_user_ms),
            cpu_system_ms: added(self.cpu_system_ms, other.cpu_system_ms),
            peak_memory_bytes: self.peak_memory_bytes.max(other.peak_memory_bytes),
            read_bytes: added(self.read_bytes, other.read_bytes),
            written_bytes: added(self.written_bytes, other.written_bytes),
            peak_gpu_memory_bytes: self.peak_gpu_memory_bytes.max(other.peak_gpu_memory_bytes),
        }
    }
}

fn added(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// What a job has used so far, as far as its workers said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobSpent {
    /// The last attempt that was measured.
    pub last: Spent,
    /// All attempts before it.
    pub earlier: Option<Spent>,
}

impl JobSpent {
    /// Over all attempts.
    pub fn total(&self) -> Spent {
        self.earlier.map_or(self.last, |earlier| earlier.with(&self.last))
    }
}

impl Job {
    /// Notes what an attempt used that has ended.
    pub(crate) fn note_spent(&mut self, spent: &Spent) {
        if spent.is_empty() {
            return;
        }
        let earlier = self.spent.as_ref().map(|before| before.total());
        self.spent = Some(Box::new(JobSpent { last: *spent, earlier }));
    }
}

/// What is known of an attempt beside its event: what it used, and what the job asked for at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    pub spent: Spent,
    pub requested: Option<Resources>,
}

/// An attempt that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedAttempt {
    pub from: Timestamp,
    pub to: Timestamp,
    pub cpu_millis: u64,
    pub memory_mb: u64,
    pub gpus: u64,
    pub spent: Spent,
}

/// Sums over attempts that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageSum {
    /// Jobs that had run and came to their end, and those of them that failed.
    pub jobs: u64,
    pub jobs_failed: u64,
    pub attempts: u64,
    /// How long the attempts ran.
    pub wall_ms: u64,
    /// CPU time that was measured.
    pub cpu_ms: u64,
    /// Requested CPUs times the time that they were held.
    pub cpu_requested_ms: u64,
    /// The same two of those attempts only of which both are known.
    pub cpu_compared_ms: u64,
    pub cpu_compared_requested_ms: u64,
    /// Of attempts that requested memory and were measured: peak and request, each in MiB times seconds.
    pub memory_compared: u64,
    pub memory_compared_requested: u64,
    /// GPUs times the time that they were held.
    pub gpu_ms: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// The most memory that one attempt held at a time.
    pub peak_memory_bytes: u64,
}

impl UsageSum {
    /// Names of the numbers, in the order of [`Self::to_array`]. All are sums but the last, which is the highest.
    pub const FIELDS: [&'static str; 14] = [
        "jobs",
        "jobs_failed",
        "attempts",
        "wall_ms",
        "cpu_ms",
        "cpu_requested_ms",
        "cpu_compared_ms",
        "cpu_compared_requested_ms",
        "memory_compared",
        "memory_compared_requested",
        "gpu_ms",
        "read_bytes",
        "written_bytes",
        "peak_memory_bytes",
    ];

    pub const fn to_array(&self) -> [u64; 14] {
        [
            self.jobs,
            self.jobs_failed,
            self.attempts,
            self.wall_ms,
            self.cpu_ms,
            self.cpu_requested_ms,
            self.cpu_compared_ms,
            self.cpu_compared_requested_ms,
            self.memory_compared,
            self.memory_compared_requested,
            self.gpu_ms,
            self.read_bytes,
            self.written_bytes,
            self.peak_memory_bytes,
        ]
    }

    pub const fn from_array(numbers: [u64; 14]) -> Self {
        let [
            jobs,
            jobs_failed,
            attempts,
            wall_ms,
            cpu_ms,
            cpu_requested_ms,
            cpu_compared_ms,
            cpu_compared_requested_ms,
            memory_compared,
            memory_compared_requested,
            gpu_ms,
            read_bytes,
            written_bytes,
            peak_memory_bytes,
        ] = numbers;
        Self {
            jobs,
            jobs_failed,
            attempts,
            wall_ms,
            cpu_ms,
            cpu_requested_ms,
            cpu_compared_ms,
            cpu_compared_requested_ms,
            memory_compared,
            memory_compared_requested,
            gpu_ms,
            read_bytes,
            written_bytes,
            peak_memory_bytes,
        }
    }

    /// Adds, saturating at what a database can keep.
    pub fn add(&mut self, other: &Self) {
        let (mut sum, other) = (self.to_array(), other.to_array());
        let last = sum.len() - 1;
        for (at, (mine, theirs)) in sum.iter_mut().zip(other).enumerate() {
            let new = if at == last { (*mine).max(theirs) } else { mine.saturating_add(theirs) };
            *mine = new.min(i64::MAX as u64);
        }
        *self = Self::from_array(sum);
    }

    /// The part of the requested CPU time that was used; `None` where nothing can be compared.
    pub fn cpu_efficiency(&self) -> Option<f64> {
        ratio(self.cpu_compared_ms, self.cpu_compared_requested_ms)
    }

    /// The part of the requested memory that was needed at the most, weighted by the time that it was held.
    pub fn memory_efficiency(&self) -> Option<f64> {
        ratio(self.memory_compared, self.memory_compared_requested)
    }
}

fn ratio(used: u64, requested: u64) -> Option<f64> {
    (requested > 0).then(|| used as f64 / requested as f64)
}

impl EndedAttempt {
    /// An attempt that asked for this and ran from `from` to `to`.
    pub fn of(spec: &JobSpec, from: Timestamp, to: Timestamp, spent: Option<Spent>) -> Self {
        let requested = spec.resources.as_ref();
        Self {
            from,
            to,
            cpu_millis: requested.map_or(0, |requested| requested.cpu_millis),
            memory_mb: requested.map_or(0, |requested| requested.memory_mb),
            gpus: requested.map_or(0, |requested| requested.gpus),
            spent: spent.unwrap_or_default(),
        }
    }

    /// What it adds to sums.
    pub fn sum(&self) -> UsageSum {
        let wall_ms = self.to.since(self.from).as_micros() / 1_000;
        let times = |amount: u64, per: u64| {
            u64::try_from(u128::from(amount) * u128::from(wall_ms) / u128::from(per))
                .unwrap_or(u64::MAX)
                .min(MOST)
        };
        let cpu_ms = self.spent.cpu_ms();
        let cpu_requested_ms = times(self.cpu_millis, 1_000);
        let both = cpu_ms.filter(|_| cpu_requested_ms > 0);
        let peak = self.spent.peak_memory_bytes;
        let fitted = peak.filter(|_| self.memory_mb > 0);
        UsageSum {
            attempts: 1,
            wall_ms,
            cpu_ms: cpu_ms.unwrap_or(0),
            cpu_requested_ms,
            cpu_compared_ms: both.unwrap_or(0),
            cpu_compared_requested_ms: both.map_or(0, |_| cpu_requested_ms),
            memory_compared: fitted.map_or(0, |peak| times(peak, 1_000 << 20)),
            memory_compared_requested: fitted.map_or(0, |_| times(self.memory_mb, 1_000)),
            gpu_ms: times(self.gpus, 1),
            read_bytes: self.spent.read_bytes.unwrap_or(0),
            written_bytes: self.spent.written_bytes.unwrap_or(0),
            peak_memory_bytes: peak.unwrap_or(0),
            ..UsageSum::default()
        }
    }

    /// The same by the hours (since 1970, UTC) in which it ran. It counts as an attempt in the last one.
    pub fn by_hour(&self) -> Vec<(i64, UsageSum)> {
        let whole = self.sum();
        let (from, to) = (self.from.as_micros(), self.to.as_micros());
        let last = hour_of(self.to);
        if from >= to || hour_of(self.from) == last {
            return vec![(last, whole)];
        }
        let first = hour_of(self.from).max(last.saturating_sub(MOST_HOURS - 1));
        let numbers = whole.to_array();
        let until = |end: i64| {
            let part = |value: u64| {
                let part = u128::from(value) * u128::from((end - from).unsigned_abs());
                u64::try_from(part / u128::from((to - from).unsigned_abs())).unwrap_or(u64::MAX)
            };
            numbers.map(part)
        };
        let mut before = [0; 14];
        let mut hours = Vec::new();
        for hour in first..=last {
            let so_far = until(to.min((hour + 1).saturating_mul(HOUR)));
            let mut part = so_far;
            part.iter_mut().zip(before).for_each(|(number, before)| *number -= before);
            before = so_far;
            let attempts = u64::from(hour == last);
            let peak_memory_bytes = whole.peak_memory_bytes;
            hours.push((hour, UsageSum { attempts, peak_memory_bytes, ..UsageSum::from_array(part) }));
        }
        hours
    }
}

/// The number of the hour of a time, counted from 1970 in UTC.
pub const fn hour_of(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(HOUR)
}

/// When an hour begins.
pub const fn start_of_hour(hour: i64) -> Timestamp {
    Timestamp::from_micros(hour.saturating_mul(HOUR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(from: i64, to: i64) -> EndedAttempt {
        let spent = Spent {
            cpu_user_ms: Some(1_000_000),
            cpu_system_ms: Some(7),
            peak_memory_bytes: Some(512 << 20),
            ..Spent::default()
        };
        let (from, to) = (Timestamp::from_micros(from), Timestamp::from_micros(to));
        EndedAttempt { from, to, cpu_millis: 500, memory_mb: 1024, gpus: 2, spent }
    }

    #[test]
    fn what_was_not_measured_does_not_count_as_zero() {
        let none = EndedAttempt { spent: Spent::default(), ..attempt(0, HOUR / 2) }.sum();
        assert_eq!((none.cpu_requested_ms, none.cpu_compared_requested_ms), (900_000, 0));
        assert_eq!((none.cpu_efficiency(), none.memory_efficiency()), (None, None));
        let mut both = attempt(0, HOUR / 2).sum();
        both.add(&none);
        assert_eq!((both.attempts, both.wall_ms, both.gpu_ms), (2, 3_600_000, 7_200_000));
        assert_eq!(both.memory_efficiency(), Some(0.5));
        assert!((both.cpu_efficiency().unwrap() - 1.111_118_8).abs() < 1e-6, "{both:?}");
    }

    #[test]
    fn the_hours_of_an_attempt_add_up_to_it() {
        for (from, to) in
            [(0, 1), (5, 5), (9, 3), (HOUR - 1, HOUR + 1), (123, 77 * HOUR + 456), (0, 9_999 * HOUR)]
        {
            let attempt = attempt(from, to);
            let hours = attempt.by_hour();
            assert!(hours.len() as i64 <= MOST_HOURS && hours.windows(2).all(|two| two[0].0 + 1 == two[1].0));
            let mut sum = UsageSum::default();
            for (_, part) in &hours {
                sum.add(part);
            }
            assert_eq!(sum, attempt.sum(), "{from} to {to}");
        }
        let [(0, first), (1, second)] = attempt(HOUR / 2, 2 * HOUR - 1).by_hour()[..] else {
            panic!("two hours")
        };
        assert_eq!((first.attempts, second.attempts), (0, 1));
        assert!(second.wall_ms.abs_diff(2 * first.wall_ms) <= 2);
    }

    #[test]
    fn a_job_knows_its_last_attempt_and_all_of_them() {
        let spent =
            |ms, peak| Spent { cpu_user_ms: Some(ms), peak_memory_bytes: Some(peak), ..Spent::default() };
        let spec = std::sync::Arc::new(crate::JobSpec::shell("x"));
        let id = crate::JobId::from_random([1; 16]);
        let mut job = Job::new(id, spec, crate::Phase::Pending, Timestamp::default());
        job.note_spent(&Spent::default());
        assert_eq!(job.spent, None);
        job.note_spent(&spent(5, 100));
        job.note_spent(&spent(7, 30));
        let known = job.spent.unwrap();
        assert_eq!((known.last, known.total()), (spent(7, 30), spent(12, 100)));
    }
}
