//! What the keys do to the model.

use muster_client::status_name;
use muster_protocol::{Job, JobSet, JobStatus, SetKind};

use super::filter::Filter;
use super::input::Action;
use super::logs::LogView;
use super::model::{Mode, Model, Request};
use super::panes::Pane;
use crate::exit;

impl Model {
    pub(super) fn act(&mut self, action: Action) -> Vec<Request> {
        match action {
            Action::Quit => return vec![Request::Quit],
            Action::Suspend => return vec![Request::Suspend],
            Action::Redraw => return vec![Request::Redraw],
            _ => {}
        }
        match self.mode {
            Mode::Lists => self.act_on_lists(action),
            Mode::Filter { .. } => self.act_on_filter(action),
            Mode::Confirm { .. } => self.act_on_question(action),
            Mode::Help | Mode::Text { .. } => self.act_on_text(action),
            Mode::Logs(_) => self.act_on_logs(action),
        }
    }

    fn act_on_lists(&mut self, action: Action) -> Vec<Request> {
        match action {
            Action::Move(by) => self.move_selection(by),
            Action::Page(by) => self.move_selection(by * (self.page() / 2).max(1) as isize),
            Action::First => self.select(0),
            Action::Last => self.select(usize::MAX),
            Action::NextPane => self.step_focus(true),
            Action::PreviousPane => self.step_focus(false),
            Action::Focus(pane) if self.panes().contains(&pane) => self.focus = pane,
            Action::Open => return self.open(),
            Action::Logs => return self.open_logs(),
            Action::Why => return self.ask(|job_id| Request::Explain { job_id, asked: true }),
            Action::Describe => return self.describe(),
            Action::Cancel => self.ask_cancel(),
            Action::EditFilter => self.mode = Mode::Filter { line: self.filter_line.clone() },
            Action::ClearFilter if !self.filter_line.is_empty() => return self.set_filter(String::new()),
            Action::NextOrder => {
                self.order = self.order.next();
                return vec![Request::Refresh(self.wanted())];
            }
            Action::Help => self.mode = Mode::Help,
            _ => return Vec::new(),
        }
        if self.mode == Mode::Lists { self.explain_selected() } else { Vec::new() }
    }

    /// The job that a key is about, or a word about there being none.
    fn job_or_say(&mut self) -> Option<Job> {
        let job = self.selected_job().cloned();
        if job.is_none() {
            self.say("no job is selected here: Tab goes to another list");
        }
        job
    }

    fn ask(&mut self, request: impl FnOnce(String) -> Request) -> Vec<Request> {
        self.job_or_say().map(|job| request(job.id)).into_iter().collect()
    }

    fn open(&mut self) -> Vec<Request> {
        let Some(key) = self.selected_key() else { return Vec::new() };
        match self.focus {
            Pane::Running | Pane::Waiting | Pane::Ended => self.open_logs(),
            Pane::Workers => self.show_only(format!("worker:{key}")),
            Pane::Queues if key.is_empty() => {
                self.say("the default queue has no name to filter by");
                Vec::new()
            }
            Pane::Queues => self.show_only(format!("queue:{key}")),
            Pane::Sets => match self.selected_set().map(|set| set.kind) {
                Some(SetKind::Pipeline) => self.show_only(format!("pipeline:{key}")),
                Some(SetKind::Array) => self.show_only(format!("array:{key}")),
                None => Vec::new(),
            },
        }
    }

    fn describe(&mut self) -> Vec<Request> {
        match self.selected_set() {
            Some(set) => vec![Request::DescribeSet { kind: set.kind, id: set.id.clone() }],
            None => self.ask(|job_id| Request::Describe { job_id }),
        }
    }

    fn show_only(&mut self, line: String) -> Vec<Request> {
        if line.contains(char::is_whitespace) {
            self.say("a name with blanks cannot be filtered by");
            return Vec::new();
        }
        self.focus = Pane::Running;
        self.set_filter(line)
    }

    fn open_logs(&mut self) -> Vec<Request> {
        let Some(job) = self.job_or_say() else { return Vec::new() };
        if job.attempts == 0 {
            self.say("the job has not started, so that it has no output: w says why");
            return Vec::new();
        }
        let title = job.name.clone().unwrap_or_else(|| super::view::command(&job));
        self.mode = Mode::Logs(Box::new(LogView::new(&job.id, &title, job.attempts)));
        vec![Request::OpenLogs { job_id: job.id, attempt: job.attempts }]
    }

    fn ask_cancel(&mut self) {
        if let Some(set) = self.selected_set().cloned() {
            return self.ask_cancel_set(&set);
        }
        let Some(job) = self.job_or_say() else { return };
        if self.has_ended(job.status) {
            return;
        }
        let what = job.name.clone().unwrap_or_else(|| super::view::command(&job));
        let place = job.worker_id.as_deref().map(|worker| format!(" on {worker}")).unwrap_or_default();
        let question = vec![
            format!("Cancel {}?", super::view::short(&job.id)),
            format!("{what}, {}{place}", status_name(job.status)),
            "Jobs that depend on it may end with it.".to_owned(),
        ];
        self.mode = Mode::Confirm { then: Box::new(Request::Cancel { job_id: job.id }), question };
    }

