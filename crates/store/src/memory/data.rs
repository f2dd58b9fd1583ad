//! The tables of the memory store and the indexes that keep its primitives off finished jobs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::artifacts::Kept;
use muster_domain::{
    DeadLetter, DeliveryId, Event, GangId, Job, JobId, JobSet, LeaderLease, Lease, Phase, Queue, QueueName,
    Role, Rule, RunTimes, SetId, Shape, ShapeId, Status, Timestamp, UsageSum, Webhook, WebhookId, Worker,
    WorkerId,
};

use crate::command::Instance;
use crate::output::MovedOutput;
use crate::records::{AuditLine, RecordKind};

/// The place of a pending job in its shape's queue.
pub(super) type QueueKey = (i64, u64, JobId);

/// Everything the store keeps.
#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) jobs: HashMap<JobId, Job>,
    pub(super) last_seq: u64,
    pub(super) by_seq: BTreeMap<u64, JobId>,
    pub(super) by_key: HashMap<String, JobId>,
    pub(super) by_unique: HashMap<String, BTreeSet<JobId>>,
    pub(super) sets: BTreeMap<u64, JobSet>,
    pub(super) set_seqs: HashMap<SetId, u64>,
    pub(super) members: HashMap<SetId, BTreeSet<JobId>>,
    pub(super) last_set: u64,
    pub(super) children: HashMap<JobId, Vec<(JobId, Rule)>>,
    pub(super) shapes: HashMap<ShapeId, Shape>,
    pub(super) pending: BTreeMap<ShapeId, BTreeSet<QueueKey>>,
    pub(super) pinned: BTreeSet<JobId>,
    pub(super) held: HashMap<WorkerId, BTreeSet<JobId>>,
    pub(super) signs: BTreeSet<(Timestamp, JobId)>,
    pub(super) leases: BTreeSet<(Timestamp, JobId)>,
    pub(super) drains: BTreeSet<(Timestamp, JobId)>,
    pub(super) alarms: BTreeSet<(Timestamp, JobId)>,
    pub(super) ended: BTreeSet<(Timestamp, JobId)>,
    /// Unclaimed reservations by their time.
    pub(super) reservations: BTreeSet<(Timestamp, JobId)>,
    pub(super) gangs: HashMap<GangId, BTreeSet<JobId>>,
    /// Gangs that have a blocked task.
    pub(super) waiting_gangs: BTreeSet<GangId>,
    /// Gangs by the number of their first task.
    pub(super) first_tasks: BTreeMap<u64, GangId>,
    pub(super) holders: HashMap<String, BTreeSet<JobId>>,
    /// Jobs of each queue that take room, by shape.
    pub(super) held_in: HashMap<QueueName, BTreeMap<ShapeId, u32>>,
    pub(super) queues: BTreeMap<QueueName, Queue>,
    pub(super) counts: BTreeMap<Status, u64>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) last_event: u64,
    pub(super) events: BTreeMap<u64, Event>,
    pub(super) events_of: HashMap<JobId, Vec<u64>>,
    /// When the last of all jobs ended that were removed.
    pub(super) removed: Option<Timestamp>,
    pub(super) checkpoints: HashMap<JobId, Vec<u8>>,
    pub(super) leader_leases: BTreeMap<Role, LeaderLease>,
    /// By name and number, with the job that they belong to.
    pub(super) parts: BTreeMap<(String, u32), (JobId, Vec<u8>)>,
    /// By lease and name.
    pub(super) artifacts: HashMap<JobId, BTreeMap<(Lease, String), Kept>>,
    pub(super) outputs: HashMap<JobId, BTreeMap<Lease, MovedOutput>>,
    pub(super) instances: BTreeMap<String, Instance>,
    pub(super) secret: Option<String>,
    /// Run times by series, and when they were written.
    pub(super) run_times: BTreeMap<String, (RunTimes, Timestamp)>,
    /// By hour, user, queue and privacy.
    pub(super) usage: BTreeMap<(i64, String, String, bool), UsageSum>,
    pub(super) ranked_by: Option<String>,
    pub(super) webhooks: BTreeMap<WebhookId, Webhook>,
    pub(super) records: BTreeMap<(RecordKind, String), String>,
    pub(super) audit: BTreeMap<u64, AuditLine>,
    pub(super) last_audit: u64,
    pub(super) dead_letters: BTreeMap<DeliveryId, DeadLetter>,
}

pub(super) fn queue_key(job: &Job) -> QueueKey {
    (job.rank, job.seq, job.id)
}

impl Data {
    /// Inserts or replaces a job and its place in every index.
    pub(super) fn put(&mut self, job: Job) {
        if let Some(old) = self.jobs.remove(&job.id) {
            self.unindex(&old);
        }
        self.index(&job);
        self.jobs.insert(job.id, job);
    }

