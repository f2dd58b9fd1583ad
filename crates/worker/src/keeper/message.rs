//! What agent and keeper say to each other over their socket.
//!
//! A frame is a length (four bytes, little endian) and a JSON array of messages: whatever has come up
//! since the last frame travels together. Both ends are the same build or close to it; unknown fields
//! are ignored so that a newer agent can adopt the jobs of an older keeper.

use std::fmt;
use std::io;
use std::sync::Arc;

use muster_protocol::{SignalScope, TerminalSize, Usage};
use serde::{Deserialize, Serialize};

use super::cgroups::{Isolation, IsolationForm, Limits};
use super::secret_grant::SecretGrant;
use super::stopping::Words;
use crate::containers::ContainerSpec;
use crate::job_user::JobUser;

/// No frame is longer; a longer one means that the two ends lost step.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// One attempt of one job. There is never more than one process under a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub job_id: Arc<str>,
    pub lease: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.job_id, self.lease)
    }
}

/// A process to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartSpec {
    pub key: Key,
    pub argv: Vec<String>,
    /// On top of the environment given in the greeting.
    pub env: Vec<(String, String)>,
    /// Names that are left out of the environment given in the greeting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// Opened secrets. They stay in memory: the keeper writes them to no disk and tells nobody but the process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretGrant>,
    /// What the attempt may use.
    #[serde(default, skip_serializing_if = "Limits::are_none")]
    pub limits: Limits,
    /// The text of the file that the process finds under `MUSTER_HOSTFILE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostfile: Option<String>,
    pub cwd: String,
    /// The file that the process reads as its standard input; nothing when absent. The keeper removes it at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Between the polite signal and the kill, when the keeper stops the job by itself.
    pub grace_ms: u64,
    /// How long its lease lasts without being renewed; as long as the fence says when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// The polite signal; SIGTERM when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<i32>,
    /// How long the process may live, counted from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How the job wants to be told to stop, and what its exit means then.
    #[serde(default)]
    pub manner: StopManner,
    /// The job has a checkpoint to start from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_checkpoint: bool,
    /// The size of the terminal that the process runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// Files and directories that belong to the attempt. They follow from its key, so that they are not sent.
    #[serde(default, skip_serializing_if = "AttemptPaths::is_empty")]
    pub paths: AttemptPaths,
    /// The container that the command runs in; a process of the host without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<ContainerSpec>>,
    /// The user that the attempt runs as; the keeper's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Box<JobUser>>,
    /// What the agent wants to know again after its own restart.
    pub note: String,
}

/// How a job wants to be told to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopManner {
    pub scope: SignalScope,
    /// Where the job names no signal, SIGUSR1 for those that catch it.
    pub prefers_usr1: bool,
    /// Exit code 0 after a notice means that the job has finished.
    pub exit0_finishes: bool,
}

/// Paths that an attempt finds in its environment. Those that are empty are not in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptPaths {
    /// Appears when the job is told to stop.
    pub notice: String,
    /// Made by the job when it has finished.
    pub done: String,
    /// The checkpoint that the attempt starts from, put there by the agent.
    pub checkpoint: String,
    /// The checkpoint that the attempt leaves.
    pub checkpoint_out: String,
    /// A directory that the attempts of the job on this machine share.
    pub checkpoint_dir: String,
}

impl AttemptPaths {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a process was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The scheduler ordered it.
    Order,
    /// The worker is shutting down.
    Shutdown,
    /// The lease belongs to somebody else by now.
    LeaseLost,
    /// The agent could not renew the lease in time.
    Fence,
    /// The process has lived as long as it may.
    Timeout,
}

/// An order to stop a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopSpec {
    pub key: Key,
    pub grace_ms: u64,
    pub cause: StopCause,
    /// The polite signal, where it is not the one given at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Who gets it, where that was not said at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SignalScope>,
    /// What the job is told; the usual words for the cause when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Words>,
}

/// From the agent to the keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// The first message of every connection.
    Hello {
        slots: u32,
        env: Vec<(String, String)>,
        linger_ms: u64,
        /// The umask of jobs; the keeper's own when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        umask: Option<u32>,
        /// Where attempts get their groups; an older agent says nothing.
        #[serde(default)]
        isolation: Isolation,
        /// No program can give a job more rights than it starts with; an older agent says nothing.
        #[serde(default)]
        no_new_privileges: bool,
    },
    Start(Box<StartSpec>),
    /// Stops a job in whatever state it is: the polite signal now, the kill after the grace.
    Stop(Box<StopSpec>),
    /// Takes back a job that has not been started; one that has goes on.
    Withdraw {
        key: Key,
    },
    /// No job whose lease lasts for `ttl_ms` may live beyond this time of [`boottime_ns`](super::boottime_ns); those with
    /// a longer lease may live on for as much longer.
    Fence {
        deadline_ns: u64,
        ttl_ms: u64,
    },
    /// The agent is done with these; the keeper forgets them.
    Forget {
        keys: Vec<Key>,
    },
    /// Kills what is left and ends the keeper.
    Shutdown,
}

