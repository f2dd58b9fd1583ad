//! `muster.toml`: the values of a section become the defaults of the flags of the same name.
//!
//! Guarantee: a key that is no flag is an error, so that a typing error is not silently ignored.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::{ArgMatches, Command};

use super::policy;
use super::pools::PoolSettings;
use crate::error::ServerError;

/// Looked for in the current directory when no file is named.
const DEFAULT_FILE: &str = "muster.toml";

/// The section of a scheduler, the one of its policy and its pools, which are read with it.
const SCHEDULER: &str = "scheduler";
const POLICY: &str = "policy";
const POOLS: &str = "pools";

/// Parses `arguments`, taking what neither they nor the environment say from the section of the file.
pub fn matches(
    command: Command,
    section: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let first = command.clone().try_get_matches_from(arguments.clone())?;
    let named = first.get_one::<std::path::PathBuf>("config").cloned();
    let mut command = command;
    match apply_file(command.clone(), section, named.as_deref()) {
        Ok(with_file) => with_file.try_get_matches_from(arguments),
        Err(error) => Err(command.error(clap::error::ErrorKind::ValueValidation, error)),
    }
}

/// The command with the file's values as defaults.
pub fn apply_file(command: Command, section: &str, named: Option<&Path>) -> Result<Command, ServerError> {
    let path = named.unwrap_or_else(|| Path::new(DEFAULT_FILE));
    let wrong = |detail: String| ServerError::ConfigFile { path: path.to_owned(), detail };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => return Ok(command),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let file: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let command = match file.get(section) {
        None => command,
        Some(toml::Value::Table(values)) => apply(command, section, values).map_err(wrong)?,
        Some(_) => return Err(wrong(format!("{section} must be a section"))),
    };
    if section != SCHEDULER {
        return Ok(command);
    }
    let command = match file.get(POLICY) {
        None => command,
        Some(toml::Value::Table(values)) => {
            let values = as_flags(values).map_err(wrong)?;
            apply(command, POLICY, &values).map_err(wrong)?
        }
        Some(_) => return Err(wrong(format!("{POLICY} must be a section"))),
    };
    with_pools(command, &file, text).map_err(wrong)
}

/// The pools are no flag that people use, but go the way of one.
fn with_pools(command: Command, file: &toml::Table, text: String) -> Result<Command, String> {
    if file.contains_key("pool") {
        return Err(format!("there is no section \"pool\"; did you mean [[{POOLS}]]?"));
    }
    let Some(pools) = file.get(POOLS) else { return Ok(command) };
    PoolSettings::read(pools)?;
    Ok(command.mut_arg(POOLS, |argument| argument.default_value(text)))
}

/// The knobs of the policy by the names of their flags.
fn as_flags(values: &toml::Table) -> Result<toml::Table, String> {
    let flag = |(key, value): (&String, &toml::Value)| {
        let plain = key.replace('-', "_");
        let known = policy::KEYS.into_iter().find(|(name, _)| *name == plain);
        let (_, flag) = known.ok_or_else(|| format!("[{POLICY}] has no setting {key:?}"))?;
        Ok((flag.to_owned(), value.clone()))
    };
    values.iter().map(flag).collect()
}

fn apply(mut command: Command, section: &str, values: &toml::Table) -> Result<Command, String> {
    for (key, value) in values {
        let id = key.replace('-', "_");
        let known = command.get_arguments().any(|argument| argument.get_id() == id.as_str());
        if !known || id == "config" || id == POOLS {
            return Err(format!("[{section}] has no setting {key:?}"));
        }
        let text = text(value).ok_or_else(|| format!("[{section}] {key} must be a text or a number"))?;
        command = command.mut_arg(id, |argument| argument.default_value(text));
    }
    Ok(command)
}

