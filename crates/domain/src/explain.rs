//! Reasons why a job does not run, as values. The planner and the lifecycle give them; the API, the
//! command line and the dashboard show them.

use std::fmt;

use crate::container::{self, CONTAINERS};
use crate::gang_domains::GangDomains;
use crate::gang_room::GangRoom;
use crate::ids::{GangId, JobId, QueueName, WorkerId};
use crate::kept_room::Unit;
use crate::phase::Status;
use crate::quota_room::{QuotaRoom, ShareOf};
use crate::resources::Shortfall;
use crate::suggestion::Suggestion;
use crate::time::{Span, Timestamp};
use crate::worker_class::WorkerClass;

/// All that can be said about work that waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Never empty for a job that waits.
    pub reasons: Vec<Reason>,
    /// The workers by what they have, those first that could run it.
    pub classes: Vec<WorkerClass>,
    /// Classes that are not told, and their workers.
    pub more_classes: u32,
    pub more_workers: u32,
    /// Each would let it start.
    pub suggestions: Vec<Suggestion>,
    pub start: Option<Start>,
}

impl From<Vec<Reason>> for Explanation {
    fn from(reasons: Vec<Reason>) -> Self {
        Self { reasons, ..Self::default() }
    }
}

/// When work is expected to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub at: Timestamp,
    /// Room is kept for it; without that, others may come before it.
    pub kept: bool,
    /// For some of those that run there is no time limit, only how long runs before them took.
    pub by_history: bool,
}

/// One true reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Waits for this dependency.
    Dependency { job: JobId, status: Status },
    /// Kept back until it is released.
    Held { why: String },
    /// Not to be started before this time, as was asked.
    NotBefore { until: Timestamp },
    /// Pauses before its next attempt.
    BackOff { until: Timestamp, attempt: u32 },
    /// Its queue starts nothing.
    QueuePaused { queue: QueueName },
    /// Its queue has started as many as its rate allows.
    RateLimited { queue: QueueName, until: Timestamp },
    /// Its queue may not take what it needs of one kind of resource.
    Quota(Box<QuotaRoom>),
    /// As many jobs of its queue, or of one above it, run as may.
    QueueRuns { queue: QueueName, running: u32, limit: u32 },
    /// As many jobs of its user run there as may.
    UserRuns { queue: QueueName, user: String, running: u32, limit: u32 },
    /// Work of the same priority in these queues goes first: it needs not borrow, or their share is lower.
    Share { own: ShareOf, first: Vec<ShareOf> },
    /// As many jobs of its key run as may.
    Concurrency { key: String, limit: u32, holders: Vec<JobId> },
    /// The worker that could run it gets no work because job after job failed on it.
    Quarantined { worker: WorkerId, until: Timestamp },
    /// No worker is registered and active.
    NoWorkers,
    /// No active worker carries all the tags; `missing` are those that no worker has.
    Tags { required: Vec<String>, missing: Vec<String> },
    /// More than any registered worker has in all; `closest` comes nearest.
    Impossible { closest: WorkerId, shortfalls: Vec<Shortfall> },
    /// Fits a worker, but not now; `closest` comes nearest.
    Busy { closest: WorkerId, shortfalls: Vec<Shortfall> },
    /// It would fit now, but no such worker has asked for work yet.
    NobodyAsks { fitting: u32 },
    /// A gang that the active workers could hold, but not now.
    GangRoom(Box<GangRoom>),
    /// A gang that the active workers could not hold even if nothing else ran.
    GangImpossible(Box<GangRoom>),
    /// A gang for which there is room, but not where it has to be, now.
    GangDomains(Box<GangDomains>),
    /// The same even if nothing else ran.
    GangDomainsImpossible(Box<GangDomains>),
    /// A gang for which there is room: the next pass places it.
    GangFits { tasks: u32, workers: u32 },
    /// Workers that could run it keep their room for somebody who goes first.
    Kept { unit: Unit, workers: u32, until: Option<Timestamp> },
    /// Room is kept for it.
    Foreseen { workers: u32, at: Option<Timestamp> },
    /// The round of its gang that is under way does without it.
    Spared { gang: GangId },
    /// It is placed and starts with all tasks of its gang; these, by index and worker, are not prepared yet.
    Assembling { gang: GangId, missing: Vec<(u32, WorkerId)> },
    /// Not waiting for room: it has ended well and is done when these tasks of its gang, by index, have too.
    Finished { gang: GangId, open: Vec<u32> },
    /// Jobs and gangs that go first: higher priority, or the same and older. Where queues take turns, those of its
    /// own queue.
    Ahead { jobs: u64, gangs: u64, queue: Option<QueueName> },
    /// It belongs to a pool that has a policy of its own.
    Pool { name: String, policy: String },
    /// It has had so much service that those of its priority which have had less go first.
    Level { level: u8, served: Span },
    /// It has waited for so long that it goes first among those of its priority.
    Pinned { since: Timestamp },
    /// Not waiting: it runs.
    Running { worker: Option<WorkerId>, since: Option<Timestamp> },
    /// Its worker fetches the image of its container first.
    Pulling { image: String, bytes: u64, total: u64 },
    /// Told to stop; the process may still be alive.
    Stopping { why: String },
    /// Not waiting: it ended.
    Ended { status: Status, why: Option<String> },
}