/// How an attempt came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Exited(i32),
    Signalled(i32),
    /// There never was a process, for this reason.
    NotStarted(String),
    /// Taken back before its turn came.
    Withdrawn,
    /// It may have run and is gone, for this reason; nobody knows how it ended.
    Vanished(Box<str>),
    /// The same of a job that is not to run again.
    Lost(Box<str>),
}

/// By what a job that was told to stop said that it has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishedBy {
    Marker,
    ExitCode,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub outcome: Outcome,
    /// Set when the keeper sent signals before the end came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<StopCause>,
    /// The number of the stop that the scheduler ordered; 0 where it ordered none.
    #[serde(default)]
    pub epoch: u32,
    /// Whether the job was told that it will be started again.
    #[serde(default)]
    pub comes_back: bool,
    /// Set when the job has finished all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<FinishedBy>,
    /// The output that was written, if any was: it is the agent's to read and to remove.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    #[serde(default)]
    pub files: Files,
    /// What is wrong with what the job left for its dependants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
    pub run_us: u64,
    /// What the attempt used, with everything that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Set when it was killed because it wanted more memory than it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
}

/// How much memory an attempt may have and how much it had when it was killed for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// Absent where the memory of the machine, or of the worker's own group, was too small for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    pub peak_bytes: u64,
}

impl End {
    /// An end without output, of a job that nobody had told to stop.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            cause: None,
            epoch: 0,
            comes_back: false,
            finished: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            files: Files::default(),
            complaint: None,
            run_us: 0,
            usage: None,
            out_of_memory: None,
        }
    }
}

/// Where the output of an attempt is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    pub stdout: String,
    pub stderr: String,
    /// What the job left for its dependants, if it is in order.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// The checkpoint that the job left, if it left one: it is the agent's to save and to remove.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checkpoint: String,
    /// The directory of artifacts, if something is in it: it is the agent's to keep and to remove.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub artifacts: String,
}

/// Where a job stands in the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Queued,
    Running(Files),
    Ended(End),
}

/// A job that a new agent finds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Adopted {
    pub key: Key,
    pub phase: Phase,
    pub note: String,
}

/// From the keeper to the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromKeeper {
    /// The answer to the greeting: everything the keeper knows.
    Welcome {
        pid: u32,
        jobs: Vec<Adopted>,
        /// It knows the paths of an attempt by its key; keepers of older versions must be told.
        #[serde(default)]
        names_files: bool,
        /// It hands secrets to processes.
        #[serde(default)]
        hands_secrets: bool,
        /// How it isolates attempts; keepers of older versions do not.
        #[serde(default)]
        isolation: IsolationForm,
        /// It starts containers; one of an older version would start their command on the host.
        #[serde(default)]
        runs_containers: bool,
        /// It gives processes a standard input.
        #[serde(default)]
        gives_stdin: bool,
        /// It gives containers a standard input too.
        #[serde(default)]
        gives_contained_stdin: bool,
        /// It gives processes terminals.
        #[serde(default)]
        gives_terminals: bool,
        /// It runs attempts as other users; one of an older version would run them as its own.
        #[serde(default)]
        changes_users: bool,
        /// It gives attempts a `/tmp` of their own.
        #[serde(default)]
        private_tmp: bool,
        /// It binds attempts to CPUs.
        #[serde(default)]
        cpu_bind: bool,
    },
    /// Sent only for jobs that have not ended by the time the message leaves.
    Started {
        key: Key,
        pid: u32,
        files: Files,
    },
    Ended {
        key: Key,
        end: End,
    },
}

/// Makes one frame of some messages.
pub fn encode_frame<T: Serialize>(messages: &[T]) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, messages)?;
    let length = u32::try_from(frame.len() - 4).map_err(|_| io::Error::other("frame too long"))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Reads the messages of one frame, its length already taken off.
pub fn decode_frame<T: for<'de> Deserialize<'de>>(frame: &[u8]) -> io::Result<Vec<T>> {
    Ok(serde_json::from_slice(frame)?)
}
