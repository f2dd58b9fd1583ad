//! Our terminal while a program elsewhere has it.
//!
//! Guarantee: on every way out (return, error, panic, a signal that can be heard) it has the line discipline that it had, no
//! mouse reports, its cursor, and its own screen.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use muster_protocol::TerminalSize;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use ratatui::crossterm::terminal;

/// What a program may have switched on that nobody switches off when it is left: attributes, mouse reports, pasting in
/// brackets, a hidden cursor.
const RESET: &[u8] = b"\x1b[0m\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h";
const OTHER_SCREEN: &[u8] = b"\x1b[?1049h";
const OWN_SCREEN: &[u8] = b"\x1b[?1049l";

/// How it was, as long as it is not so.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether there is a terminal at both ends of us.
pub(crate) fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The size of our terminal.
pub(crate) fn size() -> Option<TerminalSize> {
    let (columns, rows) = terminal::size().ok()?;
    Some(TerminalSize { columns, rows })
}

/// The terminal in raw mode, as long as this value lives.
#[derive(Debug)]
pub(super) struct RawMode {
    /// The program shows its own screen.
    other_screen: bool,
}

impl RawMode {
    pub(super) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let mode = Self { other_screen: false };
        // Nothing that was typed already is thrown away.
        tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw)?;
        Ok(mode)
    }

    /// Notes what a program does to the screen.
    pub(super) fn watch(&mut self, output: &[u8]) {
        let last = |sign: &[u8]| output.windows(sign.len()).rposition(|window| window == sign);
        match (last(OTHER_SCREEN), last(OWN_SCREEN)) {
            (Some(there), Some(back)) => self.other_screen = there > back,
            (Some(_), None) => self.other_screen = true,
            (None, Some(_)) => self.other_screen = false,
            (None, None) => {}
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let mut out = io::stdout();
        // A terminal that is gone needs nothing.
        if self.other_screen {
            let _ = out.write_all(OWN_SCREEN);
        }
        let _ = out.write_all(RESET).and_then(|()| out.flush());
        restore();
    }
}

fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &before);
    }
}
