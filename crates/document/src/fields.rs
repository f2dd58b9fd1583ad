//! The fields that a step and the defaults share.

use std::collections::BTreeMap;

use muster_protocol::{
    Concurrency, DependencyRule, IfUnmet, Resources, Retry, SecretWish, SubmitRequest, Unique,
};

use crate::container;
use crate::mistake::Mistakes;
use crate::nested;
use crate::node::{Entry, Node};
use crate::values;

/// The most attempts a job may ask for.
const MAX_ATTEMPTS: i64 = 1_000;
/// More GPUs than this are a mistake.
const MAX_GPUS: u64 = 1_000_000;

/// What may stand in `defaults`, and in a step beside its own fields.
pub(crate) const SHARED: [&str; 47] = [
    "env",
    "secrets",
    "image",
    "image_name",
    "container",
    "working_dir",
    "artifacts",
    "stdout_path",
    "stderr_path",
    "open_mode",
    "upload",
    "stdin",
    "stdin_file",
    "cpus",
    "memory",
    "gpus",
    "vram",
    "counters",
    "tags",
    "exclusive",
    "priority",
    "queue",
    "max_retries",
    "backoff",
    "retry_on",
    "oom_memory",
    "requeue_exit_codes",
    "timeout",
    "not_before",
    "delay",
    "deadline",
    "grace",
    "on_disconnect",
    "signal",
    "signal_scope",
    "on_preempt_exit0",
    "user",
    "private",
    "preemptible",
    "launch",
    "slurm_env",
    "hold",
    "concurrency",
    "unique",
    "rule",
    "if_unmet",
    "max_parallel",
];

/// The values that were given. The part that is a request holds those whose absence a request can show.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    pub(crate) request: SubmitRequest,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) rule: Option<DependencyRule>,
    pub(crate) max_parallel: Option<u32>,
    resources: Amounts,
    tags: Option<Vec<String>>,
    artifacts: Option<Vec<String>>,
    backoff: Option<Retry>,
    retry_on: Option<Retry>,
    oom_memory: Option<Retry>,
    requeue_exit_codes: Option<Vec<i32>>,
    exclusive: Option<bool>,
    hold: Option<bool>,
    slurm_env: Option<bool>,
    concurrency: Option<Concurrency>,
    unique: Option<Unique>,
    if_unmet: Option<IfUnmet>,
    secrets: Option<Vec<SecretWish>>,
}

#[derive(Debug, Clone, Default)]
struct Amounts {
    cpus: Option<f64>,
    memory_mb: Option<u64>,
    gpus: Option<u64>,
    vram_mb: Option<u64>,
    counters: Option<BTreeMap<String, u64>>,
}

impl Fields {
    /// Takes the entry if it is one of these fields, and says whether it was.
    pub(crate) fn take(&mut self, entry: &Entry, mistakes: &mut Mistakes) -> bool {
        self.take_request(entry, mistakes)
            || self.take_amount(entry, mistakes)
            || self.take_launch(entry, mistakes)
            || self.take_input(entry, mistakes)
            || self.take_rest(entry, mistakes)
    }

    fn take_request(&mut self, entry: &Entry, mistakes: &mut Mistakes) -> bool {
        let (key, value, request) = (entry.key.as_str(), &entry.value, &mut self.request);
        match key {
            "working_dir" => request.working_dir = values::text(value, key, mistakes),
            "stdout_path" => request.stdout_path = values::text(value, key, mistakes),
            "stderr_path" => request.stderr_path = values::text(value, key, mistakes),
            "open_mode" => request.open_mode = values::word(value, key, &nested::OPEN_MODES, mistakes),
            "priority" => request.priority = values::whole(value, key, (i32::MIN, i32::MAX), mistakes),
            "queue" => request.queue_name = values::name(value, key, mistakes),
            "max_retries" => request.max_retries = values::whole(value, key, (1, MAX_ATTEMPTS), mistakes),
            "timeout" => request.timeout_seconds = values::duration(value, key, mistakes),
            "not_before" => request.not_before = values::time(value, key, mistakes),
            "delay" => request.delay_seconds = values::duration(value, key, mistakes),
            "deadline" => request.deadline = values::time(value, key, mistakes),
            "grace" => request.grace_seconds = grace(value, mistakes),
            "on_disconnect" => request.on_disconnect = on_disconnect(value, mistakes),
            "image" | "image_name" => request.image = values::name(value, key, mistakes),
            "container" => request.container = container::container(value, mistakes),
            "signal" => request.stop_signal = values::signal(value, key, mistakes),
            _ => return false,
        }
        if key == "timeout" && request.timeout_seconds == Some(0.0) {
            mistakes.add(value.at, "timeout is 0, which would end the job at once; remove it for no limit");
        }
        if matches!(key, "not_before" | "delay")
            && request.not_before.is_some()
            && request.delay_seconds.is_some()
        {
            mistakes.add(entry.at, "not_before and delay both say when to start; keep one of them");
        }
        true
    }

