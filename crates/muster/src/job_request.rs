//! From the options of `run` and `submit` to what the scheduler is asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_client::Client;
use muster_protocol::{
    ArtifactInput, Concurrency, OnConflict, OpenMode, Resources, SecretWish, SubmitRequest, Unique,
};

use crate::args::{ConditionArgs, FileMode, GangArgs, JobArgs, LaunchArgs, WrittenTime};
use crate::failure::UsageError;
use crate::gang;
use crate::output::note;
use crate::set_reference::{JobOrGang, resolve_job_or_gang};
use crate::settings::Settings;
use crate::upload;
use crate::zone::Zone;

/// Characters that mean something to a shell: a lone argument with one of them was meant for a shell.
const SHELL_CHARACTERS: &str = " \t\n|&;<>()$`\\\"'*?[]{}#~";

/// The request, with the jobs to wait for named in full.
pub(crate) async fn build(
    client: &Client,
    args: &JobArgs,
    words: &[String],
    settings: &Settings,
) -> anyhow::Result<SubmitRequest> {
    let moments = Moments::of(&args.conditions, Timestamp::now(), settings.screen.zone)?;
    for remark in &moments.remarks {
        note(remark);
    }
    let mut request = without_dependencies(args, words, &moments)?;
    if let Some(directory) = &args.upload {
        request.upload = Some(upload::directory(client, directory).await?);
    }
    if let Some(name) = &args.stdin {
        request.stdin_upload = upload::named(client, name).await?;
    }
    request.user = settings.submitter(args.user.as_ref());
    for job in &args.conditions.after {
        request.depends_on.push(dependency(client, job).await?);
    }
    for need in &args.conditions.needs {
        let id = dependency(client, &need.job).await?;
        if let Some(rule) = need.rule {
            request.rules.insert(id.clone(), rule);
        }
        request.depends_on.push(id);
    }
    for input in &args.inputs {
        let from = dependency(client, &input.from).await?;
        if !request.depends_on.contains(&from) {
            request.depends_on.push(from.clone());
        }
        request.inputs.push(ArtifactInput { from, ..input.clone() });
    }
    if request.gang_size.is_some() && request.tasks_per_worker.is_none() && !args.gang.one_each() {
        gang::choose(client, &mut request).await?;
    }
    Ok(request)
}

/// What a job can wait for, named in full.
async fn dependency(client: &Client, text: &str) -> anyhow::Result<String> {
    match resolve_job_or_gang(client, text).await? {
        JobOrGang::Job(id) | JobOrGang::Gang(id) => Ok(id),
    }
}

