//! `muster.toml`, as far as it concerns a worker. Sections of the other programs are left alone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// Looked for in the current directory when no file is named.
const DEFAULT_FILE: &str = "muster.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigFile {
    worker: WorkerSection,
}

/// `[worker]`: the settings under the names of their flags.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(crate) struct WorkerSection {
    pub(crate) scheduler: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) tls_fingerprint: Option<String>,
    pub(crate) workers: Option<u32>,
    pub(crate) worker_id: Option<String>,
    pub(crate) join_token_file: Option<PathBuf>,
    pub(crate) exec_addr: Option<String>,
    pub(crate) vram_mb: Option<u64>,
    pub(crate) memory_mb: Option<u64>,
    pub(crate) cpus: Option<f64>,
    pub(crate) gpus: Option<GpusValue>,
    pub(crate) gpu: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) tags: Vec<String>,
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) job_dir: Option<PathBuf>,
    pub(crate) pass_env: Vec<String>,
    pub(crate) containers: Option<String>,
    pub(crate) container_socket: Option<PathBuf>,
    pub(crate) allow_mount: Vec<String>,
    pub(crate) no_exec: bool,
    pub(crate) log: Option<String>,
    pub(crate) log_format: Option<String>,
    pub(crate) job_heartbeat_interval: Option<String>,
    pub(crate) poll_timeout: Option<String>,
    pub(crate) preempt_grace: Option<String>,
    pub(crate) drain_timeout: Option<String>,
    pub(crate) register_timeout: Option<String>,
    pub(crate) checkpoint_limit: Option<u64>,
    pub(crate) input_cache: Option<u64>,
    pub(crate) checkpoint_dir_keep: Option<String>,
    pub(crate) max_ahead: Option<u32>,
    pub(crate) isolation: Option<String>,
    pub(crate) require_isolation: bool,
    pub(crate) cpu_limit: Option<String>,
    pub(crate) max_processes: Option<u64>,
    pub(crate) cpu_bind: bool,
    pub(crate) private_tmp: bool,
    pub(crate) allow_new_privileges: bool,
    pub(crate) run_as: Option<String>,
    pub(crate) allow_root_jobs: bool,
}

/// A number, or what the flag takes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum GpusValue {
    Count(u64),
    Text(String),
}

/// Reads the named file, which must be there, or the default one, which need not.
pub(crate) fn load(named: Option<&Path>) -> anyhow::Result<WorkerSection> {
    let path = named.unwrap_or_else(|| Path::new(DEFAULT_FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text).with_context(|| format!("the file {} is wrong", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
            Ok(WorkerSection::default())
        }
        Err(error) => Err(error).with_context(|| format!("cannot read the file {}", path.display())),
    }
}

pub(crate) fn parse(text: &str) -> Result<WorkerSection, toml::de::Error> {
    toml::from_str::<ConfigFile>(text).map(|file| file.worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_found_and_other_sections_left_alone() {
        let section =
            parse("[scheduler]\nx = 1\n[worker]\nworkers = 4\n[worker.counters]\nlicence = 2").unwrap();
        assert_eq!((section.workers, section.counters["licence"]), (Some(4), 2));
        let error = parse("[worker]\nworkres = 4").unwrap_err().to_string();
        assert!(error.contains("workres"), "{error}");
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = load(Some(Path::new("no-such.toml"))).unwrap_err();
        assert!(error.to_string().contains("no-such.toml"));
    }
}
