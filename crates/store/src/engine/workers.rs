//! Workers: registration and signs of life.

use std::collections::BTreeSet;

use muster_domain::{Event, EventKind, Rejection, Span, Worker, WorkerId, WorkerStatus};

use super::Answers;
use super::work::Work;
use crate::command::{Command, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;

/// A claim counts as a sign of life, but it is written down only when the last one is older than this.
const QUIET: Span = Span::from_secs(5);

/// Applies registrations and heartbeats, and notes the claims of registered workers.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let ids: BTreeSet<WorkerId> =
        commands.iter().filter_map(|command| named_worker(command)).cloned().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<WorkerId> = ids.into_iter().collect();
    work.lock_workers(&ids).await?;
    let (mut known, mut changed) = work.take_workers();
    for (position, command) in commands.iter().enumerate() {
        work.on_behalf_of(position);
        match command {
            Command::RegisterWorker(worker) => {
                let registered = register(work, worker, known.get(&worker.id));
                answers.put(position, Ok(Outcome::Registered(registered.clone())));
                changed.insert(registered.id.clone());
                known.insert(registered.id.clone(), registered);
            }
            Command::WorkerHeartbeat { worker, ports } => match known.get_mut(worker) {
                Some(found) => {
                    found.heard(work.now);
                    if let Some(ports) = ports {
                        found.keeps_ports(ports);
                    }
                    changed.insert(worker.clone());
                    answers.put(position, Ok(Outcome::WorkerSeen));
                }
                None => answers.put(position, Err(Rejection::WorkerNotFound { id: worker.clone() })),
            },
            Command::ReleaseWorker { worker } => match known.get_mut(worker) {
                Some(found) => {
                    release(work, found);
                    changed.insert(worker.clone());
                    answers.put(position, Ok(Outcome::Worker(found.clone())));
                }
                None => answers.put(position, Err(Rejection::WorkerNotFound { id: worker.clone() })),
            },
            Command::Introduce { worker } => {
                if !known.contains_key(worker) {
                    let assumed = register(work, &Worker::assumed(worker.clone(), work.now), None);
                    changed.insert(worker.clone());
                    known.insert(worker.clone(), assumed);
                }
                answers.put(position, Ok(Outcome::WorkerSeen));
            }
            Command::Claim(ask) => {
                let asking = ask.worker.as_ref().and_then(|id| known.get_mut(id));
                let now = work.now;
                let quiet =
                    |worker: &Worker| worker.status == WorkerStatus::Offline || worker.is_stale(now, QUIET);
                if let Some(found) = asking.filter(|worker| quiet(worker)) {
                    found.heard(now);
                    changed.insert(found.id.clone());
                }
            }
            _ => {}
        }
    }
    work.put_back_workers(known, changed);
    Ok(())
}

fn release<T: Tx>(work: &mut Work<'_, T>, found: &mut Worker) {
    found.health.streak.clear();
    if found.health.quarantine.take().is_some() {
        let kind = EventKind::WorkerReleased { reason: "by hand".to_owned() };
        work.note(Event::of_worker(found.id.clone(), work.now, kind));
    }
}

fn named_worker(command: &Command) -> Option<&WorkerId> {
    match command {
        Command::RegisterWorker(worker) => Some(&worker.id),
        Command::WorkerHeartbeat { worker, .. }
        | Command::ReleaseWorker { worker }
        | Command::Introduce { worker } => Some(worker),
        Command::Claim(ask) => ask.worker.as_ref(),
        _ => None,
    }
}

fn register<T: Tx>(work: &mut Work<'_, T>, worker: &Worker, earlier: Option<&Worker>) -> Worker {
    let fresh = Worker {
        status: WorkerStatus::Active,
        last_heartbeat: work.now,
        registered_at: work.now,
        ..worker.clone()
    };
    let registered = match earlier {
        Some(earlier) => fresh.re_registered(earlier),
        None => fresh,
    };
    work.note(Event::of_worker(registered.id.clone(), work.now, EventKind::WorkerRegistered));
    registered
}
