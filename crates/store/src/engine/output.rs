//! Output that moves out of the files of schedulers.
//!
//! Guarantee: of several copies of what an attempt wrote the longest stays; what was removed does not come back.

use std::collections::HashMap;

use muster_domain::{JobId, Lease};

use super::work::Work;
use super::{Answers, pick};
use crate::command::{Command, Outcome};
use crate::error::StoreError;
use crate::output::{Moved, MovedOutput};
use crate::tx::Tx;

pub(super) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let moved = pick(commands, |command| match command {
        Command::MoveOutput(outputs) => Some(outputs),
        _ => None,
    });
    for (position, outputs) in moved {
        let became = keep(work, outputs).await?;
        answers.put(position, Ok(Outcome::OutputMoved(became)));
    }
    let expired = pick(commands, |command| match command {
        Command::ExpireOutput(wanted) => Some(wanted),
        _ => None,
    });
    for (position, wanted) in expired {
        let gone = work.tx.expire_outputs(*wanted).await?;
        let bytes = gone.iter().map(|one| one.bytes).sum();
        let runs = gone.len();
        let blobs = gone.into_iter().filter_map(|one| one.blob).collect();
        answers.put(position, Ok(Outcome::OutputExpired { runs, bytes, blobs }));
    }
    Ok(())
}

async fn keep<T: Tx>(work: &mut Work<'_, T>, outputs: &[MovedOutput]) -> Result<Vec<Moved>, StoreError> {
    let mut jobs: Vec<JobId> = outputs.iter().map(|output| output.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    jobs.retain(|job| work.job(*job).is_ok());
    let there = work.tx.outputs(&jobs).await?;
    let mut known: HashMap<(JobId, Lease), MovedOutput> =
        there.into_iter().map(|output| ((output.job, output.lease), output)).collect();
    let mut became = Vec::with_capacity(outputs.len());
    let mut news = Vec::new();
    for output in outputs {
        if jobs.binary_search(&output.job).is_err() {
            became.push(Moved::NoJob);
            continue;
        }
        let place = (output.job, output.lease);
        match known.get(&place) {
            Some(earlier) if !goes_before(output, earlier) => became.push(Moved::There),
            earlier => {
                let replaced = earlier.and_then(MovedOutput::blob).map(str::to_owned);
                became.push(Moved::Kept { replaced });
                known.insert(place, output.clone());
                news.push(output.clone());
            }
        }
    }
    if !news.is_empty() {
        work.tx.put_outputs(&news).await?;
    }
    Ok(became)
}

/// Whether a copy takes the place of another one.
fn goes_before(output: &MovedOutput, earlier: &MovedOutput) -> bool {
    output.length() > earlier.length()
}
