//! The variables of launch mode "per node": one process stands for a node and starts its own workers.
//!
//! Nothing here names a rank of a worker: a lone `LOCAL_RANK` or `WORLD_SIZE` makes frameworks believe that
//! somebody else has started their workers.

use super::round::{Share, Variables};
use super::topology::Topology;

/// What `torchrun` and its kin need to run over all nodes without a flag.
pub(super) fn variables(place: &Topology<'_>, share: &Share) -> Variables {
    let mut variables = Variables::default();
    let (nodes, node) = (place.peers.len(), place.rank);
    let processes = processes(share);
    variables.set("PET_NNODES", nodes);
    variables.set("PET_NPROC_PER_NODE", processes);
    variables.set("PET_NODE_RANK", node);
    // Starting again is for the whole gang, not for the workers of one node.
    variables.set("PET_MAX_RESTARTS", 0);
    variables.set("NNODES", nodes);
    variables.set("NODE_RANK", node);
    variables.set("OMP_NUM_THREADS", share.threads(processes));
    if let Some(point) = place.meeting_point() {
        variables.set("PET_MASTER_ADDR", point.bracketed());
        variables.set("MASTER_ADDR", point.host);
        variables.set_known("PET_MASTER_PORT", point.port);
        variables.set_known("MASTER_PORT", point.port);
        variables.set_known("JAX_COORDINATOR_ADDRESS", point.address());
    }
    variables
}

/// How many workers a node starts: one for each GPU, or one where there are none.
pub(super) fn processes(share: &Share) -> u64 {
    share.gpus.max(1)
}
