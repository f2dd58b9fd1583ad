//! The server's side of the store: object-safe, and the same for every backend.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use muster_domain::{
    Account, Artifact, Credential, DeadLetter, Event, Explanation, GangId, Job, JobId, Overview, Queue,
    SealedSecret, Timestamp, UploadRef, WorkerId,
};

use crate::accounts::{AuditEntry, KnownCredential};
use crate::applied::{Applied, Wake};
use crate::artifacts::{ArtifactFilter, ArtifactRun};
use crate::command::{Answer, Command, Instance};
use crate::error::StoreError;
use crate::output::MovedOutput;
use crate::query::{
    CancelPreview, Counts, EndedFilter, EventFilter, FinishedJob, GangFilter, GangView, JobFilter, JobPage,
    JobView, Query, Reply, SetFilter, SetView, UsageFilter, UsageLine, WorkerUsage,
};
use crate::records::AuditFilter;
use crate::secrets::WorkerKeys;
use crate::uploads::{UploadUse, UploadView};
use crate::webhooks::{LetterFilter, WebhookView};

/// A place where jobs, workers and events are kept.
pub trait Store: Send + Sync + fmt::Debug {
    /// Applies all commands in one transaction and answers each. When this returns `Ok`, everything
    /// is on disk; when it returns `Err`, nothing happened.
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>>;

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>>;

    /// Whether the store answers.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What the store's own clock shows, where several instances share one. They keep to it, since each compares its
    /// time with what the others wrote down.
    fn time(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        async { Ok(None) }.boxed()
    }

    /// Wake-ups from *other* instances on the same store. Never ends; embedded stores have none. After
    /// a lost connection it yields a wake-up with everything set, since something may have been missed.
    fn wakes(&self) -> BoxStream<'static, Wake>;

    /// The local directory that the data lie in, if there is one.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Whether it is another machine, which can be out of reach while this one is well.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether several schedulers may serve on it at the same time, each with files of its own.
    fn is_shared(&self) -> bool {
        false
    }

    /// What it is, for people: `memory`, `sqlite` or `postgres`.
    fn kind(&self) -> &'static str;

    /// Finishes what is under way and lets go of files and connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Typed forms of [`Store::read`] and of one-command batches.
pub trait StoreExt: Store {
    fn apply_one(
        &self,
        now: Timestamp,
        command: Command,
    ) -> impl Future<Output = Result<(Answer, Wake), StoreError>> + Send {
        async move {
            let applied = self.apply(now, vec![command]).await?;
            let answer = applied.answers.into_iter().next();
            answer.map(|answer| (answer, applied.wake)).ok_or_else(|| mismatch("apply"))
        }
    }

    fn job(&self, id: JobId) -> impl Future<Output = Result<Option<JobView>, StoreError>> + Send {
        async move {
            match self.read(Query::Job(id)).await? {
                Reply::Job(view) => Ok(view),
                _ => Err(mismatch("job")),
            }
        }
    }

    fn jobs(&self, filter: JobFilter) -> impl Future<Output = Result<JobPage, StoreError>> + Send {
        async move {
            match self.read(Query::Jobs(filter)).await? {
                Reply::Jobs(page) => Ok(page),
                _ => Err(mismatch("jobs")),
            }
        }
    }

    fn workers(&self) -> impl Future<Output = Result<Vec<WorkerUsage>, StoreError>> + Send {
        async move {
            match self.read(Query::Workers).await? {
                Reply::Workers(workers) => Ok(workers),
                _ => Err(mismatch("workers")),
            }
        }
    }

    fn events(&self, filter: EventFilter) -> impl Future<Output = Result<Vec<Event>, StoreError>> + Send {
        async move {
            match self.read(Query::Events(filter)).await? {
                Reply::Events(events) => Ok(events),
                _ => Err(mismatch("events")),
            }
        }
    }

    fn sets(&self, filter: SetFilter) -> impl Future<Output = Result<Vec<SetView>, StoreError>> + Send {
        async move {
            match self.read(Query::Sets(filter)).await? {
                Reply::Sets(sets) => Ok(sets),
                _ => Err(mismatch("sets")),
            }
        }
    }

    fn cancel_preview(
        &self,
        ids: Vec<JobId>,
    ) -> impl Future<Output = Result<CancelPreview, StoreError>> + Send {
        async move {
            match self.read(Query::CancelPreview(ids)).await? {
                Reply::CancelPreview(preview) => Ok(preview),
                _ => Err(mismatch("cancel preview")),
            }
        }
    }

    fn last_event(&self) -> impl Future<Output = Result<u64, StoreError>> + Send {
        async move {
            match self.read(Query::LastEvent).await? {
                Reply::LastEvent(position) => Ok(position),
                _ => Err(mismatch("last event")),
            }
        }
    }

