//! What jobs find when they start: read from submissions, looked up in the space of the submitter, and kept from workers that
//! would start them without it.
//!
//! Guarantees: a job names only uploads of its submitter; a literal standard input is kept before the job is taken in; a worker
//! that cannot fetch what was sent along gets no such job.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_domain::access::Principal;
use muster_domain::{Caller, Exit, Inputs, JobSpec, Lease, ReportKind, UploadRef, WorkerId};
use muster_protocol as wire;
use muster_store::{Command, NewJob, Report, StoreExt as _};
use muster_upload::{Digest, check_path};

use crate::app::App;
use crate::error::ApiError;
use crate::uploads::{keep_text, space_of};

/// The fields of a submit that say what is sent along.
#[derive(Debug, Default)]
pub(crate) struct InputFields {
    pub(crate) upload: Option<String>,
    pub(crate) stdin: Option<String>,
    pub(crate) stdin_upload: Option<String>,
    /// Files that output is written to as well.
    pub(crate) output_paths: [Option<String>; 2],
}

impl InputFields {
    /// The inputs, still without their space. `working_dir` lies in the upload when there is one.
    pub(crate) fn check(self, working_dir: Option<&str>) -> Result<Option<Box<Inputs>>, ApiError> {
        let named = |field: &'static str, id: Option<String>| match id.filter(|id| !id.is_empty()) {
            None => Ok(None),
            Some(id) if id.parse::<Digest>().is_ok() => Ok(Some(UploadRef { space: String::new(), id })),
            Some(id) => {
                let message = format!(
                    "{field} is {id:?}, and an upload is named by 64 hexadecimal digits; `muster submit --upload DIR` sends one"
                );
                Err(ApiError::invalid_field(field, message))
            }
        };
        let (upload, stdin) = (named("upload", self.upload)?, named("stdin_upload", self.stdin_upload)?);
        if let Some(directory) = working_dir.filter(|_| upload.is_some())
            && let Err(error) = check_path(directory)
        {
            let message = format!("with an upload, working_dir is a directory in it: {error}");
            return Err(ApiError::invalid_field("working_dir", message));
        }
        let relative =
            self.output_paths.iter().flatten().find(|path| !path.is_empty() && !path.starts_with('/'));
        if let Some(path) = relative.filter(|_| upload.is_some()) {
            let message = format!(
                "with an upload the path of an output file is absolute, and {path:?} is not: the copy that the job runs in goes with it"
            );
            return Err(ApiError::invalid_field("stdout_path", message));
        }
        let stdin_text = self.stdin.filter(|text| !text.is_empty()).map(Arc::from);
        if stdin_text.is_some() && stdin.is_some() {
            let message = "stdin and stdin_upload are the same: give one of them";
            return Err(ApiError::invalid_field("stdin_upload", message));
        }
        Ok(Inputs { upload, stdin, stdin_text, artifacts: Vec::new() }.boxed())
    }
}

/// Gives what jobs name its space, and keeps literal texts. Costs nothing where no job has inputs.
pub(crate) async fn admit(app: &App, principal: &Principal, jobs: &mut [NewJob]) -> Result<(), ApiError> {
    let mut kept: BTreeMap<Arc<str>, UploadRef> = BTreeMap::new();
    // Elements of an array share what is the same for all, also afterwards. What is known by its place stays there meanwhile.
    let mut done: HashMap<usize, Arc<JobSpec>> = HashMap::new();
    let mut given_specs = Vec::new();
    let space = space_of(principal);
    for job in jobs.iter_mut().filter(|job| job.spec.inputs.is_some()) {
        let given = Arc::clone(&job.spec);
        if let Some(spec) = done.get(&Arc::as_ptr(&given).addr()) {
            job.spec = Arc::clone(spec);
            continue;
        }
        let mut inputs = job.spec.inputs.as_deref().cloned().unwrap_or_default();
        if let Some(text) = inputs.stdin_text.take() {
            if text.len() as u64 > app.config.uploads.stdin_bytes {
                return Err(ApiError::over_limit("stdin", app.config.uploads.stdin_bytes as usize, "bytes"));
            }
            let upload = match kept.get(&text) {
                Some(upload) => upload.clone(),
                None => UploadRef { space: space.clone(), id: keep_text(app, &space, &text).await? },
            };
            kept.insert(text, upload.clone());
            inputs.stdin = Some(upload);
        }
        for upload in inputs.upload.iter_mut().chain(&mut inputs.stdin) {
            upload.space.clone_from(&space);
        }
        job.spec = Arc::new(JobSpec { inputs: inputs.boxed(), ..given.as_ref().clone() });
        done.insert(Arc::as_ptr(&given).addr(), Arc::clone(&job.spec));
        given_specs.push(given);
    }
    check_stdin(app, jobs).await
}

