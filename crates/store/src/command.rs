//! Commands and their outcomes.

use std::sync::Arc;

use muster_domain::image::ImageNote;
use muster_domain::limits::{LeaseTerms, Timeouts};
use muster_domain::{
    Actor, Amounts, Bid, By, Caller, Edit, Exit, Hold, Job, JobId, JobSet, JobSpec, LeaderTerm, Member,
    Queue, QueueAccess, QueueName, RateLimit, Rejection, ReportKind, Rule, SetId, Span, Spent, StepOutline,
    TerminalKind, Terms, Timestamp, Worker, WorkerId,
};

use muster_planner::policy::{Allowances, Cause};

use crate::accounts::{AccountCommand, AccountOutcome};
use crate::artifacts::{ExpireArtifacts, KeepArtifacts};
use crate::output::{ExpireOutput, Moved, MovedOutput};
use crate::secrets::{SecretCommand, SecretOutcome};
use crate::uploads::{UploadCommand, UploadOutcome};
use crate::webhooks::{WebhookCommand, WebhookOutcome};

/// One job of a submission. The id is made at the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    /// `depends_on` is empty here; the engine fills it from `depends_on` below.
    pub spec: Arc<JobSpec>,
    /// Keeps the job from starting until it is released.
    pub hold: Option<Hold>,
    /// Local name that other jobs of the same submission may depend on.
    pub reference: Option<String>,
    /// Ids of existing jobs, or references within the submission, as the client wrote them.
    pub depends_on: Vec<String>,
    /// The rule of each dependency, in that order; empty when all must succeed.
    pub rules: Vec<Rule>,
    /// Its place in the set of the submission.
    pub member: Option<Member>,
    /// Of a later task of a gang: the position of the first one within the submission.
    pub first_task: Option<usize>,
}

/// The set that the jobs of a submission belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetPart {
    New(JobSet),
    /// More steps for a pipeline that exists.
    Extend {
        set: SetId,
        outline: Vec<StepOutline>,
    },
}

/// A submission of one or many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submit {
    pub jobs: Vec<NewJob>,
    /// All or none. A submission with a set always is.
    pub atomic: bool,
    pub set: Option<SetPart>,
}

/// A request for work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ask {
    /// `None` for an anonymous claimer.
    pub worker: Option<WorkerId>,
    pub max: u32,
    /// How many jobs beyond its slots the worker queues locally.
    pub ahead: u32,
    /// Names the claim, so that it can be repeated.
    pub key: Option<Arc<str>>,
    /// The answer to a claim with this key was lost: what it handed out is handed out again.
    pub again: bool,
    /// The worker prepares tasks of gangs and waits for the word to start them; others start them at once.
    pub prepares: bool,
    /// For a worker that stops each job by itself before its lease ends.
    pub terms: Option<LeaseTerms>,
}

/// What a worker says about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub job: JobId,
    pub caller: Caller,
    pub kind: ReportKind,
    pub exit: Exit,
    pub message: Option<String>,
    /// A JSON object for the job's dependants.
    pub outputs: Option<Arc<str>>,
    /// What the attempt used, where its worker measures it.
    pub spent: Option<Spent>,
}

/// One pass over what is overdue, in bounded steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    pub timeouts: Timeouts,
    /// Since when workers could have reported; silence before that proves nothing.
    pub listening_since: Timestamp,
    /// The most jobs to handle in one transaction.
    pub limit: usize,
    /// Finished jobs older than this are removed; `None` keeps them.
    pub retention: Option<Span>,
}

/// One pass of the planner over the gangs that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanPass {
    pub timeouts: Timeouts,
    /// Since when workers could have claimed; a reservation is not overdue before that counts.
    pub listening_since: Timestamp,
    /// The most gangs to look at.
    pub limit: usize,
    /// Whether to look ahead for what does not fit: stop others for it, or keep room.
    pub look: bool,
    /// What stops may waste that priority does not demand, in each pool.
    pub allowances: Allowances,
}

/// What a pass of the planner did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanSummary {
    /// Gangs that were placed, and those whose placement was taken back.
    pub placed: u32,
    pub lapsed: u32,
    /// Gangs that wait for room.
    pub waiting: u32,
    /// Units that were told to stop for others.
    pub stopped: Stopped,
    /// Workers that keep room.
    pub keeping: u32,
    /// What is left of what stops may waste.
    pub allowances: Allowances,
    /// When a reservation can become overdue or a pause before a new round ends.
    pub next_due: Option<Timestamp>,
}