fn without_dependencies(
    args: &JobArgs,
    words: &[String],
    moments: &Moments,
) -> anyhow::Result<SubmitRequest> {
    let mut request = SubmitRequest {
        name: args.name.clone(),
        env: environment(args)?,
        secrets: args.secrets.iter().chain(&args.secret_files).cloned().map(SecretWish::Use).collect(),
        working_dir: directory(args)?,
        artifacts: args.artifacts.clone(),
        stdout_path: output_path(args, args.output.as_ref())?,
        stderr_path: output_path(args, args.error.as_ref())?,
        open_mode: args.open_mode.map(open_mode),
        image: args.container.image.clone(),
        container: args.container.container(),
        resources: resources(args),
        tags: args.tags.clone(),
        exclusive: args.exclusive,
        priority: args.priority,
        queue_name: args.queue.clone(),
        user: args.user.clone(),
        private: args.private.then_some(true),
        preemptible: args.no_preempt.then_some(false),
        idempotency_key: args.idempotency_key.clone(),
        ..conditions(&args.conditions, moments)
    };
    launch(&args.launch, &mut request);
    gang_of(&args.gang, &mut request)?;
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

/// What goes with the job of the environment here, and what was written for it.
fn environment(args: &JobArgs) -> Result<BTreeMap<String, String>, UsageError> {
    let mut variables = match &args.export {
        Some(export) => export.variables(std::env::vars_os())?,
        None => BTreeMap::new(),
    };
    variables.extend(args.env.iter().cloned());
    Ok(variables)
}

const fn open_mode(mode: FileMode) -> OpenMode {
    match mode {
        FileMode::Append => OpenMode::Append,
        FileMode::Truncate => OpenMode::Truncate,
    }
}

/// A path from here, where it is not told from the directory of the job.
fn output_path(args: &JobArgs, path: Option<&String>) -> anyhow::Result<Option<String>> {
    match path {
        Some(path) if args.container.image.is_some() && !path.is_empty() => working_dir(Some(path)),
        other => Ok(other.cloned()),
    }
}

/// Where the command runs. A container has directories of its own.
fn directory(args: &JobArgs) -> anyhow::Result<Option<String>> {
    if args.upload.is_some() {
        return Ok(uploaded_dir(args.workdir.as_deref())?);
    }
    if args.container.image.is_none() {
        return working_dir(args.workdir.as_deref());
    }
    match args.workdir.as_deref() {
        None | Some("") => Ok(None),
        Some(inside) if inside.starts_with('/') => Ok(Some(inside.to_owned())),
        Some(other) => Err(UsageError(format!(
            "--workdir is {other:?}; with --image it must be a whole path inside the container"
        ))
        .into()),
    }
}

/// How its process is started and stopped.
fn launch(args: &LaunchArgs, request: &mut SubmitRequest) {
    request.launch = args.mode();
    request.slurm_env = args.slurm_env;
    request.on_preempt_exit0 = args.on_preempt_exit0;
    request.signal_scope = args.signal_scope;
}

/// The tasks that it is made of.
fn gang_of(args: &GangArgs, request: &mut SubmitRequest) -> Result<(), UsageError> {
    let Some(size) = args.gang else { return Ok(()) };
    if let Some(least) = args.gang_min.filter(|least| *least > size) {
        return Err(UsageError(format!("--gang-min {least} is more than the {size} tasks of the gang")));
    }
    if args.one_each() && args.tasks_per_worker.is_some_and(|tasks| tasks > 1) {
        let text = "--spread gives each task a worker of its own: leave out --tasks-per-worker, or spread over a \
                    label, as with --spread=rack";
        return Err(UsageError(text.to_owned()));
    }
    request.gang_size = Some(size);
    request.gang_min = args.gang_min;
    request.tasks_per_worker = args.tasks_per_worker;
    request.gang_policy = args.policy();
    request.topology = args.topology();
    Ok(())
}

/// The points in time of a request, and how those without a zone were read.
#[derive(Debug, Default)]
struct Moments {
    not_before: Option<Timestamp>,
    /// How far away a start is, the scheduler's clock says; this one may differ.
    delay: Option<Duration>,
    deadline: Option<Timestamp>,
    remarks: Vec<String>,
}

impl Moments {
    fn of(args: &ConditionArgs, now: Timestamp, zone: Zone) -> Result<Self, UsageError> {
        let mut remarks = Vec::new();
        let mut meant = |option: &str, time: &WrittenTime| {
            let wrong = |why| UsageError(format!("{option}: {why}"));
            let meant = time.ahead_of(now, zone).map_err(wrong)?;
            remarks.extend(meant.remark.map(|remark| format!("{option} {remark}")));
            Ok(meant.at)
        };
        let (not_before, delay) = match &args.not_before {
            Some(WrittenTime::Away(time)) => (None, Some(*time)),
            Some(time) => (Some(meant("--not-before", time)?), args.delay),
            None => (None, args.delay),
        };
        let deadline = args.deadline.as_ref().map(|time| meant("--deadline", time)).transpose()?;
        Ok(Self { not_before, delay, deadline, remarks })
    }
}

/// When the job starts, ends and is tried again.
fn conditions(args: &ConditionArgs, moments: &Moments) -> SubmitRequest {
    let seconds = |time: Duration| time.as_secs_f64();
    let on_conflict = if args.replace { OnConflict::Replace } else { OnConflict::Existing };
    SubmitRequest {
        max_retries: args.max_retries,
        grace_seconds: args.grace.map(|grace| whole_seconds(grace.as_secs_f64())),
        on_disconnect: args.on_disconnect.clone(),
        timeout_seconds: args.timeout.map(seconds),
        not_before: moments.not_before,
        delay_seconds: moments.delay.map(seconds),
        deadline: moments.deadline,
        stop_signal: args.signal.clone(),
        hold: args.hold,
        retry: args.retry(),
        concurrency: args.concurrency.clone().map(|(key, limit)| Concurrency { key, limit }),
        unique: args.unique.clone().map(|key| Unique { key, on_conflict }),
        rule: args.rule,
        if_unmet: args.if_unmet,
        ..SubmitRequest::default()
    }
}

/// Part of a second counts as a whole one: a grace must never become shorter than asked for.
fn whole_seconds(seconds: f64) -> u32 {
    seconds.ceil().min(f64::from(u32::MAX)) as u32
}

/// An empty name leaves the choice to the worker; a relative one is meant from here.
pub(crate) fn working_dir(given: Option<&str>) -> anyhow::Result<Option<String>> {
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

/// A directory in the copy of an upload; its top when none is given.
fn uploaded_dir(given: Option<&str>) -> Result<Option<String>, UsageError> {
    let Some(given) = given.map(|given| given.trim_end_matches('/').trim_start_matches("./")) else {
        return Ok(None);
    };
    if given.is_empty() || given == "." {
        return Ok(None);
    }
    match muster_upload::check_path(given) {
        Ok(()) => Ok(Some(given.to_owned())),
        Err(error) => Err(UsageError(format!(
            "with --upload the job runs in a copy, and --workdir is a directory in it, such as src: {error}"
        ))),
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
    use crate::zone::tests::berlin;

    fn built(args: &JobArgs, words: &[&str]) -> anyhow::Result<SubmitRequest> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let now = "2026-05-05T08:33:00Z".parse().unwrap();
        without_dependencies(args, &words, &Moments::of(&args.conditions, now, berlin())?)
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
    fn times_become_those_of_the_request() {
        let minute = Duration::from_secs(60);
        let conditions = ConditionArgs {
            not_before: Some(WrittenTime::Away(minute)),
            deadline: Some(WrittenTime::Away(minute)),
            timeout: Some(Duration::from_millis(1500)),
            unique: Some("k".into()),
            replace: true,
            concurrency: Some(("db".into(), 2)),
            ..ConditionArgs::default()
        };
        let args = JobArgs { conditions, ..JobArgs::default() };
        let request = built(&args, &["true"]).unwrap();
        assert_eq!((request.not_before, request.delay_seconds), (None, Some(60.0)));
        assert_eq!(request.deadline.map(|at| at.to_string()).as_deref(), Some("2026-05-05T08:34:00Z"));
        assert_eq!(request.timeout_seconds, Some(1.5));
        assert_eq!(request.unique.map(|unique| unique.on_conflict), Some(OnConflict::Replace));
        assert_eq!(request.concurrency.map(|it| (it.key, it.limit)), Some(("db".into(), 2)));
        assert_eq!(request.retry, None);
    }

    #[test]
    fn times_without_a_zone_are_local_and_that_is_said() {
        let local =
            |text: &str| Some(WrittenTime::Local { time: text.parse().unwrap(), text: text.to_owned() });
        let conditions = ConditionArgs {
            not_before: local("2026-12-01T08:00"),
            deadline: local("2026-12-02"),
            ..ConditionArgs::default()
        };
        let moments = Moments::of(&conditions, Timestamp::UNIX_EPOCH, berlin()).unwrap();
        let shown = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        assert_eq!(shown(moments.not_before), "2026-12-01T07:00:00Z");
        assert_eq!(shown(moments.deadline), "2026-12-01T23:00:00Z");
        assert_eq!(moments.remarks.len(), 2);
        assert!(moments.remarks[0].starts_with("--not-before \"2026-12-01T08:00\""), "{moments:?}");
    }

    #[test]
    fn a_gang_has_its_own_options() {
        let gang = GangArgs { gang: Some(4), gang_min: Some(2), keep_done: true, ..GangArgs::default() };
        let args = JobArgs { gang, ..JobArgs::default() };
        let request = built(&args, &["true"]).unwrap();
        assert_eq!((request.gang_size, request.gang_min, request.tasks_per_worker), (Some(4), Some(2), None));
        assert_eq!(request.gang_policy, Some(muster_protocol::GangPolicy::KeepDone));
        let wrong = GangArgs { gang: Some(4), gang_min: Some(5), ..GangArgs::default() };
        let error = built(&JobArgs { gang: wrong, ..JobArgs::default() }, &["true"]).unwrap_err();
        assert!(error.to_string().contains("--gang-min 5"), "{error}");
        assert_eq!(built(&JobArgs::default(), &["true"]).unwrap().gang_size, None);
    }

    #[test]
    fn resources_only_when_asked_for() {
        assert_eq!(built(&JobArgs::default(), &["true"]).unwrap().resources, None);
        let args = JobArgs {
            gpus: Some(1),
            conditions: ConditionArgs {
                grace: Some(Duration::from_millis(1500)),
                ..ConditionArgs::default()
            },
            ..JobArgs::default()
        };
        let request = built(&args, &["true"]).unwrap();
        assert_eq!(request.resources.map(|resources| resources.gpus), Some(1));
        assert_eq!(request.grace_seconds, Some(2));
    }
}
