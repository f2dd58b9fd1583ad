//! The variables of launch mode "per rank": one process is one rank, as `srun` starts them.
//!
//! Nothing here is for a launcher: a `torchrun` inside would start ranks of ranks.

use super::round::{Share, Variables};
use super::topology::Topology;

/// What `torch.distributed`, `DeepSpeed`, Accelerate and JAX read in a process that is a rank.
pub(super) fn variables(place: &Topology<'_>, share: &Share) -> Variables {
    let mut variables = Variables::default();
    variables.set("RANK", place.rank);
    variables.set("WORLD_SIZE", place.peers.len());
    variables.set("LOCAL_RANK", place.local_rank);
    variables.set("LOCAL_WORLD_SIZE", place.local_size());
    variables.set("NNODES", place.nodes.len());
    variables.set("NODE_RANK", place.node_rank);
    variables.set("OMP_NUM_THREADS", share.threads(1));
    if let Some(point) = place.meeting_point() {
        variables.set("MASTER_ADDR", point.host);
        variables.set_known("MASTER_PORT", point.port);
        variables.set_known("JAX_COORDINATOR_ADDRESS", point.address());
        variables.set_known("JAX_COORDINATOR_PORT", point.port);
    }
    variables.set_known("JAX_LOCAL_DEVICE_IDS", devices(place.local_rank, share.gpus));
    variables
}

/// The GPUs of a rank where each has as many as the others on its node; `None` where it has none.
fn devices(local_rank: usize, gpus: u64) -> Option<String> {
    let first = local_rank as u64 * gpus;
    let ids: Vec<String> = (first..first + gpus).map(|id| id.to_string()).collect();
    (!ids.is_empty()).then(|| ids.join(","))
}
