//! The planner's safety net: parked claims are tried again, and pending jobs that no worker could ever
//! run are counted.

use std::collections::HashMap;

use muster_domain::{ShapeId, Status, WorkerStatus};
use muster_store::{JobFilter, Role, StoreError, StoreExt, WorkerUsage};

use super::leader::lead;
use crate::app::App;

/// Pending jobs that are looked at in one pass.
const EXAMINED: usize = 1_000;

/// Runs until `stop` resolves.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = tokio::time::sleep(app.config.planner_interval) => {}
            () = &mut stop => return,
        }
        let Some(_pass) = lead(app, Role::Planner).await else { continue };
        if app.metrics.parked.get() > 0 {
            app.hub.expect_work();
        }
        match count_unplaceable(app).await {
            Ok(count) => app.metrics.unplaceable.set(count),
            Err(error) => {
                app.metrics.store_error();
                tracing::warn!(%error, "pending jobs could not be examined");
            }
        }
    }
}

async fn count_unplaceable(app: &App) -> Result<i64, StoreError> {
    let counts = app.store.counts().await?;
    if counts.jobs.get(&Status::Pending).copied().unwrap_or(0) == 0 {
        return Ok(0);
    }
    let workers = app.store.workers().await?;
    let filter = JobFilter { statuses: vec![Status::Pending], limit: Some(EXAMINED), ..JobFilter::default() };
    let page = app.store.jobs(filter).await?;
    let mut possible: HashMap<ShapeId, bool> = HashMap::new();
    let stuck = page.jobs.iter().filter(|view| {
        let job = &view.job;
        !*possible.entry(job.shape).or_insert_with(|| some_worker_could(&workers, &job.spec.requirement()))
    });
    Ok(stuck.count() as i64)
}

fn some_worker_could(workers: &[WorkerUsage], need: &muster_domain::Requirement) -> bool {
    let registered = workers.iter().map(|usage| &usage.worker);
    let mut active = registered.filter(|worker| worker.status == WorkerStatus::Active);
    active.any(|worker| need.resources.fits_in(&worker.resources) && need.tags.is_subset(&worker.tags))
}
