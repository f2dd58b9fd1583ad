//! From the options of `run` and `submit` to what the scheduler is asked for.

use muster_client::Client;
use muster_protocol::{Resources, SubmitRequest};

use crate::args::JobArgs;
use crate::failure::UsageError;
use crate::job_reference::resolve;

/// Characters that mean something to a shell: a lone argument with one of them was meant for a shell.
const SHELL_CHARACTERS: &str = " \t\n|&;<>()$`\\\"'*?[]{}#~";

/// The request, with the jobs to wait for named in full.
pub(crate) async fn build(
    client: &Client,
    args: &JobArgs,
    words: &[String],
) -> anyhow::Result<SubmitRequest> {
    let mut request = without_dependencies(args, words)?;
    for job in &args.after {
        request.depends_on.push(resolve(client, job).await?);
    }
    Ok(request)
}

fn without_dependencies(args: &JobArgs, words: &[String]) -> anyhow::Result<SubmitRequest> {
    let mut request = SubmitRequest {
        name: args.name.clone(),
        env: args.env.iter().cloned().collect(),
        working_dir: working_dir(args.workdir.as_deref())?,
        resources: resources(args),
        tags: args.tags.clone(),
        priority: args.priority,
        queue_name: args.queue.clone(),
        max_retries: args.max_retries,
        grace_seconds: args.grace.map(|grace| whole_seconds(grace.as_secs_f64())),
        idempotency_key: args.idempotency_key.clone(),
        ..SubmitRequest::default()
    };
    match words {
        [] => return Err(UsageError("there is no command to run; write it after --".into()).into()),
        [only] if args.shell || only.contains(|letter| SHELL_CHARACTERS.contains(letter)) => {
            request.command.clone_from(only);
        }
        words if args.shell => request.command = words.join(" "),
        words => request.argv = words.to_vec(),
    }
    if request.command.trim().is_empty() && request.argv.first().is_none_or(String::is_empty) {
        return Err(UsageError("the command is empty".into()).into());
    }
    Ok(request)
}

/// Part of a second counts as a whole one: a grace must never become shorter than asked for.
fn whole_seconds(seconds: f64) -> u32 {
    seconds.ceil().min(f64::from(u32::MAX)) as u32
}

/// An empty name leaves the choice to the worker; a relative one is meant from here.
fn working_dir(given: Option<&str>) -> anyhow::Result<Option<String>> {
    if given == Some("") {
        return Ok(None);
    }
    let here = std::env::current_dir().map_err(|error| {
        anyhow::anyhow!("cannot find the current directory: {error}; name one with --workdir")
    })?;
    let directory = here.join(given.unwrap_or_default());
    // Joining with nothing leaves a slash at the end, which would show up everywhere.
    let directory = if given.is_none() { here } else { directory };
    match directory.into_os_string().into_string() {
        Ok(text) => Ok(Some(text)),
        Err(raw) => Err(UsageError(format!("the directory {} is not valid UTF-8", raw.display())).into()),
    }
}

fn resources(args: &JobArgs) -> Option<Resources> {
    let resources = Resources {
        cpus: args.cpus.unwrap_or_default(),
        memory_mb: args.memory.unwrap_or_default(),
        vram_mb: args.vram.unwrap_or_default(),
        gpus: args.gpus.unwrap_or_default(),
        counters: args.counters.iter().cloned().collect(),
    };
    (resources != Resources::default()).then_some(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(args: &JobArgs, words: &[&str]) -> anyhow::Result<SubmitRequest> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        without_dependencies(args, &words)
    }

    #[test]
    fn words_are_arguments_unless_they_are_meant_for_a_shell() {
        let plain = JobArgs::default();
        assert_eq!(built(&plain, &["echo", "a|b"]).unwrap().argv, ["echo", "a|b"]);
        assert_eq!(built(&plain, &["true"]).unwrap().argv, ["true"]);
        assert_eq!(built(&plain, &["echo a | wc"]).unwrap().command, "echo a | wc");
        let shell = JobArgs { shell: true, ..JobArgs::default() };
        let request = built(&shell, &["echo", "$HOME"]).unwrap();
        assert_eq!((request.command.as_str(), request.argv.len()), ("echo $HOME", 0));
        assert_eq!(built(&shell, &["true"]).unwrap().command, "true");
    }

    #[test]
    fn an_empty_command_is_wrong() {
        let args = JobArgs::default();
        for words in [&[][..], &[""], &["  "], &["", "x"]] {
            assert!(built(&args, words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_directory_is_this_one_unless_told() {
        let here = std::env::current_dir().unwrap();
        let of = |workdir: Option<&str>| {
            let args = JobArgs { workdir: workdir.map(str::to_owned), ..JobArgs::default() };
            built(&args, &["true"]).unwrap().working_dir
        };
        assert_eq!(of(None).as_deref(), here.to_str());
        assert_eq!(of(Some("x")).as_deref(), here.join("x").to_str());
        assert_eq!(of(Some("/tmp")).as_deref(), Some("/tmp"));
        assert_eq!(of(Some("")), None);
    }

    #[test]
    fn resources_only_when_asked_for() {
        assert_eq!(built(&JobArgs::default(), &["true"]).unwrap().resources, None);
        let args = JobArgs {
            gpus: Some(1),
            grace: Some(std::time::Duration::from_millis(1500)),
            ..JobArgs::default()
        };
        let request = built(&args, &["true"]).unwrap();
        assert_eq!(request.resources.map(|resources| resources.gpus), Some(1));
        assert_eq!(request.grace_seconds, Some(2));
    }
}
