//! What the scheduler hands over: jobs, stop orders, and its word on leases.

use std::path::PathBuf;
use std::time::Duration;

use muster_protocol::{Job, JobReport, JobStatus, ReportKind, ReportResult, StopOrder};
use tokio::time::Instant;

use super::agent_loop::Agent;
use super::held::Stage;
use super::{preparation, reports};
use crate::containers::Planned;
use crate::job_user::{JobUser, NoUser};
use crate::keeper::{Key, SecretGrant, StopCause, StopSpec, ToKeeper, Words, boottime_ns};
use crate::{launch, visible_devices};

/// What a job brings beside its command.
struct Brought {
    secrets: Vec<SecretGrant>,
    planned: Option<Planned>,
    /// The user that it runs as, where that is not the worker's.
    user: Option<JobUser>,
}

impl Agent {
    /// Takes up claimed jobs. Each is started, or handed back at once; none is dropped.
    pub(super) fn accept(&mut self, mut jobs: Vec<Job>, sent_ns: u64) {
        // The slot of a task that waits for the others of its round is not given to what comes with it.
        jobs.sort_by_key(|job| job.status != JobStatus::Reserved);
        for job in jobs {
            let key = launch::key_of(&job);
            if self.held.contains(&key) {
                continue;
            }
            let refusal = if self.early_stops.remove(&key).is_some() {
                reports::plain(&key, ReportKind::Preempted, None)
            } else if !self.drain.is_serving() {
                reports::plain(&key, ReportKind::Released, None)
            } else if self.lease_is_old(&job, sent_ns) {
                let message = Some("the claim arrived too late to be started safely".to_owned());
                reports::plain(&key, ReportKind::Released, message)
            } else if self.rounds.is_assembling() && self.held.live() >= self.config.slots as usize {
                reports::plain(&key, ReportKind::Released, None)
            } else {
                match self.take_up(&job) {
                    Ok(brought) => {
                        self.start(&job, &key, brought, sent_ns);
                        continue;
                    }
                    Err((kind, reason)) => {
                        tracing::warn!(job_id = %job.id, reason, "the job cannot be started here");
                        reports::plain(&key, kind, Some(reason))
                    }
                }
            };
            self.refuse_port(&job);
            self.ready.push_back(refusal);
        }
    }

    /// A claim may be as old as the request that brought it. Started when most of its lease has passed,
    /// it would be stopped before the first heartbeat could renew it.
    fn lease_is_old(&self, job: &Job, sent_ns: u64) -> bool {
        let lease = job.lease_ttl_ms.map_or(self.lease_ttl, Duration::from_millis);
        let half = self.less_safety(lease).as_nanos() as u64 / 2;
        boottime_ns() > sent_ns.saturating_add(half)
    }

    /// What a job gets of secrets, and its container; or why it cannot run here.
    fn take_up(&mut self, job: &Job) -> Result<Brought, (ReportKind, String)> {
        let user = self.job_users.of_job(job).map_err(|none| match none {
            NoUser::Unproven(reason) => (ReportKind::Refused, reason),
            NoUser::Here(reason) => (ReportKind::Failed, reason),
        })?;
        let secrets = self.open_secrets(job).map_err(|reason| (ReportKind::Refused, reason))?;
        self.gives_stdin(job).map_err(|reason| (ReportKind::Refused, reason))?;
        let mut planned =
            self.plan_container(job).map_err(|unready| (unready.cost.report(), unready.message))?;
        if let (Some(planned), Some(user)) = (&mut planned, &user) {
            planned.spec.run_as(user).map_err(|reason| (ReportKind::Refused, reason))?;
        }
        Ok(Brought { secrets, planned, user })
    }

    fn start(&mut self, job: &Job, key: &Key, brought: Brought, sent_ns: u64) {
        let checkpoint = launch::checkpoint_bytes(job);
        tracing::info!(
            job_id = %job.id,
            attempt = job.attempts,
            max_retries = job.max_retries,
            command = %job.command,
            demo = launch::is_demo(job),
            checkpoint_data_present = checkpoint.is_some(),
            checkpoint_data_bytes = checkpoint.unwrap_or(0),
            "job picked up"
        );
        let job_dir = self.directory_for(brought.user.as_ref());
        let mut spec = launch::start_spec(job, &self.config.gpus, &job_dir, self.config.timing.grace);
        let mut note = launch::note_of(job, self.config.timing.grace, &job_dir);
        spec.run_as(brought.user.as_ref(), &mut note);
        if self.config.hides_gpus {
            spec.env.extend(visible_devices::hidden());
        }
        let (container, image) = brought.planned.map(|planned| (planned.spec, planned.wanted)).unzip();
        spec.container = container.map(Box::new);
        self.attempts.equip(&mut spec, job);
        spec.secrets = brought.secrets;
        let steps = preparation::steps(job, &note, &spec, image, &self.attempts);
        let stage = match (steps.is_empty(), self.await_round(job, key)) {
            (false, _) => Stage::Preparing,
            (true, true) => Stage::Prepared,
            (true, false) => Stage::Queued,
        };
        self.held.insert(key.clone(), note, stage.clone(), Some(sent_ns));
        self.note_room(key);
        // The fence must be right before there is anything to fence.
        self.update_fence();
        self.join_round(job, &mut spec);
        match stage {
            Stage::Preparing => self.prepare(Box::new(spec), steps),
            Stage::Prepared => self.ready_to_start(Box::new(spec)),
            _ => self.launch(Box::new(spec)),
        }
    }

