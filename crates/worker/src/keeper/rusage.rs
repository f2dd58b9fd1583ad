//! What a process has used, as its parent hears it when the process is collected.
//!
//! This is the measure where there are no control groups. It covers the process and what its family has waited for;
//! what nobody has waited for is missing.

use std::io;

use muster_protocol::Usage;
use nix::libc;
use nix::sys::resource::{UsageWho, getrusage};

/// The unit of the kernel's counts of input and output.
const BLOCK_BYTES: u64 = 512;

/// Collects a child that has ended: its status, and what it has used.
///
/// By a bare call: the safe wrapper does not know real-time signals.
pub(super) fn collect(pid: i32) -> io::Result<(i32, Usage)> {
    let mut status = 0;
    loop {
        #[expect(unsafe_code, reason = "the safe wrapper takes an end by a real-time signal for a mistake")]
        // SAFETY: the structure is valid when it is all zeros; the call writes it and the number, and nothing else of
        // ours.
        let (collected, used) = unsafe {
            let mut used: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &raw mut status, 0, &raw mut used), used)
        };
        if collected == pid {
            return Ok((status, usage(&used, own_peak_bytes())));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A new process borrows the memory of the keeper until it has its program, and the kernel counts that as its own. So
/// a peak that is no larger than the keeper's says nothing.
fn usage(used: &libc::rusage, own_peak_bytes: u64) -> Usage {
    let whole = |number: i64| u64::try_from(number).unwrap_or(0);
    let ms = |time: &libc::timeval| whole(time.tv_sec) * 1_000 + whole(time.tv_usec) / 1_000;
    let peak_bytes = whole(used.ru_maxrss) * 1_024;
    Usage {
        cpu_user_ms: Some(ms(&used.ru_utime)),
        cpu_system_ms: Some(ms(&used.ru_stime)),
        peak_memory_bytes: (peak_bytes > own_peak_bytes).then_some(peak_bytes),
        read_bytes: Some(whole(used.ru_inblock) * BLOCK_BYTES),
        written_bytes: Some(whole(used.ru_oublock) * BLOCK_BYTES),
        peak_gpu_memory_bytes: None,
    }
}

fn own_peak_bytes() -> u64 {
    let own = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |own| own.max_rss());
    u64::try_from(own).unwrap_or(0) * 1_024
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn used_by(script: &str) -> Usage {
        #[expect(clippy::zombie_processes, reason = "it is collected by what is tested")]
        let child = Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        collect(i32::try_from(child.id()).unwrap()).unwrap().1
    }

    #[test]
    fn time_and_memory_of_a_process_and_of_what_it_waited_for_are_counted() {
        let used = used_by("(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); true");
        assert!(used.cpu_user_ms.unwrap() >= 10, "{used:?}");
        let large = "head -c 300000000 /dev/zero | tail -c 300000000 | wc -c > /dev/null";
        let peak = used_by(large).peak_memory_bytes.unwrap();
        assert!((290_000_000..600_000_000).contains(&peak), "{peak}");
    }

    #[test]
    fn memory_that_was_only_borrowed_from_the_keeper_is_not_told() {
        #[expect(unsafe_code, reason = "the structure has no other constructor")]
        // SAFETY: it is valid when it is all zeros.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        used.ru_maxrss = 4_096;
        used.ru_oublock = 2;
        assert_eq!(usage(&used, 4_096 * 1_024).peak_memory_bytes, None);
        let counted = usage(&used, 4_095 * 1_024);
        assert_eq!((counted.peak_memory_bytes, counted.written_bytes), (Some(4_096 * 1_024), Some(1_024)));
    }
}
