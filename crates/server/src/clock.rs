//! The only place that reads the clock, and the only translation of times to the wire.
//!
//! Guarantee: the time of a [`Clock`] never goes back and never jumps, whatever happens to the wall clock. It runs with the
//! machine and is drawn towards the wall clock by at most a tenth of the time that passes, so that a clock
//! that is set by an hour makes nobody look silent and ends no delay early.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_domain::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// The time follows the wall clock by one part in this many of what passes.
const PULL: i64 = 10;

/// The time as it was last told, in microseconds, and the state of the machine's own clock then.
#[derive(Debug, Clone, Copy)]
struct Steady {
    told: i64,
    machine: i64,
}

impl Steady {
    /// Moves on to the given state of both clocks.
    fn advance(&mut self, machine: i64, wall: i64) -> i64 {
        let passed = machine.saturating_sub(self.machine).max(0);
        let expected = self.told.saturating_add(passed);
        let most = passed / PULL;
        self.told = expected.saturating_add(wall.saturating_sub(expected).clamp(-most, most));
        self.machine = self.machine.max(machine);
        self.told
    }
}

/// What the two clocks of a machine show, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Time since 1970, as somebody has set it.
    pub wall: i64,
    /// Time since the machine started, sleep included. Nobody can set it.
    pub machine: i64,
}

/// A place to read the time from.
pub trait TimeSource: Send + Sync + fmt::Debug {
    fn read(&self) -> Reading;
}

/// The clocks of the machine that this runs on.
#[derive(Debug)]
struct ThisMachine;

impl TimeSource for ThisMachine {
    fn read(&self) -> Reading {
        let wall = wall();
        Reading { wall, machine: machine(wall) }
    }
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Time since the machine started, sleep included. Without such a clock there is only the wall clock.
fn machine(wall: i64) -> i64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(wall, |time| time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_nsec() / 1_000))
}

/// The time of a scheduler. Copies of a clock tell the same time.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Arc<dyn TimeSource>,
    steady: Arc<Mutex<Option<Steady>>>,
}

static THIS_MACHINE: LazyLock<Clock> = LazyLock::new(|| Clock::new(ThisMachine));

impl Clock {
    /// A clock that begins with what the source shows as the wall clock.
    pub fn new(source: impl TimeSource + 'static) -> Self {
        Self { source: Arc::new(source), steady: Arc::default() }
    }

    /// The clock of this process.
    pub fn of_this_machine() -> Self {
        THIS_MACHINE.clone()
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let mut steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        let Reading { wall, machine } = self.source.read();
        let steady = steady.get_or_insert(Steady { told: wall, machine });
        Timestamp::from_micros(steady.advance(machine, wall))
    }
}

impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.steady, &other.steady)
    }
}

impl Eq for Clock {}

/// A time as the wire shows it. Times beyond what the format can express become its end.
pub fn to_wire(time: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(time.as_micros()).unwrap_or(jiff::Timestamp::MAX)
}

/// A time from the wire.
pub fn from_wire(time: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(time.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;
    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_jump_of_the_wall_clock_is_followed_slowly() {
        for jump in [HOUR, -HOUR] {
            let mut steady = Steady { told: 100 * HOUR, machine: 0 };
            let mut last = steady.told;
            for second in 1..=60 {
                let machine = second * SECOND;
                let told = steady.advance(machine, 100 * HOUR + machine + jump);
                let step = told - last;
                assert!((9 * SECOND / 10..=11 * SECOND / 10).contains(&step), "{jump}: {step}");
                last = told;
            }
            let day = 24 * HOUR;
            assert_eq!(steady.advance(day, 100 * HOUR + day + jump), 100 * HOUR + day + jump, "caught up");
        }
    }

    #[test]
    fn the_time_never_goes_back() {
        let mut steady = Steady { told: 5 * SECOND, machine: 10 };
        assert_eq!(steady.advance(10, 0), 5 * SECOND);
        assert_eq!(steady.advance(3, 0), 5 * SECOND, "not even when the machine's clock does");
        let clock = Clock::of_this_machine();
        assert!(clock.now() <= clock.now());
    }
}
