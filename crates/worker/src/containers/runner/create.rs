//! From the order of an attempt to what the engine is asked for.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, DeviceRequest, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits,
};

use super::Order;
use crate::containers::labels;
use crate::containers::spec::FileMount;

/// Has the init send signals to all processes of the job, as the keeper does on the host.
const SIGNAL_THE_GROUP: &str = "TINI_KILL_PROCESS_GROUP=1";

/// Keeps the bytes of output as they are, unlike the engine's usual driver, and is bounded. It is read again only when the
/// engine was gone for a while.
const LOG_DRIVER: &str = "local";
/// The only one of Podman that is read again and needs no service of the system.
const PODMAN_LOG_DRIVER: &str = "k8s-file";
const LOG_OPTIONS: [(&str, &str); 3] = [("max-size", "64m"), ("max-file", "2"), ("compress", "false")];

/// The container that the engine is to make.
pub(super) fn body(order: &Order) -> ContainerCreateBody {
    let spec = &order.spec;
    let mut env = order.env.clone();
    if spec.init && !spec.leader_only {
        env.push(SIGNAL_THE_GROUP.to_owned());
    }
    let has_input = (order.stdin.is_some() || order.terminal).then_some(true);
    ContainerCreateBody {
        image: Some(spec.image_id.clone().unwrap_or_else(|| spec.image.clone())),
        cmd: Some(order.command.clone()),
        entrypoint: spec
            .entrypoint
            .clone()
            .map(|words| if words.is_empty() { vec![String::new()] } else { words }),
        env: Some(env),
        working_dir: spec.working_dir.clone(),
        user: spec.user.clone(),
        labels: Some(labels::labels(&order.directory, &order.key, &order.env)),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: order.terminal.then_some(true),
        attach_stdin: has_input,
        open_stdin: has_input,
        // It ends when all of the file was passed on.
        stdin_once: has_input,
        host_config: Some(host(order)),
        ..ContainerCreateBody::default()
    }
}

fn host(order: &Order) -> HostConfig {
    let spec = &order.spec;
    let options = LOG_OPTIONS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let limits = spec.ulimits.iter().map(|(name, soft, hard)| ResourcesUlimits {
        name: Some(name.clone()),
        soft: Some(*soft),
        hard: Some(*hard),
    });
    let limits: Vec<_> = limits.collect();
    HostConfig {
        network_mode: Some(spec.network.clone()),
        group_add: (!spec.groups.is_empty()).then(|| spec.groups.iter().map(ToString::to_string).collect()),
        security_opt: spec.no_new_privileges.then(|| vec!["no-new-privileges:true".to_owned()]),
        readonly_rootfs: spec.read_only.then_some(true),
        init: spec.init.then_some(true),
        mounts: Some(spec.mounts.iter().chain(&order.files).map(mount).collect()),
        nano_cpus: spec.nano_cpus,
        memory: spec.memory_bytes,
        // No swap on top.
        memory_swap: spec.memory_bytes,
        shm_size: spec.shm_bytes,
        pids_limit: spec.pids,
        ulimits: (!limits.is_empty()).then_some(limits),
        device_requests: (!spec.gpus.is_empty()).then(|| vec![gpus(&spec.gpus)]),
        log_config: Some(HostConfigLogConfig {
            typ: Some(if spec.reach.is_podman { PODMAN_LOG_DRIVER } else { LOG_DRIVER }.to_owned()),
            config: (!spec.reach.is_podman).then(|| HashMap::from(options)),
        }),
        ..HostConfig::default()
    }
}

/// The engine refuses a source that is not there, where it would make a directory of a plain `bind`.
fn mount(file: &FileMount) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(file.source.clone()),
        target: Some(file.target.clone()),
        read_only: file.read_only.then_some(true),
        ..Mount::default()
    }
}

fn gpus(ids: &[String]) -> DeviceRequest {
    DeviceRequest {
        device_ids: Some(ids.to_vec()),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..DeviceRequest::default()
    }
}
