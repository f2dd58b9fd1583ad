//! The bare spawn loop: one thread per slot that starts `/bin/true` and waits for it; and one that only starts
//! processes.

use std::process::{Child, Command, Stdio};
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

/// Starts `count` processes from so many threads and does not wait for them. `command` is asked for each by its
/// number, from 0.
pub(crate) fn start_all(
    threads: usize,
    count: usize,
    command: impl Fn(usize) -> Command + Sync,
) -> Result<Vec<Child>> {
    let next = AtomicUsize::new(0);
    let start = || {
        let mut children = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(children);
            }
            let mut command = command(index);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            children.push(command.spawn().context("starting a process")?);
        }
    };
    thread::scope(|scope| {
        let loops: Vec<_> = (0..threads).map(|_| scope.spawn(start)).collect();
        let mut children = Vec::with_capacity(count);
        for each in loops {
            let started: Result<Vec<Child>> = each.join().map_err(|_| anyhow!("a spawn loop panicked"))?;
            children.extend(started?);
        }
        Ok(children)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_ends_and_has_a_rate() {
        assert!(spawns_per_second(2, 10).unwrap() > 0.0);
    }

    #[test]
    fn each_number_is_started_once() {
        let command = |index: usize| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &format!("exit {index}")]);
            command
        };
        let children = start_all(2, 5, command).unwrap();
        let mut codes: Vec<_> =
            children.into_iter().map(|mut child| child.wait().unwrap().code().unwrap()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [0, 1, 2, 3, 4]);
    }
}
