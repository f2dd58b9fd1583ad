//! Who leads, as the transactions tell it: a pass counts only under the newest term of its role.

use std::collections::BTreeMap;

use muster_domain::{LeaderTerm, Rejection, Role};
use muster_store::{Answer, Command, Outcome, WebhookCommand};

/// The newest term of each role.
#[derive(Debug, Default)]
pub(crate) struct Leaders {
    terms: BTreeMap<Role, u64>,
    /// Passes that came too late and were refused.
    pub(crate) refused: u64,
}

impl Leaders {
    /// Looks at one transaction: terms only grow, and no pass under an old one took effect.
    pub(crate) fn follow(&mut self, commands: &[Command], answers: &[Answer]) -> Result<(), String> {
        for answer in answers {
            let Ok(Outcome::Leads(terms)) = answer else { continue };
            for LeaderTerm { role, term } in terms {
                let newest = self.terms.entry(*role).or_default();
                if term < newest {
                    return Err(format!("the {} is led in term {term} after {newest}", role.name()));
                }
                *newest = *term;
            }
        }
        for (command, answer) in commands.iter().zip(answers) {
            let Command::Led { leader, .. } = command else { continue };
            if matches!(answer, Err(Rejection::LeadershipLost { .. })) {
                self.refused += 1;
            } else if self.terms.get(&leader.role) != Some(&leader.term) {
                let newest = self.terms.get(&leader.role);
                return Err(format!("a pass under {leader:?} took effect although {newest:?} is the newest"));
            }
        }
        Ok(())
    }
}

/// Whether this is for a leader to do, and says nothing of the term under which it is done.
pub(crate) fn is_unled(command: &Command) -> bool {
    matches!(
        command,
        Command::Sweep(_)
            | Command::Plan(_)
            | Command::Rank { .. }
            | Command::Remove(_)
            | Command::Webhook(WebhookCommand::Deliver(_))
    )
}
