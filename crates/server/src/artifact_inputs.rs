//! Artifacts of needed jobs: read from submissions, and found for the worker that starts the job.
//!
//! Guarantees: a job gets artifacts only of jobs that it depends on, and only those that it asked for; of a job that is done it gets
//! those of the attempt that succeeded; what it asked for by name and is not there is an error that names it.

use std::collections::HashMap;

use http::StatusCode;
use muster_domain::{
    Artifact, ArtifactContent, ArtifactInput, Inputs, Job, JobId, JobSpec, check_artifact_name,
};
use muster_protocol as wire;
use muster_store::{ArtifactFilter, StoreExt as _};

use crate::app::App;
use crate::clock::to_wire as timestamp;
use crate::error::ApiError;
use crate::lenient::lenient_object;

/// The most files that one job finds.
const MOST_FILES: usize = 100_000;
/// Jobs that are looked up together.
const AT_ONCE: usize = 1_000;
/// The most entries of `inputs`.
const MOST_INPUTS: usize = 1_000;

lenient_object! {
    /// An input as a client writes it.
    pub(crate) struct ArtifactInputBody { from: String = "from", path: String = "path", to: String = "to" }
}

impl From<ArtifactInputBody> for wire::ArtifactInput {
    fn from(body: ArtifactInputBody) -> Self {
        Self { from: body.from.unwrap_or_default(), path: body.path, to: body.to }
    }
}

/// What a job asks for. `names` says what a source comes to among its dependencies, nothing for one that it does not depend on.
pub(crate) fn check(
    wanted: impl IntoIterator<Item = wire::ArtifactInput>,
    names: impl Fn(&str) -> Vec<String>,
) -> Result<Vec<ArtifactInput>, ApiError> {
    let mut inputs = Vec::new();
    for wire::ArtifactInput { from, path, to } in wanted {
        if inputs.len() >= MOST_INPUTS {
            return Err(ApiError::over_limit("inputs", MOST_INPUTS, "entries"));
        }
        let names = names(&from);
        if names.is_empty() {
            let message = format!(
                "inputs: the job does not depend on {from:?}, so its artifacts may not be there when it starts; name it in depends_on \
                 (in a pipeline: in needs)"
            );
            return Err(ApiError::invalid_field("inputs", message));
        }
        let input = ArtifactInput { from, names, jobs: Vec::new(), path, to };
        input.check().map_err(|error| ApiError::invalid_field("inputs", format!("inputs: {error}")))?;
        inputs.push(input);
    }
    Ok(inputs)
}

/// Adds them to what else the job finds.
pub(crate) fn add(spec: &mut JobSpec, artifacts: Vec<ArtifactInput>) {
    if !artifacts.is_empty() {
        let before = spec.inputs.take().map(|inputs| *inputs).unwrap_or_default();
        spec.inputs = Inputs { artifacts, ..before }.boxed();
    }
}

/// A job that artifacts come from, with what tells it apart from others of its step or gang.
struct Source {
    job: Job,
    element: Option<String>,
}

/// Everything that a job finds, in the order in which it asked.
pub(crate) async fn list(app: &App, job: &Job) -> Result<Vec<wire::InputFile>, ApiError> {
    let mut files = Vec::new();
    for input in job.spec.inputs.iter().flat_map(|inputs| &inputs.artifacts) {
        let before = files.len();
        for (number, ids) in input.jobs.chunks(AT_ONCE).enumerate() {
            for source in sources(app, &job.spec, input, (ids, number * AT_ONCE)).await? {
                collect(app, input, &source, &mut files).await?;
                if files.len() > MOST_FILES {
                    return Err(too_many(input));
                }
            }
        }
        if files.len() == before && input.is_pattern() {
            let path = input.path.as_deref().unwrap_or_default();
            return Err(missing(format!("no artifact of {} fits {path:?}", input.from)));
        }
    }
    Ok(files)
}

/// An artifact that a job asked for, if it did.
pub(crate) async fn find(app: &App, job: &Job, from: JobId, name: &str) -> Result<Artifact, ApiError> {
    for input in job.spec.inputs.iter().flat_map(|inputs| &inputs.artifacts) {
        let is_gang = |id: &&JobId| job.spec.gangs.contains_key(*id);
        let own = input.jobs.iter().find(|id| **id == from && !is_gang(id));
        let ids: Vec<JobId> = match own {
            Some(id) => vec![*id],
            None => input.jobs.iter().filter(is_gang).copied().collect(),
        };
        if ids.is_empty() || !input.means(name) {
            continue;
        }
        let sources = sources(app, &job.spec, input, (&ids, 0)).await?;
        let Some(source) = sources.into_iter().find(|source| source.job.id == from) else { continue };
        let filter = ArtifactFilter {
            name: Some(name.to_owned()),
            limit: 1,
            ..ArtifactFilter::of(from, source.job.lease)
        };
        if let Some(artifact) = app.store.artifacts(filter).await?.pop() {
            return Ok(artifact);
        }
    }
    Err(missing(format!("{name} of {from} is no input of the job")))
}

