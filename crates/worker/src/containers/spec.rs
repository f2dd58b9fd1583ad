//! What the container of an attempt is to be, as agent, keeper and runner hand it on.

use serde::{Deserialize, Serialize};

use super::engine::Reach;
use crate::job_user::JobUser;

/// A file or directory of the host and where the container finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMount {
    pub source: String,
    pub target: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl ContainerSpec {
    /// Has everything in it run as a user of the host, whatever the image says. With a user of the image, who may be root or have
    /// the number of somebody else, a mount would be a way around the rights of files.
    pub(crate) fn run_as(&mut self, user: &JobUser) -> Result<(), String> {
        if let Some(asked) = &self.user {
            return Err(format!(
                "the job asks for the user {asked} in its container, and this worker runs it as {}: leave out container.user",
                user.name
            ));
        }
        self.user = Some(format!("{}:{}", user.uid, user.gid));
        self.groups.clone_from(&user.groups);
        self.no_new_privileges = true;
        Ok(())
    }
}

/// Everything that the engine is asked for, apart from command and environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct ContainerSpec {
    pub reach: Reach,
    /// As the job named it.
    pub image: String,
    /// The exact image, once it is known to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The groups of its user besides the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<u32>,
    /// No program in it gives more rights than it starts with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_new_privileges: bool,
    pub network: String,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub init: bool,
    #[serde(default)]
    pub mounts: Vec<FileMount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_cpus: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// Name, soft and hard limit.
    #[serde(default)]
    pub ulimits: Vec<(String, i64, i64)>,
    /// What the engine calls its GPUs.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// The polite signal goes to the first process of the job alone.
    #[serde(default)]
    pub leader_only: bool,
}
