//! Terminals in running attempts: a program beside those of an attempt, and the terminal that an attempt itself runs in.
//!
//! Whoever may connect to the socket is an agent of this worker; each connection is one session. It begins with a
//! [`TerminalGreeting`], then frames of [`muster_protocol::TerminalFrame`] go both ways.
//!
//! Guarantees: what a session starts carries the mark of its attempt and is gone when the attempt has ended, and neither
//! waits for whoever reads along; the end of a session is the end of what it started, never that of the attempt.

mod contained_guest;
mod guest;
mod guests;
mod job_terminal;
mod pty;
mod wire;

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_protocol::{TerminalFrame, TerminalKind, TerminalOpen};
use serde::{Deserialize, Serialize};

use super::message::Key;
use super::table::Table;

pub(super) use guests::{GuestCount, Guests};
pub(super) use job_terminal::{JobTerminal, Screens};
pub(crate) use wire::MAX_MESSAGE_BYTES;

/// Sessions that one keeper serves at the same time.
const MOST_SESSIONS: usize = 128;
/// How long the first words of a session may take.
const FIRST_WORDS: Duration = Duration::from_secs(30);
/// After an accept that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The first message of a session: which attempt it is about.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TerminalGreeting {
    pub key: Key,
    pub kind: TerminalKind,
}

/// Serves sessions as long as the keeper lives.
pub(super) fn accept(table: &Arc<Table>, listener: &UnixListener) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let (table, open) = (Arc::clone(table), Arc::clone(&open));
        let serve = move || {
            let refusal = if open.fetch_add(1, Ordering::Relaxed) < MOST_SESSIONS {
                serve(&table, &stream).err()
            } else {
                Some(format!("this worker has {MOST_SESSIONS} terminals open, which is the most"))
            };
            if let Some(reason) = refusal {
                // Who is gone need not be told.
                let _ = wire::write(&stream, &TerminalFrame::Refused(reason));
            }
            open.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("terminal".into()).spawn(serve) {
            eprintln!("keeper: a terminal cannot be served: {error}");
        }
    }
}

/// Serves one session; an error is why there is none.
fn serve(table: &Arc<Table>, stream: &UnixStream) -> Result<(), String> {
    let lost = |error: std::io::Error| format!("the session broke off before it began: {error}");
    stream.set_read_timeout(Some(FIRST_WORDS)).map_err(lost)?;
    let greeting = wire::read_message(stream).map_err(lost)?.ok_or("the session ended before it began")?;
    let greeting: TerminalGreeting = serde_json::from_slice(&greeting)
        .map_err(|error| format!("the agent greets in another way: {error}"))?;
    let open = match wire::read(stream).map_err(lost)? {
        Some(TerminalFrame::Open(open)) => open,
        Some(_) => return Err("the first frame of a session must say what to open".to_owned()),
        None => return Ok(()),
    };
    stream.set_read_timeout(None).map_err(lost)?;
    match greeting.kind {
        TerminalKind::Exec => exec(table, &greeting.key, &open, stream),
        TerminalKind::Attach => job_terminal::attach(table, &greeting.key, &open, stream),
    }
}

fn exec(table: &Arc<Table>, key: &Key, open: &TerminalOpen, stream: &UnixStream) -> Result<(), String> {
    if open.read_only {
        return Err("read_only is for the terminal of a job, not for exec".to_owned());
    }
    guest::run(table, key, open, stream)
}