/// How many units were told to stop for others, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stopped {
    pub priority: u32,
    pub quota: u32,
    pub level: u32,
}

impl Stopped {
    pub const fn count(&mut self, cause: Cause) {
        match cause {
            Cause::Priority => self.priority += 1,
            Cause::Quota => self.quota += 1,
            Cause::Level => self.level += 1,
        }
    }

    pub const fn all(self) -> u32 {
        self.priority + self.quota + self.level
    }
}

/// The bytes of a checkpoint, or the file that they were put into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Bytes(Vec<u8>),
    File {
        name: Arc<str>,
        bytes: u64,
    },
    /// Parts that were put into the store before, under this name.
    Parts {
        name: Arc<str>,
        bytes: u64,
    },
}

/// The names of checkpoints in parts begin with this.
pub const PARTS_PREFIX: &str = "parts-";

/// A piece of a checkpoint that is too large for one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPart {
    pub job: JobId,
    /// All parts of one checkpoint have the same name, and no other checkpoint has it.
    pub name: Arc<str>,
    pub number: u32,
    pub bytes: Vec<u8>,
}

/// A scheduler, as the others on the same store know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Of its data directory; it outlives restarts.
    pub id: String,
    /// Where the others reach it.
    pub url: String,
    pub seen_at: Timestamp,
}

/// Finished jobs that are not to be kept any longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// None of them: remove sets that are empty and older instead.
    pub jobs: Vec<JobId>,
    /// Those that run again, or ended at this time or later, stay.
    pub before: Timestamp,
}

/// What an operator sets of a queue; `None` leaves it as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    pub name: QueueName,
    pub paused: Option<bool>,
    pub max_queued: Option<Option<u64>>,
    pub rate: Option<Option<RateLimit>>,
    pub terms: TermsChange,
    pub access: AccessChange,
}

/// Which lists of users change, and to what; an empty one is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessChange {
    pub submitters: Option<Vec<String>>,
    pub admins: Option<Vec<String>>,
    pub viewers: Option<Vec<String>>,
}

impl AccessChange {
    fn apply(&self, access: &mut QueueAccess) {
        let set = |list: &mut Vec<String>, change: &Option<Vec<String>>| {
            if let Some(names) = change {
                list.clone_from(names);
            }
        };
        set(&mut access.submitters, &self.submitters);
        set(&mut access.admins, &self.admins);
        set(&mut access.viewers, &self.viewers);
    }
}

impl QueueSettings {
    /// Nothing yet; callers set what they are about.
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            paused: None,
            max_queued: None,
            rate: None,
            terms: TermsChange::default(),
            access: AccessChange::default(),
        }
    }

    /// The queue as it is afterwards, but for its place among others.
    pub fn apply(&self, queue: &mut Queue) {
        if let Some(paused) = self.paused {
            queue.paused = paused;
        }
        if let Some(max_queued) = self.max_queued {
            queue.max_queued = max_queued;
        }
        if let Some(rate) = self.rate {
            queue.rate = rate;
            // A new rate starts full.
            queue.filled_at = Timestamp::default();
            queue.tokens_milli = 0;
        }
        self.terms.apply(&mut queue.terms);
        self.access.apply(&mut queue.access);
    }
}

/// What changes of how a queue shares with others: outside, whether it changes; inside, to what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermsChange {
    pub parent: Option<Option<QueueName>>,
    pub weight_milli: Option<Option<u32>>,
    pub nominal: Option<Option<Amounts>>,
    pub borrow: Option<Option<Amounts>>,
    pub lend: Option<Option<Amounts>>,
    pub max_running: Option<Option<u32>>,
    pub max_running_per_user: Option<Option<u32>>,
    pub max_queued_per_user: Option<Option<u64>>,
}

impl TermsChange {
    fn apply(&self, terms: &mut Terms) {
        fn set<T: Clone>(field: &mut Option<T>, change: Option<&Option<T>>) {
            if let Some(change) = change {
                field.clone_from(change);
            }
        }
        set(&mut terms.parent, self.parent.as_ref());
        set(&mut terms.weight_milli, self.weight_milli.as_ref());
        set(&mut terms.nominal, self.nominal.as_ref());
        set(&mut terms.borrow, self.borrow.as_ref());
        set(&mut terms.lend, self.lend.as_ref());
        set(&mut terms.max_running, self.max_running.as_ref());
        set(&mut terms.max_running_per_user, self.max_running_per_user.as_ref());
        set(&mut terms.max_queued_per_user, self.max_queued_per_user.as_ref());
    }
}

