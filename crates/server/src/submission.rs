//! From the body of a submit to a job's specification, within the limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::container::{Container, Network, is_reserved};
use muster_domain::limits::{DEFAULT_MAX_ATTEMPTS, MAX_ATTEMPTS};
use muster_domain::{Hold, JobSpec, Program, QueueName, Resources, Span, TerminalSize};
use muster_store::NewJob;

use crate::artifact_inputs::{self, ArtifactInputBody};
use crate::conditions::{self, ConcurrencyBody, RetryBody, UniqueBody};
use crate::config::{Limits, ServerConfig};
use crate::container_fields::{self, ContainerBody};
use crate::error::ApiError;
use crate::gang_submission::{self, GangFields};
use crate::ids;
use crate::job_inputs::InputFields;
use crate::lenient::lenient_object;
use crate::output_files;
use crate::placement_fields::TopologyBody;
use crate::secret_uses::{self, WishBody};

/// Time that is left for the report between the kill and the moment the process is taken for gone.
const GRACE_MARGIN_SECONDS: u64 = 5;
/// More of anything than this is a mistake.
pub(crate) const MAX_AMOUNT: u64 = 1 << 50;

lenient_object! {
    /// Amounts as a client writes them.
    pub(crate) struct ResourcesBody {
        cpus: f64 = "cpus",
        memory_mb: u64 = "memory_mb",
        vram_mb: u64 = "vram_mb",
        gpus: u64 = "gpus",
        counters: BTreeMap<String, u64> = "counters",
    }
}

lenient_object! {
    /// The size of a terminal as clients write it.
    pub(crate) struct PtyBody { columns: i64 = "columns", rows: i64 = "rows" }
}

impl PtyBody {
    fn check(self) -> Result<TerminalSize, ApiError> {
        let side = |given: Option<i64>, usual: u16| match given {
            None => Ok(usual),
            Some(side) => u16::try_from(side).ok().filter(|side| *side > 0).ok_or_else(|| {
                ApiError::invalid_field("pty", "pty has columns and rows, each from 1 to 65535")
            }),
        };
        Ok(TerminalSize { columns: side(self.columns, 80)?, rows: side(self.rows, 24)? })
    }
}

lenient_object! {
    /// One job as a client writes it.
    pub(crate) struct SubmitBody {
        reference: String = "ref",
        command: String = "command",
        argv: Vec<String> = "argv",
        name: String = "name",
        env: BTreeMap<String, String> = "env",
        working_dir: String = "working_dir",
        depends_on: Vec<String> = "depends_on",
        resources: ResourcesBody = "resources",
        tags: Vec<String> = "tags",
        priority: i64 = "priority",
        queue_name: String = "queue_name",
        max_retries: i64 = "max_retries",
        grace_seconds: i64 = "grace_seconds",
        on_disconnect: String = "on_disconnect",
        gang_size: i64 = "gang_size",
        gang_min: i64 = "gang_min",
        tasks_per_worker: i64 = "tasks_per_worker",
        topology: TopologyBody = "topology",
        exclusive: bool = "exclusive",
        gang_policy: String = "gang_policy",
        launch: String = "launch",
        slurm_env: bool = "slurm_env",
        on_preempt_exit0: String = "on_preempt_exit0",
        signal_scope: String = "signal_scope",
        user: String = "user",
        private: bool = "private",
        preemptible: bool = "preemptible",
        idempotency_key: String = "idempotency_key",
        timeout_seconds: f64 = "timeout_seconds" | "timeout",
        not_before: String = "not_before",
        delay_seconds: f64 = "delay_seconds",
        deadline: String = "deadline",
        stop_signal: String = "stop_signal",
        hold: bool = "hold",
        retry: RetryBody = "retry",
        concurrency: ConcurrencyBody = "concurrency",
        unique: UniqueBody = "unique",
        rule: String = "rule",
        rules: BTreeMap<String, String> = "rules",
        if_unmet: String = "if_unmet",
        secrets: Vec<WishBody> = "secrets",
        artifacts: Vec<String> = "artifacts",
        stdout_path: String = "stdout_path",
        stderr_path: String = "stderr_path",
        open_mode: String = "open_mode",
        upload: String = "upload",
        stdin: String = "stdin",
        stdin_upload: String = "stdin_upload",
        inputs: Vec<ArtifactInputBody> = "inputs",
        pty: PtyBody = "pty",
        image: String = "image" | "image_name",
        container: ContainerBody = "container",
        required_cpu: f64 = "required_cpu",
        required_memory: u64 = "required_memory",
    }
}

