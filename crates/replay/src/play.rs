//! Plays a workload through a board, event by event.
//!
//! Guarantees: the same input gives the same outcome; every job starts and ends, or the workload is refused
//! before anything is played; what was stopped does its whole work all the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_domain::{Requirement, Span, Timestamp};
use muster_planner::board::{Board, Past, Plan, QueueId, QueueTerms, ShapeId, Unit, UnitId};
use muster_planner::policy::{Policy, PolicyName};

use crate::error::ReplayError;
use crate::estimate::Oracle;
use crate::outcome::{JobOutcome, Outcome, Progress};
use crate::sampler::Sampler;
use crate::settings::{Cluster, Events, Settings};
use crate::workload::{TraceJob, Workload};

/// Jobs that end between two reports of progress.
const REPORT_EVERY: u64 = 4096;

/// Plays the whole workload and says how each job fared.
pub fn replay(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    settings: &Settings,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, ReplayError> {
    let mut stage = Stage::new(workload, cluster, policy, settings)?;
    stage.play(progress);
    Ok(stage.finish())
}

/// A job on its way.
#[derive(Debug, Clone, Copy)]
struct Actor {
    shape: ShapeId,
    unit: UnitId,
    /// Work that is still to be done.
    left: Span,
    /// What the run at hand does before it gets on with the work.
    overhead: Span,
    since: Timestamp,
    started: bool,
    /// When the planner expects it to end.
    due: Option<Timestamp>,
    /// The board counts it as ended already.
    released: bool,
    /// Counts its runs, so that the end of a run that was cut short is not taken for the end of the job.
    run: u32,
}

struct Stage<'a> {
    jobs: &'a [TraceJob],
    settings: &'a Settings,
    board: Board,
    oracle: Oracle<'a>,
    sampler: Sampler,
    actors: Vec<Actor>,
    outcomes: Vec<JobOutcome>,
    /// Positions of jobs in the order of their submission.
    arrivals: Vec<u32>,
    arrived: usize,
    /// When, which start of all, which job, which of its runs.
    ends: BinaryHeap<Reverse<(Timestamp, u64, u32, u32)>>,
    /// The job of each unit of the board.
    job_of: Vec<u32>,
    look_again: Option<Timestamp>,
    starts: u64,
    ended: u64,
    passes: u64,
}

impl<'a> Stage<'a> {
    fn new(
        workload: &'a Workload,
        cluster: &Cluster,
        policy: &Policy,
        settings: &'a Settings,
    ) -> Result<Self, ReplayError> {
        let policy = Policy { restart: settings.restart, ..*policy };
        let mut board = Board::new(policy);
        for group in &cluster.nodes {
            let tags: Vec<String> =
                group.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            for _ in 0..group.count {
                board.add_node(&group.each, None, tags.iter());
            }
        }
        if cluster.nodes.iter().all(|group| group.count == 0) {
            return Err(ReplayError::NoNodes);
        }
        if policy.name == PolicyName::Muster {
            set_queues(workload, cluster, &mut board)?;
        }
        let actors = cast(&workload.jobs, &mut board)?;
        let mut arrivals: Vec<u32> = (0..workload.jobs.len() as u32).collect();
        arrivals.sort_by_key(|job| workload.jobs[*job as usize].submit);
        Ok(Self {
            jobs: &workload.jobs,
            settings,
            board,
            oracle: Oracle::new(workload, policy.name, settings.estimates),
            sampler: Sampler::new(cluster, settings.sample_every),
            outcomes: vec![JobOutcome::default(); actors.len()],
            actors,
            arrivals,
            arrived: 0,
            ends: BinaryHeap::new(),
            job_of: Vec::new(),
            look_again: None,
            starts: 0,
            ended: 0,
            passes: 0,
        })
    }

    fn play(&mut self, progress: &mut dyn FnMut(Progress)) {
        let jobs = self.jobs.len() as u64;
        let mut reported = 0;
        while let Some(now) = self.next_time() {
            match self.settings.events {
                Events::Batched => self.step_batched(now),
                Events::OneByOne => self.step_single(now),
            }
            if self.ended >= reported + REPORT_EVERY || self.ended == jobs {
                reported = self.ended;
                progress(Progress { ended: self.ended, jobs, now });
            }
        }
    }

    fn finish(self) -> Outcome {
        Outcome { jobs: self.outcomes, samples: self.sampler.samples, passes: self.passes }
    }

    fn next_arrival(&self) -> Option<Timestamp> {
        self.arrivals.get(self.arrived).map(|job| self.jobs[*job as usize].submit)
    }

    fn next_end(&self) -> Option<Timestamp> {
        self.ends.peek().map(|Reverse((at, ..))| *at)
    }

    fn next_time(&self) -> Option<Timestamp> {
        [self.next_arrival(), self.next_end(), self.look_again].into_iter().flatten().min()
    }

    /// All ends, all submissions, one pass.
    fn step_batched(&mut self, now: Timestamp) {
        while self.next_end() == Some(now) {
            self.end_next(now);
        }
        while self.next_arrival() == Some(now) {
            self.submit_next(now);
        }
        self.pass(now);
    }

    /// One submission, or else one end.
    fn step_single(&mut self, now: Timestamp) {
        self.release_due(now);
        if self.next_arrival() == Some(now) {
            let unit = self.submit_next(now);
            if !self.board.fits_now(unit) {
                return;
            }
        } else if self.next_end() == Some(now) {
            self.end_next(now);
        }
        self.pass(now);
    }

