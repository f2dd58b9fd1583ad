//! `muster-worker keys`: the private keys of a worker.
//!
//! Guarantee: what is printed is public. A private key is in its file and nowhere else.

use std::path::Path;
use std::process::ExitCode;

use muster_worker_agent::{KeptKey, WorkerError, kept_keys, make_key};

use crate::args::KeysAction;

pub(crate) fn run(action: &KeysAction, data_dir: &Path) -> ExitCode {
    match keys(action, data_dir) {
        Ok(keys) => {
            keys.iter().for_each(show);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("muster-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn keys(action: &KeysAction, data_dir: &Path) -> Result<Vec<KeptKey>, WorkerError> {
    match action {
        KeysAction::New { file } => Ok(vec![make_key(data_dir, file.as_deref())?]),
        KeysAction::Ls => kept_keys(data_dir),
    }
}

fn show(key: &KeptKey) {
    let public = key.pair.public();
    println!("{}  {public}  {}", public.id(), key.file.display());
}