impl ResourcesBody {
    pub(crate) fn check(self, limits: &Limits) -> Result<Resources, ApiError> {
        let cpus = self.cpus.unwrap_or(0.0);
        if !(0.0..=1e9).contains(&cpus) {
            return Err(ApiError::invalid_field("cpus", "cpus must be a number from 0 to 1000000000"));
        }
        let counters = self.counters.unwrap_or_default();
        if counters.len() > limits.counters {
            return Err(ApiError::over_limit("counters", limits.counters, "entries"));
        }
        for name in counters.keys() {
            check_text("counters", name, limits.name)?;
        }
        let amounts = Resources {
            // A need is never rounded down, or two halves of less than a thousandth would be free.
            cpu_millis: (cpus * 1e3).ceil() as u64,
            memory_mb: self.memory_mb.unwrap_or(0),
            vram_mb: self.vram_mb.unwrap_or(0),
            gpus: self.gpus.unwrap_or(0),
            counters,
        };
        let fixed = [("memory_mb", amounts.memory_mb), ("vram_mb", amounts.vram_mb), ("gpus", amounts.gpus)];
        let named = amounts.counters.values().map(|amount| ("counters", *amount));
        match fixed.into_iter().chain(named).find(|(_, amount)| *amount > MAX_AMOUNT) {
            Some((field, _)) => {
                Err(ApiError::invalid_field(field, format!("{field} must be at most {MAX_AMOUNT}")))
            }
            None => Ok(amounts),
        }
    }
}

/// Refuses text that is too long or that no process and no database could take.
pub(crate) fn check_text(field: &'static str, text: &str, limit: usize) -> Result<(), ApiError> {
    if text.len() > limit {
        return Err(ApiError::over_limit(field, limit, "bytes"));
    }
    if text.contains('\0') {
        return Err(ApiError::invalid_field(field, format!("{field} must not contain a NUL character")));
    }
    Ok(())
}

pub(crate) fn check_tags(tags: Vec<String>, limits: &Limits) -> Result<BTreeSet<String>, ApiError> {
    if tags.len() > limits.tags {
        return Err(ApiError::over_limit("tags", limits.tags, "entries"));
    }
    for tag in &tags {
        check_text("tags", tag, limits.name)?;
        if is_reserved(tag) {
            let message = format!(
                "the tag {tag:?} cannot be given: tags that begin with muster: are the scheduler's own"
            );
            return Err(ApiError::invalid_field("tags", message));
        }
    }
    Ok(tags.into_iter().filter(|tag| !tag.is_empty()).collect())
}

pub(crate) fn optional(
    field: &'static str,
    text: Option<String>,
    limit: usize,
) -> Result<Option<String>, ApiError> {
    let text = text.filter(|text| !text.is_empty());
    if let Some(text) = &text {
        check_text(field, text, limit)?;
    }
    Ok(text)
}

