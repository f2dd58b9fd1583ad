//! What must be there before an attempt has a process: a list of steps, done one after the other in a task of their own.
//!
//! Guarantees: a job starts when all of its steps are done, or not at all; a job without steps waits for nothing here; a
//! job that is stopped or lost meanwhile is given up at once, with what was made for it.

mod checkpoint;
mod image;
mod inputs;
mod upload;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use muster_client::Client;
use muster_protocol::{Job, ReportKind};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use self::upload::Uploads;
use super::agent_loop::Agent;
use super::held::Stage;
use super::reports;
use crate::attempt_files::AttemptFiles;
use crate::attempt_room::AttemptRoom;
use crate::containers::{Pulls, Wanted};
use crate::job_user;
use crate::keeper::{Key, StartSpec};
use crate::launch::Note;
use crate::output_files::OutputFiles;
use crate::uploads::Place;

/// How many steps are done at a time, over all jobs.
const STEPS_AT_ONCE: usize = 8;

/// One thing that must be there.
#[derive(Debug)]
pub(super) enum Step {
    /// The checkpoint that the attempt starts from.
    Checkpoint,
    /// Files of the submitter that output is written to as well.
    OutputFiles(OutputFiles),
    /// The image of its container.
    Image(Wanted),
    /// The file that it reads as its standard input.
    Stdin(String),
    /// The directory that it runs in a copy of.
    Upload(String, AttemptRoom),
    /// Artifacts of needed jobs, and where they go.
    Inputs(Place, AttemptRoom),
}

/// Why a job cannot be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unready {
    pub(super) message: String,
    pub(super) cost: Cost,
}

/// What it costs the job that it cannot be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// Nothing: it is handed back and may start later, here or elsewhere.
    Free,
    /// An attempt; the next one prefers another worker.
    Attempt,
    /// All of them: no other would end differently.
    Final,
}

impl Cost {
    pub(super) fn report(self) -> ReportKind {
        match self {
            Self::Free => ReportKind::Released,
            Self::Attempt => ReportKind::Failed,
            Self::Final => ReportKind::Refused,
        }
    }
}

/// A preparation that has come to its end.
#[derive(Debug)]
pub(super) struct Prepared {
    key: Key,
    result: Result<Box<StartSpec>, Unready>,
}

/// What steps work with.
#[derive(Debug, Clone)]
struct Tools {
    client: Client,
    room: Arc<Semaphore>,
    pulls: Pulls,
    uploads: Arc<Uploads>,
    data_dir: Arc<Path>,
}

impl Tools {
    /// What is brought goes into the directory of the attempt, where that is a user's.
    async fn make_room(&self, spec: &StartSpec) -> Result<(), Unready> {
        let Some(user) = spec.user.clone() else { return Ok(()) };
        let (data_dir, key) = (Arc::clone(&self.data_dir), spec.key.clone());
        let made = tokio::task::spawn_blocking(move || job_user::make_room(&data_dir, &key, &user)).await;
        let made = made.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        made.map(drop).map_err(|error| Unready {
            message: format!("the directory of the attempt cannot be made: {error}"),
            cost: Cost::Attempt,
        })
    }
}

/// All preparations under way.
#[derive(Debug)]
pub(super) struct Preparations {
    tools: Tools,
    sender: mpsc::UnboundedSender<Prepared>,
    receiver: mpsc::UnboundedReceiver<Prepared>,
    waiting: HashMap<Key, AbortHandle>,
}

impl Preparations {
    pub(super) fn new(client: Client, data_dir: &Path, input_cache: u64) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (room, uploads) = (Semaphore::new(STEPS_AT_ONCE), Uploads::new(data_dir, input_cache));
        let (room, uploads) = (Arc::new(room), Arc::new(uploads));
        let tools = Tools { client, room, pulls: Pulls::default(), uploads, data_dir: data_dir.into() };
        Self { tools, sender, receiver, waiting: HashMap::new() }
    }

    /// The next one that has come to its end.
    pub(super) async fn next(&mut self) -> Option<Prepared> {
        self.receiver.recv().await
    }

    fn begin(&mut self, mut spec: Box<StartSpec>, steps: Vec<Step>) {
        let (tools, sender, key) = (self.tools.clone(), self.sender.clone(), spec.key.clone());
        let named = key.clone();
        let task = tokio::spawn(async move {
            let result = prepare(&tools, &mut spec, &steps).await.map(|()| spec);
            // The loop is gone only when the worker ends.
            let _ = sender.send(Prepared { key: named, result });
        });
        self.waiting.insert(key, task.abort_handle());
    }
}

