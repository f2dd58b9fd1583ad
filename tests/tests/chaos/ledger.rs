//! What ran: each process of a job appends lines of its own to one file.
//!
//! Each process holds a lock of its job for as long as it or a child of it lives; the kernel gives the lock
//! back when the last of them is gone. A second process of the same job that finds the lock taken says so.

use std::fs;
use std::path::{Path, PathBuf};

/// The file, and the directory of the locks.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    directory: PathBuf,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) word: String,
    pub(crate) job: String,
    pub(crate) lease: u64,
}

impl Ledger {
    pub(crate) fn new(directory: &Path) -> Self {
        let directory = directory.join("ledger");
        fs::create_dir_all(directory.join("locks")).unwrap();
        Self { directory }
    }

    /// A command that keeps the books around some work.
    pub(crate) fn command(&self, seconds: f64, exit: u8) -> String {
        self.around(&format!("sleep {seconds:.2}"), exit)
    }

    /// The same around work that lasts until [`Ledger::let_go`] is called.
    pub(crate) fn patient_command(&self) -> String {
        let dir = self.directory.display();
        self.around(&format!("while [ ! -e {dir}/go ]; do sleep 0.05; done"), 0)
    }

    /// Lets everything end that waits, now and later.
    pub(crate) fn let_go(&self) {
        fs::write(self.directory.join("go"), "").unwrap();
    }

    fn around(&self, work: &str, exit: u8) -> String {
        let dir = self.directory.display();
        format!(
            "exec 9>>{dir}/locks/$MUSTER_JOB_ID; \
             flock -n 9 || echo overlap $MUSTER_JOB_ID $MUSTER_LEASE >> {dir}/lines; \
             echo start $MUSTER_JOB_ID $MUSTER_LEASE >> {dir}/lines; \
             {work}; \
             echo end $MUSTER_JOB_ID $MUSTER_LEASE >> {dir}/lines; \
             exit {exit}"
        )
    }

    /// The lines in the order in which they were written.
    pub(crate) fn read(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.directory.join("lines")).unwrap_or_default();
        text.lines()
            .map(|line| parse(line).unwrap_or_else(|| panic!("not a line of the ledger: {line:?}")))
            .collect()
    }
}

fn parse(line: &str) -> Option<Entry> {
    let mut words = line.split(' ');
    let entry =
        Entry { word: words.next()?.into(), job: words.next()?.into(), lease: words.next()?.parse().ok()? };
    words.next().is_none().then_some(entry)
}