    /// What is sent along.
    fn take_input(&mut self, entry: &Entry, mistakes: &mut Mistakes) -> bool {
        let (key, value, request) = (entry.key.as_str(), &entry.value, &mut self.request);
        match key {
            "upload" => request.upload = values::text(value, key, mistakes),
            "stdin" => request.stdin = values::text(value, key, mistakes),
            "stdin_file" => request.stdin_upload = values::text(value, key, mistakes),
            _ => return false,
        }
        if key != "upload" && request.stdin.is_some() && request.stdin_upload.is_some() {
            mistakes.add(entry.at, "stdin and stdin_file both say what is read; keep one of them");
        }
        true
    }

    fn take_amount(&mut self, entry: &Entry, mistakes: &mut Mistakes) -> bool {
        let (key, value, amounts) = (entry.key.as_str(), &entry.value, &mut self.resources);
        match key {
            "cpus" => amounts.cpus = values::cpus(value, mistakes),
            "memory" => amounts.memory_mb = values::size(value, key, mistakes),
            "gpus" => amounts.gpus = values::whole(value, key, (0, MAX_GPUS), mistakes),
            "vram" => amounts.vram_mb = values::size(value, key, mistakes),
            "counters" => amounts.counters = values::counters(value, mistakes),
            _ => return false,
        }
        true
    }

    /// How the process is started and stopped.
    fn take_launch(&mut self, entry: &Entry, mistakes: &mut Mistakes) -> bool {
        let (key, value, request) = (entry.key.as_str(), &entry.value, &mut self.request);
        match key {
            "launch" => request.launch = values::word(value, key, &nested::LAUNCH, mistakes),
            "slurm_env" => self.slurm_env = values::boolean(value, key, mistakes),
            "on_preempt_exit0" => {
                request.on_preempt_exit0 = values::word(value, key, &nested::ON_PREEMPT_EXIT0, mistakes);
            }
            "user" => request.user = values::name(value, key, mistakes),
            "private" => request.private = values::boolean(value, key, mistakes),
            "preemptible" => request.preemptible = values::boolean(value, key, mistakes),
            "signal_scope" => {
                request.signal_scope = values::word(value, key, &nested::SIGNAL_SCOPES, mistakes);
            }
            _ => return false,
        }
        true
    }

    fn take_rest(&mut self, entry: &Entry, mistakes: &mut Mistakes) -> bool {
        let (key, value) = (entry.key.as_str(), &entry.value);
        match key {
            "env" => self.env = values::variables(value, key, mistakes).unwrap_or_default(),
            "tags" => self.tags = tags(value, mistakes),
            "artifacts" => self.artifacts = patterns(value, mistakes),
            "secrets" => self.secrets = nested::secrets(value, mistakes),
            "exclusive" => self.exclusive = values::boolean(value, key, mistakes),
            "backoff" => self.backoff = nested::backoff(value, mistakes),
            "retry_on" => self.retry_on = nested::retry_on(value, mistakes),
            "oom_memory" => self.oom_memory = nested::oom_memory(value, mistakes),
            "requeue_exit_codes" => self.requeue_exit_codes = nested::exit_codes(value, key, mistakes),
            "hold" => self.hold = values::boolean(value, key, mistakes),
            "concurrency" => self.concurrency = nested::concurrency(value, mistakes),
            "unique" => self.unique = nested::unique(value, mistakes),
            "rule" => self.rule = values::word(value, key, &nested::RULES, mistakes),
            "if_unmet" => self.if_unmet = values::word(value, key, &nested::IF_UNMET, mistakes),
            "max_parallel" => self.max_parallel = values::whole(value, key, (1, u32::MAX), mistakes),
            _ => return false,
        }
        if matches!(key, "concurrency" | "max_parallel")
            && self.concurrency.is_some()
            && self.max_parallel.is_some()
        {
            let message = "max_parallel and concurrency both bound how many run at once, and a job is counted once; \
                           keep one of them";
            mistakes.add(entry.at, message);
        }
        true
    }

