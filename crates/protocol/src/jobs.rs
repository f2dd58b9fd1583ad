//! Jobs on the wire: what a client submits and what it reads back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::containers::{Container, ImagePull};
use crate::devices::{JobDevice, Topology};
use crate::gangs::{GangAssignment, GangPolicy, GangState, LaunchMode, OnPreemptExit0, SignalScope};
use crate::inputs::ArtifactInput;
use crate::keys::{Concurrency, Unique};
use crate::retry::Retry;
use crate::secrets::{SealedSecret, SecretUse, SecretWish};
use crate::terminals::TerminalSize;
use crate::usage::JobUsage;

/// Where a job stands. `done`, `failed` and `cancelled` are final.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    #[default]
    Pending,
    Blocked,
    Reserved,
    Running,
    Preempting,
    Preempted,
    /// A task that ended well; it is done when all tasks of its gang have.
    Finished,
    Done,
    Failed,
    Cancelled,
}

/// Amounts of the things a job needs or a worker has. Zero amounts are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Resources {
    /// CPU cores; fractions are allowed down to a thousandth.
    #[serde(skip_serializing_if = "is_zero_f64")]
    #[schema(minimum = 0)]
    pub cpus: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_mb: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub vram_mb: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub gpus: u64,
    /// Named counters, such as licences.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero_f64(value: &f64) -> bool {
    *value == 0.0
}

/// What `POST /jobs` takes. Either `command` (run by `sh -c`) or `argv` (run as it is) is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SubmitRequest {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Tags that the worker must carry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The worker is to run nothing else meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Higher is more important.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    /// Attempts in all, the first one included; 3 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i64>,
    /// Seconds between the polite signal and the kill when the job is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u32>,
    /// What becomes of the running job when its worker reaches no scheduler: `stop` stops it soon, so that it soon starts
    /// elsewhere; `keep=30m` lets it go on for so long, and if it was lost it starts elsewhere no earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<String>,
    /// Runs the job in a terminal of this size, to which `GET /jobs/{id}/terminal` attaches; `{}` for 80 columns and 24 rows.
    /// What it writes is kept as standard output. Where no stop signal is given it is stopped with SIGHUP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<TerminalSize>,
    /// Tasks that start together or not at all; more than 1 makes a gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang_size: Option<i64>,
    /// The fewest tasks that a round may start with; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang_min: Option<i64>,
    /// The most tasks of the gang on one worker; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_per_worker: Option<i64>,
    /// Where the tasks of the gang are to be; close together when absent and workers have labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang_policy: Option<GangPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchMode>,
    /// Export the variables that Slurm sets, for programs that look for them (launch mode `per_rank`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slurm_env: bool,
    /// What exit code 0 after a preemption notice means; `requeue` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_preempt_exit0: Option<OnPreemptExit0>,
    /// Which processes get the polite signal; `group` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal_scope: Option<SignalScope>,
    /// Who submits it; limits for each user count by it. A caller with an account is its own user; only an operator
    /// names another. Without accounts it is taken as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Only its owner and operators see it, with its output and its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
    /// Whether it may be stopped in favour of others; true when absent. Only such work borrows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// A submit with a key that was used before returns the job made then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// An attempt that runs longer is stopped and counts as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// Not started before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub not_before: Option<Timestamp>,
    /// Not started before this many seconds have passed; an alternative to `not_before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<f64>,
    /// Failed if it has not ended by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Timestamp>,
    /// The polite signal, such as `SIGINT`; `SIGTERM` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// Not started until it is released.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// What `depends_on` must come to; `all_success` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<DependencyRule>,
    /// Rules of single entries of `depends_on`, by the entry; those with the same rule are judged together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, DependencyRule>,
    /// What becomes of the job when its dependencies can no longer satisfy their rules. When absent it fails
    /// if one of them failed, and is cancelled otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_unmet: Option<IfUnmet>,
    /// Patterns of files of the working directory that are kept as artifacts when an attempt has ended, such as `out/*.pt`;
    /// `*`, `?` and `[...]` within a name, `**` for any folders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// A file that standard output is written to as well, and standard error unless `stderr_path` is given. A relative path is
    /// meant from the working directory. Places such as `%j` (the id of the job), `%a` (its index) and `%N` (its host) are filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_path: Option<String>,
    /// The same for standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_path: Option<String>,
    /// What becomes of what is in these files when an attempt begins; `truncate` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_mode: Option<OpenMode>,
    /// Secrets that the job gets: `HF_TOKEN`, or `{"name": "db", "file": true, "as": "DB_PASSWORD_FILE"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretWish>,
    /// The image of the container that the command runs in; without one it runs on the worker's host. Also `image_name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How the container is made. Only with an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<Container>>,
    /// The id of a complete upload: each attempt runs in a copy of that directory, and `working_dir` lies in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// The text that each attempt reads from its standard input, from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The id of a complete upload of one file, which is the standard input; an alternative to `stdin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin_upload: Option<String>,
    /// Artifacts of jobs that it depends on, which it finds when it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<ArtifactInput>,
}

/// What becomes of what is in an output file already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// It stays, and new output comes after it.
    Append,
    /// It goes when an attempt begins.
    Truncate,
}

/// What a group of dependencies must come to.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DependencyRule {
    #[default]
    AllSuccess,
    AllDone,
    AllFailed,
    OneFailed,
    OneSuccess,
    NoneFailed,
    Always,
}

