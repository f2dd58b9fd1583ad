//! Jobs in containers, on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a container can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContainerNetwork {
    /// Nothing but itself.
    None,
    /// A network of the engine's own, with a way out.
    Bridge,
    /// Everything that its worker reaches, under the worker's addresses.
    Host,
}

/// When the image is fetched from its registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    /// When the worker does not have it.
    #[default]
    Missing,
    /// Before each attempt.
    Always,
    /// Never: the worker must have it.
    Never,
}

/// How the container of a job is made. Everything may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Container {
    /// `none` when absent; `host` for the tasks of a gang, which must reach each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<ContainerNetwork>,
    /// `missing` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullPolicy>,
    /// Directories and files of the worker, as `SOURCE:TARGET` or `SOURCE:TARGET:ro`. The worker must allow the source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// The file system of the image cannot be written to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// User, or `USER:GROUP`, by name or number; the one of the image when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Takes the place of the entrypoint of the image. An empty list means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// A small init is the first process, passes signals on and collects orphans; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// Size of `/dev/shm` in MiB; the engine's default, mostly 64, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm_mb: Option<u64>,
    /// The most processes and threads at a time; no limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Limits of its processes by name, such as `nofile`: `1024`, or `1024:4096` for soft and hard.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ulimits: BTreeMap<String, String>,
    /// The name of a secret with what the registry asks for: `user:password`, or the text of a Docker `config.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// How far the pull of an image is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImagePull {
    /// What has come so far.
    pub bytes: u64,
    /// Of so many, as far as the registry has told; 0 while nothing is known.
    pub total_bytes: u64,
}

/// An image that was pulled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImagePulled {
    /// What came over the network, as far as the engine told.
    pub bytes: u64,
    pub seconds: f64,
}

/// What a worker says about the image of a job that it holds: how far the pull is, or which image it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ImageReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulling: Option<ImagePull>,
    /// The digest of the image in its repository; the id of an image that comes from none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Beside the digest, when the image was not there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulled: Option<ImagePulled>,
}

/// What runs the containers of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ContainerEngine {
    /// `docker` or `podman`.
    pub name: String,
    pub version: String,
}
