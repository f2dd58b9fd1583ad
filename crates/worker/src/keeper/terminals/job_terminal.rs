//! The terminal that an attempt runs in: its output is kept like that of any other, and shown to whoever is attached.
//!
//! Guarantees: what the attempt writes reaches its output file whoever watches; who watches sees everything from the moment
//! of attaching, after the last [`RECENT_BYTES`] before it; a watcher that reads slowly slows the attempt down for at most
//! [`PATIENCE`], then it is let go.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use muster_protocol::{TerminalEnd, TerminalFrame, TerminalOpen, TerminalSize};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;

use super::super::message::{Key, Outcome};
use super::super::table::Table;
use super::{pty, wire};

/// What a new watcher is shown first.
const RECENT_BYTES: usize = 64 * 1024;
const PIECE_BYTES: usize = 32 * 1024;
/// How long a watcher may leave its output unread.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for one that only looks.
const LOOKER_PATIENCE: Duration = Duration::from_secs(1);
/// How long the end of an attempt waits for watchers.
const LAST_PATIENCE: Duration = Duration::from_millis(300);
/// Between two looks at a terminal that nobody has open at the moment.
const CLOSED_PAUSE: u16 = 50;
/// Between two looks whether a terminal takes input again.
const INPUT_PAUSE: u16 = 200;
/// How much is still read when the attempt has ended.
const REST_BYTES: usize = 4 * 1024 * 1024;

/// The terminals of running attempts, and who watches them.
#[derive(Debug, Default)]
pub(in super::super) struct Screens(Mutex<HashMap<Key, Arc<Screen>>>);

impl Screens {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Screen>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is shared with those who watch.
#[derive(Debug)]
struct Screen {
    terminal: File,
    shown: Mutex<Shown>,
    /// The attempt has ended: nobody is waited for.
    ended: AtomicBool,
    /// The connections of watchers, to be cut while one of them is waited for.
    cords: Mutex<HashMap<u64, UnixStream>>,
}

#[derive(Debug, Default)]
struct Shown {
    recent: VecDeque<u8>,
    watchers: Vec<Watcher>,
    next: u64,
    /// Nobody is let in any more.
    closed: bool,
}

#[derive(Debug)]
struct Watcher {
    number: u64,
    stream: UnixStream,
}

/// The terminal of one attempt, held by its slot.
#[derive(Debug)]
pub(in super::super) struct JobTerminal {
    screen: Arc<Screen>,
    pump: Option<JoinHandle<()>>,
    stop: Option<OwnedFd>,
}

impl JobTerminal {
    /// Makes a terminal whose output goes to a file; also returns the end of the process.
    pub(in super::super) fn open(size: TerminalSize, output: File) -> Result<(Self, File), String> {
        let failed = |error: io::Error| format!("cannot make a terminal for the job: {error}");
        let (terminal, theirs) = pty::open(size).map_err(failed)?;
        let reading = terminal.try_clone().map_err(failed)?;
        let (stopped, stop) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let screen = Arc::new(Screen {
            terminal,
            shown: Mutex::default(),
            ended: AtomicBool::new(false),
            cords: Mutex::default(),
        });
        let shared = Arc::clone(&screen);
        let pump = std::thread::Builder::new()
            .name("screen".into())
            .spawn(move || pump(reading, output, &stopped, &shared))
            .map_err(failed)?;
        Ok((Self { screen, pump: Some(pump), stop: Some(stop) }, theirs))
    }

    /// Lets people attach.
    pub(in super::super) fn publish(&self, screens: &Screens, key: &Key) {
        screens.lock().insert(key.clone(), Arc::clone(&self.screen));
    }

    /// Keeps what was written last, and tells everybody that the attempt has ended.
    pub(in super::super) fn finish(mut self, screens: &Screens, key: &Key, outcome: &Outcome) {
        screens.lock().remove(key);
        self.drain();
        let end = match outcome {
            Outcome::Exited(code) => TerminalEnd { exit_code: Some(*code), ..TerminalEnd::default() },
            Outcome::Signalled(signal) => TerminalEnd { signal: Some(*signal), ..TerminalEnd::default() },
            Outcome::NotStarted(reason) => {
                TerminalEnd { reason: Some(reason.clone()), ..TerminalEnd::default() }
            }
            Outcome::Vanished(reason) | Outcome::Lost(reason) => {
                TerminalEnd { reason: Some(reason.as_ref().to_owned()), ..TerminalEnd::default() }
            }
            Outcome::Withdrawn => TerminalEnd::default(),
        };
        self.screen.close(&end);
    }

