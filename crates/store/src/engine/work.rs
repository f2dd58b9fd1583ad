//! The rows of one transaction: locked, changed in memory by the domain's rules, written back once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use muster_domain::image::{self, ImageNote};
use muster_domain::memory_growth::{self, asked_mb};
use muster_domain::{
    By, Change, Edit, Effects, Ended, EndedAttempt, Event, EventKind, GangChange, GangId, Job, JobId,
    JobSpec, Measured, Patience, Place, Rejection, ShapeId, Spent, Timestamp, Trigger, Worker, WorkerId,
    edit, gang_ended, gang_transition, lifecycle, transition,
};

use super::attribution::Doer;
use super::gates::Look;
use super::growth::Grown;
use super::roster::{Part, Roster};
use super::{Policies, gang_notes};
use crate::applied::{GangNote, Wake};
use crate::error::StoreError;
use crate::tx::Tx;

struct Held {
    job: Job,
    changed: bool,
}

/// What a report says that the attempt used.
const fn spent_of(trigger: &Trigger) -> Option<Spent> {
    match trigger {
        Trigger::Report { spent, .. } => *spent,
        _ => None,
    }
}

/// What an attempt was started with: the next one may ask for more.
struct Before {
    since: Option<Timestamp>,
    spec: Arc<JobSpec>,
}

impl Before {
    fn of(job: &Job) -> Self {
        Self { since: job.running_since(), spec: Arc::clone(&job.spec) }
    }

    /// Whether the job asks for more memory now.
    fn is_outgrown_by(&self, job: &Job) -> bool {
        asked_mb(&job.spec) > asked_mb(&self.spec)
    }
}

/// The attempt that has ended, if one was under way before.
fn ended_attempt(
    job: &Job,
    before: &Before,
    spent: Option<Spent>,
    now: Timestamp,
) -> Option<(JobId, EndedAttempt)> {
    let from = before.since.filter(|_| job.running_since().is_none())?;
    // A task that was stopped before its round started never ran.
    let ran = from < now || spent.is_some();
    ran.then(|| (job.id, EndedAttempt::of(&before.spec, from, now, spent)))
}

fn measured(spec: &JobSpec, kind: &EventKind, spent: Spent) -> Option<Measured> {
    let requested = spec.resources.as_ref().filter(|requested| !requested.is_zero());
    kind.ends_attempt().then(|| Measured { spent, requested: requested.cloned() })
}

/// A transaction in progress.
pub(crate) struct Work<'t, T> {
    pub(crate) tx: &'t mut T,
    pub(crate) now: Timestamp,
    pub(crate) policies: &'t Policies,
    pub(crate) roster: &'t mut Roster,
    /// Whether the roster was brought up to date in this transaction.
    is_current: bool,
    jobs: HashMap<JobId, Held>,
    /// The held tasks of each gang.
    gangs: HashMap<GangId, BTreeSet<JobId>>,
    /// Jobs that became terminal and whose dependants have not been told yet.
    ended: Vec<JobId>,
    /// Workers that the batch speaks of, locked.
    workers: BTreeMap<WorkerId, Worker>,
    changed_workers: BTreeSet<WorkerId>,
    events: Vec<Event>,
    /// Who is behind each command of the batch, and behind what is done now.
    doers: Vec<Doer>,
    doer: Doer,
    gang_notes: Vec<GangNote>,
    /// Attempts that ended in this transaction.
    attempts: Vec<(JobId, EndedAttempt)>,
    /// Jobs that want more memory for their next attempt.
    grown: Grown,
    wake: Wake,
}

impl<'t, T: Tx> Work<'t, T> {
    pub(crate) fn new(tx: &'t mut T, policies: &'t Policies, roster: &'t mut Roster, now: Timestamp) -> Self {
        Self {
            tx,
            now,
            policies,
            roster,
            is_current: false,
            jobs: HashMap::new(),
            gangs: HashMap::new(),
            ended: Vec::new(),
            workers: BTreeMap::new(),
            changed_workers: BTreeSet::new(),
            events: Vec::new(),
            doers: Vec::new(),
            doer: Doer::Known(Some(By::Scheduler)),
            gang_notes: Vec::new(),
            attempts: Vec::new(),
            grown: Grown::new(),
            wake: Wake::default(),
        }
    }

    pub(super) fn set_doers(&mut self, doers: Vec<Doer>) {
        self.doers = doers;
    }

    /// What happens from now on is caused by the command at this position.
    pub(crate) fn on_behalf_of(&mut self, position: usize) {
        self.doer = self.doers.get(position).cloned().unwrap_or(Doer::Known(None));
    }

