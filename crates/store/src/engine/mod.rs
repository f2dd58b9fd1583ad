//! The verbs, written once over [`Tx`].
//!
//! A batch is one transaction: the rows that its commands name are locked in one order, the domain
//! decides on each command, dependants are settled, new jobs are taken in, and only then is work handed
//! out, so that a claim sees everything that the same batch released. Commands of one batch come from
//! callers that do not wait for one another, so that any order among them is a fair one.

mod accounts;
mod ageing;
mod artifacts;
mod attribution;
mod claim;
mod control;
mod devices;
mod gang_notes;
mod gates;
mod growth;
mod health;
mod history;
mod leadership;
mod named;
mod outlook;
mod output;
mod overview;
mod plan;
mod preview;
mod quotas;
mod ranks;
mod read;
mod removal;
mod revival;
mod roster;
mod secrets;
mod settle;
mod standings;
mod submit;
mod sweep;
mod uploads;
mod usage;
mod visible;
mod webhooks;
mod why;
mod work;
mod workers;

pub use read::read;
pub use roster::Roster;

use muster_domain::{Job, Timestamp};
pub use muster_planner::policy::{Policies, Policy, PolicyName, Pool};

use crate::applied::Applied;
use crate::command::{Answer, Command, Outcome};
use crate::error::StoreError;
use crate::faults::{self, Moment};
use crate::tx::Tx;
use work::Work;

/// The answers of a batch while it is worked on, by position.
pub(crate) struct Answers(Vec<Option<Answer>>);

impl Answers {
    fn new(commands: usize) -> Self {
        Self(vec![None; commands])
    }

    pub(crate) fn put(&mut self, position: usize, answer: Answer) {
        if let Some(place) = self.0.get_mut(position) {
            *place = Some(answer);
        }
    }

    /// Whether what was asked for is done.
    pub(crate) fn is_done(&self, position: usize) -> bool {
        matches!(self.0.get(position), Some(Some(Ok(_))))
    }

    pub(crate) fn put_if_empty(&mut self, position: usize, answer: Answer) {
        if let Some(place @ None) = self.0.get_mut(position) {
            *place = Some(answer);
        }
    }

    /// Puts a job that was changed again in place of what a report was answered with.
    fn renew(&mut self, now: &Job) {
        for answer in self.0.iter_mut().flatten().flatten() {
            if let Outcome::Reported { job, .. } = answer
                && job.id == now.id
            {
                *job = now.clone();
            }
        }
    }

    /// Every command must have been answered; one that was not is a defect of the engine, reported as
    /// an error before anything is committed.
    fn finish(self) -> Result<Vec<Answer>, StoreError> {
        self.0.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| StoreError::Failed {
            operation: "apply",
            source: "a command was left without an answer".into(),
        })
    }
}

/// Applies a batch inside `tx` and answers each command. The backend commits afterwards; unless it succeeds in
/// that, it must not use the roster again.
pub async fn apply<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    roster: &mut Roster,
    now: Timestamp,
    commands: &[Command],
) -> Result<Applied, StoreError> {
    if !leadership::concerns(commands) {
        return apply_admitted(tx, policies, roster, now, commands).await;
    }
    let admitted = leadership::admit(tx, now, commands).await?;
    let applied = match admitted.commands.as_slice() {
        [] => Applied::default(),
        commands => apply_admitted(tx, policies, roster, now, commands).await?,
    };
    Ok(admitted.complete(applied))
}

async fn apply_admitted<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    roster: &mut Roster,
    now: Timestamp,
    commands: &[Command],
) -> Result<Applied, StoreError> {
    let mut answers = Answers::new(commands.len());
    let given = commands;
    let (commands, doers) = attribution::unwrap(given);
    let commands = commands.as_slice();
    let mut work = Work::new(tx, policies, roster, now);
    work.set_doers(doers);
    settle::lock_in_order(&mut work, commands).await?;
    workers::apply(&mut work, commands, &mut answers).await?;
    named::apply(&mut work, commands, &mut answers).await?;
    control::apply(&mut work, commands, &mut answers).await?;
    sweep::apply(&mut work, commands, &mut answers).await?;
    removal::apply(&mut work, commands, &mut answers).await?;
    artifacts::apply(&mut work, commands, &mut answers).await?;
    output::apply(&mut work, commands, &mut answers).await?;
    accounts::apply(&mut work, commands, &mut answers).await?;
    settle::dependants(&mut work).await?;
    named::answer_cancels(&work, commands, &mut answers);
    health::apply(&mut work).await?;
    growth::apply(&mut work, &mut answers).await?;
    work.flush_workers().await?;
    submit::apply(&mut work, commands, &mut answers).await?;
    work.flush().await?;
    plan::apply(&mut work, commands, &mut answers).await?;
    settle::dependants(&mut work).await?;
    claim::apply(&mut work, commands, &mut answers).await?;
    work.flush().await?;
    webhooks::apply(&mut work, commands, &mut answers).await?;
    secrets::apply(&mut work, commands, &mut answers).await?;
    uploads::apply(&mut work, commands, &mut answers).await?;
    attribution::audit(&mut work, given, &answers).await?;
    history::learn(&mut work).await?;
    let usage = usage::count(&mut work).await?;
    work.append_events().await?;
    let (events, gangs, wake) = work.into_effects();
    let applied = Applied { answers: answers.finish()?, events, gangs, usage, wake };
    faults::strike(Moment::Before, &applied);
    Ok(applied)
}

/// The commands of one kind with their positions.
pub(crate) fn pick<'a, C>(
    commands: &[&'a Command],
    choose: impl Fn(&'a Command) -> Option<C>,
) -> Vec<(usize, C)> {
    commands.iter().enumerate().filter_map(|(position, command)| Some((position, choose(command)?))).collect()
}

/// Drives a verb on a backend whose primitives never wait. A future that is not ready at once would be
/// a defect of the backend; it becomes an error instead of a hang.
pub fn run_ready<O>(verb: impl Future<Output = Result<O, StoreError>>) -> Result<O, StoreError> {
    use futures::FutureExt;
    verb.now_or_never().unwrap_or_else(|| {
        Err(StoreError::Failed {
            operation: "verb",
            source: "a primitive of an embedded store waited".into(),
        })
    })
}
