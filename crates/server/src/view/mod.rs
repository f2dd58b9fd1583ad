//! Domain objects as the wire shows them.

mod conditions;
mod containers;
mod devices;
mod events;
pub(crate) mod gangs;
mod inputs;
mod overview;
pub(crate) mod queues;
mod sets;
mod standing;
mod usage;
mod webhooks;
mod why;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_domain as domain;
use muster_domain::container::{engine_of, given};
use muster_protocol as wire;
use muster_store::{Claimed, JobView, Submitted, WorkerUsage};
use serde_json::Value;

use crate::clock::to_wire;

pub(crate) use events::event;
pub(crate) use overview::overview;
pub(crate) use sets::{pipeline, set};
pub(crate) use standing::with_standing;
pub(crate) use usage::attempts;
pub(crate) use webhooks::{dead_letter, webhook};
pub(crate) use why::why;

pub(crate) fn status(status: domain::Status) -> wire::JobStatus {
    match status {
        domain::Status::Pending | domain::Status::Delayed | domain::Status::Held => wire::JobStatus::Pending,
        domain::Status::Blocked => wire::JobStatus::Blocked,
        domain::Status::Reserved => wire::JobStatus::Reserved,
        domain::Status::Running => wire::JobStatus::Running,
        domain::Status::Preempting => wire::JobStatus::Preempting,
        domain::Status::Preempted => wire::JobStatus::Preempted,
        domain::Status::Finished => wire::JobStatus::Finished,
        domain::Status::Done => wire::JobStatus::Done,
        domain::Status::Failed => wire::JobStatus::Failed,
        domain::Status::Cancelled => wire::JobStatus::Cancelled,
    }
}

pub(crate) fn resources(amounts: &domain::Resources) -> wire::Resources {
    wire::Resources {
        cpus: amounts.cpu_millis as f64 / 1e3,
        memory_mb: amounts.memory_mb,
        vram_mb: amounts.vram_mb,
        gpus: amounts.gpus,
        counters: amounts.counters.clone(),
    }
}

fn artifact_input(input: &domain::ArtifactInput) -> wire::ArtifactInput {
    wire::ArtifactInput { from: input.from.clone(), path: input.path.clone(), to: input.to.clone() }
}

/// What the submitter wants besides where and when it runs.
fn wishes(spec: &domain::JobSpec) -> wire::Job {
    let on_disconnect = spec.on_disconnect.map(crate::conditions::on_disconnect_text);
    let secret = |wish: &domain::SecretUse| wire::SecretUse {
        name: wish.name.clone(),
        file: wish.file,
        variable: Some(wish.variable.clone()),
    };
    let secrets = spec.secrets.iter().map(secret).collect();
    let output = spec.output.as_deref().cloned().unwrap_or_default();
    let (image, container) = containers::of_spec(spec);
    let inputs = spec.inputs.as_deref();
    let id = |upload: &domain::UploadRef| upload.id.clone();
    let size = |size: domain::TerminalSize| wire::TerminalSize { columns: size.columns, rows: size.rows };
    wire::Job {
        on_disconnect,
        secrets,
        private: spec.private,
        proven_user: spec.proven_user.clone(),
        artifacts: output.artifacts,
        stdout_path: output.stdout,
        stderr_path: output.stderr,
        open_mode: output.append.then_some(wire::OpenMode::Append),
        image,
        container,
        upload: inputs.and_then(|inputs| inputs.upload.as_ref()).map(id),
        stdin_upload: inputs.and_then(|inputs| inputs.stdin.as_ref()).map(id),
        inputs: inputs.iter().flat_map(|inputs| &inputs.artifacts).map(artifact_input).collect(),
        pty: spec.pty.map(size),
        ..wire::Job::default()
    }
}

