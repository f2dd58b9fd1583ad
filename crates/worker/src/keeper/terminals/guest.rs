//! `exec`: one program beside those of an attempt, as the attempt's first process would find the world: its user, directory,
//! environment, mark.
//!
//! Guarantees: the program is held by the limits of the attempt and counts for it; it ends when the attempt does or its client
//! goes; its last output comes before its end; nothing that it left running keeps a session open.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use muster_protocol::{TerminalEnd, TerminalFrame, TerminalOpen};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;

use super::super::cgroups::{Entrance, Visit, Way};
use super::super::launch::{self, is_program};
use super::super::mark::Mark;
use super::super::message::Key;
use super::super::rusage;
use super::super::spawn::{self, Plan};
use super::super::table::Table;
use super::super::view::{Seen, View};
use super::guests::Host;
use super::{contained_guest, pty, wire};
use crate::containers::carried;
use crate::job_user::{JobUser, hand_over};

/// What is read at once.
const PIECE_BYTES: usize = 32 * 1024;
/// How much is still read when the program has ended: more than pipes hold.
const REST_BYTES: usize = 4 * 1024 * 1024;
/// Between the hang-up of a client that is gone and the kill.
const HANG_UP: Duration = Duration::from_secs(2);
const LAST_SIGNAL: u8 = 31;

/// The ends of a program's pipes or terminal that are ours.
struct Ours {
    /// `None` once there is no more input.
    input: Option<File>,
    outputs: Vec<(File, Kind)>,
    terminal: Option<File>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Output,
    ErrorOutput,
}

/// Starts the program and serves its session to the end.
pub(super) fn run(
    table: &Arc<Table>,
    key: &Key,
    open: &TerminalOpen,
    stream: &UnixStream,
) -> Result<(), String> {
    let host = table.expect_guest(key).ok_or("the job has no process here at this moment")?;
    // From before its start: whatever the kernel kills from now on may be for what the guest takes.
    let is_contained = host.is_contained;
    let mut visit = host.way.as_ref().filter(|_| !is_contained).map(Way::visit);
    let entered = enter(table, key, (&host, visit.as_ref()), open, stream);
    visit = visit.filter(|_| entered.is_ok());
    table.unexpect_guest(key, entered.is_ok());
    let Entered { pid, ours, stopped, stop, streams } = entered?;
    let leader = host.leader;
    // From here on there is a session, and its end is told in it.
    let _ = wire::write(stream, &TerminalFrame::Opened);
    let [from_client, to_client] = streams;
    let listening = Listening {
        table: Arc::clone(table),
        key: key.clone(),
        pid,
        is_contained,
        stopped: Arc::clone(&stopped),
    };
    let (input, terminal) = (ours.input, ours.terminal);
    let threads = [
        thread("terminal-in", move || listening.serve(&from_client, input, terminal.as_ref())),
        thread("terminal-out", move || pump(ours.outputs, &stopped, &to_client)),
    ];
    launch::wait_for_end(pid);
    let reaped = table.dismiss_guest(key, pid, || {
        let reaped = rusage::collect(pid.cast_signed());
        drop(visit);
        reaped
    });
    let job_ended = table.leader(key) != Some(leader);
    drop(stop);
    let [listening, pumping] = threads;
    pumping.map(JoinHandle::join);
    let end = ended(reaped.map(|(status, _)| status), job_ended);
    let _ = wire::write(stream, &TerminalFrame::Ended(end));
    // The listener may be in the middle of a message that never comes.
    let _ = stream.shutdown(Shutdown::Both);
    listening.map(JoinHandle::join);
    Ok(())
}

/// A guest with a process.
struct Entered {
    pid: u32,
    ours: Ours,
    /// Says that the other end was closed.
    stopped: Arc<OwnedFd>,
    stop: OwnedFd,
    streams: [UnixStream; 2],
}

/// Makes the process of a guest, inside of the group of the attempt.
fn enter(
    table: &Table,
    key: &Key,
    (host, visit): (&Host, Option<&Visit>),
    open: &TerminalOpen,
    stream: &UnixStream,
) -> Result<Entered, String> {
    let failed = |error: io::Error| format!("cannot make what the program needs: {error}");
    let (ours, theirs) = ends(open).map_err(failed)?;
    if !host.is_contained {
        hand_over(host.user.as_deref(), &theirs)?;
    }
    let (stopped, stop) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))?;
    let streams = [stream.try_clone().map_err(failed)?, stream.try_clone().map_err(failed)?];
    let place = Place {
        leader: host.leader,
        group: visit.map(Visit::entrance),
        no_new_privileges: table.lock().no_new_privileges,
        user: host.user.as_deref(),
        seen: host.has_own_tmp.then(|| Seen::by(host.leader)).transpose().map_err(failed)?,
    };
    let stdio = [theirs[0].as_fd(), theirs[1].as_fd(), theirs[2].as_fd()];
    let pid = if host.is_contained {
        contained_guest::start(table, key, host.leader, open, stdio)?
    } else {
        start(&place, open, stdio)?
    };
    drop(theirs);
    if !table.admit_guest(key, host.leader, pid) {
        super::super::signals::kill(pid);
        let _ = rusage::collect(pid.cast_signed());
        return Err("the job has just ended".to_owned());
    }
    Ok(Entered { pid, ours, stopped: Arc::new(stopped), stop, streams })
}

