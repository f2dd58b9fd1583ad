//! The planner: places gangs as soon as there is room, looks ahead for what does not fit, and counts pending
//! jobs that no worker could ever run.
//!
//! Guarantee: a pass follows every change that may let a gang start, and the moment at which a reservation
//! is overdue or a pause ends; passes never overlap and keep a small distance, so that a busy system plans
//! many changes at once. Singles need no pass of their own: they are placed when workers ask.

use std::collections::HashMap;
use std::time::Duration;

use muster_domain::{LeaderTerm, Requirement, Role, ShapeId, Status, WorkerStatus};
use muster_store::{
    Allowances, Command, JobFilter, Outcome, PlanPass, PlanSummary, StoreError, StoreExt, WorkerUsage,
};
use tokio::time::Instant;

use super::backoff::Backoff;
use crate::app::App;
use crate::error::ApiError;

/// Pending jobs that are looked at in one pass.
const EXAMINED: usize = 1_000;
/// Jobs that are ranked anew at a time.
const RANKED: usize = 1_000;
/// Gangs that are looked at in one pass.
const GANGS: usize = 1_000;
/// Passes are never closer together.
const LEAST_PAUSE: Duration = Duration::from_millis(2);
/// Looks ahead are never closer together, and rarer when they take long.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
const LOOK_SHARE: u32 = 10;

/// When the planner looked ahead last.
#[derive(Default)]
struct Looks {
    next: Option<Instant>,
}

impl Looks {
    fn is_due(&self) -> bool {
        self.next.is_none_or(|next| next <= Instant::now())
    }

    fn note(&mut self, took: Duration) {
        self.next = Some(Instant::now() + LOOK_PAUSE.max(took * LOOK_SHARE));
    }

    fn left(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }
}

/// Runs until `stop` resolves.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut examined: Option<Instant> = None;
    let mut looks = Looks::default();
    let mut backoff = Backoff::default();
    let mut allowances = Allowances::default();
    // The term in which all was ranked: who led before may have had another policy.
    let mut ranked: Option<LeaderTerm> = None;
    loop {
        let seen = app.hub.plan_mark();
        let Some(leader) = app.leadership.term(Role::Planner) else {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = app.leadership.gained(Role::Planner) => continue,
            }
        };
        if ranked != Some(leader) && rank(app, leader).await {
            ranked = Some(leader);
        }
        let started = Instant::now();
        let (mut pause, mut waiting) = (app.config.planner_interval, 0);
        let look = looks.is_due();
        if let Ok(summary) = place(app, leader, look, allowances.clone()).await {
            backoff.reset();
            waiting = summary.waiting + summary.keeping;
            app.metrics.room.stopped(summary.stopped);
            pause = pause.min(until(app, &summary));
            allowances = summary.allowances;
            let looked = look && summary.placed + summary.lapsed == 0;
            if looked {
                looks.note(started.elapsed());
                app.metrics.room.keeping(summary.keeping);
            }
            if !looked || summary.stopped.all() + summary.keeping > 0 {
                pause = pause.min(looks.left().max(LEAST_PAUSE));
            }
        } else {
            pause = backoff.failed(pause);
        }
        if examined.is_none_or(|at| at.elapsed() >= app.config.planner_interval) {
            examined = Some(Instant::now());
            look_round(app).await;
        }
        app.metrics.ticked(Role::Planner, started.elapsed());
        let changed = async {
            tokio::time::sleep(LEAST_PAUSE).await;
            app.hub.plan_wanted(seen, waiting > 0).await;
        };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
            () = changed => {}
        }
    }
}

/// Sees to it that what waits is ranked by the policy in force; whether it is.
async fn rank(app: &App, leader: LeaderTerm) -> bool {
    let mut after = 0;
    loop {
        match app.submit_led(leader, Command::Rank { after, limit: RANKED }).await {
            Ok(Outcome::Ranked { next: Some(next) }) => after = next,
            Ok(_) => return true,
            Err(error) => {
                tracing::warn!(?error, "jobs could not be ranked by the policy");
                return false;
            }
        }
    }
}

/// One pass over the gangs that wait.
async fn place(
    app: &App,
    leader: LeaderTerm,
    look: bool,
    allowances: Allowances,
) -> Result<PlanSummary, ApiError> {
    let pass = PlanPass {
        timeouts: app.config.timeouts,
        listening_since: app.health.listening_since(),
        limit: GANGS,
        look,
        allowances,
    };
    match app.submit_led(leader, Command::Plan(pass)).await? {
        Outcome::Planned(summary) => Ok(summary),
        _ => Err(ApiError::internal()),
    }
}

/// How long until something can become due by itself.
fn until(app: &App, summary: &PlanSummary) -> Duration {
    let Some(due) = summary.next_due else { return Duration::MAX };
    Duration::from_micros(due.since(app.config.clock.now()).as_micros() + 1_000)
}

/// The safety net, and the gauge of what nobody could ever run.
async fn look_round(app: &App) {
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

fn some_worker_could(workers: &[WorkerUsage], need: &Requirement) -> bool {
    let registered = workers.iter().map(|usage| &usage.worker);
    let mut active = registered.filter(|worker| worker.status == WorkerStatus::Active);
    active.any(|worker| need.resources.fits_in(&worker.resources) && need.tags.is_subset(&worker.tags))
}
