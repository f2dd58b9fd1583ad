//! The flags about who may reach a scheduler.

use clap::Args;

use crate::config::{Access, LegacyWorkers, LoopbackUsers};
use crate::gate::Origin;

/// Names of the scheduler, pages that may use it, and who is trusted.
#[derive(Debug, Clone, Default, Args)]
pub struct AccessArgs {
    /// A name by which clients reach the scheduler, such as muster.example or the name of a Kubernetes service; may be
    /// repeated. Loopback names and the address it listens on are known; on 0.0.0.0 every address and the name of the
    /// machine are too. A request for another host is refused with 421
    #[arg(long, value_name = "NAME", env = "MUSTER_HOSTNAME", value_delimiter = ',', value_parser = hostname)]
    pub hostname: Vec<String>,
    #[arg(
        long,
        help = "An origin whose web pages may use the scheduler, such as https://board.example; may be repeated. Pages of other origins are refused with 403",
        value_name = "ORIGIN",
        env = "MUSTER_ALLOW_ORIGIN",
        value_delimiter = ','
    )]
    pub allow_origin: Vec<Origin>,
    /// Which users of this machine the scheduler serves while it listens on loopback without asking who they are: same for
    /// the one who started it and root, any for all, none where a proxy stands in front of it. Others need an account
    #[arg(long, value_name = "USERS", env = "MUSTER_LOOPBACK", default_value = "same", value_parser = loopback)]
    pub loopback: LoopbackUsers,
    /// Which workers may work without a key, as those of the original system do: loopback for those that may use everything
    /// without a credential (--loopback, --insecure), none where every worker shows a key, any for everyone who reaches the
    /// port, on the routes of workers only. Workers of the original system can show a key in their URL, as name:key@host
    #[arg(long, value_name = "WHICH", env = "MUSTER_ALLOW_LEGACY_WORKERS", default_value = "loopback", value_parser = legacy_workers)]
    pub allow_legacy_workers: LegacyWorkers,
    /// Listen beyond loopback and trust everyone who reaches the port: they can run commands on the workers without an
    /// account. The scheduler warns at every start
    #[arg(long, env = "MUSTER_INSECURE")]
    pub insecure: bool,
}

impl AccessArgs {
    pub(super) fn config(&self) -> Access {
        Access {
            loopback: self.loopback,
            insecure: self.insecure,
            legacy_workers: self.allow_legacy_workers,
            hostnames: self.hostname.clone(),
            origins: self.allow_origin.clone(),
        }
    }
}

fn loopback(text: &str) -> Result<LoopbackUsers, String> {
    match text {
        "same" => Ok(LoopbackUsers::Same),
        "any" => Ok(LoopbackUsers::Any),
        "none" => Ok(LoopbackUsers::None),
        _ => Err("write same, any or none".to_owned()),
    }
}

fn legacy_workers(text: &str) -> Result<LegacyWorkers, String> {
    match text {
        "loopback" => Ok(LegacyWorkers::Loopback),
        "none" => Ok(LegacyWorkers::None),
        "any" => Ok(LegacyWorkers::Any),
        _ => Err("write loopback, none or any".to_owned()),
    }
}

fn hostname(text: &str) -> Result<String, String> {
    let usable = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
    let is_name = !text.is_empty() && text.chars().all(usable) && !text.ends_with(':');
    let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':'));
    if !is_name || has_port {
        return Err("write a name such as muster.example, without scheme and port".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostname_has_no_scheme_and_no_port() {
        assert!(hostname("muster.example").is_ok());
        assert!(hostname("[fd00::1]").is_ok());
        for wrong in ["", "http://muster.example", "muster.example:8080", "a b", "*"] {
            assert!(hostname(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_origin_has_a_scheme_and_no_path() {
        for wrong in ["", "null", "muster.example", "https://a/b", "ftp://a", "https://a:x"] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
        assert_eq!("https://A.example".parse::<Origin>(), "https://a.example:443".parse::<Origin>());
    }
}
