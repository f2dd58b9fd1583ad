//! Shapes of new jobs: the name under which each is stored, and remarks on those that no worker can hold.

use std::collections::HashMap;

use muster_domain::{Job, Requirement, Shape, ShapeId, Timestamp};

use crate::engine::work::Work;
use crate::error::StoreError;
use crate::tx::Tx;

/// Gives each distinct shape its stored name, moving on where a name is taken by another.
pub(in crate::engine) async fn name_shapes<T: Tx>(
    work: &mut Work<'_, T>,
    jobs: &mut [Job],
) -> Result<(), StoreError> {
    let mut wanted: HashMap<ShapeId, Shape> = HashMap::new();
    for job in jobs.iter() {
        wanted.entry(job.shape).or_insert_with(|| job.spec.shape());
    }
    let ids: Vec<ShapeId> = wanted.keys().copied().collect();
    let known: HashMap<ShapeId, Shape> = work.tx.shapes(&ids).await?.into_iter().collect();
    let mut new: Vec<(ShapeId, Shape)> = Vec::new();
    let mut renamed: HashMap<ShapeId, ShapeId> = HashMap::new();
    for (id, shape) in wanted {
        match known.get(&id) {
            Some(stored) if *stored == shape => {}
            None => new.push((id, shape)),
            Some(_) => {
                let free = free_name(work, id, &shape).await?;
                renamed.insert(id, free);
                new.push((free, shape));
            }
        }
    }
    for job in jobs.iter_mut().filter(|_| !renamed.is_empty()) {
        if let Some(name) = renamed.get(&job.shape) {
            job.shape = *name;
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    work.tx.insert_shapes(&new).await
}

async fn free_name<T: Tx>(
    work: &mut Work<'_, T>,
    taken: ShapeId,
    shape: &Shape,
) -> Result<ShapeId, StoreError> {
    let mut name = taken.next();
    loop {
        match work.tx.shapes(&[name]).await?.first() {
            Some((_, stored)) if stored != shape => name = name.next(),
            Some(_) | None => return Ok(name),
        }
    }
}

/// Remarks by shape: requirements that no active worker could meet even when idle.
pub(super) async fn warnings<T: Tx>(
    work: &mut Work<'_, T>,
    jobs: &[Job],
) -> Result<HashMap<ShapeId, Vec<String>>, StoreError> {
    let mut demanding: HashMap<ShapeId, Requirement> = HashMap::new();
    for job in jobs {
        let asks = job.spec.resources.as_ref().is_some_and(|resources| !resources.is_zero());
        if asks || !job.spec.tags.is_empty() {
            demanding.entry(job.shape).or_insert_with(|| job.spec.requirement());
        }
    }
    if demanding.is_empty() {
        return Ok(HashMap::new());
    }
    work.refresh_workers().await?;
    // Those that are offline; all others are there, however long ago they were heard of.
    let offline = work.tx.workers_apart(Timestamp::default()).await?;
    let workers = work.roster.views(&offline);
    if workers.is_empty() {
        return Ok(HashMap::new());
    }
    let remark = |need: &Requirement| -> Vec<String> {
        muster_planner::never(need, &workers).map(|reason| reason.to_string()).into_iter().collect()
    };
    Ok(demanding.into_iter().map(|(shape, need)| (shape, remark(&need))).collect())
}
