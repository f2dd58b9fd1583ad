//! From a pipeline file or an array request to the jobs of one submission.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use muster_document::{Document, Step};
use muster_domain::{Concurrency, JobSet, JobSpec, Member, Rule, SetId, SetKind, StepOutline};
use muster_protocol::DependencyRule;
use muster_store::{NewJob, SetPart, Submit};
use muster_upload::Digest;
use serde_json::Value;

use crate::config::ServerConfig;
use crate::error::ApiError;
use crate::lenient::Reading;
use crate::submission::{SubmitBody, check_text};
use crate::{artifact_inputs, gang_submission, ids, lenient};

/// Jobs of steps that exist already, by the step's name.
pub(crate) type Existing = BTreeMap<String, Vec<String>>;

fn rule(rule: DependencyRule) -> Rule {
    match rule {
        DependencyRule::AllSuccess => Rule::AllSuccess,
        DependencyRule::AllDone => Rule::AllDone,
        DependencyRule::AllFailed => Rule::AllFailed,
        DependencyRule::OneFailed => Rule::OneFailed,
        DependencyRule::OneSuccess => Rule::OneSuccess,
        DependencyRule::NoneFailed => Rule::NoneFailed,
        DependencyRule::Always => Rule::Always,
    }
}

/// The names of the jobs of a step within the submission.
fn references(step: &Step) -> Vec<String> {
    if step.elements.is_empty() {
        return vec![step.name.clone()];
    }
    (0..step.elements.len()).map(|index| format!("{}#{index}", step.name)).collect()
}

/// At most `limit` jobs of the set, or of the step, at once.
fn bound(spec: &mut JobSpec, set: SetId, step: Option<&str>, limit: Option<u32>) -> Result<(), ApiError> {
    let Some(limit) = limit else { return Ok(()) };
    if limit == 0 {
        return Err(ApiError::invalid_field("max_parallel", "max_parallel must be at least 1"));
    }
    if spec.concurrency.is_some() {
        let message = "max_parallel and concurrency cannot be combined: a job is counted under one key";
        return Err(ApiError::invalid_field("max_parallel", message));
    }
    let key = step.map_or_else(|| set.to_string(), |step| format!("{set}/{step}"));
    spec.concurrency = Some(Concurrency { key, limit });
    Ok(())
}

/// The directory of a step: its own, seen from that of the pipeline, or that one.
fn working_dir(base: Option<&str>, own: Option<String>) -> Option<String> {
    match (base, own) {
        (Some(base), Some(own)) => Some(Path::new(base).join(own).to_string_lossy().into_owned()),
        (base, own) => own.or_else(|| base.map(str::to_owned)),
    }
}

/// The whole of a pipeline file, or more steps for the pipeline `set`.
pub(crate) struct Pipeline<'a> {
    pub(crate) document: &'a Document,
    pub(crate) existing: &'a Existing,
    pub(crate) config: &'a ServerConfig,
    /// Where steps run that do not say it, and what a relative directory of a step is relative to.
    pub(crate) working_dir: Option<&'a str>,
    /// Who submits the steps that do not say it.
    pub(crate) user: Option<&'a str>,
    /// What was sent of that which steps name, by the name in the file.
    pub(crate) uploads: &'a BTreeMap<String, String>,
}

