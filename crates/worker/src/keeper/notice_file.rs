//! The notice that a job finds in the file named by `MUSTER_PREEMPT_FILE`.
//!
//! Guarantee: the file is there whole or not at all.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::message::Key;
use super::stopping::Words;

/// The notice as a job reads it.
#[derive(Debug, Serialize)]
struct Notice<'a> {
    job_id: &'a str,
    reason: &'a str,
    /// When its processes are killed, by the clock on the wall.
    deadline: Timestamp,
    comes_back: bool,
    preemption_epoch: u32,
}

/// Puts the notice in its place, or another in the place of one that is there.
pub(super) fn write(path: &str, key: &Key, words: &Words, left: Duration) -> io::Result<()> {
    if path.is_empty() {
        return Ok(());
    }
    let now = Timestamp::now();
    let deadline = now.checked_add(left).unwrap_or(Timestamp::MAX);
    let notice = Notice {
        job_id: &key.job_id,
        reason: &words.reason,
        deadline,
        comes_back: words.comes_back,
        preemption_epoch: words.epoch,
    };
    let mut text = serde_json::to_vec(&notice)?;
    text.push(b'\n');
    let aside = format!("{path}.new");
    // Whatever lies there is no notice of ours.
    let _ = std::fs::remove_file(&aside);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?.write_all(&text)?;
    std::fs::rename(&aside, Path::new(path))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_notice_says_why_until_when_and_what_comes() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("notice");
        let key = Key { job_id: "job-1".into(), lease: 3 };
        let words = Words { reason: "make room".into(), comes_back: true, epoch: 7 };
        let before = Timestamp::now();
        for left in [60, 30] {
            write(path.to_str().unwrap(), &key, &words, Duration::from_secs(left)).unwrap();
        }
        let mut notice: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let deadline: Timestamp = notice["deadline"].as_str().unwrap().parse().unwrap();
        assert!((30..60).contains(&deadline.duration_since(before).as_secs()), "{deadline}");
        notice.as_object_mut().unwrap().remove("deadline");
        let expected =
            json!({"job_id": "job-1", "reason": "make room", "comes_back": true, "preemption_epoch": 7});
        assert_eq!(notice, expected);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left beside it");
        write("", &key, &words, Duration::MAX).unwrap();
    }
}
