//! What ran: each process of a job appends lines of its own to one file, with its lease and the time since boot.
//!
//! Each process holds a lock of its job for as long as it or a child of it lives; the kernel gives the lock
//! back when the last of them is gone. A second process of the same job that finds the lock taken says so. The image of the
//! tests has no program for it: of a job in a container only the lines tell.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::binary;

/// The file, and the directories of locks and checkpoints.
#[derive(Debug, Clone)]
pub struct Ledger {
    directory: PathBuf,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub word: String,
    pub job: String,
    pub lease: u64,
    /// Hundredths of a second since boot.
    pub at: u64,
    pub worker: String,
    /// Set for a task of a gang.
    pub task: Option<Task>,
}

/// Which task of which round wrote a line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    pub gang: String,
    pub round: u64,
    pub index: u64,
    pub size: u64,
}

/// What a process does between the first and the last line that it writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Labour {
    Sleep(f64),
    /// The same, beside a child in a session of its own that would live for minutes.
    Child(f64),
    /// Saves checkpoints of this many bytes, one after the other, and goes on from the one it is given.
    Checkpoints(usize),
    /// Leaves an artifact of this many bytes.
    Artifact(usize),
    /// Looks whether the directory that was sent along is whole.
    Upload,
}

/// Lines that every attempt prints before its work.
const PRINTED: u32 = 30;
/// The name of the artifact of [`Labour::Artifact`].
pub const ARTIFACT: &str = "result";
/// The file of an upload with the digests of all others.
pub const SUMS: &str = "sums";

/// How many checkpoints a job saves.
const CHECKPOINTS: u32 = 3;

impl Ledger {
    pub fn new(directory: &Path) -> Self {
        let directory = directory.join("ledger");
        for part in ["locks", "checkpoints"] {
            fs::create_dir_all(directory.join(part)).expect("the test's directory is writable");
        }
        Self { directory }
    }

    /// A command that keeps the books around some work.
    pub fn command(&self, labour: Labour, exit: u8) -> String {
        match labour {
            Labour::Sleep(seconds) => self.around(&format!("sleep {seconds:.2}"), exit),
            Labour::Child(seconds) => {
                let child = "setsid sleep 120 > /dev/null 2>&1 9>&- &";
                self.around(&format!("{child} sleep {seconds:.2}"), exit)
            }
            Labour::Checkpoints(bytes) => self.around(&self.saving(bytes), exit),
            Labour::Artifact(bytes) => {
                let line = "$MUSTER_JOB_ID $MUSTER_LEASE";
                let leave = format!("yes \"{line}\" | head -c {bytes} > \"$MUSTER_ARTIFACTS/{ARTIFACT}\"");
                self.around(&format!("{leave}; sleep 0.3"), exit)
            }
            Labour::Upload => {
                self.around(&format!("sha256sum -c {SUMS} > /dev/null 2>&1 || say damaged; sleep 0.2"), exit)
            }
        }
    }

    /// Where it is, for containers that mount it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same around work that lasts until [`Ledger::let_go`] is called.
    pub fn patient_command(&self) -> String {
        let dir = self.directory.display();
        self.around(&format!("while [ ! -e {dir}/go ]; do sleep 0.05; done"), 0)
    }

    /// Lets everything end that waits, now and later.
    pub fn let_go(&self) {
        fs::write(self.directory.join("go"), "").expect("the test's directory is writable");
    }

    fn around(&self, work: &str, exit: u8) -> String {
        let dir = self.directory.display();
        format!(
            "say() {{ read up rest < /proc/uptime; echo $1 $MUSTER_JOB_ID $MUSTER_LEASE $up ${{GANG_ID:--}} \
             ${{MUSTER_GANG_ROUND:-0}} ${{GANG_INDEX:-0}} ${{GANG_SIZE:-0}} $MUSTER_WORKER_ID >> {dir}/lines; }}; \
             exec 9>>{dir}/locks/$MUSTER_JOB_ID; \
             if command -v flock > /dev/null; then flock -n 9 || say overlap; fi; \
             say start; \
             i=0; while [ $i -lt {PRINTED} ]; do echo $MUSTER_JOB_ID $MUSTER_LEASE $i; i=$((i + 1)); done; \
             {work}; \
             say end; \
             echo $MUSTER_JOB_ID $MUSTER_LEASE end; \
             exit {exit}"
        )
    }