    fn finished(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<FinishedJob>, StoreError>> + Send {
        async move {
            match self.read(Query::Finished { before, limit }).await? {
                Reply::Finished(jobs) => Ok(jobs),
                _ => Err(mismatch("finished")),
            }
        }
    }

    fn counts(&self) -> impl Future<Output = Result<Counts, StoreError>> + Send {
        async move {
            match self.read(Query::Counts).await? {
                Reply::Counts(counts) => Ok(counts),
                _ => Err(mismatch("counts")),
            }
        }
    }

    fn usage(&self, filter: UsageFilter) -> impl Future<Output = Result<Vec<UsageLine>, StoreError>> + Send {
        async move {
            match self.read(Query::Usage(filter)).await? {
                Reply::Usage(lines) => Ok(lines),
                _ => Err(mismatch("usage")),
            }
        }
    }

    /// Jobs that ended in a time, and whether these are all.
    fn ended_jobs(
        &self,
        filter: EndedFilter,
    ) -> impl Future<Output = Result<(Vec<Job>, bool), StoreError>> + Send {
        async move {
            match self.read(Query::Ended(filter)).await? {
                Reply::Ended(jobs, complete) => Ok((jobs, complete)),
                _ => Err(mismatch("ended jobs")),
            }
        }
    }

    fn part(
        &self,
        name: Arc<str>,
        number: u32,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send {
        async move {
            match self.read(Query::Part { name, number }).await? {
                Reply::Part(bytes) => Ok(bytes),
                _ => Err(mismatch("part")),
            }
        }
    }

    /// Artifacts of one attempt, by name.
    fn artifacts(
        &self,
        filter: ArtifactFilter,
    ) -> impl Future<Output = Result<Vec<Artifact>, StoreError>> + Send {
        async move {
            match self.read(Query::Artifacts(filter)).await? {
                Reply::Artifacts(artifacts) => Ok(artifacts),
                _ => Err(mismatch("artifacts")),
            }
        }
    }

    /// The attempts of a job that left artifacts, the last first.
    fn artifact_runs(&self, job: JobId) -> impl Future<Output = Result<Vec<ArtifactRun>, StoreError>> + Send {
        async move {
            match self.read(Query::ArtifactRuns(job)).await? {
                Reply::ArtifactRuns(runs) => Ok(runs),
                _ => Err(mismatch("artifact runs")),
            }
        }
    }

    /// The output of a job that has moved, by lease.
    fn moved_output(&self, job: JobId) -> impl Future<Output = Result<Vec<MovedOutput>, StoreError>> + Send {
        async move {
            match self.read(Query::MovedOutput(job)).await? {
                Reply::MovedOutput(outputs) => Ok(outputs),
                _ => Err(mismatch("moved output")),
            }
        }
    }

    /// Bytes of all moved output.
    fn moved_bytes(&self) -> impl Future<Output = Result<u64, StoreError>> + Send {
        async move {
            match self.read(Query::MovedBytes).await? {
                Reply::MovedBytes(bytes) => Ok(bytes),
                _ => Err(mismatch("bytes of moved output")),
            }
        }
    }

    /// Those of these blobs that an artifact or moved output names.
    fn known_blobs(
        &self,
        blobs: Vec<String>,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send {
        async move {
            match self.read(Query::KnownBlobs(blobs)).await? {
                Reply::KnownBlobs(known) => Ok(known),
                _ => Err(mismatch("known blobs")),
            }
        }
    }

    fn instances(&self) -> impl Future<Output = Result<Vec<Instance>, StoreError>> + Send {
        async move {
            match self.read(Query::Instances).await? {
                Reply::Instances(instances) => Ok(instances),
                _ => Err(mismatch("instances")),
            }
        }
    }

    fn stops(&self, workers: Vec<WorkerId>) -> impl Future<Output = Result<Vec<Job>, StoreError>> + Send {
        async move {
            match self.read(Query::Stops(workers)).await? {
                Reply::Stops(jobs) => Ok(jobs),
                _ => Err(mismatch("stops")),
            }
        }
    }

    fn states(&self, ids: Vec<JobId>) -> impl Future<Output = Result<Vec<Job>, StoreError>> + Send {
        async move {
            match self.read(Query::States(ids)).await? {
                Reply::States(jobs) => Ok(jobs),
                _ => Err(mismatch("states")),
            }
        }
    }

    fn queues(&self) -> impl Future<Output = Result<Vec<Queue>, StoreError>> + Send {
        async move {
            match self.read(Query::Queues).await? {
                Reply::Queues(queues) => Ok(queues),
                _ => Err(mismatch("queues")),
            }
        }
    }

    fn webhooks(&self, counted: bool) -> impl Future<Output = Result<Vec<WebhookView>, StoreError>> + Send {
        async move {
            match self.read(Query::Webhooks { counted }).await? {
                Reply::Webhooks(webhooks) => Ok(webhooks),
                _ => Err(mismatch("webhooks")),
            }
        }
    }

    /// Secrets by name: of these names, or all.
    fn secrets(
        &self,
        names: Option<Vec<String>>,
    ) -> impl Future<Output = Result<Vec<SealedSecret>, StoreError>> + Send {
        async move {
            match self.read(Query::Secrets(names)).await? {
                Reply::Secrets(secrets) => Ok(secrets),
                _ => Err(mismatch("secrets")),
            }
        }
    }

    /// The keys of one worker, or of all that have announced some.
    fn sealing_keys(
        &self,
        worker: Option<WorkerId>,
    ) -> impl Future<Output = Result<Vec<WorkerKeys>, StoreError>> + Send {
        async move {
            match self.read(Query::SealingKeys(worker)).await? {
                Reply::SealingKeys(keys) => Ok(keys),
                _ => Err(mismatch("sealing keys")),
            }
        }
    }

    /// These uploads, or all.
    fn uploads(
        &self,
        named: Option<Vec<UploadRef>>,
    ) -> impl Future<Output = Result<Vec<UploadView>, StoreError>> + Send {
        async move {
            match self.read(Query::Uploads(named)).await? {
                Reply::Uploads(uploads) => Ok(uploads),
                _ => Err(mismatch("uploads")),
            }
        }
    }

    /// What names uploads.
    fn upload_uses(&self) -> impl Future<Output = Result<Vec<UploadUse>, StoreError>> + Send {
        async move {
            match self.read(Query::UploadUses).await? {
                Reply::UploadUses(uses) => Ok(uses),
                _ => Err(mismatch("uses of uploads")),
            }
        }
    }

    fn dead_letters(
        &self,
        filter: LetterFilter,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, StoreError>> + Send {
        async move {
            match self.read(Query::DeadLetters(filter)).await? {
                Reply::DeadLetters(letters) => Ok(letters),
                _ => Err(mismatch("dead letters")),
            }
        }
    }

    fn accounts(&self) -> impl Future<Output = Result<Vec<Account>, StoreError>> + Send {
        async move {
            match self.read(Query::Accounts).await? {
                Reply::Accounts(accounts) => Ok(accounts),
                _ => Err(mismatch("accounts")),
            }
        }
    }

    fn account(&self, name: String) -> impl Future<Output = Result<Option<Account>, StoreError>> + Send {
        async move {
            match self.read(Query::Account { name }).await? {
                Reply::Account(account) => Ok(account),
                _ => Err(mismatch("account")),
            }
        }
    }

    fn credentials(&self) -> impl Future<Output = Result<Vec<Credential>, StoreError>> + Send {
        async move {
            match self.read(Query::Credentials).await? {
                Reply::Credentials(credentials) => Ok(credentials),
                _ => Err(mismatch("credentials")),
            }
        }
    }

    fn credential(
        &self,
        digest: String,
    ) -> impl Future<Output = Result<Option<KnownCredential>, StoreError>> + Send {
        async move {
            match self.read(Query::Credential { digest }).await? {
                Reply::Credential(credential) => Ok(credential),
                _ => Err(mismatch("credential")),
            }
        }
    }

    fn audit(&self, filter: AuditFilter) -> impl Future<Output = Result<Vec<AuditEntry>, StoreError>> + Send {
        async move {
            match self.read(Query::Audit(filter)).await? {
                Reply::Audit(entries) => Ok(entries),
                _ => Err(mismatch("audit")),
            }
        }
    }

    fn gang(&self, id: GangId) -> impl Future<Output = Result<Vec<JobView>, StoreError>> + Send {
        async move {
            match self.read(Query::Gang(id)).await? {
                Reply::Gang(tasks) => Ok(tasks),
                _ => Err(mismatch("gang")),
            }
        }
    }

    fn gangs(&self, filter: GangFilter) -> impl Future<Output = Result<Vec<GangView>, StoreError>> + Send {
        async move {
            match self.read(Query::Gangs(filter)).await? {
                Reply::Gangs(gangs) => Ok(gangs),
                _ => Err(mismatch("gangs")),
            }
        }
    }

    fn overview(&self, now: Timestamp) -> impl Future<Output = Result<Overview, StoreError>> + Send {
        async move {
            match self.read(Query::Overview { now }).await? {
                Reply::Overview(overview) => Ok(overview),
                _ => Err(mismatch("overview")),
            }
        }
    }

    fn why(
        &self,
        job: JobId,
        now: Timestamp,
    ) -> impl Future<Output = Result<Option<(Job, Explanation)>, StoreError>> + Send {
        async move {
            match self.read(Query::Why { job, now }).await? {
                Reply::Why(why) => Ok(why),
                _ => Err(mismatch("why")),
            }
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// A backend that answers another question than was asked is broken; say so instead of panicking.
fn mismatch(operation: &'static str) -> StoreError {
    StoreError::Failed { operation, source: "the backend answered another question".into() }
}
