//! The secrets that jobs ask for: read from submissions, checked, and handed to workers as they are sealed.
//!
//! Guarantees: a job that asks for a secret which is not there, or which its submitter may not use, is refused; a claim
//! carries the boxes of that job for the keys of that worker and no others; a worker that cannot know of secrets gets no job that
//! has some.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use http::StatusCode;
use muster_domain::access::Principal;
use muster_domain::secrets::{
    MAX_SECRETS_OF_A_JOB, is_secret_name, is_secret_variable, may_use, usual_variable,
};
use muster_domain::{
    Caller, Exit, JobSpec, Lease, ReportKind, SealedSecret, SecretDenied, SecretUse, WorkerId,
};
use muster_protocol as wire;
use muster_store::{Command, NewJob, Report, StoreExt};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::app::App;
use crate::error::{ApiError, hint};
use crate::lenient::lenient_object;

lenient_object! {
    /// A secret with how it is to be handed over.
    struct UseBody { name: String = "name", file: bool = "file", variable: String = "as" }
}

/// A secret as a client asks for it: its name, or an object.
#[derive(Debug)]
pub(crate) struct WishBody(UseBody);

impl<'de> Deserialize<'de> for WishBody {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_any(WishVisitor)
    }
}

struct WishVisitor;

impl<'de> Visitor<'de> for WishVisitor {
    type Value = WishBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a secret, or an object with its name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<WishBody, E> {
        Ok(WishBody(UseBody { name: Some(name.to_owned()), ..UseBody::default() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WishBody, A::Error> {
        UseBody::deserialize(MapAccessDeserializer::new(map)).map(WishBody)
    }
}

/// What a job asks for, with the variable of each.
pub(crate) fn check(wishes: Vec<WishBody>) -> Result<Vec<SecretUse>, ApiError> {
    if wishes.len() > MAX_SECRETS_OF_A_JOB {
        return Err(ApiError::over_limit("secrets", MAX_SECRETS_OF_A_JOB, "entries"));
    }
    let uses = wishes.into_iter().map(|WishBody(wish)| {
        let (name, file) = (wish.name.unwrap_or_default(), wish.file.unwrap_or(false));
        check_name(&name)?;
        let variable = wish.variable.unwrap_or_else(|| usual_variable(&name, file));
        if !is_secret_variable(&variable) {
            let message = format!(
                "the secret {name:?} cannot be handed over as {variable:?}: a variable has letters, digits and _, does not begin with \
                 a digit or with MUSTER_; name one with \"as\""
            );
            return Err(ApiError::invalid_field("secrets", message));
        }
        Ok(SecretUse { name, variable, file })
    });
    let uses = uses.collect::<Result<Vec<_>, ApiError>>()?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = uses.iter().find(|wish| !seen.insert(wish.variable.as_str())) {
        let message = format!("two secrets would be handed over as {}", twice.variable);
        return Err(ApiError::invalid_field("secrets", message));
    }
    Ok(uses)
}

/// Refuses what cannot be the name of a secret.
pub(crate) fn check_name(name: &str) -> Result<(), ApiError> {
    if is_secret_name(name) {
        return Ok(());
    }
    let message = format!(
        "{name:?} is not the name of a secret: it has 1 to 128 letters, digits and the signs _ - . and begins with one of the first \
         three"
    );
    Err(ApiError::invalid_field("name", message))
}

/// All secrets that a job needs: those that it gets, and that with the credentials of a registry.
fn names_of(spec: &JobSpec) -> impl Iterator<Item = &str> {
    let credentials = spec.container.as_ref().and_then(|container| container.credentials.as_deref());
    spec.secrets.iter().map(|wish| wish.name.as_str()).chain(credentials)
}

/// The same of a job on its way to a worker.
fn names_on_the_way(job: &wire::Job) -> impl Iterator<Item = &str> {
    let credentials = job.container.as_ref().and_then(|container| container.credentials.as_deref());
    job.secrets.iter().map(|wish| wish.name.as_str()).chain(credentials)
}

/// Looks up what jobs ask for. Costs nothing where none does.
pub(crate) async fn admit(app: &App, principal: &Principal, jobs: &[NewJob]) -> Result<(), ApiError> {
    let names: BTreeSet<String> =
        jobs.iter().flat_map(|job| names_of(&job.spec)).map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(());
    }
    let found = app.store.secrets(Some(names.iter().cloned().collect())).await?;
    let found: BTreeMap<&str, &SealedSecret> =
        found.iter().map(|secret| (secret.name.as_str(), secret)).collect();
    for job in jobs {
        for name in names_of(&job.spec) {
            match found.get(name) {
                Some(secret) => may_use(principal, secret, job.spec.queue.as_ref())?,
                None => return Err(unknown(app, principal, name).await?),
            }
        }
    }
    Ok(())
}

/// Of those whose names the caller may know, the nearest.
async fn unknown(app: &App, principal: &Principal, name: &str) -> Result<ApiError, ApiError> {
    let all = app.store.secrets(None).await?;
    let own = |secret: &&SealedSecret| may_use(principal, secret, secret.queue.as_ref()).is_ok();
    let names: Vec<&str> = all.iter().filter(own).map(|secret| secret.name.as_str()).collect();
    let meant = muster_document::closest(name, names.iter().copied());
    let advice =
        meant.map_or_else(|| format!("`muster secret set {name}` makes one"), |_| hint(name, &names));
    let message = format!("there is no secret {name:?}; {advice}");
    Ok(ApiError::bad_request("unknown_secret", message).at("secrets"))
}

impl From<SecretDenied> for ApiError {
    fn from(denied: SecretDenied) -> Self {
        Self::refused(StatusCode::FORBIDDEN, "secret_denied", denied.to_string())
    }
}

/// Adds to claimed jobs what their worker needs to open their secrets.
pub(crate) async fn attach(
    app: &App,
    worker: Option<&WorkerId>,
    jobs: &mut Vec<wire::Job>,
) -> Result<(), ApiError> {
    let names: BTreeSet<String> = jobs.iter().flat_map(names_on_the_way).map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(());
    }
    let keys = match worker {
        Some(worker) => app.store.sealing_keys(Some(worker.clone())).await?,
        None => Vec::new(),
    };
    let keys: BTreeSet<&str> = keys.iter().flat_map(|known| &known.keys).map(|key| key.id.as_str()).collect();
    if keys.is_empty() {
        return keep_back(app, worker, jobs).await;
    }
    let found = app.store.secrets(Some(names.into_iter().collect())).await?;
    for job in jobs.iter_mut() {
        let wanted = |secret: &&SealedSecret| names_on_the_way(job).any(|name| *name == secret.name);
        job.sealed = found.iter().filter(wanted).map(|secret| sealed(secret, &keys)).collect();
    }
    Ok(())
}

/// A worker without keys knows nothing of secrets: it would start the job without them. So the attempt has failed, and the next one
/// prefers another worker.
async fn keep_back(app: &App, worker: Option<&WorkerId>, jobs: &mut Vec<wire::Job>) -> Result<(), ApiError> {
    let name = worker.map_or("the claimer without a name", WorkerId::as_str);
    let message = format!("the job has secrets, and {name} has announced no key that could open them");
    let refused = jobs.extract_if(.., |job| names_on_the_way(job).next().is_some()).filter_map(|job| {
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

fn sealed(secret: &SealedSecret, keys: &BTreeSet<&str>) -> wire::SealedSecret {
    let boxes = secret.boxes.iter().filter(|sealed| keys.contains(sealed.key.as_str()));
    let boxes =
        boxes.map(|sealed| wire::SealedBox { key: sealed.key.clone(), sealed: sealed.sealed.clone() });
    wire::SealedSecret {
        name: secret.name.clone(),
        queue: secret.queue.as_ref().map(|queue| queue.as_str().to_owned()),
        owner: secret.owner.clone(),
        version: secret.version,
        boxes: boxes.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lenient::{self, Reading};

    lenient_object! {
        struct Sample { secrets: Vec<WishBody> = "secrets" }
    }

    fn read(text: &str) -> Result<Vec<SecretUse>, ApiError> {
        let body = format!("{{\"secrets\":{text}}}");
        check(lenient::decode::<Sample>(body.as_bytes(), Reading::Strict)?.secrets.unwrap_or_default())
    }

    #[test]
    fn a_wish_is_a_name_or_an_object() {
        let uses = read(r#"["HF_TOKEN",{"name":"db","file":true},{"name":"db","as":"PASSWORD"}]"#).unwrap();
        let shown: Vec<_> = uses.iter().map(|wish| (wish.variable.as_str(), wish.file)).collect();
        assert_eq!(shown, [("HF_TOKEN", false), ("db_FILE", true), ("PASSWORD", false)]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |text: &str| read(text).unwrap_err().message.into_owned();
        assert!(message(r#"[{"nam":"x"}]"#).contains("did you mean name?"));
        assert!(message(r#"["a b"]"#).contains("not the name of a secret"));
        assert!(message(r#"[{"file":true}]"#).contains("not the name of a secret"));
        assert!(message(r#"[{"name":"x","as":"MUSTER_TOKEN"}]"#).contains("cannot be handed over"));
        assert!(message(r#"["x",{"name":"y","as":"x"}]"#).contains("handed over as x"));
        assert!(message("[5]").contains("the name of a secret, or an object"));
        assert!(message(&format!("[{}]", vec!["\"x\""; 17].join(","))).contains("limit of 16"));
    }
}
