//! One scheduler and one worker, or several: the real programs, on loopback, on data of their own.
//!
//! Everything started here ends with the value, and its directory goes with it.

use std::net::{Ipv4Addr, SocketAddr};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use muster_pg_testkit::{PortLease, Postgres};
use muster_store::engine::Policy;
use muster_store::{MemoryStore, Store};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use muster_store_sqlite::SqliteStore;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::accounts::{self, Pass};
use crate::api::Api;
use crate::process::{self, Process};
use crate::settings::StoreKind;

const START_BOUND: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(1);
const WORKER_ID: &str = "bench-worker";

/// The databases and directories that clusters are started on.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) kind: StoreKind,
    pub(crate) directory: PathBuf,
    postgres: Option<Postgres>,
}

impl Ground {
    /// Starts PostgreSQL where the store needs it, with the durability of a production server.
    pub(crate) fn prepare(kind: StoreKind, directory: PathBuf) -> Result<Self> {
        let durable = muster_pg_testkit::Options { durable: true, everywhere: false };
        // The kit is made for tests and panics, with a sentence, when PostgreSQL is not installed.
        let start = || (kind == StoreKind::Postgres).then(|| Postgres::start_with(durable));
        let postgres = panic::catch_unwind(start).map_err(|_| anyhow!("PostgreSQL does not start"))?;
        Ok(Self { kind, directory, postgres })
    }

    /// An empty directory that goes with the value.
    pub(crate) fn new_directory(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("muster-bench-").tempdir_in(&self.directory)?)
    }

    /// The store itself, on new data, for measurements without a scheduler.
    pub(crate) async fn store(&self, directory: &Path) -> Result<Box<dyn Store>> {
        let policy = Policy::default();
        Ok(match self.kind {
            StoreKind::Memory => Box::new(MemoryStore::new(policy)),
            StoreKind::Sqlite => Box::new(SqliteStore::open(directory.join("muster.db"), policy)?),
            StoreKind::Postgres => {
                let url = self.postgres_url().context("PostgreSQL was not started")?;
                Box::new(PostgresStore::connect(&url, PostgresOptions::default(), policy).await?)
            }
        })
    }

    /// The first process of the database server, when this ground has one.
    pub(crate) fn server_id(&self) -> Option<u32> {
        let server = self.postgres.as_ref()?;
        let file = server.execute("postgres", "SELECT pg_read_file('postmaster.pid')");
        file.lines().next()?.parse().ok()
    }

    /// The URL of a new database, when this ground has a server.
    pub(crate) fn postgres_url(&self) -> Option<String> {
        self.postgres.as_ref().map(|server| server.database().url())
    }
}

/// What runs the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Executor {
    Process,
    /// Every job succeeds at once, without a process.
    Fake,
}

/// A running scheduler, and the workers that were started.
#[derive(Debug)]
pub(crate) struct Cluster {
    workers: Vec<Process>,
    scheduler: Process,
    address: SocketAddr,
    directory: TempDir,
    /// What clients and workers show, where the scheduler trusts no connection.
    pass: Option<Pass>,
    /// From the start of the process until it said that it is ready.
    pub(crate) start_up: Duration,
    _port: PortLease,
}

impl Cluster {
    /// A scheduler on empty data, ready.
    pub(crate) fn scheduler(ground: &Ground) -> Result<Self> {
        Self::in_directory(ground, ground.new_directory()?, &[])
    }

    /// A scheduler on what lies in the directory, with these settings, ready.
    pub(crate) fn in_directory(ground: &Ground, directory: TempDir, settings: &[&str]) -> Result<Self> {
        let database = database(ground, directory.path());
        Self::on(ground, database.as_deref(), directory, settings)
    }

    /// A scheduler on empty data that trusts no connection: its callers show tokens.
    pub(crate) fn with_accounts(ground: &Ground) -> Result<Self> {
        let directory = ground.new_directory()?;
        let database =
            database(ground, directory.path()).context("accounts in memory go with the scheduler")?;
        let mut command = Command::new(process::binary("muster-scheduler")?);
        command.args(["admin", "create", "--db-driver", ground.kind.driver(), "--db-url", &database]);
        command.arg("--data-dir").arg(directory.path().join("data")).current_dir(directory.path());
        accounts::create_admin(command)?;
        let mut cluster = Self::on(ground, Some(&database), directory, &["--loopback", "none"])?;
        cluster.pass = Some(accounts::pass(cluster.address)?);
        Ok(cluster)
    }

