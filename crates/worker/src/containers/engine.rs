//! The engine that runs containers: where it is, whether it answers, and what it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::{ClientVersion, Docker};
use muster_protocol::ContainerEngine;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::errors::words;
use super::mounts::AllowedMount;

/// How long an engine may take to say that it is there.
const GREETING: Duration = Duration::from_secs(5);
/// How long it may take to describe itself: while it makes containers it may do nothing else.
const DESCRIPTION: Duration = Duration::from_secs(30);
/// How long it may take over one request. Starting a container on a busy machine takes a while.
const REQUEST: Duration = Duration::from_secs(120);
/// Spoken with an engine before its version is known.
const FIRST_VERSION: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

const DOCKER_SOCKET: &str = "/var/run/docker.sock";
const PODMAN_SOCKET: &str = "/run/podman/podman.sock";

/// Whether a worker runs containers, and by what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContainerMode {
    /// If there is an engine.
    #[default]
    Auto,
    Docker,
    Podman,
    Off,
}

impl std::str::FromStr for ContainerMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "docker" => Ok(Self::Docker),
            "podman" => Ok(Self::Podman),
            "off" => Ok(Self::Off),
            other => Err(format!("{other:?} is none of auto, docker, podman and off")),
        }
    }
}

/// The settings of a worker about containers.
#[derive(Debug, Clone, Default)]
pub struct ContainerSettings {
    pub mode: ContainerMode,
    /// The socket of the engine; looked for in the usual places when absent.
    pub socket: Option<PathBuf>,
    /// What jobs may mount.
    pub allowed_mounts: Vec<AllowedMount>,
}

/// How an engine is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    pub socket: String,
    /// The version of the API that both sides know.
    pub api: (usize, usize),
    /// It speaks the words of Docker, and does some things in another way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_podman: bool,
}

impl Reach {
    /// A client. It connects with the first request.
    pub(crate) fn client(&self) -> Result<Docker, String> {
        let (major_version, minor_version) = self.api;
        let version = ClientVersion { major_version, minor_version };
        Docker::connect_with_unix(&self.socket, REQUEST.as_secs(), &version)
            .map_err(|error| format!("cannot reach the container engine at {}: {error}", self.socket))
    }
}

/// An engine that has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Engine {
    pub(crate) reach: Reach,
    pub(crate) name: String,
    pub(crate) version: String,
    /// It has the small init that a container can begin with.
    pub(crate) has_init: bool,
}

impl Engine {
    /// As the scheduler is told.
    pub(crate) fn announced(&self) -> ContainerEngine {
        ContainerEngine { name: self.name.clone(), version: self.version.clone() }
    }
}

/// Finds the engine that the settings mean. `None` where there is none, with the reason for the log.
pub(crate) async fn find(settings: &ContainerSettings) -> Result<Engine, String> {
    let mut reasons = Vec::new();
    for socket in places(settings) {
        match ask(&socket).await {
            Ok(engine) if is_meant(settings.mode, &engine) => return Ok(engine),
            Ok(engine) => reasons.push(format!("at {} there is {}", socket.display(), engine.name)),
            Err(reason) => reasons.push(reason),
        }
    }
    if reasons.is_empty() {
        reasons.push("there is no socket of Docker or Podman; name one with --container-socket".to_owned());
    }
    Err(reasons.join("; "))
}

fn is_meant(mode: ContainerMode, engine: &Engine) -> bool {
    match mode {
        ContainerMode::Auto => true,
        ContainerMode::Docker => engine.name != "podman",
        ContainerMode::Podman => engine.name == "podman",
        ContainerMode::Off => false,
    }
}

