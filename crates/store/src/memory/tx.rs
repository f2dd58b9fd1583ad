//! The primitives on the tables in memory. None of them waits and none can fail.

use std::ops::Bound;

use muster_domain::{
    Artifact, DeadLetter, DeliveryId, Event, GangId, Job, JobId, JobSet, LeaderLease, Queue, QueueName, Role,
    Rule, RunTimes, SetId, Shape, ShapeId, Span, Status, Timestamp, Webhook, WebhookId, Worker, WorkerId,
    WorkerStatus,
};

use super::data::{Data, queue_key};
use crate::artifacts::{ArtifactFilter, ArtifactRun, ArtifactsOf, ExpireArtifacts};
use crate::command::{CheckpointPart, Instance};
use crate::error::StoreError;
use crate::query::{Counts, EventFilter, JobFilter, SetCount, SetFilter};
use crate::records::{AuditFilter, AuditLine, Chosen, Record, RecordKind};
use crate::tx::{
    Apart, Changed, Edge, HeldJob, LeaseEnds, LeaseLock, Oldest, Tx, Usage, UsageEntry, WaitingGang,
};
use crate::webhooks::LetterFilter;

type Done<T> = Result<T, StoreError>;

fn matches(job: &Job, filter: &JobFilter) -> bool {
    (filter.statuses.is_empty() || filter.statuses.contains(&job.status()))
        && filter.queue.as_ref().is_none_or(|queue| job.spec.queue.as_ref() == Some(queue))
        && filter.name.as_ref().is_none_or(|name| job.spec.name.as_ref() == Some(name))
        && filter.set.is_none_or(|set| job.member.as_ref().is_some_and(|member| member.set == set))
        && filter
            .step
            .as_deref()
            .is_none_or(|step| job.member.as_ref().is_some_and(|member| member.step.as_deref() == Some(step)))
        && filter.tag.as_ref().is_none_or(|tag| job.spec.tags.contains(tag))
        && filter.worker.as_ref().is_none_or(|worker| job.worker().or(job.ran_on.as_ref()) == Some(worker))
        && filter.since.is_none_or(|since| job.created_at >= since)
}

fn leases(data: &Data, roles: &[Role]) -> Vec<LeaderLease> {
    let stored = |role: &Role| data.leader_leases.get(role).cloned();
    roles.iter().map(|role| stored(role).unwrap_or_else(|| LeaderLease::vacant(*role))).collect()
}

impl Tx for Data {
    const EXCLUSIVE: bool = true;

