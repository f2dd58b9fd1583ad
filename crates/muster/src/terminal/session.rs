//! One session from its first frame to its end.
//!
//! Guarantees: what the program wrote is written here before its end is told; signals and keys are heard whatever is
//! slow; when this side goes the other side hears of it.

use std::io;

use anyhow::Context as _;
use muster_client::{ClientError, TERMINAL_PING, Terminal, TerminalReader, TerminalWriter};
use muster_protocol::{TerminalEnd, TerminalFrame, TerminalOpen};
use nix::libc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};

use super::detach::{DetachFilter, DetachKeys, Typed};
use super::input::Input;
use super::output::{Output, Piece};
use super::raw::{self, RawMode};
use crate::exit;

/// Frames that may wait to be sent.
const AHEAD: usize = 4;
/// So many times Ctrl-C is the program's; once more is ours.
const PATIENCE: u32 = 2;

/// What a session is to be like at this end.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) open: TerminalOpen,
    /// Our terminal is the program's, key by key.
    pub(crate) raw: bool,
    /// Standard input goes to the program.
    pub(crate) input: bool,
    pub(crate) detach: DetachKeys,
    /// Ctrl-C without a terminal goes to the program.
    pub(crate) forwards_signals: bool,
}

/// How a session was left.
#[derive(Debug)]
pub(crate) enum Left {
    Ended(TerminalEnd),
    /// The worker said no.
    Refused(String),
    /// By the keys for that, or by the end of our terminal.
    Detached,
    /// By a signal; the code that a program ended by it leaves with.
    BySignal(u8),
    /// Nobody reads our output any more.
    BrokenPipe,
    /// The connection broke, or the scheduler or the worker is gone.
    Lost(ClientError),
}

/// The exit code that shells would show for the end of a program.
pub(crate) fn exit_code(end: &TerminalEnd) -> u8 {
    match (end.exit_code, end.signal) {
        (Some(code), _) => u8::try_from(code).unwrap_or(exit::FAILURE),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(exit::FAILURE),
        (None, None) => exit::LOST,
    }
}

/// Serves a session until somebody ends it.
pub(crate) async fn serve(terminal: Terminal, wish: Wish) -> anyhow::Result<Left> {
    let Terminal { mut reader, mut writer } = terminal;
    // The program may run before we are told so: a signal in between is meant for it.
    let mut heard = Heard::start()?;
    if let Err(error) = writer.send(&TerminalFrame::Open(wish.open.clone())).await {
        return Ok(Left::Lost(error));
    }
    let interrupts = match opened(&mut reader, &mut heard, wish.forwards_signals).await? {
        Ok(interrupts) => interrupts,
        Err(left) => return Ok(left),
    };
    let raw = wish.raw.then(RawMode::enter).transpose().context("our terminal cannot be changed")?;
    let input = if wish.input || wish.raw { Some(Input::take().await) } else { None };
    let (sender, frames) = mpsc::channel(AHEAD);
    let sending = tokio::spawn(send(writer, frames));
    let left = Ours::new(&wish, input, sender, (heard, interrupts)).serve(show(&mut reader, raw)).await;
    // What was typed last is on its way, unless nobody takes it.
    sending.abort();
    Ok(left)
}

/// Waits until the worker has opened the terminal. Says how often Ctrl-C was pressed meanwhile, or how it was left.
async fn opened(
    reader: &mut TerminalReader,
    heard: &mut Heard,
    forwards: bool,
) -> anyhow::Result<Result<u32, Left>> {
    let mut interrupts = 0;
    let frame = {
        let mut frame = std::pin::pin!(reader.frame());
        loop {
            tokio::select! {
                frame = &mut frame => break frame,
                _ = heard.interrupt.recv() => interrupts += 1,
                _ = heard.quit.recv() => return Ok(Err(Left::BySignal(exit::CANCELLED))),
                _ = heard.terminate.recv() => return Ok(Err(Left::BySignal(exit::TERMINATED))),
                _ = heard.hang_up.recv() => return Ok(Err(Left::BySignal(exit::HUNG_UP))),
            }
            if !forwards || interrupts >= PATIENCE {
                return Ok(Err(Left::BySignal(exit::CANCELLED)));
            }
        }
    };
    Ok(match frame {
        Ok(Some(TerminalFrame::Opened)) => Ok(interrupts),
        Ok(Some(TerminalFrame::Refused(reason))) => Err(Left::Refused(reason)),
        Ok(Some(TerminalFrame::Ended(end))) => Err(Left::Ended(end)),
        Ok(Some(_)) => anyhow::bail!("the worker speaks of something that was not opened"),
        Ok(None) => Err(Left::Lost(reader.ended_early())),
        Err(error) => Err(Left::Lost(error)),
    })
}

/// Sends frames, and signs of life in between.
async fn send(mut writer: TerminalWriter, mut frames: mpsc::Receiver<TerminalFrame>) {
    let mut alive = interval_at(Instant::now() + TERMINAL_PING, TERMINAL_PING);
    loop {
        let sent = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => writer.send(&frame).await,
                None => return writer.close().await,
            },
            _ = alive.tick() => writer.ping().await,
        };
        if sent.is_err() {
            // The reader sees the same end, with what came before it.
            return;
        }
    }
}

