//! By what the containers of a worker are known.
//!
//! Guarantee: name and labels follow from data directory, job and lease, so that whoever comes later finds them again.

use std::collections::HashMap;
use std::path::Path;

use crate::attempt_files::{attempt_name, fingerprint};
use crate::keeper::Key;

/// The data directory of the worker.
pub(super) const DIRECTORY: &str = "muster.worker-dir";
pub(super) const JOB: &str = "muster.job";
pub(super) const LEASE: &str = "muster.lease";
pub(super) const ATTEMPT: &str = "muster.attempt";
pub(super) const WORKER: &str = "muster.worker";

/// The longest part of a name that is made of an id.
const LONGEST_ID: usize = 60;

/// The name of the container of an attempt.
pub(crate) fn container_name(directory: &Path, key: &Key) -> String {
    let attempt = attempt_name(key);
    let here = fingerprint(directory.as_os_str().as_encoded_bytes());
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let readable: String = key.job_id.chars().filter(|letter| plain(*letter)).take(LONGEST_ID).collect();
    let attempt = fingerprint(attempt.as_bytes());
    format!("muster-{readable}-{}-{:08x}{:08x}", key.lease, here >> 32 ^ here & 0xffff_ffff, attempt >> 32)
}

/// The labels of the container of an attempt; `told` are variables that say what the key does not.
pub(super) fn labels(directory: &str, key: &Key, told: &[String]) -> HashMap<String, String> {
    let value = |name: &str| {
        let found = told.iter().find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_default().to_owned()
    };
    HashMap::from([
        (DIRECTORY.to_owned(), directory.to_owned()),
        (JOB.to_owned(), key.job_id.to_string()),
        (LEASE.to_owned(), key.lease.to_string()),
        (ATTEMPT.to_owned(), value("MUSTER_ATTEMPT")),
        (WORKER.to_owned(), value("MUSTER_WORKER_ID")),
    ])
}

/// The attempt that labels name.
pub(super) fn key_of(labels: &HashMap<String, String>) -> Option<Key> {
    let lease = labels.get(LEASE)?.parse().ok()?;
    Some(Key { job_id: labels.get(JOB)?.as_str().into(), lease })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_directory_job_and_lease() {
        let key = |id: &str, lease| Key { job_id: id.into(), lease };
        let name = |directory: &str, id: &str, lease| container_name(Path::new(directory), &key(id, lease));
        let one = name("/a", "job-1", 3);
        assert!(one.starts_with("muster-job-1-3-"), "{one}");
        for other in [name("/b", "job-1", 3), name("/a", "job-2", 3), name("/a", "job-1", 4)] {
            assert_ne!(one, other);
        }
        let strange = name("/a", "../x y/é", 1);
        assert!(
            strange.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "{strange}"
        );
        assert_ne!(strange, name("/a", "..xy", 1));
    }

    #[test]
    fn labels_name_the_attempt() {
        let key = Key { job_id: "job-1".into(), lease: 3 };
        let labels = labels("/data", &key, &["MUSTER_ATTEMPT=2".to_owned(), "A=b".to_owned()]);
        assert_eq!(key_of(&labels), Some(key));
        assert_eq!(labels[ATTEMPT], "2");
        assert_eq!(key_of(&HashMap::new()), None);
    }
}
