//! Messages between the parts of a cluster, and what a network does to them.

use muster_domain::{GangId, JobId, ReportKind, Span, Timestamp};
use muster_store::Command;

use crate::random::Random;

/// Messages that arrive within the same slice of time share a transaction, as they do in the server.
const SLICE_MICROS: i64 = 50_000;

/// Who sent a message, and so gets the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Worker(usize),
    Scheduler(usize),
    Operator,
}

/// A message to the store.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) from: Sender,
    pub(crate) command: Command,
    /// It takes effect, but its sender never learns so.
    pub(crate) answer_lost: bool,
}

/// How often a network does what; out of a thousand messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Network {
    pub lost: u32,
    pub answers_lost: u32,
    pub doubled: u32,
    /// Arrive up to a minute late.
    pub late: u32,
}

impl Network {
    /// When and how a message arrives: not at all, once or twice.
    pub(crate) fn carry(
        self,
        letter: Letter,
        now: Timestamp,
        random: &mut Random,
    ) -> Vec<(Timestamp, Letter)> {
        if letter.from == Sender::Operator || matches!(letter.from, Sender::Scheduler(_)) {
            return vec![(arrival(now, Span::ZERO), letter)];
        }
        if random.chance(self.lost) {
            return Vec::new();
        }
        let mut arrivals = Vec::new();
        let copies = if random.chance(self.doubled) && may_repeat(&letter.command) { 2 } else { 1 };
        for _ in 0..copies {
            let late = random.chance(self.late) && !in_order(&letter.command);
            let takes = if late { random.millis(100, 60_000) } else { random.millis(0, 20) };
            let answer_lost = random.chance(self.answers_lost);
            arrivals.push((arrival(now, takes), Letter { answer_lost, ..letter.clone() }));
        }
        arrivals
    }
}

fn arrival(now: Timestamp, takes: Span) -> Timestamp {
    let micros = (now + takes).as_micros();
    Timestamp::from_micros((micros / SLICE_MICROS + 1) * SLICE_MICROS)
}

/// A second claim is a second wish, not an echo of the first.
const fn may_repeat(command: &Command) -> bool {
    !matches!(command, Command::Claim(_) | Command::Submit(_))
}

/// A worker says one after the other what it has: the next only once this was answered or given up.
const fn in_order(command: &Command) -> bool {
    matches!(command, Command::RegisterWorker(_) | Command::WorkerHeartbeat { .. })
}

/// Who may be blamed for what a message does to a gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Touches one job and stops nothing.
    Plain,
    Claim,
    /// Stops the job, and its gang with it.
    Stops(JobId),
    /// Looks at everything.
    Pass,
}

pub(crate) const fn kind(command: &Command) -> Kind {
    match command {
        Command::Report(report) => match report.kind {
            ReportKind::Failed
            | ReportKind::TimedOut
            | ReportKind::OutOfMemory
            | ReportKind::Released
            | ReportKind::Lost
            | ReportKind::Refused => Kind::Stops(report.job),
            ReportKind::Done | ReportKind::Preempted | ReportKind::Finished => Kind::Plain,
        },
        Command::Cancel { job, .. } | Command::Preempt { job, .. } => Kind::Stops(*job),
        Command::Sweep(_) | Command::Plan(_) => Kind::Pass,
        Command::Claim(_) => Kind::Claim,
        _ => Kind::Plain,
    }
}

/// Splits what arrived at one time into transactions in which it is clear who stopped a gang.
pub(crate) fn batches(letters: Vec<Letter>, gang: impl Fn(JobId) -> Option<GangId>) -> Vec<Vec<Letter>> {
    let mut batches: Vec<Vec<Letter>> = Vec::new();
    let (mut stops, mut pass, mut claim): (Vec<(JobId, Option<GangId>)>, bool, bool) =
        (Vec::new(), false, false);
    for letter in letters {
        let kind = kind(&letter.command);
        let clash = match kind {
            Kind::Plain => false,
            Kind::Claim => pass,
            Kind::Stops(job) => {
                let same =
                    |(other, of): &(JobId, Option<GangId>)| *other != job && of.is_some() && *of == gang(job);
                pass || stops.iter().any(same)
            }
            Kind::Pass => claim || !stops.is_empty(),
        };
        if clash || batches.is_empty() {
            batches.push(Vec::new());
            (stops, pass, claim) = (Vec::new(), false, false);
        }
        match kind {
            Kind::Plain => {}
            Kind::Claim => claim = true,
            Kind::Stops(job) => stops.push((job, gang(job))),
            Kind::Pass => pass = true,
        }
        if let Some(batch) = batches.last_mut() {
            batch.push(letter);
        }
    }
    batches
}