impl Reason {
    /// Stable word for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Dependency { .. } => "dependency",
            Self::Held { .. } => "held",
            Self::NotBefore { .. } => "not_before",
            Self::BackOff { .. } => "back_off",
            Self::QueuePaused { .. } => "queue_paused",
            Self::RateLimited { .. } => "rate_limited",
            Self::Quota(_) => "quota",
            Self::QueueRuns { .. } => "queue_full",
            Self::UserRuns { .. } => "user_limit",
            Self::Share { .. } => "fair_share",
            Self::Concurrency { .. } => "concurrency",
            Self::Quarantined { .. } => "quarantine",
            Self::NoWorkers => "no_workers",
            Self::Tags { .. } => "tags",
            Self::Impossible { .. } => "impossible",
            Self::Busy { .. } => "resources",
            Self::NobodyAsks { .. } => "nobody_asks",
            Self::GangRoom(_) => "gang_room",
            Self::GangImpossible(_) => "gang_impossible",
            Self::GangDomains(_) => "gang_topology",
            Self::GangDomainsImpossible(_) => "gang_topology_impossible",
            Self::GangFits { .. } => "gang_fits",
            Self::Kept { .. } => "kept",
            Self::Foreseen { .. } => "foreseen",
            Self::Spared { .. } => "spared",
            Self::Assembling { .. } => "assembling",
            Self::Finished { .. } => "finished",
            Self::Ahead { .. } => "ahead",
            Self::Pool { .. } => "pool",
            Self::Level { .. } => "level",
            Self::Pinned { .. } => "pinned",
            Self::Running { .. } => "running",
            Self::Pulling { .. } => "pulling",
            Self::Stopping { .. } => "stopping",
            Self::Ended { .. } => "ended",
        }
    }
}

