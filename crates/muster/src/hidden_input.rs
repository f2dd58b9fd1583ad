//! A line from the terminal that is not shown while it is typed.
//!
//! Guarantee: the terminal shows what is typed again afterwards, also when the line is given up.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use anyhow::Context as _;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: [u8; 2] = [8, 127];
const CTRL_U: u8 = 21;

/// The settings of the terminal as they were.
struct Restore(Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        // A terminal that is gone needs no mending.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
        eprintln!();
    }
}

/// Asks for a line.
pub(crate) fn line(prompt: &str) -> anyhow::Result<Vec<u8>> {
    anyhow::ensure!(
        io::stdin().is_terminal(),
        "there is no terminal to ask on: pass the password on standard input, with --password-stdin"
    );
    let before = tcgetattr(io::stdin()).context("cannot ask for the value on this terminal")?;
    let mut quiet = before.clone();
    // Signals are off too: Ctrl-C must not leave a terminal that shows nothing.
    quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
    eprint!("{prompt}");
    io::stderr().flush().context("cannot ask for the value")?;
    let _restore = Restore(before);
    tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &quiet).context("cannot ask for the value on this terminal")?;
    edited(io::stdin().lock().bytes())
}

fn edited(typed: impl Iterator<Item = io::Result<u8>>) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    for byte in typed {
        match byte.context("cannot read the value")? {
            b'\n' | b'\r' | CTRL_D => return Ok(line),
            CTRL_C => anyhow::bail!("given up; nothing was stored"),
            CTRL_U => line.clear(),
            byte if BACKSPACE.contains(&byte) => {
                line.pop();
            }
            byte => line.push(byte),
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_mended_and_given_up() {
        let of = |text: &[u8]| edited(text.iter().copied().map(Ok));
        assert_eq!(of(b"sesame\nmore").unwrap(), b"sesame");
        assert_eq!(of(b"wrong\x15sex\x7fsame\r").unwrap(), b"sesame");
        assert!(of(b"sesa\x03").is_err());
    }
}
