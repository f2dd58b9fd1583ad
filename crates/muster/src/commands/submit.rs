//! `muster submit`: one job from the command line, a gang, an array, a pipeline, or many jobs from a file.

use std::io::Read as _;

use anyhow::Context as _;
use muster_client::Client;
use muster_protocol::{BatchItem, BatchResult, Job};

use super::{array, gang, pipeline_file, wait};
use crate::args::SubmitArgs;
use crate::exit;
use crate::failure::UsageError;
use crate::job_request;
use crate::output::{json, note};
use crate::settings::Settings;

/// Jobs in one request; more are sent in several, unless they have to be taken together.
const CHUNK: usize = 10_000;

pub(crate) async fn run(args: &SubmitArgs, settings: &Settings) -> anyhow::Result<u8> {
    let files = match &args.explicit_file {
        Some(file) => std::slice::from_ref(file),
        None => args.file.as_slice(),
    };
    match (files, args.command.is_empty()) {
        ([], true) => Err(UsageError(
            "there is nothing to submit; write a command after --, or the name of a file".into(),
        )
        .into()),
        ([], false) if args.check => {
            Err(UsageError("--check is for files; there is nothing to check in a command".into()).into())
        }
        ([], false) if !args.parameters.params.is_empty() => {
            Err(UsageError("--param is for pipelines; a command takes variables with --env".into()).into())
        }
        ([], false) if args.array.is_asked_for() => array::submit(args, settings).await,
        ([], false) if args.job.gang.gang.is_some() => gang::submit(args, settings).await,
        ([], false) => submit_one(args, settings).await,
        ([file], true) => submit_file(file, args, settings).await,
        (words, _) => Err(UsageError(format!(
            "a command goes after --: muster submit -- {}",
            [words, &args.command].concat().join(" ")
        ))
        .into()),
    }
}

async fn submit_one(args: &SubmitArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let request = job_request::build(&client, &args.job, &args.command, settings).await?;
    let job = client.submit(&request).await?;
    if args.wait && settings.screen.json {
        return wait::for_ids(&client, vec![job.id], None, settings).await;
    }
    print_job(&job, settings)?;
    if args.wait { wait::for_ids(&client, vec![job.id], None, settings).await } else { Ok(exit::OK) }
}

/// Prints what identifies the job; remarks of the scheduler go to people.
pub(crate) fn print_job(job: &Job, settings: &Settings) -> anyhow::Result<()> {
    for warning in &job.warnings {
        note(&format!("{}: {warning}", job.id));
    }
    if settings.screen.json {
        json::document(job)?;
    } else {
        settings.screen.line(&job.id)?;
    }
    Ok(())
}

async fn submit_file(file: &str, args: &SubmitArgs, settings: &Settings) -> anyhow::Result<u8> {
    let text = read(file)?;
    if pipeline_file::is_pipeline(file, &text) {
        return pipeline_file::submit(file, text, args, settings).await;
    }
    if args.check || args.wait || !args.parameters.params.is_empty() {
        let message = format!("{} has no steps; --check, --wait and --param are for pipelines", shown(file));
        return Err(UsageError(message).into());
    }
    let mut items = parse(&text).map_err(|why| UsageError(format!("{}: {why}", shown(file))))?;
    let user = settings.submitter(args.job.user.as_ref());
    for item in &mut items {
        item.job.user = item.job.user.take().or_else(|| user.clone());
    }
    let client = settings.client()?;
    let results = send(&client, &items, args.atomic).await?;
    let mut code = exit::OK;
    for (number, result) in results.iter().enumerate() {
        if let Some(error) = &result.error {
            note(&format!("job {} of {} was refused: {error}", number + 1, results.len()));
            code = exit::FAILURE;
        }
    }
    if settings.screen.json {
        json::document(&results)?;
    } else {
        let ids: Vec<&str> = results.iter().filter_map(|result| result.id.as_deref()).collect();
        if !ids.is_empty() {
            settings.screen.line(&ids.join("\n"))?;
        }
    }
    Ok(code)
}

/// References hold within one request, so that a file that uses them stays whole.
async fn send(client: &Client, items: &[BatchItem], atomic: bool) -> anyhow::Result<Vec<BatchResult>> {
    let together = atomic || items.iter().any(|item| item.reference.is_some());
    let chunk = if together { items.len().max(1) } else { CHUNK };
    let mut results = Vec::with_capacity(items.len());
    for part in items.chunks(chunk) {
        let sent = results.len();
        let answer = client.submit_batch(part, atomic).await;
        results.extend(answer.with_context(|| format!("after {sent} of {} jobs were sent", items.len()))?);
    }
    Ok(results)
}

pub(super) fn shown(file: &str) -> &str {
    if file == "-" { "standard input" } else { file }
}

pub(super) fn read(file: &str) -> anyhow::Result<String> {
    if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(|error| {
        UsageError(format!(
            "cannot read the file {file:?}: {error}; a command goes after --: muster submit -- {file}"
        ))
        .into()
    })
}

/// One array, or one object after another, with or without line breaks between them.
fn parse(text: &str) -> Result<Vec<BatchItem>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let objects = serde_json::Deserializer::from_str(text).into_iter::<BatchItem>();
    let items: Vec<BatchItem> = objects.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if items.is_empty() { Err("there are no jobs in it".to_owned()) } else { Ok(items) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_and_lines_mean_the_same() {
        let array = parse(r#" [{"command":"a","ref":"x"},{"argv":["b"],"depends_on":["x"]}]"#).unwrap();
        let lines = parse("{\"command\":\"a\",\"ref\":\"x\"}\n\n{\"argv\":[\"b\"],\"depends_on\":[\"x\"]}\n")
            .unwrap();
        assert_eq!(array, lines);
        assert_eq!(array[0].reference.as_deref(), Some("x"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let error = parse("{\"command\":\"a\"}\n{\"command\":7}").unwrap_err();
        assert!(error.contains("line 2"), "{error}");
        assert!(parse("").is_err() && parse("hello").is_err());
    }
}