/// A value as it would be written for a flag.
pub(super) fn text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use muster_domain::PoolAt;

    use super::*;
    use crate::settings::SchedulerArgs;

    fn parse(file: &str, arguments: &[&str]) -> Result<SchedulerArgs, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("muster.toml");
        std::fs::write(&path, file).unwrap();
        let command = SchedulerArgs::augment_args(Command::new("test"));
        let mut all = vec![OsString::from("test"), "--config".into(), path.into_os_string()];
        all.extend(arguments.iter().map(OsString::from));
        let found = matches(command, "scheduler", all).map_err(|error| error.to_string())?;
        SchedulerArgs::from_arg_matches(&found).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let file =
            "[scheduler]\nport = 9000\nreaper-interval = \"2s\"\njob_heartbeat_timeout = \"7s\"\n[up]\nx = 1";
        let args = parse(file, &["--reaper-interval", "3s"]).unwrap();
        assert_eq!(args.socket().to_string(), "127.0.0.1:9000");
        assert_eq!(args.server_config().reaper_interval.as_secs(), 3);
        assert_eq!(args.server_config().timeouts.job_heartbeat.as_micros(), 7_000_000);
        assert_eq!(args.server_config().timeouts.worker_stale.as_micros(), 60_000_000);
    }

    #[test]
    fn wrong_keys_and_values_of_the_file_are_named() {
        assert!(parse("[scheduler]\nprot = 1", &[]).unwrap_err().contains("prot"));
        assert!(parse("[scheduler]\nport = \"seventy\"", &[]).unwrap_err().contains("seventy"));
        assert!(parse("[scheduler]\nport = [1]", &[]).unwrap_err().contains("port"));
        assert!(parse("scheduler = 5", &[]).unwrap_err().contains("section"));
        assert!(parse("= broken", &[]).unwrap_err().contains("muster.toml"));
    }

    #[test]
    fn a_login_provider_can_be_described_in_the_file() {
        let file = "[scheduler]\noidc-issuer = \"https://sso.example\"\noidc-client-id = \"m\"\n\
                    oidc-role = \"ml=user,it=admin\"\noidc_default_role = \"viewer\"";
        let args = parse(file, &[]).unwrap();
        args.check().unwrap();
        let config = args.server_config().oidc.unwrap();
        let roles: Vec<&str> = config.roles.iter().map(|given| given.role.name()).collect();
        assert_eq!(
            (roles, config.default_role.map(muster_domain::access::UserRole::name)),
            (vec!["user", "admin"], Some("viewer"))
        );
        assert!(parse("[scheduler]\noidc-role = \"ml=boss\"", &[]).unwrap_err().contains("boss"));
    }

    #[test]
    fn the_knobs_of_the_policy_have_a_section_of_their_own() {
        let hours = |hours: u32| muster_domain::Span::from_secs(hours * 3600);
        let file = "[policy]\nname = \"easy\"\nfirst-service = \"2h\"\npin_after = \"48h\"\npreempt = \"off\"\n\
                    pinned_per_mille = 50\nleast_run = \"5m\"";
        let policies = parse(file, &["--pin-after", "3h"]).unwrap().policies();
        let policy = policies.at(PoolAt(0));
        assert_eq!((policy.name.as_str(), policy.preempt, policy.pinned_per_mille), ("easy", false, 50));
        assert_eq!((policy.first_service, policy.pin_after), (hours(2), hours(3)));
        assert_eq!(policy.least_run.as_micros(), 300_000_000);
        assert!(parse("[policy]\nname = \"eazy\"", &[]).unwrap_err().contains("easy-sjbf"));
        assert!(parse("[policy]\nport = 5", &[]).unwrap_err().contains("port"));
        assert!(parse("[policy]\npinned_per_mille = 1001", &[]).unwrap_err().contains("1000"));
        assert!(parse("policy = 5", &[]).unwrap_err().contains("section"));
        assert_eq!(parse("", &[]).unwrap().policies(), muster_planner::policy::Policy::default().into());
    }

    #[test]
    fn a_pool_has_the_usual_policy_but_for_what_it_says() {
        let minutes = |minutes: u32| muster_domain::Span::from_secs(minutes * 60);
        let file = "[policy]\nleast_run = \"5m\"\n[[pools]]\nname = \"batch\"\ntags = [\"cpu\", \"old\"]\n\
                    policy = \"fifo\"\n[[pools]]\nname = \"gpu\"\ntags = [\"a100\"]\npin-after = \"48h\"\n\
                    preempt_by_level = true\nwaste_per_mille = 9";
        let policies = parse(file, &["--passing", "3m"]).unwrap().policies();
        let (batch, gpu, usual) = (policies.at(PoolAt(0)), policies.at(PoolAt(1)), policies.at(PoolAt(2)));
        assert_eq!([batch, gpu, usual].map(|policy| policy.name.as_str()), ["fifo", "muster", "muster"]);
        for policy in [batch, gpu, usual] {
            assert_eq!((policy.least_run, policy.pass_for), (minutes(5), minutes(3)));
        }
        assert_eq!((gpu.pin_after, gpu.preempt_by_level, gpu.waste_per_mille), (minutes(48 * 60), true, 9));
        assert_eq!(
            (usual.pin_after, usual.preempt_by_level, usual.waste_per_mille),
            (minutes(1440), false, 40)
        );
        let tags = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(policies.pool_of(&tags(&["cpu", "old", "x"])), PoolAt(0));
        assert_eq!(policies.pool_of(&tags(&["cpu"])), PoolAt(2));
        assert_eq!(policies.named(PoolAt(1)).unwrap().name, "gpu");
    }

    #[test]
    fn pools_that_cannot_be_meant_are_refused_with_the_reason() {
        let pool = |text: &str| format!("[[pools]]\nname = \"x\"\n{text}\n");
        let one = pool("tags = [\"a\"]");
        let cases = [
            (pool("tags = [\"a\"]\npolicy = \"eazy\""), "pool \"x\": name is \"eazy\": there is no policy"),
            (format!("{one}{one}"), "two pools \"x\""),
            (pool(""), "pool \"x\" has no tags"),
            (pool("tags = []"), "pool \"x\" has no tags"),
            (pool("tags = \"a\""), "list of texts"),
            (pool("tags = [\"\"]"), "list of texts"),
            (pool("tags = [\"a\"]\nprot = 5"), "no setting \"prot\""),
            (pool("tags = [\"a\"]\npin_after = [1]"), "pin_after must be"),
            (
                format!("{one}[[pools]]\nname = \"y\"\ntags = [\"a\", \"b\"]"),
                "pool \"y\" would never get a job",
            ),
            ("[[pools]]\ntags = [\"a\"]".to_owned(), "needs a name"),
            ("[[pools]]\nname = 5".to_owned(), "must be a text"),
            ("[pools]\nname = \"x\"".to_owned(), "[[pools]]"),
            ("[[pool]]\nname = \"x\"".to_owned(), "[[pools]]"),
            ("[scheduler]\npools = \"\"".to_owned(), "no setting \"pools\""),
        ];
        for (file, expected) in cases {
            let wrong = parse(&file, &[]).unwrap_err();
            assert!(wrong.contains(expected) && wrong.contains("muster.toml"), "{file}: {wrong}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_server() {
        let config = parse("", &[]).unwrap().server_config();
        assert_eq!(config, crate::ServerConfig::default());
    }
}
