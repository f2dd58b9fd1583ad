//! `muster cancel`, `hold`, `release`, `retry`, `delete`: of what is named, or of all that a filter chooses.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::bail;
use muster_client::{BulkVerb, Client, ClientError};
use muster_protocol::{BulkFilter, BulkResult, CancelResult, Job, JobSet, SetKind};

use crate::args::SelectionArgs;
use crate::exit;
use crate::failure::UsageError;
use crate::job_reference::named;
use crate::output::{changes, json, note};
use crate::set_reference::{Named, resolve_any};
use crate::settings::Settings;

pub(crate) async fn run(
    verb: BulkVerb,
    selection: &SelectionArgs,
    from: Option<&str>,
    settings: &Settings,
) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match (selection.ids.is_empty(), selection.filter()) {
        (true, None) => Err(UsageError(format!(
            "there is nothing to {}; write ids, or choose with --queue, --name, --status, --worker, --tag, \
             --pipeline or --array",
            verb.word()
        ))
        .into()),
        (false, Some(_)) => {
            Err(UsageError("ids and options that choose jobs do not go together; use one of them".into())
                .into())
        }
        (true, Some(filter)) => by_filter(verb, filter, selection, &client, settings).await,
        (false, None) => {
            let change = Change { client: &client, verb, from, dry_run: selection.dry_run };
            each(&change, &selection.ids, settings).await
        }
    }
}

/// Asks first, when there is somebody to ask.
async fn by_filter(
    verb: BulkVerb,
    mut filter: BulkFilter,
    selection: &SelectionArgs,
    client: &Client,
    settings: &Settings,
) -> anyhow::Result<u8> {
    for id in [&mut filter.pipeline, &mut filter.array].into_iter().flatten() {
        *id = match resolve_any(client, id).await? {
            Named::Pipeline(pipeline) => pipeline.set.id,
            Named::Array(array) => array.id,
            Named::Job(id) => bail!("{id} is a job, not a pipeline or an array"),
            Named::Gang(id) => bail!("{id} is a gang, not a pipeline or an array"),
        };
    }
    let ask = !selection.yes && !selection.dry_run && io::stdin().is_terminal() && io::stderr().is_terminal();
    if ask {
        let would = client.bulk(verb, &BulkFilter { dry_run: true, ..filter.clone() }).await?;
        let count = would.changed.len() + would.stopping.len();
        if count == 0 {
            note("no job matches");
            return Ok(exit::OK);
        }
        let jobs = if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
        if !agreed(&format!("{} {jobs}? [y/N] ", verb.word()))? {
            note("nothing was changed");
            return Ok(exit::FAILURE);
        }
    }
    let result = client.bulk(verb, &BulkFilter { dry_run: selection.dry_run, ..filter }).await?;
    if settings.screen.json {
        json::document(&result)?;
    } else if result.changed.is_empty() && result.stopping.is_empty() && result.refused.is_empty() {
        note("no job matches");
    } else {
        print(verb, &result, settings)?;
    }
    Ok(if result.refused.is_empty() { exit::OK } else { exit::FAILURE })
}

fn agreed(question: &str) -> io::Result<bool> {
    let mut error = io::stderr().lock();
    error.write_all(question.as_bytes())?;
    error.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// What is to be done, to each of the named.
struct Change<'a> {
    client: &'a Client,
    verb: BulkVerb,
    from: Option<&'a str>,
    dry_run: bool,
}

/// Changes each; one that cannot be changed does not keep the others.
async fn each(change: &Change<'_>, ids: &[String], settings: &Settings) -> anyhow::Result<u8> {
    let mut results = Vec::new();
    let mut code = exit::OK;
    for text in ids {
        let changed = match resolve_any(change.client, text).await {
            Ok(named) => change.apply(named).await,
            Err(error) => Err(error),
        };
        match changed {
            Ok(result) => {
                if !result.refused.is_empty() {
                    code = exit::FAILURE;
                }
                if result.changed.is_empty() && result.stopping.is_empty() && result.refused.is_empty() {
                    note(&format!("{text}: there is nothing to {}", change.verb.word()));
                }
                if !settings.screen.json {
                    print(change.verb, &result, settings)?;
                }
                results.push(result);
            }
            // Nobody to answer means nobody to answer for the others either.
            Err(error) if is_connection(&error) => return Err(error),
            Err(error) => {
                note(&format!("{error:#}"));
                code = exit::FAILURE;
            }
        }
    }
    if settings.screen.json {
        json::document(&joined(results, change.dry_run))?;
    }
    Ok(code)
}

fn joined(results: Vec<BulkResult>, dry_run: bool) -> BulkResult {
    let mut all = BulkResult { dry_run, ..BulkResult::default() };
    for result in results {
        all.changed.extend(result.changed);
        all.stopping.extend(result.stopping);
        all.refused.extend(result.refused);
    }
    all
}