impl Reason {
    /// Where it stands in the line, or that it does not wait at all.
    fn write_standing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead { jobs, gangs, queue } => write_ahead(f, *jobs, *gangs, queue.as_ref()),
            Self::Pool { name, policy } => write!(f, "it is in pool {name}, whose policy is {policy}"),
            Self::Level { level, served } => write!(
                f,
                "it has run for {} and is on level {level} of service: those of its priority on a lower level go first",
                hours(*served)
            ),
            Self::Pinned { since } => write!(
                f,
                "it waits since {} in all and is pinned: it goes first among those of its priority",
                since.to_rfc3339()
            ),
            Self::Running { worker: Some(worker), .. } => write!(f, "it is running on {worker}"),
            Self::Running { worker: None, .. } => f.write_str("it is running"),
            Self::Pulling { image, bytes, total } => {
                write!(f, "its worker pulls the image {image}")?;
                if *total == 0 { Ok(()) } else { write!(f, ": {}", megabytes(*bytes, *total)) }
            }
            Self::Stopping { why } => write!(f, "it is being stopped: {why}"),
            Self::Ended { status, why: None } => write!(f, "it ended as {status}"),
            Self::Ended { status, why: Some(why) } => write!(f, "it ended as {status}: {why}"),
            Self::Assembling { gang, missing } => {
                write!(f, "it starts when all tasks of {gang} are prepared; missing: ")?;
                let of = |(index, worker): &(u32, WorkerId)| format!("rank {index} on {worker}");
                f.write_str(&missing.iter().map(of).collect::<Vec<_>>().join(", "))
            }
            Self::Finished { gang, open } => {
                write!(
                    f,
                    "it has finished and is done when all tasks of {gang} have; still open: {}",
                    join(open, ", ")
                )
            }
            // All others are told where all reasons are.
            _ => Ok(()),
        }
    }
}

fn write_closest(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    closest: &WorkerId,
    shortfalls: &[Shortfall],
) -> fmt::Result {
    write!(f, "{what}; the closest is {closest}: {}", list(shortfalls))
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dependency { job, status } => write!(f, "waits for {job}, which is {status}"),
            Self::Held { why } => f.write_str(why),
            Self::NotBefore { until } => write!(f, "starts not before {}", until.to_rfc3339()),
            Self::BackOff { until, attempt } => {
                write!(f, "pauses after attempt {attempt} until {}", until.to_rfc3339())
            }
            Self::QueuePaused { queue } => write!(f, "its queue {queue} is paused"),
            Self::RateLimited { queue, until } => {
                write!(f, "its queue {queue} starts the next job at {}", until.to_rfc3339())
            }
            Self::Quota(room) => room.fmt(f),
            Self::QueueRuns { queue, running, limit } => runs(f, queue, "", *running, *limit),
            Self::UserRuns { queue, user, running, limit } => runs(f, queue, user, *running, *limit),
            Self::Share { own, first } => goes_first(f, own, first),
            Self::Concurrency { key, limit, holders } => {
                write!(f, "at most {limit} of {key:?} at once, and these run: {}", join(holders, ", "))
            }
            Self::Quarantined { worker, until } => write!(
                f,
                "worker {worker} is in quarantine because job after job failed on it; one job tries it at {}",
                until.to_rfc3339()
            ),
            Self::NoWorkers => f.write_str("no worker is registered and active"),
            Self::Tags { required, missing } => write_tags(f, required, missing),
            Self::Impossible { closest, shortfalls } => {
                write_closest(f, "no registered worker is large enough", closest, shortfalls)
            }
            Self::Busy { closest, shortfalls } => {
                write_closest(f, "every worker that could run it is busy", closest, shortfalls)
            }
            Self::NobodyAsks { fitting: 1 } => f.write_str("fits 1 worker, which has not asked for work yet"),
            Self::NobodyAsks { fitting } => {
                write!(f, "fits {fitting} workers, none of which has asked for work yet")
            }
            Self::Kept { unit, workers, until } => write_kept(f, *unit, *workers, *until),
            Self::Foreseen { workers, at } => {
                write!(f, "room is kept for it on {} ", count(*workers))?;
                match at {
                    Some(at) => write!(f, "and it is expected to start at {} or earlier", at.to_rfc3339()),
                    None => f.write_str("until those who are there have ended"),
                }
            }
            Self::GangRoom(room) => room.write(f, true),
            Self::GangImpossible(room) => room.write(f, false),
            Self::GangDomains(found) | Self::GangDomainsImpossible(found) => {
                found.write(f, matches!(self, Self::GangDomains(_)))
            }
            Self::Spared { gang } => {
                write!(f, "{gang} runs with fewer tasks than it may have, without this one")
            }
            Self::GangFits { tasks, workers } => write!(
                f,
                "there is room for its {tasks} tasks on {workers} workers; it starts with the next round of placement"
            ),
            Self::Ahead { .. }
            | Self::Pool { .. }
            | Self::Level { .. }
            | Self::Pinned { .. }
            | Self::Running { .. }
            | Self::Assembling { .. }
            | Self::Finished { .. }
            | Self::Pulling { .. }
            | Self::Stopping { .. }
            | Self::Ended { .. } => self.write_standing(f),
        }
    }
}

