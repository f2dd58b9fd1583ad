//! Jobs as processes of this machine: finds the keeper of the data directory or starts one.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::{Executor, ExecutorEvent};
use crate::attempt_files;
use crate::error::WorkerError;
use crate::keeper::{
    self, Adopted, FromKeeper, Isolation, KEEPER_ARGUMENT, MAX_FRAME_BYTES, ToKeeper, decode_frame,
    encode_frame,
};
use crate::{containers, orphans, secret_files};

/// A keeper that lives answers a greeting at once; one that is stopped or hangs never does.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// How many commands travel in one frame at most.
const BATCH: usize = 1024;
const KEEPER_LOG: &str = "keeper.log";
/// Without these a program may not find its libraries.
const LINKER_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "LD_PRELOAD"];

/// What the keeper is told in the greeting, and where it is.
#[derive(Debug, Clone)]
pub(crate) struct KeeperOptions {
    pub(crate) directory: PathBuf,
    pub(crate) program: Option<PathBuf>,
    pub(crate) slots: u32,
    /// The umask of jobs; the keeper's own when absent.
    pub(crate) umask: Option<u32>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) linger: Duration,
    pub(crate) isolation: Isolation,
    /// No program can give a job more rights than it starts with.
    pub(crate) no_new_privileges: bool,
}

/// Finds or starts the keeper; also returns the jobs that it already has.
pub(crate) async fn connect(options: &KeeperOptions) -> Result<(Executor, Vec<Adopted>), WorkerError> {
    if let Ok(stream) = keeper::connect(&options.directory)
        && let Ok(greeted) = greet(stream, options).await
    {
        if suits(&greeted, options) {
            return Ok(greeted);
        }
        // Nothing is lost with it.
        greeted.0.send(ToKeeper::Shutdown);
    }
    if !keeper::end_former(&options.directory).await {
        tracing::error!("the keeper that was here before cannot be ended");
    }
    let orphans = orphans::kill_orphans(&options.directory).await;
    if orphans > 0 {
        tracing::warn!(count = orphans, "killed processes of jobs whose keeper is gone");
    }
    let grouped = keeper::remove_recorded(&options.directory);
    if grouped > 0 {
        tracing::warn!(count = grouped, "killed processes in control groups whose keeper is gone");
    }
    if !containers::remove_all_here(&options.directory).await {
        tracing::error!(
            "containers of jobs whose keeper is gone cannot be removed now; they are removed when their engine answers"
        );
    }
    remove_leftovers(&options.directory);
    let stream = start(options)?;
    greet(stream, options).await.map_err(|cause| WorkerError::KeeperGreeting { cause })
}

/// Whether a keeper from before can go on. One that isolates attempts in another way than this worker was told to goes,
/// as soon as it has no jobs.
fn suits((executor, jobs): &(Executor, Vec<Adopted>), options: &KeeperOptions) -> bool {
    let (is, wanted) = (executor.isolation, options.isolation.form);
    if executor.cpu_bind != options.isolation.cpu_bind {
        return !jobs.is_empty();
    }
    if is != wanted && !jobs.is_empty() {
        tracing::warn!(%is, %wanted, jobs = jobs.len(), "the keeper from before still has jobs: isolation stays as it was");
    }
    is == wanted || !jobs.is_empty()
}

/// Output that nobody will ask for: its jobs were lost with the keeper.
fn remove_leftovers(directory: &Path) {
    let folders = [
        keeper::output_directory(directory),
        keeper::result_directory(directory),
        attempt_files::attempt_directory(directory),
    ];
    for folder in folders {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            // What cannot be removed now is tried again at the next start.
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()),
                _ => std::fs::remove_file(entry.path()),
            };
        }
    }
    for entry in std::fs::read_dir(keeper::artifact_directory(directory)).into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir_all(entry.path());
    }
    keeper::remove_private_tmp(directory);
    secret_files::remove_all(directory);
    keeper::remove_empty_directories(&attempt_files::checkpoint_directory(directory));
}