impl SubmitBody {
    /// The job that is asked for, or what is wrong with it. The order of the checks is part of the API.
    pub(crate) fn into_new_job(mut self, config: &ServerConfig) -> Result<NewJob, ApiError> {
        let limits = &config.limits;
        let program = self.program(limits)?;
        self.merge_amounts()?;
        let gang = GangFields {
            size: self.gang_size,
            min: self.gang_min,
            per_worker: self.tasks_per_worker,
            policy: self.gang_policy.take(),
            topology: self.topology.take().map(|wanted| wanted.check(limits)).transpose()?,
        };
        let gang = gang.check()?;
        let container = container_fields::check(self.image.take(), self.container.take(), limits)?;
        // In a copy of an upload what is relative is relative to its top.
        let inside =
            self.working_dir.as_deref().filter(|_| self.upload.as_ref().is_none_or(String::is_empty));
        check_contained(container.as_deref(), gang.is_some(), inside)?;
        self.check_patterns(container.is_some())?;
        let depends_on = self.depends_on.take().unwrap_or_default();
        if depends_on.len() > limits.dependencies {
            return Err(ApiError::over_limit("depends_on", limits.dependencies, "entries"));
        }
        let named = |from: &str| depends_on.iter().filter(|name| *name == from).take(1).cloned().collect();
        let wanted = self.inputs.take().unwrap_or_default().into_iter().map(Into::into);
        let artifacts = artifact_inputs::check(wanted, named)?;
        let reference = optional("ref", self.reference.take(), limits.name)?;
        let rules = conditions::rules(&depends_on, self.rule.take(), self.rules.take())?;
        let hold = self.hold.unwrap_or(false).then_some(Hold::Asked { message: None });
        let mut spec = JobSpec { gang, container, ..self.spec(program, config)? };
        artifact_inputs::add(&mut spec, artifacts);
        Ok(NewJob {
            id: ids::job(),
            spec: Arc::new(spec),
            hold,
            reference,
            depends_on,
            rules,
            member: None,
            first_task: None,
        })
    }

    /// Takes the older names of two amounts: cores, and mebibytes.
    fn merge_amounts(&mut self) -> Result<(), ApiError> {
        if self.required_cpu.is_none() && self.required_memory.is_none() {
            return Ok(());
        }
        let amounts = self.resources.get_or_insert_default();
        let twice = |field: &'static str, other: &str| {
            let message = format!("{field} and resources.{other} are the same: give one of them");
            Err(ApiError::invalid_field(field, message))
        };
        if self.required_cpu.is_some() && amounts.cpus.is_some() {
            return twice("required_cpu", "cpus");
        }
        if self.required_memory.is_some() && amounts.memory_mb.is_some() {
            return twice("required_memory", "memory_mb");
        }
        amounts.cpus = amounts.cpus.or(self.required_cpu);
        amounts.memory_mb = amounts.memory_mb.or(self.required_memory);
        Ok(())
    }

    fn program(&mut self, limits: &Limits) -> Result<Program, ApiError> {
        let command = self.command.take().unwrap_or_default();
        let argv = self.argv.take().unwrap_or_default();
        match (command.trim().is_empty(), argv.is_empty()) {
            (true, true) => {
                Err(ApiError::bad_request("command_required", "command is required").at("command"))
            }
            (false, true) => {
                check_text("command", &command, limits.command)?;
                Ok(Program::Shell(command))
            }
            // With both, the arguments say how to run it; the line is derived from them.
            (_, false) => {
                let total: usize = argv.iter().map(|word| word.len() + 1).sum();
                if total > limits.command {
                    return Err(ApiError::over_limit("argv", limits.command, "bytes"));
                }
                argv.iter().try_for_each(|word| check_text("argv", word, limits.command))?;
                if argv[0].is_empty() {
                    return Err(ApiError::invalid_field("argv", "argv must begin with a program"));
                }
                Ok(Program::Argv(argv))
            }
        }
    }

    /// Refuses patterns where no file outlives the container.
    fn check_patterns(&self, contained: bool) -> Result<(), ApiError> {
        let has_copy = self.upload.as_ref().is_some_and(|upload| !upload.is_empty());
        if contained && !has_copy && self.artifacts.as_ref().is_some_and(|patterns| !patterns.is_empty()) {
            let message = "the files of a container go with it, so that patterns find nothing; send a directory along (upload), whose \
                           copy stays, or let the job put what is to be kept into $MUSTER_ARTIFACTS and leave out artifacts";
            return Err(ApiError::invalid_field("artifacts", message));
        }
        Ok(())
    }

    fn spec(self, program: Program, config: &ServerConfig) -> Result<JobSpec, ApiError> {
        let limits = &config.limits;
        let name = optional("name", self.name, limits.name)?;
        let queue = optional("queue_name", self.queue_name, limits.name)?;
        let working_dir = optional("working_dir", self.working_dir, limits.path)?;
        let inputs = InputFields {
            upload: self.upload,
            stdin: self.stdin,
            stdin_upload: self.stdin_upload,
            output_paths: [self.stdout_path.clone(), self.stderr_path.clone()],
        };
        let resources = self.resources.map(|amounts| amounts.check(limits)).transpose()?;
        let retry = self.retry.map(RetryBody::check).transpose()?.unwrap_or_default();
        conditions::check_growth(&retry, resources.as_ref())?;
        Ok(JobSpec {
            program,
            name,
            env: check_env(self.env.unwrap_or_default(), limits)?,
            inputs: inputs.check(working_dir.as_deref())?,
            working_dir,
            resources,
            tags: check_tags(self.tags.unwrap_or_default(), limits)?,
            exclusive: self.exclusive.unwrap_or(false),
            queue: queue.map(QueueName::new),
            priority: check_priority(self.priority.unwrap_or(0))?,
            max_attempts: check_attempts(self.max_retries)?,
            depends_on: Vec::new(),
            rules: Vec::new(),
            if_unmet: conditions::if_unmet(self.if_unmet.as_deref())?,
            unique: self.unique.map(|unique| unique.check(limits)).transpose()?,
            stop_signal: conditions::stop_signal(self.stop_signal)?,
            timeout: conditions::seconds("timeout_seconds", self.timeout_seconds)?,
            not_before: conditions::not_before(self.not_before, self.delay_seconds, config.clock.now())?,
            deadline: conditions::time("deadline", self.deadline)?,
            concurrency: self.concurrency.map(|limit| limit.check(limits)).transpose()?,
            retry,
            grace: check_grace(self.grace_seconds, config)?,
            idempotency_key: optional("idempotency_key", self.idempotency_key, limits.name)?,
            gang: None,
            gangs: BTreeMap::new(),
            launch: gang_submission::launch(self.launch.as_deref(), self.slurm_env.unwrap_or(false))?,
            exit0_finishes: gang_submission::exit0_finishes(self.on_preempt_exit0.as_deref())?,
            signal_scope: gang_submission::scope(self.signal_scope.as_deref())?,
            private: self.private.unwrap_or(false),
            user: optional("user", self.user, limits.name)?,
            proven_user: None,
            fixed: self.preemptible == Some(false),
            on_disconnect: conditions::on_disconnect(self.on_disconnect.as_deref())?,
            output: output_files::check(
                [self.stdout_path, self.stderr_path],
                self.open_mode.as_deref(),
                self.artifacts.unwrap_or_default(),
                limits,
            )?,
            secrets: secret_uses::check(self.secrets.unwrap_or_default())?,
            container: None,
            pty: self.pty.map(PtyBody::check).transpose()?,
        })
    }
}