    /// A checkpoint repeats one line, which names the job and counts up: what was saved can be told from any one that
    /// comes back. The number that was acknowledged is noted only after the acknowledgement.
    fn saving(&self, bytes: usize) -> String {
        let file = format!("{}/checkpoints/$MUSTER_JOB_ID", self.directory.display());
        let muster = binary("muster");
        let muster = muster.display();
        format!(
            "n=0; \
             if [ -n \"$MUSTER_CHECKPOINT_FILE\" ]; then \
               line=$(head -n 1 \"$MUSTER_CHECKPOINT_FILE\"); n=${{line##* }}; \
               [ \"$line\" = \"$MUSTER_JOB_ID $n\" ] || say corrupt; \
               yes \"$line\" | head -c {bytes} | cmp -s - \"$MUSTER_CHECKPOINT_FILE\" || say corrupt; \
               say resumed; \
             fi; \
             [ \"$n\" -ge \"$(cat {file}.acknowledged 2> /dev/null || echo 0)\" ] || say stale; \
             while [ \"$n\" -lt {CHECKPOINTS} ]; do \
               sleep 0.3; n=$((n + 1)); \
               yes \"$MUSTER_JOB_ID $n\" | head -c {bytes} > {file}.$MUSTER_LEASE; \
               if {muster} checkpoint save {file}.$MUSTER_LEASE > /dev/null 2>&1; then \
                 echo $n > {file}.next.$MUSTER_LEASE; mv {file}.next.$MUSTER_LEASE {file}.acknowledged; say saved; \
               fi; \
             done"
        )
    }

    /// What is wrong with the checkpoint that the store keeps of a job in the end; `None` stands for none kept.
    pub fn judge_checkpoint(&self, job: &str, bytes: usize, kept: Option<&[u8]>) -> Option<String> {
        let path = self.directory.join("checkpoints").join(format!("{job}.acknowledged"));
        let acknowledged: u32 =
            fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let Some(kept) = kept else {
            return (acknowledged > 0).then(|| format!("a checkpoint is gone: {acknowledged} of {job}"));
        };
        let exact = (acknowledged..=CHECKPOINTS).any(|number| kept == content(job, number, bytes));
        let first: Vec<u8> = kept.iter().copied().take(60).collect();
        (!exact).then(|| {
            let first = String::from_utf8_lossy(&first).into_owned();
            format!(
                "a checkpoint is not exact: of {job} {} bytes that begin with {first:?}, acknowledged {acknowledged}",
                kept.len()
            )
        })
    }

    /// The lines in the order in which they were written.
    pub fn read(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.directory.join("lines")).unwrap_or_default();
        text.lines()
            .map(|line| parse(line).unwrap_or_else(|| panic!("not a line of the ledger: {line:?}")))
            .collect()
    }

    /// Where the lines are.
    pub fn path(&self) -> PathBuf {
        self.directory.join("lines")
    }
}

/// What an attempt prints that comes to its end.
pub fn printed(job: &str, lease: u64) -> String {
    let words = (0..PRINTED).map(|number| number.to_string()).chain(["end".to_owned()]);
    words.fold(String::new(), |lines, word| lines + &format!("{job} {lease} {word}\n"))
}

/// What an attempt leaves as its artifact.
pub fn artifact(job: &str, lease: u64, bytes: usize) -> Vec<u8> {
    let line = format!("{job} {lease}\n");
    line.bytes().cycle().take(bytes).collect()
}

/// What a job saves as its checkpoint with this number.
fn content(job: &str, number: u32, bytes: usize) -> Vec<u8> {
    let line = format!("{job} {number}\n");
    line.bytes().cycle().take(bytes).collect()
}

fn parse(line: &str) -> Option<Entry> {
    let words: Vec<&str> = line.split(' ').collect();
    let [word, job, lease, at, gang, round, index, size, worker] = words.as_slice() else { return None };
    let (seconds, hundredths) = at.split_once('.')?;
    let at = seconds.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?;
    let (round, index, size) = (round.parse().ok()?, index.parse().ok()?, size.parse().ok()?);
    let task = (*gang != "-").then(|| Task { gang: (*gang).to_owned(), round, index, size });
    let (word, job, worker) = ((*word).to_owned(), (*job).to_owned(), (*worker).to_owned());
    Some(Entry { word, job, lease: lease.parse().ok()?, at, worker, task })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_single_job_and_one_of_a_task_are_understood() {
        let single = parse("start job-1 3 120.07 - 0 0 0 w1").unwrap();
        assert_eq!((single.lease, single.at, single.worker.as_str(), single.task), (3, 12_007, "w1", None));
        let task = parse("end job-1 3 120.07 gang-1 2 1 4 w1").unwrap().task.unwrap();
        assert_eq!((task.gang.as_str(), task.round, task.index, task.size), ("gang-1", 2, 1, 4));
        assert_eq!(parse("start job-1"), None);
    }

    #[test]
    fn a_checkpoint_is_exact_and_not_older_than_what_was_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(dir.path());
        let judge = |kept: Option<&[u8]>| ledger.judge_checkpoint("j", 9, kept);
        assert_eq!(judge(None), None);
        fs::write(ledger.directory.join("checkpoints/j.acknowledged"), "2\n").unwrap();
        assert_eq!(judge(Some(b"j 2\nj 2\nj")), None);
        assert_eq!(judge(Some(b"j 3\nj 3\nj")), None, "the acknowledgement may have been lost");
        for wrong in [None, Some(b"j 1\nj 1\nj".as_slice()), Some(b"j 2\nj 2\n"), Some(b"j 2\nj 3\nj")] {
            assert!(judge(wrong).is_some(), "{wrong:?}");
        }
    }
}