/// A change asked of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Submit(Submit),
    Claim(Ask),
    Report(Report),
    Heartbeat {
        job: JobId,
        caller: Caller,
    },
    /// A task of a gang is ready for its start. Answered like a heartbeat: once it is `running`, it starts.
    Prepared {
        job: JobId,
        caller: Caller,
    },
    AcknowledgeStop {
        job: JobId,
        caller: Caller,
        epoch: i64,
    },
    SaveCheckpoint {
        job: JobId,
        caller: Caller,
        /// The epoch of the stop that is under way; a caller that proves who it is needs none.
        epoch: Option<i64>,
        content: Content,
    },
    /// Keeps a part of a checkpoint until the checkpoint is saved or another one is.
    PutPart(CheckpointPart),
    /// An attempt left these; their bytes are in the blob store already.
    KeepArtifacts(KeepArtifacts),
    /// Artifacts that are old go, while their jobs stay.
    ExpireArtifacts(ExpireArtifacts),
    /// Output of ended attempts is in its place; of two copies the longer one stays.
    MoveOutput(Vec<MovedOutput>),
    /// Moved output goes, while its jobs stay.
    ExpireOutput(ExpireOutput),
    /// A scheduler says that it is there, and where; the time is filled in.
    NoteInstance(Instance),
    /// Somebody is about to enter a running job. Changes nothing but the history of the job.
    NoteTerminal {
        job: JobId,
        kind: TerminalKind,
    },
    /// What the worker that holds a job says about the image of its container.
    NoteImage {
        job: JobId,
        caller: Caller,
        note: ImageNote,
    },
    Cancel {
        job: JobId,
        message: Option<String>,
    },
    /// Stop a running job, or its gang, politely; it comes back at no cost.
    Preempt {
        job: JobId,
        message: Option<String>,
    },
    Hold {
        job: JobId,
        message: Option<String>,
    },
    Release {
        job: JobId,
    },
    /// Run a job again that failed or was cancelled, and what ended because of it.
    Retry {
        job: JobId,
    },
    /// Change a job that waits.
    Edit {
        job: JobId,
        edit: Edit,
    },
    /// Remove a job that has ended.
    Delete {
        job: JobId,
    },
    PutQueue(QueueSettings),
    /// Forgets a queue in which nothing is left.
    RemoveQueue {
        name: QueueName,
    },
    RegisterWorker(Worker),
    WorkerHeartbeat {
        worker: WorkerId,
        /// All ports that it keeps free for gangs; `None` when they are as said before.
        ports: Option<Vec<u16>>,
    },
    /// A claimer that knows no registration but its first gives its name: one that is not known gets a record. Workers
    /// that sync register again instead.
    Introduce {
        worker: WorkerId,
    },
    /// End the quarantine of a worker.
    ReleaseWorker {
        worker: WorkerId,
    },
    Sweep(Sweep),
    /// Place gangs that wait.
    Plan(PlanPass),
    /// Write the ranks of unfinished jobs with a number greater than `after` anew, if they were written by
    /// another policy.
    Rank {
        after: u64,
        limit: usize,
    },
    /// Lead roles, go on leading them, or give them up.
    Lead(Bid),
    /// A pass of a leader. It changes nothing when the role was taken over since.
    Led {
        leader: LeaderTerm,
        pass: Box<Command>,
    },
    /// What somebody asked for who is to be named in the events, and in the audit log where it leaves a line.
    Attributed(Box<Attributed>),
    /// The secret that all schedulers on this store share; the proposal becomes it when there is none.
    Secret {
        proposal: Arc<str>,
    },
    /// Remove exactly these jobs, as far as they may go.
    Remove(Removal),
    Webhook(WebhookCommand),
    Account(Box<AccountCommand>),
    /// Sealed secrets and the keys that they are sealed to.
    Secrets(SecretCommand),
    /// Uploads, and the removal of those that nothing names.
    Uploads(UploadCommand),
}

