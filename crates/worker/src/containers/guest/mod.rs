//! A guest in a container: the process that stands for a program which somebody runs beside a job there.
//!
//! The engine runs the program, as the user and within the bounds of the container; to enter the container from outside would give the
//! program more rights than the job has. To the keeper a guest is a process like any other: it has pipes or a terminal, takes signals
//! and ends with the exit code of the program.
//!
//! Guarantees: signals reach the program and everything in its group; the last output comes before the end; a program that was told
//! to die takes what it has started with it.

mod program;
mod streams;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::ExecConfig;
use nix::libc;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use self::program::Program;
use self::streams::{Screen, read_in};
use super::errors::words;
use super::own_terminal::{NEVER_TYPED, OwnTerminal};
use super::raw_stream;
use super::removal::reach;
use super::signals::Signals;

/// The first argument that makes a program a guest.
pub(crate) const GUEST_ARGUMENT: &str = "__container-guest";
/// The variable with its order.
pub(crate) const GUEST_ORDER: &str = "MUSTER_GUEST_ORDER";
/// How long one small request may take.
const REQUEST: Duration = Duration::from_secs(20);
/// The exit code of what could not be started.
const NOT_STARTED: u8 = 125;

/// What a guest is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GuestOrder {
    /// The data directory of the worker.
    pub(crate) directory: PathBuf,
    /// The name of the container.
    pub(crate) container: String,
    pub(crate) argv: Vec<String>,
    /// The kind of its terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) term: Option<String>,
    pub(crate) is_terminal: bool,
}

/// A signal for the program, as one that this process can take: it dies of others, or does not hear of them.
pub(crate) fn carried(signal: i32) -> i32 {
    libc::SIGRTMIN() + signal - 1
}

/// The signal that is meant.
fn meant(carried: i32) -> i32 {
    let first = libc::SIGRTMIN();
    if carried >= first { carried - first + 1 } else { carried }
}

/// Runs a program in a container if this process was started for that, and `None` otherwise.
pub(crate) fn run_from_arguments() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    (first == OsStr::new(GUEST_ARGUMENT)).then(|| {
        let code = start().unwrap_or_else(|reason| {
            // The terminal may be one that passes everything on as it is.
            eprint!("muster: cannot run the program in the container: {reason}\r\n");
            NOT_STARTED
        });
        ExitCode::from(code)
    })
}

fn start() -> Result<u8, String> {
    let order = std::env::var(GUEST_ORDER).map_err(|error| error.to_string())?;
    let order: GuestOrder = serde_json::from_str(&order).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let code = runtime.block_on(visit(&order));
    // A thread may wait for input that never comes.
    runtime.shutdown_background();
    code
}

async fn visit(order: &GuestOrder) -> Result<u8, String> {
    let mut signals = Signals::listen().map_err(|error| error.to_string())?;
    let terminal =
        order.is_terminal.then(OwnTerminal::take).transpose().map_err(|error| error.to_string())?;
    let reach = reach(&order.directory).ok_or("the worker has no container engine")?;
    let client = reach.client()?;
    let has_terminal = terminal.is_some();
    let config = ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(has_terminal),
        detach_keys: has_terminal.then(|| NEVER_TYPED.to_owned()),
        env: order.term.as_ref().map(|term| vec![format!("TERM={term}")]),
        cmd: Some(order.argv.clone()),
        ..ExecConfig::default()
    };
    let made = timeout(REQUEST, client.create_exec(&order.container, config)).await;
    let made = made.map_err(|_| "the container engine does not answer".to_owned())?;
    let made = made.map_err(|error| words(&error))?;
    let body = serde_json::json!({"Detach": false, "Tty": has_terminal}).to_string();
    let stream = raw_stream::open(&reach, &format!("/exec/{}/start", made.id), &body).await?;
    let (output, input) = raw_stream::split(stream, has_terminal);
    let program = Program::new(client, made.id);
    if let Some((columns, rows)) = terminal.as_ref().and_then(OwnTerminal::size) {
        let sizing = program.clone();
        tokio::spawn(async move { sizing.resize_first(columns, rows).await });
    }
    let terminal = terminal.map(Arc::new);
    let screen = Screen::begin(output);
    let typed = terminal.clone();
    let mut typing = Box::pin(async move {
        match typed {
            Some(terminal) => terminal.pass_on(input).await,
            None => read_in(input).await,
        }
    });
    let mut ended = Box::pin(program.end());
    let mut is_typing = true;
    let code = loop {
        tokio::select! {
            code = &mut ended => break code,
            () = &mut typing, if is_typing => is_typing = false,
            number = signals.next() => match (meant(number), &terminal) {
                (libc::SIGWINCH, Some(terminal)) => {
                    if let Some((columns, rows)) = terminal.size() {
                        program.resize(columns, rows).await;
                    }
                }
                (number, _) => program.signal(number).await,
            },
        }
    };
    screen.finish().await;
    code.map(|code| u8::try_from(code & 0xff).unwrap_or(NOT_STARTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_can_be_carried() {
        for signal in 1..=31 {
            assert_eq!(meant(carried(signal)), signal);
            assert!((libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&carried(signal)), "{signal}");
        }
        assert_eq!(meant(libc::SIGTERM), libc::SIGTERM);
    }
}
