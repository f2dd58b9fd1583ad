//! From keys to actions, by what is open.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::Mode;
use super::panes::Pane;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Suspend,
    Redraw,
    Move(isize),
    /// By screens.
    Page(isize),
    /// To the side, by columns.
    Shift(isize),
    First,
    Last,
    NextPane,
    PreviousPane,
    Focus(Pane),
    /// What is most wanted of the selected entry.
    Open,
    Logs,
    Why,
    Describe,
    Cancel,
    EditFilter,
    ClearFilter,
    NextOrder,
    Help,
    Type(char),
    Erase,
    EraseWord,
    EraseAll,
    Accept,
    Dismiss,
    Yes,
    No,
    ToggleFollow,
    NextAttempt,
    PreviousAttempt,
    NextStream,
    Search,
    NextMatch,
    PreviousMatch,
}

/// The keys, for the help page: what is said is beside what is done.
pub(crate) const HELP: [(&str, &str); 17] = [
    ("Tab, Shift-Tab, 1-6", "the next list, the one before, or by number"),
    ("Up Down, j k", "move; PgUp PgDn by pages; Home End, g G"),
    ("Enter, l", "open the output of the job, and follow it"),
    ("", "on a worker, queue or pipeline: show only its jobs"),
    ("w", "why does the job wait, or what became of it"),
    ("d", "everything about the job, with its history"),
    ("c", "cancel the job or pipeline (asks first)"),
    ("/", "filter: words, queue:Q worker:W status:S and more"),
    ("Esc", "close what is open; then remove the filter"),
    ("o", "another order of running jobs (top)"),
    ("?", "this page"),
    ("q, Ctrl-C", "quit; jobs go on"),
    ("", ""),
    ("In the output", "arrows, PgUp PgDn, g G; f follows the end"),
    ("/ n N", "look for a word; the next one, the one before"),
    ("[ ]", "the attempt before, the next one"),
    ("s", "both streams, standard output, standard error"),
];

/// The presses behind an event. A terminal writes Escape and a key that follows at once like the key with
/// Alt; over a slow line the two come together often enough, and nothing here has Alt.
pub(crate) fn presses(key: KeyEvent) -> Vec<KeyEvent> {
    if !key.modifiers.contains(KeyModifiers::ALT) {
        return vec![key];
    }
    let escape = KeyEvent { code: KeyCode::Esc, modifiers: KeyModifiers::NONE, ..key };
    vec![escape, KeyEvent { modifiers: key.modifiers - KeyModifiers::ALT, ..key }]
}

/// What the key means now; `None` for nothing.
pub(crate) fn action(key: KeyEvent, mode: &Mode) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return control(key.code, mode);
    }
    match mode {
        Mode::Filter { .. } => typing(key.code),
        Mode::Confirm { .. } => answer(key.code),
        Mode::Lists => lists(key.code),
        Mode::Help | Mode::Text { .. } => reading(key.code),
        Mode::Logs(view) if view.is_typing => typing(key.code),
        Mode::Logs(_) => logs(key.code),
    }
}

fn control(code: KeyCode, mode: &Mode) -> Option<Action> {
    let typing = match mode {
        Mode::Filter { .. } => true,
        Mode::Logs(view) => view.is_typing,
        Mode::Lists | Mode::Confirm { .. } | Mode::Help | Mode::Text { .. } => false,
    };
    match code {
        KeyCode::Char('c') => Some(Action::Quit),
        KeyCode::Char('z') => Some(Action::Suspend),
        KeyCode::Char('l') => Some(Action::Redraw),
        KeyCode::Char('u') if typing => Some(Action::EraseAll),
        KeyCode::Char('w') if typing => Some(Action::EraseWord),
        KeyCode::Char('d' | 'f') => Some(Action::Page(1)),
        KeyCode::Char('u' | 'b') => Some(Action::Page(-1)),
        KeyCode::Char('n') => Some(Action::Move(1)),
        KeyCode::Char('p') => Some(Action::Move(-1)),
        _ => None,
    }
}

fn movement(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Up | KeyCode::Char('k') => Some(Action::Move(-1)),
        KeyCode::Down | KeyCode::Char('j') => Some(Action::Move(1)),
        KeyCode::PageUp => Some(Action::Page(-1)),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(Action::Page(1)),
        KeyCode::Home | KeyCode::Char('g') => Some(Action::First),
        KeyCode::End | KeyCode::Char('G') => Some(Action::Last),
        _ => None,
    }
}

