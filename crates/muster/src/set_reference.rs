//! Whatever people name by an id: a job, a pipeline or an array.

use anyhow::bail;
use muster_client::{Client, ClientError};
use muster_protocol::{JobSet, Pipeline, SetKind};

use crate::job_reference::{self, UUID_LENGTH};

const PREFIX: &str = "set-";
/// As many as the scheduler gives on one page.
const PAGE: u32 = 1000;

/// What an id turned out to be.
#[derive(Debug)]
pub(crate) enum Named {
    Job(String),
    Pipeline(Box<Pipeline>),
    Array(Box<JobSet>),
}

/// Finds out what is meant. Asks the scheduler only as far as it has to.
pub(crate) async fn resolve_any(client: &Client, text: &str) -> anyhow::Result<Named> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix(PREFIX) {
        if digits.len() >= UUID_LENGTH {
            return fetch(client, &text.to_ascii_lowercase()).await;
        }
        let found = search(client, &text.to_ascii_lowercase()).await?;
        return match found.as_slice() {
            [only] => fetch(client, only).await,
            [] => bail!(
                "no pipeline or array begins with {text:?} at {}; `muster pipelines` and `muster arrays` list them",
                client.url()
            ),
            [first, second, ..] => {
                bail!("{text:?} is the beginning of {first} and {second}; write more of it")
            }
        };
    }
    if text.starts_with(job_reference::PREFIX) {
        return job_reference::resolve(client, text).await.map(Named::Job);
    }
    resolve_bare(client, text).await
}

/// Digits alone may be those of a job or of a set.
async fn resolve_bare(client: &Client, digits: &str) -> anyhow::Result<Named> {
    let possible =
        !digits.is_empty() && digits.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    if !possible {
        return job_reference::resolve(client, digits).await.map(Named::Job);
    }
    let sets = search(client, &format!("{PREFIX}{}", digits.to_ascii_lowercase())).await?;
    let job = job_reference::resolve(client, digits).await;
    let is_whole = digits.len() >= UUID_LENGTH;
    match (sets.as_slice(), job) {
        ([], job) => job.map(Named::Job),
        // A whole id is taken for that of a job without asking, and the set is known to be there.
        ([only], Err(_)) => fetch(client, only).await,
        ([only], Ok(_)) if is_whole => fetch(client, only).await,
        ([set], Ok(job)) => bail!("{digits:?} is the beginning of {set} and of {job}; write more of it"),
        ([first, second, ..], _) => {
            bail!("{digits:?} is the beginning of {first} and {second}; write more of it")
        }
    }
}

/// The set with this whole id, as what it is.
async fn fetch(client: &Client, id: &str) -> anyhow::Result<Named> {
    match client.pipeline(id).await {
        Ok(pipeline) if pipeline.set.kind == SetKind::Pipeline => {
            return Ok(Named::Pipeline(Box::new(pipeline)));
        }
        Ok(_) => {}
        Err(error) if is_refusal(&error) => {}
        Err(error) => return Err(error.into()),
    }
    match client.array(id).await {
        Ok(array) => Ok(Named::Array(Box::new(array))),
        Err(error) if is_refusal(&error) => bail!(
            "there is no pipeline or array {id} at {}; `muster pipelines` and `muster arrays` list them",
            client.url()
        ),
        Err(error) => Err(error.into()),
    }
}

/// The scheduler is there and says no.
fn is_refusal(error: &ClientError) -> bool {
    error.status().is_some_and(|status| status.is_client_error())
}

/// Ids that begin with the text; at most two, which is enough to know that there are several.
async fn search(client: &Client, beginning: &str) -> Result<Vec<String>, ClientError> {
    let mut found = Vec::new();
    for kind in [SetKind::Pipeline, SetKind::Array] {
        let mut cursor: Option<String> = None;
        loop {
            let page = match client.sets(kind, Some(PAGE), cursor.as_deref()).await {
                Ok(page) => page,
                // A scheduler of before there were sets has none.
                Err(error) if is_refusal(&error) => break,
                Err(error) => return Err(error),
            };
            found.extend(page.sets.into_iter().map(|set| set.id).filter(|id| id.starts_with(beginning)));
            if found.len() > 1 {
                return Ok(found);
            }
            if page.next.is_none() {
                break;
            }
            cursor = page.next;
        }
    }
    Ok(found)
}

/// The pipeline that is meant, or that it is none.
pub(crate) async fn pipeline(client: &Client, text: &str) -> anyhow::Result<Pipeline> {
    match resolve_any(client, text).await? {
        Named::Pipeline(pipeline) => Ok(*pipeline),
        Named::Array(array) => {
            bail!("{} is an array, not a pipeline; `muster pipelines` lists those", array.id)
        }
        Named::Job(id) => bail!("{id} is a job, not a pipeline; `muster pipelines` lists those"),
    }
}
