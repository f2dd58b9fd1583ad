//! The provider as the scheduler sees it: where its endpoints are, with which keys it signs, and what is asked of it.
//!
//! Guarantees: the secret of the client goes to the token and device endpoints only; keys are read again when a token names
//! one that is not known, but not more often than every few seconds.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{StatusCode, Uri};
use jsonwebtoken::jwk::Jwk;
use muster_domain::{Secret, Timestamp};
use muster_tls::Trust;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::claims::{Person, has_all, person};
use super::error::{OidcError, repeated};
use super::exchange::{Answer, Exchange, Sent, escaped, form, is_safe};
use super::id_token::{Claims, Expected, Unfit, verify};
use super::remembered::Remembered;
use super::sealed::{Begun, CALLBACK};
use crate::config::OidcConfig;
use crate::error::ServerError;

/// How long metadata and keys are believed.
const BELIEVED: Duration = Duration::from_secs(3600);
/// How often keys are read again because of a token that names another one.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest a device login may take, in seconds, and the longest and the usual pause between two questions.
const DEVICE_LASTS: u32 = 3600;
const DEVICE_PAUSE: u32 = 5;
const LONGEST_PAUSE: u32 = 300;

/// What the provider says about itself.
#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    device_authorization_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// What the provider gives for a code.
#[derive(Deserialize)]
pub(crate) struct Tokens {
    id_token: Option<String>,
    access_token: Option<String>,
}

/// A device login as the provider begins it.
#[derive(Deserialize)]
pub(crate) struct DeviceCode {
    #[serde(rename = "device_code")]
    pub(crate) code: String,
    pub(crate) user_code: String,
    #[serde(alias = "verification_url")]
    pub(crate) verification_uri: String,
    pub(crate) verification_uri_complete: Option<String>,
    pub(crate) expires_in: u32,
    #[serde(default = "usual_pause")]
    pub(crate) interval: u32,
}

const fn usual_pause() -> u32 {
    DEVICE_PAUSE
}

