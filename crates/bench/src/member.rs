//! The job of the gang workload: this program itself, which tells a socket when it began, waits there until it is
//! told to end, and tells when it does so.
//!
//! Both times are taken by the process itself: the first is that of its first instruction, the second is taken
//! right before it exits. It catches no signal, so that SIGTERM ends it at once.

use std::ffi::OsString;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process};

use anyhow::{Context, Result, ensure};

/// The first argument that selects this mode.
pub(crate) const MODE: &str = "member";
/// Which of a gang the process is.
pub(crate) const INDEX: &str = "GANG_INDEX";
const ROUND: &str = "MUSTER_GANG_ROUND";
/// Nobody who measures lets a process wait for longer: it ends by itself when it was forgotten.
const FORGOTTEN: Duration = Duration::from_secs(300);
const BYTES: usize = 17;

/// What a process tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    ends: bool,
    /// Since the epoch.
    at: Duration,
    index: u32,
    round: u32,
}

impl Note {
    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = u8::from(self.ends);
        bytes[1..9].copy_from_slice(&(self.at.as_nanos() as u64).to_le_bytes());
        bytes[9..13].copy_from_slice(&self.index.to_le_bytes());
        bytes[13..].copy_from_slice(&self.round.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Self {
        let word = |from: usize| u32::from_le_bytes([0, 1, 2, 3].map(|at| bytes[from + at]));
        let nanoseconds = u64::from(word(1)) | u64::from(word(5)) << 32;
        Self { ends: bytes[0] == 1, at: Duration::from_nanos(nanoseconds), index: word(9), round: word(13) }
    }
}

pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Runs as such a process, which began at `now`, and returns the exit code that it is told.
pub(crate) fn run(now: SystemTime, mut arguments: impl Iterator<Item = OsString>) -> io::Result<u8> {
    let roll = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    let own = beside(&roll, process::id());
    // A process that was killed leaves its socket behind, and numbers of processes come again.
    let _ = fs::remove_file(&own);
    let socket = UnixDatagram::bind(&own)?;
    socket.set_read_timeout(Some(FORGOTTEN))?;
    let number = |name| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let note = Note { ends: false, at: since_epoch(now), index: number(INDEX), round: number(ROUND) };
    socket.send_to(&note.encode(), &roll)?;
    let mut code = [0];
    socket.recv(&mut code)?;
    let note = Note { ends: true, at: since_epoch(SystemTime::now()), ..note };
    socket.send_to(&note.encode(), &roll)?;
    Ok(code[0])
}

/// Where the process with this number listens.
fn beside(roll: &OsString, process: u32) -> PathBuf {
    let mut path = roll.clone();
    path.push(format!(".{process}"));
    path.into()
}

/// A process that runs and waits.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// When it began, since the epoch.
    pub(crate) began: Duration,
    pub(crate) index: u32,
    round: u32,
    address: PathBuf,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Roll(UnixDatagram);

impl Roll {
    pub(crate) fn listen(path: &Path, patience: Duration) -> Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(patience))?;
        Ok(Self(socket))
    }

    /// Waits until `count` processes have started and returns them by index. All must be of one round, and each
    /// index from 0 must be there: a fast start of something else is not a measurement.
    pub(crate) fn await_started(&self, count: usize) -> Result<Vec<Member>> {
        let mut members = Vec::with_capacity(count);
        while members.len() < count {
            let waited = || format!("{} of {count} processes have started", members.len());
            let (note, address) = self.next().with_context(waited)?;
            ensure!(!note.ends, "a process ended while others were starting");
            members.push(Member { began: note.at, index: note.index, round: note.round, address });
        }
        members.sort_by_key(|member| member.index);
        let complete = members.iter().enumerate().all(|(index, member)| member.index as usize == index);
        ensure!(complete, "{count} processes have started and their indices are not 0 to {}", count - 1);
        let round = members.first().map(|member| member.round);
        ensure!(
            members.iter().all(|member| Some(member.round) == round),
            "processes of several rounds have started"
        );
        Ok(members)
    }

    /// Ends a process with this exit code and returns when it went, since the epoch.
    pub(crate) fn end(&self, member: &Member, code: u8) -> Result<Duration> {
        self.tell(member, code)?;
        let (note, address) = self.next().context("waiting for a process to end")?;
        ensure!(note.ends && address == member.address, "another process spoke than the one that was to end");
        Ok(note.at)
    }

    /// Ends processes with exit code 0 and waits for what each says last.
    pub(crate) fn dismiss(&self, members: &[Member]) -> Result<()> {
        members.iter().try_for_each(|member| self.tell(member, 0))?;
        for _ in members {
            let (note, _) = self.next().context("waiting for all processes to end")?;
            ensure!(note.ends, "a process started while others were ending");
        }
        Ok(())
    }

    fn tell(&self, member: &Member, code: u8) -> Result<()> {
        let told = self.0.send_to(&[code], &member.address);
        told.map(drop).with_context(|| format!("the process with index {} is not there", member.index))
    }

    fn next(&self) -> Result<(Note, PathBuf)> {
        let mut bytes = [0; BYTES];
        let (length, address) = self.0.recv_from(&mut bytes)?;
        ensure!(length == BYTES, "a note has {length} bytes");
        let address = address.as_pathname().context("a process has no address")?;
        Ok((Note::decode(&bytes), address.to_owned()))
    }
}

/// The time of the last start, since the epoch.
pub(crate) fn last_began(members: &[Member]) -> Duration {
    members.iter().map(|member| member.began).max().unwrap_or_default()
}

/// The time of the first.
pub(crate) fn first_began(members: &[Member]) -> Duration {
    members.iter().map(|member| member.began).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_note_arrives_as_it_was_sent() {
        let at = Duration::from_nanos(1_234_567_890_123_456_789);
        for ends in [false, true] {
            let note = Note { ends, at, index: 63, round: 70_000 };
            assert_eq!(Note::decode(&note.encode()), note);
        }
    }

    #[test]
    fn a_process_tells_when_it_began_and_ends_as_it_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("roll");
        let roll = Roll::listen(&path, Duration::from_secs(60)).unwrap();
        let began = SystemTime::now();
        let process = thread::spawn(move || run(began, [path.into_os_string()].into_iter()));
        let members = roll.await_started(1).unwrap();
        assert_eq!((last_began(&members), first_began(&members)), (since_epoch(began), since_epoch(began)));
        let ended = roll.end(&members[0], 7).unwrap();
        assert!(ended >= since_epoch(began));
        assert_eq!(process.join().unwrap().unwrap(), 7);
        assert!(roll.end(&members[0], 0).is_err(), "it is gone");
    }

    #[test]
    fn the_same_index_twice_is_no_gang() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("roll");
        let roll = Roll::listen(&path, Duration::from_secs(60)).unwrap();
        let told = |name: &str, index, round| {
            let socket = UnixDatagram::bind(directory.path().join(name)).unwrap();
            let note = Note { ends: false, at: Duration::ZERO, index, round };
            socket.send_to(&note.encode(), &path).unwrap();
        };
        told("a", 1, 1);
        told("b", 0, 1);
        assert_eq!(roll.await_started(2).unwrap()[1].index, 1);
        told("c", 0, 1);
        told("d", 0, 1);
        assert!(roll.await_started(2).is_err());
        told("e", 0, 1);
        told("f", 1, 2);
        assert!(roll.await_started(2).is_err());
    }
}
