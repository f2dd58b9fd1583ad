//! Colours and signs, as far as the terminal has them. Without colours nothing is lost: what matters is
//! also said in words, and the selection is shown in reverse.

use muster_protocol::{JobStatus, WorkerStatus};
use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) colour: bool,
    pub(crate) unicode: bool,
}

#[expect(clippy::unused_self, reason = "which styles depend on colours is for this file alone to know")]
impl Theme {
    /// Looks at the locale of the environment, as terminals do.
    pub(crate) fn find(colour: bool) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        let unicode = locale.is_none_or(|name| {
            let name = name.to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        });
        Self { colour, unicode }
    }

    pub(super) fn more(self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    pub(super) fn blocks(self) -> (char, char) {
        if self.unicode { ('█', '░') } else { ('#', '-') }
    }

    pub(super) fn line(self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    pub(super) fn marker(self) -> char {
        if self.unicode { '▸' } else { '>' }
    }

    pub(super) fn separator(self) -> &'static str {
        if self.unicode { " · " } else { " | " }
    }

    fn with(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    /// What is there but not important.
    pub(super) fn quiet(self) -> Style {
        self.with(Color::DarkGray)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn good(self) -> Style {
        self.with(Color::Green)
    }

    pub(super) fn bad(self) -> Style {
        self.with(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn warning(self) -> Style {
        self.with(Color::Yellow)
    }

    pub(super) fn active(self) -> Style {
        self.with(Color::Cyan)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The colour of a share that is used: full is what one looks for.
    pub(super) fn load(self, part: f64, whole: f64) -> Style {
        if whole > 0.0 && part / whole > 0.95 { self.warning() } else { self.active() }
    }

    pub(super) fn of_status(self, status: JobStatus) -> Style {
        match status {
            JobStatus::Done | JobStatus::Finished => self.good(),
            JobStatus::Failed => self.bad(),
            JobStatus::Cancelled | JobStatus::Preempted | JobStatus::Preempting => self.warning(),
            JobStatus::Running => self.active(),
            JobStatus::Pending | JobStatus::Blocked | JobStatus::Reserved => self.plain(),
        }
    }

    pub(super) fn of_worker(self, status: WorkerStatus, quarantined: bool) -> Style {
        match (status, quarantined) {
            (WorkerStatus::Offline, _) => self.bad(),
            (WorkerStatus::Active, true) => self.warning(),
            (WorkerStatus::Active, false) => self.good(),
        }
    }
}
