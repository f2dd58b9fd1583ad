//! From a claimed job to the container that it is to have.

use std::sync::Arc;

use muster_protocol::{Container, ContainerNetwork, Gpu, Job};

use super::engine::Engine;
use super::mounts::{self, AllowedMount};
use super::pull::Wanted;
use super::spec::{ContainerSpec, FileMount};
use crate::visible_devices;

const MIB: u64 = 1 << 20;

/// What is to be there, and what is to be made of it.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) spec: ContainerSpec,
    pub(crate) wanted: Wanted,
}

/// Plans the container of a job that names an image.
pub(crate) fn plan(
    job: &Job,
    image: &str,
    engine: &Engine,
    around: Surroundings<'_>,
) -> Result<Planned, String> {
    let asked = job.container.as_deref().cloned().unwrap_or_default();
    let mounts = asked.mounts.iter().map(|mount| mounts::admit(mount, around.allowed));
    let mounts = mounts.collect::<Result<Vec<FileMount>, String>>()?;
    let resources = job.resources.clone().unwrap_or_default();
    let bytes = |mib: u64| i64::try_from(mib.saturating_mul(MIB)).unwrap_or(i64::MAX);
    let positive = |amount: u64| (amount > 0).then(|| bytes(amount));
    let ulimits = asked.ulimits.iter().map(|(name, text)| ulimit(name, text));
    Ok(Planned {
        wanted: Wanted {
            reach: engine.reach.clone(),
            image: image.to_owned(),
            policy: asked.pull.unwrap_or_default(),
            credentials: around.credentials,
        },
        spec: ContainerSpec {
            reach: engine.reach.clone(),
            image: image.to_owned(),
            image_id: None,
            working_dir: job.working_dir.clone(),
            network: network(&asked, job).to_owned(),
            read_only: asked.read_only,
            init: asked.init.unwrap_or(true) && engine.has_init,
            mounts,
            nano_cpus: (resources.cpus > 0.0).then_some((resources.cpus * 1e9) as i64),
            memory_bytes: positive(resources.memory_mb),
            shm_bytes: asked.shm_mb.and_then(positive),
            pids: asked.pids.map(i64::from),
            ulimits: ulimits.collect::<Result<_, _>>()?,
            gpus: gpus(job, around.gpus)?,
            leader_only: job.signal_scope == Some(muster_protocol::SignalScope::Leader),
            entrypoint: asked.entrypoint,
            user: asked.user,
            groups: Vec::new(),
            no_new_privileges: false,
        },
    })
}

/// What the worker knows and allows.
pub(crate) struct Surroundings<'a> {
    pub(crate) allowed: &'a [AllowedMount],
    pub(crate) gpus: &'a [Gpu],
    /// What the registry asks for: `user:password`, or the text of a `config.json`.
    pub(crate) credentials: Option<Arc<str>>,
}

/// The tasks of a gang find each other by the addresses of their workers.
fn network(asked: &Container, job: &Job) -> &'static str {
    match asked.network {
        Some(ContainerNetwork::Bridge) => "bridge",
        Some(ContainerNetwork::Host) => "host",
        None if job.gang.is_some() => "host",
        Some(ContainerNetwork::None) | None => "none",
    }
}

/// Reads `1024` or `1024:4096`.
fn ulimit(name: &str, text: &str) -> Result<(String, i64, i64), String> {
    let wrong = || format!("the ulimit {name}={text} is neither a number nor SOFT:HARD");
    let (soft, hard) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| text.parse::<i64>().map_err(|_| wrong());
    Ok((name.to_owned(), number(soft)?, number(hard)?))
}

/// What the engine calls the GPUs that the job was given.
fn gpus(job: &Job, known: &[Gpu]) -> Result<Vec<String>, String> {
    let given = visible_devices::visible(job).into_iter();
    let given = given.filter_map(|index| known.iter().find(|gpu| gpu.index == index));
    let ids = given.map(|gpu| match gpu.vendor.as_deref() {
        None | Some("nvidia") => Ok(gpu.uuid.clone().unwrap_or_else(|| gpu.index.to_string())),
        Some(other) => {
            Err(format!("GPUs of {other} cannot be handed to a container; run the job without an image"))
        }
    });
    ids.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::engine::Reach;
    use super::*;

    fn engine() -> Engine {
        let reach = Reach { socket: "/s".into(), api: (1, 41), is_podman: false };
        Engine { reach, name: "docker".into(), version: "1".into(), has_init: true }
    }

    fn planned(extra: &serde_json::Value) -> Result<Planned, String> {
        let mut value = json!({"id": "job-1", "command": "x", "status": "running", "attempts": 1,
            "max_retries": 3, "created_at": "2026-01-01T00:00:00Z"});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let job: Job = serde_json::from_value(value).unwrap();
        let gpus = [Gpu { index: 1, uuid: Some("GPU-1".into()), ..Gpu::default() }];
        plan(&job, "busybox", &engine(), Surroundings { allowed: &[], gpus: &gpus, credentials: None })
    }

    #[test]
    fn a_plain_job_gets_a_closed_container() {
        let spec = planned(&json!({})).unwrap().spec;
        assert_eq!((spec.network.as_str(), spec.init, spec.read_only), ("none", true, false));
        assert_eq!(
            (spec.nano_cpus, spec.memory_bytes, spec.pids, spec.working_dir),
            (None, None, None, None)
        );
    }

    #[test]
    fn amounts_become_limits() {
        let asked = json!({"resources": {"cpus": 0.5, "memory_mb": 64}, "devices": [{"index": 1}],
            "container": {"network": "host", "shm_mb": 8, "pids": 9, "init": false,
                          "ulimits": {"nofile": "10:20", "core": "0"}}});
        let spec = planned(&asked).unwrap().spec;
        assert_eq!((spec.nano_cpus, spec.memory_bytes), (Some(500_000_000), Some(64 << 20)));
        assert_eq!((spec.shm_bytes, spec.pids, spec.init), (Some(8 << 20), Some(9), false));
        assert_eq!(spec.ulimits, [("core".to_owned(), 0, 0), ("nofile".to_owned(), 10, 20)]);
        assert_eq!((spec.network.as_str(), spec.gpus), ("host", vec!["GPU-1".to_owned()]));
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (container, words) in [
            (json!({"mounts": ["/etc:/etc"]}), "--allow-mount"),
            (json!({"ulimits": {"nofile": "many"}}), "nofile=many"),
        ] {
            let reason = planned(&json!({"container": container})).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
    }
}
