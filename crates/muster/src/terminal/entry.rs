//! The way into a job: which one is meant, whether it runs, and the session with it.

use std::time::Duration;

use anyhow::bail;
use muster_client::{Client, ClientError, status_name};
use muster_protocol::{Job, JobStatus, TerminalKind};

use super::session::{self, Left, Wish};
use crate::exit;
use crate::job_reference::named;
use crate::output::note;
use crate::progress::{JobProgress, Until};
use crate::set_reference::{JobOrGang, resolve_job_or_gang};

/// Between two looks whether a job runs: at first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// The job that is meant: an id, the beginning of one, or `GANG/RANK`.
pub(crate) async fn resolve(client: &Client, text: &str) -> anyhow::Result<String> {
    let (text, rank) = match text.rsplit_once('/') {
        Some((gang, rank)) => match rank.parse::<usize>() {
            Ok(rank) => (gang, Some(rank)),
            Err(_) => bail!("{text:?} is no job; write a task of a gang as GANG/RANK, such as {gang}/0"),
        },
        None => (text, None),
    };
    match (resolve_job_or_gang(client, text).await?, rank) {
        (JobOrGang::Job(id), None) => Ok(id),
        (JobOrGang::Job(id), Some(_)) => bail!("{id} is a job and has no ranks"),
        (JobOrGang::Gang(id), None) => bail!("{id} is a gang; name one of its tasks, such as {id}/0"),
        (JobOrGang::Gang(id), Some(rank)) => {
            let tasks = named(client.gang(&id).await, &id, client)?;
            let count = tasks.len();
            let task = tasks.into_iter().nth(rank);
            task.map(|task| task.id)
                .ok_or_else(|| anyhow::anyhow!("{id} has the ranks 0 to {}, and no rank {rank}", count - 1))
        }
    }
}

/// Waits until a job runs under a lease after `lease`, or has ended.
pub(crate) async fn running(client: &Client, id: &str, lease: u64) -> anyhow::Result<Job> {
    let _progress = JobProgress::start(client, vec![id.to_owned()], Until::Started);
    let mut pause = FIRST_LOOK;
    loop {
        match client.job(id).await {
            Ok(job) if exit::is_final(job.status) => return Ok(job),
            Ok(job) if job.status == JobStatus::Running && job.lease > lease => return Ok(job),
            Ok(_) => {}
            Err(error) if error.is_transient() => {}
            Err(error) => return named(Err(error), id, client),
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_LOOK.min(pause * 2);
    }
}

/// Enters a running job and stays until the session is over. An error is why there is none.
pub(crate) async fn enter(client: &Client, id: &str, kind: TerminalKind, wish: Wish) -> anyhow::Result<Left> {
    match client.open_terminal(id, kind).await {
        Ok(terminal) => session::serve(terminal, wish).await,
        Err(error) => {
            if is_not_running(&error) {
                explain(client, id).await;
            }
            named(Err(error), id, client)
        }
    }
}

fn is_not_running(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { status, message } if status.as_u16() == 409 && message.contains("only a running job"))
}

/// Says why a job does not run, where that is known.
async fn explain(client: &Client, id: &str) {
    let Ok(why) = client.why(id).await else { return };
    for reason in &why.reasons {
        note(&format!("{id} is {}: {}", status_name(why.status), reason.message));
    }
}