/// A job with its checkpoint: embedded when it is JSON, otherwise in base64.
pub(crate) fn job(job: &domain::Job, checkpoint: Option<&Arc<[u8]>>) -> wire::Job {
    let (spec, gang, member) = (job.spec.as_ref(), job.spec.gang.as_ref(), job.member.as_ref());
    wire::Job {
        id: job.id.to_string(),
        command: spec.program.to_line(),
        status: status(job.status()),
        created_at: to_wire(job.created_at),
        started_at: job.started_at.map(to_wire),
        done_at: job.done_at().map(to_wire),
        last_heart_beat: job.last_heartbeat().map(to_wire),
        max_retries: spec.max_attempts,
        attempts: job.attempts,
        depends_on: spec.depends_on.iter().map(|id| dependency(spec, *id)).collect(),
        resources: spec.resources.as_ref().map(resources),
        worker_id: job.worker().or(job.ran_on.as_ref()).map(|worker| worker.as_str().to_owned()),
        priority: spec.priority,
        queue_name: spec.queue.as_ref().map(|queue| queue.as_str().to_owned()),
        gang_id: gang.map(|gang| gang.id.to_string()),
        gang_size: gang.map_or(0, |gang| gang.size),
        gang_index: gang.map_or(0, |gang| gang.index),
        checkpoint: checkpoint.filter(|bytes| !bytes.is_empty()).map(|bytes| embed(bytes)),
        checkpoint_bytes: job.checkpoint_bytes,
        checkpoint_at: job.checkpoint_at.map(to_wire),
        outputs: job.outputs.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        reservation_epoch: job.reservation_epoch,
        reserved_at: reserved_at(job).map(to_wire),
        preemption_epoch: job.preemption_epoch,
        drain_started_at: job.drain_started_at().map(to_wire),
        name: spec.name.clone(),
        argv: argv(&spec.program),
        working_dir: spec.working_dir.clone(),
        tags: spec.tags.iter().cloned().collect(),
        exclusive: spec.exclusive,
        devices: devices::of_job(job),
        lease: job.lease.0,
        exit_code: job.exit.and_then(|exit| exit.code),
        signal: job.exit.and_then(|exit| exit.signal),
        reason: job.reason(),
        grace_seconds: spec.grace.map(|grace| (grace.as_micros() / 1_000_000) as u32),
        timeout_seconds: spec.timeout.map(domain::Span::as_secs_f64),
        expected_seconds: job.expected.map(domain::Span::as_secs_f64),
        not_before: job.delayed_until().or(spec.not_before).map(to_wire),
        deadline: spec.deadline.map(to_wire),
        stop_signal: spec.stop_signal.map(domain::signal::name),
        held: job.hold.as_ref().map(ToString::to_string),
        retry: conditions::retry(&spec.retry),
        concurrency: spec.concurrency.as_ref().map(conditions::concurrency),
        unique: spec.unique.as_ref().map(conditions::unique),
        rules: conditions::rules(spec),
        if_unmet: spec.if_unmet.map(conditions::if_unmet),
        pipeline_id: member.filter(|member| member.step.is_some()).map(|member| member.set.to_string()),
        array_id: member.filter(|member| member.step.is_none()).map(|member| member.set.to_string()),
        step: member.and_then(|member| member.step.as_deref().map(str::to_owned)),
        array_index: member.and_then(|member| member.index),
        gang_min: gang.and_then(|gang| gang.min),
        tasks_per_worker: gang.map(|gang| gang.per_worker).filter(|tasks| *tasks > 1),
        topology: gang.and_then(|gang| gang.topology.as_ref()).map(devices::topology),
        gang_policy: gang.filter(|gang| gang.keep_done).map(|_| wire::GangPolicy::KeepDone),
        launch: (spec.launch.mode == domain::LaunchMode::PerRank).then_some(wire::LaunchMode::PerRank),
        slurm_env: spec.launch.slurm_env,
        on_preempt_exit0: spec.exit0_finishes.then_some(wire::OnPreemptExit0::Success),
        signal_scope: spec.signal_scope.map(conditions::scope),
        user: spec.user.clone(),
        preemptible: spec.fixed.then_some(false),
        served_seconds: (job.served > domain::Span::ZERO).then(|| job.served.as_secs_f64()),
        pinned: job.pinned,
        // What a claim, a submit and a list of tasks say besides is added there.
        ..told(job)
    }
}

/// What its workers told of it besides how it ended.
fn told(job: &domain::Job) -> wire::Job {
    wire::Job {
        prepared_at: prepared_at(job),
        usage: usage::of_job(job),
        image_digest: job.image_digest().map(ToString::to_string),
        image_pull: containers::pull(job),
        ..wishes(&job.spec)
    }
}

fn prepared_at(job: &domain::Job) -> Option<jiff::Timestamp> {
    job.preparation().and_then(|claim| claim.prepared_at).map(to_wire)
}

fn argv(program: &domain::Program) -> Vec<String> {
    match program {
        domain::Program::Shell(_) => Vec::new(),
        domain::Program::Argv(words) => words.clone(),
    }
}

fn reserved_at(job: &domain::Job) -> Option<domain::Timestamp> {
    // It stays known after the claim, until the task waits again.
    let placed = !matches!(job.phase, domain::Phase::Blocked { .. });
    job.round.as_ref().filter(|_| placed).map(|round| round.reserved_at)
}

/// A dependency as it was named: a job, or a whole gang.
fn dependency(spec: &domain::JobSpec, id: domain::JobId) -> String {
    spec.gangs.get(&id).map_or_else(|| id.to_string(), ToString::to_string)
}

fn embed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| Value::String(STANDARD.encode(bytes)))
}

pub(crate) fn job_view(view: &JobView) -> wire::Job {
    job(&view.job, view.checkpoint.as_ref())
}

pub(crate) fn submitted(submitted: Submitted) -> wire::Job {
    wire::Job { warnings: submitted.warnings, ..job(&submitted.job, None) }
}

