//! How processes get into the group of a slot, also those of people who look into a running attempt: its *guests*.
//!
//! Guarantees: a guest goes where the first process of the attempt went, so that the limits of the attempt hold it; when the
//! attempt runs out of memory while guests are there, the kernel takes them first and one by one; what it kills among
//! guests alone does not count as the attempt running out of memory.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::{Kept, write};

/// How a new process gets into a group: it is made there, or it goes there before it has its program.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Entrance<'a> {
    pub(in super::super) into: Option<&'a File>,
    /// Each takes the process that writes to it.
    pub(in super::super) join: &'a [File],
}

/// The ways into one group.
#[derive(Debug, Default)]
pub(super) struct Doors {
    pub(super) into: Option<File>,
    /// In the order of the places.
    pub(super) join: Vec<File>,
    /// Counts processes that were killed for want of memory.
    pub(super) kills: Option<Kept>,
    /// Says whether all are killed for want of memory at once; absent in the first form, where they never are.
    pub(super) together: Option<PathBuf>,
    pub(super) guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
pub(super) struct Guests {
    present: u32,
    /// How many processes had been killed when the first of them came.
    kills_before: u64,
    /// How many were killed while guests were there.
    excused: u64,
}

/// The way by which the first process of an attempt went.
#[derive(Debug, Clone)]
pub(in super::super) struct Way {
    doors: Arc<Doors>,
    /// How many of the groups of the first form it went into.
    count: usize,
}

/// A guest that is in the group, from before its start until it is reaped.
#[derive(Debug)]
pub(in super::super) struct Visit(Way);

impl Doors {
    fn lock(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn killed(&self) -> u64 {
        self.kills.as_ref().and_then(|kills| kills.field("oom_kill")).unwrap_or(0)
    }

    /// Another attempt begins: what was excused was of the one before.
    pub(super) fn begin(&self) {
        self.lock().excused = 0;
    }

    /// How many processes were killed for want of memory while guests were there.
    pub(super) fn excused(&self) -> u64 {
        let guests = self.lock();
        let now = if guests.present > 0 { self.killed().saturating_sub(guests.kills_before) } else { 0 };
        guests.excused + now
    }

    fn kill_together(&self, together: bool) {
        if let Some(file) = &self.together {
            // Kernels before 4.19 never do.
            let _ = write(file, if together { "1" } else { "0" });
        }
    }
}

impl Way {
    pub(super) fn new(doors: &Arc<Doors>, count: usize) -> Self {
        Self { doors: Arc::clone(doors), count }
    }

    pub(in super::super) fn entrance(&self) -> Entrance<'_> {
        let join = self.doors.join.get(..self.count).unwrap_or(&self.doors.join);
        Entrance { into: self.doors.into.as_ref(), join }
    }

    /// Lets a guest in.
    pub(in super::super) fn visit(&self) -> Visit {
        let mut guests = self.doors.lock();
        if guests.present == 0 {
            guests.kills_before = self.doors.killed();
            self.doors.kill_together(false);
        }
        guests.present += 1;
        Visit(self.clone())
    }
}

impl Visit {
    pub(in super::super) fn entrance(&self) -> Entrance<'_> {
        self.0.entrance()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let doors = &self.0.doors;
        let mut guests = doors.lock();
        guests.present -= 1;
        if guests.present == 0 {
            guests.excused += doors.killed().saturating_sub(guests.kills_before);
            doors.kill_together(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_killed_while_guests_are_there_is_excused_until_the_next_attempt() {
        let root = tempfile::tempdir().unwrap();
        let (events, together) = (root.path().join("memory.events"), root.path().join("memory.oom.group"));
        let killed = |number: u32| fs::write(&events, format!("oom 9\noom_kill {number}\n")).unwrap();
        killed(3);
        fs::write(&together, "1").unwrap();
        let kills = Kept::open(&events);
        let doors = Arc::new(Doors { kills, together: Some(together.clone()), ..Doors::default() });
        let way = Way::new(&doors, 0);
        let first = way.visit();
        let second = way.visit();
        assert_eq!(fs::read_to_string(&together).unwrap(), "0");
        killed(5);
        drop(first);
        assert_eq!(doors.excused(), 2);
        drop(second);
        assert_eq!(fs::read_to_string(&together).unwrap(), "1");
        killed(6);
        assert_eq!(doors.excused(), 2, "nobody was there any more");
        doors.begin();
        assert_eq!(doors.excused(), 0);
    }
}
