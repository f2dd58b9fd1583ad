//! Everything that is measured, with its name, its unit and what is to be reached.

use serde::Serialize;

use crate::settings::{StoreKind, Workload};

/// One measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    BatchRate,
    BatchShare,
    SingleRate,
    SingleShare,
    LatencyMedian,
    LatencyTail,
    SubmitRate,
    SubmitMemory,
    Chain,
    Fan,
    IdleProcessor,
    IdleSchedulerMemory,
    IdleMemory,
    StartUp,
    NoopRate,
    Tokens(Load, Gauge),
    LogLines,
    LogControlMedian,
    LogControlMedianRatio,
    LogControlTail,
    LogControlTailRatio,
    ArtifactRate,
    ArtifactShare,
    ArtifactMemory,
    ContainerStart,
    ContainerPlain,
    ContainerRatio,
    HistoryFill,
    History(Beside, Form),
    HistoryRemoval,
    HistoryRemovalTail,
    HistoryRemovalTailRatio,
    ArraySubmit,
    ArrayShow,
    ArrayList,
    ArrayCancel,
    ReadSubmits,
    Reading(Read, Share, Form),
    EngineSubmit,
    EngineDone,
    /// Jobs a second that are handed out while the cluster is filled.
    PlanningRate(Scale),
    /// Resident memory of the process that holds the store, with its own list of what runs.
    PlanningMemory(Scale),
    Planning(Scale, Act, Share),
    Gang(Gang),
    Cost(Workload, Part),
    SpawnLimit,
    HttpLimit,
    SqliteSingle,
    SqliteGrouped,
    PostgresSingle,
    PostgresEight,
    PostgresGrouped,
    HyperQueue,
    HyperQueueShare,
    Slurm,
}

/// What is done beside many finished jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Beside {
    Submit,
    Done,
    Page,
    Waiting,
    Failed,
    Queues,
}

/// What is done with tokens and without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// Jobs that do nothing, from submit to done.
    Noop,
    /// One request for each job, from eight connections, no worker.
    Submit,
}

/// What tokens change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Gauge {
    /// With tokens.
    Rate,
    /// With tokens against without.
    RateRatio,
    /// Processor time of the scheduler, with tokens against without.
    ProcessorRatio,
}

impl Gauge {
    fn label(self, load: Load) -> &'static str {
        match (self, load) {
            (Self::Rate, Load::Noop) => "no-op jobs with tokens, submit to done",
            (Self::Rate, Load::Submit) => "submits with tokens, one request a job",
            (Self::RateRatio, _) => "  against the same without",
            (Self::ProcessorRatio, _) => "  processor time of the scheduler against without",
        }
    }
}

/// What is read while jobs are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Read {
    Job,
    Page,
    Queues,
}

/// Which of many delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Share {
    Median,
    Tail,
}

impl Share {
    pub(crate) fn of_all(self) -> f64 {
        match self {
            Self::Median => 0.5,
            Self::Tail => 0.99,
        }
    }
}

/// The number itself, or its ratio to the same in easier circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    Measured,
    Ratio,
}

impl Beside {
    fn label(self) -> &'static str {
        match self {
            Self::Submit => "  submits, batches of 1,000",
            Self::Done => "  no-op jobs, claimed and done",
            Self::Page => "  GET /jobs?limit=50, p50",
            Self::Waiting => "  GET /jobs?status=pending&limit=50 (none), p50",
            Self::Failed => "  GET /jobs?status=failed&limit=50 (none), p50",
            Self::Queues => "  GET /queues, p50",
        }
    }
}

impl Read {
    fn label(self, share: Share) -> &'static str {
        match (self, share) {
            (Self::Job, Share::Median) => "  GET /jobs/{id}, p50",
            (Self::Job, Share::Tail) => "  GET /jobs/{id}, p99",
            (Self::Page, Share::Median) => "  GET /jobs?limit=50, p50",
            (Self::Page, Share::Tail) => "  GET /jobs?limit=50, p99",
            (Self::Queues, Share::Median) => "  GET /queues, p50",
            (Self::Queues, Share::Tail) => "  GET /queues, p99",
        }
    }
}

/// How large the cluster is, and how long its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    Small,
    Middle,
    Large,
}

impl Scale {
    pub(crate) const ALL: [Self; 3] = [Self::Small, Self::Middle, Self::Large];

    /// Workers, and jobs that wait.
    pub(crate) const fn size(self) -> (usize, usize) {
        match self {
            Self::Small => (100, 10_000),
            Self::Middle => (1_000, 100_000),
            Self::Large => (10_000, 1_000_000),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Small => "100 workers, 10,000 queued: jobs handed out",
            Self::Middle => "1,000 workers, 100,000 queued: jobs handed out",
            Self::Large => "10,000 workers, 1,000,000 queued: jobs handed out",
        }
    }
}

