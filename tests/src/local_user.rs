//! Users of this machine that a test makes and removes: real ones, with a home and a group beside their own.
//!
//! Guarantee: names are of one test process alone, and what a test that was killed has left is removed by the next.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Group, User};

/// What the names begin with; then come the number of the process and that of the user.
const PREFIX: &str = "mt";
/// Where homes are: others can get there.
const HOMES: &str = "/var/tmp";

/// A user that goes when the test ends.
#[derive(Debug)]
pub struct LocalUser {
    name: String,
    user: User,
    group: Group,
}

impl LocalUser {
    /// Makes a user who is also in a group of its own kind. The tests run as root.
    pub fn make() -> Self {
        static SWEPT: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let _lock = lock();
        SWEPT.call_once(remove_leftovers);
        let name = format!("{PREFIX}{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (group, home) = (format!("{name}g"), format!("{HOMES}/{name}"));
        run("groupadd", &[&group]);
        run("useradd", &["-U", "-m", "-d", &home, "-s", "/bin/bash", "-G", &group, &name]);
        let user = User::from_name(&name).expect("users can be read").expect("the user was made");
        let group = Group::from_name(&group).expect("groups can be read").expect("the group was made");
        Self { name, user, group }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn uid(&self) -> u32 {
        self.user.uid.as_raw()
    }

    pub fn gid(&self) -> u32 {
        self.user.gid.as_raw()
    }

    /// The group that is not its own.
    pub fn group(&self) -> u32 {
        self.group.gid.as_raw()
    }

    pub fn home(&self) -> PathBuf {
        self.user.dir.clone()
    }

    /// A program that runs as this user, with its groups.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        let (uid, gid) = (format!("--reuid={}", self.uid()), format!("--regid={}", self.gid()));
        command.args([uid.as_str(), gid.as_str(), "--init-groups", program]);
        command.current_dir(self.home());
        command
    }
}

impl Drop for LocalUser {
    fn drop(&mut self) {
        let _lock = lock();
        remove(&self.name);
    }
}

/// The programs below do not wait for each other.
fn lock() -> Flock<File> {
    let path = format!("{HOMES}/muster-test-users.lock");
    let file = File::options().create(true).append(true).open(path).expect("the lock can be made");
    Flock::lock(file, FlockArg::LockExclusive).expect("the lock can be had")
}

fn run(program: &str, arguments: &[&str]) {
    let Output { status, stderr, .. } =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{program} {arguments:?}, which needs root: {said}");
}

fn remove(name: &str) {
    // What is not there need not be removed.
    let _ = Command::new("userdel").args(["-f", name]).output();
    let _ = Command::new("groupdel").arg(name).output();
    let _ = Command::new("groupdel").arg(format!("{name}g")).output();
    let _ = fs::remove_dir_all(format!("{HOMES}/{name}"));
}

/// Users of test processes that are gone.
fn remove_leftovers() {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let names = passwd.lines().chain(groups.lines()).filter_map(|line| line.split(':').next());
    let mut gone: Vec<&str> =
        names.map(|name| name.trim_end_matches('g')).filter(|name| is_gone(name)).collect();
    gone.sort_unstable();
    gone.dedup();
    gone.into_iter().for_each(remove);
}

fn is_gone(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('x'));
    let Some((Ok(process), Ok(_))) = numbers.map(|(one, two)| (one.parse::<u32>(), two.parse::<u32>()))
    else {
        return false;
    };
    !PathBuf::from(format!("/proc/{process}")).exists()
}
