//! Moments at which a test can make the process end at once, as a crash would.
//!
//! Guarantee: a release build has none of them. A debug build ends only when `MUSTER_FAULT` names the moment:
//! what happens (`plan`, `lapse`, `prepared`, `go`, `drain`, `verdict`, `claim`, `checkpoint`, `moved`), a dot, and `before` or `after` its
//! commit.

use muster_domain::EventKind;

use crate::applied::{Applied, GangStep};
use crate::command::Outcome;
use crate::output::Moved;

/// Where a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// All is decided and written; nothing is committed.
    Before,
    /// Committed; nobody was told.
    After,
}

/// Ends the process if this is the moment that `MUSTER_FAULT` names.
pub fn strike(moment: Moment, applied: &Applied) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Ok(wanted) = std::env::var("MUSTER_FAULT") else { return };
    let Some((wanted, when)) = wanted.split_once('.') else { return };
    let now = match moment {
        Moment::Before => "before",
        Moment::After => "after",
    };
    if now == when && happenings(applied).any(|name| name == wanted) {
        std::process::abort();
    }
}

/// What a batch does, in the words of the variable.
fn happenings(applied: &Applied) -> impl Iterator<Item = &'static str> {
    let steps = applied.gangs.iter().filter_map(|note| match note.step {
        GangStep::Placed { .. } => Some("plan"),
        GangStep::Lapsed { .. } => Some("lapse"),
        GangStep::DrainStarted { .. } => Some("drain"),
        GangStep::Completed { .. } => Some("verdict"),
        GangStep::Forced { .. } => None,
    });
    let answers = applied.answers.iter().filter_map(|answer| match answer {
        Ok(Outcome::Claimed(jobs)) if !jobs.is_empty() => Some("claim"),
        Ok(Outcome::CheckpointSaved { .. }) => Some("checkpoint"),
        Ok(Outcome::OutputMoved(became)) if became.iter().any(|one| matches!(one, Moved::Kept { .. })) => {
            Some("moved")
        }
        _ => None,
    });
    let events = applied.events.iter().filter_map(|event| match event.kind {
        EventKind::Prepared { .. } => Some("prepared"),
        EventKind::Started { .. } => Some("go"),
        _ => None,
    });
    steps.chain(answers).chain(events)
}

#[cfg(test)]
mod tests {
    use muster_domain::GangId;

    use super::*;
    use crate::applied::GangNote;

    #[test]
    fn a_batch_is_named_by_what_it_does() {
        let placed = GangStep::Placed { size: 2, round: 1 };
        let note = GangNote { gang: GangId::from_random([1; 16]), epoch: 0, step: placed };
        let applied = Applied { answers: vec![Ok(Outcome::Claimed(Vec::new()))], ..Applied::default() };
        assert_eq!(happenings(&applied).count(), 0);
        let applied = Applied { gangs: vec![note], ..applied };
        assert_eq!(happenings(&applied).collect::<Vec<_>>(), ["plan"]);
    }
}
