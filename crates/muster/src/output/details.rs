//! Everything about one job, one field a line.

use jiff::Timestamp;
use muster_client::status_name;
use muster_protocol::{ArtifactInput, Concurrency, Container, DependencyRule, ImagePull, Job, Retry};
use serde_json::Value;

use super::human::command;
use super::quantities::{age, bytes, memory, printable, resources, seconds_span, span};
use super::screen::Screen;
use super::style;
use super::usage::used;
use crate::zone::Zone;

const LABEL_WIDTH: usize = 12;

/// Who submitted it: what was said, or what is proven.
fn whose(job: &Job) -> String {
    match (&job.user, &job.proven_user) {
        (_, Some(proven)) => format!("{} (proven)", printable(proven)),
        (Some(said), None) => printable(said),
        (None, None) => String::new(),
    }
}

/// The fields that are set, in the order in which people ask for them.
pub(crate) fn job_details(job: &Job, now: Timestamp, screen: Screen) -> String {
    let mut lines = Vec::new();
    let mut add = |label: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<LABEL_WIDTH$}{value}", format!("{label}:")));
        }
    };
    add("id", printable(&job.id));
    add("pipeline", job.pipeline_id.as_deref().map(|id| place(id, job)).unwrap_or_default());
    add("array", job.array_id.as_deref().map(|id| place(id, job)).unwrap_or_default());
    add("name", job.name.as_deref().map(printable).unwrap_or_default());
    add("status", style::paint(status_name(job.status), style::of_status(job.status), screen.colour));
    add("reason", job.reason.as_deref().map(printable).unwrap_or_default());
    add("held", job.held.as_deref().map(printable).unwrap_or_default());
    add("exit", exit(job));
    add("command", command(job));
    add("image", image(job));
    add("container", job.container.as_deref().map(container).unwrap_or_default());
    for (label, value) in finds(job).into_iter().chain(leaves(job)) {
        add(label, value);
    }
    add("queue", job.queue_name.as_deref().map(printable).unwrap_or_default());
    add("user", whose(job));
    add("private", words_if(job.private, "only its owner and operators see it"));
    add("preemption", words_if(job.preemptible == Some(false), "never"));
    add("priority", if job.priority == 0 { String::new() } else { job.priority.to_string() });
    add("needs", job.resources.as_ref().map(resources).unwrap_or_default());
    add("alone", words_if(job.exclusive, "has the worker for itself"));
    add("tags", printable(&job.tags.join(", ")));
    add("after", printable(&after(job)));
    add("if unmet", job.if_unmet.map(word).unwrap_or_default());
    add("attempts", format!("{} of {}", job.attempts, job.max_retries));
    add("retry", job.retry.as_ref().map(retry).unwrap_or_default());
    add("start", job.not_before.map(|at| start(at, now, screen.zone)).unwrap_or_default());
    add("timeout", job.timeout_seconds.map(seconds_span).unwrap_or_default());
    add("expected", job.expected_seconds.map(expected).unwrap_or_default());
    add("deadline", job.deadline.map(|at| screen.zone.time(at)).unwrap_or_default());
    add("at once", job.concurrency.as_ref().map(concurrency).unwrap_or_default());
    add("unique", job.unique.as_ref().map(|unique| printable(&unique.key)).unwrap_or_default());
    add("worker", job.worker_id.as_deref().map(printable).unwrap_or_default());
    add("gpus", devices(job));
    add("lease", if job.lease == 0 { String::new() } else { job.lease.to_string() });
    add("on disconnect", job.on_disconnect.clone().unwrap_or_default());
    add("terminal", job.pty.map(|size| format!("{} x {}", size.columns, size.rows)).unwrap_or_default());
    add("grace", job.grace_seconds.map(|seconds| format!("{seconds}s")).unwrap_or_default());
    add("signal", job.stop_signal.as_deref().map(printable).unwrap_or_default());
    add("scope", job.signal_scope.map(word).unwrap_or_default());
    add(
        "on exit 0",
        job.on_preempt_exit0.map(|what| format!("{} after a notice", word(what))).unwrap_or_default(),
    );
    add("checkpoint", checkpoint(job, now, screen.zone));
    add("gang", job.gang_id.as_deref().map(|id| gang(job, id)).unwrap_or_default());
    add("submitted", moment(job.created_at, now, screen.zone));
    add("started", job.started_at.map(|at| moment(at, now, screen.zone)).unwrap_or_default());
    add("ended", job.done_at.map(|at| ended(job, at, now, screen.zone)).unwrap_or_default());
    for (label, value) in afterwards(job) {
        add(label, value);
    }
    lines.join("\n")
}

