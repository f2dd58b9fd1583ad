//! The output of a process that has secrets: pipes, and a thread that masks what comes out of them.
//!
//! Guarantees: what is written to the files of the attempt holds no value of its secrets; the thread ends with the attempt, even
//! if somebody outside of it still has the pipe; the process is never stopped by a file that cannot be written.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;

use muster_seal::SecretValue;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;

use super::masking::Masker;
use super::outputs::Handles;

const PIECE_BYTES: usize = 64 * 1024;
/// How many pieces of one stream go before the other has its turn. Together they are more than a pipe can hold.
const TURN_PIECES: usize = 64;
const STACK_BYTES: usize = 256 * 1024;

/// The thread between the pipes and the files.
#[derive(Debug)]
pub(super) struct MaskedOutput {
    thread: Option<JoinHandle<()>>,
    /// Closed when there is nothing more to wait for.
    stop: Option<OwnedFd>,
}

/// One stream on its way.
#[derive(Debug)]
struct Stream {
    /// Gone when every writer has closed its end.
    from: Option<File>,
    to: File,
    masker: Masker,
}

impl MaskedOutput {
    /// Puts the mask between a process and its files; the process gets the handles that are returned.
    pub(super) fn between(files: Handles, values: &[SecretValue]) -> Result<(Self, Handles), String> {
        let failed = |error: io::Error| format!("cannot mask the output of the job: {error}");
        let (out, stdout) = stream(files.stdout, values).map_err(failed)?;
        let (err, stderr) = stream(files.stderr, values).map_err(failed)?;
        let (stopped, stop) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let thread = std::thread::Builder::new()
            .name("mask".into())
            .stack_size(STACK_BYTES)
            .spawn(move || copy([out, err], &stopped))
            .map_err(failed)?;
        Ok((Self { thread: Some(thread), stop: Some(stop) }, Handles { stdout, stderr }))
    }
}

impl Drop for MaskedOutput {
    /// Waits until what the process wrote is in the files.
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, there would be less output and nobody to tell.
            let _ = thread.join();
        }
    }
}

fn stream(to: File, values: &[SecretValue]) -> io::Result<(Stream, File)> {
    let (from, process_end) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&from, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let masker = Masker::new(values.iter());
    Ok((Stream { from: Some(from.into()), to, masker }, process_end.into()))
}

fn copy(mut streams: [Stream; 2], stopped: &OwnedFd) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut stopping = false;
    while streams.iter().any(|stream| stream.from.is_some()) {
        if !stopping {
            stopping = wait(&streams, stopped);
        }
        for stream in &mut streams {
            let mut left = TURN_PIECES;
            while left > 0 && stream.pass(&mut piece) {
                left -= 1;
            }
            // The attempt has ended, so that what was in the pipe is all there is.
            if stopping {
                stream.from = None;
            }
        }
    }
    streams.iter_mut().for_each(Stream::finish);
}

/// Waits for something to read; says whether the attempt is over.
fn wait(streams: &[Stream; 2], stopped: &OwnedFd) -> bool {
    let pipes = streams.iter().filter_map(|stream| stream.from.as_ref());
    let mut polled: Vec<PollFd<'_>> =
        pipes.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
    polled.push(PollFd::new(stopped.as_fd(), PollFlags::POLLIN));
    match poll(&mut polled, PollTimeout::NONE) {
        Ok(_) => {}
        Err(Errno::EINTR) => return false,
        // Nothing can be waited for any more; what is there is read once.
        Err(_) => return true,
    }
    polled.last().and_then(PollFd::revents).is_some_and(|events| !events.is_empty())
}

impl Stream {
    /// Passes one piece on; says whether there may be another.
    fn pass(&mut self, piece: &mut [u8]) -> bool {
        let Some(pipe) = &mut self.from else { return false };
        match pipe.read(piece) {
            Ok(0) => self.from = None,
            Ok(length) => {
                let mut out = Vec::with_capacity(length);
                self.masker.push(&piece[..length], &mut out);
                self.write(&out);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.from = None,
        }
        false
    }

    fn finish(&mut self) {
        let mut out = Vec::new();
        self.masker.finish(&mut out);
        self.write(&out);
    }

    fn write(&mut self, out: &[u8]) {
        // A full disk costs output and not the job.
        let _ = self.to.write_all(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(root: &std::path::Path) -> Handles {
        let file = |name: &str| File::create(root.join(name)).unwrap();
        Handles { stdout: file("out"), stderr: file("err") }
    }

    #[test]
    fn output_is_masked_on_its_way_and_complete_when_it_ends() {
        let root = tempfile::tempdir().unwrap();
        let values = [SecretValue::new(b"sesame".to_vec())];
        let (masked, mut handles) = MaskedOutput::between(files(root.path()), &values).unwrap();
        for _ in 0..50_000 {
            handles.stdout.write_all(b"open ses").unwrap();
            handles.stdout.write_all(b"ame\n").unwrap();
        }
        handles.stderr.write_all(b"sesa").unwrap();
        // Somebody else keeps the pipe open.
        let straggler = handles.stdout.try_clone().unwrap();
        drop(handles);
        drop(masked);
        let out = std::fs::read_to_string(root.path().join("out")).unwrap();
        assert_eq!(out, "open ***\n".repeat(50_000));
        assert_eq!(std::fs::read_to_string(root.path().join("err")).unwrap(), "sesa");
        drop(straggler);
    }
}
