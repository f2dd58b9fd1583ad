//! Which GPUs of a worker are held, read where somebody wants GPUs and nowhere else.
//!
//! Guarantee: whoever hands out devices has locked the worker before, and every job that gets some is handed out
//! under that lock, so that nobody is missed here. A holder that ends meanwhile only makes room.

use std::collections::{BTreeMap, HashMap};

use muster_domain::{Requirement, ShapeId, WorkerId};
use muster_planner::WorkerView;

use crate::error::StoreError;
use crate::tx::{HeldJob, Tx};

/// Finds out who holds the GPUs of those workers of which that is not known yet, if any of `needs` wants GPUs.
pub(super) async fn read_for<'n, T: Tx>(
    tx: &mut T,
    needs: impl IntoIterator<Item = &'n Requirement>,
    views: &mut [WorkerView],
) -> Result<(), StoreError> {
    if needs.into_iter().any(|need| need.resources.gpu_need().is_some()) {
        read(tx, views).await?;
    }
    Ok(())
}

/// The same whatever is wanted.
pub(super) async fn read<T: Tx>(tx: &mut T, views: &mut [WorkerView]) -> Result<(), StoreError> {
    let unread = |view: &WorkerView| view.devices.as_ref().is_some_and(muster_planner::Devices::is_unread);
    let ids: Vec<WorkerId> =
        views.iter().filter(|view| unread(view)).filter_map(|view| view.id.clone()).collect();
    let mut held = holders(tx, &ids).await?;
    for view in views.iter_mut().filter(|view| unread(view)) {
        let (Some(id), Some(devices)) = (&view.id, &mut view.devices) else { continue };
        devices.reopen();
        for job in held.remove(id).unwrap_or_default() {
            devices.hold(job.devices.as_ref());
        }
    }
    Ok(())
}

/// The jobs of these workers that hold GPUs.
pub(super) async fn holders<T: Tx>(
    tx: &mut T,
    workers: &[WorkerId],
) -> Result<BTreeMap<WorkerId, Vec<HeldJob>>, StoreError> {
    let mut found: BTreeMap<WorkerId, Vec<HeldJob>> = BTreeMap::new();
    if workers.is_empty() {
        return Ok(found);
    }
    let jobs = tx.held_devices(workers).await?;
    let mut shapes: Vec<ShapeId> = jobs.iter().map(|job| job.shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let shapes = if shapes.is_empty() { Vec::new() } else { tx.shapes(&shapes).await? };
    let wanting: HashMap<ShapeId, bool> = shapes
        .into_iter()
        .map(|(id, shape)| (id, shape.requirement.resources.gpu_need().is_some()))
        .collect();
    // A shape that is not known might be of anything.
    for job in jobs.into_iter().filter(|job| wanting.get(&job.shape).copied().unwrap_or(true)) {
        found.entry(job.worker.clone()).or_default().push(job);
    }
    Ok(found)
}