    /// What was expected to end by now is free for others even before it is heard to have ended.
    fn release_due(&mut self, now: Timestamp) {
        if self.next_end() != Some(now) {
            return;
        }
        for Reverse((_, _, job, run)) in self.ends.iter().filter(|Reverse((at, ..))| *at == now) {
            let actor = &mut self.actors[*job as usize];
            if actor.run == *run && actor.due == Some(now) && !actor.released {
                self.board.end(actor.unit, now);
                actor.released = true;
            }
        }
    }

    fn submit_next(&mut self, now: Timestamp) -> UnitId {
        let job = self.arrivals[self.arrived];
        self.arrived += 1;
        let estimate = self.oracle.estimate(job as usize);
        self.submit(job, estimate, now)
    }

    fn submit(&mut self, job: u32, estimate: Option<Span>, now: Timestamp) -> UnitId {
        let of = &self.jobs[job as usize];
        let actor = &mut self.actors[job as usize];
        let unit = Unit {
            shape: actor.shape,
            tasks: of.tasks,
            queue: QueueId(of.queue),
            priority: of.priority,
            submit: of.submit,
            seq: u64::from(job),
            estimate,
            preemptible: of.preemptible,
        };
        let id = self.board.submit(unit, Past::default(), now);
        actor.unit = id;
        if self.job_of.len() <= id.0 as usize {
            self.job_of.resize(id.0 as usize + 1, 0);
        }
        self.job_of[id.0 as usize] = job;
        self.sampler.waits(of);
        id
    }

    /// Takes the next end off the list; it may belong to a run that was cut short.
    fn end_next(&mut self, now: Timestamp) {
        let Some(Reverse((_, _, job, run))) = self.ends.pop() else { return };
        let actor = &mut self.actors[job as usize];
        if actor.run != run {
            return;
        }
        if !actor.released {
            self.board.end(actor.unit, now);
        }
        let of = &self.jobs[job as usize];
        self.outcomes[job as usize].end = now;
        self.outcomes[job as usize].lost = self.outcomes[job as usize].lost + actor.overhead;
        self.sampler.ends(of);
        self.oracle.learn(job as usize);
        self.ended += 1;
    }

    fn pass(&mut self, now: Timestamp) {
        self.passes += 1;
        let plan = self.board.pass(now);
        self.look_again = plan.look_again.filter(|_| self.board.waiting() > 0);
        self.apply(&plan, now);
        self.sampler.look(now, &self.board);
    }

    fn apply(&mut self, plan: &Plan, now: Timestamp) {
        for stop in &plan.stops {
            let job = self.job_of[stop.unit.0 as usize] as usize;
            let (actor, outcome) = (&mut self.actors[job], &mut self.outcomes[job]);
            let ran = now.since(actor.since).as_micros();
            let vain = actor.overhead.as_micros().min(ran);
            outcome.lost = outcome.lost + Span::from_micros(vain);
            outcome.preemptions += 1;
            actor.left = Span::from_micros(actor.left.as_micros().saturating_sub(ran - vain));
            actor.overhead = self.settings.restart;
            actor.run += 1;
            self.sampler.stops(&self.jobs[job]);
        }
        for start in &plan.starts {
            let job = self.job_of[start.unit.0 as usize];
            let (actor, outcome) = (&mut self.actors[job as usize], &mut self.outcomes[job as usize]);
            if !actor.started {
                outcome.start = now;
                actor.started = true;
            }
            outcome.node = self.board.places(start.unit).first().map_or(0, |(node, _)| node.0);
            actor.since = now;
            actor.due = self.board.expected_end(start.unit);
            self.starts += 1;
            self.ends.push(Reverse((now + actor.overhead + actor.left, self.starts, job, actor.run)));
            self.sampler.starts(&self.jobs[job as usize]);
        }
    }
}

/// Tells the board about quotas, and refuses jobs that no quota would ever let start.
fn set_queues(workload: &Workload, cluster: &Cluster, board: &mut Board) -> Result<(), ReplayError> {
    let terms: Vec<Option<&QueueTerms>> =
        workload.queues.iter().map(|name| cluster.queues.get(name)).collect();
    for (position, terms) in terms.iter().enumerate() {
        if let Some(terms) = terms {
            board.set_queue(QueueId(position as u32), terms);
        }
    }
    for (position, job) in workload.jobs.iter().enumerate() {
        let own = terms.get(job.queue as usize).copied().flatten();
        let Some(own) = own.filter(|own| !own.admits_ever(&job.need, job.tasks, job.preemptible)) else {
            continue;
        };
        let (queue, job) = (workload.queues[job.queue as usize].clone(), position + 1);
        return Err(ReplayError::Quota { job, queue, terms: Box::new(own.clone()) });
    }
    Ok(())
}

/// Gives each job its part, and refuses those that could never play it.
fn cast(jobs: &[TraceJob], board: &mut Board) -> Result<Vec<Actor>, ReplayError> {
    let mut actors = Vec::with_capacity(jobs.len());
    let mut last: Option<(&TraceJob, ShapeId)> = None;
    for (position, job) in jobs.iter().enumerate() {
        let shape = match last {
            Some((like, shape)) if like.need == job.need => shape,
            _ => board.shape(&Requirement { resources: job.need.clone(), ..Requirement::default() }),
        };
        let known = last.is_some_and(|(like, known)| known == shape && like.tasks >= job.tasks);
        if !known && !board.fits_ever(shape, job.tasks) {
            let what = format!("{} tasks of {:?}", job.tasks, job.need);
            return Err(ReplayError::Impossible { job: position + 1, what });
        }
        last = Some((job, shape));
        actors.push(Actor {
            shape,
            unit: UnitId::default(),
            left: job.run,
            overhead: Span::ZERO,
            since: Timestamp::default(),
            started: false,
            due: None,
            released: false,
            run: 0,
        });
    }
    Ok(actors)
}