fn print(verb: BulkVerb, result: &BulkResult, settings: &Settings) -> io::Result<()> {
    for (id, why) in &result.refused {
        note(&format!("{id}: {why}"));
    }
    let text = changes(verb, result);
    if text.is_empty() { Ok(()) } else { settings.screen.line(&text) }
}

pub(super) fn is_connection(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<ClientError>().is_some_and(ClientError::is_transient))
}

impl Change<'_> {
    async fn apply(&self, target: Named) -> anyhow::Result<BulkResult> {
        match target {
            Named::Job(id) => {
                if self.from.is_some() {
                    bail!("--from names a step of a pipeline, and {id} is a job");
                }
                self.apply_to_job(&id).await
            }
            Named::Gang(id) => {
                if self.from.is_some() {
                    bail!("--from names a step of a pipeline, and {id} is a gang");
                }
                named(self.apply_to_gang(&id).await, &id, self.client)
            }
            Named::Pipeline(pipeline) => self.apply_to_set(&pipeline.set).await,
            Named::Array(array) => {
                if self.from.is_some() {
                    bail!("--from names a step of a pipeline, and {} is an array", array.id);
                }
                self.apply_to_set(&array).await
            }
        }
    }

    async fn apply_to_job(&self, id: &str) -> anyhow::Result<BulkResult> {
        let client = self.client;
        let one = || BulkResult { changed: vec![id.to_owned()], ..BulkResult::default() };
        let result = match self.verb {
            BulkVerb::Cancel => {
                let cancelled =
                    if self.dry_run { client.cancel_dry_run(id).await } else { client.cancel(id).await };
                cancelled.map(|result| BulkResult {
                    changed: result.cancelled,
                    stopping: result.stopping,
                    dry_run: self.dry_run,
                    ..BulkResult::default()
                })
            }
            verb if self.dry_run => {
                let filter = BulkFilter { ids: vec![id.to_owned()], dry_run: true, ..BulkFilter::default() };
                client.bulk(verb, &filter).await
            }
            BulkVerb::Hold => client.hold(id).await.map(|_| one()),
            BulkVerb::Release => client.release(id).await.map(|_| one()),
            BulkVerb::Retry => client.retry(id).await.map(|_| one()),
            BulkVerb::Delete => client.delete(id).await.map(|()| one()),
        };
        named(result, id, client)
    }

    async fn apply_to_gang(&self, id: &str) -> Result<BulkResult, ClientError> {
        let client = self.client;
        let tasks: Vec<String> = client.gang(id).await?.into_iter().map(|task| task.id).collect();
        let all = |jobs: Vec<Job>| BulkResult {
            changed: jobs.into_iter().map(|job| job.id).collect(),
            ..BulkResult::default()
        };
        let cancelled = |result: CancelResult| BulkResult {
            changed: result.cancelled,
            stopping: result.stopping,
            dry_run: self.dry_run,
            ..BulkResult::default()
        };
        match (self.verb, tasks.first()) {
            (BulkVerb::Cancel, Some(first)) if self.dry_run => {
                client.cancel_dry_run(first).await.map(cancelled)
            }
            (BulkVerb::Cancel, _) => client.cancel_gang(id).await.map(cancelled),
            (BulkVerb::Hold, _) if !self.dry_run => client.hold_gang(id).await.map(all),
            (BulkVerb::Release, _) if !self.dry_run => client.release_gang(id).await.map(all),
            (BulkVerb::Retry, _) if !self.dry_run => client.retry_gang(id).await.map(all),
            // What removes one task removes all of them.
            (BulkVerb::Delete, Some(first)) if !self.dry_run => {
                client.delete(first).await?;
                Ok(BulkResult { changed: tasks, ..BulkResult::default() })
            }
            (verb, _) => {
                let filter = BulkFilter { ids: tasks, dry_run: self.dry_run, ..BulkFilter::default() };
                client.bulk(verb, &filter).await
            }
        }
    }

    async fn apply_to_set(&self, set: &JobSet) -> anyhow::Result<BulkResult> {
        let client = self.client;
        let filter = match set.kind {
            SetKind::Pipeline => BulkFilter { pipeline: Some(set.id.clone()), ..BulkFilter::default() },
            SetKind::Array => BulkFilter { array: Some(set.id.clone()), ..BulkFilter::default() },
        };
        let filter = BulkFilter { dry_run: self.dry_run, ..filter };
        Ok(match self.verb {
            BulkVerb::Cancel => client.cancel_set(set.kind, &set.id, self.dry_run).await?,
            BulkVerb::Retry => client.retry_set(set.kind, &set.id, self.from, self.dry_run).await?,
            verb => client.bulk(verb, &filter).await?,
        })
    }
}
