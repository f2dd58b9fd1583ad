//! Moves what attempts wrote, once they have ended, out of the files of this scheduler: small output into the database, many runs
//! in one transaction; other output into the blob store, named by the database when it is there.
//!
//! Guarantees: files go only after the database names a copy that is at least as long; what a crash leaves is moved again, and an
//! object that nothing names is swept; a failure costs nothing but time, as everything is still read from the files; two large
//! moves and one transaction of small ones are under way at the most, and a step rests as long as it took.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use muster_blob::{BlobKey, Expected};
use muster_domain::{Job, JobId, Lease, Status, Timestamp};
use muster_store::faults::{self, Moment};
use muster_store::{Command, Moved as Became, MovedOutput, Outcome, OutputContent, StoreExt as _};
use tokio::task::JoinSet;

use crate::app::{App, Shared};
use crate::artifacts;
use crate::logs::{Due, Packed, QUIET, SHARDS};
use crate::moved_output::OUTPUT;
use crate::moves::To;
use crate::peers::{self, More};

/// Between two looks at what is due.
const PAUSE: Duration = Duration::from_millis(500);
/// Jobs of one step.
const STEP: usize = 100;
/// Content up to this size lies in the database: an object would cost more than what is in it.
const SMALL: u64 = 8 * 1024;
/// Objects that are sent at the same time.
const AT_ONCE: usize = 2;
/// When a job is looked at again that still runs, or that something else is in the way of.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

/// Runs until `stop` resolves; returns at once where output stays in files.
pub(crate) async fn run(app: &Shared, stop: impl Future<Output = ()>) {
    if !app.logs.waiting.is_on() {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    let mut large = Large::default();
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return,
            Some(_) = large.sending.join_next() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = pass(app, &mut large) => {}
        }
    }
}

/// Large output on its way, apart from the rest: nothing else waits for the blob store.
#[derive(Default)]
struct Large {
    sending: JoinSet<()>,
    backlog: VecDeque<Move>,
    /// The blob store was away when it was looked at last.
    away: bool,
}

impl Large {
    fn add(&mut self, app: &App, one: Move) {
        if let Some(why) = app.blobs.outage() {
            // It would take long to find out the same again.
            fail(app, To::BlobStore, &why);
            again(app, one.job.id, one.due);
        } else if self.backlog.len() < STEP {
            self.backlog.push_back(one);
        } else {
            app.logs.waiting.again(one.job.id, one.due, FIRST, Instant::now());
        }
    }

    fn fill(&mut self, app: &Shared) {
        while self.sending.len() < AT_ONCE
            && let Some(one) = self.backlog.pop_front()
        {
            let app = Arc::clone(app);
            self.sending.spawn(async move { move_large(&app, one).await });
        }
        while self.sending.try_join_next().is_some() {}
    }
}

async fn pass(app: &Shared, large: &mut Large) {
    if app.logs.waiting.wants_look() {
        look(app).await;
    }
    let away = app.blobs.outage().is_some();
    if std::mem::replace(&mut large.away, away) && !away {
        app.logs.waiting.hurry(Instant::now());
    }
    // While the database is away nothing can move.
    while app.health.outage().is_none() {
        large.fill(app);
        let due = app.logs.waiting.take(STEP, Instant::now());
        if due.is_empty() {
            break;
        }
        let started = Instant::now();
        step(app, large, &due).await;
        large.fill(app);
        tokio::time::sleep(started.elapsed().min(PAUSE)).await;
    }
    app.metrics.output.waiting(app.logs.waiting.ended() + large.backlog.len() + large.sending.len());
}

fn fail(app: &App, to: To, why: &str) {
    app.logs.moves.failed(to, why);
    app.metrics.output.failed();
}

/// Finds all output that lies here.
async fn look(app: &App) {
    for shard in 0..SHARDS {
        match app.logs.shard_jobs(shard).await {
            Ok(jobs) => jobs.into_iter().for_each(|job| app.logs.waiting.found(job, Instant::now())),
            Err(error) => tracing::warn!(%error, "output could not be listed"),
        }
    }
}

