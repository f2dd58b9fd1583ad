//! Many connections at once: streams are bounded, and plain calls go on when every connection is taken.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the scenarios are test code, also outside of the test functions"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use muster_server::{Bounds, RunningServer, Server, ServerConfig};
use muster_store::MemoryStore;
use muster_store::engine::Policy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const BOUND: Duration = Duration::from_secs(30);

struct Bench {
    server: RunningServer,
    _directory: tempfile::TempDir,
}

async fn bench(max_connections: usize, max_event_readers: usize) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        data_dir: directory.path().to_owned(),
        bounds: Bounds {
            connections: max_connections,
            event_readers: max_event_readers,
            ..Bounds::default()
        },
        ..ServerConfig::default()
    };
    let store = Arc::new(MemoryStore::new(Policy::default()));
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Bench { server: Server::start(config, store, listen).await.unwrap(), _directory: directory }
}

impl Bench {
    async fn send(&self, target: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.addr().unwrap()).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// A whole answer.
    async fn read(&self, target: &str) -> String {
        let mut stream = self.send(target, "Connection: close\r\n").await;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(BOUND, read).await.expect("an answer comes in time").unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request and reads the head of its answer, and what came with it.
    async fn ask(&self, target: &str) -> (String, TcpStream) {
        let mut stream = self.send(target, "").await;
        let mut answer = vec![0; 64 * 1024];
        let mut length = 0;
        while !answer[..length].windows(4).any(|window| window == b"\r\n\r\n") {
            let read = stream.read(&mut answer[length..]);
            let read = tokio::time::timeout(BOUND, read).await.expect("an answer comes in time").unwrap();
            assert!(read > 0, "the connection ended without an answer");
            length += read;
        }
        (String::from_utf8_lossy(&answer[..length]).into_owned(), stream)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_events_are_bounded_and_the_next_one_is_told() {
    let bench = bench(100, 3).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        let (answer, stream) = bench.ask("/events").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        readers.push(stream);
    }
    let refused = bench.read("/events").await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("3 readers of events"), "{refused}");
    assert!(refused.to_lowercase().contains("retry-after: 5"), "{refused}");
    let metrics = bench.read("/metrics").await;
    assert!(metrics.contains("muster_event_readers_refused_total 1"), "{metrics}");
    // The place of one that has left is free.
    readers.pop();
    let freed = async {
        while !bench.ask("/events").await.0.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(BOUND, freed).await.expect("the place becomes free");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_calls_go_on_when_every_connection_is_taken() {
    let bench = bench(5, 5).await;
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(bench.ask("/events").await);
    }
    for target in ["/healthz", "/readyz", "/metrics", "/jobs", "/healthz"] {
        let (answer, mut stream) = bench.ask(target).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
        // The connection is for this one request, so that the next caller finds a place.
        let mut rest = Vec::new();
        tokio::time::timeout(BOUND, stream.read_to_end(&mut rest)).await.expect("it is closed").unwrap();
    }
}
