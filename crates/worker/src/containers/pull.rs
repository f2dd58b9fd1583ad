//! Images: asked for, pulled once for all who want them, and named exactly.
//!
//! Guarantees: one pull of an image with the same credentials is under way at a time; credentials are never printed; whoever
//! stops waiting does not end the pull of the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::StreamExt as _;
use muster_protocol::PullPolicy;
use tokio::sync::watch;
use tokio::time::timeout;

use super::engine::Reach;
use super::errors::{is_answer, status, words};

/// How long an engine may take to say whether it has an image.
const INSPECT: Duration = Duration::from_secs(30);
/// How long a pull may say nothing.
const SILENCE: Duration = Duration::from_secs(300);

/// What a job asks for.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) reach: Reach,
    pub(crate) image: String,
    pub(crate) policy: PullPolicy,
    /// `user:password`, or the text of a `config.json`.
    pub(crate) credentials: Option<Arc<str>>,
}

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wanted({}, {:?})", self.image, self.policy)
    }
}

/// An image that the worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pulled {
    pub(crate) id: String,
    /// In its repository; the id again where it comes from none.
    pub(crate) digest: String,
    /// What had to be fetched of it.
    pub(crate) fetched: Option<Fetched>,
}

/// How much of an image has come, of how much that is known of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) bytes: u64,
    pub(crate) total: u64,
}

/// Why there is no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PullFailure {
    pub(crate) message: String,
    pub(crate) prospect: Prospect,
}

/// When there might be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// Later, here or elsewhere.
    Later,
    /// On another worker.
    Elsewhere,
    Never,
}

type Result<T, E = PullFailure> = std::result::Result<T, E>;

/// How far a pull is. Nothing was fetched before the registry has named a layer that is not there.
#[derive(Debug, Clone)]
enum Progress {
    Under(Option<Fetched>),
    Over(Result<Option<Fetched>>),
}

/// An image and what its registry asks for.
type PullKey = (String, Option<Arc<str>>);

/// The pulls under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulls {
    under_way: Arc<Mutex<HashMap<PullKey, watch::Receiver<Progress>>>>,
}

impl Pulls {
    /// Sees to it that the image is there. `tell` hears that the registry is asked, and how far the pull is.
    pub(crate) async fn provide(&self, wanted: &Wanted, tell: impl Fn(Option<Fetched>)) -> Result<Pulled> {
        let client = wanted.reach.client().map_err(later)?;
        if wanted.policy != PullPolicy::Always
            && let Some(found) = inspect(&client, &wanted.image).await?
        {
            return Ok(found);
        }
        if wanted.policy == PullPolicy::Never {
            let message =
                format!("the worker does not have the image {}, and the job says pull: never", wanted.image);
            return Err(PullFailure { message, prospect: Prospect::Elsewhere });
        }
        let fetched = self.pull(client.clone(), wanted, tell).await?;
        let missing = || later(format!("the image {} was pulled and is not there", wanted.image));
        let found = inspect(&client, &wanted.image).await?.ok_or_else(missing)?;
        Ok(Pulled { fetched, ..found })
    }

    async fn pull(
        &self,
        client: Docker,
        wanted: &Wanted,
        tell: impl Fn(Option<Fetched>),
    ) -> Result<Option<Fetched>> {
        let mut progress = self.join(client, wanted);
        loop {
            let now = progress.borrow_and_update().clone();
            match now {
                Progress::Over(result) => return result,
                Progress::Under(fetched) => tell(fetched),
            }
            if progress.changed().await.is_err() {
                return Err(later(format!("the pull of {} was broken off", wanted.image)));
            }
        }
    }

    /// The pull that is under way, or a new one.
    fn join(&self, client: Docker, wanted: &Wanted) -> watch::Receiver<Progress> {
        let key = (wanted.image.clone(), wanted.credentials.clone());
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = under_way.get(&key) {
            return known.clone();
        }
        let (sender, receiver) = watch::channel(Progress::Under(None));
        under_way.insert(key.clone(), receiver.clone());
        let (pulls, wanted) = (Arc::clone(&self.under_way), wanted.clone());
        tokio::spawn(async move {
            let result = pull(&client, &wanted, &sender).await;
            pulls.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            sender.send_replace(Progress::Over(result));
        });
        receiver
    }
}

fn later(message: String) -> PullFailure {
    PullFailure { message, prospect: Prospect::Later }
}

async fn inspect(client: &Docker, image: &str) -> Result<Option<Pulled>> {
    let silent = || later("the container engine does not answer".to_owned());
    match timeout(INSPECT, client.inspect_image(image)).await.map_err(|_| silent())? {
        Ok(found) => {
            let id = found.id.unwrap_or_else(|| image.to_owned());
            let digest = digest(image, &found.repo_digests.unwrap_or_default());
            Ok(Some(Pulled { digest: digest.unwrap_or_else(|| id.clone()), id, fetched: None }))
        }
        Err(error) if status(&error) == Some(404) => Ok(None),
        Err(error) => {
            Err(later(format!("the container engine cannot be asked for {image}: {}", words(&error))))
        }
    }
}

