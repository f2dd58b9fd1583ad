//! The scheduler: the HTTP API, the group commit behind it, and the background loops.
//!
//! Start one with [`Server::start`]; everything else is reached through HTTP or through the router that
//! a running server hands out for callers in the same process.

pub mod admin;
mod admission;
mod app;
mod archive;
mod artifact_inputs;
mod artifact_uploads;
mod artifacts;
mod batcher;
mod bearer;
mod blobs;
mod body;
mod bounds;
mod callers;
mod checkpoints;
pub mod clock;
pub mod conditions;
mod config;
mod container_fields;
mod dispatcher;
pub mod duration;
mod edge;
pub mod error;
mod extract;
mod file_limit;
mod gang_submission;
mod gate;
mod guarded;
mod health;
mod identity;
mod ids;
mod job_inputs;
mod journal;
mod leadership;
mod lenient;
mod listener;
mod local_user;
mod logs;
mod loops;
mod metrics;
mod moved_output;
mod moves;
mod oidc;
mod output_files;
mod ownership;
mod params;
pub mod passwords;
mod peers;
mod placement_fields;
mod private_files;
mod routes;
mod secret_uses;
mod server;
mod set_submission;
pub mod settings;
mod socket_owner;
mod stalled;
mod submission;
mod terminals;
#[cfg(test)]
mod testing;
mod tls;
mod tokens;
mod uploads;
mod view;
mod visibility;
mod wake;
mod webhooks;

pub use bounds::Bounds;
pub use config::{
    Access, BlobConfig, LegacyWorkers, Limits, LoopbackUsers, OidcConfig, RoleOfGroup, ServerConfig,
    TlsConfig, WebhookConfig,
};
pub use error::ServerError;
pub use file_limit::raise_file_limit;
pub use gate::Origin;
pub use private_files::{keep_files_private, make_directory};
pub use server::{Listen, RunningServer, Server};
pub use uploads::UploadConfig;
pub use webhooks::Target;
