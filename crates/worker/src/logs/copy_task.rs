//! The copy of a stream in a file of the submitter, made on a thread of its own: that file may lie on another machine.
//!
//! Guarantee: nobody waits long for a file system that does not answer; a file that cannot be written is given up, which
//! the error output of the job says.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::job_user::JobUser;
use crate::keeper::Key;
use crate::output_files::Copy;

/// How long a sender waits for a copy at a time.
const PATIENCE: Duration = Duration::from_secs(2);

/// A copy, and how far it has come.
#[derive(Debug)]
pub(super) struct CopyTask {
    /// Away while a thread has it.
    copy: Option<Copy>,
    thread: Option<JoinHandle<(Copy, Result<u64, String>)>>,
    reached: u64,
    /// What the job's error output is to say.
    complaint: Option<String>,
}

impl CopyTask {
    /// Nothing where there is no target.
    pub(super) fn new(
        key: &Key,
        source: &str,
        target: Option<PathBuf>,
        user: Option<JobUser>,
    ) -> Option<Self> {
        let target = target.filter(|_| !source.is_empty())?;
        let copy = Some(Copy::new(key, Path::new(source), &target, user));
        Some(Self { copy, thread: None, reached: 0, complaint: None })
    }

    /// How much may be sent and freed.
    pub(super) const fn reached(&self) -> u64 {
        self.reached
    }

    /// Copies what was written by now; false when that is still under way.
    pub(super) async fn advance(&mut self) -> bool {
        if self.thread.is_none() {
            let Some(mut copy) = self.copy.take() else { return true };
            self.thread = Some(tokio::task::spawn_blocking(move || {
                let result = copy.advance();
                (copy, result)
            }));
        }
        let Some(thread) = &mut self.thread else { return true };
        let Ok(ended) = tokio::time::timeout(PATIENCE, thread).await else { return false };
        self.thread = None;
        match ended {
            Ok((copy, Ok(reached))) => {
                self.copy = Some(copy);
                self.reached = reached;
            }
            Ok((_, Err(complaint))) => self.give_up(&complaint),
            Err(_) => self.give_up("the output file cannot be written: its thread has ended"),
        }
        true
    }

    fn give_up(&mut self, complaint: &str) {
        tracing::warn!(complaint, "an output file is given up");
        self.reached = u64::MAX;
        self.complaint =
            Some(format!("muster: {complaint}; the file is not whole, `muster logs` has what is kept\n"));
    }

    /// What there is to say to the job's readers, once.
    pub(super) fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }
}
