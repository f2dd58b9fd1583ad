//! The flags about how much may be open at the same time, and how large the head of a request may be.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::bounds::{Bounds, LEAST_HEAD_BYTES};

fn at_least(least: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least as u64..)
}

/// Bounds on connections, waiting requests and heads.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Bounds")]
pub struct BoundArgs {
    /// Open connections beyond which new ones are served one short request each; the limit of open files may make it less. A
    /// quarter of them is for callers that have shown who they are
    #[arg(long, value_name = "N", env = "MUSTER_MAX_CONNECTIONS", default_value_t = Bounds::default().connections,
          value_parser = at_least(1))]
    pub max_connections: usize,
    /// Connections of one address (of IPv6: of a /64 network). Loopback is not counted
    #[arg(long, value_name = "N", env = "MUSTER_MAX_CONNECTIONS_PER_ADDRESS",
          default_value_t = Bounds::default().per_address, value_parser = at_least(1))]
    pub max_connections_per_address: usize,
    /// Connections of one address that have not shown a credential. Loopback is not counted
    #[arg(long, value_name = "N", env = "MUSTER_MAX_UNKNOWN_PER_ADDRESS",
          default_value_t = Bounds::default().unknown_per_address, value_parser = at_least(1))]
    pub max_unknown_per_address: usize,
    /// TLS handshakes under way
    #[arg(long, value_name = "N", env = "MUSTER_MAX_HANDSHAKES", default_value_t = Bounds::default().handshakes,
          value_parser = at_least(1))]
    pub max_handshakes: usize,
    /// Claims and syncs that wait for work at the same time; a claim beyond it is answered with 503, a sync does not wait
    #[arg(long, value_name = "N", env = "MUSTER_MAX_LONG_POLLS", default_value_t = Bounds::default().long_polls,
          value_parser = at_least(0))]
    pub max_long_polls: usize,
    /// Readers of the stream of events
    #[arg(long, value_name = "N", env = "MUSTER_MAX_EVENT_READERS", default_value_t = Bounds::default().event_readers,
          value_parser = at_least(0))]
    pub max_event_readers: usize,
    /// Readers that follow the output of jobs
    #[arg(long, value_name = "N", env = "MUSTER_MAX_LOG_READERS", default_value_t = Bounds::default().log_readers,
          value_parser = at_least(0))]
    pub max_log_readers: usize,
    /// Terminals in running jobs (muster exec, attach, run --pty)
    #[arg(long, value_name = "N", env = "MUSTER_MAX_TERMINALS", default_value_t = Bounds::default().terminals,
          value_parser = at_least(0))]
    pub max_terminals: usize,
    /// Bytes of the head of a request: its first line and its headers
    #[arg(long, value_name = "BYTES", env = "MUSTER_HEAD_LIMIT", default_value_t = Bounds::default().head_bytes,
          value_parser = at_least(LEAST_HEAD_BYTES))]
    pub head_limit: usize,
    /// Headers of a request
    #[arg(long, value_name = "N", env = "MUSTER_HEADER_COUNT_LIMIT", default_value_t = Bounds::default().headers,
          value_parser = at_least(16))]
    pub header_count_limit: usize,
    /// Bytes of the path and the query of a request
    #[arg(long, value_name = "BYTES", env = "MUSTER_URL_LIMIT", default_value_t = Bounds::default().url_bytes,
          value_parser = at_least(256))]
    pub url_limit: usize,
    /// Bytes of all bodies above 64 KiB together that are being received
    #[arg(long, value_name = "BYTES", env = "MUSTER_BODY_MEMORY", default_value_t = Bounds::default().body_memory,
          value_parser = at_least(1024 * 1024))]
    pub body_memory: usize,
}

impl BoundArgs {
    pub(super) fn config(&self) -> Bounds {
        Bounds {
            connections: self.max_connections,
            per_address: self.max_connections_per_address,
            unknown_per_address: self.max_unknown_per_address,
            handshakes: self.max_handshakes,
            long_polls: self.max_long_polls,
            event_readers: self.max_event_readers,
            log_readers: self.max_log_readers,
            terminals: self.max_terminals,
            head_bytes: self.head_limit,
            headers: self.header_count_limit,
            url_bytes: self.url_limit,
            body_memory: self.body_memory,
        }
    }
}
