//! The environment of jobs.
//!
//! Guarantee: a job sees of the worker's own environment only what is on the list, so credentials of the
//! worker never reach it by accident.

use muster_client::Trust;
use muster_protocol::Job;

/// What programs expect of any environment.
const PASSED: &[&str] = &["PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR", "TERM"];
const PASSED_PREFIX: &str = "LC_";

/// Names the data directory of the worker that started a process; it tells orphans from strangers.
pub(crate) const WORKER_DIR: &str = "MUSTER_WORKER_DIR";

/// By these the processes of an attempt are told from those of others.
pub(crate) const JOB_ID: &str = "MUSTER_JOB_ID";
pub(crate) const LEASE: &str = "MUSTER_LEASE";

/// What lets a job speak for itself.
const TOKEN: &str = "MUSTER_TOKEN";

/// Whom a job believes at the URL of its scheduler.
pub(crate) const CA_FILE: &str = "MUSTER_CA_FILE";
const PIN: &str = "MUSTER_TLS_FINGERPRINT";

/// What all jobs of a worker share.
#[derive(Debug, Clone)]
pub(crate) struct JobEnvironment {
    pub(crate) url: String,
    /// Whom a job believes at that URL.
    pub(crate) trust: Trust,
    pub(crate) worker_id: String,
    pub(crate) worker_dir: String,
}

/// Whether a variable says something about the host of a worker, which means nothing in a container.
pub(crate) fn is_of_the_host(name: &str) -> bool {
    PASSED.contains(&name) || name.starts_with(PASSED_PREFIX)
}

/// The allowed part of an environment. Variables that are not UTF-8 are left out.
pub(crate) fn allowed(
    environment: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    extra: &[String],
) -> Vec<(String, String)> {
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_of_the_host(name) || extra.contains(name))
        .collect()
}

impl JobEnvironment {
    /// The variables that all jobs get.
    pub(crate) fn shared(&self, extra: &[String]) -> Vec<(String, String)> {
        let mut shared = allowed(std::env::vars_os(), extra);
        shared.extend([
            ("MUSTER_URL".to_owned(), self.url.clone()),
            ("MUSTER_WORKER_ID".to_owned(), self.worker_id.clone()),
            (WORKER_DIR.to_owned(), self.worker_dir.clone()),
        ]);
        shared.extend(self.trusted());
        shared
    }

    /// What lets `muster` inside a job believe the scheduler. A job may run elsewhere than the worker, so that the path is
    /// whole.
    fn trusted(&self) -> Vec<(String, String)> {
        let file = self.trust.ca_file.as_ref().map(|path| std::path::absolute(path).unwrap_or(path.clone()));
        let file = file.map(|path| (CA_FILE.to_owned(), path.to_string_lossy().into_owned()));
        let pin = self.trust.fingerprint.map(|fingerprint| (PIN.to_owned(), fingerprint.to_string()));
        file.into_iter().chain(pin).collect()
    }
}

/// The variables of one job: what it asked for, then what it cannot override.
pub(crate) fn of_job(job: &Job) -> Vec<(String, String)> {
    // By the directory of the worker its processes are found again, so no job may name another.
    let own = job.env.iter().filter(|(name, _)| !matches!(name.as_str(), WORKER_DIR | TOKEN));
    let mut variables: Vec<_> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    variables.extend([
        (JOB_ID.to_owned(), job.id.clone()),
        ("MUSTER_ATTEMPT".to_owned(), job.attempts.to_string()),
        (LEASE.to_owned(), job.lease.to_string()),
    ]);
    if let Some(token) = &job.token {
        variables.push((TOKEN.to_owned(), token.clone()));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_believe_what_their_worker_believes() {
        let trust = Trust {
            ca_file: Some("ca.pem".into()),
            fingerprint: Some(muster_client::Fingerprint::from_sha256([1; 32])),
        };
        let environment = JobEnvironment {
            url: "https://h".to_owned(),
            trust,
            worker_id: "w".to_owned(),
            worker_dir: "/d".to_owned(),
        };
        let shared = environment.shared(&[]);
        let value =
            |name: &str| shared.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        assert!(
            value("MUSTER_CA_FILE").is_some_and(|path| path.starts_with('/') && path.ends_with("/ca.pem"))
        );
        assert_eq!(value("MUSTER_TLS_FINGERPRINT"), Some(format!("sha256:{}", "01".repeat(32))));
        let plain = JobEnvironment { trust: Trust::default(), ..environment }.shared(&[]);
        assert!(!plain.iter().any(|(name, _)| [CA_FILE, PIN].contains(&name.as_str())));
    }

    #[test]
    fn only_the_list_passes() {
        let environment = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("MUSTER_SCHEDULER_URL", "http://me:secret@host"),
            ("CUDA_HOME", "/cuda"),
        ];
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
        let names: Vec<_> =
            allowed(environment, &["CUDA_HOME".to_owned()]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH", "LC_ALL", "CUDA_HOME"]);
    }
}
