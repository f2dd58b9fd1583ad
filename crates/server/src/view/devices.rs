//! GPUs and topology as the wire shows them.

use muster_domain as domain;
use muster_protocol as wire;
use muster_store::WorkerUsage;

/// The GPUs of a job: those that it holds, or that it held last when it has ended.
pub(super) fn of_job(job: &domain::Job) -> Vec<wire::JobDevice> {
    let shown = job.status().holds_capacity() || job.is_terminal();
    let Some(grant) = job.devices.as_ref().filter(|_| shown) else { return Vec::new() };
    let device = |index: &u32| wire::JobDevice { index: *index, vram_mb: grant.share_mb() };
    grant.indices().iter().map(device).collect()
}

/// The GPUs of a worker, each with those that hold it.
pub(super) fn of_worker(usage: &WorkerUsage) -> Vec<wire::GpuState> {
    let state = |device: &domain::Device| {
        let holders: Vec<&(domain::JobId, domain::Grant)> =
            usage.holders.iter().filter(|(_, grant)| grant.indices().contains(&device.index)).collect();
        let taken = |(_, grant): &&(domain::JobId, domain::Grant)| grant.share_mb().unwrap_or(device.vram_mb);
        wire::GpuState {
            used_mb: holders.iter().map(taken).sum(),
            jobs: holders.iter().map(|(job, _)| job.to_string()).collect(),
            gpu: wire::Gpu {
                index: device.index,
                vram_mb: device.vram_mb,
                uuid: device.uuid.clone(),
                name: device.name.clone(),
                vendor: device.vendor.clone(),
            },
        }
    };
    usage.worker.devices.iter().map(state).collect()
}

pub(super) fn topology(topology: &domain::Topology) -> wire::Topology {
    wire::Topology {
        label: topology.label.clone(),
        mode: match topology.mode {
            domain::TopologyMode::Pack => wire::TopologyMode::Pack,
            domain::TopologyMode::Spread => wire::TopologyMode::Spread,
        },
        required: topology.required,
    }
}