/// What is planned after one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// A job ends and its worker asks for the next one.
    EndAndClaim,
    /// A job is submitted and a full worker asks.
    Submit,
    /// A job has ended: a pass over the gangs that wait.
    Gangs,
    /// The same, with a look ahead for what does not fit.
    Look,
}

impl Act {
    pub(crate) const ALL: [Self; 4] = [Self::EndAndClaim, Self::Submit, Self::Gangs, Self::Look];

    fn label(self, share: Share) -> &'static str {
        match (self, share) {
            (Self::EndAndClaim, Share::Median) => "  a job ends, its worker gets the next, p50",
            (Self::EndAndClaim, Share::Tail) => "  a job ends, its worker gets the next, p99",
            (Self::Submit, Share::Median) => "  a submit, and a full worker asks, p50",
            (Self::Submit, Share::Tail) => "  a submit, and a full worker asks, p99",
            (Self::Gangs, Share::Median) => "  pass over the gangs that wait, p50",
            (Self::Gangs, Share::Tail) => "  pass over the gangs that wait, p99",
            (Self::Look, Share::Median) => "  pass that looks ahead, p50",
            (Self::Look, Share::Tail) => "  pass that looks ahead, p99",
        }
    }
}

/// What is measured about gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Gang {
    /// From the end of a job that had the last slot to the start of the last rank.
    Start(Ranks, Portion, Share),
    /// From the exit of a rank that failed until all ranks run again.
    Again(Share),
}

/// How large a gang is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ranks {
    Eight,
    SixtyFour,
}

/// Which part of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Portion {
    Whole,
    /// What a bare loop needs to start as many processes.
    Spawn,
    /// The whole without what the bare loop needs.
    Besides,
}

impl Gang {
    fn label(self) -> &'static str {
        match self {
            Self::Start(Ranks::Eight, Portion::Whole, Share::Median) => {
                "gang of 8 on 8 workers: room to last rank's start, p50"
            }
            Self::Start(Ranks::Eight, Portion::Whole, Share::Tail) => {
                "gang of 8 on 8 workers: room to last rank's start, p99"
            }
            Self::Start(Ranks::SixtyFour, Portion::Whole, Share::Median) => {
                "gang of 64 on 8 workers of 8 slots: the same, p50"
            }
            Self::Start(Ranks::SixtyFour, Portion::Whole, Share::Tail) => {
                "gang of 64 on 8 workers of 8 slots: the same, p99"
            }
            Self::Start(_, Portion::Spawn, Share::Median) => "  bare loop that starts as many, p50",
            Self::Start(_, Portion::Spawn, Share::Tail) => "  bare loop that starts as many, p99",
            Self::Start(_, Portion::Besides, Share::Median) => "  besides the spawn itself, p50",
            Self::Start(_, Portion::Besides, Share::Tail) => "  besides the spawn itself, p99",
            Self::Again(Share::Median) => "gang of 8: a rank's exit 1 to all running again, p50",
            Self::Again(Share::Tail) => "gang of 8: a rank's exit 1 to all running again, p99",
        }
    }
}

/// A part of the system whose processor time is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Scheduler,
    /// Agent and keeper, without the processes of the jobs.
    Worker,
    Database,
}

impl Part {
    fn label(self) -> &'static str {
        match self {
            Self::Scheduler => "  processor time a job, scheduler",
            Self::Worker => "  processor time a job, worker",
            Self::Database => "  processor time a job, database server",
        }
    }
}

/// What a number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Ratio,
    Seconds,
    Milliseconds,
    Bytes,
    Mebibytes,
    PercentOfCore,
    Microseconds,
}

/// What is to be reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    Below(f64),
}

impl Target {
    pub(crate) fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::Below(bound) => value < bound,
        }
    }
}

