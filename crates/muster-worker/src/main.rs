//! A worker as a process of its own: reads its settings, runs until it is told to end.
//!
//! Exit codes: 0 after an orderly end, 1 when the worker could not run or had to stop jobs, 2 for a wrong
//! configuration.

mod args;
mod config_file;
mod duration;
mod keys;
#[cfg(test)]
mod reference_tests;
mod settings;

use std::process::ExitCode;

use clap::Parser as _;
use muster_client::Client;
use muster_logging::{LogSettings, LogTarget};
use muster_worker_agent::{keep_private, keeper, run, shutdown_on_signals};

use args::{Args, Command};
use settings::Settings;

fn main() -> ExitCode {
    if let Some(code) = keeper::run_from_arguments() {
        return code;
    }
    let job_umask = keep_private();
    // Reports usage errors itself, with exit code 2.
    let args = Args::parse();
    if let Some(Command::Keys(keys)) = &args.command {
        return match settings::key_data_dir(&args) {
            Ok(data_dir) => keys::run(&keys.action, &data_dir),
            Err(error) => wrong_configuration(&error),
        };
    }
    let mut settings = match Settings::resolve(args) {
        Ok(settings) => settings,
        Err(error) => return wrong_configuration(&error),
    };
    settings.worker.job_umask = Some(job_umask);
    let log = LogSettings { filter: &settings.log, format: settings.log_format, target: LogTarget::Stdout };
    if let Err(error) = muster_logging::init(&log) {
        return wrong_configuration(&error.into());
    }
    serve(settings).unwrap_or_else(|error| {
        tracing::error!(error = format!("{error:#}"), "the worker cannot run");
        eprintln!("muster-worker: {error:#}");
        ExitCode::FAILURE
    })
}

fn wrong_configuration(error: &anyhow::Error) -> ExitCode {
    eprintln!("muster-worker: {error:#}");
    ExitCode::from(2)
}

/// One thread is enough for an agent that only waits, and spares the wake-ups between threads.
fn serve(settings: Settings) -> anyhow::Result<ExitCode> {
    let client = Client::connect(&settings.scheduler, &settings.trust)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let shutdown = shutdown_on_signals()?;
        let summary = run(settings.worker, client, shutdown).await?;
        tracing::info!(
            jobs = summary.jobs,
            over_limit = summary.over_limit,
            forced = summary.forced,
            "worker ended"
        );
        Ok(ExitCode::from(summary.exit_code()))
    })
}
