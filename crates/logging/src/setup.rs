//! Chooses the format and installs it for the whole process.

use std::io::{self, IsTerminal as _};
use std::str::FromStr;

use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::json_lines::JsonLines;

/// How lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Readable on a terminal, JSON otherwise.
    #[default]
    Auto,
    Json,
    Human,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "json" => Ok(Self::Json),
            "human" => Ok(Self::Human),
            other => Err(format!("{other:?} is not a log format; use auto, json or human")),
        }
    }
}

/// Where lines go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogTarget {
    #[default]
    Stdout,
    Stderr,
}

/// What to log, how and where.
#[derive(Debug, Clone)]
pub struct LogSettings<'a> {
    /// A level, or directives such as `info,hyper=warn`.
    pub filter: &'a str,
    pub format: LogFormat,
    pub target: LogTarget,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("{filter:?} is not a log filter: {source}")]
    Filter { filter: String, source: ParseError },
    #[error("the log is set up already")]
    Twice(#[from] TryInitError),
}

/// Installs the log; to be called once.
pub fn init(settings: &LogSettings<'_>) -> Result<(), LoggingError> {
    let filter = EnvFilter::builder()
        .parse(settings.filter)
        .map_err(|source| LoggingError::Filter { filter: settings.filter.to_owned(), source })?;
    let terminal = match settings.target {
        LogTarget::Stdout => io::stdout().is_terminal(),
        LogTarget::Stderr => io::stderr().is_terminal(),
    };
    let human = match settings.format {
        LogFormat::Auto => terminal,
        LogFormat::Json => false,
        LogFormat::Human => true,
    };
    let base = registry().with(filter);
    match (human, settings.target) {
        (true, LogTarget::Stdout) => base.with(readable(terminal).with_writer(io::stdout)).try_init()?,
        (true, LogTarget::Stderr) => base.with(readable(terminal).with_writer(io::stderr)).try_init()?,
        (false, LogTarget::Stdout) => base.with(JsonLines::new(io::stdout())).try_init()?,
        (false, LogTarget::Stderr) => base.with(JsonLines::new(io::stderr())).try_init()?,
    }
    Ok(())
}

fn readable<S>(ansi: bool) -> fmt::Layer<S> {
    fmt::layer().with_ansi(ansi).with_target(false)
}