/// The jobs that some ids of an input come to: each task of a gang, and every other one as it is. `first` is the place of the
/// first of the ids in the input.
async fn sources(
    app: &App,
    spec: &JobSpec,
    input: &ArtifactInput,
    (ids, first): (&[JobId], usize),
) -> Result<Vec<Source>, ApiError> {
    let (gangs, alone): (Vec<JobId>, Vec<JobId>) = ids.iter().partition(|id| spec.gangs.contains_key(id));
    let mut known: HashMap<JobId, Job> =
        app.store.states(alone).await?.into_iter().map(|job| (job.id, job)).collect();
    let mut tasks: HashMap<JobId, Vec<Job>> = HashMap::new();
    for id in gangs {
        if let Some(gang) = spec.gangs.get(&id) {
            let views = app.store.gang(*gang).await?;
            tasks.insert(id, views.into_iter().map(|view| view.job).collect());
        }
    }
    let mut sources = Vec::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        let mut jobs: Vec<Job> =
            known.remove(id).into_iter().chain(tasks.remove(id).into_iter().flatten()).collect();
        jobs.sort_by_key(|job| job.spec.gang.as_ref().map_or(0, |gang| gang.index));
        if jobs.is_empty() {
            return Err(missing(format!("{id} is gone, and its artifacts with it")));
        }
        if let Some(again) = jobs.iter().find(|job| !job.is_terminal()) {
            let message = format!("{} runs again, so its artifacts are not there yet", again.id);
            return Err(ApiError::refused(StatusCode::SERVICE_UNAVAILABLE, "input_not_ready", message));
        }
        let named = jobs.into_iter().map(|job| Source { element: element(&job, input, first + place), job });
        sources.extend(named);
    }
    Ok(sources)
}

fn too_many(input: &ArtifactInput) -> ApiError {
    missing(format!(
        "the artifacts of {} and before it are more than {MOST_FILES} files, which is the most that a job finds; name fewer with \
         path, or leave an archive",
        input.from
    ))
}

/// The index in a step that has several jobs, and the rank in a gang.
fn element(job: &Job, input: &ArtifactInput, place: usize) -> Option<String> {
    let is_many = input.jobs.len() > 1;
    let member = job.member.as_ref();
    let is_of_step = member.is_some_and(|member| member.step.as_deref() == Some(input.from.as_str()));
    let index = member.and_then(|member| member.index).filter(|_| is_of_step);
    let index = index.map(|index| index.to_string()).or_else(|| is_many.then(|| place.to_string()));
    let rank = job.spec.gang.as_ref().map(|gang| gang.index.to_string());
    let parts: Vec<String> = index.into_iter().chain(rank).collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Adds what is meant of the artifacts of one job.
async fn collect(
    app: &App,
    input: &ArtifactInput,
    source: &Source,
    files: &mut Vec<wire::InputFile>,
) -> Result<(), ApiError> {
    let job = &source.job;
    let before = files.len();
    for artifact in app.store.artifacts(ArtifactFilter::of(job.id, job.lease)).await? {
        let Some(path) = input.place(&artifact.name, source.element.as_deref()) else { continue };
        let (size, sha256) = match artifact.content {
            ArtifactContent::Kept { size, sha256, .. } => (size, sha256),
            // Without a path whatever was kept is meant.
            ArtifactContent::Missing { .. } | ArtifactContent::Removed { .. } if input.path.is_none() => {
                continue;
            }
            ArtifactContent::Removed { at } => {
                return Err(missing(format!(
                    "the artifact {} of {} was removed at {} (--artifact-retention)",
                    artifact.name,
                    called(input, source),
                    timestamp(at)
                )));
            }
            ArtifactContent::Missing { why } => {
                let name = &artifact.name;
                return Err(missing(format!(
                    "the artifact {name} of {} was not kept: {why}",
                    called(input, source)
                )));
            }
        };
        if let Err(why) = check_artifact_name(&path) {
            return Err(missing(format!("the artifact {} cannot be put at {path:?}: {why}", artifact.name)));
        }
        files.push(wire::InputFile { path, from: job.id.to_string(), name: artifact.name, size, sha256 });
    }
    match &input.path {
        Some(path) if files.len() == before && !input.is_pattern() => Err(missing(format!(
            "{} left no artifact {path:?} ({} ended as {})",
            called(input, source),
            job.id,
            job.status()
        ))),
        _ => Ok(()),
    }
}

/// What people call the job.
fn called(input: &ArtifactInput, source: &Source) -> String {
    match &source.element {
        Some(element) => format!("{}/{element}", input.from),
        None => input.from.clone(),
    }
}

/// An input that is not there and will not be: the job fails for good.
fn missing(message: String) -> ApiError {
    ApiError::refused(StatusCode::GONE, "input_missing", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(from: &str, path: Option<&str>) -> wire::ArtifactInput {
        wire::ArtifactInput { from: from.into(), path: path.map(str::to_owned), to: None }
    }

    #[test]
    fn only_what_is_needed_is_an_input() {
        let names =
            |from: &str| if from == "a" { vec!["a#0".to_owned(), "a#1".to_owned()] } else { Vec::new() };
        let inputs = check([wanted("a", Some("x/"))], names).unwrap();
        assert_eq!((inputs[0].from.as_str(), inputs[0].names.len()), ("a", 2));
        let error = check([wanted("b", None)], names).unwrap_err();
        assert!(error.message.contains("does not depend on \"b\""), "{}", error.message);
        let error = check([wanted("a", Some("../x"))], names).unwrap_err();
        assert!(error.message.contains("leads out"), "{}", error.message);
        let many = std::iter::repeat_with(|| wanted("a", None)).take(MOST_INPUTS + 1);
        assert!(check(many, names).is_err());
    }
}
