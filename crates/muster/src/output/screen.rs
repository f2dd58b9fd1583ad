//! Where output goes and what it may look like there: width, colours, time zone, JSON or text.
//!
//! Guarantee: a reader that went away is an `io::Error` of kind `BrokenPipe`, never a panic.

use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::Table;

use super::status;
use crate::args::{ColorChoice, GlobalArgs};
use crate::environment;
use crate::zone::Zone;

/// The narrowest terminal that tables are fitted to; below that, lines wrap.
const NARROWEST: u16 = 40;

/// Standard output, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) json: bool,
    pub(crate) colour: bool,
    /// The columns that a line may take; `None` when nobody looks, and nothing is shortened.
    pub(crate) width: Option<u16>,
    /// In which times are shown.
    pub(crate) zone: Zone,
}

impl Screen {
    /// Looks at standard output and the environment.
    pub(crate) fn find(global: &GlobalArgs) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os(environment::NO_COLOR).is_some_and(|value| !value.is_empty());
        let colour = match global.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !no_color,
        };
        let zone = if global.utc { Zone::UTC } else { Zone::of_system() };
        Self { json: global.json, colour, width: width(terminal), zone }
    }

    /// Writes a text and the end of its line.
    #[expect(clippy::unused_self, reason = "printing is an act of the screen")]
    pub(crate) fn line(self, line: &str) -> io::Result<()> {
        text(&format!("{line}\n"))
    }
}

/// Writes a text as it is.
pub(crate) fn text(text: &str) -> io::Result<()> {
    status::clear();
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn width(terminal: bool) -> Option<u16> {
    let columns = std::env::var(environment::COLUMNS).ok().and_then(|text| text.parse().ok());
    let found = if terminal { Table::new().width().or(columns) } else { columns };
    found.filter(|width| *width > 0).map(|width| width.max(NARROWEST))
}

/// Ends the line on which a terminal has shown a key such as `^C`.
pub(crate) fn after_key() {
    if !status::clear() && io::stderr().is_terminal() {
        let _ = io::stderr().lock().write_all(b"\n");
    }
}

/// Tells people something that is not data. A closed standard error is nothing to fail for.
pub(crate) fn note(text: &str) {
    status::clear();
    // In one piece: the output of a job may come in between.
    let _ = io::stderr().lock().write_all(format!("muster: {text}\n").as_bytes());
}