/// How far a device login is.
pub(crate) enum Progress {
    Done(Tokens),
    Pending,
    /// The terminal asks too often.
    SlowDown,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

/// The provider, with what was read from it.
pub(crate) struct Provider {
    config: OidcConfig,
    secret: Option<Secret>,
    public_url: String,
    exchange: Exchange,
    metadata: Remembered<Metadata>,
    keys: Remembered<Vec<Jwk>>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Provider {
    /// Reads the secret of the client; the provider is not asked yet. `advertised` is where others reach the scheduler.
    pub(crate) fn open(
        config: &OidcConfig,
        advertised: Option<String>,
        trust: &Trust,
    ) -> Result<Self, ServerError> {
        let secret = config.client_secret_file.as_ref().map(|path| {
            let wrong = |problem: String| ServerError::Setting {
                name: "--oidc-client-secret-file".to_owned(),
                value: path.display().to_string(),
                problem,
            };
            let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            match text.trim() {
                "" => Err(wrong("the file is empty".to_owned())),
                secret => Ok(Secret::new(secret)),
            }
        });
        let public_url = config.public_url.clone().or(advertised).unwrap_or_default();
        Ok(Self {
            config: config.clone(),
            secret: secret.transpose()?,
            public_url: public_url.trim_end_matches('/').to_owned(),
            exchange: Exchange::new(trust.clone()),
            metadata: Remembered::default(),
            keys: Remembered::default(),
        })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// Where browsers reach the schedulers, without a slash at the end.
    pub(crate) fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Whether browsers come by TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }

    /// The path below which browsers reach the scheduler, where a proxy has one.
    pub(crate) fn prefix(&self) -> String {
        let path = self.public_url.parse::<Uri>().map(|uri| uri.path().to_owned()).unwrap_or_default();
        path.trim_end_matches('/').to_owned()
    }

    /// What the provider must know.
    pub(crate) fn redirect_uri(&self) -> String {
        format!("{}{CALLBACK}", self.public_url)
    }

    /// Where a browser goes to log in.
    pub(crate) async fn login_url(&self, begun: &Begun) -> Result<String, OidcError> {
        let metadata = self.metadata().await?;
        let query = form(&[
            ("response_type", "code"),
            ("client_id", &self.config.client_id),
            ("redirect_uri", &self.redirect_uri()),
            ("scope", &self.config.scopes),
            ("state", &begun.state),
            ("nonce", &begun.nonce),
            ("code_challenge", &begun.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let endpoint = &metadata.authorization_endpoint;
        let sign = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{sign}{query}"))
    }

    /// Exchanges the code that a browser has brought back.
    pub(crate) async fn exchange(&self, code: &str, begun: &Begun) -> Result<Tokens, OidcError> {
        let metadata = self.metadata().await?;
        let redirect = self.redirect_uri();
        let pairs = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", &begun.verifier),
        ];
        let answer = self.post(&metadata, &metadata.token_endpoint, &pairs).await?;
        if answer.status == StatusCode::OK {
            return self.decoded(&answer);
        }
        Err(self.refusal(&answer)?)
    }

    pub(crate) async fn begin_device(&self) -> Result<DeviceCode, OidcError> {
        let metadata = self.metadata().await?;
        let Some(endpoint) = &metadata.device_authorization_endpoint else {
            return Err(OidcError::NoDeviceLogin { issuer: self.config.issuer.clone() });
        };
        let answer = self.post(&metadata, endpoint, &[("scope", &self.config.scopes)]).await?;
        if answer.status != StatusCode::OK {
            return Err(self.refusal(&answer)?);
        }
        let mut begun: DeviceCode = self.decoded(&answer)?;
        for url in [Some(&begun.verification_uri), begun.verification_uri_complete.as_ref()] {
            let shown = url.is_none_or(|url| url.parse::<Uri>().is_ok_and(|uri| uri.host().is_some()));
            if !shown {
                return Err(self.nonsense("the address for the code is no URL"));
            }
        }
        begun.user_code = repeated(&begun.user_code);
        begun.expires_in = begun.expires_in.clamp(1, DEVICE_LASTS);
        begun.interval = begun.interval.clamp(1, LONGEST_PAUSE);
        Ok(begun)
    }

    /// Asks once whether a device login is done.
    pub(crate) async fn poll_device(&self, code: &str) -> Result<Progress, OidcError> {
        let metadata = self.metadata().await?;
        let grant = "urn:ietf:params:oauth:grant-type:device_code";
        let pairs = [("grant_type", grant), ("device_code", code)];
        let answer = self.post(&metadata, &metadata.token_endpoint, &pairs).await?;
        if answer.status == StatusCode::OK {
            return Ok(Progress::Done(self.decoded(&answer)?));
        }
        match serde_json::from_slice::<Refusal>(&answer.body) {
            Ok(refusal) if refusal.error == "authorization_pending" => Ok(Progress::Pending),
            Ok(refusal) if refusal.error == "slow_down" => Ok(Progress::SlowDown),
            Ok(refusal) if refusal.error == "expired_token" => Err(OidcError::Expired),
            Ok(refusal) if refusal.error == "access_denied" => Err(OidcError::Denied),
            _ => Err(self.refusal(&answer)?),
        }
    }

    /// The person whose identity these tokens confirm.
    pub(crate) async fn person(
        &self,
        tokens: &Tokens,
        nonce: Option<&str>,
        now: Timestamp,
    ) -> Result<Person, OidcError> {
        let Some(token) = &tokens.id_token else {
            return Err(
                self.nonsense("there is no ID token: is the client allowed to have the scope openid?")
            );
        };
        let (issuer, client_id) = (self.config.issuer.as_str(), self.config.client_id.as_str());
        let expected = Expected { issuer, client_id, nonce, now };
        let mut claims = match verify(token, &self.keys(BELIEVED).await?, &expected) {
            Err(Unfit::UnknownKey) => verify(token, &self.keys(AGAIN).await?, &expected),
            judged => judged,
        }?;
        if !has_all(&self.config, &claims)
            && let Some(access) = &tokens.access_token
        {
            self.add_user_info(&mut claims, access).await?;
        }
        Ok(person(&self.config, &claims))
    }

    /// Many providers tell name and groups only where they are asked for once more.
    async fn add_user_info(&self, claims: &mut Claims, access: &str) -> Result<(), OidcError> {
        let metadata = self.metadata().await?;
        let Some(endpoint) = &metadata.userinfo_endpoint else { return Ok(()) };
        let answer = self.send(endpoint, Sent::Nothing, Some(&format!("Bearer {access}"))).await?;
        if answer.status != StatusCode::OK {
            return Err(
                self.nonsense(&format!("its user info answers with status {}", answer.status.as_u16()))
            );
        }
        let told: Claims = self.decoded(&answer)?;
        if told.get("sub") != claims.get("sub") {
            return Err(self.nonsense("its user info is about somebody else"));
        }
        for (name, value) in told {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    async fn metadata(&self) -> Result<Arc<Metadata>, OidcError> {
        self.metadata.at_most(BELIEVED, self.read_metadata()).await
    }

    async fn read_metadata(&self) -> Result<Metadata, OidcError> {
        let issuer = self.config.issuer.as_str();
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Metadata = self.get(&url).await?;
        if found.issuer != issuer {
            let other = repeated(&found.issuer);
            return Err(self.nonsense(&format!("it calls itself {other}: write that as --oidc-issuer")));
        }
        let encrypted = issuer.starts_with("https://");
        let endpoints = [&found.authorization_endpoint, &found.token_endpoint, &found.jwks_uri];
        let more = [&found.device_authorization_endpoint, &found.userinfo_endpoint];
        for endpoint in endpoints.into_iter().chain(more.into_iter().flatten()) {
            let uri = endpoint.parse::<Uri>().ok();
            let safe =
                uri.is_some_and(|uri| is_safe(&uri) && (!encrypted || uri.scheme_str() == Some("https")));
            if !safe {
                let endpoint = repeated(endpoint);
                return Err(self.nonsense(&format!("its endpoint {endpoint} is not reached by https")));
            }
        }
        Ok(found)
    }

    async fn keys(&self, age: Duration) -> Result<Arc<Vec<Jwk>>, OidcError> {
        let read = async {
            let metadata = self.metadata().await?;
            let set: Value = self.get(&metadata.jwks_uri).await?;
            let Some(keys) = set["keys"].as_array() else {
                return Err(self.nonsense("its keys are no set of keys"));
            };
            // A key of a kind that nobody knows must not hide the others.
            let known = keys.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
            Ok(known.collect())
        };
        self.keys.at_most(age, read).await
    }

    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, OidcError> {
        let answer = self.send(url, Sent::Nothing, None).await?;
        if answer.status != StatusCode::OK {
            return Err(self.nonsense(&format!("{url} answers with status {}", answer.status.as_u16())));
        }
        self.decoded(&answer)
    }

    /// Posts as the client: with its secret, or by its name alone.
    async fn post(
        &self,
        metadata: &Metadata,
        url: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Answer, OidcError> {
        let id = self.config.client_id.as_str();
        let supported = metadata.token_endpoint_auth_methods_supported.as_deref();
        let supports = |method: &str| supported.is_some_and(|all| all.iter().any(|one| one == method));
        let Some(secret) = &self.secret else {
            let pairs = [pairs, &[("client_id", id)]].concat();
            return self.send(url, Sent::Form(form(&pairs)), None).await;
        };
        if supported.is_some() && !supports("client_secret_basic") && supports("client_secret_post") {
            let pairs = [pairs, &[("client_id", id), ("client_secret", secret.expose())]].concat();
            return self.send(url, Sent::Form(form(&pairs)), None).await;
        }
        let pair = STANDARD.encode(format!("{}:{}", escaped(id), escaped(secret.expose())));
        self.send(url, Sent::Form(form(pairs)), Some(&format!("Basic {pair}"))).await
    }

    async fn send(&self, url: &str, sent: Sent, authorization: Option<&str>) -> Result<Answer, OidcError> {
        let answer = self.exchange.send(url, sent, authorization).await;
        let unreachable = |cause| OidcError::Unreachable { issuer: self.config.issuer.clone(), cause };
        answer.map_err(unreachable)
    }

    fn decoded<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, OidcError> {
        serde_json::from_slice(&answer.body).map_err(|error| {
            // Where and what kind of mistake; never what was there, which may be a token.
            let what = match error.classify() {
                serde_json::error::Category::Data => "a field is missing or has the wrong type",
                _ => "it is no JSON",
            };
            self.nonsense(what)
        })
    }

    /// What an answer other than 200 means.
    fn refusal(&self, answer: &Answer) -> Result<OidcError, OidcError> {
        if answer.status.is_server_error() {
            return Err(self.nonsense(&format!("status {}", answer.status.as_u16())));
        }
        let refusal: Refusal = self.decoded(answer)?;
        let error = repeated(&refusal.error);
        if matches!(error.as_str(), "invalid_client" | "unauthorized_client") {
            let what = format!(
                "it does not accept the scheduler as a client ({error}): check --oidc-client-id and the secret"
            );
            return Err(self.nonsense(&what));
        }
        let more = refusal.error_description.as_deref().map(repeated);
        Ok(OidcError::Refused { said: more.map_or_else(|| error.clone(), |more| format!("{error}: {more}")) })
    }

    fn nonsense(&self, detail: &str) -> OidcError {
        OidcError::Nonsense { issuer: self.config.issuer.clone(), detail: detail.to_owned() }
    }
}
