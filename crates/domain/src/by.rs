//! Who caused a change, as events tell it.
//!
//! Guarantee: what is written is read back the same; names of users have no spaces, so that no two callers are written alike.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::account::is_name;
use crate::ids::WorkerId;

/// Names that no account may have, since they stand for others here and in the audit log.
pub(crate) const RESERVED: [&str; 4] = ["local", "scheduler", "worker", "nobody"];

/// Who caused a change.
///
/// As text: `ann`, `ann (token ci)`, `worker w1`, `scheduler`, `local`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// Somebody who needs no account here: the user who runs the scheduler, or anyone where all are trusted.
    Local,
    /// A loop of the scheduler, or what follows from the end of another job.
    Scheduler,
    /// A person or a program with an account, and the token that it showed.
    User { name: Arc<str>, token: Option<Arc<str>> },
    /// The worker that has the job; `None` when it gave no name.
    Worker(Option<WorkerId>),
}

impl By {
    /// Reads what [`By::to_string`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "local" => return Some(Self::Local),
            "scheduler" => return Some(Self::Scheduler),
            "worker" => return Some(Self::Worker(None)),
            _ => {}
        }
        if let Some(worker) = text.strip_prefix("worker ") {
            return Some(Self::Worker(Some(WorkerId::new(worker))));
        }
        let (name, token) = match text.split_once(" (token ") {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')')?)),
            None => (text, None),
        };
        is_name(name).then(|| Self::User { name: name.into(), token: token.map(Arc::from) })
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Scheduler => f.write_str("scheduler"),
            Self::User { name, token: None } => f.write_str(name),
            Self::User { name, token: Some(token) } => write!(f, "{name} (token {token})"),
            Self::Worker(None) => f.write_str("worker"),
            Self::Worker(Some(worker)) => write!(f, "worker {worker}"),
        }
    }
}

impl Serialize for By {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for By {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} names nobody")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let user = |token: Option<&str>| By::User { name: "ann@x".into(), token: token.map(Arc::from) };
        let all = [
            (By::Local, "local"),
            (By::Scheduler, "scheduler"),
            (user(None), "ann@x"),
            (user(Some("ci")), "ann@x (token ci)"),
            (By::Worker(None), "worker"),
            (By::Worker(Some(WorkerId::new("a (token b)"))), "worker a (token b)"),
        ];
        for (by, text) in all {
            assert_eq!(by.to_string(), text);
            assert_eq!(By::parse(text), Some(by), "{text}");
        }
    }

    #[test]
    fn other_texts_name_nobody() {
        for text in ["", "a b", "job x", "ann (token ci", "ann (session x)"] {
            assert_eq!(By::parse(text), None, "{text:?}");
        }
    }
}