    /// What happens from now on nobody asked for.
    pub(crate) fn on_behalf_of_scheduler(&mut self) {
        self.doer = Doer::Known(Some(By::Scheduler));
    }

    /// Who causes what is done now; `job` is what it is done to.
    pub(crate) fn by(&self, job: Option<&Job>) -> Option<By> {
        match &self.doer {
            Doer::Known(by) => by.clone(),
            Doer::Holder => Some(By::Worker(job.and_then(Job::worker).cloned())),
        }
    }

    /// Brings the roster up to date: with what was committed until now where that is locked, else with what was
    /// when it was first asked for in this transaction; and with what this transaction changed.
    pub(crate) async fn refresh_roster(&mut self, look: Look) -> Result<(), StoreError> {
        if look == Look::Lock || !self.is_current {
            self.roster.refresh(self.tx, Part::All, self.now).await?;
            self.is_current = true;
        }
        let jobs = || self.jobs.values().map(|held| &held.job);
        self.roster.overlay(jobs(), self.workers.values());
        if cfg!(debug_assertions) && T::EXCLUSIVE {
            let mut read = Roster::default();
            read.refresh(self.tx, Part::All, self.now).await?;
            read.overlay(jobs(), self.workers.values());
            self.roster.is_like(&read)?;
        }
        Ok(())
    }

    /// Brings only the workers of the roster up to date, whatever they hold.
    pub(crate) async fn refresh_workers(&mut self) -> Result<(), StoreError> {
        self.roster.refresh(self.tx, Part::Workers, self.now).await?;
        self.roster.overlay(std::iter::empty(), self.workers.values());
        Ok(())
    }

    /// Locks those of `ids` that are not held yet.
    pub(crate) async fn lock_workers(&mut self, ids: &[WorkerId]) -> Result<(), StoreError> {
        let wanted: Vec<WorkerId> =
            ids.iter().filter(|id| !self.workers.contains_key(*id)).cloned().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let found = self.tx.lock_workers(&wanted).await?;
        self.workers.extend(found.into_iter().map(|worker| (worker.id.clone(), worker)));
        Ok(())
    }

    /// Lends out the held workers and the names of those that changed, until they are put back.
    pub(crate) fn take_workers(&mut self) -> (BTreeMap<WorkerId, Worker>, BTreeSet<WorkerId>) {
        (std::mem::take(&mut self.workers), std::mem::take(&mut self.changed_workers))
    }

    pub(crate) fn put_back_workers(
        &mut self,
        workers: BTreeMap<WorkerId, Worker>,
        changed: BTreeSet<WorkerId>,
    ) {
        self.workers = workers;
        self.changed_workers = changed;
    }

    /// Writes every changed worker.
    pub(crate) async fn flush_workers(&mut self) -> Result<(), StoreError> {
        let changed = std::mem::take(&mut self.changed_workers);
        let changed: Vec<Worker> = changed.iter().filter_map(|id| self.workers.get(id).cloned()).collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.tx.put_workers(&changed).await
    }

