//! Who caused what: whose name the events of a command carry, and which commands leave a line in the audit log.
//!
//! Guarantee: an event that follows from no command of the batch, such as the end of a dependency, is the scheduler's.

use muster_domain::{By, Deed, TerminalKind};

use super::Answers;
use super::accounts;
use super::work::Work;
use crate::command::Command;
use crate::error::StoreError;
use crate::records::AuditLine;
use crate::secrets::SecretCommand;
use crate::tx::Tx;
use crate::webhooks::WebhookCommand;

/// Who is behind a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doer {
    /// Somebody by name; `None` when it is not known.
    Known(Option<By>),
    /// The worker that holds the job.
    Holder,
}

impl Doer {
    fn of(command: &Command) -> Self {
        match command {
            Command::Attributed(attributed) => Self::Known(Some(attributed.by.clone())),
            Command::Report(_)
            | Command::Heartbeat { .. }
            | Command::Prepared { .. }
            | Command::AcknowledgeStop { .. }
            | Command::NoteImage { .. }
            | Command::KeepArtifacts(_)
            | Command::SaveCheckpoint { .. } => Self::Holder,
            Command::Account(command) => Self::Known(By::parse(&command.by.name)),
            Command::Sweep(_)
            | Command::Plan(_)
            | Command::Remove(_)
            | Command::MoveOutput(_)
            | Command::ExpireOutput(_)
            | Command::ExpireArtifacts(_) => Self::Known(Some(By::Scheduler)),
            _ => Self::Known(None),
        }
    }
}

/// The commands without the names of those who sent them, and who is behind each.
pub(super) fn unwrap(commands: &[Command]) -> (Vec<&Command>, Vec<Doer>) {
    commands.iter().map(|command| (command.bare(), Doer::of(command))).unzip()
}

/// Writes a line for each command that is to leave one and was done.
pub(super) async fn audit<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[Command],
    answers: &Answers,
) -> Result<(), StoreError> {
    let mut lines = Vec::new();
    for (position, command) in commands.iter().enumerate() {
        let Command::Attributed(attributed) = command else { continue };
        if let Some(actor) = &attributed.actor
            && answers.is_done(position)
            && let Some((action, object)) = deed(&attributed.command)
        {
            let deed = Deed { by: actor.clone(), action: action.to_owned(), object };
            lines.push(AuditLine { seq: 0, at: work.now, facts: accounts::to_json(&deed)? });
        }
    }
    if lines.is_empty() { Ok(()) } else { work.tx.append_audit(&lines).await }
}

/// What a command does, for the audit log, and to what.
fn deed(command: &Command) -> Option<(&'static str, Option<String>)> {
    Some(match command {
        Command::PutQueue(settings) => ("queue.set", Some(settings.name.to_string())),
        Command::RemoveQueue { name } => ("queue.remove", Some(name.to_string())),
        Command::ReleaseWorker { worker } => ("worker.release", Some(worker.to_string())),
        Command::Webhook(command) => match command {
            WebhookCommand::Create(webhook) => ("webhook.create", Some(webhook.id.to_string())),
            WebhookCommand::Pause { id, paused: true } => ("webhook.pause", Some(id.to_string())),
            WebhookCommand::Pause { id, paused: false } => ("webhook.resume", Some(id.to_string())),
            WebhookCommand::Delete { id } => ("webhook.remove", Some(id.to_string())),
            WebhookCommand::Retry(choice) => ("dead_letters.retry", choice.hook.map(|id| id.to_string())),
            WebhookCommand::Forget(choice) => ("dead_letters.remove", choice.hook.map(|id| id.to_string())),
            WebhookCommand::Deliver(_) => return None,
        },
        Command::NoteTerminal { job, kind: TerminalKind::Exec } => ("job.exec", Some(job.to_string())),
        Command::NoteTerminal { job, kind: TerminalKind::Attach } => ("job.attach", Some(job.to_string())),
        Command::Secrets(SecretCommand::Put(secret)) => ("secret.set", Some(secret.name.clone())),
        Command::Secrets(SecretCommand::Delete { name }) => ("secret.remove", Some(name.clone())),
        _ => return None,
    })
}