async fn prepare(tools: &Tools, spec: &mut StartSpec, steps: &[Step]) -> Result<(), Unready> {
    tools.make_room(spec).await?;
    for step in steps {
        match step {
            Step::Checkpoint => {
                // The semaphore is never closed.
                let _room = tools.room.acquire().await;
                checkpoint::fetch(&tools.client, spec).await?;
            }
            // One pull may be for many: it takes no room from others.
            Step::Image(wanted) => image::provide(tools, wanted, spec).await?,
            Step::Stdin(id) => {
                let _room = tools.room.acquire().await;
                let target = upload::stdin_target(spec)?;
                tools.uploads.fetch(&tools.client, spec, id, target).await?;
            }
            Step::Upload(id, room) => {
                let _room = tools.room.acquire().await;
                let target = upload::directory_target(room, spec.user.as_deref())?;
                tools.uploads.fetch(&tools.client, spec, id, target).await?;
                if spec.container.is_some() && spec.user.is_none() {
                    upload::open(room.work()).await?;
                }
            }
            Step::Inputs(place, room) => {
                let _room = tools.room.acquire().await;
                inputs::make(place, room).await?;
                inputs::fetch(&tools.client, spec, place).await?;
            }
            Step::OutputFiles(files) => create(files.clone()).await?,
        }
    }
    Ok(())
}

/// What must be done before a job has a process.
pub(super) fn steps(
    job: &Job,
    note: &Note,
    spec: &StartSpec,
    image: Option<Wanted>,
    files: &AttemptFiles,
) -> Vec<Step> {
    let checkpoint = (!spec.paths.checkpoint.is_empty()).then_some(Step::Checkpoint);
    let stdin = job.stdin_upload.as_ref().filter(|_| spec.stdin.is_some());
    let upload = job.upload.clone().zip(files.room(&spec.key));
    let inputs = files.room(&spec.key).filter(|_| !job.inputs.is_empty());
    let steps = checkpoint.into_iter().chain(image.map(Step::Image));
    let steps = steps.chain(stdin.cloned().map(Step::Stdin));
    let steps = steps.chain(upload.map(|(id, room)| Step::Upload(id, room)));
    // Artifacts go into the copy of an upload, which must be there before.
    let steps = steps.chain(inputs.map(|room| Step::Inputs(place(job, spec, &room), room)));
    // Last, so that no file is emptied for a job that is not started.
    steps.chain(note.output.clone().map(Step::OutputFiles)).collect()
}

/// Where artifacts of needed jobs go: the directory that the job runs in if that is its own, else one beside it.
fn place(job: &Job, spec: &StartSpec, room: &AttemptRoom) -> Place {
    // Files that belong to the user of the container need no wider rights.
    let is_contained = spec.container.is_some() && spec.user.is_none();
    let user = spec.user.as_deref().cloned();
    match job.upload {
        Some(_) => {
            let below = job.working_dir.clone().unwrap_or_default();
            Place { root: room.work(), below, is_copy: true, is_contained, user }
        }
        None => Place { root: room.inputs(), below: String::new(), is_copy: false, is_contained, user },
    }
}

/// Makes or empties files, which another machine may be slow to do.
async fn create(files: OutputFiles) -> Result<(), Unready> {
    let created = tokio::task::spawn_blocking(move || files.create()).await;
    let result = created.unwrap_or_else(|_| Err("the output files cannot be made".to_owned()));
    result.map_err(|message| Unready { message, cost: Cost::Attempt })
}

impl Agent {
    /// Does what must be done before a process starts; then it is started.
    pub(super) fn prepare(&mut self, spec: Box<StartSpec>, steps: Vec<Step>) {
        self.preparations.begin(spec, steps);
    }

    /// Forgets a job that is being prepared, or waits for the others of its gang.
    pub(super) fn drop_waiting(&mut self, key: &Key) {
        self.give_up_port(key);
        self.drop_prepared(key);
        if let Some(task) = self.preparations.waiting.remove(key) {
            task.abort();
            self.attempts.remove_prepared(key);
        }
    }

    /// Reports a job that never got as far as a process.
    pub(super) fn report_unstarted(&mut self, key: &Key, kind: ReportKind, message: Option<String>) {
        self.drop_waiting(key);
        self.held.advance(key, Stage::Reporting);
        self.ready.push_back(reports::plain(key, kind, message));
    }

    pub(super) fn on_prepared(&mut self, prepared: Prepared) {
        let Prepared { key, result } = prepared;
        // One that was given up may have come to its end just before.
        if self.preparations.waiting.remove(&key).is_none() {
            return;
        }
        match result {
            Ok(spec) => self.ready_to_start(spec),
            Err(Unready { message, cost }) => {
                tracing::warn!(job_id = %key.job_id, lease = key.lease, error = message, "the job cannot be started");
                self.attempts.remove_prepared(&key);
                self.report_unstarted(&key, cost.report(), Some(message));
            }
        }
    }
}
