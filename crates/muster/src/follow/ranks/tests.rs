//! Tasks that write to a real scheduler: what is read back, in which order, with few connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use muster_client::{Client, LogChunk, LogItem, LogQuery, LogTick};
use muster_protocol::{JobReport, LogStream, RegisterRequest, ReportKind, SubmitRequest, SyncRequest};
use muster_server::ServerConfig;
use muster_server::settings::StoreChoice;
use muster_store::engine::Policies;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::{Part, Rank, Writes, copy_bounded};
use crate::embedded::{Embedded, Installation, StoreSettings};

const BOUND: Duration = Duration::from_secs(30);

/// Hands every line over, so that a test can wait for it.
struct Collected(mpsc::UnboundedSender<String>);

impl Writes for Collected {
    fn wants_lines(&self) -> bool {
        true
    }

    fn write(&mut self, rank: &Rank, item: &LogItem) -> io::Result<()> {
        if let LogItem::Output { bytes, .. } = item {
            for line in String::from_utf8_lossy(bytes).lines() {
                self.0.send(format!("{} {line}", rank.index)).map_err(io::Error::other)?;
            }
        }
        Ok(())
    }
}

/// A scheduler without a worker; the test does what a worker would.
struct Bench {
    client: Client,
    tasks: Vec<(String, u64)>,
    written: Vec<u64>,
    _embedded: Embedded,
    _directory: TempDir,
}

impl Bench {
    /// With jobs that run and have written nothing yet. To the readers they are as good as tasks of a gang.
    async fn with_tasks(count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let embedded = Embedded::start(Installation {
            server: ServerConfig { data_dir: directory.path().to_owned(), ..ServerConfig::default() },
            store: StoreSettings { choice: StoreChoice::Memory, policies: Policies::default(), pool_size: 0 },
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            worker: None,
        })
        .await
        .unwrap();
        let client = embedded.client();
        let worker = RegisterRequest { id: "w1".into(), exec_addr: "h".into(), ..RegisterRequest::default() };
        client.register_worker(&worker).await.unwrap();
        let mut ids = Vec::new();
        for _ in 0..count {
            let request = SubmitRequest { command: "x".into(), ..SubmitRequest::default() };
            ids.push(client.submit(&request).await.unwrap().id);
        }
        let mut leases = Vec::new();
        while leases.len() < count {
            let ask = SyncRequest { max: 100, wait_ms: 1000, ..SyncRequest::default() };
            let claimed = client.sync_worker("w1", &ask).await.unwrap().jobs;
            leases.extend(claimed.into_iter().map(|job| (job.id, job.lease)));
        }
        leases.sort_by_key(|(id, _)| ids.iter().position(|other| other == id));
        let written = vec![0; count];
        Self { client, tasks: leases, written, _embedded: embedded, _directory: directory }
    }

    /// The task writes at this second.
    async fn write(&mut self, task: usize, second: i64, text: &str) {
        let (job_id, lease) = self.tasks[task].clone();
        let offset = self.written[task];
        let end = offset + text.len() as u64;
        let chunk = LogChunk {
            job_id,
            lease,
            attempt: 1,
            stream: LogStream::Stdout,
            offset,
            bytes: text.to_owned().into(),
            skip: false,
            ticks: vec![LogTick { end, micros: 1_777_777_777_000_000 + second * 1_000_000 }],
        };
        self.client.append_log(chunk).await.unwrap();
        self.written[task] = end;
    }

    async fn finish(&self, task: usize) {
        let (job_id, lease) = self.tasks[task].clone();
        let report = JobReport {
            job_id,
            lease,
            kind: ReportKind::Done,
            exit_code: Some(0),
            signal: None,
            message: None,
            rule: None,
            outputs: None,
            usage: None,
        };
        let request = SyncRequest { reports: vec![report], ..SyncRequest::default() };
        self.client.sync_worker("w1", &request).await.unwrap();
    }

    fn ranks(&self) -> Vec<Rank> {
        let query = |id: &str| LogQuery { job_id: id.to_owned(), from_lease: Some(0), ..LogQuery::default() };
        (0_u32..).zip(&self.tasks).map(|(index, (id, _))| Rank { index, query: query(id) }).collect()
    }

    async fn past(&self, most: usize) -> Vec<String> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        copy_bounded(&self.client, self.ranks(), Part::Past, &mut Collected(sender), most).await.unwrap();
        let mut lines = Vec::new();
        while let Ok(line) = receiver.try_recv() {
            lines.push(line);
        }
        lines
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_comes_in_the_order_of_writing() {
    let mut bench = Bench::with_tasks(3).await;
    bench.write(2, 1, "a\n").await;
    bench.write(0, 2, "b").await;
    bench.write(1, 3, "c\n").await;
    bench.write(0, 4, "b\nd\n").await;
    bench.write(2, 5, "e\nrest").await;
    let together = bench.past(64).await;
    assert_eq!(together, ["2 a", "0 bb", "1 c", "0 d", "2 e", "2 rest"]);
    // Two at a time: the tasks of a group come together.
    assert_eq!(bench.past(2).await, ["0 bb", "1 c", "0 d", "2 a", "2 e", "2 rest"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_is_shown_to_the_end_of_all_tasks() {
    // With a connection for each, and in turns with fewer.
    for most in [64, 2] {
        let mut bench = Bench::with_tasks(5).await;
        bench.write(3, 1, "before\nbeg").await;
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let (client, ranks) = (bench.client.clone(), bench.ranks());
        let copying = tokio::spawn(async move {
            copy_bounded(&client, ranks, Part::Both, &mut Collected(sender), most).await
        });
        let mut lines = Vec::new();
        let mut next = async |count: usize| {
            while lines.len() < count {
                let line = tokio::time::timeout(BOUND, receiver.recv()).await;
                lines.push(line.unwrap_or_else(|_| panic!("only {lines:?}")).unwrap_or_default());
            }
        };
        next(1).await;
        bench.write(3, 2, "un\n").await;
        next(2).await;
        for task in 0..5 {
            bench.write(task, 3, "last").await;
            bench.finish(task).await;
        }
        next(7).await;
        tokio::time::timeout(BOUND, copying).await.unwrap().unwrap().unwrap();
        assert_eq!(lines[..2], ["3 before", "3 begun"]);
        lines.drain(..2);
        lines.sort();
        assert_eq!(lines, ["0 last", "1 last", "2 last", "3 last", "4 last"]);
    }
}
