//! `muster run --keep`: a `muster up` that goes on when this program has ended.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use muster_client::Client;
use muster_server::make_directory;
use tokio::time::Instant;

use crate::output::note;

const START_BOUND: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Starts it where the client looks for it, and waits until it answers.
pub(crate) async fn start_in_background(client: Client) -> anyhow::Result<Client> {
    if client.url().starts_with("https://") {
        bail!(
            "no scheduler answers at {}, and --keep starts only one without TLS; start it yourself with \
             `muster up --tls-self-signed`",
            client.url()
        );
    }
    let port = local_port(client.url()).with_context(|| {
        format!("{} is not on this machine, so that --keep cannot start it", client.url())
    })?;
    let directory = data_directory()?;
    make_directory(&directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let log = directory.join("up.log");
    let mut child = spawn(port, &directory, &log)?;
    let deadline = Instant::now() + START_BOUND;
    while client.health().await.is_err() {
        if let Some(status) = child.try_wait()? {
            bail!("the scheduler ended at once ({status}): {}", tail(&log));
        }
        if Instant::now() > deadline {
            bail!("the scheduler does not answer at {}; its log is {}", client.url(), log.display());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    note(&format!(
        "no scheduler answered at {}; started one that goes on (data in {}, end it with: kill {})",
        client.url(),
        directory.display(),
        child.id()
    ));
    Ok(client)
}

/// The port of a URL that means this machine.
fn local_port(url: &str) -> Option<u16> {
    let authority = url.strip_prefix("http://")?.split('/').next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, 80),
    };
    matches!(host, "localhost" | "127.0.0.1" | "[::1]").then_some(port)
}

fn spawn(port: u16, directory: &Path, log: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log")?;
    let mut command = Command::new(program);
    command.args(["up", "--background", "--port", &port.to_string(), "--data-dir"]);
    command.arg(directory).current_dir("/");
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().context("cannot start a scheduler")
}

/// `$XDG_DATA_HOME/muster`, or the usual place below the home directory.
fn data_directory() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    base.map(|base| base.join("muster"))
        .context("there is no home directory to keep data in; start `muster up --data-dir DIR` yourself")
}

fn tail(log: &Path) -> String {
    let mut text = String::new();
    // What cannot be read is only missing from a message.
    let _ = File::open(log).and_then(|mut file| file.read_to_string(&mut text));
    text.trim().lines().last().unwrap_or("it wrote nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_can_be_started() {
        let cases = [
            ("http://localhost:8080", Some(8080)),
            ("http://127.0.0.1:9000/prefix", Some(9000)),
            ("http://[::1]:9000", Some(9000)),
            ("http://[::1]", Some(80)),
            ("http://localhost", Some(80)),
            ("http://example:8080", None),
        ];
        for (url, port) in cases {
            assert_eq!(local_port(url), port, "{url}");
        }
    }
}
