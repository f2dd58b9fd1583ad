//! One line at the bottom of the terminal that says what is waited for.
//!
//! Guarantee: it is gone before anything else is written through this crate, and it is never written to
//! anything but a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::crossterm::terminal;

/// To the first column, and the rest of the line is blank.
const WIPE: &[u8] = b"\r\x1b[K";
/// What a terminal writes behind the line when Ctrl-C is pressed must not begin another one.
const ROOM: u16 = 3;
const USUAL_WIDTH: u16 = 80;

static SHOWN: AtomicBool = AtomicBool::new(false);

/// Whether there is somebody to see it.
pub(crate) fn is_possible() -> bool {
    io::stderr().is_terminal() && std::env::var("TERM").is_ok_and(|name| name != "dumb")
}

/// Shows the text instead of what was shown before; it is cut where the terminal ends.
pub(crate) fn show(text: &str) {
    let columns = terminal::size().map_or(USUAL_WIDTH, |(columns, _)| columns);
    let line: String = text.chars().take(usize::from(columns.saturating_sub(ROOM))).collect();
    let mut out = io::stderr().lock();
    SHOWN.store(true, Ordering::SeqCst);
    // A closed standard error is nothing to fail for.
    let _ = out.write_all(&[WIPE, line.as_bytes()].concat()).and_then(|()| out.flush());
}

/// Takes the line away; says whether there was one.
pub(crate) fn clear() -> bool {
    let shown = SHOWN.swap(false, Ordering::SeqCst);
    if shown {
        let mut out = io::stderr().lock();
        let _ = out.write_all(WIPE).and_then(|()| out.flush());
    }
    shown
}
