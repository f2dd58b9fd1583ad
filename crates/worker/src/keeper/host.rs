//! The entry point of the keeper inside whatever program hosts it.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::clock::boottime_ns;
use super::guard::{self, Guarded, Side};
use super::outputs::OutputNames;
use super::table::Table;
use super::{cgroups, connection, deadman, former, private_tmp, signals, socket, terminals, user_namespace};
use crate::{containers, privacy, secret_files};

/// The first argument that makes a program a keeper; the second is the data directory.
pub const KEEPER_ARGUMENT: &str = "__keeper";

/// How long a keeper lives that no agent has ever greeted.
const FIRST_LINGER_MS: u64 = 5_000;

/// Runs the keeper if this process was started as one, or what the keeper has others do: run or remove a container. `None`
/// otherwise. Call it first in `main`,
/// before any thread or runtime exists.
///
/// Standard input is the connection to the agent that started it.
pub fn run_from_arguments() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != KEEPER_ARGUMENT {
        return containers::run_from_arguments()
            .or_else(containers::run_removal_from_arguments)
            .or_else(containers::run_guest_from_arguments)
            .or_else(user_namespace::run_from_arguments);
    }
    Some(match arguments.next() {
        None => fail("no data directory was given"),
        Some(directory) => match run(directory) {
            Ok(code) => code,
            Err(error) => fail(&error.to_string()),
        },
    })
}

fn fail(what: &str) -> ExitCode {
    eprintln!("keeper: {what}");
    ExitCode::FAILURE
}

fn run(directory: OsString) -> io::Result<ExitCode> {
    let directory = PathBuf::from(directory);
    close_inherited();
    // A session of its own: no terminal and no signal of the agent's group reaches the jobs.
    nix::unistd::setsid()?;
    signals::install()?;
    privacy::hide();
    // Both hold it, so that it is free when both are gone.
    let _lock = former::lock(&directory)?;
    match guard::split(&directory)? {
        Side::Guard(code) => {
            // The keeper may have been killed, and nothing of its jobs is alive.
            cgroups::remove_recorded(&directory);
            private_tmp::remove_leftovers(&directory);
            secret_files::remove_all(&directory);
            // An engine does not end its containers with those who look after them.
            containers::remove_in_process(&directory, None);
            Ok(code)
        }
        Side::Keeper(guarded) => keep(&directory, &guarded).map(|()| ExitCode::SUCCESS),
    }
}

/// Closes what whoever started the worker left open: jobs would find it. Nothing of ours is open yet but the first three.
fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inherited: Vec<i32> = numbers.filter(|number| *number > 2).collect();
    for number in inherited {
        // The list itself was open while it was read, and is no more.
        let _ = nix::unistd::close(number);
    }
}

fn keep(directory: &Path, guarded: &Guarded) -> io::Result<()> {
    // Started through a link it would be called after the link.
    nix::sys::prctl::set_name(former::KEEPER_NAME)?;
    let first = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let listener = socket::listen(directory)?;
    let table = Arc::new(Table::new(directory));
    {
        let mut state = table.lock();
        state.linger_ms = FIRST_LINGER_MS;
        state.mirror = guarded.fence;
        state.agent_gone_at_ns = boottime_ns();
    }
    let names = Arc::new(OutputNames::new(directory)?);
    serve_in_background(&table, &names, first)?;
    let (sessions, shared) = (socket::listen_for_terminals(directory)?, Arc::clone(&table));
    std::thread::Builder::new()
        .name("terminals".into())
        .spawn(move || terminals::accept(&shared, &sessions))?;
    let shared = Arc::clone(&table);
    std::thread::Builder::new().name("accept".into()).spawn(move || accept(&shared, &names, &listener))?;
    deadman::watch(&table, directory, guarded);
    Ok(())
}

fn accept(table: &Arc<Table>, names: &Arc<OutputNames>, listener: &UnixListener) {
    for stream in listener.incoming() {
        if let Err(error) = stream.and_then(|stream| serve_in_background(table, names, stream)) {
            eprintln!("keeper: cannot serve a connection: {error}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

fn serve_in_background(table: &Arc<Table>, names: &Arc<OutputNames>, stream: UnixStream) -> io::Result<()> {
    let (shared, names) = (Arc::clone(table), Arc::clone(names));
    let serve = move || {
        if let Err(error) = connection::serve(&shared, &names, stream) {
            eprintln!("keeper: the connection to the agent broke: {error}");
        }
    };
    std::thread::Builder::new().name("agent".into()).spawn(serve).map(drop)
}
