//! The reaper: takes jobs from silent workers, ends unanswered stop orders, shows dead workers as offline.
//!
//! Guarantee: what becomes overdue is found within its timeout and one second, because a pass follows the
//! moment at which the next thing can become overdue; and a pass runs at once at start, in which silence
//! from before the start counts for nothing.

use std::time::Duration;

use muster_domain::{LeaderTerm, Role, Span};
use muster_store::{Command, Outcome, Sweep, SweepSummary};
use tokio::time::Instant;

use super::backoff::Backoff;
use crate::app::App;
use crate::error::ApiError;

/// Jobs in one transaction of a pass.
const STEP: usize = 500;
/// Passes are never closer together.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// Runs until `stop` resolves.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut backoff = Backoff::default();
    let longest = longest_pause(app);
    loop {
        let Some(leader) = app.leadership.term(Role::Reaper) else {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = app.leadership.gained(Role::Reaper) => continue,
            }
        };
        let started = Instant::now();
        app.hub.forget_alarms();
        let swept = sweep(app, leader).await;
        app.metrics.ticked(Role::Reaper, started.elapsed());
        let pause = if let Ok(next) = swept {
            backoff.reset();
            next.unwrap_or(longest).clamp(LEAST_PAUSE.min(longest), longest)
        } else {
            backoff.failed(longest)
        };
        let planned = app.config.clock.now() + Span::from(pause);
        // An alarm that a job sets meanwhile may ring earlier. Passes keep their least distance.
        let sooner = async {
            tokio::time::sleep(LEAST_PAUSE.min(pause)).await;
            app.hub.alarm_before(Some(planned)).await;
        };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
            () = sooner => {}
        }
    }
}

/// A job claimed just after a pass is overdue no earlier than one timeout later, so a pass must not be
/// further away than that.
fn longest_pause(app: &App) -> Duration {
    let timeouts = app.config.timeouts;
    let spans = [timeouts.job_heartbeat, timeouts.worker_stale, timeouts.preempt];
    let shortest = spans.iter().map(|span| Duration::from_micros(span.as_micros())).min();
    app.config.reaper_interval.min(shortest.unwrap_or(app.config.reaper_interval)).max(LEAST_PAUSE)
}

/// One pass in small transactions; says when the next thing can become overdue.
async fn sweep(app: &App, leader: LeaderTerm) -> Result<Option<Duration>, ApiError> {
    loop {
        let sweep = Sweep {
            timeouts: app.config.timeouts,
            listening_since: app.health.listening_since(),
            limit: STEP,
            retention: None,
        };
        let Outcome::Swept(summary) = app.submit_led(leader, Command::Sweep(sweep)).await? else {
            return Err(ApiError::internal());
        };
        note(app, &summary);
        if !summary.more {
            let now = app.config.clock.now();
            return Ok(summary.next_due.map(|due| Duration::from_micros(due.since(now).as_micros() + 1_000)));
        }
    }
}

fn note(app: &App, summary: &SweepSummary) {
    if summary.stops_forced > 0 {
        app.metrics.stops_forced(summary.stops_forced);
        tracing::warn!(count = summary.stops_forced, "stop orders were not answered; jobs taken for gone");
    }
    if summary.workers_offline > 0 {
        tracing::info!(count = summary.workers_offline, "marked stale workers offline");
    }
}