/// Where to look: what was named, or the places where there is a socket.
fn places(settings: &ContainerSettings) -> Vec<PathBuf> {
    if settings.mode == ContainerMode::Off {
        return Vec::new();
    }
    if let Some(socket) = &settings.socket {
        return vec![without_scheme(socket)];
    }
    let from_environment =
        std::env::var_os("DOCKER_HOST").map(PathBuf::from).map(|host| without_scheme(&host));
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let of_user =
        of_user.into_iter().flat_map(|dir| [dir.join("docker.sock"), dir.join("podman/podman.sock")]);
    let usual = [DOCKER_SOCKET, PODMAN_SOCKET].map(PathBuf::from);
    let all = from_environment.into_iter().chain(usual).chain(of_user);
    all.filter(|socket| socket.exists()).collect()
}

fn without_scheme(socket: &Path) -> PathBuf {
    socket
        .to_str()
        .and_then(|text| text.strip_prefix("unix://"))
        .map_or_else(|| socket.to_owned(), PathBuf::from)
}

async fn ask(socket: &Path) -> Result<Engine, String> {
    let text = socket.to_str().ok_or("the path of the socket is no text")?.to_owned();
    let failed = |error: &bollard::errors::Error| {
        format!("the container engine at {text} cannot be used: {}", words(error))
    };
    let client = Docker::connect_with_unix(&text, REQUEST.as_secs(), &FIRST_VERSION)
        .map_err(|error| failed(&error))?;
    let silent = |_| format!("the container engine at {text} does not answer");
    let client = timeout(GREETING, client.negotiate_version()).await.map_err(silent)?;
    let client = client.map_err(|error| failed(&error))?;
    let version = timeout(DESCRIPTION, client.version()).await.map_err(silent)?;
    let version = version.map_err(|error| failed(&error))?;
    let spoken = client.client_version();
    let components = version.components.unwrap_or_default();
    let is_podman = components.iter().any(|part| part.name.to_lowercase().contains("podman"));
    // Podman does not say; the runner does without where there is none.
    let has_init = is_podman || {
        let info = timeout(DESCRIPTION, client.info()).await.map_err(silent)?;
        info.map_err(|error| failed(&error))?.init_binary.is_some_and(|binary| !binary.is_empty())
    };
    Ok(Engine {
        reach: Reach { socket: text, api: (spoken.major_version, spoken.minor_version), is_podman },
        name: if is_podman { "podman" } else { "docker" }.to_owned(),
        version: version.version.unwrap_or_default(),
        has_init,
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn a_named_socket_is_the_only_place() {
        let socket = Some(PathBuf::from("unix:///x/y.sock"));
        let mut settings = ContainerSettings { socket, ..ContainerSettings::default() };
        assert_eq!(places(&settings), [PathBuf::from("/x/y.sock")]);
        settings.mode = ContainerMode::Off;
        assert!(places(&settings).is_empty());
        assert!("maybe".parse::<ContainerMode>().unwrap_err().contains("auto"));
    }

    #[tokio::test]
    async fn podman_is_known_by_its_version_however_long_the_rest_takes() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("socket");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let mut request = vec![0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut request).await {
                        // While it makes containers it answers nothing else.
                        if !String::from_utf8_lossy(&request[..length]).contains("/version ") {
                            return std::future::pending().await;
                        }
                        let body = r#"{"Components":[{"Name":"Podman Engine","Version":"4.3.1"}],"ApiVersion":"1.41"}"#;
                        let head = format!(
                            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                            body.len()
                        );
                        stream.write_all((head + body).as_bytes()).await.unwrap();
                    }
                });
            }
        });
        let settings = ContainerSettings { socket: Some(socket), ..ContainerSettings::default() };
        let found = tokio::time::timeout(DESCRIPTION / 2, find(&settings)).await.expect("without a wait");
        let engine = found.unwrap();
        assert!(engine.reach.is_podman && engine.has_init, "{engine:?}");
    }

    #[tokio::test]
    async fn what_is_no_engine_is_told() {
        let root = tempfile::tempdir().unwrap();
        let settings =
            ContainerSettings { socket: Some(root.path().join("none")), ..ContainerSettings::default() };
        assert!(find(&settings).await.unwrap_err().contains("none"));
    }
}
