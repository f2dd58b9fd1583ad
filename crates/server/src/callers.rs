//! Who is behind a connection, decided once for each.
//!
//! Guarantees: a scheduler on loopback serves the user who started it and root, unless the operator said otherwise; where
//! the owner of a connection cannot be known, nobody is served. Callers in the process have no connection and are local. Where everyone of this machine is served, whose
//! connection it is is known all the same.

use std::io;
use std::net::SocketAddr;

use muster_domain::access::{Principal, Unproven};

use crate::config::{Access, LoopbackUsers};
use crate::local_user::LocalUser;
use crate::socket_owner;

/// Whom a scheduler trusts by their connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    Everyone {
        /// Connections are within this machine: whose they are is looked up all the same, for what they submit.
        are_local: bool,
        unmapped: Option<u32>,
    },
    /// Nobody: callers show who they are.
    Nobody,
    SameUser {
        uid: u32,
        /// The number that the kernel shows for users without a number in this user namespace.
        unmapped: Option<u32>,
    },
}

/// Who is at the other end of a connection, as far as the connection tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) principal: Principal,
    /// The user of this machine whose socket it is.
    pub(crate) user: Option<LocalUser>,
}

impl Callers {
    /// Those of a scheduler that listens on `listening`. Beyond loopback the operator says whether all are trusted; if not,
    /// a connection proves nothing, not even one of this machine: it may be a proxy's.
    pub(crate) fn new(access: &Access, listening: Option<SocketAddr>) -> Self {
        let on_loopback = listening.is_some_and(|address| address.ip().to_canonical().is_loopback());
        if access.loopback == LoopbackUsers::Any || (access.insecure && !on_loopback) {
            return Self::Everyone { are_local: on_loopback, unmapped: unmapped() };
        }
        if access.loopback == LoopbackUsers::None || (listening.is_some() && !on_loopback) {
            return Self::Nobody;
        }
        Self::SameUser { uid: nix::unistd::geteuid().as_raw(), unmapped: unmapped() }
    }

    /// Who is at the other end of a connection. The address of the peer does not matter: a process of this machine can
    /// connect to loopback from any address of it.
    pub(crate) fn behind(self, peer: SocketAddr, local: io::Result<SocketAddr>) -> Behind {
        let asks = match self {
            Self::Everyone { are_local, .. } => are_local,
            Self::Nobody => false,
            Self::SameUser { .. } => true,
        };
        if !asks {
            return self.judge(None);
        }
        let owner = local.and_then(|local| socket_owner::owner(peer, local));
        let owner = owner.unwrap_or_else(|error| {
            tracing::debug!(%error, %peer, "the owner of a connection could not be looked up");
            None
        });
        let behind = self.judge(owner);
        if let Principal::Stranger(unproven) = &behind.principal {
            tracing::debug!(%peer, ?unproven, "a connection of somebody else");
        }
        behind
    }

    fn judge(self, owner: Option<u32>) -> Behind {
        let stranger = |unproven| Behind { principal: Principal::Stranger(unproven), user: None };
        let (uid, unmapped) = match self {
            Self::Everyone { unmapped, .. } => {
                let user = owner.filter(|owner| Some(*owner) != unmapped).map(LocalUser);
                return Behind { principal: Principal::Local, user };
            }
            Self::Nobody => return stranger(Unproven::NoCredential),
            Self::SameUser { uid, unmapped } => (uid, unmapped),
        };
        match owner {
            Some(owner) if Some(owner) == unmapped => stranger(Unproven::OwnerUnknown { scheduler: uid }),
            Some(owner) if owner == uid || owner == 0 => {
                Behind { principal: Principal::Local, user: Some(LocalUser(owner)) }
            }
            Some(owner) => stranger(Unproven::OtherUser { caller: owner, scheduler: uid }),
            None => stranger(Unproven::OwnerUnknown { scheduler: uid }),
        }
    }
}

/// In a user namespace that does not have all users, the kernel names one user for all the others. That it is our own, too,
/// would prove nothing.
fn unmapped() -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if has_all_users(&map) {
        return None;
    }
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    Some(overflow.trim().parse().unwrap_or(65534))
}

fn has_all_users(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(loopback: LoopbackUsers, insecure: bool, listening: &str) -> Callers {
        let access = Access { loopback, insecure, ..Access::default() };
        Callers::new(&access, Some(listening.parse().unwrap()))
    }

    #[test]
    fn only_the_operator_opens_a_scheduler_to_everyone() {
        use LoopbackUsers::{Any, Same};
        let everyone = |loopback, insecure, listening: &str| {
            matches!(callers(loopback, insecure, listening), Callers::Everyone { .. })
        };
        assert!(!everyone(Same, false, "127.0.0.1:1"));
        assert!(!everyone(Same, true, "127.0.0.1:1"));
        assert!(!everyone(Same, true, "[::1]:1"));
        assert!(!everyone(Same, true, "[::ffff:127.0.0.1]:1"));
        assert!(!everyone(Same, false, "0.0.0.0:1"));
        assert_eq!(callers(Same, false, "0.0.0.0:1"), Callers::Nobody);
        assert!(everyone(Any, false, "127.0.0.1:1"));
        assert_eq!(callers(LoopbackUsers::None, false, "127.0.0.1:1"), Callers::Nobody);
        assert!(everyone(Same, true, "0.0.0.0:1"));
        assert!(!matches!(Callers::new(&Access::default(), None), Callers::Everyone { .. }));
    }

    #[test]
    fn the_same_user_and_root_are_local_and_nobody_else() {
        let callers = Callers::SameUser { uid: 1000, unmapped: None };
        assert_eq!(callers.judge(Some(1000)).principal, Principal::Local);
        assert_eq!(callers.judge(Some(0)).principal, Principal::Local);
        let other = Unproven::OtherUser { caller: 1001, scheduler: 1000 };
        assert_eq!(callers.judge(Some(1001)).principal, Principal::Stranger(other));
        let unknown = Principal::Stranger(Unproven::OwnerUnknown { scheduler: 1000 });
        assert_eq!(callers.judge(None).principal, unknown);
        assert_eq!(callers.judge(Some(0)).user, Some(LocalUser(0)));
        let everyone = Callers::Everyone { are_local: true, unmapped: Some(65534) };
        assert_eq!(everyone.judge(Some(65534)).user, None, "it stands for many");
        assert_eq!(everyone.judge(None), Behind { principal: Principal::Local, user: None });
        assert_eq!(everyone.judge(Some(4321)).user, Some(LocalUser(4321)));
    }

    #[test]
    fn a_user_that_stands_for_many_proves_nothing() {
        let callers = Callers::SameUser { uid: 65534, unmapped: Some(65534) };
        let unknown = Principal::Stranger(Unproven::OwnerUnknown { scheduler: 65534 });
        assert_eq!(callers.judge(Some(65534)).principal, unknown);
        assert!(has_all_users("         0          0 4294967295\n"));
        assert!(!has_all_users("         0       1000          1\n"));
        assert!(!has_all_users(""));
    }

    #[test]
    fn a_connection_that_the_kernel_does_not_know_is_a_strangers() {
        let callers = Callers::SameUser { uid: 1000, unmapped: None };
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let unknown = Principal::Stranger(Unproven::OwnerUnknown { scheduler: 1000 });
        assert_eq!(callers.behind(nowhere, Ok(nowhere)).principal, unknown);
        assert_eq!(callers.behind(nowhere, Err(io::ErrorKind::Other.into())).principal, unknown);
    }
}
