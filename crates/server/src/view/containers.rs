//! The container of a job as the wire shows it.

use muster_domain as domain;
use muster_domain::container::{Network, Pull};
use muster_protocol as wire;

/// The image, and how its container is made where anything was said about that.
pub(super) fn of_spec(spec: &domain::JobSpec) -> (Option<String>, Option<Box<wire::Container>>) {
    let Some(asked) = spec.container.as_deref() else { return (None, None) };
    let container = wire::Container {
        network: asked.network.map(network),
        pull: asked.pull.map(policy),
        mounts: asked.mounts.clone(),
        read_only: asked.read_only,
        user: asked.user.clone(),
        entrypoint: asked.entrypoint.clone(),
        init: asked.init,
        shm_mb: asked.shm_mb,
        pids: asked.pids,
        ulimits: asked.ulimits.clone(),
        credentials: asked.credentials.clone(),
    };
    let said = container != wire::Container::default();
    (Some(asked.image.clone()), said.then(|| Box::new(container)))
}

/// How far the worker that holds a job is with the pull of its image.
pub(super) fn pull(job: &domain::Job) -> Option<wire::ImagePull> {
    job.image_pull().map(|pull| wire::ImagePull { bytes: pull.bytes, total_bytes: pull.total })
}

fn network(network: Network) -> wire::ContainerNetwork {
    match network {
        Network::None => wire::ContainerNetwork::None,
        Network::Bridge => wire::ContainerNetwork::Bridge,
        Network::Host => wire::ContainerNetwork::Host,
    }
}

fn policy(pull: Pull) -> wire::PullPolicy {
    match pull {
        Pull::Missing => wire::PullPolicy::Missing,
        Pull::Always => wire::PullPolicy::Always,
        Pull::Never => wire::PullPolicy::Never,
    }
}
