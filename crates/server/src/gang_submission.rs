//! From the gang fields of a submit to the tasks of a gang.

use std::sync::Arc;

use muster_domain::limits::MAX_GANG;
use muster_domain::{GangMembership, JobSpec, Launch, LaunchMode, SignalScope, Topology};
use muster_store::NewJob;

use crate::error::ApiError;
use crate::ids;

/// What a submit says about gangs and about how processes are started and stopped, as it came.
#[derive(Debug, Default)]
pub(crate) struct GangFields {
    pub(crate) size: Option<i64>,
    pub(crate) min: Option<i64>,
    pub(crate) per_worker: Option<i64>,
    pub(crate) policy: Option<String>,
    pub(crate) topology: Option<Topology>,
}

impl GangFields {
    /// The membership of the first task; `None` for a job on its own.
    pub(crate) fn check(self) -> Result<Option<GangMembership>, ApiError> {
        let size = self.size.unwrap_or(0);
        if size <= 1 {
            return Ok(None);
        }
        let bounded = |field: &'static str, value: i64, least: i64, most: i64| {
            if (least..=most).contains(&value) {
                return Ok(value as u32);
            }
            Err(ApiError::invalid_field(
                field,
                format!("{field} must be from {least} to {most}, not {value}"),
            ))
        };
        let size = bounded("gang_size", size, 2, i64::from(MAX_GANG))?;
        let min = self.min.map(|min| bounded("gang_min", min, 1, i64::from(size))).transpose()?;
        let per_worker = bounded("tasks_per_worker", self.per_worker.unwrap_or(1), 1, i64::from(size))?;
        let keep_done = match self.policy.as_deref() {
            None | Some("" | "restart_all") => false,
            Some("keep_done") => true,
            Some(other) => {
                let message = format!("gang_policy must be restart_all or keep_done, not {other:?}");
                return Err(ApiError::invalid_field("gang_policy", message));
            }
        };
        let (min, topology) = (min.filter(|min| *min < size), self.topology);
        Ok(Some(GangMembership { id: ids::gang(), size, index: 0, min, per_worker, keep_done, topology }))
    }
}

pub(crate) fn launch(mode: Option<&str>, slurm_env: bool) -> Result<Launch, ApiError> {
    let mode = match mode {
        // The variables of Slurm speak of one process for each rank.
        None | Some("") if slurm_env => LaunchMode::PerRank,
        None | Some("" | "per_node") => LaunchMode::PerNode,
        Some("per_rank") => LaunchMode::PerRank,
        Some(other) => {
            let message = format!("launch must be per_node or per_rank, not {other:?}");
            return Err(ApiError::invalid_field("launch", message));
        }
    };
    if slurm_env && mode == LaunchMode::PerNode {
        let message =
            "slurm_env needs the launch mode per_rank: the variables speak of one process for each rank";
        return Err(ApiError::invalid_field("slurm_env", message));
    }
    Ok(Launch { mode, slurm_env })
}

pub(crate) fn exit0_finishes(text: Option<&str>) -> Result<bool, ApiError> {
    match text {
        None | Some("" | "requeue") => Ok(false),
        Some("success") => Ok(true),
        Some(other) => {
            let message = format!("on_preempt_exit0 must be requeue or success, not {other:?}");
            Err(ApiError::invalid_field("on_preempt_exit0", message))
        }
    }
}

pub(crate) fn scope(text: Option<&str>) -> Result<Option<SignalScope>, ApiError> {
    Ok(Some(match text {
        None | Some("") => return Ok(None),
        Some("leader") => SignalScope::Leader,
        Some("group") => SignalScope::Group,
        Some("descendants") => SignalScope::Descendants,
        Some("all") => SignalScope::All,
        Some(other) => {
            let message = format!("signal_scope must be leader, group, descendants or all, not {other:?}");
            return Err(ApiError::invalid_field("signal_scope", message));
        }
    }))
}

/// The jobs with every gang spread out into its tasks. Keys and the local name stay with the first task.
pub(crate) fn spread(jobs: Vec<NewJob>) -> Vec<NewJob> {
    let mut all = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some(gang) = &job.spec.gang else {
            all.push(job);
            continue;
        };
        // Elements of an array come with the same one.
        let gang = GangMembership { id: ids::gang(), ..gang.clone() };
        let place = all.len();
        let own = JobSpec { gang: Some(gang.clone()), ..job.spec.as_ref().clone() };
        let shared = JobSpec { idempotency_key: None, unique: None, ..own.clone() };
        let later = |index: u32| {
            let membership = GangMembership { index, ..gang.clone() };
            NewJob {
                id: ids::job(),
                spec: Arc::new(JobSpec { gang: Some(membership), ..shared.clone() }),
                reference: None,
                first_task: Some(place),
                ..job.clone()
            }
        };
        let later: Vec<NewJob> = (1..gang.size).map(later).collect();
        all.push(NewJob { spec: Arc::new(own), ..job });
        all.extend(later);
    }
    all
}

/// How many jobs these become once spread out.
pub(crate) fn count(jobs: &[NewJob]) -> usize {
    jobs.iter().map(|job| job.spec.gang.as_ref().map_or(1, |gang| gang.size as usize)).sum()
}
