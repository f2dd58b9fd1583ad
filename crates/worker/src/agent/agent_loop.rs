//! The loop: whatever happens is applied to the state, then whatever has become due is done.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use muster_client::ClientError;
use muster_protocol::{JobReport, RegisterRequest, ReportKind};
use muster_seal::KeyPair;
use tokio::sync::watch;
use tokio::time::Instant;

use super::artifacts::Artifacts;
use super::calls::{Answer, Calls, Kind, Returned};
use super::checkpoints::Checkpoints;
use super::containers::Containers;
use super::drain::{Drain, ExitSummary, Shutdown};
use super::held::{HeldJobs, Stage};
use super::pace::Pace;
use super::preparation::Preparations;
use super::rounds::Rounds;
use super::start::BEATS_PER_CALL;
use super::terminals::Terminals;
use super::{artifacts, joining, registration, reports};
use crate::attempt_files::AttemptFiles;
use crate::backoff::Backoff;
use crate::config::WorkerConfig;
use crate::error::WorkerError;
use crate::executor::{self, Executor, ExecutorEvent, KeeperOptions};
use crate::job_user::JobUsers;
use crate::keeper::{Adopted, End, Files, FromKeeper, Key, Outcome, Phase, ToKeeper, boottime_ns};
use crate::launch;
use crate::logs::{LogEvent, Logs};

/// A kind of request that is tried again after a while when it fails.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) backoff: Backoff,
    pub(super) after: Instant,
}

/// Everything a worker knows.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) config: WorkerConfig,
    pub(super) job_dir: PathBuf,
    pub(super) attempts: AttemptFiles,
    pub(super) checkpoint_dir: PathBuf,
    pub(super) job_users: JobUsers,
    pub(super) artifacts: Artifacts,
    pub(super) checkpoints: Checkpoints,
    pub(super) preparations: Preparations,
    pub(super) containers: Containers,
    pub(super) identity: RegisterRequest,
    /// What opens the secrets of jobs.
    pub(super) secret_keys: Vec<KeyPair>,
    pub(super) keeper: Option<KeeperOptions>,
    pub(super) executor: Executor,
    pub(super) logs: Logs,
    pub(super) terminals: Terminals,
    pub(super) calls: Calls,
    pub(super) held: HeldJobs,
    /// Reports that wait to be sent, oldest first.
    pub(super) ready: VecDeque<JobReport>,
    /// Orders about jobs that are not here, and since when.
    pub(super) early_stops: HashMap<Key, Instant>,
    pub(super) pace: Pace,
    pub(super) rounds: Rounds,
    pub(super) drain: Drain,
    pub(super) lease_ttl: Duration,
    /// The scheduler has said how long a lease lives.
    pub(super) lease_is_known: bool,
    pub(super) log_limit: u64,
    pub(super) fence_ns: Option<u64>,
    pub(super) next_beat: Instant,
    /// When waiting jobs were last handed back.
    pub(super) handed_back: Instant,
    pub(super) poll_retry: Retry,
    pub(super) report_retry: Retry,
    pub(super) beat_retry: Retry,
    pub(super) go_retry: Retry,
    pub(super) register_retry: Retry,
    /// The scheduler does not know this worker; nothing else can be asked before it does.
    pub(super) unregistered: bool,
    pub(super) registering: bool,
}

