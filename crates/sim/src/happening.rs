//! What is going to happen, and when.

use std::collections::BTreeMap;

use muster_domain::{GangId, Timestamp};

use crate::mail::Letter;
use crate::worker::{End, ProcessKey};

/// Something that is going to happen.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    Arrives(Box<Letter>),
    /// A worker tells how it and its processes are.
    Beats(usize),
    Asks(usize),
    /// A worker learns which of its jobs are to stop.
    Ordered(usize),
    Exits {
        worker: usize,
        process: ProcessKey,
        how: End,
    },
    /// A worker is reachable again.
    Returns(usize),
    Plans(usize),
    Sweeps(usize),
    /// Something goes wrong with a gang, if it still is in this round.
    GoesWrong {
        gang: GangId,
        round: u32,
    },
    /// An operator does something.
    Operates,
}

/// All that is going to happen, in order; what was added first happens first at the same time.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    list: BTreeMap<(Timestamp, u64), Happening>,
    added: u64,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Timestamp, happening: Happening) {
        self.added += 1;
        self.list.insert((at, self.added), happening);
    }

    pub(crate) fn next(&mut self) -> Option<(Timestamp, Happening)> {
        self.list.pop_first().map(|((at, _), happening)| (at, happening))
    }

    /// Takes the messages that arrive at this very time.
    pub(crate) fn arriving(&mut self, now: Timestamp) -> Vec<Letter> {
        let mut letters = Vec::new();
        while let Some(entry) = self.list.first_entry() {
            match entry.get() {
                Happening::Arrives(_) if entry.key().0 == now => {
                    if let Happening::Arrives(letter) = entry.remove() {
                        letters.push(*letter);
                    }
                }
                _ => break,
            }
        }
        letters
    }
}
