//! Waiting for a condition, always with a bound and a name for what is awaited.
//!
//! Guarantee: a bound ends a hang and judges no speed. However short the one that a test names, a busy machine gets
//! [`LEAST_BOUND`].

use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);
/// What a machine with many busy processes may need for anything that a test waits for.
const LEAST_BOUND: Duration = Duration::from_secs(120);

/// Asks until the probe gives a value; fails the test when the bound has passed.
pub fn eventually<T>(what: &str, bound: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let bound = bound.max(LEAST_BOUND);
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
