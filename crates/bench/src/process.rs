//! Child processes that end with the value that holds them, and what the kernel says about them.

use std::collections::HashMap;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const POLITE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
/// What the kernel counts processor time in, for programs (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// The path of one of our programs: beside the running one, where cargo puts both.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("finding the path of this program")?;
    let path = own.with_file_name(name);
    ensure!(path.is_file(), "{} is missing; `make bench` builds it", path.display());
    Ok(path)
}

/// The path of a program on the PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let directories = env::var_os("PATH")?;
    env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// A running child whose output goes to a file.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the command. Settings of the surrounding environment that would change what our programs do are
    /// taken away.
    pub(crate) fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        for (variable, _) in env::vars_os() {
            if variable.to_str().is_some_and(|text| text.starts_with("MUSTER_")) {
                command.env_remove(variable);
            }
        }
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails with the last lines of its output when the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let output = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = output.lines().collect();
        let tail = lines[lines.len().saturating_sub(10)..].join("\n");
        bail!("{} ended with {status}:\n{tail}", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let deadline = Instant::now() + POLITE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `/proc/PID/stat` says: the parent, and processor time in seconds.
#[derive(Debug, Clone, Copy)]
struct Usage {
    parent: u32,
    own: f64,
    /// Of children that have ended and were waited for.
    children: f64,
}

impl Usage {
    fn seconds(&self) -> f64 {
        self.own + self.children
    }
}

fn usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may hold blanks: count from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let seconds = |index: usize| fields.get(index)?.parse().ok().map(|ticks: f64| ticks / TICKS_PER_SECOND);
    let [user, system, children_user, children_system] = [11, 12, 13, 14].map(seconds);
    Some(Usage { parent, own: user? + system?, children: children_user? + children_system? })
}

/// The processor time in seconds that processes have used so far, without that of their children.
pub(crate) fn processor_seconds(pids: &[u32]) -> f64 {
    pids.iter().filter_map(|pid| usage(*pid)).map(|usage| usage.own).sum()
}

/// The processor time in seconds of a process and everything that descends from it, ended or not.
pub(crate) fn tree_seconds(ancestor: u32) -> f64 {
    let all = all();
    let tree = all.iter().filter(|(pid, _)| descends(&all, **pid, ancestor));
    tree.map(|(_, usage)| usage.seconds()).sum()
}

/// The resident memory of a process in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    memory_bytes(pid, "VmRSS:")
}

/// The most that it ever was.
pub(crate) fn peak_bytes(pid: u32) -> Option<u64> {
    memory_bytes(pid, "VmHWM:")
}

fn memory_bytes(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// This process, its descendants, and every process whose command line mentions `marker` (a child that has
/// detached itself), with the processor time each has used.
pub(crate) fn family(marker: Option<&Path>) -> HashMap<u32, f64> {
    let all = all();
    let own = std::process::id();
    let belongs = |pid: u32| descends(&all, pid, own) || marker.is_some_and(|marker| mentions(pid, marker));
    all.iter().filter(|(pid, _)| belongs(**pid)).map(|(pid, usage)| (*pid, usage.seconds())).collect()
}

fn all() -> HashMap<u32, Usage> {
    pids().filter_map(|pid| Some((pid, usage(pid)?))).collect()
}

/// The processes other than this one whose command line mentions `marker`.
pub(crate) fn marked(marker: &Path) -> Vec<u32> {
    pids().filter(|pid| *pid != std::process::id() && mentions(*pid, marker)).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn descends(all: &HashMap<u32, Usage>, pid: u32, ancestor: u32) -> bool {
    let mut current = pid;
    // Parents are read one after another while processes come and go: never follow a circle.
    for _ in 0..64 {
        if current == ancestor {
            return true;
        }
        match all.get(&current) {
            Some(usage) if usage.parent != 0 => current = usage.parent,
            _ => return false,
        }
    }
    false
}

fn mentions(pid: u32, marker: &Path) -> bool {
    let marker = marker.as_os_str().as_encoded_bytes();
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.windows(marker.len()).any(|window| window == marker)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    #[test]
    fn a_child_belongs_to_the_family_and_is_found_by_its_command_line() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo up; read -r line", "sh"]).arg(directory.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The parent goes on a moment before the command line of the child is there.
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert!(family(None).contains_key(&child.id()));
        assert_eq!(marked(directory.path()), vec![child.id()]);
        assert!(resident_bytes(child.id()).unwrap() > 0);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!family(None).contains_key(&child.id()));
    }
}