    fn on(ground: &Ground, database: Option<&str>, directory: TempDir, settings: &[&str]) -> Result<Self> {
        let port = PortLease::take();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.port()));
        let mut command = Command::new(process::binary("muster-scheduler")?);
        command.arg("--listen").arg(address.to_string()).args(["--db-driver", ground.kind.driver()]);
        if let Some(url) = database {
            command.args(["--db-url", url]);
        }
        command.arg("--data-dir").arg(directory.path().join("data")).current_dir(directory.path());
        command.args(settings).env("MUSTER_LOG", "warn");
        let begin = Instant::now();
        let scheduler = Process::start("muster-scheduler", command, &directory.path().join("scheduler.log"))?;
        let mut cluster = Self {
            workers: Vec::new(),
            scheduler,
            address,
            directory,
            pass: None,
            start_up: Duration::ZERO,
            _port: port,
        };
        cluster.await_scheduler()?;
        cluster.start_up = begin.elapsed();
        Ok(cluster)
    }

    /// A scheduler and a worker that has registered.
    pub(crate) fn start(ground: &Ground, slots: usize, executor: Executor) -> Result<Self> {
        let mut cluster = Self::scheduler(ground)?;
        cluster.add_worker(slots, executor)?;
        Ok(cluster)
    }

    /// Starts a worker and waits until it has registered.
    pub(crate) fn add_worker(&mut self, slots: usize, executor: Executor) -> Result<()> {
        let kind: &[&str] = if executor == Executor::Fake { &["--executor", "fake"] } else { &[] };
        self.start_worker(WORKER_ID, slots, kind)?;
        self.await_worker(WORKER_ID)
    }

    /// Starts a worker with one slot whose jobs may run in containers of this engine, and waits until it has registered.
    pub(crate) fn add_container_worker(&mut self, socket: &Path) -> Result<()> {
        let socket = socket.display().to_string();
        self.start_worker(WORKER_ID, 1, &["--containers", "docker", "--container-socket", &socket])?;
        self.await_worker(WORKER_ID)
    }

    /// Starts several workers that run processes and waits until all have registered.
    pub(crate) fn add_workers(&mut self, count: usize, slots: usize) -> Result<()> {
        let ids: Vec<String> = (0..count).map(|number| format!("{WORKER_ID}-{number}")).collect();
        ids.iter().try_for_each(|id| self.start_worker(id, slots, &[]))?;
        ids.iter().try_for_each(|id| self.await_worker(id))
    }

    fn start_worker(&mut self, id: &str, slots: usize, flags: &[&str]) -> Result<()> {
        let mut command = Command::new(process::binary("muster-worker")?);
        command.arg("--scheduler").arg(format!("http://{}", self.address));
        command.args(["--worker-id", id, "--workers", &slots.to_string()]).args(flags);
        let data = self.directory.path().join(id);
        command.arg("--data-dir").arg(&data).current_dir(self.directory.path());
        command.env("MUSTER_LOG", "warn");
        if let Some(pass) = &self.pass {
            command.env("MUSTER_JOIN_TOKEN", &pass.join);
        }
        let log = self.directory.path().join(format!("{id}.log"));
        self.workers.push(Process::start("muster-worker", command, &log)?);
        Ok(())
    }

    /// Stops everything and hands the directory back, with what is in it.
    pub(crate) fn end(mut self) -> Result<TempDir> {
        self.end_workers();
        let other = TempDir::new()?;
        Ok(std::mem::replace(&mut self.directory, other))
    }

    fn end_workers(&mut self) {
        self.workers.clear();
        // What a worker has left behind names our directory, and nothing else on the machine does.
        for pid in self.worker_ids() {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
    }

    pub(crate) fn api(&self) -> Result<Api> {
        Api::connect_with(self.address, self.pass.as_ref().map(|pass| pass.token.as_str()))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn scheduler_id(&self) -> u32 {
        self.scheduler.id()
    }

    /// The workers and everything that they have started.
    pub(crate) fn worker_ids(&self) -> Vec<u32> {
        let scheduler = self.scheduler.id();
        process::marked(self.directory.path()).into_iter().filter(|pid| *pid != scheduler).collect()
    }

    fn await_scheduler(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_BOUND;
        loop {
            if self.api().is_ok_and(|mut api| api.is_ready()) {
                return Ok(());
            }
            self.scheduler.check_alive()?;
            ensure!(Instant::now() < deadline, "the scheduler was not ready within {START_BOUND:?}");
            thread::sleep(POLL);
        }
    }

    fn await_worker(&mut self, id: &str) -> Result<()> {
        let mut api = self.api()?;
        let deadline = Instant::now() + START_BOUND;
        while !api.has_worker(id)? {
            self.workers.iter_mut().try_for_each(Process::check_alive)?;
            ensure!(Instant::now() < deadline, "the worker did not register within {START_BOUND:?}");
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end_workers();
    }
}

fn database(ground: &Ground, directory: &Path) -> Option<String> {
    match ground.kind {
        StoreKind::Memory => None,
        StoreKind::Sqlite => Some(directory.join("muster.db").display().to_string()),
        StoreKind::Postgres => ground.postgres_url(),
    }
}