/// Writes down what comes until the last frame. The terminal is itself again when this is over.
async fn show(reader: &mut TerminalReader, mut raw: Option<RawMode>) -> Left {
    let output = Output::start();
    let left = loop {
        let piece = match reader.frame().await {
            Ok(Some(TerminalFrame::Output(bytes))) => {
                if let Some(raw) = &mut raw {
                    raw.watch(&bytes);
                }
                Piece::Output(bytes)
            }
            Ok(Some(TerminalFrame::ErrorOutput(bytes))) => Piece::ErrorOutput(bytes),
            Ok(Some(TerminalFrame::Ended(end))) => break Left::Ended(end),
            Ok(Some(TerminalFrame::Refused(reason))) => break Left::Refused(reason),
            // A newer worker may say more than we understand.
            Ok(Some(_)) => continue,
            Ok(None) => break Left::Lost(reader.ended_early()),
            Err(error) => break Left::Lost(error),
        };
        if !output.write(piece).await {
            break Left::BrokenPipe;
        }
    };
    match output.finish().await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Left::BrokenPipe,
        Ok(()) | Err(_) => left,
    }
}

/// The signals that are heard.
struct Heard {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
    window: Signal,
}

impl Heard {
    fn start() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            window: signal(SignalKind::window_change())?,
        })
    }
}

/// What happens at this end.
struct Ours {
    frames: mpsc::Sender<TerminalFrame>,
    input: Option<Input>,
    keys: Option<DetachFilter>,
    is_raw: bool,
    sizes: bool,
    forwards: bool,
    /// What was typed and not yet handed over.
    next: Option<TerminalFrame>,
    interrupts: u32,
    heard: Heard,
}

/// One thing that happened.
enum Event {
    Typed(Option<Vec<u8>>),
    Room,
    Interrupt,
    Quit,
    Resized,
    Leave(u8),
}

impl Ours {
    fn new(
        wish: &Wish,
        input: Option<Input>,
        frames: mpsc::Sender<TerminalFrame>,
        (heard, interrupts): (Heard, u32),
    ) -> Self {
        if interrupts > 0 {
            let _ = frames.try_send(TerminalFrame::Signal(libc::SIGINT as u8));
        }
        // Without input a program reads nothing, at once.
        let next = (!wish.input && !wish.raw).then_some(TerminalFrame::InputEnd);
        Self {
            frames,
            input,
            keys: wish.raw.then(|| DetachFilter::new(wish.detach.clone())),
            is_raw: wish.raw,
            sizes: wish.open.size.is_some() && wish.raw,
            forwards: wish.forwards_signals,
            next,
            interrupts,
            heard,
        }
    }

    /// Until `shown` is over or we leave.
    async fn serve(mut self, shown: impl Future<Output = Left>) -> Left {
        let mut shown = std::pin::pin!(shown);
        if self.sizes {
            // It may have changed while the session came about.
            self.next = raw::size().map(TerminalFrame::Resize);
        }
        loop {
            let event = tokio::select! {
                left = &mut shown => return left,
                event = self.event() => event,
            };
            if let Some(left) = self.act(event) {
                return left;
            }
        }
    }

    async fn event(&mut self) -> Event {
        let waits = self.next.is_some();
        let Self { frames, input, next, heard, .. } = self;
        let Heard { interrupt, terminate, hang_up, quit, window } = heard;
        let typed = async {
            match input {
                Some(input) => input.next().await,
                None => std::future::pending().await,
            }
        };
        let room = async {
            match frames.reserve().await {
                Ok(permit) => {
                    if let Some(frame) = next.take() {
                        permit.send(frame);
                    }
                }
                // Nothing can be sent any more; what came last is shown.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Event::Interrupt,
            _ = quit.recv() => Event::Quit,
            _ = terminate.recv() => Event::Leave(exit::TERMINATED),
            _ = hang_up.recv() => Event::Leave(exit::HUNG_UP),
            _ = window.recv() => Event::Resized,
            () = room, if waits => Event::Room,
            bytes = typed, if !waits => Event::Typed(bytes),
        }
    }

    fn act(&mut self, event: Event) -> Option<Left> {
        match event {
            Event::Room => {}
            Event::Leave(code) => return Some(Left::BySignal(code)),
            Event::Resized => {
                if let Some(size) = raw::size().filter(|_| self.sizes) {
                    // A size that finds no room is followed by what was typed; the next one counts.
                    let _ = self.frames.try_send(TerminalFrame::Resize(size));
                }
            }
            Event::Interrupt if self.forwards && self.interrupts < PATIENCE => {
                self.interrupts += 1;
                let _ = self.frames.try_send(TerminalFrame::Signal(libc::SIGINT as u8));
            }
            Event::Quit if self.forwards => {
                let _ = self.frames.try_send(TerminalFrame::Signal(libc::SIGQUIT as u8));
            }
            Event::Interrupt | Event::Quit => return Some(Left::BySignal(exit::CANCELLED)),
            Event::Typed(None) if self.is_raw => return Some(Left::Detached),
            Event::Typed(None) => {
                self.input = None;
                self.next = Some(TerminalFrame::InputEnd);
            }
            Event::Typed(Some(bytes)) => match self.keys.as_mut().map(|keys| keys.pass(&bytes)) {
                None => self.next = Some(TerminalFrame::Input(bytes)),
                Some(Typed::Bytes(bytes)) if bytes.is_empty() => {}
                Some(Typed::Bytes(bytes)) => self.next = Some(TerminalFrame::Input(bytes)),
                Some(Typed::Detach(_)) => return Some(Left::Detached),
            },
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_program_is_shown_as_a_shell_would() {
        let end = |exit_code, signal| TerminalEnd { exit_code, signal, reason: None };
        assert_eq!(exit_code(&end(Some(3), None)), 3);
        assert_eq!(exit_code(&end(None, Some(9))), 137);
        assert_eq!(exit_code(&end(None, None)), exit::LOST);
        assert_eq!(exit_code(&end(Some(1000), None)), exit::FAILURE);
    }
}
