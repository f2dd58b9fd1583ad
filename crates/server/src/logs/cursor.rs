//! How far a reader has come, as a text that it can bring back later.
//!
//! Output of a run may still come when the next one has begun, so that a place in the last two is kept.

use std::fmt;
use std::str::FromStr;

use muster_protocol::LogStream;

use super::names::Run;

/// Runs that are looked at; only the last that ended may still get output.
const PLACES: usize = 2;
/// The cursor of a reader that has seen nothing because there was nothing.
const START: &str = "start";

/// How far the two streams of one run were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) run: Run,
    pub(super) stdout: u64,
    pub(super) stderr: u64,
}

impl Place {
    pub(super) fn of(&mut self, stream: LogStream) -> &mut u64 {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        }
    }
}

/// The places, oldest run first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(super) places: Vec<Place>,
}

impl Cursor {
    /// Moves within a run that it knows.
    pub(super) fn set(&mut self, run: Run, stream: LogStream, position: u64) {
        for place in self.places.iter_mut().filter(|place| place.run == run) {
            *place.of(stream) = position;
        }
    }

    /// Goes on to another run.
    pub(super) fn enter(&mut self, place: Place) {
        self.places.push(place);
        let surplus = self.places.len().saturating_sub(PLACES);
        self.places.drain(..surplus);
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.places.is_empty() {
            return f.write_str(START);
        }
        for (index, place) in self.places.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let Run { attempt, lease } = place.run;
            write!(f, "{separator}{attempt}.{lease}.{}.{}", place.stdout, place.stderr)?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == START {
            return Ok(Self::default());
        }
        let mut cursor = Self::default();
        for part in text.split(',') {
            let mut numbers = part.split('.');
            let mut number = || numbers.next().and_then(|number| number.parse::<u64>().ok()).ok_or(());
            let attempt = u32::try_from(number()?).map_err(|_| ())?;
            let run = Run { attempt, lease: number()? };
            cursor.enter(Place { run, stdout: number()?, stderr: number()? });
            if numbers.next().is_some() {
                return Err(());
            }
        }
        Ok(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for text in ["start", "1.1.0.0", "1.3.10.2,2.5.0.7"] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
        for text in ["", "1", "1.2.3", "1.2.3.4.5", "1.2.3.x", "1.2.3.4,", "-1.2.3.4"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_last_two_runs_are_kept() {
        let cursor: Cursor = "1.1.1.1,2.2.2.2,3.3.3.3".parse().unwrap();
        assert_eq!(cursor.to_string(), "2.2.2.2,3.3.3.3");
    }
}
