//! `muster exec` and `muster attach`: into jobs that run.

use muster_protocol::{TerminalKind, TerminalOpen};

use crate::args::{AttachArgs, ExecArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::output::{after_key, note};
use crate::settings::Settings;
use crate::terminal::{Left, Wish, enter, exit_code, has_terminal, resolve, running, size};

/// What runs when no program is named: the better of two shells.
const SHELL: [&str; 3] = ["sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh"];

/// Runs a program beside those of a job.
pub(crate) async fn exec(args: &ExecArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let raw = has_terminal() && !args.no_tty;
    let terminal = raw || args.tty;
    if args.command.is_empty() && !terminal && !args.interactive {
        let text =
            "there is no terminal for a shell: name a program, or add -i to read one from standard input";
        return Err(UsageError(text.to_owned()).into());
    }
    let id = resolve(&client, &args.job).await?;
    if args.wait {
        let job = running(&client, &id, 0).await?;
        if exit::is_final(job.status) {
            anyhow::bail!("{id} has ended");
        }
    }
    let argv = if args.command.is_empty() { SHELL.map(str::to_owned).to_vec() } else { args.command.clone() };
    let size = terminal.then(|| size().unwrap_or_default());
    let term = std::env::var("TERM").ok().filter(|_| terminal);
    let wish = Wish {
        open: TerminalOpen { argv, size, term, read_only: false },
        raw,
        input: args.interactive,
        detach: args.detach_keys.clone().unwrap_or_default(),
        forwards_signals: true,
    };
    let left = enter(&client, &id, TerminalKind::Exec, wish).await?;
    Ok(match left {
        Left::Ended(end) => {
            if let Some(reason) = &end.reason {
                note(&format!("{id}: {reason}"));
            }
            exit_code(&end)
        }
        Left::Refused(reason) => {
            note(&format!("{id}: {reason}"));
            exit::NO_EXIT_CODE
        }
        Left::Detached => {
            note("left; the program is told to hang up");
            exit::OK
        }
        Left::BySignal(code) => {
            after_key();
            code
        }
        Left::BrokenPipe => exit::BROKEN_PIPE,
        Left::Lost(error) => {
            note(&format!("the terminal is lost, and the program with it; {id} goes on: {error}"));
            exit::LOST
        }
    })
}

/// Attaches to the terminal of a job.
pub(crate) async fn attach(args: &AttachArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let id = resolve(&client, &args.job).await?;
    if args.wait {
        let job = running(&client, &id, 0).await?;
        if exit::is_final(job.status) {
            anyhow::bail!("{id} has ended; `muster logs {id}` prints what it wrote");
        }
    }
    let raw = has_terminal() && !args.no_tty;
    let size = size().filter(|_| raw && !args.read_only);
    let wish = Wish {
        open: TerminalOpen { size, read_only: args.read_only, ..TerminalOpen::default() },
        raw,
        input: !args.read_only,
        detach: args.detach_keys.clone().unwrap_or_default(),
        forwards_signals: false,
    };
    let left = enter(&client, &id, TerminalKind::Attach, wish).await?;
    Ok(match left {
        Left::Ended(end) => {
            let reason = end.reason.as_deref().unwrap_or("the attempt has ended");
            note(&format!("{id}: {reason}"));
            exit_code(&end)
        }
        Left::Refused(reason) => {
            note(&format!("{id}: {reason}"));
            exit::NO_EXIT_CODE
        }
        Left::Detached => {
            note(&format!("detached; `muster attach {id}` comes back"));
            exit::OK
        }
        Left::BySignal(code) => {
            after_key();
            note(&format!("left; {id} goes on"));
            code
        }
        Left::BrokenPipe => exit::BROKEN_PIPE,
        Left::Lost(error) => {
            note(&format!(
                "the terminal is lost; {id} goes on, and `muster attach {id}` comes back: {error}"
            ));
            exit::LOST
        }
    })
}
