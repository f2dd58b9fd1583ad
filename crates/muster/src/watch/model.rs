//! What the screen is about: the last answer of the scheduler, where the reader stands, what is open.
//!
//! Guarantee: nothing here touches the world. `update` takes what happened and returns what to do about
//! it; the time is among what happened.

use jiff::Timestamp;
use muster_protocol::{Job, LogStream, SetKind, Why};

use super::filter::Filter;
use super::input::Action;
use super::logs::LogView;
use super::panes::{Cursor, Pane};
use super::snapshot::{Snapshot, Wanted};
use crate::output::human::why_parts;
use crate::zone::Zone;

/// Jobs of each group that are read.
const PAGE: u32 = 200;
const ENDED_PAGE: u32 = 50;
const SETS_PAGE: u32 = 20;
/// `top` puts running jobs in order, so that it wants as many as one page can have.
const TOP_PAGE: u32 = 1000;
/// A remark is shown this long.
const NOTICE_SECONDS: i64 = 8;

/// What is on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrangement {
    Watch,
    Top,
}

/// The order of running jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// The longest first.
    Ran,
    /// The most cores first.
    Cpus,
    /// The most memory first.
    Memory,
    /// The most GPUs first.
    Gpus,
}

impl Order {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Ran => Self::Cpus,
            Self::Cpus => Self::Memory,
            Self::Memory => Self::Gpus,
            Self::Gpus => Self::Ran,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ran => "time",
            Self::Cpus => "cpus",
            Self::Memory => "memory",
            Self::Gpus => "gpus",
        }
    }

    /// Puts the jobs in order; those with the same amount by time.
    pub(crate) fn sort(self, jobs: &mut [Job]) {
        let needs = |job: &Job| job.resources.clone().unwrap_or_default();
        jobs.sort_by_key(|job| (job.started_at.is_none(), job.started_at));
        match self {
            Self::Ran => {}
            Self::Cpus => jobs.sort_by(|one, other| needs(other).cpus.total_cmp(&needs(one).cpus)),
            Self::Memory => jobs.sort_by_key(|job| std::cmp::Reverse(needs(job).memory_mb)),
            Self::Gpus => jobs.sort_by_key(|job| std::cmp::Reverse((needs(job).gpus, needs(job).vram_mb))),
        }
    }
}

/// Whether the scheduler answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    Connecting,
    Live,
    Away { since: Timestamp, why: String },
}

/// What lies over the lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    Lists,
    /// The filter is being typed.
    Filter {
        line: String,
    },
    /// A question that waits for its answer.
    Confirm {
        then: Box<Request>,
        question: Vec<String>,
    },
    Help,
    /// A text to read, such as an explanation.
    Text {
        title: String,
        lines: Vec<String>,
        top: usize,
    },
    Logs(Box<LogView>),
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Message {
    Key(Action),
    Tick(Timestamp),
    Resized {
        width: u16,
        height: u16,
    },
    Read(Box<Snapshot>),
    Away(String),
    /// `asked` when the reader wants to see it now.
    Explained {
        why: Box<Why>,
        asked: bool,
    },
    Described {
        job_id: String,
        lines: Vec<String>,
    },
    Output {
        job_id: String,
        attempt: u32,
        stream: LogStream,
        offset: u64,
        bytes: Vec<u8>,
    },
    OutputEnded {
        job_id: String,
        attempt: u32,
        how: String,
    },
    /// The job whose output is shown has begun this attempt.
    Attempt {
        job_id: String,
        number: u32,
    },
    Notice(String),
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Refresh(Wanted),
    Explain { job_id: String, asked: bool },
    Describe { job_id: String },
    Cancel { job_id: String },
    DescribeSet { kind: SetKind, id: String },
    CancelSet { kind: SetKind, id: String },
    OpenLogs { job_id: String, attempt: u32 },
    CloseLogs,
    Suspend,
    Redraw,
    Quit,
}

/// Everything that the view needs to know.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) url: String,
    pub(crate) arrangement: Arrangement,
    pub(crate) order: Order,
    pub(crate) now: Timestamp,
    pub(crate) zone: Zone,
    pub(crate) size: (u16, u16),
    pub(crate) link: Link,
    /// `None` before the first answer.
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) filter: Filter,
    pub(crate) filter_line: String,
    pub(crate) focus: Pane,
    pub(crate) cursors: [Cursor; Pane::ALL.len()],
    pub(crate) mode: Mode,
    pub(crate) notice: Option<(String, Timestamp)>,
    /// Why the selected job waits.
    pub(crate) why: Option<Why>,
}

impl Model {
    pub(crate) fn new(url: &str, arrangement: Arrangement, order: Order, now: Timestamp) -> Self {
        Self {
            url: url.to_owned(),
            arrangement,
            order,
            now,
            zone: Zone::UTC,
            size: (80, 24),
            link: Link::Connecting,
            snapshot: None,
            filter: Filter::default(),
            filter_line: String::new(),
            focus: Pane::Running,
            cursors: std::array::from_fn(|_| Cursor::default()),
            mode: Mode::Lists,
            notice: None,
            why: None,
        }
    }