impl Command {
    /// The command of a leader, told apart from what it is done under.
    #[must_use]
    pub fn under(self, leader: LeaderTerm) -> Self {
        Self::Led { leader, pass: Box::new(self) }
    }

    /// The command of a caller, with its name.
    #[must_use]
    pub fn caused_by(self, by: By) -> Self {
        Self::Attributed(Box::new(Attributed { by, actor: None, command: self }))
    }

    /// What is to be done, whoever asks for it.
    pub fn bare(&self) -> &Self {
        match self {
            Self::Attributed(attributed) => attributed.command.bare(),
            Self::Led { pass, .. } => pass.bare(),
            command => command,
        }
    }
}

/// A command and who wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributed {
    pub by: By,
    /// For the audit log; `None` writes nothing there.
    pub actor: Option<Actor>,
    pub command: Command,
}

/// A job that was taken in, or the earlier one that its idempotency key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    pub job: Job,
    /// The key was used before; this is the job made then.
    pub repeated: bool,
    /// Remarks, such as resources that no worker has today.
    pub warnings: Vec<String>,
}

/// A job handed to a worker, with its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub job: Job,
    pub checkpoint: Option<Arc<[u8]>>,
    /// What the jobs that it depends on have left for it.
    pub inputs: Vec<Input>,
    /// Of a gang task: all tasks of the round, by index.
    pub peers: Vec<Job>,
}

/// The outputs of a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The name of its step, else of the job.
    pub name: Option<String>,
    pub index: Option<u32>,
    /// A JSON object, as text.
    pub outputs: Arc<str>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The job after the heartbeat; when it is `preempting`, the worker must stop it.
    pub job: Job,
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepSummary {
    pub requeued: u32,
    pub failed: u32,
    pub stops_forced: u32,
    /// Delays that ended, deadlines and overruns that were acted upon.
    pub alarms: u32,
    pub workers_offline: u32,
    pub removed: u32,
    /// A step reached its limit: sweep again at once.
    pub more: bool,
    /// When the next running job or stop order can become overdue.
    pub next_due: Option<Timestamp>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// One for each job, in order.
    Submitted(Vec<Result<Submitted, Rejection>>),
    /// The pipeline or array as it is now; `repeated` when its key was used before.
    SubmittedSet {
        set: JobSet,
        repeated: bool,
        warnings: Vec<String>,
    },
    Claimed(Vec<Claimed>),
    /// The job after the report; `repeated` when the same report had been applied before.
    Reported {
        job: Job,
        repeated: bool,
    },
    Heartbeat(HeartbeatReply),
    /// `repeated` when the same acknowledgement had ended the stop before.
    StopAcknowledged {
        repeated: bool,
    },
    /// The file that held the checkpoint before, if one did.
    CheckpointSaved {
        replaced: Option<Arc<str>>,
    },
    /// Jobs that ended at once, and jobs that were told to stop; the named one first.
    Cancelled {
        cancelled: Vec<JobId>,
        stopping: Vec<JobId>,
    },
    /// The job after a hold, release, retry or edit; `repeated` when nothing had to change.
    Changed {
        job: Job,
        repeated: bool,
    },
    Deleted,
    Queue(Queue),
    Registered(Worker),
    Worker(Worker),
    WorkerSeen,
    Swept(SweepSummary),
    Planned(PlanSummary),
    /// Where the next piece begins; `None` when all ranks are those of the policy in force.
    Ranked {
        next: Option<u64>,
    },
    /// What the bidder leads now.
    Leads(Vec<LeaderTerm>),
    Secret(Arc<str>),
    /// So many jobs, or empty sets, are gone.
    Removed(u32),
    /// They are listed. These blobs are named no longer.
    ArtifactsKept {
        replaced: Vec<String>,
    },
    /// These blobs are named no longer.
    ArtifactsExpired {
        blobs: Vec<String>,
    },
    /// One for each, in order.
    OutputMoved(Vec<Moved>),
    /// So many runs and bytes are gone; these blobs are named no longer.
    OutputExpired {
        runs: usize,
        bytes: u64,
        blobs: Vec<String>,
    },
    /// What was to be noted is on disk.
    Noted,
    Webhook(WebhookOutcome),
    Account(AccountOutcome),
    Secrets(SecretOutcome),
    Uploads(UploadOutcome),
}

/// One answer for each command of a batch.
pub type Answer = Result<Outcome, Rejection>;
