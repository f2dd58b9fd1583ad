//! The planner's safety net: parked claims are tried again, and pending jobs that no worker could ever
//! run are counted.

use std::collections::HashMap;
use std::time::Instant;

use muster_domain::{ShapeId, Status, WorkerStatus};
use muster_store::{JobFilter, Role, StoreError, StoreExt, WorkerUsage};

use super::leader::Seat;
use crate::app::App;

/// Pending jobs that are looked at in one pass.
const EXAMINED: usize = 1_000;

/// Runs until `stop` resolves.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut seat = Seat::new(Role::Planner);
    loop {
        if seat.take(app).await {
            let started = Instant::now();
            pass(app, &mut seat).await;
            app.metrics.ticked(Role::Planner, started.elapsed());
        }
        tokio::select! {
            () = tokio::time::sleep(app.config.planner_interval) => {}
            () = &mut stop => return,
        }
    }
}

async fn pass(app: &App, seat: &mut Seat) {
    if app.metrics.parked.get() > 0 {
        app.hub.expect_work();
    }
    match count_unplaceable(app).await {
        Ok(count) => app.metrics.unplaceable.set(count),
        Err(error) => {
            seat.give_up(app);
            app.metrics.store_error();
            tracing::warn!(%error, "pending jobs could not be examined");
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
