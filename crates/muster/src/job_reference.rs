//! A job as people name it: the whole id, or the beginning of one that fits no other job.

use anyhow::{Context as _, bail};
use muster_client::{Client, ClientError, JobFilter};

pub(crate) const PREFIX: &str = "job-";
pub(crate) const GANG_PREFIX: &str = "gang-";
pub(crate) const UUID_LENGTH: usize = 36;
/// As many as the scheduler gives on one page.
const PAGE: u32 = 1000;

/// The whole id. Asks the scheduler only when the text is not one already.
pub(crate) async fn resolve(client: &Client, text: &str) -> anyhow::Result<String> {
    let text = text.trim();
    let digits = text.strip_prefix(PREFIX).unwrap_or(text);
    let possible =
        !digits.is_empty() && digits.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    if !possible {
        bail!("{text:?} is not the id of a job, nor the beginning of one; `muster ls` lists them");
    }
    let wanted = format!("{PREFIX}{}", digits.to_ascii_lowercase());
    if digits.len() >= UUID_LENGTH {
        return Ok(wanted);
    }
    let found = search(client, &wanted).await?;
    match found.as_slice() {
        [only] => Ok(only.clone()),
        [] => bail!("no job begins with {wanted:?} at {}; `muster ls --all` lists them", client.url()),
        [first, second, ..] => {
            bail!(
                "{wanted:?} is the beginning of several jobs, such as {first} and {second}; write more of it"
            )
        }
    }
}

/// Ids that begin with the text; at most two, which is enough to know that there are several.
async fn search(client: &Client, beginning: &str) -> Result<Vec<String>, ClientError> {
    let mut filter = JobFilter { limit: Some(PAGE), ..JobFilter::default() };
    let mut found = Vec::new();
    loop {
        let page = client.jobs(&filter).await?;
        found.extend(page.jobs.into_iter().map(|job| job.id).filter(|id| id.starts_with(beginning)));
        if found.len() > 1 || page.next.is_none() {
            return Ok(found);
        }
        filter.cursor = page.next;
    }
}

/// Says which job or gang was meant when the scheduler does not know it.
pub(crate) fn named<T>(result: Result<T, ClientError>, id: &str, client: &Client) -> anyhow::Result<T> {
    let unknown =
        result.as_ref().err().and_then(ClientError::status).is_some_and(|status| status.as_u16() == 404);
    if unknown && id.starts_with(GANG_PREFIX) {
        bail!("there is no gang {id} at {}; `muster gangs` lists them", client.url());
    }
    if unknown {
        bail!("there is no job {id} at {}; `muster ls --all` lists them", client.url());
    }
    result.with_context(|| id.to_owned())
}