impl Pipeline<'_> {
    /// A new pipeline.
    pub(crate) fn create(&self, key: Option<String>) -> Result<(SetId, Submit), ApiError> {
        let id = ids::set();
        let set = JobSet {
            id,
            seq: 0,
            kind: SetKind::Pipeline,
            name: self.document.name.clone(),
            created_at: self.config.clock.now(),
            size: 0,
            max_parallel: self.document.max_parallel,
            idempotency_key: key.or_else(|| self.document.idempotency_key.clone()),
            outline: self.outline(),
        };
        for text in set.name.iter().chain(&set.idempotency_key) {
            check_text("name", text, self.config.limits.name)?;
        }
        Ok((id, Submit { jobs: self.jobs(id)?, atomic: true, set: Some(SetPart::New(set)) }))
    }

    pub(crate) fn extend(&self, set: SetId) -> Result<Submit, ApiError> {
        let part = SetPart::Extend { set, outline: self.outline() };
        Ok(Submit { jobs: self.jobs(set)?, atomic: true, set: Some(part) })
    }

    fn outline(&self) -> Vec<StepOutline> {
        let step = |step: &Step| StepOutline {
            name: step.name.clone(),
            needs: step.needs.iter().map(|need| (need.step.clone(), rule(need.rule))).collect(),
        };
        self.document.steps.iter().map(step).collect()
    }

    fn jobs(&self, set: SetId) -> Result<Vec<NewJob>, ApiError> {
        let total: usize = self.document.steps.iter().map(|step| step.elements.len().max(1)).sum();
        if total > self.config.limits.batch_items {
            return Err(ApiError::over_limit("steps", self.config.limits.batch_items, "jobs"));
        }
        let mut named = self.existing.clone();
        for step in &self.document.steps {
            named.insert(step.name.clone(), references(step));
        }
        let mut jobs = Vec::with_capacity(total);
        for step in &self.document.steps {
            self.add(set, step, &named, &mut jobs).map_err(|error| {
                let message = format!("step {} (line {}): {}", step.name, step.line, error.message);
                ApiError { message: message.into(), ..error }
            })?;
        }
        if gang_submission::count(&jobs) > self.config.limits.batch_items {
            return Err(ApiError::over_limit("steps", self.config.limits.batch_items, "jobs"));
        }
        Ok(gang_submission::spread(jobs))
    }

    /// The id of what a step names: what was sent under that name, or the id itself.
    fn sent(&self, field: &'static str, named: Option<String>) -> Result<Option<String>, ApiError> {
        let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(None) };
        if let Some(id) = self.uploads.get(&named) {
            return Ok(Some(id.clone()));
        }
        if named.parse::<Digest>().is_ok() {
            return Ok(Some(named));
        }
        let message = format!(
            "{field} is {named:?}, which was not sent; `muster submit FILE` sends it, and a client of its own names the id with \
             upload={named}=ID in the query"
        );
        Err(ApiError::invalid_field(field, message))
    }

    fn add(&self, set: SetId, step: &Step, named: &Existing, jobs: &mut Vec<NewJob>) -> Result<(), ApiError> {
        let mut job = step.job.clone();
        let wanted = std::mem::take(&mut job.inputs);
        for (field, named) in [("upload", &mut job.upload), ("stdin_file", &mut job.stdin_upload)] {
            *named = self.sent(field, named.take())?;
        }
        // A directory of the submitter's machine means nothing in a container; in a copy of an upload, what is relative is
        // relative to its top.
        let base = self.working_dir.filter(|_| job.image.is_none() && job.upload.is_none());
        job.working_dir = working_dir(base, job.working_dir);
        job.user = job.user.or_else(|| self.user.map(str::to_owned));
        let text = serde_json::to_vec(&job).map_err(|_| ApiError::internal())?;
        let mut first = lenient::decode::<SubmitBody>(&text, Reading::Strict)?.into_new_job(self.config)?;
        let mut spec = first.spec.as_ref().clone();
        spec.name.get_or_insert_with(|| step.name.clone());
        let is_needed = |from: &str| step.needs.iter().any(|need| need.step == from);
        let jobs_of = |from: &str| named.get(from).filter(|_| is_needed(from)).cloned().unwrap_or_default();
        artifact_inputs::add(&mut spec, artifact_inputs::check(wanted, jobs_of)?);
        match step.max_parallel {
            Some(limit) => bound(&mut spec, set, Some(&step.name), Some(limit))?,
            None if spec.concurrency.is_none() => bound(&mut spec, set, None, self.document.max_parallel)?,
            None => {}
        }
        for need in &step.needs {
            let parents = named.get(&need.step).map(Vec::as_slice).unwrap_or_default();
            first.depends_on.extend(parents.iter().cloned());
            first.rules.extend(std::iter::repeat_n(rule(need.rule), parents.len()));
        }
        let name: Arc<str> = step.name.as_str().into();
        let member = |index| Some(Member { set, step: Some(Arc::clone(&name)), index });
        if step.elements.is_empty() {
            let reference = Some(step.name.clone());
            jobs.push(NewJob { spec: Arc::new(spec), reference, member: member(None), ..first });
            return Ok(());
        }
        spec.env.insert("MUSTER_ARRAY_SIZE".to_owned(), step.elements.len().to_string());
        for (position, (element, reference)) in step.elements.iter().zip(references(step)).enumerate() {
            let index = step.indices.get(position).copied().unwrap_or(position as u32);
            let mut own = spec.clone();
            own.env.extend(element.iter().map(|(name, value)| (name.clone(), value.clone())));
            jobs.push(NewJob {
                id: ids::job(),
                spec: Arc::new(own),
                reference: Some(reference),
                member: member(Some(index)),
                ..first.clone()
            });
        }
        Ok(())
    }
}

/// What differs between the elements of an array.
pub(crate) enum Elements {
    Indices(Vec<u32>),
    Items(Vec<Value>),
}

impl Elements {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Indices(indices) => indices.len(),
            Self::Items(items) => items.len(),
        }
    }
}

