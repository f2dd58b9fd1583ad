//! Variables of the worker's own environment that must not reach a task, even if the worker passes them on.
//!
//! A worker may itself have been started by `srun` or `torchrun`. What those told it is wrong for its jobs.

const NAMES: [&str; 19] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NNODES",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_COORDINATOR_PORT",
    "JAX_LOCAL_DEVICE_IDS",
    "TF_CONFIG",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "OMP_NUM_THREADS",
];
const PREFIXES: [&str; 5] = ["PET_", "TORCHELASTIC_", "SLURM_", "SLURMD_", "GANG_"];

/// Whether a variable says something about a round, so that only the round itself may say it.
pub(crate) fn governed(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