/// An upload of a whole directory is no standard input.
async fn check_stdin(app: &App, jobs: &[NewJob]) -> Result<(), ApiError> {
    let inputs = jobs.iter().filter_map(|job| job.spec.inputs.as_deref());
    let mut named: Vec<UploadRef> = inputs.filter_map(|inputs| inputs.stdin.clone()).collect();
    named.sort_unstable();
    named.dedup();
    if named.is_empty() {
        return Ok(());
    }
    let limit = app.config.uploads.stdin_bytes;
    for view in app.store.uploads(Some(named)).await? {
        if view.files != 1 {
            let message =
                format!("stdin_upload: the upload {} has {} files, not one", view.upload.id, view.files);
            return Err(ApiError::invalid_field("stdin_upload", message));
        }
        if view.bytes > limit {
            let message = format!(
                "the standard input has {} bytes, and at most {limit} are allowed; send it as a file with --upload",
                view.bytes
            );
            return Err(ApiError::invalid_field("stdin_upload", message));
        }
    }
    Ok(())
}

/// Which inputs a worker knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    /// What was sent along with a job on its host.
    Uploads,
    All,
}

impl Takes {
    pub(crate) fn of(uploads: Option<bool>, all: Option<bool>) -> Self {
        match (uploads.unwrap_or(false), all.unwrap_or(false)) {
            (_, true) => Self::All,
            (true, false) => Self::Uploads,
            (false, false) => Self::Nothing,
        }
    }

    /// Whether it would start the job without something that the job is to find.
    fn misses(self, job: &wire::Job) -> bool {
        let was_sent = job.upload.is_some() || job.stdin_upload.is_some();
        match self {
            Self::Nothing => was_sent || !job.inputs.is_empty(),
            Self::Uploads => was_sent && job.image.is_some() || !job.inputs.is_empty(),
            Self::All => false,
        }
    }
}

/// Keeps jobs with inputs from a worker that knows nothing of them: it would start them without. So the attempt has failed, and
/// the next one prefers another worker.
pub(crate) async fn keep_back(
    app: &App,
    worker: Option<&WorkerId>,
    takes: Takes,
    jobs: &mut Vec<wire::Job>,
) -> Result<(), ApiError> {
    if !jobs.iter().any(|job| takes.misses(job)) {
        return Ok(());
    }
    let name = worker.map_or("the claimer without a name", WorkerId::as_str);
    let message =
        format!("the job is to find files when it starts, and {name} is of a version that cannot fetch them");
    let refused = jobs.extract_if(.., |job| takes.misses(job)).filter_map(|job| {
        // A claim may name a job with its lease.
        let id = job.id.split('~').next()?.parse().ok()?;
        let caller = Caller { lease: Some(Lease(job.lease)), worker: worker.cloned() };
        let (kind, exit) = (ReportKind::Failed, Exit::default());
        let message = Some(message.clone());
        Some(Command::Report(Report { job: id, caller, kind, exit, message, outputs: None, spent: None }))
    });
    app.batcher.submit(refused.collect()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_worker_starts_a_job_without_what_it_is_to_find() {
        let upload = wire::Job { upload: Some("x".into()), ..wire::Job::default() };
        let contained = wire::Job { image: Some("i".into()), ..upload.clone() };
        let artifacts = wire::Job { inputs: vec![wire::ArtifactInput::default()], ..wire::Job::default() };
        let misses = |takes: Takes| [&upload, &contained, &artifacts].map(|job| takes.misses(job));
        assert_eq!(misses(Takes::Nothing), [true, true, true]);
        assert_eq!(misses(Takes::Uploads), [false, true, true]);
        assert_eq!(misses(Takes::All), [false, false, false]);
        assert!(!Takes::Nothing.misses(&wire::Job::default()));
    }

    fn message(fields: InputFields, working_dir: Option<&str>) -> String {
        fields.check(working_dir).unwrap_err().message.into_owned()
    }

    #[test]
    fn inputs_are_named_by_their_digest() {
        assert!(InputFields::default().check(Some("/anywhere")).unwrap().is_none());
        let id = Digest::of(b"x").to_string();
        let fields = || InputFields { upload: Some(id.clone()), ..InputFields::default() };
        let inputs = fields().check(Some("src/app")).unwrap().unwrap();
        assert_eq!(inputs.upload.unwrap().id, id);
        assert!(message(fields(), Some("/src")).contains("a directory in it"));
        assert!(message(fields(), Some("../src")).contains("a directory in it"));
        let wrong = InputFields { upload: Some("latest".into()), ..InputFields::default() };
        assert!(message(wrong, None).contains("64 hexadecimal digits"));
        let files = InputFields { output_paths: [Some("out".into()), None], ..fields() };
        assert!(message(files, None).contains("is absolute"));
        let both =
            InputFields { stdin: Some("x".into()), stdin_upload: Some(id.clone()), ..InputFields::default() };
        assert!(message(both, None).contains("give one of them"));
    }
}
