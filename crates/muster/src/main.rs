//! The program for people: the command line, and `muster up`.

mod args;
mod commands;
mod config_file;
mod credentials;
mod embedded;
mod environment;
mod exit;
mod exported;
mod failure;
mod follow;
mod gang;
mod hidden_input;
mod inside_job;
mod job_reference;
mod job_request;
mod known_keys;
mod manual;
mod output;
mod program;
mod progress;
mod reference;
mod set_reference;
mod settings;
mod signals;
mod terminal;
mod up_settings;
mod upload;
mod watch;
mod zone;

use std::process::ExitCode;

/// The scheduler of `muster up` has the allocator of `muster-scheduler`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The worker starts this same program as its keeper; nothing else may happen then.
    if let Some(code) = muster_worker_agent::keeper::run_from_arguments() {
        return code;
    }
    ExitCode::from(program::main())
}
