//! Plans: classes of queues and, in each, classes of jobs with their number, gaps, sizes and run times.
//!
//! Guarantee: the same plan and seed make the same jobs.

use muster_domain::{Resources, Span, Timestamp};

use super::csv::{NOBODY, blank};
use super::error::{MOST_JOBS, TraceError};
use super::names::Names;
use super::plan_file::{Arrivals, JobClass, PlanFile, QueueClass, Range};
use super::{Trace, Workload};
use crate::generate::Random;
use crate::workload::TraceJob;
use crate::written::{Written, cpu_millis};

/// A plan whose every value was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    queues: Vec<Source>,
}

/// What comes into one queue of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    queue: String,
    user: String,
    class: String,
    count: u32,
    first: Timestamp,
    gap: Span,
    by_chance: bool,
    shortest: Span,
    longest: Span,
    /// All but its times and names.
    job: TraceJob,
}

impl Plan {
    /// Reads the text of a plan, which is TOML.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let file: PlanFile = toml::from_str(text).map_err(|error| TraceError::Plan(error.to_string()))?;
        // Before anything is made: a short text can ask for more than there is memory.
        if file.queues.iter().map(jobs).fold(0, u64::saturating_add) > MOST_JOBS as u64 {
            return Err(TraceError::TooMany { most: MOST_JOBS });
        }
        let mut queues = Vec::new();
        for class in &file.queues {
            for name in queue_names(class) {
                for part in &class.jobs {
                    queues.push(source(&name, part).map_err(TraceError::Plan)?);
                }
            }
        }
        Ok(Self { queues })
    }

    /// The jobs; `seed` decides what the plan leaves to chance.
    pub fn trace(&self, seed: u64) -> Trace {
        let (mut queues, mut users) = (Names::default(), Names::default());
        let mut jobs: Vec<(TraceJob, String)> = Vec::new();
        for (index, source) in self.queues.iter().enumerate() {
            // Each has its own numbers, so that one more class changes nothing about the others.
            let mut random = Random::new(seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut at = source.first;
            for _ in 0..source.count {
                let mut job = source.job.clone();
                job.submit = at;
                job.run = source.run(&mut random);
                job.queue = queues.position(&source.queue);
                job.user = users.position(&source.user);
                jobs.push((job, source.class.clone()));
                at = at + source.gap(&mut random);
            }
        }
        jobs.sort_by_key(|(job, _)| job.submit);
        let (jobs, names): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let workload = Workload { jobs, queues: queues.into_list(), users: users.into_list() };
        Trace { workload, names, ..Trace::default() }
    }
}

impl Source {
    fn gap(&self, random: &mut Random) -> Span {
        if !self.by_chance {
            return self.gap;
        }
        Span::from_micros((self.gap.as_micros() as f64 * random.exponential()) as u64)
    }

    fn run(&self, random: &mut Random) -> Span {
        let (shortest, longest) = (self.shortest.as_micros(), self.longest.as_micros());
        if longest <= shortest {
            return self.shortest;
        }
        Span::from_micros(shortest + (random.unit() * (longest - shortest) as f64) as u64)
    }
}

/// How many jobs come of a class of queues; what comes to none counts as one, for it takes room as well.
fn jobs(class: &QueueClass) -> u64 {
    let each = class.jobs.iter().map(|part| u64::from(part.count.max(1))).fold(0, u64::saturating_add);
    each.max(1).saturating_mul(u64::from(class.count))
}

fn queue_names(class: &QueueClass) -> Vec<String> {
    if class.count == 1 {
        return vec![class.name.clone()];
    }
    (1..=class.count).map(|number| format!("{}-{number}", class.name)).collect()
}

fn source(queue: &str, part: &JobClass) -> Result<Source, String> {
    let span = |value: &Option<Written>, what: &str| {
        value.as_ref().map_or(Ok(Span::ZERO), |written| written.span(what))
    };
    let (shortest, longest) = match &part.run {
        Range::Always(run) => (run.span("run")?, run.span("run")?),
        Range::Between { from, to } => (from.span("run.from")?, to.span("run.to")?),
    };
    if longest < shortest {
        return Err("run.to is less than run.from".into());
    }
    if part.tasks == 0 {
        return Err("tasks is 0; write a number from 1 on".into());
    }
    let sized = part.cpus.is_some() || part.gpus.is_some() || part.memory.is_some();
    let need = Resources {
        cpu_millis: cpu_millis(part.cpus.unwrap_or(if sized { 0.0 } else { 1.0 }), "cpus")?,
        memory_mb: part.memory.as_ref().map_or(Ok(0), |written| written.memory_mb("memory"))?,
        gpus: part.gpus.unwrap_or(0),
        ..Resources::default()
    };
    let limit = part.limit.as_ref().map(|written| written.span("limit")).transpose()?;
    let job = TraceJob {
        limit,
        tasks: part.tasks,
        need,
        priority: part.priority,
        preemptible: part.preemptible,
        ..blank()
    };
    Ok(Source {
        queue: queue.to_owned(),
        user: part.user.clone().unwrap_or_else(|| NOBODY.to_owned()),
        class: part.class.clone().unwrap_or_default(),
        count: part.count,
        first: Timestamp::default() + span(&part.start, "start")?,
        gap: span(&part.every, "every")?,
        by_chance: part.arrivals == Arrivals::Poisson,
        shortest,
        longest,
        job,
    })
}