    /// Locks those of `ids` that are not held yet. Unknown ids are simply not there afterwards.
    pub(crate) async fn lock(&mut self, ids: impl IntoIterator<Item = JobId>) -> Result<(), StoreError> {
        let wanted: BTreeSet<JobId> = ids.into_iter().filter(|id| !self.jobs.contains_key(id)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: Vec<JobId> = wanted.into_iter().collect();
        for job in self.tx.lock_jobs(&wanted).await? {
            self.hold(job);
        }
        Ok(())
    }

    /// Locks those of `ids` that are not held yet, and all tasks of the gangs that they belong to.
    pub(crate) async fn lock_whole(
        &mut self,
        ids: impl IntoIterator<Item = JobId>,
    ) -> Result<(), StoreError> {
        let ids: Vec<JobId> = ids.into_iter().collect();
        self.lock(ids.iter().copied()).await?;
        let torn: BTreeSet<GangId> = ids.iter().filter_map(|id| self.torn_gang(*id)).collect();
        if torn.is_empty() {
            return Ok(());
        }
        let torn: Vec<GangId> = torn.into_iter().collect();
        let tasks: Vec<JobId> = self.tx.gang_tasks(&torn).await?.iter().map(|task| task.id).collect();
        self.lock(tasks).await
    }

    /// The gang of a held job of which not all tasks are held.
    fn torn_gang(&self, id: JobId) -> Option<GangId> {
        let gang = self.jobs.get(&id)?.job.spec.gang.as_ref()?;
        let held = self.gangs.get(&gang.id).map_or(0, BTreeSet::len);
        (held < gang.size as usize).then_some(gang.id)
    }

    /// Takes over a job that the backend has locked already.
    pub(crate) fn hold(&mut self, job: Job) {
        if let Some(gang) = &job.spec.gang {
            self.gangs.entry(gang.id).or_default().insert(job.id);
        }
        self.jobs.insert(job.id, Held { job, changed: false });
    }

    /// The same for a job that may be held already, and changed since.
    pub(crate) fn hold_if_new(&mut self, job: Job) {
        if !self.jobs.contains_key(&job.id) {
            self.hold(job);
        }
    }

    pub(crate) fn job(&self, id: JobId) -> Result<&Job, Rejection> {
        self.jobs.get(&id).map(|held| &held.job).ok_or(Rejection::JobNotFound { id })
    }

    /// Puts a trigger to a held job and notes what follows from it.
    pub(crate) fn trigger(&mut self, id: JobId, trigger: &Trigger) -> Result<Change, Rejection> {
        let gang = self.job(id)?.spec.gang.as_ref().filter(|_| trigger.concerns_gang());
        if let Some(gang) = gang.map(|gang| gang.id) {
            return self.trigger_gang(gang, id, trigger);
        }
        let by = self.by(self.job(id).ok());
        let held = self.jobs.get_mut(&id).ok_or(Rejection::JobNotFound { id })?;
        let before = Before::of(&held.job);
        let change = transition(&mut held.job, trigger, self.now)?;
        if before.is_outgrown_by(&held.job) {
            self.grown.insert(id, asked_mb(&before.spec));
        }
        let spent = spent_of(trigger);
        self.attempts.extend(ended_attempt(&held.job, &before, spent, self.now));
        held.changed |= change != Change::Repeated;
        self.wake.note_alarm(held.job.alarm().filter(|_| held.changed));
        if let Change::Happened(kind) = &change {
            let measured = spent.and_then(|spent| measured(&before.spec, kind, spent));
            let event = Event::of_job(id, self.now, kind.clone()).caused_by(by).measured(measured);
            self.wake.note(&event, Some(&held.job));
            self.events.push(event);
            if held.job.is_terminal() {
                self.ended.push(id);
            }
        }
        Ok(change)
    }

    fn trigger_gang(&mut self, gang: GangId, id: JobId, trigger: &Trigger) -> Result<Change, Rejection> {
        let mut tasks = self.whole_gang(gang)?;
        let GangChange { change, effects } = gang_transition(&mut tasks, id, trigger, self.now)?;
        self.put_gang(gang, Some((id, trigger)), tasks, effects);
        Ok(change)
    }

    /// Places a gang whose tasks are held.
    pub(crate) fn reserve(&mut self, gang: GangId, places: &[Place]) -> Result<(), Rejection> {
        let mut tasks = self.whole_gang(gang)?;
        let effects = lifecycle::reserve(&mut tasks, places, self.now)?;
        self.put_gang(gang, None, tasks, effects);
        Ok(())
    }

    /// Takes the placement of a gang back that was not claimed in time.
    pub(crate) fn lapse(&mut self, gang: GangId, patience: Patience) -> Result<(), Rejection> {
        let mut tasks = self.whole_gang(gang)?;
        let effects = lifecycle::lapse(&mut tasks, patience, self.now)?;
        self.put_gang(gang, None, tasks, effects);
        Ok(())
    }

    /// The held tasks of a gang, by index.
    pub(crate) fn tasks_of(&self, gang: GangId) -> Vec<Job> {
        let ids = self.gangs.get(&gang).into_iter().flatten();
        let mut tasks: Vec<Job> =
            ids.filter_map(|id| self.jobs.get(id)).map(|held| held.job.clone()).collect();
        tasks.sort_unstable_by_key(|task| task.spec.gang.as_ref().map_or(0, |gang| gang.index));
        tasks
    }

    /// All tasks of a gang; without one of them nothing can be decided.
    fn whole_gang(&self, gang: GangId) -> Result<Vec<Job>, Rejection> {
        let tasks = self.tasks_of(gang);
        let size = tasks.first().and_then(|task| task.spec.gang.as_ref()).map_or(0, |gang| gang.size);
        if tasks.is_empty() || tasks.len() != size as usize {
            return Err(Rejection::GangTask);
        }
        Ok(tasks)
    }

    fn put_gang(&mut self, gang: GangId, said: Option<(JobId, &Trigger)>, tasks: Vec<Job>, effects: Effects) {
        // As it was: a worker that reports an end no longer holds the task afterwards.
        let by = self.by(said.and_then(|(id, _)| self.job(id).ok()));
        // What a worker says about one task befalls the others by the scheduler.
        let reported = said.map(|(id, _)| id).filter(|_| self.doer == Doer::Holder);
        let mut spent = said.and_then(|(id, trigger)| Some((id, spent_of(trigger)?)));
        let before = self.tasks_of(gang);
        self.gang_notes.extend(gang_notes::notes(said, &before, &tasks, &effects, self.now));
        for task in tasks {
            let Some(held) = self.jobs.get_mut(&task.id) else { continue };
            if held.job != task {
                let before = Before::of(&held.job);
                if before.is_outgrown_by(&task) {
                    self.grown.insert(task.id, asked_mb(&before.spec));
                }
                let own = spent.filter(|(id, _)| *id == task.id).map(|(_, spent)| spent);
                self.attempts.extend(ended_attempt(&task, &before, own, self.now));
                held.job = task;
                held.changed = true;
                self.wake.note_alarm(held.job.alarm());
            }
        }
        for (id, kind) in effects {
            let job = self.jobs.get(&id).map(|held| &held.job);
            let ends = matches!(
                kind,
                EventKind::Done { .. } | EventKind::Failed { .. } | EventKind::Cancelled { .. }
            );
            let by = if reported.is_some_and(|task| task != id) { Some(By::Scheduler) } else { by.clone() };
            // The first end that is told of the task that was reported.
            let own = spent.take_if(|(task, _)| *task == id && kind.ends_attempt());
            let started_with = before.iter().find(|task| task.id == id).map(|task| &task.spec);
            let measured = own.zip(started_with).and_then(|((_, spent), spec)| measured(spec, &kind, spent));
            let event = Event::of_job(id, self.now, kind).caused_by(by).measured(measured);
            self.wake.note(&event, job);
            self.events.push(event);
            if ends {
                self.ended.push(id);
            }
        }
    }

    /// How a held job, or the gang that it belongs to, ended: the job that edges start at, the end as it is
    /// counted, and where a bad end began. `None` while it has not.
    pub(crate) fn unit_end(&self, id: JobId) -> Option<(JobId, Ended, JobId)> {
        let job = &self.jobs.get(&id)?.job;
        let Some(gang) = &job.spec.gang else {
            return Some((id, job.ended()?, job.root_cause()));
        };
        let ids = self.gangs.get(&gang.id)?;
        let mut tasks: Vec<&Job> =
            ids.iter().filter_map(|id| self.jobs.get(id)).map(|held| &held.job).collect();
        tasks.sort_unstable_by_key(|task| task.spec.gang.as_ref().map_or(0, |gang| gang.index));
        let first = tasks.first()?.id;
        let (ended, ancestor) = gang_ended(&tasks)?;
        Some((first, ended, ancestor))
    }

    /// The job that stands for this one where others depend on it: itself, or the first task of its gang.
    pub(crate) fn unit(&self, id: JobId) -> JobId {
        let gang = self.jobs.get(&id).and_then(|held| held.job.spec.gang.as_ref());
        let tasks = gang.and_then(|gang| self.gangs.get(&gang.id)).into_iter().flatten();
        let index = |id: &JobId| self.jobs.get(id)?.job.spec.gang.as_ref().map(|gang| gang.index);
        tasks.copied().min_by_key(index).unwrap_or(id)
    }

    /// Changes what was asked for and names its new shape; true when anything changed.
    pub(crate) fn edit(&mut self, id: JobId, change: &Edit) -> Result<bool, Rejection> {
        let held = self.jobs.get_mut(&id).ok_or(Rejection::JobNotFound { id })?;
        let what = edit(&mut held.job, change)?;
        if what.is_empty() {
            return Ok(false);
        }
        held.job.rank = self.policies.rank_of(&held.job);
        self.wake.note_alarm(held.job.alarm());
        self.note(Event::of_job(id, self.now, EventKind::Edited { what }));
        Ok(true)
    }

    /// The jobs that want more memory, with what they had before.
    pub(crate) fn take_grown(&mut self) -> Grown {
        std::mem::take(&mut self.grown)
    }

    /// Sets what a job asks for whose attempt ran out of memory, and tells it.
    pub(crate) fn ask_for_memory(&mut self, id: JobId, memory_mb: u64, what: String) {
        let Some(held) = self.jobs.get_mut(&id) else { return };
        memory_growth::ask_for(&mut held.job, memory_mb);
        held.job.rank = self.policies.rank_of(&held.job);
        held.changed = true;
        self.note(Event::of_job(id, self.now, EventKind::Edited { what }));
    }

    /// Writes down what the holder of a job says about the image of its container.
    pub(crate) fn note_image(&mut self, id: JobId, note: &ImageNote) -> Result<Change, Rejection> {
        let held = self.jobs.get_mut(&id).ok_or(Rejection::JobNotFound { id })?;
        let change = image::note(&mut held.job, note);
        held.changed |= change != Change::Repeated;
        let by = self.by(self.job(id).ok());
        if let Change::Happened(kind) = &change {
            self.note_by(Event::of_job(id, self.now, kind.clone()), by);
        }
        Ok(change)
    }

    /// Writes a held job again, with the rank that it has by now.
    pub(crate) fn touch(&mut self, id: JobId) {
        if let Some(held) = self.jobs.get_mut(&id) {
            held.changed = true;
        }
    }

    /// Lets a held job that waits go first for having waited so long, or not any more.
    pub(crate) fn pin(&mut self, id: JobId, pinned: bool) {
        let Some(held) = self.jobs.get_mut(&id) else { return };
        let waiting = held.job.waiting_since();
        if held.job.pinned == pinned || pinned && waiting.is_none() {
            return;
        }
        held.job.pinned = pinned;
        held.changed = true;
        // One line for a gang.
        let tells = held.job.spec.gang.as_ref().is_none_or(|gang| gang.index == 0);
        if let Some(since) = waiting.filter(|_| pinned && tells) {
            let waited = held.job.waited + self.now.since(since);
            self.note(Event::of_job(id, self.now, EventKind::Pinned { waited }));
        }
    }

    /// Gives a held job the name under which the store keeps its shape.
    pub(crate) fn rename_shape(&mut self, id: JobId, shape: ShapeId) {
        if let Some(held) = self.jobs.get_mut(&id) {
            held.job.shape = shape;
        }
    }

    /// Forgets a job that is being removed, and what this batch has noted about it.
    pub(crate) fn forget(&mut self, id: JobId) {
        self.events.retain(|event| event.job != Some(id));
        let gone = self.jobs.remove(&id);
        if let Some(gang) = gone.and_then(|held| held.job.spec.gang.as_ref().map(|gang| gang.id))
            && let Some(tasks) = self.gangs.get_mut(&gang)
        {
            tasks.remove(&id);
        }
    }

    pub(crate) fn note(&mut self, event: Event) {
        let by = self.by(None);
        self.note_by(event, by);
    }

    pub(crate) fn note_by(&mut self, event: Event, by: Option<By>) {
        let event = event.caused_by(by);
        self.wake.note(&event, None);
        self.events.push(event);
    }

    /// Notes that readers of the log have something to do.
    pub(crate) const fn note_events(&mut self) {
        self.wake.events = true;
    }

    /// Notes that a gang may be placed.
    pub(crate) const fn note_gangs(&mut self) {
        self.wake.gangs = true;
    }

    /// Notes that claims should be tried again.
    pub(crate) const fn note_room(&mut self) {
        self.wake.work = true;
    }

    /// Notes that a job has an alarm that the sweep does not know yet.
    pub(crate) fn note_alarm(&mut self, alarm: Option<Timestamp>) {
        self.wake.note_alarm(alarm);
    }

    pub(crate) fn take_attempts(&mut self) -> Vec<(JobId, EndedAttempt)> {
        std::mem::take(&mut self.attempts)
    }

    pub(crate) fn take_ended(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Writes every changed job, in id order.
    pub(crate) async fn flush(&mut self) -> Result<(), StoreError> {
        let mut changed: Vec<Job> = Vec::new();
        for held in self.jobs.values_mut().filter(|held| held.changed) {
            held.changed = false;
            held.job.rank = self.policies.rank_of(&held.job);
            changed.push(held.job.clone());
        }
        if changed.is_empty() {
            return Ok(());
        }
        changed.sort_unstable_by_key(|job| job.id);
        self.tx.update_jobs(&changed).await
    }

    pub(crate) async fn append_events(&mut self) -> Result<(), StoreError> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.tx.append_events(&mut self.events).await
    }

    pub(crate) fn into_effects(self) -> (Vec<Event>, Vec<GangNote>, Wake) {
        (self.events, self.gang_notes, self.wake)
    }
}