impl Agent {
    /// Serves until the worker may end.
    pub(super) async fn serve(
        &mut self,
        shutdown: &mut watch::Receiver<Shutdown>,
    ) -> Result<ExitSummary, WorkerError> {
        loop {
            let now = Instant::now();
            if self.drain_step(now) {
                return Ok(self.drain.summary);
            }
            self.advance(now);
            let deadline = self.next_deadline(now);
            tokio::select! {
                event = self.executor.next() => match event {
                    Some(ExecutorEvent::Messages(messages)) => self.on_messages(messages),
                    Some(ExecutorEvent::Lost(error)) => self.replace_keeper(&error).await?,
                    None => self.replace_keeper(&std::io::ErrorKind::BrokenPipe.into()).await?,
                },
                Some(returned) = self.calls.next() => match returned {
                    Returned::Synced(answer) => self.on_answer(*answer),
                    Returned::Registered(result) => self.on_registered(*result),
                },
                LogEvent::Delivered(key) = self.logs.next() => self.on_delivered(&key),
                Some(kept) = self.artifacts.next() => self.on_kept(kept),
                Some(saved) = self.checkpoints.next() => self.on_saved(saved),
                Some(prepared) = self.preparations.next() => self.on_prepared(prepared),
                () = self.containers.changed() => self.on_engine(),
                asked = next_shutdown(shutdown) => self.on_shutdown(asked),
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// How long the shortest lease lasts, less what is kept for safety. The keeper knows which jobs have a longer one.
    pub(super) fn lease(&self) -> Duration {
        self.less_safety(self.lease_ttl)
    }

    /// Very short leases keep most of theirs.
    pub(super) fn less_safety(&self, lease: Duration) -> Duration {
        lease.saturating_sub(self.config.timing.fence_safety.min(lease / 4))
    }

    /// Does what is due.
    fn advance(&mut self, now: Instant) {
        self.expire_early_stops(now);
        self.sweep_checkpoints(now);
        self.watch_engine(now);
        self.hand_back(now);
        if self.unregistered {
            if !self.registering && now >= self.register_retry.after {
                self.registering = true;
                self.register_again();
            }
            return;
        }
        if !self.ready.is_empty() && !self.calls.is_reporting() && now >= self.report_retry.after {
            let batch = self.ready.drain(..reports::batch_length(&self.ready)).collect();
            self.calls.report(batch, self.room(), self.ahead());
        }
        if self.beat_is_due(now) && !self.calls.is_beating() {
            // What does not fit in one request follows in the next.
            let all = self.held.len() <= BEATS_PER_CALL;
            self.next_beat = if all { now + self.config.timing.heartbeat } else { now };
            self.calls.beat(self.held.leases(BEATS_PER_CALL), self.rounds.tell());
        }
        self.keep_polling(now);
        self.keep_awaiting(now);
    }

    /// Says which tasks are prepared and waits for the word to start them.
    fn keep_awaiting(&mut self, now: Instant) {
        let tasks = if self.rounds.is_assembling() { self.held.prepared() } else { Vec::new() };
        if tasks.is_empty() {
            self.calls.forget_go();
        } else if !self.calls.awaits_go(&tasks) && now >= self.go_retry.after {
            let wait = self.config.timing.poll.min(self.lease_ttl / 4);
            self.calls.await_go(tasks, wait);
        }
    }

    /// Nothing is queued here beside a task that waits for the others of its round: it might take its slot.
    fn ahead(&self) -> u32 {
        if self.rounds.is_assembling() { 0 } else { self.pace.ahead() }
    }

    fn beat_is_due(&self, now: Instant) -> bool {
        now >= self.beat_at() && (!self.held.is_empty() || !self.rounds.ports.is_announced())
    }

    /// When the next heartbeat may go; one that tells of ports, or for which leases wait, need not wait for its turn.
    fn beat_at(&self) -> Instant {
        if self.rounds.ports.is_announced() && !self.is_overdue() {
            self.next_beat.max(self.beat_retry.after)
        } else {
            self.beat_retry.after
        }
    }

    /// Keeps one poll open. One that asks for nothing is replaced when there is room again; it has
    /// nothing to lose.
    fn keep_polling(&mut self, now: Instant) {
        if !self.drain.is_serving() {
            return;
        }
        let room = self.room();
        match self.calls.poll_max() {
            None if now >= self.poll_retry.after => self.open_poll(room),
            Some(0) if room > 0 && !self.calls.is_reporting() && self.ready.is_empty() => {
                self.calls.abandon_poll();
                self.open_poll(room);
            }
            _ => {}
        }
    }

    /// A claim is as old as its poll may be, so polls are short beside a lease. Until the scheduler has said how long a
    /// lease is, they do not wait at all.
    fn open_poll(&mut self, room: u32) {
        let longest = if self.lease_is_known { self.lease_ttl / 4 } else { Duration::ZERO };
        let wait = self.config.timing.poll.min(longest);
        self.calls.poll(room, self.ahead(), wait);
    }

    /// Whether leases were not renewed for longer than the shortest one lasts, as after an outage: what is claimed now
    /// would be stopped at once.
    fn is_overdue(&self) -> bool {
        self.held.live() > 0 && self.fence_ns.is_some_and(|deadline_ns| boottime_ns() >= deadline_ns)
    }

    /// How many more jobs to ask for: what fits, less what is here, less what was asked for already.
    fn room(&self) -> u32 {
        if !self.drain.is_serving() || self.is_overdue() {
            return 0;
        }
        let live = u32::try_from(self.held.live()).unwrap_or(u32::MAX);
        let fits = self.config.slots.saturating_add(self.ahead());
        fits.saturating_sub(live).saturating_sub(self.calls.asked_for())
    }

    /// Jobs that wait here for long could run elsewhere. A poll that still asks for more would bring them
    /// right back, so it is called back first.
    fn hand_back(&mut self, now: Instant) {
        if !self.drain.is_serving() || self.hand_back_at().is_none_or(|at| now < at) {
            return;
        }
        self.pace.stalled();
        if self.calls.poll_max().is_some_and(|max| max > 0) && self.held.live() >= self.config.slots as usize
        {
            if !self.calls.is_recalling() && now >= self.beat_retry.after {
                self.calls.recall();
            }
            return;
        }
        self.handed_back = now;
        tracing::debug!(jobs = self.held.queued(), "handing back jobs that would wait for a slot");
        for key in self.held.queued_keys() {
            self.executor.send(ToKeeper::Withdraw { key });
        }
    }

    /// The keeper needs a moment to give jobs back, so it is not asked all the time.
    fn hand_back_at(&mut self) -> Option<Instant> {
        let since = self.held.waiting_since()?;
        Some(since.max(self.handed_back) + self.config.timing.hand_back)
    }

    /// When something becomes due that no event announces. What waits for a request under way is not
    /// due: its return is an event.
    fn next_deadline(&mut self, now: Instant) -> Instant {
        let mut due = vec![now + Duration::from_secs(60)];
        if self.unregistered {
            due.extend((!self.registering).then_some(self.register_retry.after));
        } else {
            let reports = !self.ready.is_empty() && !self.calls.is_reporting();
            due.extend(reports.then_some(self.report_retry.after));
            let beats = !self.held.is_empty() || !self.rounds.ports.is_announced();
            due.extend((beats && !self.calls.is_beating()).then_some(self.beat_at()));
            let polls = self.drain.is_serving() && self.calls.poll_max().is_none();
            due.extend(polls.then_some(self.poll_retry.after));
            let assembling = self.rounds.is_assembling();
            due.extend(assembling.then_some(self.go_retry.after).filter(|after| *after > now));
        }
        if self.drain.is_serving() && !self.calls.is_recalling() {
            let not_before = self.beat_retry.after;
            due.extend(self.hand_back_at().map(|at| at.max(not_before)));
        }
        due.extend(self.early_stops.values().min().map(|since| *since + super::start::EARLY_STOP));
        due.extend(self.drain.deadline());
        due.extend(self.containers.due());
        due.into_iter().min().unwrap_or(now)
    }

    fn on_answer(&mut self, answer: Answer) {
        self.calls.settle(&answer);
        if answer.kind == Kind::Beat {
            self.rounds.told(answer.result.is_ok());
        }
        let response = match answer.result {
            Ok(response) => response,
            Err(error) => return self.on_failure(answer.kind, answer.reports, &error),
        };
        self.retry_of(answer.kind).backoff.succeed();
        if response.lease_ttl_ms > 0 {
            self.lease_ttl = Duration::from_millis(response.lease_ttl_ms);
        }
        self.lease_is_known = true;
        if response.log_limit_bytes != self.log_limit {
            self.log_limit = response.log_limit_bytes;
            self.logs.set_limit(self.log_limit);
        }
        let (on_reports, on_heartbeats) =
            response.results.split_at(answer.reports.len().min(response.results.len()));
        self.settle_reports(answer.reports, on_reports);
        self.settle_heartbeats(on_heartbeats, answer.sent_ns);
        self.obey(response.stop);
        self.open_terminals(response.terminals);
        self.go(response.go);
        let brought_jobs = !response.jobs.is_empty();
        self.accept(response.jobs, answer.sent_ns);
        let young = self.lease_ttl.as_nanos() as u64 / 16;
        if brought_jobs && boottime_ns() > answer.sent_ns + young {
            // As far as we know these leases are as old as the poll: renew them now.
            self.next_beat = Instant::now();
        }
        self.update_fence();
    }

    /// Nothing that was to be said is lost: it is said again after a while.
    fn on_failure(&mut self, kind: Kind, reports: Vec<JobReport>, error: &ClientError) {
        for report in reports.into_iter().rev() {
            self.ready.push_front(report);
        }
        if error.status().is_some_and(|status| status.as_u16() == 404) {
            if !self.unregistered {
                tracing::warn!("the scheduler does not know this worker, registering again");
            }
            self.unregistered = true;
            return;
        }
        if self.calls.show_key() && joining::is_revoked(error) {
            self.lose_all(&error.to_string());
        }
        let retry = self.retry_of(kind);
        if retry.backoff.is_fresh() {
            tracing::warn!(error = %error, call = ?kind, "the scheduler did not answer, trying again");
        }
        retry.after = Instant::now() + retry.backoff.fail();
    }

    fn retry_of(&mut self, kind: Kind) -> &mut Retry {
        match kind {
            Kind::Poll => &mut self.poll_retry,
            Kind::Report => &mut self.report_retry,
            Kind::Beat | Kind::Recall => &mut self.beat_retry,
            Kind::Go => &mut self.go_retry,
        }
    }

    fn on_registered(&mut self, result: Result<muster_protocol::Worker, ClientError>) {
        self.registering = false;
        match result {
            Ok(_) => {
                tracing::info!(worker_id = %self.identity.id, "worker registered");
                self.unregistered = false;
                self.rounds.registered();
                self.register_retry.backoff.succeed();
                self.next_beat = Instant::now();
            }
            Err(error) => {
                tracing::warn!(error = %error, refused = registration::refused(&error), "cannot register again");
                self.register_retry.after = Instant::now() + self.register_retry.backoff.fail();
            }
        }
    }

    fn on_messages(&mut self, messages: Vec<FromKeeper>) {
        for message in messages {
            match message {
                FromKeeper::Welcome { .. } => {}
                FromKeeper::Started { key, files, .. } => self.on_started(key, files),
                FromKeeper::Ended { key, end } => self.on_ended(key, end),
            }
        }
        self.update_fence();
    }

    fn on_started(&mut self, key: Key, files: Files) {
        self.held.advance(&key, Stage::Running);
        let Some(held) = self.held.get_mut(&key) else { return };
        held.files = Some(files.clone());
        let (attempt, output) = (held.note.attempt, held.note.output.clone());
        self.logs.follow(key, attempt, files, output);
    }

    fn on_ended(&mut self, key: Key, mut end: End) {
        let Some(held) = self.held.get_mut(&key) else {
            self.executor.send(ToKeeper::Forget { keys: vec![key.clone()] });
            artifacts::discard(&end.files);
            return self.logs.discard(key, end.files);
        };
        let (lost, demo) = (held.lost, held.note.demo);
        if let (Outcome::Vanished(why), true) = (&mut end.outcome, held.note.once) {
            end.outcome = Outcome::Lost(std::mem::take(why));
        }
        held.result.clone_from(&end.files.result);
        held.checkpoint.clone_from(&end.files.checkpoint);
        self.drain.summary.jobs += 1;
        if matches!(end.outcome, Outcome::Exited(_) | Outcome::Signalled(_)) {
            self.pace.record(end.run_us);
        }
        if end.outcome == Outcome::Withdrawn {
            self.attempts.remove_prepared(&key);
        }
        match reports::of_end(&key, &end) {
            Some(_) if !lost => {
                if let Some(end) = self.keep_artifacts_first(&key, end)
                    && let Some(end) = self.save_first(&key, demo, end)
                {
                    self.conclude(&key, end);
                }
            }
            _ => {
                if let Some(held) = self.held.remove(&key) {
                    held.remove_files();
                }
                self.executor.send(ToKeeper::Forget { keys: vec![key.clone()] });
                artifacts::discard(&end.files);
                self.logs.discard(key, end.files);
            }
        }
    }

    /// Reports an end as soon as its output has been delivered.
    pub(super) fn conclude(&mut self, key: &Key, end: End) {
        let Some(held) = self.held.get(key) else { return };
        let (attempt, output) = (held.note.attempt, held.note.output.clone());
        let followed = held.files.is_some();
        if end.stdout_bytes + end.stderr_bytes > 0 {
            self.logs.finish(key.clone(), attempt, end.files.clone(), output);
            self.held.advance(key, Stage::Flushing(Box::new(end)));
        } else {
            if followed {
                self.logs.discard(key.clone(), Files::default());
            }
            self.held.advance(key, Stage::Reporting);
            let user = self.held.get(key).and_then(|held| held.note.user.as_ref());
            self.ready.extend(reports::with_result(key, &end, user));
        }
    }

    fn on_delivered(&mut self, key: &Key) {
        if let Some(Stage::Flushing(end)) = self.held.advance(key, Stage::Reporting) {
            let user = self.held.get(key).and_then(|held| held.note.user.as_ref());
            self.ready.extend(reports::with_result(key, &end, user));
        }
    }

    /// Tells the keeper how long the jobs may live, whenever that has changed.
    pub(super) fn update_fence(&mut self) {
        let Some(deadline_ns) = self.held.fence_ns(self.lease()) else { return };
        if self.fence_ns != Some(deadline_ns) {
            self.fence_ns = Some(deadline_ns);
            self.executor.send(ToKeeper::Fence { deadline_ns, ttl_ms: self.lease_ttl.as_millis() as u64 });
        }
    }

    /// Goes on with the jobs that a keeper has. A former agent started them; their leases are renewed
    /// before anything else happens.
    pub(super) fn adopt(&mut self, jobs: Vec<Adopted>) {
        self.next_beat = Instant::now();
        for Adopted { key, phase, note } in jobs {
            let note = launch::read_note(&note, self.config.timing.grace);
            if !self.held.contains(&key) {
                tracing::info!(job_id = %key.job_id, lease = key.lease, "went on with a job found in the keeper");
                self.held.insert(key.clone(), note, Stage::Queued, None);
                self.note_room(&key);
            }
            match phase {
                Phase::Queued => {}
                Phase::Running(files) => self.on_started(key, files),
                Phase::Ended(end) => self.on_ended(key, end),
            }
        }
    }

    /// The keeper was killed: whatever it ran is gone, and nobody knows how it ended. Whether a job that was to wait
    /// for its turn had begun is not known either; one that may run once only is not handed back.
    async fn replace_keeper(&mut self, error: &std::io::Error) -> Result<(), WorkerError> {
        let Some(options) = &self.keeper else { return Ok(()) };
        tracing::error!(error = %error, "lost the keeper, starting another");
        let (executor, jobs) = executor::connect(options).await?;
        self.executor = executor;
        self.fence_ns = None;
        let lost = self.held.keeper_keys();
        let queued = self.held.queued_keys();
        for key in lost.into_iter().filter(|key| !jobs.iter().any(|job| job.key == *key)) {
            let once = self.held.get(&key).is_some_and(|held| held.note.once);
            let report = if queued.contains(&key) && !once {
                reports::plain(&key, ReportKind::Released, None)
            } else {
                let message = "the keeper of the process was killed".to_owned();
                reports::plain(&key, ReportKind::Lost, Some(message))
            };
            self.held.advance(&key, Stage::Reporting);
            self.ready.push_back(report);
        }
        self.adopt(jobs);
        self.update_fence();
        Ok(())
    }
}

/// A host that lets go of its end asks for nothing more.
async fn next_shutdown(shutdown: &mut watch::Receiver<Shutdown>) -> Shutdown {
    match shutdown.changed().await {
        Ok(()) => *shutdown.borrow_and_update(),
        Err(_) => std::future::pending().await,
    }
}