    /// What to read for the screen as it is.
    pub(crate) fn wanted(&self) -> Wanted {
        let filter = self.filter.clone();
        match self.arrangement {
            Arrangement::Watch => {
                Wanted { filter, running: PAGE, waiting: PAGE, ended: ENDED_PAGE, sets: SETS_PAGE }
            }
            Arrangement::Top => Wanted { filter, running: TOP_PAGE, waiting: 0, ended: 0, sets: 0 },
        }
    }

    pub(crate) fn update(&mut self, message: Message) -> Vec<Request> {
        match message {
            Message::Key(action) => return self.act(action),
            Message::Tick(now) => self.tick(now),
            Message::Resized { width, height } => self.size = (width, height),
            Message::Read(snapshot) => return self.take(*snapshot),
            Message::Away(why) => self.away(why),
            Message::Explained { why, asked } => self.explained(*why, asked),
            Message::Described { job_id, lines } => {
                let title = super::view::short(&job_id).to_owned();
                self.mode = Mode::Text { title, lines, top: 0 };
            }
            Message::Output { job_id, attempt, stream, offset, bytes } => {
                if let Some(view) = self.log_of(&job_id, attempt) {
                    view.begin(stream, offset);
                    view.feed(stream, &bytes);
                }
            }
            Message::OutputEnded { job_id, attempt, how } => {
                if let Some(view) = self.log_of(&job_id, attempt) {
                    view.ended = Some(how);
                }
            }
            Message::Attempt { job_id, number } => return self.next_attempt(&job_id, number),
            Message::Notice(text) => self.say(text),
        }
        Vec::new()
    }

    fn tick(&mut self, now: Timestamp) {
        self.now = now;
        let shown = |at: Timestamp| now.as_second() - at.as_second() < NOTICE_SECONDS;
        self.notice = self.notice.take().filter(|(_, at)| shown(*at));
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.notice = Some((text.into(), self.now));
    }

    fn take(&mut self, mut snapshot: Snapshot) -> Vec<Request> {
        if let Link::Away { .. } = self.link {
            self.say("the scheduler is back");
        }
        self.link = Link::Live;
        for list in [&mut snapshot.running, &mut snapshot.waiting, &mut snapshot.ended] {
            list.jobs.retain(|job| self.filter.matches(job));
        }
        if self.arrangement == Arrangement::Top {
            self.order.sort(&mut snapshot.running.jobs);
        }
        self.snapshot = Some(snapshot);
        for pane in Pane::ALL {
            let keys = self.keys(pane);
            self.cursors[pane.index()].settle(&keys);
        }
        self.explain_selected()
    }

    fn away(&mut self, why: String) {
        let since = match &self.link {
            Link::Away { since, .. } => *since,
            Link::Connecting | Link::Live => self.now,
        };
        self.link = Link::Away { since, why };
    }

    fn explained(&mut self, why: Why, asked: bool) {
        if asked {
            let mut lines = vec![format!("{} is {}", why.id, muster_client::status_name(why.status))];
            for (title, part) in why_parts(&why, self.zone) {
                lines.extend((!title.is_empty()).then(|| title.to_owned()));
                lines.extend(part.iter().map(|line| format!("- {line}")));
            }
            self.mode = Mode::Text { title: "why".to_owned(), lines, top: 0 };
        }
        self.why = Some(why);
    }

    /// The open log, if it is of this job and attempt.
    fn log_of(&mut self, job_id: &str, attempt: u32) -> Option<&mut LogView> {
        match &mut self.mode {
            Mode::Logs(view) if view.job_id == job_id && view.attempt == attempt => Some(view),
            Mode::Logs(_)
            | Mode::Lists
            | Mode::Filter { .. }
            | Mode::Confirm { .. }
            | Mode::Help
            | Mode::Text { .. } => None,
        }
    }

    /// A reader who follows is taken along to the new attempt; others learn of it.
    fn next_attempt(&mut self, job_id: &str, number: u32) -> Vec<Request> {
        let Mode::Logs(view) = &mut self.mode else { return Vec::new() };
        if view.job_id != job_id || number <= view.attempts {
            return Vec::new();
        }
        let was_newest = view.attempt == view.attempts;
        view.attempts = number;
        if was_newest && view.follow {
            **view = view.at_attempt(number);
            return vec![Request::OpenLogs { job_id: job_id.to_owned(), attempt: number }];
        }
        self.say(format!("attempt {number} has begun: ] shows it"));
        Vec::new()
    }

    /// Asks why the selected job waits, unless that is known.
    pub(super) fn explain_selected(&mut self) -> Vec<Request> {
        let Some(job) = self.selected_job().filter(|_| self.focus == Pane::Waiting) else {
            return Vec::new();
        };
        let job_id = job.id.clone();
        if self.why.as_ref().is_some_and(|why| why.id != job_id) {
            self.why = None;
        }
        vec![Request::Explain { job_id, asked: false }]
    }

    /// How many lines a page of the focused list or of an open text has, as near as it matters.
    pub(super) fn page(&self) -> usize {
        usize::from(self.size.1).saturating_sub(4).max(1)
    }
}
