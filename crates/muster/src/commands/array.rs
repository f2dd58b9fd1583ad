//! `--array` and its kin, for `submit` and `run`: one command, many jobs, one id.

use std::path::Path;

use anyhow::Context as _;
use muster_client::Client;
use muster_protocol::{ArrayRequest, JobSet, SetKind, SubmitRequest};
use serde_json::Value;

use super::show::failed_of;
use super::submit::read;
use super::wait;
use crate::args::{ArrayArgs, SubmitArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::job_request;
use crate::output::{after_key, failed_indices, json, note};
use crate::settings::Settings;
use crate::signals::Signals;

pub(crate) async fn submit(args: &SubmitArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let job = job_request::build(&client, &args.job, &args.command, settings).await?;
    let set = send(&client, &request(&args.array, job)?, !args.wait, settings).await?;
    if args.wait {
        return wait::for_ids(&client, vec![set.id], None, settings).await;
    }
    Ok(exit::OK)
}

/// Submits the array and prints what identifies it; as data only when nothing else will be.
async fn send(
    client: &Client,
    request: &ArrayRequest,
    alone: bool,
    settings: &Settings,
) -> anyhow::Result<JobSet> {
    let set = client.submit_array(request).await?;
    for warning in &set.warnings {
        note(warning);
    }
    let short: String = set.id.chars().take(12).collect();
    note(&format!("{} jobs; next: muster show {short}, muster wait {short}", set.size));
    if settings.screen.json && alone {
        json::document(&set)?;
    } else if !settings.screen.json {
        settings.screen.line(&set.id)?;
    }
    Ok(set)
}

/// `muster run --array`: waits for the end; the first signal cancels what is left, the second leaves.
pub(crate) struct Watched<'a> {
    pub(crate) args: &'a ArrayArgs,
    pub(crate) detach: bool,
}

impl Watched<'_> {
    pub(crate) async fn run(
        &self,
        client: &Client,
        job: SubmitRequest,
        settings: &Settings,
        signals: &mut Signals,
    ) -> anyhow::Result<u8> {
        let set = send(client, &request(self.args, job)?, self.detach, settings).await?;
        if self.detach {
            return Ok(exit::OK);
        }
        let waiting = wait::for_set(client, set.clone(), settings);
        tokio::pin!(waiting);
        let mut cancelling = false;
        let code = loop {
            tokio::select! {
                code = &mut waiting => break code?,
                code = signals.next() => {
                    after_key();
                    if cancelling {
                        note(&format!("leaving; jobs of {} may still run", set.id));
                        return Ok(code);
                    }
                    cancelling = true;
                    note("cancelling the jobs; once more leaves at once");
                    client.cancel_set(SetKind::Array, &set.id, false).await?;
                }
            }
        };
        if code == exit::FAILURE {
            let failed = client.jobs(&failed_of(&set.id)).await?.jobs;
            note(&format!("failed: {}", failed_indices(&failed)));
        }
        Ok(code)
    }
}

fn request(args: &ArrayArgs, job: SubmitRequest) -> anyhow::Result<ArrayRequest> {
    let mut request = ArrayRequest { job, max_parallel: args.max_parallel, ..ArrayRequest::default() };
    if let Some(indices) = &args.array {
        if indices.max_parallel.is_some() && args.max_parallel.is_some() {
            let message = "% in --array and --max-parallel both say how many run at once; use one of them";
            return Err(UsageError(message.into()).into());
        }
        request.indices = Some(indices.text.clone());
        request.max_parallel = args.max_parallel.or(indices.max_parallel);
    }
    if let Some(file) = &args.each_line {
        request.items = lines(&read_file(file)?);
    }
    if let Some(file) = &args.each_json {
        request.items =
            elements(&read_file(file)?).map_err(|why| UsageError(format!("{}: {why}", file.display())))?;
    }
    if request.indices.is_none() && request.items.is_empty() {
        return Err(UsageError("the file has nothing in it, so that there would be no job".into()).into());
    }
    Ok(request)
}

fn read_file(file: &Path) -> anyhow::Result<String> {
    let name = file.to_str().context("the name of the file is not valid UTF-8")?;
    read(name)
}

/// Empty lines are left out.
fn lines(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| Value::String(line.to_owned())).collect()
}

/// The elements of an array, or one value after another.
fn elements(text: &str) -> Result<Vec<Value>, String> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let mut values = values.map_err(|error| format!("this is not JSON: {error}"))?;
    match values.as_mut_slice() {
        [Value::Array(items)] => Ok(std::mem::take(items)),
        _ => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::args::Indices;

    #[test]
    fn lines_and_elements_become_items() {
        assert_eq!(lines("a\n\n b \r\nc"), ["a", " b ", "c"]);
        assert_eq!(elements("[1, {\"A\": 2}]").unwrap().len(), 2);
        assert_eq!(elements("{\"A\": 1}\n{\"A\": 2}\n").unwrap().len(), 2);
        assert!(elements("[1").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn what_runs_at_once_is_said_once() {
        let indices = Indices { text: "0-9".into(), max_parallel: Some(5) };
        let mut args = ArrayArgs { array: Some(indices), ..ArrayArgs::default() };
        let built = request(&args, SubmitRequest::default()).unwrap();
        assert_eq!((built.indices.as_deref(), built.max_parallel), (Some("0-9"), Some(5)));
        args.max_parallel = Some(3);
        assert!(request(&args, SubmitRequest::default()).is_err());
    }

    #[test]
    fn an_empty_file_makes_no_array() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let args = ArrayArgs { each_line: Some(file.path().to_owned()), ..ArrayArgs::default() };
        assert!(request(&args, SubmitRequest::default()).is_err());
        file.write_all(b"x\n").unwrap();
        assert_eq!(request(&args, SubmitRequest::default()).unwrap().items, ["x"]);
    }
}
