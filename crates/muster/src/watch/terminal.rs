//! Borrowing the terminal, and giving it back.
//!
//! Guarantee: however the program ends (return, error, panic, signal), the terminal has its own screen,
//! its cursor and its line discipline again.

use std::io::{self, BufWriter, IsTerminal as _, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

/// One write carries a whole picture, which matters over slow lines.
const BUFFER: usize = 64 * 1024;

/// Whether the terminal is not as it was.
static BORROWED: AtomicBool = AtomicBool::new(false);

/// The screen while it is ours.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    pub(super) fn borrow() -> io::Result<Self> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
        // From here on every way out goes through `drop`.
        let out = BufWriter::with_capacity(BUFFER, io::stdout());
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(out))? };
        prepare()?;
        Ok(screen)
    }

    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(render).map(|_| ())
    }

    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Draws everything anew, whatever others have written over it.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Gives the terminal back while the shell has the program stopped.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        restore();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGTSTP)?;
        prepare()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn prepare() -> io::Result<()> {
    BORROWED.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

/// Once: leaving the other screen again would move the cursor to where it was before a panic spoke. There
/// is nobody to tell when this fails.
fn restore() {
    if !BORROWED.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Whether there is a terminal to borrow.
pub(super) fn is_there() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|name| name == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}
