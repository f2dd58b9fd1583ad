//! Metrics of what is open, and of what was refused because a bound was reached.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry, Result};

use super::catalogue::{counters, gauge, gauges};
use crate::bounds::{CODES, label};

#[derive(Debug)]
pub(crate) struct BoundMetrics {
    connections: IntGaugeVec,
    refused: IntCounterVec,
    pub(crate) handshakes: IntGauge,
    pub(crate) event_readers: IntGauge,
    pub(crate) log_readers: IntGauge,
    pub(crate) terminals: IntGauge,
    pub(crate) body_bytes: IntGauge,
}

impl BoundMetrics {
    pub(super) fn new(r: &Registry) -> Result<Self> {
        let metrics = Self {
            connections: gauges(
                r,
                "muster_connections",
                "Open connections: known have shown who they are, unknown have not, reserve are beyond the bound.",
                "kind",
            )?,
            refused: counters(
                r,
                "muster_refused_total",
                "Requests and connections refused because a bound was reached, by the code of the answer.",
                &["reason"],
            )?,
            handshakes: gauge(r, "muster_tls_handshakes", "TLS handshakes under way.")?,
            event_readers: gauge(r, "muster_event_readers", "Readers of the stream of events.")?,
            log_readers: gauge(r, "muster_log_readers", "Readers that follow the output of jobs.")?,
            terminals: gauge(r, "muster_terminals", "Open terminals in running jobs.")?,
            body_bytes: gauge(
                r,
                "muster_body_memory_bytes",
                "What bodies above 64 KiB hold while they are received and read.",
            )?,
        };
        // An alert on a rate needs the zero before the first refusal.
        for code in CODES {
            metrics.refused.with_label_values(&[code]);
        }
        for kind in ["known", "unknown", "reserve"] {
            metrics.connections.with_label_values(&[kind]);
        }
        Ok(metrics)
    }

    pub(crate) fn opened(&self, kind: &str) {
        self.connections.with_label_values(&[kind]).inc();
    }

    pub(crate) fn closed(&self, kind: &str) {
        self.connections.with_label_values(&[kind]).dec();
    }

    /// Counts an answer, if its code belongs to a bound.
    pub(crate) fn refused(&self, code: &str) {
        if let Some(code) = label(code) {
            self.refused.with_label_values(&[code]).inc();
        }
    }
}

/// Something that is open as long as this value lives.
#[derive(Debug)]
pub(crate) struct Open(IntGauge);

impl Open {
    pub(crate) fn count(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