fn thread(name: &str, serve: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(serve);
    spawned.map_err(|error| eprintln!("keeper: a terminal lacks a thread: {error}")).ok()
}

fn ended(status: io::Result<i32>, job_ended: bool) -> TerminalEnd {
    let reason = job_ended.then(|| "the job has ended".to_owned());
    match status.map(ExitStatus::from_raw) {
        Ok(status) => TerminalEnd { exit_code: status.code(), signal: status.signal(), reason },
        Err(error) => {
            let reason = Some(format!("the end of the program was missed: {error}"));
            TerminalEnd { reason, ..TerminalEnd::default() }
        }
    }
}

/// Pipes, or a terminal of the size that the client has.
fn ends(open: &TerminalOpen) -> io::Result<(Ours, [File; 3])> {
    if let Some(size) = open.size {
        let (ours, theirs) = pty::open(size)?;
        let all = [theirs.try_clone()?, theirs.try_clone()?, theirs];
        let outputs = vec![(ours.try_clone()?, Kind::Output)];
        return Ok((Ours { input: Some(ours.try_clone()?), outputs, terminal: Some(ours) }, all));
    }
    let (stdin, input) = pipe()?;
    let (output, stdout) = pipe()?;
    let (error_output, stderr) = pipe()?;
    for end in [&input, &output, &error_output] {
        fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let outputs = vec![(output, Kind::Output), (error_output, Kind::ErrorOutput)];
    Ok((Ours { input: Some(input), outputs, terminal: None }, [stdin, stdout, stderr]))
}

fn pipe() -> io::Result<(File, File)> {
    let (read, write): (OwnedFd, OwnedFd) = pipe2(OFlag::O_CLOEXEC)?;
    Ok((read.into(), write.into()))
}

/// Where a guest finds itself.
struct Place<'a> {
    /// The first process of the attempt.
    leader: u32,
    group: Option<Entrance<'a>>,
    no_new_privileges: bool,
    user: Option<&'a JobUser>,
    /// Where the attempt has a `/tmp` of its own: what it sees.
    seen: Option<Seen>,
}

/// Starts the program where the attempt's first process is now, with the environment that it was started with.
fn start(place: &Place<'_>, open: &TerminalOpen, stdio: [BorrowedFd<'_>; 3]) -> Result<u32, String> {
    let (leader, user) = (place.leader, place.user);
    let name = open.argv.first().filter(|name| !name.is_empty()).ok_or("the command is empty")?;
    let environment = std::fs::read(format!("/proc/{leader}/environ"))
        .map_err(|error| format!("the environment of the job cannot be read: {error}"))?;
    let mut variables: BTreeMap<&[u8], &[u8]> = environment
        .split(|byte| *byte == 0)
        .filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
            Some((&pair[..equals], &pair[equals + 1..]))
        })
        .collect();
    if let (Some(_), Some(term)) = (open.size, &open.term) {
        variables.insert(b"TERM", term.as_bytes());
    }
    let directory = format!("/proc/{leader}/cwd");
    let path = variables.get(b"PATH".as_slice()).copied();
    let program = launch::as_user(user, || find(name, path, Path::new(&directory)))?;
    let zero = |what: &str| format!("cannot start {name:?}: {what} has a zero byte in it");
    let text = |bytes: &[u8], what: &str| CString::new(bytes).map_err(|_| zero(what));
    let argv = open.argv.iter().map(|argument| text(argument.as_bytes(), "an argument"));
    let argv = argv.collect::<Result<Vec<_>, _>>()?;
    let env =
        variables.into_iter().map(|(name, value)| text(&[name, b"=", value].concat(), "the environment"));
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let plan = Plan {
        program: &text(program.as_os_str().as_bytes(), "the program")?,
        argv: &argv,
        env: &env,
        directory: &text(directory.as_bytes(), "the working directory")?,
        stdio,
        mark: Mark::of_process(leader.cast_signed()),
        group: place.group,
        terminal: open.size.is_some(),
        no_new_privileges: place.no_new_privileges,
        user,
        expendable: true,
        view: place.seen.as_ref().map(View::Of),
    };
    spawn::spawn(&plan).map_err(|error| format!("cannot start {name:?}: {error}"))
}

