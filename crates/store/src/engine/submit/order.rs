//! Names of a submission resolved, and its jobs put into an order in which each follows what it depends on.

use std::collections::HashMap;

use muster_domain::{JobId, Rejection, dependency};

use super::intake::Parent;
use crate::command::{NewJob, Submit};
use crate::engine::settle::gang_name;
use crate::engine::work::Work;
use crate::tx::Tx;

pub(super) fn resolve<T: Tx>(
    work: &Work<'_, T>,
    references: &HashMap<&str, usize>,
    new: &NewJob,
) -> Result<Vec<Parent>, Rejection> {
    let parent = |name: &String| {
        if let Some(index) = references.get(name.as_str()) {
            return Ok(Parent::Sibling(*index));
        }
        if let Some(gang) = gang_name(name) {
            let tasks = work.tasks_of(gang);
            let first = tasks.first().map(|task| Parent::Existing(task.id));
            return first.ok_or_else(|| Rejection::UnknownDependency { name: name.clone() });
        }
        let unknown = || Rejection::UnknownDependency { name: name.clone() };
        let id: JobId = name.parse().map_err(|_| unknown())?;
        work.job(id).map(|job| Parent::Existing(job.id)).map_err(|_| unknown())
    };
    new.depends_on.iter().map(parent).collect()
}

/// The jobs of a submission, each after those of the same submission that it depends on.
pub(super) fn sorted(
    submit: &Submit,
    parents: &[Result<Vec<Parent>, Rejection>],
) -> Result<Vec<usize>, Rejection> {
    if submit.jobs.iter().all(|job| job.reference.is_none()) {
        return Ok((0..submit.jobs.len()).collect());
    }
    let name = |(index, job): (usize, &NewJob)| job.reference.clone().unwrap_or_else(|| format!("#{index}"));
    let names: Vec<String> = submit.jobs.iter().enumerate().map(name).collect();
    let siblings = |parents: &Result<Vec<Parent>, Rejection>| {
        let parents = parents.iter().flatten();
        parents.filter_map(|p| if let Parent::Sibling(index) = p { Some(*index) } else { None }).collect()
    };
    let edges: Vec<Vec<usize>> = parents.iter().map(siblings).collect();
    dependency::order(&names, &edges)
}

/// A refusal of a lone job or gang is its own; a batch says that it is the batch which was refused.
pub(super) fn refused(submit: &Submit, cause: &Rejection) -> Rejection {
    if submit.jobs.iter().skip(1).all(|job| job.first_task == Some(0)) {
        return cause.clone();
    }
    Rejection::BatchRefused { cause: Box::new(cause.clone()) }
}