/// One run on its way.
struct Move {
    due: Due,
    job: Job,
    packed: Packed,
    whole: bool,
}

async fn step(app: &App, large: &mut Large, due: &[(JobId, Due)]) {
    let jobs = match app.store.states(due.iter().map(|(job, _)| *job).collect()).await {
        Ok(jobs) => jobs,
        Err(error) => {
            app.logs.moves.failed(To::Database, &error.reason());
            for (job, due) in due {
                again(app, *job, *due);
            }
            return;
        }
    };
    let mut small = Vec::new();
    for (id, due) in due {
        // Output of a job that is gone is removed elsewhere.
        let Some(job) = jobs.iter().find(|job| job.id == *id) else { continue };
        for one in ready(app, job, *due).await {
            if one.packed.size() <= SMALL {
                small.push(one);
            } else {
                large.add(app, one);
            }
        }
    }
    if !small.is_empty() {
        move_small(app, small).await;
    }
}

fn again(app: &App, job: JobId, due: Due) {
    let after = FIRST.saturating_mul(1 << due.looks.min(10)).min(LONGEST);
    app.logs.waiting.again(job, due, after, Instant::now());
}

/// The runs of a job that may move. The job is looked at again when some may not yet.
async fn ready(app: &App, job: &Job, due: Due) -> Vec<Move> {
    let runs = match app.logs.packed(job.id).await {
        Ok(runs) => runs,
        Err(error) => {
            // It changed while it was looked at, or the disk is bad.
            tracing::debug!(%error, job_id = %job.id, "output could not be looked at");
            again(app, job.id, due);
            return Vec::new();
        }
    };
    let mut ready = Vec::new();
    let mut left = false;
    let ended = Due { ended: true, ..due };
    for packed in runs {
        let quiet = packed.grown_at.elapsed().is_ok_and(|age| age >= QUIET);
        if is_live(job, packed.run.lease) || !quiet {
            left = true;
            continue;
        }
        match is_whole(app, job, &packed, due).await {
            Some(whole) => ready.push(Move { due: ended, job: job.clone(), packed, whole }),
            None => left = true,
        }
    }
    if left {
        again(app, job.id, Due { ended: job.is_terminal(), ..due });
    }
    ready
}

/// Whether more can come of what runs under this lease.
fn is_live(job: &Job, lease: u64) -> bool {
    let held = matches!(job.status(), Status::Running | Status::Preempting | Status::Reserved);
    held && job.lease.0 == lease
}

/// Whether nobody has more of a run; `None` when somebody has, whose copy is then the one that moves.
async fn is_whole(app: &App, job: &Job, packed: &Packed, due: Due) -> Option<bool> {
    if !app.store.is_shared() || (due.reported_here && job.lease.0 == packed.run.lease) {
        return Some(true);
    }
    match peers::who_has_more(app, job, packed.run.lease, packed.length()).await {
        Ok(More::Nobody) => Some(true),
        Ok(More::Unknown) | Err(_) => Some(false),
        Ok(More::Somebody) => None,
    }
}

impl Move {
    fn output(&self, content: OutputContent) -> MovedOutput {
        let grown = self.packed.grown_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        MovedOutput {
            job: self.job.id,
            lease: Lease(self.packed.run.lease),
            attempt: self.packed.run.attempt,
            written: self.packed.written(),
            kept: self.packed.kept(),
            grown_at: Timestamp::from_micros(i64::try_from(grown.as_micros()).unwrap_or(i64::MAX)),
            whole: self.whole,
            facts: self.packed.facts(),
            content,
        }
    }
}