fn lists(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char('q') => Some(Action::Quit),
        KeyCode::Tab | KeyCode::Right => Some(Action::NextPane),
        KeyCode::BackTab | KeyCode::Left => Some(Action::PreviousPane),
        KeyCode::Char(digit @ '1'..='6') => {
            let index = digit as usize - '1' as usize;
            Some(Action::Focus(Pane::ALL[index]))
        }
        KeyCode::Enter => Some(Action::Open),
        KeyCode::Char('l') => Some(Action::Logs),
        KeyCode::Char('w' | 'e') => Some(Action::Why),
        KeyCode::Char('d') => Some(Action::Describe),
        KeyCode::Char('c' | 'x') | KeyCode::Delete => Some(Action::Cancel),
        KeyCode::Char('/') => Some(Action::EditFilter),
        KeyCode::Esc => Some(Action::ClearFilter),
        KeyCode::Char('o') => Some(Action::NextOrder),
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Some(Action::Help),
        other => movement(other),
    }
}

fn typing(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char(letter) => Some(Action::Type(letter)),
        KeyCode::Backspace => Some(Action::Erase),
        KeyCode::Enter => Some(Action::Accept),
        KeyCode::Esc => Some(Action::Dismiss),
        _ => None,
    }
}

/// Only a clear yes is one.
fn answer(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char('y' | 'Y') => Some(Action::Yes),
        KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc | KeyCode::Enter => Some(Action::No),
        _ => None,
    }
}

fn reading(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char('q' | '?') | KeyCode::Esc | KeyCode::Enter => Some(Action::Dismiss),
        KeyCode::Char('l') => Some(Action::Logs),
        KeyCode::Char('c') => Some(Action::Cancel),
        other => movement(other),
    }
}

fn logs(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::Dismiss),
        KeyCode::Char('f' | 'F') => Some(Action::ToggleFollow),
        KeyCode::Char(']') => Some(Action::NextAttempt),
        KeyCode::Char('[') => Some(Action::PreviousAttempt),
        KeyCode::Char('s') => Some(Action::NextStream),
        KeyCode::Char('/') => Some(Action::Search),
        KeyCode::Char('n') => Some(Action::NextMatch),
        KeyCode::Char('N') => Some(Action::PreviousMatch),
        KeyCode::Left => Some(Action::Shift(-8)),
        KeyCode::Right => Some(Action::Shift(8)),
        other => movement(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::model::Request;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn the_same_key_means_what_fits_to_what_is_open() {
        let filter = Mode::Filter { line: String::new() };
        let confirm = Mode::Confirm { then: Box::new(Request::Quit), question: Vec::new() };
        let q = key(KeyCode::Char('q'));
        assert_eq!(action(q, &Mode::Lists), Some(Action::Quit));
        assert_eq!(action(q, &filter), Some(Action::Type('q')));
        assert_eq!(action(q, &confirm), Some(Action::No));
        assert_eq!(action(q, &Mode::Help), Some(Action::Dismiss));
        let enter = key(KeyCode::Enter);
        assert_eq!(action(enter, &confirm), Some(Action::No), "nothing is cancelled by mistake");
        assert_eq!(action(key(KeyCode::Char('y')), &confirm), Some(Action::Yes));
    }

    #[test]
    fn a_key_right_after_escape_is_not_lost() {
        let merged = KeyEvent::new(KeyCode::Char('?'), KeyModifiers::ALT);
        assert_eq!(presses(merged), [key(KeyCode::Esc), key(KeyCode::Char('?'))]);
        assert_eq!(presses(key(KeyCode::Tab)), [key(KeyCode::Tab)]);
    }

    #[test]
    fn control_c_leaves_from_everywhere() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for mode in [Mode::Lists, Mode::Help, Mode::Filter { line: "x".into() }] {
            assert_eq!(action(control_c, &mode), Some(Action::Quit));
        }
    }

    #[test]
    fn numbers_name_the_lists_in_their_order() {
        for (digit, pane) in ('1'..='6').zip(Pane::ALL) {
            assert_eq!(action(key(KeyCode::Char(digit)), &Mode::Lists), Some(Action::Focus(pane)));
        }
        assert_eq!(action(key(KeyCode::Char('7')), &Mode::Lists), None);
    }
}
