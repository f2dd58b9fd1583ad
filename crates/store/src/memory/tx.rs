//! The primitives on the tables in memory. None of them waits and none can fail.

use std::collections::BTreeMap;
use std::ops::Bound;

use muster_domain::{Event, Job, JobId, Requirement, ShapeId, Status, Timestamp, Worker, WorkerId};

use super::data::{Data, queue_key};
use crate::error::StoreError;
use crate::query::{Counts, EventFilter, JobFilter};
use crate::tx::{Edge, Tx, Usage};

type Done<T> = Result<T, StoreError>;

fn matches(job: &Job, filter: &JobFilter) -> bool {
    (filter.statuses.is_empty() || filter.statuses.contains(&job.status()))
        && filter.queue.as_ref().is_none_or(|queue| job.spec.queue.as_ref() == Some(queue))
        && filter.name.as_ref().is_none_or(|name| job.spec.name.as_ref() == Some(name))
        && filter.tag.as_ref().is_none_or(|tag| job.spec.tags.contains(tag))
        && filter.worker.as_ref().is_none_or(|worker| job.worker().or(job.ran_on.as_ref()) == Some(worker))
        && filter.since.is_none_or(|since| job.created_at >= since)
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

    async fn delete_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        for id in ids {
            self.remove(*id);
        }
        Ok(())
    }

    async fn jobs_by_key(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        Ok(keys.iter().filter_map(|key| Some((key.clone(), *self.by_key.get(key)?))).collect())
    }

    async fn insert_edges(&mut self, edges: &[Edge]) -> Done<()> {
        for edge in edges {
            self.children.entry(edge.parent).or_default().push(edge.child);
        }
        Ok(())
    }

    async fn dependants(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        let edges = |parent: &JobId| {
            let children = self.children.get(parent).map(Vec::as_slice).unwrap_or_default();
            children.iter().map(|child| Edge { parent: *parent, child: *child }).collect::<Vec<_>>()
        };
        Ok(parents.iter().flat_map(edges).collect())
    }

    async fn requirements(&mut self, shapes: &[ShapeId]) -> Done<Vec<(ShapeId, Requirement)>> {
        let found = |shape: &ShapeId| Some((*shape, self.requirements.get(shape)?.clone()));
        Ok(shapes.iter().filter_map(found).collect())
    }

    async fn insert_requirements(&mut self, shapes: &[(ShapeId, Requirement)]) -> Done<()> {
        for (shape, requirement) in shapes {
            self.requirements.entry(*shape).or_insert_with(|| requirement.clone());
        }
        Ok(())
    }

    async fn pending_shapes(&mut self) -> Done<Vec<(ShapeId, Requirement)>> {
        let found = |shape: &ShapeId| Some((*shape, self.requirements.get(shape)?.clone()));
        Ok(self.pending.keys().filter_map(found).collect())
    }

    async fn lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>> {
        let queues = shapes.iter().filter_map(|shape| self.pending.get(shape));
        let heads = queues.flat_map(|queue| queue.iter().take(limit));
        Ok(heads.filter_map(|(_, _, id)| self.jobs.get(id).cloned()).collect())
    }

    async fn count_ahead(&mut self, job: &Job) -> Done<u64> {
        let key = queue_key(job);
        let before = |queue: &std::collections::BTreeSet<_>| {
            queue.range((Bound::Unbounded, Bound::Excluded(key))).count() as u64
        };
        Ok(self.pending.values().map(before).sum())
    }

    async fn usage(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>> {
        let mut usage = Vec::new();
        for worker in workers {
            let mut by_shape: BTreeMap<ShapeId, u32> = BTreeMap::new();
            for job in self.held.get(worker).into_iter().flatten().filter_map(|id| self.jobs.get(id)) {
                *by_shape.entry(job.shape).or_default() += 1;
            }
            usage.extend(by_shape.into_iter().map(|(shape, jobs)| Usage {
                worker: worker.clone(),
                shape,
                jobs,
            }));
        }
        Ok(usage)
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

    async fn overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let overdue = self.drains.iter().take_while(|(at, _)| *at < before);
        Ok(overdue.take(limit).map(|(_, id)| *id).collect())
    }

    async fn oldest_signs(&mut self) -> Done<(Option<Timestamp>, Option<Timestamp>)> {
        Ok((self.signs.first().map(|(at, _)| *at), self.drains.first().map(|(at, _)| *at)))
    }

    async fn finished_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let needed = |id: &JobId| {
            let children = self.children.get(id).into_iter().flatten();
            children.filter_map(|child| self.jobs.get(child)).any(|child| !child.is_terminal())
        };
        let ended = self.ended.iter().take_while(|(at, _)| *at < before).map(|(_, id)| *id);
        Ok(ended.filter(|id| !needed(id)).take(limit).collect())
    }

    async fn lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        Ok(ids.iter().filter_map(|id| self.workers.get(id).cloned()).collect())
    }

    async fn workers(&mut self) -> Done<Vec<Worker>> {
        Ok(self.workers.values().cloned().collect())
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
        let open = self.counts.iter().filter(|(status, count)| !status.is_terminal() && **count > 0);
        let mut counts = Counts { jobs: open.map(|(s, n)| (*s, *n)).collect(), ..Counts::default() };
        for job in self.pending.values().flatten().filter_map(|(_, _, id)| self.jobs.get(id)) {
            let queue = job.spec.queue.as_ref().map(|queue| queue.as_str().to_owned()).unwrap_or_default();
            *counts.pending_by_queue.entry(queue).or_default() += 1;
        }
        Ok(counts)
    }

    async fn append_events(&mut self, events: &mut [Event]) -> Done<()> {
        for event in events {
            self.last_event += 1;
            event.seq = self.last_event;
            if let Some(job) = event.job {
                self.events_of.entry(job).or_default().push(event.seq);
            }
            self.events.insert(event.seq, event.clone());
        }
        Ok(())
    }

    async fn events(&mut self, filter: &EventFilter) -> Done<Vec<Event>> {
        let Some(job) = filter.job else {
            let later = self.events.range((Bound::Excluded(filter.after), Bound::Unbounded));
            return Ok(later.take(filter.limit).map(|(_, event)| event.clone()).collect());
        };
        let own = self.events_of.get(&job).into_iter().flatten().filter(|position| **position > filter.after);
        Ok(own.take(filter.limit).filter_map(|position| self.events.get(position).cloned()).collect())
    }

    async fn last_event(&mut self) -> Done<u64> {
        Ok(self.last_event)
    }

    async fn checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        Ok(ids.iter().filter_map(|id| Some((*id, self.checkpoints.get(id)?.clone()))).collect())
    }

    async fn put_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()> {
        self.checkpoints.insert(id, bytes.to_vec());
        Ok(())
    }
}
