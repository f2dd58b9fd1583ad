//! What a job knows about itself, from the variables that its worker has set.

use std::path::PathBuf;

use muster_client::Proof;

use crate::environment;
use crate::failure::UsageError;

/// The value of a variable that is set to something.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The id of the job that this process belongs to.
pub(crate) fn job_id() -> Option<String> {
    set(environment::JOB_ID)
}

/// The id of the job and what proves that this process belongs to it.
pub(crate) fn speaker(command: &str) -> Result<(String, Proof), UsageError> {
    let id = job_id().ok_or_else(|| outside(command, environment::JOB_ID))?;
    let token = set(environment::TOKEN);
    let lease = match set(environment::LEASE) {
        // The token names the lease, and says more.
        Some(_) if token.is_some() => None,
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            UsageError(format!("{} is {text:?}, which is not the number of a lease", environment::LEASE))
        })?),
    };
    if token.is_none() && lease.is_none() {
        return Err(outside(command, environment::TOKEN));
    }
    Ok((id, Proof { lease, token }))
}

/// What proves which job asks, if anything does.
pub(crate) fn token() -> Option<Proof> {
    set(environment::TOKEN).map(|token| Proof { lease: None, token: Some(token) })
}

/// The file that appears when the job is told to stop.
pub(crate) fn notice_file() -> Option<PathBuf> {
    set(environment::PREEMPT_FILE).map(PathBuf::from)
}

/// The file by which the job says that it has finished.
pub(crate) fn done_file(command: &str) -> Result<PathBuf, UsageError> {
    set(environment::DONE_FILE).map(PathBuf::from).ok_or_else(|| outside(command, environment::DONE_FILE))
}

/// Says that a command has no job to speak for.
pub(crate) fn outside(command: &str, variable: &str) -> UsageError {
    UsageError(format!("`{command}` is for use inside a job: {variable} is not set"))
}
