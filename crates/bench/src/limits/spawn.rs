//! The bare spawn loop: one thread per slot that starts `/bin/true` and waits for it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

/// Processes started and waited for per second, `slots` at a time.
pub(crate) fn spawns_per_second(slots: usize, processes: usize) -> Result<f64> {
    let left = AtomicUsize::new(processes);
    let begin = Instant::now();
    thread::scope(|scope| {
        let loops: Vec<_> = (0..slots).map(|_| scope.spawn(|| spawn_until_none_is_left(&left))).collect();
        loops.into_iter().try_for_each(|each| each.join().map_err(|_| anyhow!("a spawn loop panicked"))?)
    })?;
    Ok(processes as f64 / begin.elapsed().as_secs_f64())
}

fn spawn_until_none_is_left(left: &AtomicUsize) -> Result<()> {
    let take = |count: usize| count.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().context("running /bin/true")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_ends_and_has_a_rate() {
        assert!(spawns_per_second(2, 10).unwrap() > 0.0);
    }
}