async fn move_small(app: &App, moves: Vec<Move>) {
    let mut ready = Vec::with_capacity(moves.len());
    let mut outputs = Vec::with_capacity(moves.len());
    for one in moves {
        match app.logs.collected(one.job.id, one.packed.clone()).await {
            Ok(bytes) if bytes.is_empty() => outputs.push(one.output(OutputContent::Removed)),
            Ok(bytes) => outputs.push(one.output(OutputContent::Inline(bytes))),
            Err(error) => {
                tracing::debug!(%error, job_id = %one.job.id, "output could not be read to be moved");
                again(app, one.job.id, one.due);
                continue;
            }
        }
        ready.push(one);
    }
    match name(app, outputs).await {
        Ok(became) => {
            app.logs.moves.succeeded(To::Database);
            for (one, became) in ready.into_iter().zip(became) {
                app.metrics.output.moved(To::Database, one.packed.kept());
                finish(app, one, became, None).await;
            }
        }
        Err(reason) => {
            fail(app, To::Database, &reason);
            for one in &ready {
                again(app, one.job.id, one.due);
            }
        }
    }
}

async fn move_large(app: &App, one: Move) {
    // After a crash the copy may be there, and only the files be left.
    let known = app.store.moved_output(one.job.id).await.unwrap_or_default();
    let there = |output: &MovedOutput| {
        output.lease.0 == one.packed.run.lease && output.length() >= one.packed.length()
    };
    if known.iter().any(there) {
        return finish(app, one, Became::There, None).await;
    }
    match send(app, &one).await {
        Ok((key, became)) => {
            app.logs.moves.succeeded(To::BlobStore);
            app.metrics.output.moved(To::BlobStore, one.packed.kept());
            finish(app, one, became, Some(key)).await;
        }
        Err(reason) => {
            fail(app, To::BlobStore, &reason);
            again(app, one.job.id, one.due);
        }
    }
}

/// Puts the content into the blob store, and names it then.
async fn send(app: &App, one: &Move) -> Result<(String, Became), String> {
    let unique: u128 = rand::random();
    let job = one.job.id.as_uuid().simple();
    let key = BlobKey::new(format!("{OUTPUT}{job}/{}-{unique:032x}", one.packed.run.lease));
    let key = key.map_err(|error| error.to_string())?;
    let expected = Expected { size: Some(one.packed.size()), sha256: None };
    let put = app.blobs.put(&key, one.packed.content(), expected).await;
    put.map_err(|error| {
        app.blobs.failed(&error);
        error.to_string()
    })?;
    let name_of = key.as_str().to_owned();
    let mut became = name(app, vec![one.output(OutputContent::Blob(name_of.clone()))]).await?;
    Ok((name_of, became.pop().unwrap_or(Became::NoJob)))
}

/// In a transaction of its own, so that no submit waits for it.
async fn name(app: &App, outputs: Vec<MovedOutput>) -> Result<Vec<Became>, String> {
    let applied = app.store.apply(app.config.clock.now(), vec![Command::MoveOutput(outputs)]).await;
    let applied = applied.map_err(|error| error.reason())?;
    faults::strike(Moment::After, &applied);
    match applied.answers.into_iter().next() {
        Some(Ok(Outcome::OutputMoved(became))) => Ok(became),
        other => Err(format!("a move was answered with {other:?}")),
    }
}

/// Clears up after a move: the object that nothing names, and the files.
async fn finish(app: &App, one: Move, became: Became, sent: Option<String>) {
    let unnamed = match became {
        Became::Kept { replaced } => replaced,
        Became::There | Became::NoJob => sent,
    };
    artifacts::remove(app, unnamed.as_slice()).await;
    match app.logs.leave(one.job.id, one.packed).await {
        Ok(true) => {}
        // Somebody reads them, or more has come: the same is found again then.
        Ok(false) => again(app, one.job.id, one.due),
        Err(error) => {
            tracing::warn!(%error, job_id = %one.job.id, "output that has moved could not be removed");
            again(app, one.job.id, one.due);
        }
    }
}