fn start(options: &KeeperOptions) -> Result<StdStream, WorkerError> {
    // The link works even after the file was replaced by an upgrade.
    let program = options.program.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let attempt = || {
        let (ours, theirs) = StdStream::pair()?;
        let mut log = OpenOptions::new();
        let log = log.write(true).create(true).truncate(true).mode(0o600);
        let log = log.open(options.directory.join(KEEPER_LOG))?;
        // Jobs can look at the environment of their parent. What they may see comes with the greeting.
        let child = Command::new(&program)
            .env_clear()
            .envs(LINKER_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .arg0("muster-keeper")
            .arg(KEEPER_ARGUMENT)
            .arg(&options.directory)
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok((ours, child))
    };
    let (ours, mut child) =
        attempt().map_err(|cause| WorkerError::KeeperStart { program: program.clone(), cause })?;
    // Somebody has to collect it when it ends before this process does.
    std::thread::Builder::new()
        .name("keeper-wait".into())
        .spawn(move || child.wait())
        .map_err(|cause| WorkerError::KeeperStart { program, cause })?;
    Ok(ours)
}

async fn greet(stream: StdStream, options: &KeeperOptions) -> io::Result<(Executor, Vec<Adopted>)> {
    stream.set_nonblocking(true)?;
    let (mut reader, mut writer) = UnixStream::from_std(stream)?.into_split();
    let hello = ToKeeper::Hello {
        slots: options.slots,
        umask: options.umask,
        env: options.env.clone(),
        linger_ms: options.linger.as_millis() as u64,
        isolation: options.isolation.clone(),
        no_new_privileges: options.no_new_privileges,
    };
    writer.write_all(&encode_frame(&[hello])?).await?;
    let mut buffer = Vec::new();
    let answer = tokio::time::timeout(GREETING_TIMEOUT, read_frame(&mut reader, &mut buffer)).await;
    let mut messages = answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??.into_iter();
    let Some(FromKeeper::Welcome {
        pid,
        jobs,
        names_files,
        hands_secrets,
        runs_containers,
        gives_stdin,
        gives_contained_stdin,
        gives_terminals,
        changes_users,
        private_tmp,
        cpu_bind,
        isolation,
    }) = messages.next()
    else {
        return Err(io::Error::other("the first message is not a greeting"));
    };
    tracing::debug!(pid, jobs = jobs.len(), "connected to the keeper");
    let (commands, outgoing) = mpsc::unbounded_channel();
    let (incoming, events) = mpsc::unbounded_channel();
    let rest: Vec<_> = messages.collect();
    if !rest.is_empty() {
        // The receiver is right here.
        let _ = incoming.send(ExecutorEvent::Messages(rest));
    }
    tokio::spawn(read(reader, incoming));
    tokio::spawn(write(writer, outgoing));
    let executor = Executor {
        commands,
        events,
        names_files,
        hands_secrets,
        isolation,
        runs_containers,
        gives_stdin,
        gives_contained_stdin,
        gives_terminals,
        changes_users,
        private_tmp,
        cpu_bind,
    };
    Ok((executor, jobs))
}

async fn read_frame(reader: &mut OwnedReadHalf, buffer: &mut Vec<u8>) -> io::Result<Vec<FromKeeper>> {
    let length = reader.read_u32_le().await? as usize;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::other("the keeper sent a frame that is too long"));
    }
    buffer.resize(length, 0);
    reader.read_exact(buffer).await?;
    decode_frame(buffer)
}

async fn read(mut reader: OwnedReadHalf, events: mpsc::UnboundedSender<ExecutorEvent>) {
    let mut buffer = Vec::new();
    loop {
        let event = match read_frame(&mut reader, &mut buffer).await {
            Ok(messages) => ExecutorEvent::Messages(messages),
            Err(error) => ExecutorEvent::Lost(error),
        };
        let lost = matches!(event, ExecutorEvent::Lost(_));
        if events.send(event).is_err() || lost {
            return;
        }
    }
}

/// A write that fails needs no word here: the reader sees the same end.
async fn write(mut writer: OwnedWriteHalf, mut commands: mpsc::UnboundedReceiver<ToKeeper>) {
    let mut batch = Vec::new();
    while commands.recv_many(&mut batch, BATCH).await > 0 {
        let Ok(frame) = encode_frame(&batch) else { return };
        if writer.write_all(&frame).await.is_err() {
            return;
        }
        batch.clear();
    }
}
