//! The archive: finished jobs as lines of JSON, in one file for each day (UTC) on which they ended.
//!
//! Guarantees: when [`Archive::append`] returns, the lines are on disk, and only then may the jobs be removed.
//! A line is whole or not there: what a crash or a full disk left half-written is cut off before the next
//! line. After a crash between the two steps a job is there twice, never not at all.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::tz::Offset;
use muster_protocol as wire;
use muster_store::FinishedJob;
use serde::Serialize;

use crate::private_files::make_directory;
use crate::{clock, view};

/// Bytes that are looked at together in search of the end of the last whole line.
const BLOCK: u64 = 64 * 1024;

/// A directory of lines.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    directory: PathBuf,
}

/// A job as `GET /jobs/{id}` shows it, and what happened to it.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    job: wire::Job,
    events: Vec<wire::Event>,
}

impl Archive {
    /// Makes the directory when it is not there.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        make_directory(directory)?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Writes a line for each job and waits until all are on disk.
    pub(crate) async fn append(&self, jobs: &[FinishedJob]) -> io::Result<()> {
        let files = lines(jobs)?;
        let directory = self.directory.clone();
        let write = move || {
            files.iter().try_for_each(|(day, lines)| write(&directory, &format!("jobs-{day}.jsonl"), lines))
        };
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }
}

/// The lines of the jobs by the day on which they ended.
fn lines(jobs: &[FinishedJob]) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for finished in jobs {
        let job = &finished.view.job;
        let end = job.done_at().unwrap_or(job.created_at);
        let day = Offset::UTC.to_datetime(clock::to_wire(end)).date().to_string();
        let line = Line {
            job: view::job_view(&finished.view),
            events: finished.events.iter().map(view::event).collect(),
        };
        let file = files.entry(day).or_default();
        serde_json::to_writer(&mut *file, &line)?;
        file.push(b'\n');
    }
    Ok(files)
}

/// Appends whole lines. The lock keeps two schedulers that both think to lead from cutting each other's lines.
fn write(directory: &Path, name: &str, lines: &[u8]) -> io::Result<()> {
    let path = directory.join(name);
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
    file.lock()?;
    let end = end_of_lines(&mut file)?;
    file.set_len(end)?;
    let written = file.write_all(lines).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Should this fail as well, the next append cuts the rest off.
        let _ = file.set_len(end);
        return Err(error);
    }
    if is_new {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// The place after the last line that is whole.
fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = Vec::new();
    // Nearly always the last byte is the end of a line.
    let mut size = 1;
    while end > 0 {
        let start = end.saturating_sub(size);
        block.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(place) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + place as u64 + 1);
        }
        (end, size) = (start, BLOCK);
    }
    Ok(0)
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