    async fn lock_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        self.read_jobs(ids).await
    }

    async fn read_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        Ok(ids.iter().filter_map(|id| self.jobs.get(id).cloned()).collect())
    }

    async fn insert_jobs(&mut self, jobs: &mut [Job]) -> Done<()> {
        for job in jobs {
            self.last_seq += 1;
            job.seq = self.last_seq;
            self.by_seq.insert(job.seq, job.id);
            if let Some(key) = &job.spec.idempotency_key {
                self.by_key.insert(key.clone(), job.id);
            }
            if let Some(member) = &job.member {
                self.members.entry(member.set).or_default().insert(job.id);
            }
            self.put(job.clone());
        }
        Ok(())
    }

    async fn update_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        for job in jobs {
            self.put(job.clone());
        }
        Ok(())
    }

    async fn rewrite_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        self.update_jobs(jobs).await
    }

    async fn delete_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        for id in ids {
            self.remove(*id);
        }
        Ok(())
    }

    async fn jobs_by_key(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        Ok(keys.iter().filter_map(|key| Some((key.clone(), *self.by_key.get(key)?))).collect())
    }

    async fn lock_unique(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        let first = |key: &String| Some((key.clone(), *self.by_unique.get(key)?.first()?));
        Ok(keys.iter().filter_map(first).collect())
    }

    async fn insert_sets(&mut self, sets: &mut [JobSet]) -> Done<()> {
        for set in sets {
            self.last_set += 1;
            set.seq = self.last_set;
            self.set_seqs.insert(set.id, set.seq);
            self.sets.insert(set.seq, set.clone());
        }
        Ok(())
    }

    async fn lock_sets(&mut self, ids: &[SetId]) -> Done<Vec<JobSet>> {
        let seqs = ids.iter().filter_map(|id| self.set_seqs.get(id));
        Ok(seqs.filter_map(|seq| self.sets.get(seq).cloned()).collect())
    }

    async fn update_sets(&mut self, sets: &[JobSet]) -> Done<()> {
        for set in sets {
            self.sets.insert(set.seq, set.clone());
        }
        Ok(())
    }

    async fn sets(&mut self, filter: &SetFilter) -> Done<Vec<JobSet>> {
        Ok(super::sets::list(self, filter))
    }

    async fn count_sets(&mut self, ids: &[SetId]) -> Done<Vec<SetCount>> {
        Ok(ids.iter().flat_map(|id| super::sets::count(self, *id)).collect())
    }

    async fn delete_empty_sets(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        Ok(super::sets::remove_empty(self, before, limit))
    }

    async fn gang_tasks(&mut self, gangs: &[GangId]) -> Done<Vec<Job>> {
        Ok(super::gangs::tasks(self, gangs))
    }

    async fn siblings(&mut self, ids: &[JobId]) -> Done<Vec<JobId>> {
        Ok(super::gangs::siblings(self, ids))
    }

    async fn waiting_gangs(&mut self, limit: usize) -> Done<Vec<WaitingGang>> {
        Ok(super::gangs::all_waiting(self, limit))
    }

    async fn stale_gangs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<GangId>> {
        Ok(super::gangs::stale(self, before, limit))
    }

    async fn lock_reserved(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        Ok(super::gangs::reserved(self, workers))
    }

    async fn all_held(&mut self) -> Done<Vec<Job>> {
        Ok(self.jobs.values().filter(|job| job.status().holds_capacity()).cloned().collect())
    }

    async fn held_among(&mut self, seqs: &[u64]) -> Done<Vec<Job>> {
        let jobs = seqs.iter().filter_map(|seq| self.jobs.get(self.by_seq.get(seq)?));
        Ok(jobs.filter(|job| job.status().holds_capacity()).cloned().collect())
    }

    async fn held_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let held = workers.iter().filter_map(|worker| self.held.get(worker)).flatten();
        Ok(held.filter_map(|id| self.jobs.get(id).cloned()).collect())
    }

    async fn running_jobs(&mut self, worker: &WorkerId) -> Done<Vec<Job>> {
        Ok(super::gangs::running(self, worker))
    }

    async fn gangs(&mut self, before_seq: Option<u64>, limit: usize) -> Done<Vec<(u64, GangId)>> {
        Ok(super::gangs::list(self, before_seq, limit))
    }

    async fn insert_edges(&mut self, edges: &[Edge]) -> Done<()> {
        for edge in edges {
            self.children.entry(edge.parent).or_default().push((edge.child, edge.rule));
        }
        Ok(())
    }

    async fn dependants(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        let edges = |parent: &JobId| {
            let children = self.children.get(parent).map(Vec::as_slice).unwrap_or_default();
            let edge = |(child, rule): &(JobId, Rule)| Edge { parent: *parent, child: *child, rule: *rule };
            children.iter().map(edge).collect::<Vec<_>>()
        };
        Ok(parents.iter().flat_map(edges).collect())
    }

    async fn shapes(&mut self, ids: &[ShapeId]) -> Done<Vec<(ShapeId, Shape)>> {
        Ok(ids.iter().filter_map(|id| Some((*id, self.shapes.get(id)?.clone()))).collect())
    }

    async fn insert_shapes(&mut self, shapes: &[(ShapeId, Shape)]) -> Done<()> {
        for (id, shape) in shapes {
            self.shapes.entry(*id).or_insert_with(|| shape.clone());
        }
        Ok(())
    }

    async fn pending_shapes(&mut self) -> Done<Vec<(ShapeId, Shape)>> {
        Ok(self.pending.keys().filter_map(|id| Some((*id, self.shapes.get(id)?.clone()))).collect())
    }

    async fn lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>> {
        let queues = shapes.iter().filter_map(|shape| self.pending.get(shape));
        let heads = queues.flat_map(|queue| queue.iter().take(limit));
        Ok(heads.filter_map(|(_, _, id)| self.jobs.get(id).cloned()).collect())
    }

    async fn heads(&mut self, shapes: &[ShapeId]) -> Done<Vec<Job>> {
        self.lock_heads(shapes, 1).await
    }

    async fn line_heads(&mut self, limit: usize) -> Done<Vec<Job>> {
        Ok(super::turns::line_heads(self, limit))
    }

    async fn pinned_jobs(&mut self) -> Done<Vec<Job>> {
        Ok(self.pinned.iter().filter_map(|id| self.jobs.get(id).cloned()).collect())
    }

    async fn unfinished_after(&mut self, seq: u64, limit: usize) -> Done<Vec<Job>> {
        Ok(super::turns::unfinished_after(self, seq, limit))
    }

    async fn ranked_by(&mut self) -> Done<Option<String>> {
        Ok(self.ranked_by.clone())
    }

    async fn note_ranked_by(&mut self, rule: &str) -> Done<()> {
        self.ranked_by = Some(rule.to_owned());
        Ok(())
    }

    async fn count_ahead(&mut self, job: &Job, shapes: &[ShapeId]) -> Done<u64> {
        let key = queue_key(job);
        let before = |queue: &std::collections::BTreeSet<_>| {
            queue.range((Bound::Unbounded, Bound::Excluded(key))).count() as u64
        };
        Ok(shapes.iter().filter_map(|shape| self.pending.get(shape)).map(before).sum())
    }

    async fn usage(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>> {
        Ok(self.count_held(workers))
    }

    async fn held_devices(&mut self, workers: &[WorkerId]) -> Done<Vec<HeldJob>> {
        Ok(self.list_held(workers))
    }

    async fn stopping_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let held = workers.iter().filter_map(|worker| self.held.get(worker)).flatten();
        let jobs = held.filter_map(|id| self.jobs.get(id));
        Ok(jobs.filter(|job| job.status() == Status::Preempting).cloned().collect())
    }

    async fn silent_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let overdue = self.signs.iter().take_while(|(at, _)| *at < before);
        Ok(overdue.take(limit).map(|(_, id)| *id).collect())
    }

    async fn ended_leases(&mut self, now: Timestamp, listened: Span, limit: usize) -> Done<Vec<JobId>> {
        let ended = self.leases.iter().take_while(|(at, _)| *at < now);
        let counts = |id: &JobId| {
            let span = self.jobs.get(id).and_then(|job| job.lease_span);
            span.is_some_and(|span| span < listened)
        };
        Ok(ended.filter(|(_, id)| counts(id)).take(limit).map(|(_, id)| *id).collect())
    }

    async fn lease_ends(&mut self, now: Timestamp) -> Done<LeaseEnds> {
        let ended = self.leases.iter().take_while(|(at, _)| *at < now);
        let spans = ended.filter_map(|(_, id)| self.jobs.get(id)?.lease_span);
        let next = self.leases.iter().map(|(at, _)| *at).find(|at| *at >= now);
        Ok(LeaseEnds { shortest: spans.min(), next })
    }

    async fn overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let overdue = self.drains.iter().take_while(|(at, _)| *at < before);
        Ok(overdue.take(limit).map(|(_, id)| *id).collect())
    }

    async fn alarms(&mut self, now: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let due = self.alarms.iter().take_while(|(at, _)| *at <= now);
        Ok(due.take(limit).map(|(_, id)| *id).collect())
    }

    async fn oldest(&mut self) -> Done<Oldest> {
        let first = |set: &std::collections::BTreeSet<(Timestamp, JobId)>| set.first().map(|(at, _)| *at);
        Ok(Oldest {
            sign: first(&self.signs),
            stop: first(&self.drains),
            alarm: first(&self.alarms),
            reservation: first(&self.reservations),
        })
    }

    async fn finished_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let needed = |id: &JobId| {
            let children = self.children.get(id).into_iter().flatten();
            children.filter_map(|(child, _)| self.jobs.get(child)).any(|child| !child.is_terminal())
        };
        let ended = self.ended.iter().take_while(|(at, _)| *at < before).map(|(_, id)| *id);
        Ok(ended.filter(|id| !needed(id)).take(limit).collect())
    }

    async fn lock_queues(&mut self, names: &[QueueName]) -> Done<Vec<Queue>> {
        Ok(names.iter().filter_map(|name| self.queues.get(name).cloned()).collect())
    }

    async fn queues(&mut self) -> Done<Vec<Queue>> {
        Ok(self.queues.values().cloned().collect())
    }

    async fn put_queues(&mut self, queues: &[Queue]) -> Done<()> {
        for queue in queues {
            self.queues.insert(queue.name.clone(), queue.clone());
        }
        Ok(())
    }

    async fn delete_queues(&mut self, names: &[QueueName]) -> Done<()> {
        self.queues.retain(|name, _| !names.contains(name));
        Ok(())
    }

    async fn lock_trees(&mut self, roots: &[QueueName]) -> Done<Vec<Queue>> {
        let belongs = |queue: &&Queue| queue.tree.as_ref().is_some_and(|root| roots.contains(root));
        Ok(self.queues.values().filter(belongs).cloned().collect())
    }

    async fn held_by_queue(&mut self, queues: &[QueueName]) -> Done<Vec<(ShapeId, u32)>> {
        let held = queues.iter().filter_map(|queue| self.held_in.get(queue)).flatten();
        Ok(held.map(|(shape, jobs)| (*shape, *jobs)).collect())
    }

    async fn waiting_by_shape(
        &mut self,
        shapes: &[ShapeId],
        queues: &[QueueName],
    ) -> Done<Vec<(ShapeId, u64)>> {
        let pending = |shape: &ShapeId| Some((*shape, self.pending.get(shape)?.len() as u64));
        let mut counts: Vec<(ShapeId, u64)> = shapes.iter().filter_map(pending).collect();
        let waits = |job: &&Job| {
            matches!(job.status(), Status::Blocked | Status::Delayed | Status::Held)
                && job.spec.queue.as_ref().is_some_and(|queue| queues.contains(queue))
        };
        counts.extend(self.jobs.values().filter(waits).map(|job| (job.shape, 1)));
        Ok(counts)
    }

    async fn lock_keys(&mut self, keys: &[String]) -> Done<Vec<(String, u32)>> {
        let held = |key: &String| Some((key.clone(), self.holders.get(key)?.len() as u32));
        Ok(keys.iter().filter_map(held).collect())
    }

    async fn holders_of_key(&mut self, key: &str, limit: usize) -> Done<Vec<JobId>> {
        Ok(self.holders.get(key).into_iter().flatten().take(limit).copied().collect())
    }

    async fn records(&mut self, kind: RecordKind, chosen: Chosen<'_>) -> Done<Vec<Record>> {
        Ok(super::records::select(self, kind, chosen))
    }

    async fn put_records(&mut self, records: &[Record]) -> Done<()> {
        let new = records.iter().map(|record| ((record.kind, record.key.clone()), record.facts.clone()));
        self.records.extend(new);
        Ok(())
    }

    async fn delete_records(&mut self, kind: RecordKind, keys: &[String]) -> Done<()> {
        for key in keys {
            self.records.remove(&(kind, key.clone()));
        }
        Ok(())
    }

    async fn append_audit(&mut self, lines: &[AuditLine]) -> Done<()> {
        super::records::append_audit(self, lines);
        Ok(())
    }

    async fn audit(&mut self, filter: &AuditFilter) -> Done<Vec<AuditLine>> {
        Ok(super::records::audit(self, filter))
    }

    async fn forget_audit(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        Ok(super::records::forget_audit(self, before, limit))
    }

    async fn lock_webhooks(&mut self, ids: &[WebhookId]) -> Done<Vec<Webhook>> {
        Ok(ids.iter().filter_map(|id| self.webhooks.get(id).cloned()).collect())
    }

    async fn webhooks(&mut self) -> Done<Vec<Webhook>> {
        Ok(self.webhooks.values().cloned().collect())
    }

    async fn put_webhooks(&mut self, webhooks: &[Webhook]) -> Done<()> {
        self.webhooks.extend(webhooks.iter().map(|webhook| (webhook.id, webhook.clone())));
        Ok(())
    }

    async fn delete_webhooks(&mut self, ids: &[WebhookId]) -> Done<()> {
        super::webhooks::remove(self, ids);
        Ok(())
    }

    async fn put_dead_letters(&mut self, letters: &[DeadLetter]) -> Done<()> {
        self.dead_letters.extend(letters.iter().map(|letter| (letter.delivery(), letter.clone())));
        Ok(())
    }

    async fn dead_letters(&mut self, filter: &LetterFilter) -> Done<Vec<DeadLetter>> {
        Ok(super::webhooks::letters(self, filter))
    }

    async fn count_dead_letters(&mut self) -> Done<Vec<(WebhookId, u64)>> {
        Ok(super::webhooks::count(self))
    }

    async fn delete_dead_letters(&mut self, letters: &[DeliveryId]) -> Done<()> {
        self.dead_letters.retain(|id, _| !letters.contains(id));
        Ok(())
    }

    async fn run_times(&mut self, series: &[String]) -> Done<Vec<(String, RunTimes)>> {
        let known = |series: &String| Some((series.clone(), self.run_times.get(series)?.0));
        Ok(series.iter().filter_map(known).collect())
    }

    async fn put_run_times(&mut self, times: &[(String, RunTimes)], at: Timestamp) -> Done<()> {
        self.run_times.extend(times.iter().map(|(series, times)| (series.clone(), (*times, at))));
        Ok(())
    }

    async fn forget_run_times(&mut self, before: Timestamp, limit: usize) -> Done<()> {
        super::log::forget_run_times(self, before, limit);
        Ok(())
    }

    async fn add_usage(&mut self, entries: &[UsageEntry]) -> Done<()> {
        super::log::add_usage(self, entries);
        Ok(())
    }

    async fn usage_sums(&mut self, from: i64, to: i64, bucket_hours: i64) -> Done<Vec<UsageEntry>> {
        Ok(super::log::usage_sums(self, from..to, bucket_hours))
    }

    async fn forget_usage(&mut self, before: i64, limit: usize) -> Done<()> {
        super::log::forget_usage(self, before, limit);
        Ok(())
    }

    async fn ended_jobs(&mut self, since: Timestamp, until: Timestamp, limit: usize) -> Done<Vec<Job>> {
        Ok(super::log::ended_jobs(self, since, until, limit))
    }

    async fn leader_leases(&mut self) -> Done<Vec<LeaderLease>> {
        Ok(leases(self, &Role::ALL))
    }

    async fn lock_leader_leases(&mut self, roles: &[Role], _lock: LeaseLock) -> Done<Vec<LeaderLease>> {
        Ok(leases(self, roles))
    }

    async fn put_leader_leases(&mut self, leases: &[LeaderLease]) -> Done<()> {
        self.leader_leases.extend(leases.iter().map(|lease| (lease.role, lease.clone())));
        Ok(())
    }

    async fn secret(&mut self, proposal: &str) -> Done<String> {
        Ok(self.secret.get_or_insert_with(|| proposal.to_owned()).clone())
    }

    async fn lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        Ok(ids.iter().filter_map(|id| self.workers.get(id).cloned()).collect())
    }

    async fn workers(&mut self) -> Done<Vec<Worker>> {
        Ok(self.workers.values().cloned().collect())
    }

    async fn read_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        self.lock_workers(ids).await
    }

    async fn workers_apart(&mut self, since: Timestamp) -> Done<Vec<Apart>> {
        let apart = |worker: &Worker| {
            let silent = worker.status == WorkerStatus::Offline || worker.last_heartbeat < since;
            let kept = worker.kept.as_deref().cloned();
            (silent || kept.is_some()).then(|| Apart { worker: worker.id.clone(), silent, kept })
        };
        Ok(self.workers.values().filter_map(apart).collect())
    }

    async fn put_workers(&mut self, workers: &[Worker]) -> Done<()> {
        for worker in workers {
            self.workers.insert(worker.id.clone(), worker.clone());
        }
        Ok(())
    }

    async fn list_jobs(&mut self, filter: &JobFilter) -> Done<Vec<Job>> {
        let newest = self.by_seq.range(..filter.before_seq.unwrap_or(u64::MAX)).rev();
        let jobs = newest.filter_map(|(_, id)| self.jobs.get(id)).filter(|job| matches(job, filter));
        Ok(jobs.take(filter.limit.unwrap_or(usize::MAX)).cloned().collect())
    }

    async fn counts(&mut self) -> Done<Counts> {
        Ok(super::log::counts(self))
    }

    async fn append_events(&mut self, events: &mut [Event]) -> Done<()> {
        super::log::append(self, events);
        Ok(())
    }

    async fn events(&mut self, filter: &EventFilter) -> Done<Vec<Event>> {
        Ok(super::log::read(self, filter))
    }

    async fn last_event(&mut self) -> Done<u64> {
        Ok(self.last_event)
    }

    async fn changed_since(&mut self, position: u64, limit: u64) -> Done<Option<Changed>> {
        Ok(super::log::changed_since(self, position, limit))
    }

    async fn note_removed(&mut self, newest: Timestamp) -> Done<()> {
        self.removed = self.removed.max(Some(newest));
        Ok(())
    }

    async fn checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        Ok(ids.iter().filter_map(|id| Some((*id, self.checkpoints.get(id)?.clone()))).collect())
    }

    async fn put_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()> {
        self.checkpoints.insert(id, bytes.to_vec());
        Ok(())
    }

    async fn put_part(&mut self, part: &CheckpointPart) -> Done<()> {
        self.parts.insert((part.name.to_string(), part.number), (part.job, part.bytes.clone()));
        Ok(())
    }

    async fn keep_parts(&mut self, id: JobId, name: &str) -> Done<()> {
        self.parts.retain(|(other, _), (job, _)| *job != id || other == name);
        Ok(())
    }

    async fn parts_length(&mut self, id: JobId, name: &str) -> Done<u64> {
        let kept = self.parts.iter().filter(|((other, _), (job, _))| *job == id && other == name);
        Ok(kept.map(|(_, (_, bytes))| bytes.len() as u64).sum())
    }

    async fn part(&mut self, name: &str, number: u32) -> Done<Option<Vec<u8>>> {
        Ok(self.parts.get(&(name.to_owned(), number)).map(|(_, bytes)| bytes.clone()))
    }

    async fn put_artifacts(&mut self, artifacts: &[Artifact], queue: &str, user: &str) -> Done<()> {
        self.insert_artifacts(artifacts, queue, user);
        Ok(())
    }

    async fn artifacts(&mut self, filter: &ArtifactFilter) -> Done<Vec<Artifact>> {
        Ok(self.select_artifacts(filter))
    }

    async fn artifact_runs(&mut self, job: JobId) -> Done<Vec<ArtifactRun>> {
        Ok(self.select_artifact_runs(job))
    }

    async fn expire_artifacts(&mut self, old: ExpireArtifacts, now: Timestamp) -> Done<Vec<String>> {
        Ok(self.take_old_blobs(old, now))
    }

    async fn artifact_bytes(&mut self, of: ArtifactsOf<'_>) -> Done<u64> {
        Ok(self.sum_artifacts(of))
    }

    async fn known_blobs(&mut self, blobs: &[String]) -> Done<Vec<String>> {
        Ok(self.select_known_blobs(blobs))
    }

    async fn put_instance(&mut self, instance: &Instance) -> Done<()> {
        self.instances.insert(instance.id.clone(), instance.clone());
        Ok(())
    }

    async fn instances(&mut self) -> Done<Vec<Instance>> {
        Ok(self.instances.values().cloned().collect())
    }
}