/// A container has its own directories, and the tasks of a gang must reach each other.
fn check_contained(
    container: Option<&Container>,
    is_gang: bool,
    working_dir: Option<&str>,
) -> Result<(), ApiError> {
    let Some(container) = container else { return Ok(()) };
    if let Some(directory) =
        working_dir.filter(|directory| !directory.is_empty() && !directory.starts_with('/'))
    {
        let message = format!(
            "working_dir is {directory:?}; with an image it must be a whole path inside the container"
        );
        return Err(ApiError::invalid_field("working_dir", message));
    }
    if is_gang && matches!(container.network, Some(Network::None | Network::Bridge)) {
        let message = "the tasks of a gang reach each other by the addresses of their workers: leave container.network out, \
                       or say host";
        return Err(ApiError::invalid_field("container.network", message));
    }
    Ok(())
}

fn check_env(env: BTreeMap<String, String>, limits: &Limits) -> Result<BTreeMap<String, String>, ApiError> {
    let size: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size > limits.env {
        return Err(ApiError::over_limit("env", limits.env, "bytes"));
    }
    for (name, value) in &env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = format!("env has the name or value of {name:?}, which no environment can hold");
            return Err(ApiError::invalid_field("env", message));
        }
    }
    Ok(env)
}

fn check_priority(priority: i64) -> Result<i32, ApiError> {
    i32::try_from(priority).map_err(|_| {
        let message = format!("priority must be from {} to {}", i32::MIN, i32::MAX);
        ApiError::invalid_field("priority", message)
    })
}

