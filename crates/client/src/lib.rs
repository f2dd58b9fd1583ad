//! Typed calls to a scheduler, used by the worker and by the command line.
//!
//! A [`Client`] is a cheap handle on a [`Transport`]: [`HttpTransport`] speaks HTTP/1.1 over kept-alive
//! connections, [`ServiceTransport`] calls a service of the same process. Both carry the same requests,
//! so there is one code path for a remote and for an embedded scheduler.
//!
//! One file per resource holds the calls on it.

mod accounts;
mod artifacts;
mod base_url;
mod bearer;
mod blob_transport;
mod call;
mod checkpoints;
mod control;
mod error;
mod event_stream;
mod events;
mod gangs;
mod http_transport;
mod jobs;
mod log_stream;
mod logs;
mod oidc;
mod output;
mod queues;
mod request_body;
mod secrets;
mod service_transport;
mod sets;
mod system;
mod terminals;
mod transport;
mod uploads;
mod usage;
mod webhooks;
mod workers;

pub use artifacts::{ArtifactQuery, ArtifactReader};
pub use base_url::BaseUrl;
pub use blob_transport::{BlobClient, BlobFailure};
pub use call::Client;
pub use checkpoints::{CheckpointReader, Proof};
pub use control::BulkVerb;
pub use error::ClientError;
pub use events::EventReader;
pub use gangs::{GangFilter, GangPage, gang_state_name};
pub use http_transport::HttpTransport;
pub use jobs::{JobFilter, JobPage, status_name};
pub use log_stream::{LogItem, LogQuery, LogReader, base64};
pub use logs::{LogAppend, LogChunk, LogTick};
pub use muster_tls::{Fingerprint, InvalidFingerprint, Trust, Untrusted};
pub use output::{OutputQuery, OutputReader};
pub use request_body::{Pieces, RequestBody};
pub use service_transport::ServiceTransport;
pub use sets::{PipelineFile, SetPage};
pub use terminals::{TERMINAL_PING, Terminal, TerminalReader, TerminalWriter};
pub use transport::{Body, BoxError, Duplex, Transport, TransportFuture, UpgradeFuture, Upgraded};
pub use uploads::ChunkReader;
pub use usage::UsageQuestion;
pub use webhooks::LetterChoice;
