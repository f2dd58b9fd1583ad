//! The worker: claims jobs, runs them, and tells the scheduler how they ended.
//!
//! It is two processes. The *agent* ([`run`]) talks to the scheduler: claims, heartbeats, reports, output.
//! The *keeper* ([`keeper`]) owns the processes of the jobs and outlives the agent. A program that hosts a
//! worker calls [`keeper::run_from_arguments`] first in its `main` and [`run`] when it is ready:
//!
//! ```no_run
//! # async fn host() -> Result<(), Box<dyn std::error::Error>> {
//! use muster_client::Client;
//! use muster_worker_agent::{WorkerConfig, run, shutdown_on_signals};
//!
//! let client = Client::http("http://localhost:8080")?;
//! let summary = run(WorkerConfig::new("data/worker"), client, shutdown_on_signals()?).await?;
//! # let _ = summary; Ok(())
//! # }
//! ```
//!
//! Guarantees: at most one process per lease; no process outlives its lease; no end is forgotten before
//! the scheduler has answered for it.

mod agent;
mod attempt_files;
mod attempt_room;
mod backoff;
mod checkpoint_dirs;
mod config;
mod containers;
mod data_dir;
mod environment;
mod error;
mod executor;
mod gpus;
mod job_user;
pub mod keeper;
mod launch;
mod logs;
mod machine;
mod orphans;
mod output_files;
mod privacy;
mod rendezvous;
mod results;
mod secret_files;
mod secret_keys;
mod stop_signal;
mod uploads;
mod visible_devices;

pub use agent::{ExitSummary, Shutdown, run, shutdown_on_signals};
pub use config::{ExecutorKind, JoinToken, Timing, WorkerConfig};
pub use containers::{AllowedMount, ContainerMode, ContainerSettings, ContainerSpec, FileMount, Reach};
pub use data_dir::DataDir;
pub use error::WorkerError;
pub use gpus::{GpuOffer, parse_gpu};
pub use job_user::{JobUser, RunAs};
pub use keeper::{CpuLimit, IsolationForm, IsolationMode};
pub use machine::{cores, discover};
pub use privacy::keep_private;
pub use rendezvous::reaching as address_reaching;
pub use secret_keys::{KeptKey, kept_keys, make_key};