    fn ask_cancel_set(&mut self, set: &JobSet) {
        if self.has_ended(set.status) {
            return;
        }
        let kind = match set.kind {
            SetKind::Pipeline => "pipeline",
            SetKind::Array => "array",
        };
        let question = vec![
            format!("Cancel the whole {kind} {}?", super::view::short(&set.id)),
            format!("{}, {} jobs", set.name.as_deref().unwrap_or("without a name"), set.size),
            "All of its jobs that have not ended will.".to_owned(),
        ];
        let then = Box::new(Request::CancelSet { kind: set.kind, id: set.id.clone() });
        self.mode = Mode::Confirm { then, question };
    }

    /// Says so, if it has.
    fn has_ended(&mut self, status: JobStatus) -> bool {
        let ended = exit::is_final(status);
        if ended {
            self.say(format!("it is {} already", status_name(status)));
        }
        ended
    }

    fn act_on_question(&mut self, action: Action) -> Vec<Request> {
        let Mode::Confirm { then, .. } = &self.mode else { return Vec::new() };
        let then = Request::clone(then);
        match action {
            Action::Yes => {
                self.mode = Mode::Lists;
                vec![then]
            }
            Action::No => {
                self.mode = Mode::Lists;
                self.say("nothing was cancelled");
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn act_on_filter(&mut self, action: Action) -> Vec<Request> {
        let Mode::Filter { line } = &mut self.mode else { return Vec::new() };
        match action {
            Action::Type(letter) => line.push(letter),
            Action::Erase => {
                line.pop();
            }
            Action::EraseWord => {
                let end = line.trim_end().rfind(' ').map_or(0, |blank| blank + 1);
                line.truncate(end);
            }
            Action::EraseAll => line.clear(),
            Action::Accept => {
                let line = line.trim().to_owned();
                return self.set_filter(line);
            }
            Action::Dismiss => self.mode = Mode::Lists,
            _ => {}
        }
        Vec::new()
    }

    /// A line that cannot be understood stays open, with what is wrong with it.
    fn set_filter(&mut self, line: String) -> Vec<Request> {
        match Filter::parse(&line) {
            Ok(filter) => {
                self.filter = filter;
                self.filter_line = line;
                self.mode = Mode::Lists;
                vec![Request::Refresh(self.wanted())]
            }
            Err(wrong) => {
                self.say(wrong);
                Vec::new()
            }
        }
    }

    fn act_on_text(&mut self, action: Action) -> Vec<Request> {
        let page = self.page();
        match (action, &mut self.mode) {
            (Action::Dismiss, _) => self.mode = Mode::Lists,
            (Action::Logs | Action::Cancel, _) => {
                self.mode = Mode::Lists;
                return self.act_on_lists(action);
            }
            (_, Mode::Text { lines, top, .. }) => {
                let last = lines.len().saturating_sub(1);
                *top = match action {
                    Action::Move(by) => top.saturating_add_signed(by),
                    Action::Page(by) => top.saturating_add_signed(by * page as isize),
                    Action::First => 0,
                    Action::Last => last,
                    _ => *top,
                }
                .min(last);
            }
            _ => {}
        }
        Vec::new()
    }

    fn act_on_logs(&mut self, action: Action) -> Vec<Request> {
        let height = self.log_height();
        let Mode::Logs(view) = &mut self.mode else { return Vec::new() };
        if view.is_typing {
            self.act_on_search(action);
            return Vec::new();
        }
        match action {
            Action::Dismiss => {
                self.mode = Mode::Lists;
                return vec![Request::CloseLogs];
            }
            Action::Move(by) => view.scroll(by, height),
            Action::Page(by) => view.scroll(by * height as isize, height),
            Action::Shift(by) => view.column = view.column.saturating_add_signed(by),
            Action::First => view.go_to_top(),
            Action::ToggleFollow if view.follow => view.scroll(0, height),
            Action::Last | Action::ToggleFollow => view.go_to_end(),
            Action::NextStream => view.shown = view.shown.next(),
            Action::Search => view.begin_search(),
            Action::NextMatch => self.find(true),
            Action::PreviousMatch => self.find(false),
            Action::NextAttempt if view.attempt < view.attempts => return Self::turn(view, 1),
            Action::PreviousAttempt if view.attempt > 1 => return Self::turn(view, -1),
            Action::NextAttempt => self.say("this is the newest attempt"),
            Action::PreviousAttempt => self.say("this is the first attempt"),
            _ => {}
        }
        Vec::new()
    }

    fn act_on_search(&mut self, action: Action) {
        let Mode::Logs(view) = &mut self.mode else { return };
        match action {
            Action::Type(letter) => view.searched.push(letter),
            Action::Erase => {
                view.searched.pop();
            }
            Action::EraseAll | Action::EraseWord => view.searched.clear(),
            Action::Dismiss => {
                view.searched.clear();
                view.is_typing = false;
            }
            Action::Accept => {
                view.is_typing = false;
                self.find(true);
            }
            _ => {}
        }
    }

    fn find(&mut self, forward: bool) {
        let height = self.log_height();
        let Mode::Logs(view) = &mut self.mode else { return };
        if view.searched.is_empty() {
            self.say("/ looks for a word");
        } else if !view.find(forward, height) {
            let word = view.searched.clone();
            self.say(format!("{word:?} is not in what is shown"));
        }
    }

    fn turn(view: &mut LogView, by: i32) -> Vec<Request> {
        *view = view.at_attempt(view.attempt.saturating_add_signed(by));
        vec![Request::OpenLogs { job_id: view.job_id.clone(), attempt: view.attempt }]
    }

    /// Lines of output that fit on the screen.
    pub(crate) fn log_height(&self) -> usize {
        usize::from(self.size.1).saturating_sub(2).max(1)
    }
}
