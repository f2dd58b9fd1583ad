//! A scheduler as a process of its own: reads its settings, serves until it is told to end.
//!
//! Exit codes: 0 after an orderly end, 1 when something could not be opened or requests had to be cut
//! off at the end, 2 for a wrong configuration.

mod admin;
mod signals;
mod store;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use muster_logging::{LogSettings, LogTarget};
use muster_server::settings::{self, OPEN_TO_WORKERS, SchedulerArgs};
use muster_server::{LegacyWorkers, Server, ServerError, keep_files_private, raise_file_limit};

use signals::Signals;

/// A transaction makes and drops thousands of small values, in Rust and in SQLite: a tenth of the time of a job that does
/// nothing was the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Schedules jobs: the HTTP API and the loops behind it. `muster-scheduler admin create NAME` makes the first account.
#[derive(Debug, Parser)]
#[command(name = "muster-scheduler", version)]
struct Program {
    #[command(flatten)]
    args: SchedulerArgs,
}

fn main() -> ExitCode {
    keep_files_private();
    if std::env::args_os().nth(1).is_some_and(|word| word == "admin") {
        return admin::main();
    }
    let found = settings::matches(Program::command(), "scheduler", std::env::args_os());
    let args = match found.and_then(|found| Program::from_arg_matches(&found)) {
        Ok(program) => program.args,
        // Prints help to standard output with exit code 0, and usage errors with exit code 2.
        Err(error) => error.exit(),
    };
    let log = LogSettings { filter: &args.log, format: args.log_format, target: LogTarget::Stdout };
    if let Err(error) = muster_logging::init(&log) {
        eprintln!("muster-scheduler: {error}");
        return ExitCode::from(2);
    }
    if let Err(error) = args.check() {
        eprintln!("muster-scheduler: {error}");
        return ExitCode::from(2);
    }
    raise_file_limit();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the scheduler cannot run");
            eprintln!("muster-scheduler: {error:#}");
            // Nothing was opened yet: the settings are wrong.
            let wrong = matches!(error.downcast_ref(), Some(ServerError::Unprotected { .. }));
            if wrong { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(args: &SchedulerArgs) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(args));
    // Whatever still blocks a thread must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Serves until a signal comes. True when the end was orderly.
async fn serve(args: &SchedulerArgs) -> anyhow::Result<bool> {
    let mut signals = Signals::new().context("cannot watch for signals")?;
    let store = store::open(args).await?;
    let kind = store.kind();
    let server = Server::start(args.server_config(), store, args.socket()).await?;
    let addr = server.addr().unwrap_or_else(|| args.socket());
    tracing::info!(%addr, mode = "scheduler", store = kind, "scheduler started");
    if addr.ip().to_canonical().is_loopback() {
        tracing::info!("only this machine can connect");
    } else if !args.access.insecure {
        tracing::info!("callers prove who they are");
    } else {
        tracing::warn!(%addr, "anyone who can connect can run commands on the workers");
        eprintln!("muster-scheduler: warning: {}", settings::open_to_the_network(addr));
    }
    if args.access.allow_legacy_workers == LegacyWorkers::Any {
        tracing::warn!("{OPEN_TO_WORKERS}");
        eprintln!("muster-scheduler: warning: {OPEN_TO_WORKERS}");
    }
    signals.next().await;
    tracing::info!("scheduler shutting down");
    tokio::select! {
        orderly = server.shutdown() => {
            tracing::info!(orderly, "scheduler ended");
            Ok(orderly)
        }
        () = signals.next() => anyhow::bail!("forced to end by a second signal"),
    }
}
