//! `muster notice`: whether the job that this runs in is told to stop.
//!
//! Guarantee: 0 and 1 are answers; whatever keeps it from knowing is 2.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_client::{Client, ClientError, Proof};

use crate::args::NoticeArgs;
use crate::environment;
use crate::exit;
use crate::failure;
use crate::follow::Patience;
use crate::inside_job;
use crate::output::text;
use crate::settings::Settings;
use crate::signals::Signals;

/// How often the file is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How often the scheduler is asked.
const ASK: Duration = Duration::from_secs(1);

/// Where the answer is.
#[derive(Debug)]
enum Source {
    File(PathBuf),
    Scheduler(Client, Proof),
}

pub(crate) async fn run(args: &NoticeArgs, settings: &Settings) -> anyhow::Result<u8> {
    answer(args, settings).await.or_else(|error| {
        if failure::is_broken_pipe(&error) {
            return Err(error);
        }
        failure::report(&error);
        Ok(exit::USAGE)
    })
}

async fn answer(args: &NoticeArgs, settings: &Settings) -> anyhow::Result<u8> {
    let source = source(settings)?;
    let found = if args.wait { wait(&source).await? } else { Ok(source.look().await?) };
    match found {
        Ok(Some(notice)) => {
            text(&format!("{}\n", notice.trim_end()))?;
            Ok(exit::OK)
        }
        Ok(None) => Ok(exit::FAILURE),
        Err(code) => Ok(code),
    }
}

/// The file is the worker's own word. Where its directory cannot be seen, as in some containers, the scheduler is asked.
fn source(settings: &Settings) -> anyhow::Result<Source> {
    let file = inside_job::notice_file();
    if let Some(path) = &file
        && path.parent().is_some_and(Path::is_dir)
    {
        return Ok(Source::File(path.clone()));
    }
    match inside_job::token() {
        Some(proof) => Ok(Source::Scheduler(settings.client()?, proof)),
        None => Err(inside_job::outside("muster notice", environment::PREEMPT_FILE).into()),
    }
}

impl Source {
    /// The notice, if there is one.
    async fn look(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(notice) => Ok(Some(notice)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => {
                    Err(anyhow::Error::new(error).context(format!("cannot read {}", path.display())))
                }
            },
            Self::Scheduler(client, proof) => Ok(ask(client, proof).await?),
        }
    }

    fn pause(&self) -> Duration {
        match self {
            Self::File(_) => LOOK,
            Self::Scheduler(..) => ASK,
        }
    }
}

/// Asks, patient with a scheduler that restarts.
async fn ask(client: &Client, proof: &Proof) -> Result<Option<String>, ClientError> {
    let mut patience = Patience::default();
    loop {
        match client.notice(proof).await {
            Ok(notice) => return Ok(notice.and_then(|notice| serde_json::to_string(&notice).ok())),
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// The signal that follows a notice may come here too, when the whole group gets it: then the notice is there. Any
/// other signal ends the waiting with its code.
async fn wait(source: &Source) -> anyhow::Result<Result<Option<String>, u8>> {
    let mut signals = Signals::listen()?;
    loop {
        let found = tokio::select! {
            found = source.look() => found?,
            code = signals.next() => return Ok(source.look().await?.map(Some).ok_or(code)),
        };
        if found.is_some() {
            return Ok(Ok(found));
        }
        tokio::select! {
            () = tokio::time::sleep(source.pause()) => {}
            code = signals.next() => return Ok(source.look().await?.map(Some).ok_or(code)),
        }
    }
}
