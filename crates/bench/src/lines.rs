//! The job of the output workload: this program itself, which writes lines at an even rate for some time.

use std::ffi::OsString;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

/// The first argument that selects this mode.
pub(crate) const MODE: &str = "lines";
/// The length of each line, its break included.
pub(crate) const LINE_BYTES: usize = 80;
/// Lines are written this often, as a program does that writes what it does step by step.
const PAUSE: Duration = Duration::from_millis(10);

/// Writes to standard output what the arguments after the mode say: lines a second, and for how many milliseconds.
pub(crate) fn write(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut number = || {
        let text = arguments.next().and_then(|text| text.into_string().ok());
        text.and_then(|text| text.parse().ok()).ok_or(io::ErrorKind::InvalidInput)
    };
    let (rate, millis) = (number()?, number()?);
    paced(io::stdout().lock(), rate, Duration::from_millis(millis))
}

/// How many lines such a job writes.
pub(crate) fn total(rate: u64, duration: Duration) -> u64 {
    rate * duration.as_millis() as u64 / 1_000
}

fn paced(mut out: impl Write, rate: u64, duration: Duration) -> io::Result<()> {
    let all = total(rate, duration);
    let begin = Instant::now();
    let mut written = 0;
    while begin.elapsed() < duration || written < all {
        let due = total(rate, begin.elapsed().min(duration));
        let mut lines = Vec::with_capacity((due - written) as usize * LINE_BYTES);
        for number in written..due {
            writeln!(lines, "{number:0>width$}", width = LINE_BYTES - 1)?;
        }
        out.write_all(&lines)?;
        written = due;
        thread::sleep(PAUSE);
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_written_once() {
        let mut out = Vec::new();
        paced(&mut out, 1_000, Duration::from_millis(50)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>());
        assert!(text.lines().all(|line| line.len() + 1 == LINE_BYTES));
    }
}