    pub(super) fn remove(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.unindex(&job);
        self.by_seq.remove(&job.seq);
        if let Some(key) = &job.spec.idempotency_key {
            self.by_key.remove(key);
        }
        if let Some(member) = &job.member
            && let Some(members) = self.members.get_mut(&member.set)
        {
            members.remove(&id);
        }
        if let Some(gang) = &job.spec.gang
            && let Some(tasks) = self.gangs.get_mut(&gang.id)
        {
            tasks.remove(&id);
            self.first_tasks.remove(&job.seq);
            if tasks.is_empty() {
                self.gangs.remove(&gang.id);
            }
        }
        self.children.remove(&id);
        self.checkpoints.remove(&id);
        self.artifacts.remove(&id);
        self.outputs.remove(&id);
        self.parts.retain(|_, (job, _)| *job != id);
        for position in self.events_of.remove(&id).unwrap_or_default() {
            self.events.remove(&position);
        }
    }

    fn index(&mut self, job: &Job) {
        *self.counts.entry(job.status()).or_default() += 1;
        match job.status() {
            Status::Pending if job.spec.gang.is_none() => {
                self.pending.entry(job.shape).or_default().insert(queue_key(job));
            }
            Status::Blocked => {
                self.waiting_gangs.extend(job.spec.gang.as_ref().map(|gang| gang.id));
            }
            _ => {}
        }
        if job.must_be_heard() && job.own_lease().is_none() {
            self.signs.insert((job.last_sign_of_life(), job.id));
        }
        if job.pinned {
            self.pinned.insert(job.id);
        }
        if let Phase::Reserved { reserved_at, claim: None, .. } = job.phase {
            self.reservations.insert((reserved_at, job.id));
        }
        if let Some(gang) = &job.spec.gang {
            self.gangs.entry(gang.id).or_default().insert(job.id);
            if gang.index == 0 {
                self.first_tasks.insert(job.seq, gang.id);
            }
        }
        if let Some(at) = job.alarm() {
            self.alarms.insert((at, job.id));
        }
        if let Some(unique) = job.spec.unique.as_ref().filter(|_| !job.is_terminal()) {
            self.by_unique.entry(unique.key.clone()).or_default().insert(job.id);
        }
        if let Some(limit) = job.spec.concurrency.as_ref().filter(|_| job.status().holds_capacity()) {
            self.holders.entry(limit.key.clone()).or_default().insert(job.id);
        }
        if let Some(queue) = job.spec.queue.as_ref().filter(|_| job.status().holds_capacity()) {
            *self.held_in.entry(queue.clone()).or_default().entry(job.shape).or_default() += 1;
        }
        if let Some(worker) = job.worker() {
            self.held.entry(worker.clone()).or_default().insert(job.id);
        }
        if let Some(end) = job.lease_ends_at() {
            self.leases.insert((end, job.id));
        }
        if let (Status::Preempting, Some(since), None) =
            (job.status(), job.drain_started_at(), job.lease_span)
        {
            self.drains.insert((since, job.id));
        }
        if let Some(at) = job.done_at() {
            self.ended.insert((at, job.id));
        }
    }

    fn unindex(&mut self, job: &Job) {
        if let Some(count) = self.counts.get_mut(&job.status()) {
            *count -= 1;
        }
        if let Some(queue) = self.pending.get_mut(&job.shape) {
            queue.remove(&queue_key(job));
            if queue.is_empty() {
                self.pending.remove(&job.shape);
            }
        }
        self.pinned.remove(&job.id);
        if let Phase::Reserved { reserved_at, claim: None, .. } = job.phase {
            self.reservations.remove(&(reserved_at, job.id));
        }
        if let Some(gang) = job.spec.gang.as_ref().filter(|_| job.status() == Status::Blocked) {
            // It was taken out of the table already: the others say whether the gang still waits.
            let mut others = self.gangs.get(&gang.id).into_iter().flatten();
            let blocked = |id: &JobId| self.jobs.get(id).is_some_and(|task| task.status() == Status::Blocked);
            if !others.any(blocked) {
                self.waiting_gangs.remove(&gang.id);
            }
        }
        if let Some(at) = job.alarm() {
            self.alarms.remove(&(at, job.id));
        }
        if let Some(unique) = &job.spec.unique
            && let Some(jobs) = self.by_unique.get_mut(&unique.key)
        {
            jobs.remove(&job.id);
            if jobs.is_empty() {
                self.by_unique.remove(&unique.key);
            }
        }
        if let Some(limit) = &job.spec.concurrency
            && let Some(holders) = self.holders.get_mut(&limit.key)
        {
            holders.remove(&job.id);
            if holders.is_empty() {
                self.holders.remove(&limit.key);
            }
        }
        if let Some(queue) = job.spec.queue.as_ref().filter(|_| job.status().holds_capacity())
            && let Some(held) = self.held_in.get_mut(queue)
            && let Some(jobs) = held.get_mut(&job.shape)
        {
            *jobs -= 1;
            if *jobs == 0 {
                held.remove(&job.shape);
            }
        }
        self.signs.remove(&(job.last_sign_of_life(), job.id));
        if let Some(end) = job.lease_ends_at() {
            self.leases.remove(&(end, job.id));
        }
        if let Some(worker) = job.worker()
            && let Some(held) = self.held.get_mut(worker)
        {
            held.remove(&job.id);
            if held.is_empty() {
                self.held.remove(worker);
            }
        }
        if let Some(since) = job.drain_started_at() {
            self.drains.remove(&(since, job.id));
        }
        if let Some(at) = job.done_at() {
            self.ended.remove(&(at, job.id));
        }
    }
}