/// A claimed job: with the environment its process needs, and its checkpoint in it when it is small
/// enough for one variable.
pub(crate) fn claimed(claimed: &Claimed, checkpoint_env: usize) -> wire::Job {
    let mut env = claimed.job.spec.env.clone();
    env.extend(inputs::environment(claimed));
    if let Some(bytes) =
        claimed.checkpoint.as_ref().filter(|bytes| (1..=checkpoint_env).contains(&bytes.len()))
    {
        env.insert("CHECKPOINT_DATA".to_owned(), STANDARD.encode(bytes));
    }
    let gang = gangs::assignment(&claimed.job, &claimed.peers);
    env.extend(gang.iter().flat_map(gangs::environment));
    let lease_ttl_ms = claimed.job.lease_span.map(|span| span.as_micros() / 1_000);
    let mut shown = job(&claimed.job, claimed.checkpoint.as_ref());
    for path in shown.stdout_path.iter_mut().chain(&mut shown.stderr_path) {
        *path = domain::output_path::fill(path, &claimed.job);
    }
    wire::Job { env, gang, lease_ttl_ms, ..shown }
}

pub(crate) fn worker_status(status: domain::WorkerStatus) -> wire::WorkerStatus {
    match status {
        domain::WorkerStatus::Active => wire::WorkerStatus::Active,
        domain::WorkerStatus::Offline => wire::WorkerStatus::Offline,
    }
}

pub(crate) fn worker(usage: &WorkerUsage) -> wire::Worker {
    let worker = &usage.worker;
    wire::Worker {
        id: worker.id.as_str().to_owned(),
        exec_addr: worker.exec_addr.clone(),
        resources: resources(&worker.resources),
        tags: given(&worker.tags).cloned().collect(),
        containers: engine_of(&worker.tags).map(|(name, version)| wire::ContainerEngine {
            name: name.to_owned(),
            version: version.to_owned(),
        }),
        status: worker_status(worker.status),
        last_heartbeat: to_wire(worker.last_heartbeat),
        registered_at: to_wire(worker.registered_at),
        gpus: devices::of_worker(usage),
        labels: worker.labels.clone(),
        exclusive: usage.exclusive,
        slots: worker.slots,
        hostname: worker.hostname.clone(),
        isolation: worker.isolation.clone(),
        run_as: worker.run_as.clone(),
        version: worker.version.clone(),
        used: resources(&usage.used),
        running: usage.running,
        quarantine: worker.health.quarantine.as_ref().map(|quarantine| wire::Quarantine {
            since: to_wire(quarantine.since),
            probe_at: to_wire(quarantine.probe_at),
            evidence: quarantine.lines(),
            revoked: quarantine.revoked,
        }),
    }
}

/// The order to stop a job. All tasks of a gang have one deadline, so that what is left of the time counts.
pub(crate) fn stop_order(job: &domain::Job, grace: Duration, now: domain::Timestamp) -> wire::StopOrder {
    let whole = job.spec.grace.map_or_else(|| grace.as_millis() as u64, |own| own.as_micros() / 1_000);
    let passed = job.drain_started_at().map_or(0, |since| now.since(since).as_micros() / 1_000);
    let grace_ms = whole.saturating_sub(passed);
    let comes_back = match &job.phase {
        domain::Phase::Preempting { stop, .. } => stop.comes_back(),
        _ => false,
    };
    wire::StopOrder {
        job_id: job.id.to_string(),
        lease: job.lease.0,
        preemption_epoch: job.preemption_epoch,
        reason: job.reason().unwrap_or_default(),
        grace_ms,
        comes_back,
        scope: job.spec.signal_scope.map(conditions::scope),
        signal: job.spec.stop_signal,
    }
}

#[cfg(test)]
mod tests {
    use domain::{JobId, JobSpec, Phase, Timestamp};

    use super::*;

    #[test]
    fn a_checkpoint_is_embedded_as_json_or_else_in_base64() {
        let spec = Arc::new(JobSpec::shell("x"));
        let it = domain::Job::new(JobId::from_random([1; 16]), spec, Phase::Pending, Timestamp::default());
        let show = |bytes: &[u8]| job(&it, Some(&Arc::from(bytes))).checkpoint;
        assert_eq!(show(br#"{"step":42}"#), Some(serde_json::json!({"step": 42})));
        assert_eq!(show(&[0, 255]), Some(Value::String("AP8=".to_owned())));
    }

    #[test]
    fn large_checkpoints_stay_out_of_the_environment() {
        let spec = Arc::new(JobSpec { env: [("A".into(), "1".into())].into(), ..JobSpec::shell("x") });
        let it = domain::Job::new(JobId::from_random([1; 16]), spec, Phase::Pending, Timestamp::default());
        let take = |size: usize| {
            claimed(
                &Claimed {
                    job: it.clone(),
                    checkpoint: Some(vec![0; size].into()),
                    inputs: Vec::new(),
                    peers: Vec::new(),
                },
                10,
            )
            .env
        };
        assert_eq!(take(10).len(), 2);
        assert_eq!(take(11).keys().collect::<Vec<_>>(), ["A"]);
    }
}
