//! `run` and `submit`: the container that the command runs in.

use clap::{Args, ValueEnum};
use muster_protocol::{Container, ContainerNetwork, PullPolicy};

const HEADING: &str = "Container";

/// What a container can reach, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkArg {
    None,
    Bridge,
    Host,
}

/// When the image is pulled, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PullArg {
    Missing,
    Always,
    Never,
}

/// The image and how its container is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct ContainerArgs {
    /// Run the command in a container of this image, such as python:3.13
    #[arg(long, value_name = "IMAGE", help_heading = HEADING)]
    pub(crate) image: Option<String>,
    /// What the container reaches [default: none, and host for a gang]
    #[arg(long, value_enum, value_name = "NETWORK", help_heading = HEADING, requires = "image")]
    pub(crate) network: Option<NetworkArg>,
    /// When the image is pulled [default: missing]
    #[arg(long, value_enum, value_name = "WHEN", help_heading = HEADING, requires = "image")]
    pub(crate) pull: Option<PullArg>,
    #[arg(long = "mount", help = "A directory of the worker, which must allow it (--allow-mount), such as /data:/data:ro; may be repeated", value_name = "SOURCE:TARGET[:ro]", help_heading = HEADING, requires = "image")]
    pub(crate) mounts: Vec<String>,
    /// Let the command write to no file of the image
    #[arg(long, help_heading = HEADING, requires = "image")]
    pub(crate) read_only: bool,
    /// The user inside the container, by name or number [default: that of the image]
    #[arg(long, value_name = "USER[:GROUP]", help_heading = HEADING, requires = "image")]
    pub(crate) container_user: Option<String>,
    /// The program that gets the command as its arguments; empty for none [default: that of the image]
    #[arg(long, value_name = "PROGRAM", help_heading = HEADING, requires = "image")]
    pub(crate) entrypoint: Option<String>,
    /// Size of /dev/shm, such as 1G [default: the engine's, mostly 64M]
    #[arg(long, value_name = "SIZE", value_parser = super::amounts::memory_mb, help_heading = HEADING, requires = "image")]
    pub(crate) shm: Option<u64>,
    /// The most processes and threads at a time [default: no limit]
    #[arg(long, value_name = "N", help_heading = HEADING, requires = "image")]
    pub(crate) pids: Option<u32>,
    /// A limit of its processes, such as nofile=4096; may be repeated
    #[arg(long = "ulimit", value_name = "NAME=SOFT[:HARD]", value_parser = ulimit, help_heading = HEADING, requires = "image")]
    pub(crate) ulimits: Vec<(String, String)>,
    /// The secret with the credentials of the registry: user:password, or a Docker config.json
    #[arg(long, value_name = "SECRET", help_heading = HEADING, requires = "image")]
    pub(crate) registry_secret: Option<String>,
}

/// Reads `nofile=1024:4096`.
fn ulimit(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} is not of the form name=limit, such as nofile=4096")),
    }
}

impl ContainerArgs {
    /// As the request says it; absent where nothing was said.
    pub(crate) fn container(&self) -> Option<Box<Container>> {
        let made = Container {
            network: self.network.map(|network| match network {
                NetworkArg::None => ContainerNetwork::None,
                NetworkArg::Bridge => ContainerNetwork::Bridge,
                NetworkArg::Host => ContainerNetwork::Host,
            }),
            pull: self.pull.map(|when| match when {
                PullArg::Missing => PullPolicy::Missing,
                PullArg::Always => PullPolicy::Always,
                PullArg::Never => PullPolicy::Never,
            }),
            mounts: self.mounts.clone(),
            read_only: self.read_only,
            user: self.container_user.clone(),
            entrypoint: self.entrypoint.as_ref().map(|program| match program.as_str() {
                "" => Vec::new(),
                program => vec![program.to_owned()],
            }),
            init: None,
            shm_mb: self.shm,
            pids: self.pids,
            ulimits: self.ulimits.iter().cloned().collect(),
            credentials: self.registry_secret.clone(),
        };
        (made != Container::default()).then(|| Box::new(made))
    }
}