    /// The values of these fields where they are given, and those of `defaults` elsewhere.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let given = self.request;
        let other = defaults.request.clone();
        // The two ways to say when to start replace each other, and those to say what is read.
        let start_given = given.not_before.is_some() || given.delay_seconds.is_some();
        let (not_before, delay_seconds) = if start_given {
            (given.not_before, given.delay_seconds)
        } else {
            (other.not_before, other.delay_seconds)
        };
        let stdin_given = given.stdin.is_some() || given.stdin_upload.is_some();
        let (stdin, stdin_upload) =
            if stdin_given { (given.stdin, given.stdin_upload) } else { (other.stdin, other.stdin_upload) };
        let request = SubmitRequest {
            upload: given.upload.or(other.upload),
            stdin,
            stdin_upload,
            working_dir: given.working_dir.or(other.working_dir),
            stdout_path: given.stdout_path.or(other.stdout_path),
            stderr_path: given.stderr_path.or(other.stderr_path),
            open_mode: given.open_mode.or(other.open_mode),
            priority: given.priority.or(other.priority),
            queue_name: given.queue_name.or(other.queue_name),
            max_retries: given.max_retries.or(other.max_retries),
            timeout_seconds: given.timeout_seconds.or(other.timeout_seconds),
            not_before,
            delay_seconds,
            deadline: given.deadline.or(other.deadline),
            grace_seconds: given.grace_seconds.or(other.grace_seconds),
            on_disconnect: given.on_disconnect.or(other.on_disconnect),
            stop_signal: given.stop_signal.or(other.stop_signal),
            launch: given.launch.or(other.launch),
            on_preempt_exit0: given.on_preempt_exit0.or(other.on_preempt_exit0),
            signal_scope: given.signal_scope.or(other.signal_scope),
            user: given.user.or(other.user),
            private: given.private.or(other.private),
            preemptible: given.preemptible.or(other.preemptible),
            image: given.image.or(other.image),
            container: given.container.or(other.container),
            ..SubmitRequest::default()
        };
        // The same holds for what bounds how many run at once: a job is counted under one key.
        let (max_parallel, concurrency) = if self.max_parallel.is_some() || self.concurrency.is_some() {
            (self.max_parallel, self.concurrency)
        } else {
            (defaults.max_parallel, defaults.concurrency.clone())
        };
        let mut env = defaults.env.clone();
        env.extend(self.env);
        Self {
            request,
            env,
            rule: self.rule.or(defaults.rule),
            max_parallel,
            resources: self.resources.or(&defaults.resources),
            tags: self.tags.or_else(|| defaults.tags.clone()),
            artifacts: self.artifacts.or_else(|| defaults.artifacts.clone()),
            backoff: self.backoff.or_else(|| defaults.backoff.clone()),
            retry_on: self.retry_on.or_else(|| defaults.retry_on.clone()),
            oom_memory: self.oom_memory.or_else(|| defaults.oom_memory.clone()),
            requeue_exit_codes: self.requeue_exit_codes.or_else(|| defaults.requeue_exit_codes.clone()),
            exclusive: self.exclusive.or(defaults.exclusive),
            hold: self.hold.or(defaults.hold),
            slurm_env: self.slurm_env.or(defaults.slurm_env),
            concurrency,
            unique: self.unique.or_else(|| defaults.unique.clone()),
            if_unmet: self.if_unmet.or(defaults.if_unmet),
            secrets: self.secrets.or_else(|| defaults.secrets.clone()),
        }
    }

    /// With the parameters as variables, where no other value is given.
    pub(crate) fn with_parameters(mut self, parameters: BTreeMap<String, String>) -> Self {
        for (name, value) in parameters {
            self.env.entry(name).or_insert(value);
        }
        self
    }

    /// The request without its program, its name and what it needs.
    pub(crate) fn into_request(self) -> SubmitRequest {
        SubmitRequest {
            env: self.env,
            resources: self.resources.into_resources(),
            tags: self.tags.unwrap_or_default(),
            artifacts: self.artifacts.unwrap_or_default(),
            exclusive: self.exclusive.unwrap_or(false),
            hold: self.hold.unwrap_or(false),
            slurm_env: self.slurm_env.unwrap_or(false),
            retry: retry(self.backoff, self.retry_on, self.oom_memory, self.requeue_exit_codes),
            concurrency: self.concurrency,
            unique: self.unique,
            if_unmet: self.if_unmet,
            secrets: self.secrets.unwrap_or_default(),
            ..self.request
        }
    }
}

