//! The setting: whose user jobs run as.

use std::fmt;
use std::str::FromStr;

use muster_protocol::RUN_AS_SUBMITTER;

const WORKER: &str = "worker";
const USER: &str = "user:";

/// Whose user jobs run as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunAs {
    /// The worker's own.
    #[default]
    Worker,
    /// One user for all jobs, by name.
    User(String),
    /// Who submitted the job, if the scheduler has proven that.
    Submitter,
}

impl FromStr for RunAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            WORKER => Ok(Self::Worker),
            RUN_AS_SUBMITTER => Ok(Self::Submitter),
            _ => match text.strip_prefix(USER) {
                Some(name) if !name.is_empty() => Ok(Self::User(name.to_owned())),
                _ => Err(format!("{text:?} is none of worker, submitter and user:NAME, such as user:batch")),
            },
        }
    }
}

impl fmt::Display for RunAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker => f.write_str(WORKER),
            Self::User(name) => write!(f, "{USER}{name}"),
            Self::Submitter => f.write_str(RUN_AS_SUBMITTER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_read_as_they_are_shown() {
        for text in ["worker", "submitter", "user:batch", "user:user:x"] {
            assert_eq!(text.parse::<RunAs>().unwrap().to_string(), text);
        }
        for wrong in ["", "batch", "user:", "Worker"] {
            assert!(wrong.parse::<RunAs>().unwrap_err().contains("user:NAME"), "{wrong}");
        }
    }
}