    /// Waits until everything is in the file; watchers that do not read are cut off.
    fn drain(&mut self) {
        self.stop = None;
        let Some(pump) = self.pump.take() else { return };
        let begun = Instant::now();
        while !pump.is_finished() {
            if begun.elapsed() > LAST_PATIENCE {
                self.screen.ended.store(true, Ordering::Relaxed);
                let cords = self.screen.cords.lock().unwrap_or_else(PoisonError::into_inner);
                cords.values().for_each(|cord| drop(cord.shutdown(Shutdown::Both)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // It does not panic; if it did, there would be less output and nobody to tell.
        let _ = pump.join();
    }
}

impl Drop for JobTerminal {
    /// Of an attempt that never started.
    fn drop(&mut self) {
        self.drain();
        self.screen.close(&TerminalEnd::default());
    }
}

/// Keeps and shows what comes, until the attempt has ended and nothing is left.
fn pump(mut terminal: File, mut output: File, stopped: &OwnedFd, screen: &Screen) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = REST_BYTES;
    let mut open = true;
    loop {
        let stopping = wait(&terminal, stopped, open);
        match terminal.read(&mut piece) {
            Ok(length @ 1..) => {
                open = true;
                // A full disk keeps nobody from seeing it.
                let _ = output.write_all(&piece[..length]);
                screen.show(&piece[..length]);
                left = if stopping { left.saturating_sub(length) } else { left };
                if left == 0 {
                    return;
                }
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => open = true,
            // Nobody has it open; a process may open it again.
            Ok(0) | Err(_) => open = false,
        }
        if stopping {
            return;
        }
    }
}

/// Waits for output; says whether the attempt has ended.
fn wait(terminal: &File, stopped: &OwnedFd, open: bool) -> bool {
    let mut polled = vec![PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
    let patience = if open {
        polled.push(PollFd::new(terminal.as_fd(), PollFlags::POLLIN));
        PollTimeout::NONE
    } else {
        CLOSED_PAUSE.into()
    };
    let waited = poll(&mut polled, patience);
    waited.is_ok() && polled[0].revents().is_some_and(|events| !events.is_empty())
}

impl Screen {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, bytes: &[u8]) {
        let mut shown = self.shown();
        let room = RECENT_BYTES.saturating_sub(bytes.len());
        let excess = shown.recent.len().saturating_sub(room);
        shown.recent.drain(..excess);
        shown.recent.extend(&bytes[bytes.len().saturating_sub(RECENT_BYTES)..]);
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        let frame = TerminalFrame::Output(bytes.to_vec());
        shown.watchers.retain(|watcher| {
            let sent = wire::write(&watcher.stream, &frame).is_ok();
            if !sent {
                self.cut(watcher);
            }
            sent
        });
    }

    fn cut(&self, watcher: &Watcher) {
        let _ = watcher.stream.shutdown(Shutdown::Both);
        self.cords.lock().unwrap_or_else(PoisonError::into_inner).remove(&watcher.number);
    }

    /// Shows somebody what there was last, and everything from now on.
    fn admit(&self, stream: &UnixStream, patience: Duration) -> Result<u64, String> {
        let failed = |error: io::Error| format!("the session broke off before it began: {error}");
        let (watching, cord) = (stream.try_clone().map_err(failed)?, stream.try_clone().map_err(failed)?);
        watching.set_write_timeout(Some(patience)).map_err(failed)?;
        let mut shown = self.shown();
        if shown.closed {
            return Err("the job has just ended".to_owned());
        }
        wire::write(&watching, &TerminalFrame::Opened).map_err(failed)?;
        let recent = shown.recent.make_contiguous().to_vec();
        if !recent.is_empty() {
            wire::write(&watching, &TerminalFrame::Output(recent)).map_err(failed)?;
        }
        let number = shown.next;
        shown.next += 1;
        self.cords.lock().unwrap_or_else(PoisonError::into_inner).insert(number, cord);
        shown.watchers.push(Watcher { number, stream: watching });
        Ok(number)
    }

    fn dismiss(&self, number: u64) {
        self.cords.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        self.shown().watchers.retain(|watcher| watcher.number != number);
    }

    fn close(&self, end: &TerminalEnd) {
        self.ended.store(true, Ordering::Relaxed);
        let mut shown = self.shown();
        shown.closed = true;
        for watcher in std::mem::take(&mut shown.watchers) {
            let _ = watcher.stream.set_write_timeout(Some(LAST_PATIENCE));
            let _ = wire::write(&watcher.stream, &TerminalFrame::Ended(end.clone()));
            self.cut(&watcher);
        }
    }

    /// Types: all of it, however slowly the job reads.
    fn type_in(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.ended.load(Ordering::Relaxed) {
            match (&self.terminal).write(bytes) {
                Ok(length @ 1..) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut polled, INPUT_PAUSE);
                }
                // Nobody has the terminal open.
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// Serves somebody who is attached until they leave or the attempt ends.
pub(super) fn attach(
    table: &Table,
    key: &Key,
    open: &TerminalOpen,
    stream: &UnixStream,
) -> Result<(), String> {
    if !open.argv.is_empty() {
        return Err("a program is for exec; the terminal of a job has one".to_owned());
    }
    let screen = table.screens.lock().get(key).map(Arc::clone);
    let screen = screen.ok_or("the job has no terminal here at this moment")?;
    let patience = if open.read_only { LOOKER_PATIENCE } else { PATIENCE };
    let number = screen.admit(stream, patience)?;
    if let Some(size) = open.size.filter(|_| !open.read_only) {
        // A size that the system does not take is no reason to end.
        let _ = pty::resize(&screen.terminal, size);
    }
    while let Ok(Some(frame)) = wire::read(stream) {
        match frame {
            TerminalFrame::Input(_) | TerminalFrame::Resize(_) if open.read_only => {}
            TerminalFrame::Input(bytes) => screen.type_in(&bytes),
            TerminalFrame::Resize(size) => drop(pty::resize(&screen.terminal, size)),
            TerminalFrame::InputEnd => {}
            _ => break,
        }
    }
    screen.dismiss(number);
    Ok(())
}
