//! Waiting for a condition, always with a bound and a name for what is awaited.

use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// Asks until the probe gives a value; fails the test when the bound has passed.
pub fn eventually<T>(what: &str, bound: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + bound;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {bound:?} in vain: {what}");
        thread::sleep(POLL);
    }
}

/// Waits until the condition holds.
pub fn until(what: &str, bound: Duration, mut condition: impl FnMut() -> bool) {
    eventually(what, bound, || condition().then_some(()));
}
