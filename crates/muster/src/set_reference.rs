//! Whatever people name by an id: a job, a gang, a pipeline or an array.

use anyhow::bail;
use muster_client::{Client, ClientError, GangFilter};
use muster_protocol::{JobSet, Pipeline, SetKind};

use crate::job_reference::{self, GANG_PREFIX, UUID_LENGTH};

const SET_PREFIX: &str = "set-";
/// As many as the scheduler gives on one page.
const PAGE: u32 = 1000;

/// What an id turned out to be.
#[derive(Debug)]
pub(crate) enum Named {
    Job(String),
    Gang(String),
    Pipeline(Box<Pipeline>),
    Array(Box<JobSet>),
}

/// What an id turned out to be where sets are of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobOrGang {
    Job(String),
    Gang(String),
}

/// Finds out what is meant. Asks the scheduler only as far as it has to.
pub(crate) async fn resolve_any(client: &Client, text: &str) -> anyhow::Result<Named> {
    let text = text.trim();
    if text.starts_with(job_reference::PREFIX) {
        return job_reference::resolve(client, text).await.map(Named::Job);
    }
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix(SET_PREFIX) {
        if digits.len() >= UUID_LENGTH {
            return fetch(client, &lower).await;
        }
        let found = sets(client, &lower).await?;
        let kinds = ("pipeline or array", "`muster pipelines` and `muster arrays` list them");
        return fetch(client, &only(&found, text, kinds, client)?).await;
    }
    if let Some(digits) = lower.strip_prefix(GANG_PREFIX) {
        if digits.len() >= UUID_LENGTH {
            return Ok(Named::Gang(lower));
        }
        let found = gangs(client, &lower).await?;
        return only(&found, text, ("gang", "`muster gangs` lists them"), client).map(Named::Gang);
    }
    resolve_bare(client, text).await
}

/// A job or a gang: whatever another job can wait for, and whatever has output.
pub(crate) async fn resolve_job_or_gang(client: &Client, text: &str) -> anyhow::Result<JobOrGang> {
    match resolve_any(client, text).await? {
        Named::Job(id) => Ok(JobOrGang::Job(id)),
        Named::Gang(id) => Ok(JobOrGang::Gang(id)),
        Named::Pipeline(pipeline) => bail!(
            "{id} is a pipeline; name one of its jobs, which `muster ls {id}` lists",
            id = pipeline.set.id
        ),
        Named::Array(array) => {
            bail!("{id} is an array; name one of its jobs, which `muster ls {id}` lists", id = array.id)
        }
    }
}

/// The one id that was found; `(kind, listed)` says what was looked for, and where it could be seen.
fn only(
    found: &[String],
    text: &str,
    (kind, listed): (&str, &str),
    client: &Client,
) -> anyhow::Result<String> {
    match found {
        [only] => Ok(only.clone()),
        [] => bail!("no {kind} begins with {text:?} at {}; {listed}", client.url()),
        [first, second, ..] => bail!("{text:?} is the beginning of {first} and {second}; write more of it"),
    }
}

/// Digits alone may be those of anything.
async fn resolve_bare(client: &Client, digits: &str) -> anyhow::Result<Named> {
    let possible =
        !digits.is_empty() && digits.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    if !possible {
        return job_reference::resolve(client, digits).await.map(Named::Job);
    }
    let lower = digits.to_ascii_lowercase();
    let mut others = sets(client, &format!("{SET_PREFIX}{lower}")).await?;
    if others.len() < 2 {
        others.extend(gangs(client, &format!("{GANG_PREFIX}{lower}")).await?);
    }
    let job = job_reference::resolve(client, digits).await;
    let is_whole = digits.len() >= UUID_LENGTH;
    match (others.as_slice(), job) {
        ([], job) => job.map(Named::Job),
        // A whole id is taken for that of a job without asking, and the other is known to be there.
        ([only], Err(_)) => fetch(client, only).await,
        ([only], Ok(_)) if is_whole => fetch(client, only).await,
        ([other], Ok(job)) => bail!("{digits:?} is the beginning of {other} and of {job}; write more of it"),
        ([first, second, ..], _) => {
            bail!("{digits:?} is the beginning of {first} and {second}; write more of it")
        }
    }
}

/// The gang or the set with this whole id, as what it is.
async fn fetch(client: &Client, id: &str) -> anyhow::Result<Named> {
    if id.starts_with(GANG_PREFIX) {
        return Ok(Named::Gang(id.to_owned()));
    }
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

/// Ids of sets that begin with the text; at most two, which is enough to know that there are several.
async fn sets(client: &Client, beginning: &str) -> Result<Vec<String>, ClientError> {
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

/// The same for gangs.
async fn gangs(client: &Client, beginning: &str) -> Result<Vec<String>, ClientError> {
    let mut filter = GangFilter { limit: Some(PAGE), ..GangFilter::default() };
    let mut found = Vec::new();
    loop {
        let page = match client.gangs(&filter).await {
            Ok(page) => page,
            // A scheduler of before there were gangs has none.
            Err(error) if is_refusal(&error) => return Ok(found),
            Err(error) => return Err(error),
        };
        found.extend(page.gangs.into_iter().map(|gang| gang.id).filter(|id| id.starts_with(beginning)));
        if found.len() > 1 || page.next.is_none() {
            return Ok(found);
        }
        filter.cursor = page.next;
    }
}

/// The pipeline that is meant, or that it is none.
pub(crate) async fn pipeline(client: &Client, text: &str) -> anyhow::Result<Pipeline> {
    match resolve_any(client, text).await? {
        Named::Pipeline(pipeline) => Ok(*pipeline),
        Named::Array(array) => {
            bail!("{} is an array, not a pipeline; `muster pipelines` lists those", array.id)
        }
        Named::Gang(id) => bail!("{id} is a gang, not a pipeline; `muster pipelines` lists those"),
        Named::Job(id) => bail!("{id} is a job, not a pipeline; `muster pipelines` lists those"),
    }
}