/// What it used, what it handed on, and what else is to be said.
fn afterwards(job: &Job) -> Vec<(&'static str, String)> {
    let used = used(job).into_iter().map(|line| ("used", line));
    let outputs = outputs(job).into_iter().map(|(key, value)| ("output", format!("{key}={value}")));
    let warnings = job.warnings.iter().map(|warning| ("warning", printable(warning)));
    used.chain(outputs).chain(warnings).collect()
}

fn words_if(is_so: bool, words: &str) -> String {
    if is_so { words.to_owned() } else { String::new() }
}

/// The image with what is known of it: which one ran, or how far its pull is.
fn image(job: &Job) -> String {
    let Some(image) = job.image.as_deref().map(printable) else { return String::new() };
    match (&job.image_pull, &job.image_digest) {
        (Some(pull), _) => format!("{image} ({})", pulling(pull)),
        (None, Some(digest)) => format!("{image} ({})", printable(digest)),
        (None, None) => image,
    }
}

/// How far a pull is: `pulling, 31.0M of 120.0M`.
pub(crate) fn pulling(pull: &ImagePull) -> String {
    match pull.total_bytes {
        0 => "pulling".to_owned(),
        total => format!("pulling, {} of {}", bytes(pull.bytes), bytes(total)),
    }
}

/// What was said about a container, in the words of the options.
fn container(asked: &Container) -> String {
    let mut said = Vec::new();
    said.extend(asked.network.map(|network| format!("network {}", word(network))));
    said.extend(asked.pull.map(|when| format!("pull {}", word(when))));
    said.extend(asked.mounts.iter().map(|mount| format!("mount {mount}")));
    said.extend(asked.read_only.then(|| "read-only".to_owned()));
    said.extend(asked.user.as_ref().map(|user| format!("user {user}")));
    said.extend(asked.entrypoint.as_ref().map(|words| format!("entrypoint {:?}", words.join(" "))));
    said.extend(asked.init.filter(|init| !init).map(|_| "no init".to_owned()));
    said.extend(asked.shm_mb.map(|amount| format!("shm {amount} MiB")));
    said.extend(asked.pids.map(|count| format!("at most {count} processes")));
    said.extend(asked.ulimits.iter().map(|(name, limit)| format!("{name}={limit}")));
    said.extend(asked.credentials.as_ref().map(|name| format!("credentials from secret {name}")));
    printable(&said.join(", "))
}

/// What the job finds when it starts.
fn finds(job: &Job) -> Vec<(&'static str, String)> {
    let sent = [("upload", &job.upload), ("stdin", &job.stdin_upload)];
    let sent = sent.into_iter().filter_map(|(label, id)| Some((label, upload(id.as_deref()?))));
    sent.chain(job.inputs.iter().map(|each| ("input", input(each)))).collect()
}

