//! The job of the latency workload: this program itself, which sends the time to a socket as its first act.
//!
//! Nothing is parsed or set up before the clock is read, so that the time is that of the start of the process.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first argument that selects this mode.
pub(crate) const MODE: &str = "stamp";

/// Sends `now` to the socket that the second argument names.
pub(crate) fn send(now: SystemTime, mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let socket = arguments.nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    let nanoseconds = since_epoch(now).as_nanos() as u64;
    UnixDatagram::unbound()?.send_to(&nanoseconds.to_le_bytes(), socket)?;
    Ok(())
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Stamps(UnixDatagram);

impl Stamps {
    pub(crate) fn listen(path: &Path, patience: Duration) -> io::Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(patience))?;
        Ok(Self(socket))
    }

    /// Waits for the next stamp and says how long after `begin` it was taken.
    pub(crate) fn next_after(&self, begin: SystemTime) -> io::Result<Duration> {
        let mut bytes = [0; 8];
        let length = self.0.recv(&mut bytes)?;
        if length != bytes.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let at = Duration::from_nanos(u64::from_le_bytes(bytes));
        Ok(at.saturating_sub(since_epoch(begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_arrives_with_the_time_it_was_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stamps");
        let stamps = Stamps::listen(&path, Duration::from_secs(5)).unwrap();
        let begin = SystemTime::now();
        send(begin + Duration::from_millis(7), [MODE.into(), path.into_os_string()].into_iter()).unwrap();
        assert_eq!(stamps.next_after(begin).unwrap().as_millis(), 7);
    }
}
