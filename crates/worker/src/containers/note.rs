//! What a runner tells the keeper: a note in the memory that it was given its order in.
//!
//! Guarantee: a note is whole or not there; a runner that is killed leaves the last one that it finished.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use serde::{Deserialize, Serialize};

use crate::keeper::OutOfMemory;
use muster_protocol::Usage;

/// Where the note lies, behind any order. The file is sparse.
const PLACE: u64 = 1 << 30;

/// How an attempt in a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Exited {
        code: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        out_of_memory: Option<OutOfMemory>,
    },
    /// There never was a container that ran.
    NotStarted(String),
    /// The container is gone and nobody knows how it ended.
    Vanished(String),
}

/// The state of a runner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Note {
    /// The id of the container, once there is one.
    pub(crate) container: Option<String>,
    /// The number of its first process on the host.
    pub(crate) first_process: Option<i32>,
    pub(crate) usage: Option<Usage>,
    pub(crate) verdict: Option<Verdict>,
}

impl Note {
    /// Replaces the note. The length is written last, in one piece.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let length = u64::try_from(text.len()).unwrap_or(0);
        // The other half holds the note before this one until this one is whole.
        let half = (read_word(file)? >> 32) ^ 1;
        file.write_all_at(&text, PLACE + 8 + half * (PLACE / 2))?;
        file.write_all_at(&(half << 32 | length).to_le_bytes(), PLACE)
    }

    /// The last note, or an empty one.
    pub(crate) fn read(file: &File) -> Self {
        let read = || -> io::Result<Self> {
            let word = read_word(file)?;
            let (half, length) = (word >> 32, word & 0xffff_ffff);
            let mut text = vec![0; usize::try_from(length).map_err(io::Error::other)?.min(1 << 20)];
            file.read_exact_at(&mut text, PLACE + 8 + half * (PLACE / 2))?;
            Ok(serde_json::from_slice(&text)?)
        };
        read().unwrap_or_default()
    }
}

fn read_word(file: &File) -> io::Result<u64> {
    let mut word = [0; 8];
    let length = file.read_at(&mut word, PLACE)?;
    Ok(if length == word.len() { u64::from_le_bytes(word) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_note_counts() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Note::read(&file), Note::default());
        let mut note = Note { container: Some("c".into()), ..Note::default() };
        note.write(&file).unwrap();
        assert_eq!(Note::read(&file), note);
        note.verdict = Some(Verdict::Exited { code: 3, out_of_memory: None });
        note.write(&file).unwrap();
        assert_eq!(Note::read(&file), note);
        note.verdict = Some(Verdict::NotStarted("x".repeat(5_000)));
        note.write(&file).unwrap();
        assert_eq!(Note::read(&file), note);
    }
}