impl Metric {
    /// The letter of the workload, or the group of the limit, and the name.
    pub(crate) fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::BatchRate => ("a", "exec /bin/true, one batch"),
            Self::BatchShare => ("a", "  share of the bare spawn loop"),
            Self::SingleRate => ("b", "exec /bin/true, one request a job"),
            Self::SingleShare => ("b", "  share of the bare spawn loop"),
            Self::LatencyMedian => ("c", "submit to process start, p50"),
            Self::LatencyTail => ("c", "submit to process start, p99"),
            Self::SubmitRate => ("d", "submit only, batches of 1,000"),
            Self::SubmitMemory => ("d", "  scheduler memory per queued job"),
            Self::Chain => ("e", "chain of jobs"),
            Self::Fan => ("e", "fan out and in"),
            Self::IdleProcessor => ("f", "idle, scheduler and worker"),
            Self::IdleSchedulerMemory => ("f", "  memory, scheduler alone"),
            Self::IdleMemory => ("f", "  memory, scheduler and worker"),
            Self::StartUp => ("f", "start of the scheduler until ready"),
            Self::NoopRate => ("g", "no-op jobs, submit to done"),
            Self::Tokens(load, gauge) => ("k", gauge.label(load)),
            Self::LogLines => ("l", "lines of output from 32 jobs, all kept"),
            Self::LogControlMedian => ("l", "  submit, read or cancel beside it, p50"),
            Self::LogControlMedianRatio => ("l", "    p50 against the same without output"),
            Self::LogControlTail => ("l", "  submit, read or cancel beside it, p99"),
            Self::LogControlTailRatio => ("l", "    p99 against the same without output"),
            Self::ArtifactRate => ("v", "artifact to S3 and back, MiB"),
            Self::ArtifactShare => ("v", "  share of a plain copy"),
            Self::ArtifactMemory => ("v", "  most memory that a process grew by"),
            Self::ContainerStart => ("w", "container of `true`, submit to done, p50"),
            Self::ContainerPlain => ("w", "  docker run of the same in turn, p50"),
            Self::ContainerRatio => ("w", "  ratio of both"),
            Self::HistoryFill => ("h", "finished jobs put into the store, directly"),
            Self::History(beside, Form::Measured) => ("h", beside.label()),
            Self::History(_, Form::Ratio) => ("h", "    against the same on an empty store"),
            Self::HistoryRemoval => ("h", "  finished jobs removed by retention"),
            Self::HistoryRemovalTail => ("h", "  submit, read or cancel beside it, p99"),
            Self::HistoryRemovalTailRatio => ("h", "    against the same before it"),
            Self::ArraySubmit => ("m", "array: submitted in one request"),
            Self::ArrayShow => ("m", "  GET /arrays/{id}, p50"),
            Self::ArrayList => ("m", "  first 100 of its jobs, p50"),
            Self::ArrayCancel => ("m", "  all of it cancelled"),
            Self::ReadSubmits => ("r", "jobs submitted by 4 clients meanwhile"),
            Self::Reading(read, share, Form::Measured) => ("r", read.label(share)),
            Self::Reading(_, _, Form::Ratio) => ("r", "    against the same on an idle scheduler"),
            Self::EngineSubmit => ("s", "store alone: submit, 1,000 a transaction"),
            Self::EngineDone => ("s", "store alone: claim and report, 128 a transaction"),
            Self::PlanningRate(scale) => ("p", scale.label()),
            Self::PlanningMemory(_) => ("p", "  resident memory of the process that plans"),
            Self::Planning(_, act, share) => ("p", act.label(share)),
            Self::Gang(gang) => ("t", gang.label()),
            Self::Cost(workload, part) => (workload.letter(), part.label()),
            Self::SpawnLimit => ("limit", "bare spawn loop, /bin/true"),
            Self::HttpLimit => ("limit", "bare axum handler, 8 connections"),
            Self::SqliteSingle => ("limit", "SQLite rows, 1 a transaction"),
            Self::SqliteGrouped => ("limit", "SQLite rows, 500 a transaction"),
            Self::PostgresSingle => ("limit", "PostgreSQL rows, 1 a transaction"),
            Self::PostgresEight => ("limit", "  the same from 8 clients"),
            Self::PostgresGrouped => ("limit", "PostgreSQL rows, 500 a transaction"),
            Self::HyperQueue => ("peer", "HyperQueue, array of /bin/true"),
            Self::HyperQueueShare => ("peer", "  share of the bare spawn loop"),
            Self::Slurm => ("peer", "Slurm, array of 60 /bin/true"),
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::BatchShare
            | Self::SingleShare
            | Self::ArtifactShare
            | Self::ContainerRatio
            | Self::HyperQueueShare
            | Self::LogControlMedianRatio
            | Self::LogControlTailRatio
            | Self::Tokens(_, Gauge::RateRatio | Gauge::ProcessorRatio)
            | Self::History(_, Form::Ratio)
            | Self::HistoryRemovalTailRatio
            | Self::Reading(_, _, Form::Ratio) => Unit::Ratio,
            Self::LatencyMedian
            | Self::LatencyTail
            | Self::StartUp
            | Self::ContainerStart
            | Self::ContainerPlain
            | Self::LogControlMedian
            | Self::LogControlTail
            | Self::History(
                Beside::Page | Beside::Waiting | Beside::Failed | Beside::Queues,
                Form::Measured,
            )
            | Self::HistoryRemovalTail
            | Self::ArrayShow
            | Self::ArrayList
            | Self::Reading(_, _, Form::Measured)
            | Self::Planning(..)
            | Self::Gang(_) => Unit::Milliseconds,
            Self::SubmitMemory => Unit::Bytes,
            Self::Chain | Self::Fan | Self::ArraySubmit | Self::ArrayCancel => Unit::Seconds,
            Self::IdleProcessor => Unit::PercentOfCore,
            Self::Cost(..) => Unit::Microseconds,
            Self::IdleSchedulerMemory | Self::IdleMemory | Self::ArtifactMemory | Self::PlanningMemory(_) => {
                Unit::Mebibytes
            }
            Self::BatchRate
            | Self::SingleRate
            | Self::SubmitRate
            | Self::NoopRate
            | Self::ArtifactRate
            | Self::LogLines
            | Self::Tokens(_, Gauge::Rate)
            | Self::HistoryFill
            | Self::History(Beside::Submit | Beside::Done, Form::Measured)
            | Self::HistoryRemoval
            | Self::ReadSubmits
            | Self::EngineSubmit
            | Self::EngineDone
            | Self::PlanningRate(_)
            | Self::SpawnLimit
            | Self::HttpLimit
            | Self::SqliteSingle
            | Self::SqliteGrouped
            | Self::PostgresSingle
            | Self::PostgresEight
            | Self::PostgresGrouped
            | Self::HyperQueue
            | Self::Slurm => Unit::PerSecond,
        }
    }

    /// What is to be reached on a store; a store or a metric without a promise has none.
    pub(crate) fn target(self, store: StoreKind) -> Option<Target> {
        match self {
            Self::Tokens(Load::Noop, Gauge::RateRatio) => return Some(Target::AtLeast(0.97)),
            Self::Tokens(Load::Submit, Gauge::RateRatio) => return Some(Target::AtLeast(0.95)),
            _ => {}
        }
        match store {
            StoreKind::Sqlite => self.target_on_sqlite(),
            StoreKind::Postgres => match self {
                Self::BatchShare => Some(Target::AtLeast(0.4)),
                Self::NoopRate => Some(Target::AtLeast(15_000.0)),
                Self::Planning(Scale::Large, _, _) => Some(Target::Below(100.0)),
                _ => None,
            },
            StoreKind::Memory => None,
        }
    }

    fn target_on_sqlite(self) -> Option<Target> {
        match self {
            Self::BatchShare | Self::SingleShare => Some(Target::AtLeast(0.6)),
            Self::LatencyMedian => Some(Target::Below(5.0)),
            Self::LatencyTail => Some(Target::Below(20.0)),
            Self::SubmitRate => Some(Target::AtLeast(50_000.0)),
            Self::SubmitMemory => Some(Target::Below(1024.0)),
            Self::IdleProcessor => Some(Target::Below(1.0)),
            Self::IdleMemory | Self::ArtifactMemory => Some(Target::Below(64.0)),
            Self::StartUp => Some(Target::Below(300.0)),
            Self::ArtifactShare => Some(Target::AtLeast(0.7)),
            Self::ContainerRatio => Some(Target::Below(1.3)),
            _ => None,
        }
    }
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::PerSecond if value < 10.0 => format!("{value:.1} /s"),
            Self::PerSecond => format!("{} /s", grouped(value)),
            Self::Ratio => format!("{value:.3}"),
            Self::Seconds => format!("{value:.2} s"),
            Self::Milliseconds => format!("{value:.1} ms"),
            Self::Bytes => format!("{} B", grouped(value)),
            Self::Mebibytes => format!("{value:.1} MiB"),
            Self::PercentOfCore => format!("{value:.2} %"),
            Self::Microseconds => format!("{value:.0} us"),
        }
    }
}

/// A whole number with a comma at every thousand.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(Unit::PerSecond.show(1_234_567.4), "1,234,567 /s");
        assert_eq!(Unit::PerSecond.show(2.04), "2.0 /s");
        assert_eq!(Unit::Bytes.show(-1_000.0), "-1,000 B");
        assert_eq!(Unit::PerSecond.show(999.0), "999 /s");
    }

    #[test]
    fn a_bound_from_above_is_strict_and_one_from_below_is_not() {
        assert!(Target::AtLeast(0.6).is_met(0.6));
        assert!(!Target::Below(5.0).is_met(5.0));
        assert_eq!(Metric::BatchShare.target(StoreKind::Postgres), Some(Target::AtLeast(0.4)));
        assert_eq!(Metric::BatchShare.target(StoreKind::Memory), None);
    }
}
