//! The agent's view of the engine that runs containers.
//!
//! Guarantee: a job that names an image is started in a container or not at all.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_protocol::{ContainerEngine, Job, SecretUse};
use tokio::sync::watch;
use tokio::time::Instant;

use super::agent_loop::Agent;
use super::preparation::{Cost, Unready};
use super::secrets;
use crate::config::WorkerConfig;
use crate::containers::{
    ContainerMode, ContainerSettings, Engine, Planned, Surroundings, find, is_in_use, plan, remove_strangers,
};
use crate::error::WorkerError;
use crate::executor::Executor;
use crate::keeper::Key;

/// Between two looks at whether the engine is there.
const ROUND: Duration = Duration::from_secs(20);
/// Containers that are younger may be of attempts that began while the engine was asked.
const SETTLED: Duration = Duration::from_secs(60);
/// The file that says that this data directory has had a container engine.
const KNOWN: &str = "container-engine";

/// The engine of the worker, if there is one.
#[derive(Debug)]
pub(super) struct Containers {
    engine: watch::Receiver<Option<Engine>>,
    /// Where what is found is put.
    found: watch::Sender<Option<Engine>>,
    /// What the scheduler was told.
    announced: Option<ContainerEngine>,
    /// Absent where none is wanted.
    next_look: Option<Instant>,
}

impl Containers {
    /// Looks for the engine. Where the settings name one it must be there at the first start in a data directory. Later it
    /// may be away for a while: the jobs of the worker must not suffer from that.
    pub(super) async fn start(
        config: &WorkerConfig,
        executor: &Executor,
        directory: &Path,
    ) -> Result<Self, WorkerError> {
        let settings = &config.containers;
        let known = directory.join(KNOWN);
        let found = match settings.mode {
            // Without it the worker does not start.
            ContainerMode::Docker | ContainerMode::Podman => find_twice(settings).await,
            ContainerMode::Auto | ContainerMode::Off => find(settings).await,
        };
        let engine = match found {
            Ok(engine) if executor.runs_containers => {
                if let Err(error) = fs::write(&known, &engine.name) {
                    tracing::warn!(%error, path = %known.display(), "cannot note that there is a container engine");
                }
                let socket = &engine.reach.socket;
                tracing::info!(
                    engine = engine.name,
                    version = engine.version,
                    socket,
                    "the worker runs containers"
                );
                Some(engine)
            }
            Ok(_) => {
                tracing::warn!(
                    "the keeper of this worker is of an older version and cannot run containers; it is replaced \
                                when it has no jobs and the worker starts again"
                );
                None
            }
            Err(reason) => match settings.mode {
                ContainerMode::Docker | ContainerMode::Podman if known.exists() => {
                    tracing::warn!(
                        reason,
                        "the container engine is away; jobs that name an image go elsewhere"
                    );
                    None
                }
                ContainerMode::Docker | ContainerMode::Podman => {
                    return Err(WorkerError::NoContainers { reason });
                }
                ContainerMode::Auto | ContainerMode::Off => {
                    tracing::debug!(reason, "the worker runs no containers");
                    None
                }
            },
        };
        let (found, engine) = watch::channel(engine);
        let looks = settings.mode != ContainerMode::Off && executor.runs_containers;
        let next_look = looks.then(|| Instant::now() + ROUND);
        Ok(Self { engine, found, announced: None, next_look })
    }

    /// What a registration says.
    pub(super) fn announce(&mut self) -> Option<ContainerEngine> {
        self.announced = self.engine.borrow().as_ref().map(Engine::announced);
        self.announced.clone()
    }

    /// When the engine is looked at next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next_look
    }

    /// Waits until the engine has come or gone.
    pub(super) async fn changed(&mut self) {
        // The sender is right here.
        let _ = self.engine.changed().await;
    }
}

impl Agent {
    /// The container of a job that names an image.
    pub(super) fn plan_container(&self, job: &Job) -> Result<Option<Planned>, Unready> {
        let Some(image) = job.image.as_deref().filter(|image| !image.is_empty()) else { return Ok(None) };
        let Some(engine) = self.containers.engine.borrow().clone() else {
            let message = "the container engine of this worker does not answer".to_owned();
            return Err(Unready { message, cost: Cost::Free });
        };
        let unready = |message| Unready { message, cost: Cost::Attempt };
        let credentials = job.container.as_ref().and_then(|container| container.credentials.as_deref());
        let credentials = credentials.map(|name| self.credentials(job, name)).transpose().map_err(unready)?;
        let allowed = &self.config.containers.allowed_mounts;
        let around = Surroundings { allowed, gpus: &self.config.gpus, credentials };
        plan(job, image, &engine, around).map(Some).map_err(unready)
    }

    /// What the registry of an image asks for.
    fn credentials(&self, job: &Job, name: &str) -> Result<Arc<str>, String> {
        let wish = SecretUse { name: name.to_owned(), file: true, variable: None };
        let grant = secrets::grant(job, &wish, &self.secret_keys)?;
        let text = std::str::from_utf8(grant.value.bytes());
        text.map(Arc::from)
            .map_err(|_| format!("the secret {name:?} with the credentials of the registry is no text"))
    }

    /// Looks now and then whether the engine still answers, and removes containers that nobody knows. A change is told
    /// to the scheduler.
    pub(super) fn watch_engine(&mut self, now: Instant) {
        if self.containers.due().is_none_or(|due| now < due) {
            return;
        }
        self.containers.next_look = Some(now + ROUND);
        let (settings, found) = (self.config.containers.clone(), self.containers.found.clone());
        let known: HashSet<Key> = self.held.keys().cloned().collect();
        let directory = self.keeper.as_ref().map(|keeper| keeper.directory.clone());
        tokio::spawn(async move {
            let engine = find_twice(&settings).await.ok();
            if let (Some(engine), Some(directory)) = (&engine, directory.filter(|path| is_in_use(path))) {
                match remove_strangers(&engine.reach, &directory, &known, SETTLED).await {
                    Ok(0) => {}
                    Ok(count) => tracing::warn!(count, "removed containers that nobody looked after"),
                    Err(reason) => {
                        tracing::warn!(reason, "containers that nobody looks after cannot be removed now");
                    }
                }
            }
            found.send_if_modified(|before| {
                let changed = *before != engine;
                *before = engine;
                changed
            });
        });
    }

    /// The engine has come or gone: the scheduler is told.
    pub(super) fn on_engine(&mut self) {
        let engine = self.containers.engine.borrow_and_update().as_ref().map(Engine::announced);
        if engine == self.containers.announced {
            return;
        }
        match &engine {
            Some(engine) => {
                tracing::info!(
                    engine = engine.name,
                    version = engine.version,
                    "the container engine is back"
                );
            }
            None => {
                tracing::warn!("the container engine does not answer; jobs that name an image go elsewhere");
            }
        }
        if !self.unregistered && !self.registering {
            self.registering = true;
            self.register_again();
        }
    }
}

/// One that does not answer once may only be busy.
async fn find_twice(settings: &ContainerSettings) -> Result<Engine, String> {
    match find(settings).await {
        Ok(engine) => Ok(engine),
        Err(_) => find(settings).await,
    }
}
