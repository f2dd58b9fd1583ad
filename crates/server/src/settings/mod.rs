//! The settings of a scheduler: flag > environment > file > default.
//!
//! Guarantee: every value, wherever it was written, goes through the same check; a wrong one is named
//! together with the setting it was meant for, and nothing starts.

mod access;
mod args;
mod blobs;
mod bounds;
mod database;
mod file;
mod knobs;
mod oidc;
mod policy;
mod pools;
mod tls;
mod uploads;
mod values;
mod webhooks;

pub use access::AccessArgs;
pub use args::SchedulerArgs;
pub use blobs::BlobArgs;
pub use bounds::BoundArgs;
pub use file::{apply_file, matches};
pub use knobs::Knob;
pub use oidc::OidcArgs;
pub use policy::PolicyArgs;
pub use pools::PoolSettings;
pub use tls::TlsArgs;
pub use uploads::UploadArgs;
pub(crate) use values::any_duration;
pub use values::{
    Driver, ListenAddress, Mode, OPEN_TO_WORKERS, QueueNames, Retention, SizeLimit, StoreChoice,
    open_to_the_network,
};
pub use webhooks::WebhookArgs;