fn check_attempts(max_retries: Option<i64>) -> Result<u32, ApiError> {
    let Some(given) = max_retries else { return Ok(DEFAULT_MAX_ATTEMPTS) };
    let fits = u32::try_from(given).ok().filter(|attempts| (1..=MAX_ATTEMPTS).contains(attempts));
    fits.ok_or_else(|| {
        ApiError::invalid_field("max_retries", format!("max_retries must be from 1 to {MAX_ATTEMPTS}"))
    })
}

fn check_grace(seconds: Option<i64>, config: &ServerConfig) -> Result<Option<Span>, ApiError> {
    let Some(given) = seconds else { return Ok(None) };
    let most = (config.timeouts.preempt.as_micros() / 1_000_000).saturating_sub(GRACE_MARGIN_SECONDS);
    let fits = u32::try_from(given).ok().filter(|seconds| u64::from(*seconds) <= most);
    fits.map(|seconds| Some(Span::from_secs(seconds))).ok_or_else(|| {
        ApiError::invalid_field("grace_seconds", format!("grace_seconds must be from 0 to {most}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lenient::{self, Reading};

    fn check(body: &str) -> Result<NewJob, ApiError> {
        lenient::decode::<SubmitBody>(body.as_bytes(), Reading::Strict)?
            .into_new_job(&ServerConfig::default())
    }

    fn message(body: &str) -> String {
        check(body).unwrap_err().message.into_owned()
    }

    #[test]
    fn a_command_or_arguments_are_required() {
        for body in ["{}", r#"{"command":""}"#, r#"{"command":" \t"}"#, r#"{"argv":[]}"#] {
            assert_eq!(message(body), "command is required", "{body}");
        }
        assert!(check(r#"{"argv":["true"]}"#).is_ok());
    }

    #[test]
    fn the_gang_check_comes_before_the_rest() {
        let body = r#"{"command":"x","gang_size":99999,"depends_on":["a"],"priority":99999999999}"#;
        assert!(message(body).starts_with("gang_size must be from 2 to "), "{}", message(body));
        for size in ["1", "0", "-3"] {
            let job = check(&format!(r#"{{"command":"x","gang_size":{size}}}"#)).unwrap();
            assert!(job.spec.gang.is_none());
        }
        let gang = check(r#"{"command":"x","gang_size":4,"gang_min":2,"tasks_per_worker":3}"#).unwrap();
        let gang = gang.spec.gang.clone().unwrap();
        assert_eq!((gang.size, gang.min, gang.per_worker, gang.keep_done), (4, Some(2), 3, false));
        for wrong in
            [r#""gang_min":5"#, r#""tasks_per_worker":0"#, r#""gang_policy":"some""#, r#""launch":"x""#]
        {
            assert!(check(&format!(r#"{{"command":"x","gang_size":4,{wrong}}}"#)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_are_named_with_their_value() {
        let long = "x".repeat(200_000);
        let command = message(&format!(r#"{{"command":"{long}"}}"#));
        assert_eq!(command, "command exceeds the limit of 131072 bytes");
        let name = message(&format!(r#"{{"command":"x","name":"{}"}}"#, &long[..300]));
        assert_eq!(name, "name exceeds the limit of 256 bytes");
        assert_eq!(message(r#"{"command":"x","max_retries":0}"#), "max_retries must be from 1 to 1000");
        assert_eq!(message(r#"{"command":"x","grace_seconds":41}"#), "grace_seconds must be from 0 to 40");
        assert!(message("{\"command\":\"a\\u0000b\"}").contains("NUL"));
    }

    #[test]
    fn defaults_and_amounts_are_taken_over() {
        let spec = check(r#"{"command":"x","resources":{"cpus":0.0005,"vram_mb":8}}"#).unwrap().spec;
        assert_eq!(spec.max_attempts, 3);
        let amounts = spec.resources.clone().unwrap();
        assert_eq!((amounts.cpu_millis, amounts.vram_mb), (1, 8));
        assert!(check(r#"{"command":"x"}"#).unwrap().spec.resources.is_none());
        assert!(check(r#"{"command":"x","resources":{}}"#).unwrap().spec.resources.is_some());
    }
}