    /// Where a job runs that names no directory: its user's own, unless the worker was told of one.
    fn directory_for(&self, user: Option<&JobUser>) -> PathBuf {
        match user {
            Some(user) if self.config.job_dir.is_none() => user.directory(),
            _ => self.job_dir.clone(),
        }
    }

    /// A keeper of an older version would start the job without its standard input.
    fn gives_stdin(&self, job: &Job) -> Result<(), String> {
        let executor = &self.executor;
        let gives = if job.image.is_some() { executor.gives_contained_stdin } else { executor.gives_stdin };
        if job.stdin_upload.is_some() && !gives {
            return Err(
                "the keeper of this worker is of an older version and gives no standard input; it is \
                        replaced when it has no jobs and the worker starts again"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Sees to it that the room of an attempt goes with it.
    pub(super) fn note_room(&mut self, key: &Key) {
        if let Some(held) = self.held.get_mut(key)
            && held.note.room
        {
            held.room = self.attempts.room(key);
        }
    }

    /// Stops what the scheduler wants stopped. An order can overtake the claim that it is about.
    pub(super) fn obey(&mut self, orders: Vec<StopOrder>) {
        for order in orders {
            let key = reports::key_of(&order.job_id, order.lease);
            match self.held.get(&key) {
                Some(held) if matches!(held.stage, Stage::Queued | Stage::Running) => {
                    tracing::info!(
                        job_id = %order.job_id,
                        preemption_epoch = order.preemption_epoch,
                        reason = %order.reason,
                        comes_back = order.comes_back,
                        "stopping a job by order"
                    );
                    self.executor.send(ToKeeper::Stop(Box::new(ordered(key, order))));
                }
                Some(held) if matches!(held.stage, Stage::Preparing | Stage::Prepared) => {
                    self.report_unstarted(&key, ReportKind::Preempted, None);
                }
                Some(_) => {}
                None => {
                    self.early_stops.entry(key).or_insert_with(Instant::now);
                }
            }
        }
    }

    /// Answers orders about jobs that never came: whatever was claimed for us is not running here.
    pub(super) fn expire_early_stops(&mut self, now: Instant) {
        let ready = &mut self.ready;
        self.early_stops.retain(|key, since| {
            let keep = now < *since + super::start::EARLY_STOP;
            if !keep {
                let message = Some("the worker does not run this job".to_owned());
                ready.push_back(reports::plain(key, ReportKind::Preempted, message));
            }
            keep
        });
    }

    /// The scheduler's word on reports: what is answered is over, whatever the answer.
    pub(super) fn settle_reports(&mut self, sent: Vec<JobReport>, results: &[ReportResult]) {
        let mut forgotten = Vec::with_capacity(sent.len());
        for (index, report) in sent.into_iter().enumerate() {
            let key = reports::key_of(&report.job_id, report.lease);
            let answer = results.get(index).filter(|result| result.job_id == report.job_id);
            match answer.map(|result| (result.status, &result.message)) {
                Some((200, _)) => {}
                Some((status @ (404 | 409), message)) => {
                    tracing::warn!(job_id = %report.job_id, lease = report.lease, status, answer = message, "report refused");
                }
                _ => {
                    self.ready.push_back(report);
                    continue;
                }
            }
            if let Some(held) = self.held.remove(&key) {
                held.remove_files();
            }
            forgotten.push(key);
        }
        if !forgotten.is_empty() {
            self.executor.send(ToKeeper::Forget { keys: forgotten });
        }
    }

    /// The scheduler's word on heartbeats: a lease is renewed or lost.
    pub(super) fn settle_heartbeats(&mut self, results: &[ReportResult], sent_ns: u64) {
        for result in results {
            let key = reports::key_of(&result.job_id, result.lease);
            match result.status {
                200 => self.held.renew(&key, sent_ns),
                404 | 409 => self.lose(&key, &result.message),
                _ => {}
            }
        }
    }

    /// The key was revoked, and with it every lease: the jobs may run elsewhere already.
    pub(super) fn lose_all(&mut self, message: &str) {
        let keys: Vec<Key> = self.held.keys().cloned().collect();
        for key in keys {
            self.lose(&key, message);
        }
    }

    /// Somebody else may run the job from now on, so its process here has no time left.
    fn lose(&mut self, key: &Key, message: &str) {
        let Some(held) = self.held.get_mut(key) else { return };
        if matches!(held.stage, Stage::Preparing | Stage::Prepared) {
            tracing::warn!(job_id = %key.job_id, lease = key.lease, answer = message, "the lease is lost before the start");
            self.drop_waiting(key);
            if let Some(held) = self.held.remove(key) {
                held.remove_files();
            }
            return;
        }
        if held.lost || !matches!(held.stage, Stage::Queued | Stage::Running) {
            return;
        }
        held.lost = true;
        tracing::warn!(job_id = %key.job_id, lease = key.lease, answer = message, "the lease is lost, stopping the job");
        let (grace_ms, cause) = (0, StopCause::LeaseLost);
        let stop = StopSpec { key: key.clone(), grace_ms, cause, signal: None, scope: None, words: None };
        self.executor.send(ToKeeper::Stop(Box::new(stop)));
    }
}

/// The scheduler's order as the keeper takes it.
fn ordered(key: Key, order: StopOrder) -> StopSpec {
    let words = Words { reason: order.reason, comes_back: order.comes_back, epoch: order.preemption_epoch };
    StopSpec {
        key,
        grace_ms: order.grace_ms,
        cause: StopCause::Order,
        signal: order.signal,
        scope: order.scope,
        words: Some(words),
    }
}
