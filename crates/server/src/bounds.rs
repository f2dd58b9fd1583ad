//! How much may be open at the same time, and how large the head of a request may be.
//!
//! Guarantee: what is refused because of a bound is counted under the code that its answer carries.

/// The bounds of one scheduler. What may be waited for is bounded in [`crate::ServerConfig`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Open connections beyond which new ones are served one short request at a time.
    pub connections: usize,
    /// Connections of one address; loopback is not counted.
    pub per_address: usize,
    /// Those of them that have not shown who they are.
    pub unknown_per_address: usize,
    /// TLS handshakes under way.
    pub handshakes: usize,
    /// Claims and syncs that wait for work at the same time.
    pub long_polls: usize,
    /// Readers of the stream of events.
    pub event_readers: usize,
    /// Readers that follow the output of jobs.
    pub log_readers: usize,
    /// Terminals in running jobs, each with a connection of its client and one of its worker.
    pub terminals: usize,
    /// Bytes of the head of a request: its first line and its headers.
    pub head_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of the path and the query of a request.
    pub url_bytes: usize,
    /// Bytes of all large bodies together that are being received.
    pub body_memory: usize,
}

/// hyper does not read a head with a smaller buffer.
pub(crate) const LEAST_HEAD_BYTES: usize = 8 * 1024;

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // 10,000 workers have a poll each, and now and then a report, an upload or a stream beside it.
            connections: 32_768,
            per_address: 24_576,
            unknown_per_address: 1_024,
            handshakes: 2_048,
            long_polls: 32_768,
            event_readers: 2_000,
            log_readers: 1_024,
            terminals: 256,
            head_bytes: 64 * 1024,
            headers: 100,
            url_bytes: 16 * 1024,
            body_memory: 512 * 1024 * 1024,
        }
    }
}

impl Bounds {
    /// Connections that callers may have who have not shown who they are. The others are for those who have: workers, users
    /// and the user of the scheduler itself.
    pub(crate) fn unknown_connections(&self) -> usize {
        self.connections - self.connections / 4
    }

    /// Makes room for what else needs open files.
    pub(crate) fn fit(&mut self, connections: usize) {
        self.connections = connections;
        self.per_address = self.per_address.min(connections - connections / 4).max(1);
        self.unknown_per_address = self.unknown_per_address.min(connections / 8).max(1);
        self.event_readers = self.event_readers.min(connections / 2);
        self.log_readers = self.log_readers.min(connections / 2);
        self.terminals = self.terminals.min(connections / 4);
        self.handshakes = self.handshakes.min(connections);
    }
}

/// The codes of answers that say that a bound was reached, in the order of the alphabet.
pub(crate) const CODES: [&str; 20] = [
    "address_connections",
    "answer_timeout",
    "body_timeout",
    "body_too_large",
    "head_timeout",
    "head_too_large",
    "limit_exceeded",
    "malformed_request",
    "nested_too_deep",
    "overloaded",
    "short_request",
    "too_many_bodies",
    "too_many_connections",
    "too_many_guesses",
    "too_many_handshakes",
    "too_many_long_polls",
    "too_many_readers",
    "too_many_terminals",
    "unknown_connections",
    "url_too_long",
];

/// The code as the label of a metric, if it belongs to a bound.
pub(crate) fn label(code: &str) -> Option<&'static str> {
    CODES.binary_search(&code).ok().map(|place| CODES[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_because_they_are_sorted() {
        assert!(CODES.is_sorted());
        for code in CODES {
            assert_eq!(label(code), Some(code));
        }
        assert_eq!(label("job_not_found"), None);
    }

    #[test]
    fn few_files_leave_room_for_every_kind() {
        let mut bounds = Bounds::default();
        bounds.fit(768);
        let found = (bounds.per_address, bounds.unknown_per_address, bounds.event_readers);
        assert_eq!(found, (576, 96, 384));
        assert_eq!(bounds.unknown_connections(), 576);
        bounds.fit(1);
        assert!(bounds.per_address >= 1 && bounds.unknown_per_address >= 1);
    }
}