/// Where the job runs, and what it leaves there.
fn leaves(job: &Job) -> [(&'static str, String); 4] {
    let path = |path: &Option<String>| path.as_deref().map(printable).unwrap_or_default();
    [
        ("directory", path(&job.working_dir)),
        ("artifacts", printable(&job.artifacts.join(" "))),
        ("stdout", path(&job.stdout_path)),
        ("stderr", path(&job.stderr_path)),
    ]
}

/// Its id is long, and its beginning tells it apart.
fn upload(id: &str) -> String {
    format!("{}, sent along", printable(&id.chars().take(12).collect::<String>()))
}

/// Which artifacts of which job, and where they go.
fn input(input: &ArtifactInput) -> String {
    let what = input.path.as_deref().unwrap_or("all artifacts");
    let place = input.to.as_deref().map(|to| format!(", as {to}")).unwrap_or_default();
    printable(&format!("{what} of {}{place}", input.from))
}

/// The GPUs of its worker that it has, or had last.
fn devices(job: &Job) -> String {
    let one = |device: &muster_protocol::JobDevice| match device.vram_mb {
        Some(share) => format!("{} of {}", memory(share), device.index),
        None => device.index.to_string(),
    };
    job.devices.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// How long a job is expected to run, and where that comes from.
pub(super) fn expected(seconds: f64) -> String {
    format!("about {}, as runs of this name took before", seconds_span(seconds))
}

/// How the last attempt ended, unless the reason says so already.
fn exit(job: &Job) -> String {
    if job
        .reason
        .as_deref()
        .is_some_and(|reason| reason.starts_with("exit code") || reason.starts_with("signal"))
    {
        return String::new();
    }
    match (job.exit_code, job.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("code {code}"),
        (None, None) => String::new(),
    }
}

/// The set that the job is a part of, and which part.
fn place(id: &str, job: &Job) -> String {
    let step = job.step.as_deref().map(|step| format!(", step {}", printable(step))).unwrap_or_default();
    let index = job.array_index.map(|index| format!(", element {index}")).unwrap_or_default();
    format!("{}{step}{index}", printable(id))
}

/// The word of the API for a value that is one.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The jobs that it waits for, each with its rule unless that is the usual one.
fn after(job: &Job) -> String {
    let ids = job.depends_on.iter().map(|id| {
        let rule = job.rules.get(id).copied().or(job.rule).unwrap_or_default();
        if rule == DependencyRule::AllSuccess { id.clone() } else { format!("{id}:{}", word(rule)) }
    });
    ids.collect::<Vec<_>>().join(", ")
}

/// Which causes are worth another attempt, and the delay before it.
fn retry(retry: &Retry) -> String {
    let mut parts = Vec::new();
    if let Some(initial) = retry.initial_seconds {
        let factor = retry.factor.map(|factor| format!(", times {factor} each time")).unwrap_or_default();
        let most =
            retry.max_seconds.map(|most| format!(", at most {}", seconds_span(most))).unwrap_or_default();
        parts.push(format!("after {}{factor}{most}", seconds_span(initial)));
    }
    let list = |codes: &[i32]| codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let named = |what: &str, names: String| match names.as_str() {
        "" => format!("no {what}"),
        names => format!("{what} {names}"),
    };
    parts.extend(retry.exit_codes.as_deref().map(|codes| named("exit codes", list(codes))));
    parts.extend(retry.signals.as_deref().map(|signals| named("signals", signals.join(","))));
    parts.extend(retry.lost.map(|lost| if lost { "lost workers" } else { "not lost workers" }.to_owned()));
    parts.extend(retry.timeout.map(|timeout| if timeout { "timeouts" } else { "not timeouts" }.to_owned()));
    parts.extend(retry.oom.map(|oom| if oom { "out of memory" } else { "not out of memory" }.to_owned()));
    if let Some(factor) = retry.oom_memory_factor {
        let most = retry.oom_memory_max_mb.map(|most| format!(", at most {most} MiB")).unwrap_or_default();
        parts.push(format!("{factor} times the memory after running out of it{most}"));
    }
    parts.extend(retry.requeue_exit_codes.as_deref().map(|codes| format!("requeued by {}", list(codes))));
    printable(&parts.join("; "))
}

fn start(at: Timestamp, now: Timestamp, zone: Zone) -> String {
    let ahead = if at > now { format!(" (in {})", span(now, at)) } else { String::new() };
    format!("not before {}{ahead}", zone.time(at))
}

fn concurrency(concurrency: &Concurrency) -> String {
    format!("at most {} of {}", concurrency.limit, printable(&concurrency.key))
}

/// What the job handed on, each on a line of its own.
fn outputs(job: &Job) -> Vec<(String, String)> {
    let shown = |value: &Value| match value {
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    };
    match job.outputs.as_ref() {
        Some(Value::Object(fields)) => {
            fields.iter().map(|(key, value)| (printable(key), shown(value))).collect()
        }
        Some(other) => vec![("value".to_owned(), shown(other))],
        None => Vec::new(),
    }
}

fn gang(job: &Job, id: &str) -> String {
    format!("{}, rank {} of {}", printable(id), job.gang_index, job.gang_size)
}

/// What was saved last, and when.
fn checkpoint(job: &Job, now: Timestamp, zone: Zone) -> String {
    let when = job.checkpoint_at.map(|at| format!(", saved {}", moment(at, now, zone))).unwrap_or_default();
    job.checkpoint_bytes.map(|size| format!("{}{when}", bytes(size))).unwrap_or_default()
}

fn moment(at: Timestamp, now: Timestamp, zone: Zone) -> String {
    format!("{} ({} ago)", zone.time(at), age(at, now))
}

fn ended(job: &Job, at: Timestamp, now: Timestamp, zone: Zone) -> String {
    let took = job.started_at.map(|started| format!(", ran {}", span(started, at))).unwrap_or_default();
    format!("{} ({} ago{took})", zone.time(at), age(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_set_is_shown() {
        let job: Job = serde_json::from_str(
            r#"{"id":"job-1","command":"exit 3","status":"failed","created_at":"2026-05-05T08:33:00Z",
                "started_at":"2026-05-05T08:33:01Z","done_at":"2026-05-05T08:33:03.5Z","max_retries":1,"attempts":1,
                "exit_code":3,"lease":1,"resources":{"cpus":2}}"#,
        )
        .unwrap();
        let screen = Screen { json: false, colour: false, width: Some(80), zone: crate::zone::Zone::UTC };
        let expected = "\
id:         job-1
status:     failed
exit:       code 3
command:    exit 3
needs:      2 cpus
attempts:   1 of 1
lease:      1
submitted:  2026-05-05 08:33:00 UTC (60s ago)
started:    2026-05-05 08:33:01 UTC (59s ago)
ended:      2026-05-05 08:33:03 UTC (57s ago, ran 2.5s)";
        assert_eq!(job_details(&job, "2026-05-05T08:34:00Z".parse().unwrap(), screen), expected);
    }

    #[test]
    fn conditions_places_and_outputs_are_shown() {
        let job: Job = serde_json::from_str(
            r#"{"id":"job-1","command":"x","status":"pending","created_at":"2026-05-05T08:33:00Z","max_retries":3,
                "attempts":1,"pipeline_id":"set-1","step":"train","array_index":2,"held":"by hand",
                "depends_on":["job-2","job-3"],"rules":{"job-3":"all_done"},"if_unmet":"run",
                "retry":{"initial_seconds":10,"factor":2,"exit_codes":[1,2],"lost":true},
                "not_before":"2026-05-05T08:35:00Z","timeout_seconds":90,"concurrency":{"key":"db","limit":2},
                "outputs":{"rows":12,"file":"a\nb"}}"#,
        )
        .unwrap();
        let screen = Screen { json: false, colour: false, width: Some(80), zone: crate::zone::Zone::UTC };
        let text = job_details(&job, "2026-05-05T08:34:00Z".parse().unwrap(), screen);
        for line in [
            "pipeline:   set-1, step train, element 2",
            "held:       by hand",
            "after:      job-2, job-3:all_done",
            "if unmet:   run",
            "retry:      after 10.0s, times 2 each time; exit codes 1,2; lost workers",
            "start:      not before 2026-05-05 08:35:00 UTC (in 1m00s)",
            "timeout:    1m30s",
            "at once:    at most 2 of db",
            "output:     rows=12",
            "output:     file=a\\nb",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line:?} is missing in\n{text}");
        }
    }
}
