//! How this worker isolates its jobs: chosen once at the start, and said once.

use std::path::Path;

use crate::config::{ExecutorKind, WorkerConfig};
use crate::error::WorkerError;
use crate::executor::Executor;
use crate::keeper::{self, Choice, Isolation, IsolationForm, IsolationMode};

/// Chooses the best form that can be had and says which it is, and why it is no better.
pub(super) fn choose(config: &WorkerConfig, data_dir: &Path) -> Result<Isolation, WorkerError> {
    if config.executor == ExecutorKind::Fake {
        return Ok(Isolation::default());
    }
    let wanted = match config.isolation {
        IsolationMode::Auto => "auto",
        IsolationMode::Exactly(form) => form.as_str(),
    };
    let failed = |why| WorkerError::Isolation { wanted, why };
    let Choice { mut isolation, why } = keeper::choose(config.isolation, data_dir).map_err(failed)?;
    let form = isolation.form;
    match form {
        IsolationForm::None if config.require_isolation => {
            return Err(WorkerError::Isolation { wanted: "cgroup-v2 or cgroup-v1", why });
        }
        IsolationForm::None if config.isolation == IsolationMode::Auto => {
            tracing::warn!(
                isolation = %form, why, "jobs are not held to their limits by the kernel; memory is watched"
            );
        }
        IsolationForm::None => tracing::info!(isolation = %form, "jobs are not isolated, as was asked for"),
        IsolationForm::CgroupV1 | IsolationForm::CgroupV2 => {
            tracing::info!(isolation = %form, why, "jobs run in control groups");
        }
    }
    if config.cpu_bind {
        keeper::bind_cpus(&mut isolation).map_err(|why| WorkerError::CpuBind { why })?;
    }
    let private_tmp = config.private_tmp.then(|| keeper::choose_private_tmp(data_dir)).transpose();
    isolation.private_tmp = private_tmp.map_err(|why| WorkerError::PrivateTmp { why })?;
    Ok(Isolation { cpu_limit: config.cpu_limit, max_processes: config.max_processes, ..isolation })
}

/// A keeper from before may isolate its jobs in another way than was chosen.
pub(super) fn check(config: &WorkerConfig, executor: &Executor) -> Result<(), WorkerError> {
    let is = executor.isolation;
    if config.cpu_bind && !executor.cpu_bind {
        let why = "the keeper from before does not bind them; start again when its jobs have ended";
        return Err(WorkerError::CpuBind { why: why.to_owned() });
    }
    if config.private_tmp && !executor.private_tmp {
        let why = "the keeper from before cannot do it; start again when its jobs have ended";
        return Err(WorkerError::PrivateTmp { why: why.to_owned() });
    }
    if config.require_isolation && is == IsolationForm::None && config.executor != ExecutorKind::Fake {
        let why = "the keeper from before runs jobs without isolation; start again when they have ended";
        return Err(WorkerError::Isolation { wanted: "cgroup-v2 or cgroup-v1", why: why.to_owned() });
    }
    Ok(())
}
