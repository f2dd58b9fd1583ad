//! A real login provider (OIDC), run by Node, for the tests of logins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_pg_testkit::PortLease;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::Http;
use crate::process::Process;
use crate::scheduler::{Scheduler, Settings};
use crate::wait::until;

const START_BOUND: Duration = Duration::from_secs(60);

/// What the schedulers show the provider.
pub const CLIENT_SECRET: &str = "the-secret-of-the-client-of-the-tests";

/// A provider with one client, `muster`. Its forms take any password; a user name is a subject.
#[derive(Debug)]
pub struct LoginProvider {
    port: PortLease,
    directory: TempDir,
    options: Value,
    process: Option<Process>,
}

impl LoginProvider {
    /// Chooses where it will be, so that schedulers can be told. `options` replace the usual ones.
    pub fn prepare(options: &Value) -> Self {
        let (port, directory) = (PortLease::take(), tempfile::tempdir().expect("a temporary directory"));
        let mut all = json!({
            "port": port.port(),
            "people": directory.path().join("people.json"),
            "client_secret": CLIENT_SECRET,
            "device": true,
            "claims_in_token": true,
        });
        for (name, value) in options.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        fs::write(directory.path().join("secret"), format!("{CLIENT_SECRET}\n")).expect("a file");
        let provider = Self { port, directory, options: all, process: None };
        provider.set_people(&json!({}));
        provider
    }

    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.port())
    }

    /// What a scheduler is told about it.
    pub fn settings(&self) -> Settings {
        let settings = Settings::default()
            .set("loopback", "none")
            .set("oidc-issuer", &self.issuer())
            .set("oidc-client-id", "muster")
            .set("oidc-role", "ml=user,ops=operator,root=admin");
        if self.options["client_secret"].is_null() {
            return settings;
        }
        settings.set("oidc-client-secret-file", &self.directory.path().join("secret").to_string_lossy())
    }

    /// Says who exists: claims by subject.
    pub fn set_people(&self, people: &Value) {
        fs::write(self.directory.path().join("people.json"), people.to_string()).expect("a file");
    }

    /// Starts it for browsers that come back to these schedulers, with a new key and without a memory.
    pub fn start(&mut self, schedulers: &[&Scheduler]) {
        let urls = schedulers.iter().map(|one| format!("{}/auth/oidc/callback", one.url()));
        self.options["redirect_uris"] = urls.collect::<Vec<_>>().into();
        let place = place();
        let mut command = Command::new(node());
        command.arg("server.js").arg(self.options.to_string()).current_dir(&place);
        let log = self.directory.path().join("provider.log");
        let mut process = Process::start("the login provider", command, &log);
        let http = Http::new(self.port.port());
        until("the login provider answers", START_BOUND, || {
            assert!(process.is_alive(), "the login provider has ended:\n{}", process.output());
            let asked = http.request("GET", "/.well-known/openid-configuration").try_send();
            asked.is_ok_and(|answer| answer.status == 200)
        });
        self.process = Some(process);
    }

    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill9();
        }
    }
}

/// The Node.js of the machine, or the one that `scripts/install-test-deps` has put beside schemathesis when that was too old.
fn node() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/node");
    if own.exists() { own } else { PathBuf::from("node") }
}

fn place() -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("oidc-provider");
    let installed = place.join("node_modules").is_dir();
    assert!(installed, "{} has no node_modules; run first: scripts/install-test-deps", place.display());
    place
}