fn find(name: &str, path: Option<&[u8]>, directory: &Path) -> Result<PathBuf, String> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = path.map_or(launch::DEFAULT_PATH.into(), String::from_utf8_lossy);
    let mut places = std::env::split_paths(path.as_ref()).map(|place| directory.join(place).join(name));
    places
        .find(|place| is_program(place))
        .ok_or_else(|| format!("cannot start {name:?}: no such program in the PATH of the job ({path})"))
}

/// Passes on what the program writes, until it has ended and nothing is left, or nobody reads.
fn pump(mut outputs: Vec<(File, Kind)>, stopped: &OwnedFd, to_client: &UnixStream) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = REST_BYTES;
    loop {
        let stopping = wait(&outputs, stopped);
        let mut idle = true;
        for at in (0..outputs.len()).rev() {
            let (file, kind) = &mut outputs[at];
            let bytes = match file.read(&mut piece) {
                Ok(length @ 1..) => piece[..length].to_vec(),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    continue;
                }
                // The end of a pipe, or of a terminal that nobody has open any more.
                Ok(0) | Err(_) => {
                    outputs.remove(at);
                    continue;
                }
            };
            idle = false;
            left = if stopping { left.saturating_sub(bytes.len()) } else { left };
            let frame = match kind {
                Kind::Output => TerminalFrame::Output(bytes),
                Kind::ErrorOutput => TerminalFrame::ErrorOutput(bytes),
            };
            if wire::write(to_client, &frame).is_err() {
                return;
            }
        }
        if outputs.is_empty() || (stopping && idle) || left == 0 {
            return;
        }
    }
}

/// Waits for something to read; says whether the program has ended.
fn wait(outputs: &[(File, Kind)], stopped: &OwnedFd) -> bool {
    let mut polled: Vec<PollFd<'_>> =
        outputs.iter().map(|(file, _)| PollFd::new(file.as_fd(), PollFlags::POLLIN)).collect();
    polled.push(PollFd::new(stopped.as_fd(), PollFlags::POLLIN));
    match poll(&mut polled, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(_) => return true,
    }
    polled.last().and_then(PollFd::revents).is_some_and(|events| !events.is_empty())
}

/// The side of a session that hears the client.
struct Listening {
    table: Arc<Table>,
    key: Key,
    pid: u32,
    /// What stands for a program in a container passes signals on.
    is_contained: bool,
    stopped: Arc<OwnedFd>,
}

impl Listening {
    /// Does what the client says until the program has ended or the client is gone.
    fn serve(&self, stream: &UnixStream, mut input: Option<File>, terminal: Option<&File>) {
        while let Ok(Some(frame)) = wire::read(stream) {
            match frame {
                TerminalFrame::Input(bytes) => self.write(stream, &mut input, &bytes),
                TerminalFrame::InputEnd if terminal.is_some() => {
                    self.write(stream, &mut input, &[END_OF_INPUT]);
                }
                TerminalFrame::InputEnd => input = None,
                TerminalFrame::Resize(size) => {
                    if let Some(terminal) = terminal {
                        // A size that the system does not take is no reason to end.
                        let _ = pty::resize(terminal, size);
                    }
                }
                TerminalFrame::Signal(number @ 1..=LAST_SIGNAL) => {
                    self.signal(i32::from(number));
                }
                _ => break,
            }
        }
        drop(input);
        self.signal(libc::SIGHUP);
        if self.has_ended_within(HANG_UP) {
            return;
        }
        if self.is_contained {
            self.signal(libc::SIGKILL);
            if self.has_ended_within(HANG_UP) {
                return;
            }
        }
        self.table.kill_guest(&self.key, self.pid);
    }

    fn signal(&self, number: i32) {
        let number = if self.is_contained { carried(number) } else { number };
        self.table.signal_guest(&self.key, self.pid, number);
    }

    /// Writes all of it, however slowly the program reads. One that reads no more gets no more.
    fn write(&self, stream: &UnixStream, input: &mut Option<File>, mut bytes: &[u8]) {
        while let Some(file) = input
            && !bytes.is_empty()
        {
            match file.write(bytes) {
                Ok(length @ 1..) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut polled = [
                        PollFd::new(file.as_fd(), PollFlags::POLLOUT),
                        PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN),
                        // A client that is gone is told of whatever is asked for.
                        PollFd::new(stream.as_fd(), PollFlags::empty()),
                    ];
                    let _ = poll(&mut polled, PollTimeout::NONE);
                    let over = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
                    if polled[1..].iter().any(over) {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => *input = None,
            }
        }
    }

    fn has_ended_within(&self, time: Duration) -> bool {
        let mut polled = [PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN)];
        let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        poll(&mut polled, time).is_ok_and(|ready| ready > 0)
    }
}

/// What a terminal takes for the end of input at the beginning of a line: Ctrl-D.
const END_OF_INPUT: u8 = 4;
