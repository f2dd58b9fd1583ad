//! Which user of this machine is behind a connection, by name.
//!
//! Guarantee: a name comes from the kernel and the user database, never from the caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User, geteuid};

/// How long a name is remembered: users are seldom renamed, and the user database may be on another machine.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Names by number, and when they were looked up.
type Names = HashMap<u32, Remembered>;

static NAMES: Mutex<Option<Names>> = Mutex::new(None);

#[derive(Debug, Clone)]
struct Remembered {
    since: Instant,
    /// Absent where nobody has the number.
    name: Option<Arc<str>>,
}

/// The owner of a socket within this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalUser(pub(crate) u32);

impl LocalUser {
    /// Of callers in this process.
    pub(crate) fn of_process() -> Self {
        Self(geteuid().as_raw())
    }

    /// The user who started the scheduler, or root, who can do whatever it can.
    pub(crate) fn is_master(self) -> bool {
        self.0 == 0 || self == Self::of_process()
    }

    /// The name in the user database of this machine.
    pub(crate) async fn name(self) -> Option<Arc<str>> {
        if let Some(known) = self.remembered() {
            return known.name;
        }
        let found = tokio::task::spawn_blocking(move || User::from_uid(Uid::from_raw(self.0))).await;
        let name = found.ok().and_then(Result::ok).flatten().map(|user| Arc::from(user.name));
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names
            .get_or_insert_default()
            .insert(self.0, Remembered { since: Instant::now(), name: name.clone() });
        name
    }

    fn remembered(self) -> Option<Remembered> {
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.as_ref()?.get(&self.0)?;
        (known.since.elapsed() < REMEMBERED).then(|| known.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_comes_from_the_user_database() {
        assert_eq!(LocalUser(0).name().await.as_deref(), Some("root"));
        assert_eq!(LocalUser(0).remembered().unwrap().name.as_deref(), Some("root"));
        assert_eq!(LocalUser(4_000_000_000).name().await, None, "nobody has this number");
        assert!(LocalUser(0).is_master() && LocalUser::of_process().is_master());
        assert!(!LocalUser(4_000_000_000).is_master());
    }
}
