//! `muster up`: scheduler and worker in one process, until a signal ends them.

use anyhow::Context as _;
use jiff::Timestamp;
use muster_client::{Client, Fingerprint};
use muster_logging::{LogSettings, LogTarget};
use muster_server::LegacyWorkers;
use muster_server::settings::{OPEN_TO_WORKERS, open_to_the_network};
use muster_worker_agent::{ExitSummary, Shutdown, keep_private};
use serde::Serialize;

use crate::args::UpArgs;
use crate::embedded::{Embedded, Installation, StoreSettings, registered};
use crate::exit;
use crate::failure::UsageError;
use crate::output::{after_key, json, note};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::up_settings::UpSettings;

/// What programs learn when it is ready.
#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    data_dir: String,
    store: &'static str,
    slots: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_fingerprint: Option<Fingerprint>,
}

pub(crate) async fn run(args: &UpArgs, settings: &Settings) -> anyhow::Result<u8> {
    let job_umask = keep_private();
    let mut up = UpSettings::resolve(args, settings.config.as_deref(), settings.trust.ca_file.as_deref())?;
    up.scheduler.check().map_err(|error| UsageError(error.to_string()))?;
    if let Some(worker) = &mut up.worker {
        worker.job_umask = Some(job_umask);
    }
    let log = LogSettings { filter: &up.log, format: up.scheduler.log_format, target: LogTarget::Stderr };
    muster_logging::init(&log).map_err(|error| UsageError(format!("{error} (--log)")))?;
    if args.background {
        nix::unistd::setsid().context("cannot leave the terminal")?;
    }
    let mut signals = Signals::listen()?;
    let start = Timestamp::now();
    let mut embedded = Embedded::start(installation(&up)?).await?;
    warn_of_the_network(&up);
    let (client, fingerprint) = (embedded.client(), embedded.fingerprint());
    let ready = async {
        if up.worker.is_some() {
            registered(&client, start).await;
        }
        announce(&client, fingerprint, &up, settings)?;
        std::future::pending().await
    };
    let ended: anyhow::Result<ExitSummary> = tokio::select! {
        _ = signals.next() => return stop(embedded, &mut signals).await,
        failed = ready => failed,
        ended = embedded.worker_end() => ended,
    };
    embedded.stop_server().await;
    // Nobody asked it to end, so that something is wrong.
    Err(ended.err().unwrap_or_else(|| anyhow::anyhow!("the worker ended by itself")))
}

/// Where the network is trusted, everyone who reaches the port is as good as a user of this machine.
fn warn_of_the_network(up: &UpSettings) {
    if up.scheduler.access.allow_legacy_workers == LegacyWorkers::Any {
        tracing::warn!("{OPEN_TO_WORKERS}");
        note(&format!("warning: {OPEN_TO_WORKERS}"));
    }
    let address = up.scheduler.socket();
    if up.scheduler.access.insecure && !address.ip().to_canonical().is_loopback() {
        tracing::warn!(%address, "anyone who can connect can run commands on the workers");
        note(&format!("warning: {}", open_to_the_network(address)));
    }
}

fn installation(up: &UpSettings) -> anyhow::Result<Installation> {
    let choice = up.scheduler.store().map_err(|error| UsageError(error.to_string()))?;
    Ok(Installation {
        server: up.scheduler.server_config(),
        store: StoreSettings {
            choice,
            policies: up.scheduler.policies(),
            pool_size: usize::from(up.scheduler.pg_pool_size),
        },
        listen: up.scheduler.socket(),
        worker: up.worker.clone(),
    })
}

/// First the worker, then the scheduler, which has to hear of the last reports.
async fn stop(mut embedded: Embedded, signals: &mut Signals) -> anyhow::Result<u8> {
    let mut summary = ExitSummary::default();
    if embedded.has_worker() {
        embedded.ask(Shutdown::Graceful);
        after_key();
        note(&stopping(&embedded.client()).await);
        let ended = tokio::select! {
            ended = embedded.worker_end() => ended,
            _ = signals.next() => {
                embedded.ask(Shutdown::Force);
                embedded.worker_end().await
            }
        };
        summary = ended?;
    }
    let drained = tokio::select! {
        drained = embedded.stop_server() => drained,
        _ = signals.next() => false,
    };
    let clean = drained && summary.exit_code() == exit::OK;
    if !clean {
        note("stopped before everything was finished; what was running is queued again");
    }
    Ok(if clean { exit::OK } else { exit::FAILURE })
}

async fn stopping(client: &Client) -> String {
    let workers = client.workers().await.unwrap_or_default();
    match workers.iter().map(|worker| worker.running).sum::<u32>() {
        0 => "stopping".to_owned(),
        1 => "stopping when the running job has ended; once more stops it at once".to_owned(),
        jobs => format!("stopping when the {jobs} running jobs have ended; once more stops them at once"),
    }
}

fn announce(
    client: &Client,
    tls_fingerprint: Option<Fingerprint>,
    up: &UpSettings,
    settings: &Settings,
) -> anyhow::Result<()> {
    let store = up.scheduler.driver().name();
    let data_dir = up.scheduler.data_dir.display().to_string();
    let slots = up.worker.as_ref().map_or(0, |worker| worker.slots);
    if settings.screen.json {
        json::line(&Ready { url: client.url(), data_dir, store, slots, tls_fingerprint })?;
        return Ok(());
    }
    let jobs = match slots {
        0 => "no worker here".to_owned(),
        1 => "one job at a time".to_owned(),
        slots => format!("{slots} jobs at a time"),
    };
    let kept = if store == "memory" {
        "nothing is kept".to_owned()
    } else {
        format!("data in {data_dir} ({store})")
    };
    let line = |text: &str| settings.screen.line(text);
    line(&format!("Muster is ready at {}", client.url()))?;
    line(&format!("  {kept}, {jobs}; Ctrl-C stops it"))?;
    if let Some(fingerprint) = tls_fingerprint {
        line(&format!("  its certificate is {fingerprint}"))?;
    }
    line(&format!("  try:  {}", first_command(client.url(), tls_fingerprint)))?;
    Ok(())
}

/// Something that works as it stands.
fn first_command(url: &str, fingerprint: Option<Fingerprint>) -> String {
    match fingerprint {
        _ if url == crate::settings::DEFAULT_URL => "muster run -- echo hello".to_owned(),
        None => format!("muster run --url {url} -- echo hello"),
        Some(fingerprint) => {
            format!("muster run --url {url} --tls-fingerprint {fingerprint} -- echo hello")
        }
    }
}
