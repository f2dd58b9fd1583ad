//! The standard input of a job: a file that is named, or what this program reads itself.
//!
//! Guarantee: without `--stdin` nothing is ever waited for, and nothing is taken from the input that others read after this
//! program.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use muster_client::Client;
use muster_protocol::{UploadEntry, UploadLimits};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::pack::{Origin, Package, spool};
use super::send::{Words, limits, send};
use crate::failure::UsageError;
use crate::output::note;
use crate::output::quantities::bytes;

/// What `--stdin` names: a file, or `-` for the input of this program, which is read to its end.
pub(crate) async fn named(client: &Client, name: &str) -> anyhow::Result<Option<String>> {
    let limits = limits(client).await?;
    if name != "-" {
        let path = Path::new(name);
        let found =
            std::fs::metadata(path).map_err(|error| UsageError(format!("--stdin {name}: {error}")))?;
        if found.is_file() {
            return of_path(client, path, &limits).await.map(Some);
        }
        if found.is_dir() {
            return Err(
                UsageError(format!("--stdin {name}: it is a directory; send it with --upload")).into()
            );
        }
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        return of_stream(client, file, limits.stdin_bytes).await;
    }
    match of_itself()? {
        Some((file, start)) => of_open(client, file, start, &limits).await,
        None => of_stream(client, io::stdin(), limits.stdin_bytes).await,
    }
}

/// Without `--stdin`: a plain file is sent from where it stands, and stays there; a pipe or a terminal is left alone.
pub(crate) async fn implicit(client: &Client) -> anyhow::Result<Option<String>> {
    let Some((file, start)) = of_itself()? else {
        if has_waiting_bytes(io::stdin().as_fd()) {
            note("the standard input is a pipe, which is not sent; add --stdin - to send it");
        }
        return Ok(None);
    };
    if file.metadata().map_or(0, |found| found.len()) <= start {
        return Ok(None);
    }
    of_open(client, file, start, &limits(client).await?).await
}

/// The file that is our own standard input, and where it stands; `None` when it is no plain file.
fn of_itself() -> anyhow::Result<Option<(File, u64)>> {
    let Ok(descriptor) = io::stdin().as_fd().try_clone_to_owned() else { return Ok(None) };
    let mut file = File::from(descriptor);
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let start = file.stream_position().context("cannot find the place in the standard input")?;
    Ok(Some((file, start)))
}

/// Whether a pipe has something to read right now. Terminals and the end of a pipe do not count.
fn has_waiting_bytes(input: BorrowedFd<'_>) -> bool {
    use std::io::IsTerminal as _;
    let is_pipe = || {
        let kind = input.try_clone_to_owned().ok().and_then(|owned| File::from(owned).metadata().ok());
        kind.is_some_and(|found| {
            use std::os::unix::fs::FileTypeExt as _;
            found.file_type().is_fifo() || found.file_type().is_socket()
        })
    };
    let mut asked = [PollFd::new(input, PollFlags::POLLIN)];
    !input.is_terminal()
        && is_pipe()
        && poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        && asked[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN))
}

fn too_large(length: u64, limit: u64) -> UsageError {
    let length =
        if length > limit.saturating_add(1) { bytes(length) } else { format!("more than {}", bytes(limit)) };
    UsageError(format!(
        "the standard input has {length}, and at most {} are kept with a job; send it as a file with --upload, and read \
         that in the command",
        bytes(limit)
    ))
}

/// Sends a named file.
pub(super) async fn of_path(client: &Client, path: &Path, limits: &UploadLimits) -> anyhow::Result<String> {
    let (path, limit) = (path.to_owned(), limits.stdin_bytes);
    send(client, Words::Unsaid, move || {
        let found = std::fs::metadata(&path)
            .map_err(|error| UsageError(format!("cannot read {}: {error}", path.display())))?;
        if !found.is_file() {
            return Err(UsageError(format!("{} is not a plain file", path.display())).into());
        }
        if found.len() > limit {
            return Err(too_large(found.len(), limit).into());
        }
        let origin = Origin::Open {
            file: Arc::new(File::open(&path).with_context(|| format!("cannot read {}", path.display()))?),
            start: 0,
        };
        Ok(package(found.len(), origin))
    })
    .await
}

async fn of_open(
    client: &Client,
    file: File,
    start: u64,
    limits: &UploadLimits,
) -> anyhow::Result<Option<String>> {
    let (file, limit) = (Arc::new(file), limits.stdin_bytes);
    let id = send(client, Words::Unsaid, move || {
        let found = file.metadata().context("cannot read the standard input")?;
        let length = found.len().saturating_sub(start);
        if length > limit {
            return Err(too_large(length, limit).into());
        }
        let origin = Origin::Open { file: Arc::clone(&file), start };
        Ok(package(length, origin))
    });
    id.await.map(Some)
}

/// Reads a stream to its end first: its length must be known.
async fn of_stream(
    client: &Client,
    stream: impl io::Read + Send + 'static,
    limit: u64,
) -> anyhow::Result<Option<String>> {
    let spooled = tokio::task::spawn_blocking(move || spool(stream, limit)).await?;
    let (file, length) = spooled.context("cannot read the standard input")?;
    if length > limit {
        return Err(too_large(length, limit).into());
    }
    if length == 0 {
        return Ok(None);
    }
    let file = Arc::new(file);
    let id = send(client, Words::Unsaid, move || {
        Ok(package(length, Origin::Open { file: Arc::clone(&file), start: 0 }))
    });
    id.await.map(Some)
}

/// The time of a standard input is no part of it: equal bytes are one upload.
fn package(size: u64, origin: Origin) -> Package {
    let entry = UploadEntry { path: "stdin".to_owned(), size, ..UploadEntry::default() };
    Package { entries: vec![entry], origins: vec![origin] }
}