/// The digest of an image in the repository that its name means, else in any. They are written `repository@sha256:...`.
fn digest(image: &str, known: &[String]) -> Option<String> {
    let name = image.split('@').next().unwrap_or(image);
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let end = name[last..].find(':').map_or(name.len(), |colon| last + colon);
    let repository = &name[..end];
    let parts = || known.iter().filter_map(|entry| entry.split_once('@'));
    // Some engines write the registry that is meant without being named.
    let is_meant = |whole: &str| {
        whole == repository || whole.strip_suffix(repository).is_some_and(|host| host.ends_with('/'))
    };
    let found = parts().find(|(whole, _)| is_meant(whole)).or_else(|| parts().next());
    found.map(|(_, digest)| digest.to_owned())
}

async fn pull(
    client: &Docker,
    wanted: &Wanted,
    progress: &watch::Sender<Progress>,
) -> Result<Option<Fetched>> {
    let credentials =
        wanted.credentials.as_deref().map(|text| credentials(text, &wanted.image)).transpose()?;
    let options = CreateImageOptionsBuilder::new().from_image(&with_tag(&wanted.image)).build();
    let mut pieces = client.create_image(Some(options), None, credentials);
    let mut layers = Layers::default();
    loop {
        match timeout(SILENCE, pieces.next()).await {
            Ok(None) => return Ok(layers.fetched()),
            Ok(Some(Ok(piece))) => {
                layers.note(&piece);
                progress.send_replace(Progress::Under(layers.fetched()));
            }
            Ok(Some(Err(error))) => return Err(failure(&wanted.image, &error)),
            Err(_) => return Err(later(format!("the pull of {} has stalled", wanted.image))),
        }
    }
}

