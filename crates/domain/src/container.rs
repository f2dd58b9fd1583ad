//! Jobs in containers: what they ask for, and by what a worker that runs containers is known.
//!
//! Guarantee: a job that names an image requires a tag that no job and no worker can name itself; a worker has it because it
//! registered what runs its containers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What the tags begin with that only the scheduler gives.
const RESERVED: &str = "muster:";
/// Carried by workers that run containers, and required by jobs that name an image.
pub const CONTAINERS: &str = "muster:containers";
/// Carried beside it: what runs them.
const ENGINE: &str = "muster:engine:";

/// Where packages of a container go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    None,
    Bridge,
    Host,
}

/// When an image is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pull {
    Missing,
    Always,
    Never,
}

/// The container that a job runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    #[serde(rename = "i")]
    pub image: String,
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    pub pull: Option<Pull>,
    /// Each as `SOURCE:TARGET[:ro]`.
    #[serde(rename = "m", skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    #[serde(rename = "r", skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ulimits: BTreeMap<String, String>,
    /// The name of a secret.
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// Whether only the scheduler gives this tag.
pub fn is_reserved(tag: &str) -> bool {
    tag.starts_with(RESERVED)
}

/// The tags of a worker whose containers this engine runs.
pub fn engine_tags(name: &str, version: &str) -> [String; 2] {
    [CONTAINERS.to_owned(), format!("{ENGINE}{name}:{version}")]
}

/// Name and version of what runs the containers of a worker with these tags.
pub fn engine_of(tags: &BTreeSet<String>) -> Option<(&str, &str)> {
    tags.iter().find_map(|tag| tag.strip_prefix(ENGINE)?.split_once(':'))
}

/// The tags that people gave.
pub fn given(tags: &BTreeSet<String>) -> impl Iterator<Item = &String> {
    tags.iter().filter(|tag| !is_reserved(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_told_by_tags_that_nobody_gives() {
        let mut tags: BTreeSet<String> = engine_tags("docker", "28.2.2").into();
        assert_eq!(engine_of(&tags), Some(("docker", "28.2.2")));
        assert!(tags.iter().all(|tag| is_reserved(tag)) && tags.contains(CONTAINERS));
        tags.insert("a100".to_owned());
        assert_eq!(given(&tags).collect::<Vec<_>>(), ["a100"]);
        assert_eq!(engine_of(&BTreeSet::new()), None);
    }
}
