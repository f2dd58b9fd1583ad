//! Tokens that let a job speak for itself: made for one lease, good as long as that lease.
//!
//! Guarantee: a token says which job and lease it is for, and nobody without the secret of the store, which
//! all schedulers on it share, can make one.

use hmac::{Hmac, KeyInit as _, Mac as _};
use muster_domain::{Caller, JobId, Lease, Secret};
use muster_protocol::HEADER_JOB_TOKEN;
use muster_store::{Command, Outcome};
use sha2::Sha256;
use tokio::sync::OnceCell;

use crate::app::App;
use crate::bearer::hex;
use crate::error::ApiError;
use crate::extract::Call;
use crate::ids;

const PREFIX: &str = "mj1";

/// The secret, once it is known.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    secret: OnceCell<Secret>,
}

impl Tokens {
    /// Reads the secret of the store, or makes one when there is none.
    pub(crate) async fn secret(&self, app: &App) -> Result<&Secret, ApiError> {
        let load = || async {
            let proposal = ids::secret().into();
            match app.batcher.submit_one(Command::Secret { proposal }).await? {
                Outcome::Secret(secret) => Ok(Secret::new(secret.as_ref())),
                _ => Err(ApiError::internal()),
            }
        };
        self.secret.get_or_try_init(load).await
    }

    /// The token of a claimed job; `None` before the secret is known.
    pub(crate) fn of(&self, job: JobId, lease: Lease) -> Option<String> {
        let secret = self.secret.get()?;
        Some(format!("{PREFIX}.{}.{}.{}", job.as_uuid().simple(), lease.0, mac(secret, job, lease)))
    }
}

fn mac(secret: &Secret, job: JobId, lease: Lease) -> String {
    signature(secret, &format!("{PREFIX}.{}.{}", job.as_uuid().simple(), lease.0))
}

/// What only a scheduler on the store can make of a text. Texts for different uses begin differently.
pub(crate) fn signature(secret: &Secret, text: &str) -> String {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
        return String::new();
    };
    mac.update(text.as_bytes());
    hex(&mac.finalize().into_bytes())
}

/// The token that a request carries, as it is.
fn carried(call: &Call) -> Option<&str> {
    let bearer = call.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    call.header(HEADER_JOB_TOKEN).or(bearer).map(str::trim)
}

/// The job that a request speaks for, and its lease; `None` when it carries no token.
pub(crate) async fn speaker(app: &App, call: &Call) -> Result<Option<(JobId, Lease)>, ApiError> {
    let Some(token) = carried(call) else { return Ok(None) };
    // What belongs to a user or a worker is no token of a job, and says nothing about one.
    if call.identity.credential.is_some() {
        return Ok(None);
    }
    verified(app, token).await.map(Some)
}

/// Whether a text may be the token of a job.
pub(crate) fn is_job_token(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('.'))
}

/// The job and the lease that a token is for.
pub(crate) async fn verified(app: &App, token: &str) -> Result<(JobId, Lease), ApiError> {
    let wrong = || ApiError::unauthorized("the token is not valid");
    let mut parts = token.split('.');
    let (Some(PREFIX), Some(job), Some(lease), Some(given), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let uuid = uuid::Uuid::try_parse(job).map_err(|_| wrong())?;
    let (job, lease) = (JobId::from_uuid(uuid), Lease(lease.parse().map_err(|_| wrong())?));
    let secret = app.tokens.secret(app).await?;
    if same(given.as_bytes(), mac(secret, job, lease).as_bytes()) { Ok((job, lease)) } else { Err(wrong()) }
}

/// Who speaks for `job`: the token if there is one, else what the request says about itself.
pub(crate) async fn caller(app: &App, call: &Call, job: JobId) -> Result<Caller, ApiError> {
    match speaker(app, call).await? {
        Some((named, lease)) if named == job => Ok(Caller { lease: Some(lease), worker: None }),
        Some(_) => Err(ApiError::unauthorized("the token belongs to another job")),
        None => call.caller(),
    }
}

/// Compares without telling by the time it takes where the difference is.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_job_and_one_lease() {
        let tokens = Tokens { secret: OnceCell::new_with(Some(Secret::new("s"))) };
        let (one, other) = (JobId::from_random([1; 16]), JobId::from_random([2; 16]));
        let token = tokens.of(one, Lease(3)).unwrap();
        assert_eq!(token, tokens.of(one, Lease(3)).unwrap());
        assert_ne!(token, tokens.of(one, Lease(4)).unwrap());
        assert_ne!(token.rsplit('.').next(), tokens.of(other, Lease(3)).unwrap().rsplit('.').next());
        assert!(same(b"ab", b"ab") && !same(b"ab", b"ac") && !same(b"ab", b"abc"));
        assert_eq!(Tokens::default().of(one, Lease(1)), None);
    }
}