/// An array of one job.
pub(crate) struct Array {
    pub(crate) job: NewJob,
    pub(crate) elements: Elements,
    pub(crate) max_parallel: Option<u32>,
    pub(crate) key: Option<String>,
}

impl Array {
    pub(crate) fn create(self, config: &ServerConfig) -> Result<(SetId, Submit), ApiError> {
        let count = self.elements.len();
        if count == 0 {
            let message = "an array needs indices such as 0-9, or items";
            return Err(ApiError::bad_request("elements_required", message).at("indices"));
        }
        if count > config.limits.batch_items {
            return Err(ApiError::over_limit("indices", config.limits.batch_items, "elements"));
        }
        let id = ids::set();
        let mut spec = self.job.spec.as_ref().clone();
        bound(&mut spec, id, None, self.max_parallel)?;
        spec.env.insert("MUSTER_ARRAY_SIZE".to_owned(), count.to_string());
        // The key is that of the set; elements have none of their own.
        let key = self.key.or(spec.idempotency_key.take());
        let set = JobSet {
            id,
            seq: 0,
            kind: SetKind::Array,
            name: spec.name.clone(),
            created_at: config.clock.now(),
            size: 0,
            max_parallel: self.max_parallel,
            idempotency_key: key,
            outline: Vec::new(),
        };
        let job = NewJob { reference: None, ..self.job };
        let jobs = elements(id, &job, &Arc::new(spec), self.elements, config)?;
        if gang_submission::count(&jobs) > config.limits.batch_items {
            return Err(ApiError::over_limit("gang_size", config.limits.batch_items, "tasks in all"));
        }
        let jobs = gang_submission::spread(jobs);
        Ok((id, Submit { jobs, atomic: true, set: Some(SetPart::New(set)) }))
    }
}

fn elements(
    set: SetId,
    job: &NewJob,
    spec: &Arc<JobSpec>,
    elements: Elements,
    config: &ServerConfig,
) -> Result<Vec<NewJob>, ApiError> {
    let one = |index: u32, spec: Arc<JobSpec>| NewJob {
        id: ids::job(),
        spec,
        member: Some(Member { set, step: None, index: Some(index) }),
        ..job.clone()
    };
    match elements {
        // What is the same for all is kept once.
        Elements::Indices(indices) => {
            Ok(indices.into_iter().map(|index| one(index, Arc::clone(spec))).collect())
        }
        Elements::Items(items) => {
            let build = |(index, item): (usize, Value)| {
                let mut own = spec.as_ref().clone();
                item_variables(&mut own.env, &item);
                let size: usize = own.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
                if size > config.limits.env {
                    return Err(ApiError::over_limit("items", config.limits.env, "bytes of environment"));
                }
                Ok(one(index as u32, Arc::new(own)))
            };
            items.into_iter().enumerate().map(build).collect()
        }
    }
}

/// `MUSTER_ARRAY_ITEM`, and a variable for each field of an object whose name can be one.
fn item_variables(env: &mut BTreeMap<String, String>, item: &Value) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let fits =
        |name: &str, value: &str| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
    if let Value::Object(fields) = item {
        for (name, value) in fields {
            let value = text(value);
            if fits(name, &value) {
                env.insert(name.clone(), value);
            }
        }
    }
    let whole = text(item);
    if fits("MUSTER_ARRAY_ITEM", &whole) {
        env.insert("MUSTER_ARRAY_ITEM".to_owned(), whole);
    }
}

/// `KEY=VALUE` pairs of a query.
pub(crate) fn parameters<'p>(
    pairs: impl Iterator<Item = &'p str>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            let message = format!("param must be NAME=VALUE, not {text:?}");
            ApiError::bad_request("invalid_parameter", message).at("param")
        })?;
        Ok((name.to_owned(), value.to_owned()))
    };
    pairs.map(pair).collect()
}

/// `PATH=ID` pairs of a query. A path may have `=` in it, an id has none.
pub(crate) fn uploads<'p>(
    pairs: impl Iterator<Item = &'p str>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let pair = |text: &str| {
        let (path, id) = text.rsplit_once('=').ok_or_else(|| {
            let message = format!("upload must be PATH=ID, not {text:?}");
            ApiError::bad_request("invalid_parameter", message).at("upload")
        })?;
        Ok((path.to_owned(), id.to_owned()))
    };
    pairs.map(pair).collect()
}

