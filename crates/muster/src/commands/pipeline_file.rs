//! The file of a pipeline: read, checked here with every mistake at its place, and sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use muster_client::{Client, PipelineFile};
use muster_document::{Document, Mistake};
use muster_protocol::Pipeline;
use serde_json::{Value, json};

use super::submit::{read, shown};
use super::wait;
use crate::args::{AddArgs, ArrayArgs, JobArgs, ParameterArgs, SubmitArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::job_request::working_dir;
use crate::output::{json, mistakes, note};
use crate::set_reference;
use crate::settings::Settings;
use crate::upload;

/// Whether the file is a pipeline, and not a list of jobs: by its name, else by what is in it.
pub(crate) fn is_pipeline(name: &str, text: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    if matches!(extension.as_str(), "yaml" | "yml") {
        return true;
    }
    let trimmed = text.trim_start();
    if !trimmed.starts_with('{') {
        return extension != "jsonl" && text.lines().any(|line| line.starts_with("steps:"));
    }
    // Several objects, one after the other, are jobs; a broken object with steps is a pipeline with mistakes.
    match serde_json::Deserializer::from_str(text).into_iter::<Value>().next() {
        Some(Ok(first)) => first.get("steps").is_some(),
        Some(Err(_)) | None => text.contains("\"steps\""),
    }
}

pub(crate) async fn submit(
    name: &str,
    text: String,
    args: &SubmitArgs,
    settings: &Settings,
) -> anyhow::Result<u8> {
    refuse_job_options(args)?;
    let params = parameters(&args.parameters);
    let document = match muster_document::parse(&text, &params) {
        Ok(document) => document,
        Err(found) => return complain(name, &text, &found, args.check, settings),
    };
    if args.check {
        return approve(name, &document, settings);
    }
    let client = settings.client()?;
    let file = PipelineFile {
        text,
        params,
        working_dir: working_dir(args.job.workdir.as_deref())?,
        user: settings.submitter(args.job.user.as_ref()),
        idempotency_key: args.job.idempotency_key.clone(),
        uploads: uploads(&client, name, &document).await?,
    };
    let pipeline = client.submit_pipeline(&file).await?;
    tell(&pipeline);
    if args.wait {
        if !settings.screen.json {
            settings.screen.line(&pipeline.set.id)?;
        }
        return wait::for_ids(&client, vec![pipeline.set.id], None, settings).await;
    }
    print(&pipeline, settings)?;
    Ok(exit::OK)
}

/// `muster add`.
pub(crate) async fn add(args: &AddArgs, settings: &Settings) -> anyhow::Result<u8> {
    let text = read(&args.file)?;
    let params = parameters(&args.parameters);
    let client = settings.client()?;
    let pipeline = set_reference::pipeline(&client, &args.pipeline).await?;
    let existing: BTreeSet<String> = pipeline.steps.iter().map(|step| step.name.clone()).collect();
    let document = match muster_document::parse_addition(&text, &params, &existing) {
        Ok(document) => document,
        Err(found) => return complain(&args.file, &text, &found, args.check, settings),
    };
    if args.check {
        return approve(&args.file, &document, settings);
    }
    let file = PipelineFile {
        text,
        params,
        working_dir: working_dir(args.workdir.as_deref())?,
        user: settings.submitter(None),
        idempotency_key: None,
        uploads: uploads(&client, &args.file, &document).await?,
    };
    let extended = client.add_steps(&pipeline.set.id, &file).await?;
    tell(&extended);
    print(&extended, settings)?;
    Ok(exit::OK)
}

/// Sends what steps name, each once. Names are relative to the file.
async fn uploads(
    client: &Client,
    file: &str,
    document: &Document,
) -> anyhow::Result<BTreeMap<String, String>> {
    let beside = if file == "-" { None } else { Path::new(file).parent() };
    let beside = beside.unwrap_or(Path::new(""));
    let mut sent = BTreeMap::new();
    for step in &document.steps {
        for (path, is_directory) in [(&step.job.upload, true), (&step.job.stdin_upload, false)] {
            let Some(path) = path.as_deref().filter(|path| !path.is_empty() && !sent.contains_key(*path))
            else {
                continue;
            };
            let place = beside.join(path);
            let place = if place.as_os_str().is_empty() { Path::new(".") } else { &place };
            let id = if is_directory {
                upload::directory(client, place).await
            } else {
                upload::file(client, place).await
            };
            let id = id.map_err(|error| {
                error.context(format!("{}:{}: step {}", shown(file), step.line, step.name))
            })?;
            sent.insert(path.to_owned(), id);
        }
    }
    Ok(sent)
}

fn parameters(args: &ParameterArgs) -> BTreeMap<String, String> {
    args.params.iter().cloned().collect()
}

/// What a pipeline says for each step cannot be said for all of them here.
fn refuse_job_options(args: &SubmitArgs) -> Result<(), UsageError> {
    let rest = JobArgs { workdir: None, user: None, idempotency_key: None, ..args.job.clone() };
    if rest == JobArgs::default() && args.array == ArrayArgs::default() && !args.atomic {
        return Ok(());
    }
    Err(UsageError(
        "options that describe a job are for a command; a pipeline says it in its file, for all steps under \
         `defaults:`"
            .into(),
    ))
}

/// Shows the mistakes: to people with the line and the place, to programs as data.
fn complain(
    name: &str,
    text: &str,
    found: &[Mistake],
    check: bool,
    settings: &Settings,
) -> anyhow::Result<u8> {
    if check && settings.screen.json {
        let list: Vec<Value> = found
            .iter()
            .map(
                |mistake| json!({"line": mistake.line, "column": mistake.column, "message": mistake.message}),
            )
            .collect();
        json::document(&json!({"file": shown(name), "mistakes": list}))?;
    } else {
        mistakes(shown(name), text, found);
    }
    Ok(exit::USAGE)
}

/// Says that the file is right, and what it comes to.
fn approve(name: &str, document: &Document, settings: &Settings) -> anyhow::Result<u8> {
    let jobs: usize = document.steps.iter().map(muster_document::Step::jobs).sum();
    if settings.screen.json {
        let steps: Vec<&str> = document.steps.iter().map(|step| step.name.as_str()).collect();
        json::document(&json!({"file": shown(name), "mistakes": [], "steps": steps, "jobs": jobs}))?;
    } else {
        let count =
            |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let steps = document.steps.len();
        settings.screen.line(&format!(
            "{}: {}, {}",
            shown(name),
            count(steps, "step"),
            count(jobs, "job")
        ))?;
    }
    Ok(exit::OK)
}

/// Remarks of the scheduler, and what to type next.
fn tell(pipeline: &Pipeline) {
    let set = &pipeline.set;
    for warning in &set.warnings {
        note(warning);
    }
    if set.repeated {
        note("this was submitted before under the same key; nothing new was made");
    }
    let short: String = set.id.chars().take(12).collect();
    note(&format!(
        "{} jobs in {} steps; next: muster show {short}, muster wait {short}",
        set.size,
        pipeline.steps.len()
    ));
}

fn print(pipeline: &Pipeline, settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        json::document(pipeline)?;
    } else {
        settings.screen.line(&pipeline.set.id)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_are_told_from_lists_of_jobs() {
        let cases = [
            ("a.yaml", "", true),
            ("a.yml", "x", true),
            ("a.json", "{\"steps\": []}", true),
            ("a.json", "{\"steps\": [}", true),
            ("a.json", "{\"command\": \"x\"}", false),
            ("a.json", "[{\"command\": \"x\"}]", false),
            ("a.jsonl", "{\"command\": \"x\"}\n{\"command\": \"\\\"steps\\\"\"}", false),
            ("-", "name: a\nsteps:\n  - {name: a, run: x}\n", true),
            ("-", "{\"command\": \"x\"}\n{\"command\": \"y\"}", false),
            ("jobs", "hello", false),
            ("jobs", "", false),
        ];
        for (name, text, expected) in cases {
            assert_eq!(is_pipeline(name, text), expected, "{name}: {text}");
        }
    }
}
