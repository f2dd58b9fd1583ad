//! `muster run --keep`: a `muster up` that goes on when this program has ended.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use muster_client::Client;
use tokio::time::Instant;

use crate::output::note;
use crate::settings::Settings;

const START_BOUND: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Starts it at the usual place, and waits until it answers.
pub(crate) async fn start_in_background(settings: &Settings) -> anyhow::Result<Client> {
    let directory = data_directory()?;
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let log = directory.join("up.log");
    let mut child = spawn(&directory, &log)?;
    let client = settings.client()?;
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

fn spawn(directory: &Path, log: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log")?;
    let mut command = Command::new(program);
    command.args(["up", "--background", "--data-dir"]).arg(directory).current_dir("/");
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
