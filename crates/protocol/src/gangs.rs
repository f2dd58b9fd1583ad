//! Gangs on the wire: how they are asked for, what a task learns about its peers, and how one is shown.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::JobStatus;

/// What becomes of tasks that have ended when the others must start again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GangPolicy {
    /// All tasks start again together; when one has ended already, the gang fails.
    #[default]
    RestartAll,
    /// Tasks that are done stay done; the others start again.
    KeepDone,
}

/// What one process of a job stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaunchMode {
    /// One process on each node, which starts its own workers: `torchrun`, `accelerate launch`, a script.
    #[default]
    PerNode,
    /// One process for each rank, as `srun` starts them.
    PerRank,
}

/// What exit code 0 means after a preemption notice, when the job did not say that it is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPreemptExit0 {
    /// It saved its state and comes back.
    #[default]
    Requeue,
    /// It has finished.
    Success,
}

/// Which processes of a job get the polite signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalScope {
    /// The process that was started.
    Leader,
    /// Its whole process group.
    #[default]
    Group,
    /// Everything that it started, but not itself.
    Descendants,
    /// Both.
    All,
}

/// One task of a round, as its peers see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GangPeer {
    /// Its index in the gang.
    pub index: u32,
    pub worker_id: String,
    /// Name or address under which its worker is reached; empty when it told none.
    pub host: String,
    /// The port that its worker keeps for this task in this round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Its entry in `GANG_PEERS`: `host:port`, or empty when there is none.
    pub address: String,
    /// The GPUs of its worker that it was given, where they are told apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<u32>,
}

/// What a claimed task learns about the round that it is part of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GangAssignment {
    pub gang_id: String,
    /// Tasks that this round counts with, which is what `GANG_SIZE` says.
    pub size: u32,
    pub index: u32,
    /// The number of the round, from 1.
    pub round: u32,
    pub launch: LaunchMode,
    pub slurm_env: bool,
    /// The tasks that start in this round, by index.
    pub peers: Vec<GangPeer>,
}

/// The answer to a submit of a gang.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GangSubmitted {
    pub gang_id: String,
    /// Ids of the tasks by index.
    pub tasks: Vec<String>,
    /// Remarks, such as resources that too few workers have today.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Where a gang stands as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GangState {
    /// Waits for dependencies, a time, a release or room.
    Waiting,
    /// Placed; not all of its workers have taken their tasks yet.
    Starting,
    Running,
    /// Told to stop; some processes may still be alive.
    Draining,
    Done,
    Failed,
    Cancelled,
}

/// A gang in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GangSummary {
    pub id: String,
    pub state: GangState,
    pub size: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    pub priority: i32,
    /// How often it was placed.
    pub rounds: u32,
    /// The epoch of its latest drain; 0 before the first.
    pub preemption_epoch: u32,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Why it failed, was cancelled or is being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Tasks by status.
    pub tasks: std::collections::BTreeMap<JobStatusName, u32>,
}

/// The name of a status as a key.
pub type JobStatusName = String;

/// A preemption notice: the job must save what it has and leave before the deadline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    pub job_id: String,
    pub status: JobStatus,
    pub reason: String,
    pub preemption_epoch: u32,
    /// When the processes are killed.
    #[schema(value_type = String, format = DateTime)]
    pub deadline: Timestamp,
    /// Whether the job will be started again.
    pub comes_back: bool,
}
