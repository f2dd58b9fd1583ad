//! The only place that reads the clock, and the only translation of times to the wire.
//!
//! Guarantee: the time of a [`Clock`] never goes back and never jumps, whatever happens to the wall clock. It runs with the
//! machine and is drawn towards the wall clock by at most a tenth of the time that passes, so that a clock
//! that is set by an hour makes nobody look silent and ends no delay early. Where several schedulers share a store,
//! its clock stands in for the wall clock of each, so that none of them takes for silent what another one has just
//! heard of. The one time that the time is set at once is when the store was asked first.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_domain::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// The time follows the wall clock by one part in this many of what passes.
const PULL: i64 = 10;

/// An answer of the store's clock that took longer says too little, in microseconds.
const LATE: i64 = 2_000_000;

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
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    steady: Option<Steady>,
    /// By how much the wall clock is behind the clock of the store, in microseconds.
    behind: Option<i64>,
}

static THIS_MACHINE: LazyLock<Clock> = LazyLock::new(|| Clock::new(ThisMachine));

impl Clock {
    /// A clock that begins with what the source shows as the wall clock.
    pub fn new(source: impl TimeSource + 'static) -> Self {
        Self { source: Arc::new(source), state: Arc::default() }
    }

    /// The clock of this process.
    pub fn of_this_machine() -> Self {
        THIS_MACHINE.clone()
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Reading { wall, machine } = self.source.read();
        let wall = wall.saturating_add(state.behind.unwrap_or(0));
        let steady = state.steady.get_or_insert(Steady { told: wall, machine });
        Timestamp::from_micros(steady.advance(machine, wall))
    }

    /// What the clocks of the machine show, for [`Clock::follow`].
    pub(crate) fn read(&self) -> Reading {
        self.source.read()
    }

    /// Whether it is known which clock to keep to.
    pub(crate) fn is_settled(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).behind.is_some()
    }

    /// There is no other clock to keep to.
    pub(crate) fn stands_alone(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).behind.get_or_insert(0);
    }

    /// Keeps to another clock from now on, which showed `time` at some moment between `asked` and now. True when
    /// that set the time at once, since it was the first time. Later an answer that took long counts for nothing.
    pub(crate) fn follow(&self, asked: Reading, time: Timestamp) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = self.source.read();
        let took = answered.machine - asked.machine;
        let first = state.behind.is_none();
        if !first && took > LATE {
            return false;
        }
        // By the wall clock as it is now: somebody may have set it while the answer was on its way.
        state.behind = Some(time.as_micros().saturating_add(took / 2).saturating_sub(answered.wall));
        if first {
            state.steady = None;
        }
        first
    }
}

impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
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

    #[derive(Debug, Clone)]
    struct Set(Arc<Mutex<Reading>>);

    impl TimeSource for Set {
        fn read(&self) -> Reading {
            *self.0.lock().unwrap()
        }
    }

    #[test]
    fn a_clock_that_follows_another_keeps_to_it_whatever_becomes_of_the_wall_clock() {
        let source = Set(Arc::new(Mutex::new(Reading { wall: 7 * HOUR, machine: 0 })));
        let pass = |micros: i64, jump: i64| {
            let mut reading = source.0.lock().unwrap();
            reading.wall += micros + jump;
            reading.machine += micros;
        };
        let clock = Clock::new(source.clone());
        assert_eq!(clock.now().as_micros(), 7 * HOUR, "nobody knows better yet");
        assert!(clock.follow(clock.read(), Timestamp::from_micros(5 * HOUR)), "the first answer sets it");
        assert_eq!(clock.now().as_micros(), 5 * HOUR);
        for second in 1..=600 {
            // Somebody sets the wall clock every minute; it is asked every five seconds.
            pass(SECOND, if second % 60 == 0 { HOUR } else { 0 });
            let right = 5 * HOUR + second * SECOND;
            if second % 5 == 0 {
                assert!(!clock.follow(clock.read(), Timestamp::from_micros(right)));
            }
            let told = clock.now().as_micros();
            assert!((told - right).abs() <= SECOND / 2, "second {second}: {}", told - right);
        }
    }

    #[test]
    fn an_answer_that_is_late_counts_for_nothing() {
        let source = Set(Arc::new(Mutex::new(Reading { wall: 7 * HOUR, machine: 0 })));
        let clock = Clock::new(source.clone());
        assert!(!clock.is_settled());
        clock.stands_alone();
        assert!(clock.is_settled());
        let (asked, took) = (clock.read(), 3 * SECOND);
        *source.0.lock().unwrap() = Reading { wall: 7 * HOUR + took, machine: took };
        assert!(!clock.follow(asked, Timestamp::from_micros(5 * HOUR)));
        assert_eq!(clock.now().as_micros(), 7 * HOUR + took, "as if nobody had answered");
    }

    #[test]
    fn a_wall_clock_that_is_set_while_the_answer_is_on_its_way_makes_no_difference() {
        let (took, jump) = (SECOND / 10, -75 * SECOND);
        for first in [true, false] {
            let source = Set(Arc::new(Mutex::new(Reading { wall: 7 * HOUR, machine: 0 })));
            let clock = Clock::new(source.clone());
            if !first {
                clock.follow(clock.read(), Timestamp::from_micros(5 * HOUR - SECOND));
            }
            let asked = clock.read();
            *source.0.lock().unwrap() = Reading { wall: 7 * HOUR + took + jump, machine: took };
            assert_eq!(clock.follow(asked, Timestamp::from_micros(5 * HOUR)), first);
            *source.0.lock().unwrap() =
                Reading { wall: 7 * HOUR + took + jump + 20 * SECOND, machine: took + 20 * SECOND };
            let right = 5 * HOUR + took / 2 + 20 * SECOND;
            assert_eq!(clock.now().as_micros(), right, "first answer: {first}");
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
