//! Finds the PostgreSQL programs and the user to run the server as (it refuses to run as root).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The account that owns a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The directory that holds `initdb` and `postgres`: the one on the PATH, else the newest version that
/// Debian's packages installed.
pub(crate) fn bin_dir() -> PathBuf {
    on_path().or_else(newest_package).unwrap_or_else(|| {
        panic!(
            "PostgreSQL is needed and was not found on the PATH or under /usr/lib/postgresql; \
             run scripts/install-test-deps, or: apt-get install postgresql"
        )
    })
}

fn on_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find(|dir| is_complete(dir))
}

fn newest_package() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, dir)| is_complete(dir))
        .collect();
    versions.sort();
    versions.pop().map(|(_, dir)| dir)
}

fn is_complete(dir: &Path) -> bool {
    ["initdb", "postgres", "psql"].iter().all(|program| dir.join(program).is_file())
}

/// `None` when this process may run the server itself; as root, the account to run it under.
pub(crate) fn account() -> Option<Account> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let found =
        ["postgres", "nobody"].iter().find_map(|name| nix::unistd::User::from_name(name).ok().flatten());
    let user = found.expect("running as root: an account `postgres` or `nobody` is needed to run the server");
    Some(Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() })
}
