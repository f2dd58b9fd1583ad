//! Numbers about deliveries to webhooks.

use std::time::Duration;

use muster_store::WebhookView;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, Result};

/// Counted as deliveries are made, and gauges that are read from the store.
#[derive(Debug)]
pub(crate) struct WebhookMetrics {
    attempts: IntCounterVec,
    given_up: IntCounter,
    seconds: Histogram,
    hooks: IntGauge,
    dead_letters: IntGauge,
    lag: IntGauge,
}

impl WebhookMetrics {
    pub(super) fn new(counters: &Registry, gauges: &Registry) -> Result<Self> {
        let attempts = Opts::new(
            "muster_webhook_attempts_total",
            "Attempts to deliver an event to a webhook, by result: delivered, failed, gone.",
        );
        let seconds = HistogramOpts::new("muster_webhook_attempt_seconds", "Duration of an attempt.");
        let metrics = Self {
            attempts: IntCounterVec::new(attempts, &["result"])?,
            given_up: IntCounter::new(
                "muster_webhook_given_up_total",
                "Deliveries that became dead letters.",
            )?,
            seconds: Histogram::with_opts(seconds)?,
            hooks: IntGauge::new("muster_webhooks", "Webhooks.")?,
            dead_letters: IntGauge::new(
                "muster_webhook_dead_letters",
                "Deliveries that were given up and kept.",
            )?,
            lag: IntGauge::new(
                "muster_webhook_lag_events",
                "How far the slowest webhook that is not paused is behind the log.",
            )?,
        };
        counters.register(Box::new(metrics.attempts.clone()))?;
        counters.register(Box::new(metrics.given_up.clone()))?;
        counters.register(Box::new(metrics.seconds.clone()))?;
        gauges.register(Box::new(metrics.hooks.clone()))?;
        gauges.register(Box::new(metrics.dead_letters.clone()))?;
        gauges.register(Box::new(metrics.lag.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn sent(&self, result: &str, took: Duration) {
        self.attempts.with_label_values(&[result]).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn given_up(&self) {
        self.given_up.inc();
    }

    pub(super) fn set(&self, hooks: &[WebhookView], last_event: u64) {
        self.hooks.set(hooks.len() as i64);
        self.dead_letters.set(hooks.iter().map(|view| view.dead_letters).sum::<u64>() as i64);
        let behind = hooks.iter().map(|view| &view.webhook).filter(|hook| !hook.paused);
        let lag = behind.map(|hook| last_event.saturating_sub(hook.progress.cursor)).max();
        self.lag.set(lag.unwrap_or(0) as i64);
    }
}
