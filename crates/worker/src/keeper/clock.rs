//! The clock of leases: it goes on while the machine sleeps and never jumps.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, the time asleep included. Equal in all processes of a machine.
pub fn boottime_ns() -> u64 {
    // The call fails only for a clock that does not exist; this one does since Linux 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
        u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}

/// Milliseconds to nanoseconds.
pub(super) fn ms(milliseconds: u64) -> u64 {
    milliseconds.saturating_mul(1_000_000)
}
