//! How far the policies are, in one line at the bottom of a terminal.
//!
//! Guarantee: without a terminal it says nothing, and it never delays what it speaks about.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use muster_replay::PolicyName;

use crate::output::status;

const TICK: Duration = Duration::from_millis(100);
const WIDTH: usize = 24;

/// Counts the jobs that have ended, for each policy.
#[derive(Debug)]
pub(super) struct Meter {
    policies: Vec<PolicyName>,
    ended: Vec<AtomicU64>,
    jobs: u64,
    /// How many policies are at their end.
    finished: Mutex<usize>,
    change: Condvar,
}

impl Meter {
    pub(super) fn new(policies: &[PolicyName], jobs: usize) -> Self {
        Self {
            policies: policies.to_vec(),
            ended: policies.iter().map(|_| AtomicU64::new(0)).collect(),
            jobs: jobs as u64,
            finished: Mutex::new(0),
            change: Condvar::new(),
        }
    }

    pub(super) fn advance(&self, policy: usize, ended: u64) {
        if let Some(count) = self.ended.get(policy) {
            count.store(ended, Ordering::Relaxed);
        }
    }

    pub(super) fn finish(&self, policy: usize) {
        self.advance(policy, self.jobs);
        if let Ok(mut finished) = self.finished.lock() {
            *finished += 1;
        }
        self.change.notify_all();
    }

    /// Draws until all policies are at their end.
    pub(super) fn show(&self) {
        if !status::is_possible() {
            return;
        }
        let Ok(mut finished) = self.finished.lock() else { return };
        while *finished < self.policies.len() {
            let Ok((guard, waited)) = self.change.wait_timeout(finished, TICK) else { break };
            finished = guard;
            if waited.timed_out() {
                status::show(&self.line());
            }
        }
        status::clear();
    }

    fn line(&self) -> String {
        let ended: Vec<u64> = self.ended.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let all = self.jobs.saturating_mul(self.policies.len() as u64).max(1);
        let share = ended.iter().sum::<u64>() as f64 / all as f64;
        let full = (share * WIDTH as f64) as usize;
        let bar: String = (0..WIDTH).map(|place| if place < full { '█' } else { '░' }).collect();
        let running: Vec<String> = self
            .policies
            .iter()
            .zip(&ended)
            .filter(|(_, ended)| **ended > 0 && **ended < self.jobs)
            .map(|(policy, ended)| format!("{policy} {} %", ended * 100 / self.jobs.max(1)))
            .collect();
        format!("{bar} {:>3.0} %  {}", share * 100.0, running.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_each_is() {
        let meter = Meter::new(&[PolicyName::Fifo, PolicyName::Easy, PolicyName::Muster], 200);
        meter.finish(0);
        meter.advance(1, 100);
        assert_eq!(meter.line(), "████████████░░░░░░░░░░░░  50 %  easy 50 %");
        meter.finish(1);
        meter.finish(2);
        // Does not wait for anybody any more.
        meter.show();
    }
}
