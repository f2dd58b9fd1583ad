//! The ID token: what a provider says of somebody, and whether it is the provider that says it, to us, now.
//!
//! Guarantees: claims are read only after the signature was verified with a key of the provider; issuer, audience, times and
//! nonce must be right. Keys and time are arguments.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{AlgorithmFamily, DecodingKey, Header, Validation, decode, decode_header};
use muster_domain::{Span, Timestamp};
use serde_json::{Map, Value};

use super::signatures;

/// How far the clocks of provider and scheduler may be apart.
const LEEWAY: Span = Span::from_secs(60);
/// The longest subject: the specification's bound.
pub(crate) const MAX_SUBJECT: usize = 255;

pub(super) type Claims = Map<String, Value>;

/// What an ID token must say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    /// What the scheduler has asked the provider to repeat; a device login has none.
    pub(super) nonce: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// Why an ID token is worth nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("it is no signed token")]
    Malformed,
    #[error("it is signed with {0}, which is not accepted: let the provider sign with RS256, ES256 or EdDSA")]
    Algorithm(String),
    /// The keys may have changed since they were read.
    #[error("it is signed with a key that the provider does not publish")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("it is from another issuer")]
    Issuer,
    #[error("it is for another client")]
    Audience,
    #[error("it has expired, or the clock of this machine is wrong")]
    Expired,
    #[error("it is not valid yet, or the clock of this machine is wrong")]
    Early,
    #[error("it belongs to another login")]
    Nonce,
    #[error("its claim {0} is missing or has the wrong type")]
    Claim(&'static str),
}

/// The claims of a token that is what it must be.
pub(super) fn verify(token: &str, keys: &[Jwk], expected: &Expected<'_>) -> Result<Claims, Unfit> {
    signatures::install();
    let header = decode_header(token).map_err(|_| unreadable(token))?;
    let Some(family) = signatures::ACCEPTED.into_iter().find(|f| f.algorithms().contains(&header.alg)) else {
        return Err(Unfit::Algorithm(format!("{:?}", header.alg)));
    };
    // Nothing that a token may demand of its reader is known here.
    if header.crit.is_some() {
        return Err(Unfit::Malformed);
    }
    let mut fitting = keys.iter().filter(|key| fits(key, family, &header)).peekable();
    if fitting.peek().is_none() {
        return Err(Unfit::UnknownKey);
    }
    let verified = fitting.find_map(|key| signed_claims(token, key, family));
    let claims = verified.ok_or(Unfit::Signature)?;
    judge(&claims, expected)?;
    Ok(claims)
}

/// A header with an algorithm that the library does not know cannot be read by it.
fn unreadable(token: &str) -> Unfit {
    let first = token.split('.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(first).ok();
    let header: Option<Value> = header.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match header.as_ref().and_then(|header| header.get("alg")?.as_str()) {
        Some(named) => Unfit::Algorithm(super::error::repeated(named)),
        None => Unfit::Malformed,
    }
}

fn fits(key: &Jwk, family: AlgorithmFamily, header: &Header) -> bool {
    let of_family = match &key.algorithm {
        AlgorithmParameters::RSA(_) => family == AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(_) => family == AlgorithmFamily::Ec,
        AlgorithmParameters::OctetKeyPair(_) => family == AlgorithmFamily::Ed,
        _ => false,
    };
    let signs = matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let named = header.kid.is_none() || key.common.key_id == header.kid;
    of_family && signs && named
}

/// The claims, if the key has signed them. What they say is judged afterwards: the library would ask the clock itself.
fn signed_claims(token: &str, key: &Jwk, family: AlgorithmFamily) -> Option<Claims> {
    let key = DecodingKey::from_jwk(key).ok()?;
    let mut validation = Validation::new_for_family(family);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    decode::<Claims>(token, &key, &validation).ok().map(|data| data.claims)
}

fn judge(claims: &Claims, expected: &Expected<'_>) -> Result<(), Unfit> {
    let text = |name: &'static str| claims.get(name).and_then(Value::as_str);
    if text("iss").ok_or(Unfit::Claim("iss"))? != expected.issuer {
        return Err(Unfit::Issuer);
    }
    judge_audience(claims, expected.client_id)?;
    let time = |name: &'static str| match claims.get(name) {
        None => Ok(None),
        Some(value) => {
            let seconds = value.as_f64().filter(|seconds| (0.0..1e12).contains(seconds));
            let seconds = seconds.ok_or(Unfit::Claim(name))?;
            Ok(Some(Timestamp::from_micros((seconds * 1e6) as i64)))
        }
    };
    let expires = time("exp")?.ok_or(Unfit::Claim("exp"))?;
    if expires + LEEWAY <= expected.now {
        return Err(Unfit::Expired);
    }
    let issued = time("iat")?.ok_or(Unfit::Claim("iat"))?;
    let begins = time("nbf")?.map_or(issued, |begins| begins.max(issued));
    if begins > expected.now + LEEWAY {
        return Err(Unfit::Early);
    }
    if expected.nonce.is_some_and(|nonce| text("nonce") != Some(nonce)) {
        return Err(Unfit::Nonce);
    }
    let subject = text("sub").filter(|subject| !subject.is_empty() && subject.len() <= MAX_SUBJECT);
    subject.filter(|subject| !subject.contains(char::is_control)).ok_or(Unfit::Claim("sub"))?;
    Ok(())
}

/// The token is for us; where it is for others too, it was made for us.
fn judge_audience(claims: &Claims, client_id: &str) -> Result<(), Unfit> {
    let (ours, several) = match claims.get("aud") {
        Some(Value::String(one)) => (one == client_id, false),
        Some(Value::Array(all)) => (all.iter().any(|one| one == client_id), all.len() > 1),
        _ => return Err(Unfit::Claim("aud")),
    };
    let made_for = match claims.get("azp") {
        None => !several,
        Some(party) => party == client_id,
    };
    if ours && made_for { Ok(()) } else { Err(Unfit::Audience) }
}

#[cfg(test)]
#[path = "id_token_tests.rs"]
mod tests;
