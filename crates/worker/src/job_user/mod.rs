//! Whose user a job runs as, where that is not the worker's.
//!
//! Guarantees: a name becomes a user only by the user database of this machine; a job whose user cannot be had does not run;
//! what lies where that user can change it is touched with no more rights than the user has ([`acting_as`], ADR 47).

mod acting;
mod checkpoints;
mod choice;
mod handing;
mod lookup;
mod plain_file;
mod run_as;
mod ways;

pub(crate) use acting::acting_as;
pub(crate) use checkpoints::{prepare_checkpoints, release_checkpoints, sweep_checkpoints};
pub(crate) use choice::{JobUsers, NoUser};
pub(crate) use handing::hand_over;
pub(crate) use plain_file::{open_plain, open_target};
pub use run_as::RunAs;
pub(crate) use ways::{checkpoints_folder, make_room};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A user of this machine, as a process becomes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUser {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// All groups that the user is in, its own among them.
    pub groups: Vec<u32>,
    pub home: String,
    pub shell: String,
}

impl JobUser {
    /// Where its jobs run that name no directory: at home, or at the root where there is no home.
    pub(crate) fn directory(&self) -> PathBuf {
        let home = PathBuf::from(&self.home);
        let is_there = home.is_absolute()
            && acting_as(Some(self), || std::fs::metadata(home.join("."))).is_ok_and(|found| found.is_dir());
        if is_there { home } else { PathBuf::from("/") }
    }

    /// What programs expect to find about their user.
    pub(crate) fn variables(&self) -> [(&'static str, &str); 4] {
        [("HOME", &self.home), ("USER", &self.name), ("LOGNAME", &self.name), ("SHELL", &self.shell)]
    }
}
