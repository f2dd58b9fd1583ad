//! The primitives of [`Tx`] on a [`PostgresTx`], grouped by topic in the files beside this.

use muster_domain::{
    Artifact, DeadLetter, DeliveryId, Event, GangId, Job, JobId, JobSet, LeaderLease, Queue, QueueName, Role,
    RunTimes, SetId, Shape, ShapeId, Span, Timestamp, Webhook, WebhookId, Worker, WorkerId,
};
use muster_store::{
    Apart, ArtifactFilter, ArtifactRun, ArtifactsOf, AuditFilter, AuditLine, Changed, CheckpointPart, Chosen,
    Counts, Edge, EventFilter, ExpireArtifacts, HeldJob, Instance, JobFilter, LeaseEnds, LeaseLock,
    LetterFilter, Oldest, Record, RecordKind, SetCount, SetFilter, Tx, Usage, UsageEntry, WaitingGang,
};

pub(crate) use crate::scope::Scope;
pub(crate) use crate::transaction::{Done, PostgresTx, Target};

impl Tx for PostgresTx {
    const EXCLUSIVE: bool = false;

    async fn lock_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        self.select_and_lock_jobs(ids).await
    }

    async fn read_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        self.select_jobs(ids).await
    }

    async fn insert_jobs(&mut self, jobs: &mut [Job]) -> Done<()> {
        self.insert_new_jobs(jobs).await
    }

    async fn update_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        self.write_jobs(jobs).await
    }

    async fn rewrite_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        self.rewrite(jobs).await
    }

    async fn delete_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        self.remove_jobs(ids).await
    }

    async fn jobs_by_key(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        self.select_keys(keys).await
    }

    async fn lock_unique(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        self.lock_and_find_unique(keys).await
    }

    async fn insert_sets(&mut self, sets: &mut [JobSet]) -> Done<()> {
        self.insert_new_sets(sets).await
    }

    async fn lock_sets(&mut self, ids: &[SetId]) -> Done<Vec<JobSet>> {
        self.select_and_lock_sets(ids).await
    }

    async fn update_sets(&mut self, sets: &[JobSet]) -> Done<()> {
        self.write_sets(sets).await
    }

    async fn sets(&mut self, filter: &SetFilter) -> Done<Vec<JobSet>> {
        self.select_sets(filter).await
    }

    async fn count_sets(&mut self, ids: &[SetId]) -> Done<Vec<SetCount>> {
        self.count_members(ids).await
    }

    async fn delete_empty_sets(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        self.remove_empty_sets(before, limit).await
    }

    async fn gang_tasks(&mut self, gangs: &[GangId]) -> Done<Vec<Job>> {
        self.select_gang_tasks(gangs).await
    }

    async fn siblings(&mut self, ids: &[JobId]) -> Done<Vec<JobId>> {
        self.select_siblings(ids).await
    }

    async fn waiting_gangs(&mut self, limit: usize) -> Done<Vec<WaitingGang>> {
        self.select_waiting_gangs(limit).await
    }

    async fn stale_gangs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<GangId>> {
        self.select_stale_gangs(before, limit).await
    }

    async fn lock_reserved(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_and_lock_reserved(workers).await
    }

    async fn all_held(&mut self) -> Done<Vec<Job>> {
        self.select_all_held().await
    }

    async fn held_among(&mut self, seqs: &[u64]) -> Done<Vec<Job>> {
        self.select_held_among(seqs).await
    }

    async fn held_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_held(workers).await
    }

    async fn running_jobs(&mut self, worker: &WorkerId) -> Done<Vec<Job>> {
        self.select_running(worker).await
    }

    async fn gangs(&mut self, before_seq: Option<u64>, limit: usize) -> Done<Vec<(u64, GangId)>> {
        self.select_gangs(before_seq, limit).await
    }

    async fn insert_edges(&mut self, edges: &[Edge]) -> Done<()> {
        self.write_edges(edges).await
    }

    async fn dependants(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        self.select_edges(parents).await
    }

    async fn shapes(&mut self, shapes: &[ShapeId]) -> Done<Vec<(ShapeId, Shape)>> {
        self.select_shapes(shapes).await
    }

    async fn insert_shapes(&mut self, shapes: &[(ShapeId, Shape)]) -> Done<()> {
        self.write_shapes(shapes).await
    }

    async fn pending_shapes(&mut self) -> Done<Vec<(ShapeId, Shape)>> {
        self.select_pending_shapes().await
    }

    async fn lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>> {
        self.select_and_lock_heads(shapes, limit).await
    }

    async fn heads(&mut self, shapes: &[ShapeId]) -> Done<Vec<Job>> {
        self.select_heads(shapes).await
    }

    async fn line_heads(&mut self, limit: usize) -> Done<Vec<Job>> {
        self.select_line_heads(limit).await
    }

    async fn pinned_jobs(&mut self) -> Done<Vec<Job>> {
        self.select_pinned().await
    }

    async fn unfinished_after(&mut self, seq: u64, limit: usize) -> Done<Vec<Job>> {
        self.select_unfinished_after(seq, limit).await
    }

    async fn ranked_by(&mut self) -> Done<Option<String>> {
        self.select_ranked_by().await
    }

    async fn note_ranked_by(&mut self, rule: &str) -> Done<()> {
        self.write_ranked_by(rule).await
    }

    async fn count_ahead(&mut self, job: &Job, shapes: &[ShapeId]) -> Done<u64> {
        self.count_before(job, shapes).await
    }

    async fn usage(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>> {
        self.count_held(workers).await
    }

    async fn held_devices(&mut self, workers: &[WorkerId]) -> Done<Vec<HeldJob>> {
        self.select_held_devices(workers).await
    }

    async fn stopping_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_stopping(workers).await
    }

    async fn silent_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_silent(before, limit).await
    }

    async fn ended_leases(&mut self, now: Timestamp, listened: Span, limit: usize) -> Done<Vec<JobId>> {
        self.select_ended_leases(now, listened, limit).await
    }

    async fn lease_ends(&mut self, now: Timestamp) -> Done<LeaseEnds> {
        self.select_lease_ends(now).await
    }

    async fn overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_overdue_stops(before, limit).await
    }

    async fn alarms(&mut self, now: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_alarms(now, limit).await
    }

    async fn oldest(&mut self) -> Done<Oldest> {
        self.select_oldest().await
    }

    async fn finished_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_finished(before, limit).await
    }

    async fn lock_queues(&mut self, names: &[QueueName]) -> Done<Vec<Queue>> {
        self.select_and_lock_queues(names).await
    }

    async fn queues(&mut self) -> Done<Vec<Queue>> {
        self.select_queues().await
    }

    async fn put_queues(&mut self, queues: &[Queue]) -> Done<()> {
        self.write_queues(queues).await
    }

    async fn delete_queues(&mut self, names: &[QueueName]) -> Done<()> {
        self.remove_queues(names).await
    }

    async fn lock_trees(&mut self, roots: &[QueueName]) -> Done<Vec<Queue>> {
        self.lock_and_select_trees(roots).await
    }

    async fn held_by_queue(&mut self, queues: &[QueueName]) -> Done<Vec<(ShapeId, u32)>> {
        self.count_held_by_queue(queues).await
    }

    async fn waiting_by_shape(
        &mut self,
        shapes: &[ShapeId],
        queues: &[QueueName],
    ) -> Done<Vec<(ShapeId, u64)>> {
        self.count_waiting(shapes, queues).await
    }

    async fn lock_keys(&mut self, keys: &[String]) -> Done<Vec<(String, u32)>> {
        self.lock_and_count_keys(keys).await
    }

    async fn holders_of_key(&mut self, key: &str, limit: usize) -> Done<Vec<JobId>> {
        self.select_holders(key, limit).await
    }

    async fn records(&mut self, kind: RecordKind, chosen: Chosen<'_>) -> Done<Vec<Record>> {
        self.select_records(kind, chosen).await
    }

    async fn put_records(&mut self, records: &[Record]) -> Done<()> {
        self.write_records(records).await
    }

    async fn delete_records(&mut self, kind: RecordKind, keys: &[String]) -> Done<()> {
        self.remove_records(kind, keys).await
    }

    async fn append_audit(&mut self, lines: &[AuditLine]) -> Done<()> {
        self.write_audit(lines).await
    }

    async fn audit(&mut self, filter: &AuditFilter) -> Done<Vec<AuditLine>> {
        self.select_audit(filter).await
    }

    async fn forget_audit(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        self.remove_audit(before, limit).await
    }

    async fn lock_webhooks(&mut self, ids: &[WebhookId]) -> Done<Vec<Webhook>> {
        self.select_and_lock_webhooks(ids).await
    }

    async fn webhooks(&mut self) -> Done<Vec<Webhook>> {
        self.select_all_webhooks().await
    }

    async fn put_webhooks(&mut self, webhooks: &[Webhook]) -> Done<()> {
        self.write_webhooks(webhooks).await
    }

    async fn delete_webhooks(&mut self, ids: &[WebhookId]) -> Done<()> {
        self.remove_webhooks(ids).await
    }

    async fn put_dead_letters(&mut self, letters: &[DeadLetter]) -> Done<()> {
        self.write_dead_letters(letters).await
    }

    async fn dead_letters(&mut self, filter: &LetterFilter) -> Done<Vec<DeadLetter>> {
        self.select_dead_letters(filter).await
    }

    async fn count_dead_letters(&mut self) -> Done<Vec<(WebhookId, u64)>> {
        self.count_letters().await
    }

    async fn delete_dead_letters(&mut self, letters: &[DeliveryId]) -> Done<()> {
        self.remove_dead_letters(letters).await
    }

    async fn run_times(&mut self, series: &[String]) -> Done<Vec<(String, RunTimes)>> {
        self.select_run_times(series).await
    }

    async fn put_run_times(&mut self, times: &[(String, RunTimes)], at: Timestamp) -> Done<()> {
        self.write_run_times(times, at).await
    }

    async fn forget_run_times(&mut self, before: Timestamp, limit: usize) -> Done<()> {
        self.delete_run_times(before, limit).await
    }

    async fn add_usage(&mut self, entries: &[UsageEntry]) -> Done<()> {
        self.write_usage(entries).await
    }

    async fn usage_sums(&mut self, from: i64, to: i64, bucket_hours: i64) -> Done<Vec<UsageEntry>> {
        self.select_usage(from, to, bucket_hours).await
    }

    async fn forget_usage(&mut self, before: i64, limit: usize) -> Done<()> {
        self.delete_usage(before, limit).await
    }

    async fn ended_jobs(&mut self, since: Timestamp, until: Timestamp, limit: usize) -> Done<Vec<Job>> {
        self.select_ended_jobs(since, until, limit).await
    }

    async fn leader_leases(&mut self) -> Done<Vec<LeaderLease>> {
        self.select_leader_leases().await
    }

    async fn lock_leader_leases(&mut self, roles: &[Role], lock: LeaseLock) -> Done<Vec<LeaderLease>> {
        self.select_and_lock_leader_leases(roles, lock).await
    }

    async fn put_leader_leases(&mut self, leases: &[LeaderLease]) -> Done<()> {
        self.write_leader_leases(leases).await
    }

    async fn secret(&mut self, proposal: &str) -> Done<String> {
        self.keep_secret(proposal).await
    }

    async fn lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        self.select_and_lock_workers(ids).await
    }

    async fn workers(&mut self) -> Done<Vec<Worker>> {
        self.select_workers().await
    }

    async fn read_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        self.select_some_workers(ids).await
    }

    async fn workers_apart(&mut self, since: Timestamp) -> Done<Vec<Apart>> {
        self.select_apart(since).await
    }

    async fn put_workers(&mut self, workers: &[Worker]) -> Done<()> {
        self.write_workers(workers).await
    }

    async fn list_jobs(&mut self, filter: &JobFilter) -> Done<Vec<Job>> {
        self.select_list(filter).await
    }

    async fn counts(&mut self) -> Done<Counts> {
        self.count_unfinished().await
    }

    async fn append_events(&mut self, events: &mut [Event]) -> Done<()> {
        self.insert_events(events).await
    }

    async fn events(&mut self, filter: &EventFilter) -> Done<Vec<Event>> {
        self.select_events(filter).await
    }

    async fn last_event(&mut self) -> Done<u64> {
        self.select_last_event().await
    }

    async fn changed_since(&mut self, position: u64, limit: u64) -> Done<Option<Changed>> {
        self.select_changed(position, limit).await
    }

    async fn note_removed(&mut self, newest: Timestamp) -> Done<()> {
        self.write_removed(newest).await
    }

    async fn checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        self.select_checkpoints(ids).await
    }

    async fn put_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()> {
        self.write_checkpoint(id, bytes).await
    }

    async fn put_part(&mut self, part: &CheckpointPart) -> Done<()> {
        self.write_part(part).await
    }

    async fn parts_length(&mut self, id: JobId, name: &str) -> Done<u64> {
        self.select_parts_length(id, name).await
    }

    async fn keep_parts(&mut self, id: JobId, name: &str) -> Done<()> {
        self.leave_parts(id, name).await
    }

    async fn part(&mut self, name: &str, number: u32) -> Done<Option<Vec<u8>>> {
        self.select_part(name, number).await
    }

    async fn put_artifacts(&mut self, artifacts: &[Artifact], queue: &str, user: &str) -> Done<()> {
        self.write_artifacts(artifacts, queue, user).await
    }

    async fn artifacts(&mut self, filter: &ArtifactFilter) -> Done<Vec<Artifact>> {
        self.select_artifacts(filter).await
    }

    async fn artifact_runs(&mut self, job: JobId) -> Done<Vec<ArtifactRun>> {
        self.select_artifact_runs(job).await
    }

    async fn expire_artifacts(&mut self, old: ExpireArtifacts, now: Timestamp) -> Done<Vec<String>> {
        self.take_old_blobs(old, now).await
    }

    async fn artifact_bytes(&mut self, of: ArtifactsOf<'_>) -> Done<u64> {
        self.sum_artifacts(of).await
    }

    async fn known_blobs(&mut self, blobs: &[String]) -> Done<Vec<String>> {
        self.select_known_blobs(blobs).await
    }

    async fn put_instance(&mut self, instance: &Instance) -> Done<()> {
        self.write_instance(instance).await
    }

    async fn instances(&mut self) -> Done<Vec<Instance>> {
        self.select_instances().await
    }
}