/// Without a tag the engine would pull all of them.
fn with_tag(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

fn failure(image: &str, error: &Error) -> PullFailure {
    let said = words(error);
    let plain = said.to_lowercase();
    let is_unknown = status(error) == Some(404)
        || [
            "manifest unknown",
            "not found",
            "name unknown",
            "invalid reference format",
            "no matching manifest",
        ]
        .iter()
        .any(|words| plain.contains(words));
    let is_denied = ["unauthorized", "denied", "no basic auth credentials", "authentication required"]
        .iter()
        .any(|words| plain.contains(words));
    let prospect =
        if is_answer(error) && (is_unknown || is_denied) { Prospect::Never } else { Prospect::Later };
    PullFailure { message: format!("the image {image} cannot be pulled: {said}"), prospect }
}

/// What the layers of an image are at: those that were not there before.
#[derive(Debug, Default)]
struct Layers {
    sizes: HashMap<String, Fetched>,
}

impl Layers {
    /// Takes note of a line of the engine.
    fn note(&mut self, piece: &CreateImageInfo) {
        let (Some(id), Some(status)) = (&piece.id, piece.status.as_deref()) else { return };
        let detail = piece.progress_detail.as_ref();
        let number = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let current = number(detail.and_then(|detail| detail.current));
        let total = number(detail.and_then(|detail| detail.total));
        match status {
            "Pulling fs layer" => {
                self.sizes.entry(id.clone()).or_default();
            }
            "Downloading" => {
                let layer = self.sizes.entry(id.clone()).or_default();
                layer.bytes = current.unwrap_or(layer.bytes);
                layer.total = total.unwrap_or(layer.total).max(layer.bytes);
            }
            // Small layers are never seen on their way.
            "Download complete" | "Extracting" => {
                if let Some(layer) = self.sizes.get_mut(id) {
                    layer.total = total.unwrap_or(layer.total);
                    layer.bytes = layer.total;
                }
            }
            _ => {}
        }
    }

    /// All together, if there are any.
    fn fetched(&self) -> Option<Fetched> {
        let add = |sum: Fetched, layer: &Fetched| Fetched {
            bytes: sum.bytes.saturating_add(layer.bytes),
            total: sum.total.saturating_add(layer.total),
        };
        (!self.sizes.is_empty()).then(|| self.sizes.values().fold(Fetched::default(), add))
    }
}

/// Reads `user:password`, or what `docker login` writes, for the registry of an image.
fn credentials(text: &str, image: &str) -> Result<DockerCredentials> {
    let wrong = |why: &str| PullFailure {
        message: format!("the credentials for {image} cannot be used: {why}"),
        prospect: Prospect::Never,
    };
    let registry = registry(image);
    let text = text.trim();
    if !text.starts_with('{') {
        let (username, password) = text
            .split_once(':')
            .ok_or_else(|| wrong("the secret is neither user:password nor a config.json"))?;
        return Ok(DockerCredentials {
            username: Some(username.to_owned()),
            password: Some(password.to_owned()),
            serveraddress: Some(registry.to_owned()),
            ..DockerCredentials::default()
        });
    }
    let file: serde_json::Value =
        serde_json::from_str(text).map_err(|_| wrong("the secret is no valid JSON"))?;
    let entries = file["auths"].as_object().ok_or_else(|| wrong("the config.json has no auths"))?;
    let meant = |name: &str| {
        let host = name.trim_start_matches("https://").trim_start_matches("http://");
        host.split('/').next() == Some(registry) || host.trim_end_matches('/') == registry
    };
    let entry = entries.iter().find(|(name, _)| meant(name)).map(|(_, entry)| entry);
    let entry = entry.ok_or_else(|| wrong(&format!("the config.json has nothing for {registry}")))?;
    let field = |name: &str| entry[name].as_str().map(str::to_owned);
    let (mut username, mut password) = (field("username"), field("password"));
    if let Some(both) = field("auth").as_deref().and_then(decoded)
        && let Some((user, pass)) = both.split_once(':')
    {
        (username, password) = (Some(user.to_owned()), Some(pass.to_owned()));
    }
    Ok(DockerCredentials {
        username,
        password,
        identitytoken: field("identitytoken"),
        serveraddress: Some(registry.to_owned()),
        ..DockerCredentials::default()
    })
}

fn decoded(text: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    String::from_utf8(bytes).ok()
}

/// The registry that an image comes from.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "index.docker.io",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_tag_and_a_registry() {
        assert_eq!(with_tag("busybox"), "busybox:latest");
        assert_eq!(with_tag("h:5000/a/b"), "h:5000/a/b:latest");
        assert_eq!(with_tag("h:5000/a/b:1"), "h:5000/a/b:1");
        assert_eq!(with_tag("a@sha256:0"), "a@sha256:0");
        assert_eq!(registry("a/b"), "index.docker.io");
        assert_eq!(registry("localhost/b"), "localhost");
        assert_eq!(registry("h:5000/a/b:1"), "h:5000");
    }

    #[test]
    fn the_digest_is_that_of_the_repository_that_is_meant() {
        let known = ["h:5000/a/b@sha256:1", "docker.io/library/busybox@sha256:2"].map(str::to_owned);
        let found = |image: &str| digest(image, &known);
        assert_eq!(found("h:5000/a/b:1").as_deref(), Some("sha256:1"));
        assert_eq!(found("busybox").as_deref(), Some("sha256:2"));
        assert_eq!(found("busybox:1@sha256:2").as_deref(), Some("sha256:2"));
        assert_eq!(found("box").as_deref(), Some("sha256:1"), "it has another name there");
        assert_eq!(digest("busybox", &[]), None);
    }

    #[test]
    fn layers_add_up_and_those_that_were_there_do_not_count() {
        let mut layers = Layers::default();
        let mut note = |id: &str, status: &str, detail: Option<(i64, i64)>| {
            let progress_detail = detail.map(|(current, total)| bollard::models::ProgressDetail {
                current: Some(current),
                total: Some(total),
            });
            let (id, status) = (Some(id.to_owned()), Some(status.to_owned()));
            layers.note(&CreateImageInfo { id, status, progress_detail, ..CreateImageInfo::default() });
            layers.fetched()
        };
        let fetched = |bytes, total| Some(Fetched { bytes, total });
        assert_eq!(note("old", "Already exists", None), None);
        assert_eq!(note("a", "Pulling fs layer", None), fetched(0, 0));
        note("b", "Pulling fs layer", None);
        assert_eq!(note("a", "Downloading", Some((5, 20))), fetched(5, 20));
        assert_eq!(note("b", "Extracting", Some((1, 7))), fetched(12, 27));
        assert_eq!(note("a", "Download complete", None), fetched(27, 27));
        assert_eq!(note("old", "Pull complete", None), fetched(27, 27));
    }

    #[test]
    fn credentials_come_in_two_forms_and_are_not_told() {
        let plain = credentials("me:se:same\n", "h:5000/a").unwrap();
        assert_eq!((plain.username.as_deref(), plain.password.as_deref()), (Some("me"), Some("se:same")));
        let file = r#"{"auths": {"https://h:5000/v2/": {"auth": "bWU6c2VzYW1l"}, "x": {}}}"#;
        let read = credentials(file, "h:5000/a").unwrap();
        assert_eq!((read.username.as_deref(), read.password.as_deref()), (Some("me"), Some("sesame")));
        for (text, words) in [("sesame", "neither"), ("{", "no valid JSON"), (file, "nothing for g:1")] {
            let message = credentials(text, "g:1/a").unwrap_err().message;
            assert!(message.contains(words) && !message.contains("sesame"), "{message}");
        }
    }

    #[test]
    fn what_the_registry_does_not_have_is_final() {
        let said = |text: &str| Error::DockerStreamError { error: text.to_owned() };
        let is_final = |text: &str| failure("a", &said(text)).prospect == Prospect::Never;
        assert!(is_final("manifest for a:latest not found: manifest unknown"));
        assert!(is_final("no basic auth credentials"));
        assert!(!is_final("dial tcp 127.0.0.1:5000: connect: connection refused"));
        assert!(!is_final("received unexpected HTTP status: 503 Service Unavailable"));
    }
}
