//! The types of settings and how each is read.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use muster_planner::Scoring;
use muster_planner::policy::PolicyName;

use crate::duration;

/// What the program is started as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Scheduler,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "scheduler" => Ok(Self::Scheduler),
            "standalone" => Err("a scheduler with its own workers is started by `muster up`".to_owned()),
            _ => Err("the only mode is scheduler".to_owned()),
        }
    }
}

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Memory,
    Sqlite,
    Postgres,
}

impl Driver {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Self::Memory),
            "sqlite" => Ok(Self::Sqlite),
            "postgres" => Ok(Self::Postgres),
            _ => Err("the drivers are memory, sqlite and postgres".to_owned()),
        }
    }
}

/// Which queues jobs may enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueNames {
    Open,
    Closed,
}

impl FromStr for QueueNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            _ => Err("write open or closed".to_owned()),
        }
    }
}

/// Where jobs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChoice {
    Memory,
    Sqlite(PathBuf),
    Postgres(String),
}

/// An address with or without a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    pub host: IpAddr,
    pub port: Option<u16>,
}

impl ListenAddress {
    /// The socket address; `port` stands in when none was written.
    pub fn socket(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.host, self.port.unwrap_or(port))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(Self { host: socket.ip(), port: Some(socket.port()) });
        }
        let host = text.parse::<IpAddr>();
        host.map(|host| Self { host, port: None })
            .map_err(|_| "write an address such as 127.0.0.1, 0.0.0.0:8080 or [::1]:8080".to_owned())
    }
}

/// What an operator has to know about a scheduler that listens beyond loopback.
pub fn open_to_the_network(address: SocketAddr) -> String {
    format!(
        "listening on {address} with --insecure: anybody on the network who reaches this port can run commands on the \
         workers. There is no authentication; use a firewall, or --listen 127.0.0.1"
    )
}

/// What to tell people about a scheduler that takes every caller for a worker.
pub const OPEN_TO_WORKERS: &str = "--allow-legacy-workers any: everyone who reaches the port can act as a worker without a key. Such a \
     worker gets jobs to run, with what they are given, and says how they ended; use a firewall, or give the workers keys";

/// How long finished jobs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention(pub Option<Duration>);

impl FromStr for Retention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self(None)),
            text => positive(text).map(|age| Self(Some(age))).map_err(|error| format!("{error}, or off")),
        }
    }
}

/// An amount of bytes, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimit(pub Option<u64>);

impl FromStr for SizeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a number of bytes such as 500M, 50G or 1T, or off".to_owned();
        if text == "off" {
            return Ok(Self(None));
        }
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(wrong()),
        };
        let amount: u64 = digits.parse().map_err(|_| wrong())?;
        let bytes = amount.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
        bytes.map(|bytes| Self(Some(bytes))).ok_or_else(wrong)
    }
}

pub(super) fn scoring(text: &str) -> Result<Scoring, String> {
    match text {
        "best-fit" => Ok(Scoring::BestFit),
        "spread" => Ok(Scoring::Spread),
        _ => Err("the policies are best-fit and spread".to_owned()),
    }
}

/// A policy by its name.
pub(super) fn policy_name(text: &str) -> Result<PolicyName, String> {
    text.parse().map_err(|error: muster_planner::policy::UnknownPolicy| error.to_string())
}

/// A part of a whole, in thousandths.
pub(super) fn per_mille(text: &str) -> Result<u32, String> {
    let part = text.parse().ok().filter(|part| *part <= 1000);
    part.ok_or_else(|| "must be a number from 0 to 1000".to_owned())
}

pub(super) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}

/// A duration that may be nothing.
pub(crate) fn any_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "write a duration such as 30s, 5m or 1h30m".to_owned())
}

/// A duration of at least a millisecond.
pub(super) fn positive(text: &str) -> Result<Duration, String> {
    let duration = any_duration(text)?;
    if duration < Duration::from_millis(1) {
        return Err("it must be at least 1ms".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_with_and_without_a_port() {
        let read = |text: &str| text.parse::<ListenAddress>().map(|address| address.socket(8080).to_string());
        assert_eq!(read("127.0.0.1").unwrap(), "127.0.0.1:8080");
        assert_eq!(read("0.0.0.0:9").unwrap(), "0.0.0.0:9");
        assert_eq!(read("[::1]:9").unwrap(), "[::1]:9");
        assert!(read("here").is_err());
    }

    #[test]
    fn retention_is_a_time_or_off() {
        assert_eq!("off".parse::<Retention>().unwrap(), Retention(None));
        assert_eq!("30d".parse::<Retention>().unwrap(), Retention(Some(Duration::from_secs(30 * 86_400))));
        assert!("never".parse::<Retention>().is_err());
        assert!("0s".parse::<Retention>().is_err());
    }

    #[test]
    fn sizes_have_units() {
        let read = |text: &str| text.parse::<SizeLimit>().map(|limit| limit.0);
        assert_eq!(read("off"), Ok(None));
        assert_eq!(read("1000"), Ok(Some(1000)));
        assert_eq!(read("2K"), Ok(Some(2048)));
        assert_eq!(read("50GiB"), Ok(Some(50 << 30)));
        for wrong in ["", "0", "-1", "5x", "G", "99999999999T"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_standalone_mode_names_its_replacement() {
        assert!("standalone".parse::<Mode>().unwrap_err().contains("muster up"));
        assert!("sideways".parse::<Mode>().is_err());
    }
}
