//! What our own worker exchanges with the scheduler: many reports, heartbeats and claims in one request.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::gangs::SignalScope;
use crate::jobs::Job;
use crate::terminals::TerminalOrder;
use crate::usage::Usage;

/// A job under the lease that the worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct LeaseRef {
    pub job_id: String,
    pub lease: u64,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportKind {
    /// Exit code 0.
    Done,
    /// Any other end: exit code, signal, or the process could not be started.
    Failed,
    /// Stopped by the worker because the attempt ran longer than the job allows.
    TimedOut,
    /// Killed because it wanted more memory than it may have; the message tells how much.
    Oom,
    /// Handed back unfinished (worker shutdown, or claimed ahead and not started); costs no attempt.
    Released,
    /// Ended because of a stop order.
    Preempted,
    /// Ended during a stop, having said itself that its work is done.
    Finished,
    /// Nobody knows how the attempt ended, or how far it came: what looked after its process is gone. The process is too.
    Lost,
    /// The worker cannot start the job, and another attempt would end the same way: it fails for good.
    Refused,
}

/// A report on one job under its lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobReport {
    pub job_id: String,
    pub lease: u64,
    pub kind: ReportKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What went wrong, in words, where the exit says too little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The rule by which the end of a job that was told to stop was judged, for its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the job left in the file named by `MUSTER_OUTPUT`: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub outputs: Option<serde_json::Value>,
    /// What the attempt used, where the worker measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The body of `POST /workers/{id}/sync`. Every part may be empty.
///
/// The request counts as a heartbeat of the worker. It is answered as soon as the reports and
/// heartbeats are on disk and there is a job or a stop order to hand over, and after `wait_ms` at the
/// latest. With `wait_ms` 0 it never waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the protocol of its own")]
pub struct SyncRequest {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<JobReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heartbeats: Vec<LeaseRef>,
    /// How many more jobs the worker would take now; 0 asks for orders only.
    pub max: u32,
    pub wait_ms: u64,
    /// Jobs that were claimed but not started yet count against a worker's slots here, not there.
    /// The number of jobs beyond the slots that the worker wants queued locally.
    pub ahead: u32,
    /// Whether this poll wants to be woken by stop orders (one poll of a worker does).
    pub orders: bool,
    /// The worker shuts down, or wants less than it asked for: its parked polls are answered at once and
    /// without jobs, so that it need not abandon a poll that may just have claimed something.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// All ports that the worker keeps free for gangs at the moment; absent when they are as said before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u16>>,
    /// Names the claim, so that it can be asked for again when the answer was lost: the same key gets the
    /// same jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_key: Option<String>,
    /// The key was sent before and the answer did not arrive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub claim_again: bool,
    /// The worker prepares tasks of gangs and starts them when it is told to. It gets them as `reserved` then; other
    /// workers get them as `running` and start them at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prepares: bool,
    /// It fetches what was sent along with a job: its directory and its standard input. Others get no such job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub takes_inputs: bool,
    /// It fetches artifacts of needed jobs too, and hands what was sent along to containers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub takes_all_inputs: bool,
    /// Tasks that are ready for their start and were not told to. Each counts as a heartbeat; the request waits until
    /// one of them may start or must not any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<LeaseRef>,
    /// The worker stops each job before the lease ends that it was handed with (`lease_ttl_ms` of the job). Without it
    /// every lease is as long as the answer says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_leases: bool,
}

/// The scheduler's word on one report or heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportResult {
    pub job_id: String,
    pub lease: u64,
    /// 200 applied or repeated, 404 unknown job, 409 refused: the lease is lost and the process must not go on.
    pub status: u16,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An order to stop one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StopOrder {
    pub job_id: String,
    pub lease: u64,
    pub preemption_epoch: u32,
    pub reason: String,
    /// Milliseconds between the polite signal and the kill; what is left of them at the time of the answer,
    /// since all tasks of a gang have one deadline.
    pub grace_ms: u64,
    /// The job will be started again: this is a preemption notice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub comes_back: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SignalScope>,
    /// The polite signal; SIGTERM when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// The answer to a sync.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SyncResponse {
    /// One for each report, then one for each heartbeat and each prepared task, in the order of the request.
    pub results: Vec<ReportResult>,
    /// Prepared tasks whose whole round is prepared: they start now. Said as often as the task is named as prepared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub go: Vec<LeaseRef>,
    pub stop: Vec<StopOrder>,
    /// Sessions that clients want with jobs of the worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terminals: Vec<TerminalOrder>,
    pub jobs: Vec<Job>,
    /// How long a lease lives at least without a heartbeat: the worker stops its jobs itself before that, unless a job
    /// says that it has longer.
    pub lease_ttl_ms: u64,
    /// The longest log that is kept of one stream of one attempt.
    pub log_limit_bytes: u64,
}

/// The answer to a heartbeat of a job that must stop. Both spellings serve both builds of the old worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAction {
    pub action: String,
    pub preemption_epoch: u32,
    #[serde(rename = "preemptionEpoch")]
    pub preemption_epoch_camel: u32,
}
