//! `--export`: what of the environment here goes with a job.
//!
//! Guarantee: `ALL` never sends what names this session, this terminal or another job; what is named is sent, or
//! refused where it has no value.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::failure::UsageError;
use crate::output::note;

/// As much travels with a job.
const MOST_BYTES: usize = 256 * 1024;

/// What `ALL` leaves out, by the beginning of the name.
const LEFT_OUT_PREFIXES: [&str; 9] =
    ["MUSTER_", "SLURM_", "SBATCH_", "SSH_", "XDG_SESSION_", "DBUS_", "LISTEN_", "TMUX", "BASH_FUNC_"];
/// And by the whole of it.
const LEFT_OUT: [&str; 30] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "HOSTNAME",
    "TMPDIR",
    "COLUMNS",
    "LINES",
    "TTY",
    "STY",
    "WINDOWID",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SEAT",
    "XDG_VTNR",
    "GPG_TTY",
    "GPG_AGENT_INFO",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "NOTIFY_SOCKET",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "MAINPID",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
];

/// What to send of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Export {
    all: bool,
    /// Names to send, each with its value where one was written.
    named: Vec<(String, Option<String>)>,
}

/// Reads `ALL`, `NONE`, `NAME` and `NAME=VALUE`, with commas in between.
pub(crate) fn parse(text: &str) -> Result<Export, String> {
    let mut export = Export::default();
    let words: Vec<&str> = text.split(',').collect();
    if words.len() > 1 && words.contains(&"NONE") {
        return Err("NONE stands alone: it sends nothing".to_owned());
    }
    for word in words {
        match (word, word.split_once('=')) {
            ("ALL", _) => export.all = true,
            ("NONE", _) => {}
            (_, Some((name, value))) if !name.is_empty() => {
                export.named.push((name.to_owned(), Some(value.to_owned())));
            }
            (_, None) if !word.is_empty() => export.named.push((word.to_owned(), None)),
            _ => {
                return Err(format!(
                    "{text:?} has a part without a name; write ALL, NONE, NAME or NAME=VALUE"
                ));
            }
        }
    }
    Ok(export)
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.contains(&name) || LEFT_OUT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl Export {
    /// The variables to send.
    pub(crate) fn variables(
        &self,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<BTreeMap<String, String>, UsageError> {
        let mut here = BTreeMap::new();
        for (name, value) in environment {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => drop(here.insert(name, value)),
                (Ok(name), Err(_)) if self.all && !is_left_out(&name) => {
                    note(&format!("--export leaves out {name}: its value is not valid UTF-8"));
                }
                _ => {}
            }
        }
        let mut sent = BTreeMap::new();
        for (name, value) in &self.named {
            let value = value.clone().or_else(|| here.get(name).cloned()).ok_or_else(|| {
                UsageError(format!("--export {name}: {name} is not set here; write {name}=VALUE"))
            })?;
            sent.insert(name.clone(), value);
        }
        if self.all {
            here.retain(|name, _| !is_left_out(name));
            here.extend(sent);
            sent = here;
        }
        check_size(&sent)?;
        Ok(sent)
    }
}

fn check_size(sent: &BTreeMap<String, String>) -> Result<(), UsageError> {
    let size = |(name, value): (&String, &String)| name.len() + value.len() + 2;
    let whole: usize = sent.iter().map(size).sum();
    if whole <= MOST_BYTES {
        return Ok(());
    }
    let mut largest: Vec<(usize, &str)> = sent.iter().map(|one| (size(one), one.0.as_str())).collect();
    largest.sort_unstable_by(|one, other| other.cmp(one));
    let largest: Vec<String> =
        largest.iter().take(3).map(|(bytes, name)| format!("{name} ({bytes} bytes)")).collect();
    Err(UsageError(format!(
        "--export: the environment has {whole} bytes, and {MOST_BYTES} may go with a job; the largest are {}; name \
         those that the job needs, as in --export PATH,VIRTUAL_ENV",
        largest.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [(&str, &str); 7] = [
        ("PATH", "/venv/bin:/bin"),
        ("VIRTUAL_ENV", "/venv"),
        ("SSH_AUTH_SOCK", "/tmp/agent"),
        ("MUSTER_TOKEN", "secret"),
        ("SLURM_JOB_ID", "7"),
        ("_", "/bin/env"),
        ("PWD", "/home/ann"),
    ];

    fn sent(text: &str) -> Result<Vec<String>, String> {
        let here = HERE.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let sent = parse(text)?.variables(here).map_err(|error| error.0)?;
        Ok(sent.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    #[test]
    fn all_leaves_out_what_belongs_to_this_session() {
        assert_eq!(sent("ALL").unwrap(), ["PATH=/venv/bin:/bin", "VIRTUAL_ENV=/venv"]);
        assert_eq!(sent("NONE").unwrap(), [""; 0]);
        assert_eq!(sent("ALL,PATH=/x,PWD").unwrap(), ["PATH=/x", "PWD=/home/ann", "VIRTUAL_ENV=/venv"]);
    }

    #[test]
    fn names_are_sent_with_their_value_or_refused() {
        assert_eq!(sent("VIRTUAL_ENV,A=1,B=").unwrap(), ["A=1", "B=", "VIRTUAL_ENV=/venv"]);
        assert!(sent("NO_SUCH").unwrap_err().contains("NO_SUCH=VALUE"));
        for wrong in ["", "A,,B", "=x", "NONE,A"] {
            assert!(sent(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn too_much_names_the_largest() {
        let large = [("BIG".into(), "x".repeat(MOST_BYTES).into())];
        let error = parse("ALL").unwrap().variables(large.into_iter()).unwrap_err().0;
        assert!(error.contains("BIG (262149 bytes)") && error.contains("--export PATH"), "{error}");
    }
}