/// The mistakes of a file, each with its place.
pub(crate) fn mistakes(mistakes: &[muster_document::Mistake]) -> ApiError {
    let lines: Vec<String> = mistakes
        .iter()
        .map(|mistake| format!("{}:{}: {}", mistake.line, mistake.column, mistake.message))
        .collect();
    ApiError::bad_request("invalid_pipeline", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        muster_document::parse(text, &BTreeMap::new()).unwrap()
    }

    fn submit(text: &str) -> Result<Submit, ApiError> {
        let (document, existing, config) = (document(text), Existing::new(), ServerConfig::default());
        let (working_dir, user) = (Some("/base"), Some("ada"));
        let uploads = &BTreeMap::from([("app".to_owned(), Digest::of(b"app").to_string())]);
        let (document, existing, config) = (&document, &existing, &config);
        let pipeline = Pipeline { document, existing, config, working_dir, user, uploads };
        pipeline.create(None).map(|(_, submit)| submit)
    }

    #[test]
    fn a_multiplied_step_is_waited_for_as_a_whole() {
        let text = "steps:\n- name: fit\n  run: x\n  matrix: {LR: [1, 2], SEED: [1, 2, 3]}\n\
                    - name: pick\n  run: y\n  needs: [{step: fit, rule: all_done}]\n";
        let jobs = submit(text).unwrap().jobs;
        assert_eq!(jobs.len(), 7);
        assert_eq!(jobs[6].depends_on.len(), 6);
        assert_eq!(jobs[6].rules, [Rule::AllDone; 6]);
        let names: Vec<_> = jobs.iter().filter_map(|job| job.reference.clone()).collect();
        assert_eq!(jobs[6].depends_on, names[..6]);
        assert_eq!(jobs[5].member.as_ref().unwrap().index, Some(5));
        assert_eq!(jobs[0].spec.env["MUSTER_ARRAY_SIZE"], "6");
    }

    #[test]
    fn indices_and_directories_are_those_of_the_file() {
        let text = "steps:\n- {name: a, run: x, array: '10,20'}\n- {name: b, run: x, working_dir: sub}\n\
                    - {name: c, run: x, working_dir: /abs}\n";
        let jobs = submit(text).unwrap().jobs;
        let indices: Vec<_> = jobs.iter().map(|job| job.member.as_ref().unwrap().index).collect();
        assert_eq!(indices, [Some(10), Some(20), None, None]);
        let directories: Vec<_> = jobs.iter().filter_map(|job| job.spec.working_dir.as_deref()).collect();
        assert_eq!(directories, ["/base", "/base", "/base/sub", "/abs"]);
    }

    #[test]
    fn what_steps_name_is_what_was_sent() {
        let text = "defaults: {upload: app}\nsteps:\n- {name: a, run: x, working_dir: src}\n\
                    - {name: b, run: x, upload: ''}\n- {name: c, run: x, stdin: hello}\n";
        let jobs = submit(text).unwrap().jobs;
        let directories: Vec<_> = jobs.iter().map(|job| job.spec.working_dir.as_deref()).collect();
        assert_eq!(directories, [Some("src"), Some("/base"), None]);
        let inputs = |place: usize| jobs[place].spec.inputs.as_deref().cloned().unwrap_or_default();
        assert_eq!(inputs(0).upload.unwrap().id, Digest::of(b"app").to_string());
        assert_eq!(inputs(1).upload, None);
        assert_eq!(inputs(2).stdin_text.as_deref(), Some("hello"));
        let error = submit("steps:\n- {name: a, run: x, upload: other}\n").unwrap_err();
        assert!(error.message.contains("step a (line 2): upload is \"other\""), "{}", error.message);
    }

    #[test]
    fn who_submits_is_filled_in_where_the_file_does_not_say_it() {
        let jobs = submit("steps:\n- {name: a, run: x}\n- {name: b, run: x, user: bob}\n").unwrap().jobs;
        let users: Vec<_> = jobs.iter().filter_map(|job| job.spec.user.as_deref()).collect();
        assert_eq!(users, ["ada", "bob"]);
    }

    #[test]
    fn bounds_become_keys() {
        let text = "max_parallel: 4\nsteps:\n- {name: a, run: x}\n- {name: b, run: x, each: [p, q], max_parallel: 1}\n";
        let jobs = submit(text).unwrap().jobs;
        let limits: Vec<u32> = jobs.iter().map(|job| job.spec.concurrency.as_ref().unwrap().limit).collect();
        assert_eq!(limits, [4, 1, 1]);
        assert_ne!(jobs[0].spec.concurrency, jobs[1].spec.concurrency);
    }

    #[test]
    fn items_become_variables() {
        let mut env = BTreeMap::new();
        item_variables(&mut env, &serde_json::json!({"LR": 0.1, "NAME": "a b", "": 1}));
        assert_eq!((env["LR"].as_str(), env["NAME"].as_str(), env.len()), ("0.1", "a b", 3));
        item_variables(&mut env, &Value::String("line".into()));
        assert_eq!(env["MUSTER_ARRAY_ITEM"], "line");
    }
}