impl Amounts {
    fn or(self, defaults: &Self) -> Self {
        Self {
            cpus: self.cpus.or(defaults.cpus),
            memory_mb: self.memory_mb.or(defaults.memory_mb),
            gpus: self.gpus.or(defaults.gpus),
            vram_mb: self.vram_mb.or(defaults.vram_mb),
            counters: self.counters.or_else(|| defaults.counters.clone()),
        }
    }

    fn into_resources(self) -> Option<Resources> {
        let resources = Resources {
            cpus: self.cpus.unwrap_or(0.0),
            memory_mb: self.memory_mb.unwrap_or(0),
            gpus: self.gpus.unwrap_or(0),
            vram_mb: self.vram_mb.unwrap_or(0),
            counters: self.counters.unwrap_or_default(),
        };
        (resources != Resources::default()).then_some(resources)
    }
}

/// One object on the wire from the four fields of the file.
fn retry(
    backoff: Option<Retry>,
    retry_on: Option<Retry>,
    oom_memory: Option<Retry>,
    requeue_exit_codes: Option<Vec<i32>>,
) -> Option<Retry> {
    let given = [&backoff, &retry_on, &oom_memory].into_iter().any(Option::is_some);
    if !given && requeue_exit_codes.is_none() {
        return None;
    }
    let (delays, causes) = (backoff.unwrap_or_default(), retry_on.unwrap_or_default());
    let growth = oom_memory.unwrap_or_default();
    Some(Retry {
        exit_codes: causes.exit_codes,
        signals: causes.signals,
        lost: causes.lost,
        timeout: causes.timeout,
        oom: causes.oom,
        oom_memory_factor: growth.oom_memory_factor,
        oom_memory_max_mb: growth.oom_memory_max_mb,
        requeue_exit_codes,
        ..delays
    })
}

fn grace(node: &Node, mistakes: &mut Mistakes) -> Option<u32> {
    let seconds = values::duration(node, "grace", mistakes)?;
    if seconds > f64::from(u32::MAX) {
        mistakes.add(node.at, "grace is longer than anybody waits; write for example 30s");
        return None;
    }
    // Rounded up: a process never gets less time than it was promised.
    Some(seconds.ceil() as u32)
}

fn on_disconnect(node: &Node, mistakes: &mut Mistakes) -> Option<String> {
    let text = values::text(node, "on_disconnect", mistakes)?;
    let time = text.strip_prefix("keep=").and_then(crate::amounts::duration);
    if text != "stop" && time.is_none_or(|time| time.is_zero()) {
        mistakes.add(node.at, "on_disconnect must be stop, or keep with a time such as keep=30m");
        return None;
    }
    Some(text)
}

fn patterns(node: &Node, mistakes: &mut Mistakes) -> Option<Vec<String>> {
    values::list_of(node, "artifacts", mistakes, |item, mistakes| {
        values::text(item, "an element of artifacts", mistakes)
    })
}

fn tags(node: &Node, mistakes: &mut Mistakes) -> Option<Vec<String>> {
    values::list_of(node, "tags", mistakes, |item, mistakes| {
        values::name(item, "an element of tags", mistakes)
    })
}