fn hours(span: Span) -> String {
    let minutes = span.as_micros() / 60_000_000;
    format!("{}h{:02}m", minutes / 60, minutes % 60)
}

fn count(workers: u32) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

fn write_ahead(f: &mut fmt::Formatter<'_>, jobs: u64, gangs: u64, queue: Option<&QueueName>) -> fmt::Result {
    let of = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        // No more are looked through.
        count if what == "gang" && count >= 1000 => Some("1000 or more gangs".to_owned()),
        count => Some(format!("{count} {what}s")),
    };
    let who: Vec<String> = [of(jobs, "job"), of(gangs, "gang")].into_iter().flatten().collect();
    let go = if jobs + gangs == 1 { "goes" } else { "go" };
    match queue {
        Some(queue) => write!(f, "{} of queue {queue} {go} first; queues take turns", who.join(" and ")),
        None => write!(f, "{} {go} first", who.join(" and ")),
    }
}

fn write_kept(f: &mut fmt::Formatter<'_>, unit: Unit, workers: u32, until: Option<Timestamp>) -> fmt::Result {
    let s = if workers == 1 { "s" } else { "" };
    write!(f, "{} that could run it keep{s} the room for {unit}, which goes first", count(workers))?;
    match until {
        Some(until) => {
            write!(f, "; until {} a job may pass whose time limit ends before that", until.to_rfc3339())
        }
        None => Ok(()),
    }
}

fn runs(f: &mut fmt::Formatter<'_>, queue: &QueueName, user: &str, running: u32, limit: u32) -> fmt::Result {
    if user.is_empty() {
        return write!(f, "{running} jobs of queue {queue} run, at most {limit} may");
    }
    write!(f, "{running} jobs of user {user} run in queue {queue}, at most {limit} may")
}

/// How far a pull is.
fn megabytes(bytes: u64, total: u64) -> String {
    // Small ones would all be 0 of 0.
    if total >= 10_000_000 {
        return format!("{} of {} MB", bytes / 1_000_000, total / 1_000_000);
    }
    format!("{:.1} of {:.1} MB", bytes as f64 / 1e6, total as f64 / 1e6)
}

fn goes_first(f: &mut fmt::Formatter<'_>, own: &ShareOf, first: &[ShareOf]) -> fmt::Result {
    let first = join(first, ", ");
    write!(f, "work of the same priority in these queues goes first: {first} before {own}")
}

fn write_tags(f: &mut fmt::Formatter<'_>, required: &[String], missing: &[String]) -> fmt::Result {
    let ordinary = |tags: &[String]| {
        tags.iter().filter(|tag| !container::is_reserved(tag)).cloned().collect::<Vec<_>>().join(", ")
    };
    if missing.iter().any(|tag| tag == CONTAINERS) {
        return f.write_str("no active worker runs containers, and the job names an image");
    }
    let who =
        if required.iter().any(|tag| tag == CONTAINERS) { "worker that runs containers" } else { "worker" };
    if missing.is_empty() {
        return write!(f, "no active {who} carries all of the tags {}", ordinary(required));
    }
    write!(f, "no active {who} carries the tag {}", missing.join(", "))
}

fn list(shortfalls: &[Shortfall]) -> String {
    join(shortfalls, "; ")
}

fn join(things: &[impl fmt::Display], between: &str) -> String {
    things.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}