/// What becomes of a job whose dependencies can no longer satisfy their rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfUnmet {
    Fail,
    Cancel,
    Run,
}

/// A job as every read and every claim shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the API of its own")]
pub struct Job {
    pub id: String,
    pub command: String,
    pub status: JobStatus,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub done_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_heart_beat: Option<Timestamp>,
    pub max_retries: u32,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang_id: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub gang_size: u32,
    /// Left out for the first task of a gang.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub gang_index: u32,
    /// The stored checkpoint: embedded when it is JSON, otherwise a base64 string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub checkpoint: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<u64>,
    /// When the checkpoint was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub checkpoint_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub outputs: Option<Value>,
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub reservation_epoch: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reserved_at: Option<Timestamp>,
    /// Of a reserved task: since when its worker has everything ready for the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub prepared_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub preemption_epoch: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub drain_started_at: Option<Timestamp>,
    /// Only in the answer to a claim: everything the process needs in its environment beyond its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,

    // Additions to the original object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The worker runs nothing else meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// The GPUs that the job holds, or held last when it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<JobDevice>,
    /// The fencing number of the current or last claim; it only grows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why the job failed, was cancelled or is being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u32>,
    /// What becomes of it when its worker reaches no scheduler; the scheduler's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<String>,
    /// The size of the terminal that it runs in, at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<TerminalSize>,
    /// In a claim: how long this lease lives without a heartbeat. The worker stops the job before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ttl_ms: Option<u64>,
    /// Remarks on the submission, such as resources that no worker has today.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// How long it is expected to run, by the last two runs of the same user, queue and name that ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_seconds: Option<f64>,
    /// When the job may start: `not_before`, or the end of the delay before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// Why the job is held; absent when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<DependencyRule>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, DependencyRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_unmet: Option<IfUnmet>,
    /// Patterns of files of the working directory that are kept as artifacts when an attempt has ended, such as `out/*.pt`;
    /// `*`, `?` and `[...]` within a name, `**` for any folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// A file that standard output is written to as well, and standard error unless `stderr_path` is given. A relative path is
    /// meant from the working directory. Places such as `%j` (the id of the job), `%a` (its index) and `%N` (its host) are filled in;
    /// in the answer to a claim all are but the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_path: Option<String>,
    /// The same for standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_path: Option<String>,
    /// What becomes of what is in these files when an attempt begins; `truncate` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_mode: Option<OpenMode>,
    /// The secrets that it gets, each with its variable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
    /// Only in the answer to a claim: the secrets as they are sealed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed: Vec<SealedSecret>,
    /// The digest of the image that its last attempt ran; the id of an image that comes from no repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Its worker pulls the image at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull: Option<ImagePull>,
    /// The image of its container; absent where it runs on the worker's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<Container>>,
    /// The upload that each attempt runs in a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// The upload of one file that each attempt reads from its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_upload: Option<String>,
    /// Artifacts of jobs that it depends on, which it finds when it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<ArtifactInput>,
    /// The pipeline that the job is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_id: Option<String>,
    /// The array that the job is an element of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_id: Option<String>,
    /// Name of the step within its pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Index of an element of an array or of a step that was multiplied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_index: Option<u32>,
    /// Where its gang stands as a whole; only where all tasks of a gang are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang_state: Option<GangState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang_min: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_per_worker: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang_policy: Option<GangPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchMode>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slurm_env: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_preempt_exit0: Option<OnPreemptExit0>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_scope: Option<SignalScope>,
    /// Who submitted it, as they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Who submitted it, as the scheduler has proven: by an account, or by the owner of a socket on loopback. Absent where
    /// nothing is proven, or where the submitter named somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_user: Option<String>,
    /// Only its owner and operators see it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// False for a job that is never stopped in favour of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// Seconds for which it has run, over all attempts; left out while it has not. In lists and events without
    /// the attempt that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_seconds: Option<f64>,
    /// What it has used, over all attempts that have ended; absent where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<JobUsage>>,
    /// Its level of service by then, 0 to 2: those of its priority on a lower level go first. Only where one job or
    /// one gang is asked for, and only where its policy is `muster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// It has waited for so long that it goes first among those of its priority, and is not stopped for its level.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The pool of workers whose policy decides on it, where it has one of its own. Only where one job or one gang is
    /// asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Only in the answer to a claim of a gang task: who its peers are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangAssignment>,
    /// Only in the answer to a claim: what lets the job speak for itself, as `MUSTER_TOKEN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero_i32(value: &i32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero_u32(value: &u32) -> bool {
    *value == 0
}

/// One element of `POST /jobs/batch`: a job, optionally with a name that others in the batch depend on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BatchItem {
    /// Local name; other elements may use it in `depends_on`.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(flatten)]
    pub job: SubmitRequest,
}

/// The body of `POST /jobs/batch`: a bare array of elements.
pub type BatchRequest = Vec<BatchItem>;

/// One element of the answer to `POST /jobs/batch`, in the order of the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BatchResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<JobStatus>,
    /// Why this element was refused; its siblings are unaffected unless the batch is atomic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The answer to a cancel: every job that it ended or asked to stop, the named one first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CancelResult {
    /// Ended at once.
    pub cancelled: Vec<String>,
    /// Running; told to stop, and cancelled when the process is gone.
    pub stopping: Vec<String>,
}
