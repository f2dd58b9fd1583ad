//! The keeper as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_worker_agent::keeper::run_from_arguments().unwrap_or_else(|| {
        eprintln!("muster-keeper is started by a worker, not by hand");
        ExitCode::from(2)
    })
}
