//! Output that has moved into the database or the blob store: what a reader sees of a job, and what goes with a job.
//!
//! Guarantee: files of a job are held before it is asked what has moved, so that whatever is there when the question is
//! answered can be read to its end.

use muster_domain::JobId;
use muster_store::{MovedOutput, StoreExt as _};

use crate::app::App;
use crate::error::ApiError;
use crate::logs::{Hold, Moved};

/// What keys of moved output begin with.
pub(crate) const OUTPUT: &str = "output/";

/// The output of one job for one reader.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) moved: Moved,
    _hold: Hold,
}

/// Looks at a job, and keeps its files where they are while the value lives.
pub(crate) async fn sight(app: &App, job: JobId) -> Result<Sight, ApiError> {
    let hold = app.logs.hold(job);
    Ok(Sight { moved: load(app, job).await?, _hold: hold })
}

/// What has moved of the output of a job.
pub(crate) async fn load(app: &App, job: JobId) -> Result<Moved, ApiError> {
    let outputs = app.store.moved_output(job).await?;
    Moved::new(outputs, app.blobs.objects()).map_err(|error| {
        tracing::error!(%error, job_id = %job, "what is noted of moved output cannot be read");
        ApiError::storage_unavailable()
    })
}

/// The objects that hold output of a job.
pub(crate) async fn objects(app: &App, job: JobId) -> Result<Vec<String>, ApiError> {
    let outputs = app.store.moved_output(job).await?;
    Ok(outputs.iter().filter_map(MovedOutput::blob).map(str::to_owned).collect())
}
