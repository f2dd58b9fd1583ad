//! Who may see a job: one function, which every reader asks.
//!
//! Guarantee: what a private job is, and what a job is in a queue that names its viewers, its owner and those above the
//! lists know, and nobody else but the worker that holds it and the job itself.

use crate::access::{Principal, UserRole};
use crate::ids::{JobId, QueueName, WorkerId};
use crate::job::Job;
use crate::queue_access::QueueLists;

/// What decides who may see a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFacts<'a> {
    pub id: JobId,
    pub owner: Option<&'a str>,
    pub private: bool,
    pub queue: Option<&'a QueueName>,
    /// The worker that holds it.
    pub worker: Option<&'a WorkerId>,
}

impl<'a> JobFacts<'a> {
    pub fn of(job: &'a Job) -> Self {
        Self {
            id: job.id,
            owner: job.spec.user.as_deref(),
            private: job.spec.private,
            queue: job.spec.queue.as_ref(),
            worker: job.worker(),
        }
    }
}

/// Whether the caller sees every job, so that nobody need look.
pub const fn sees_all(principal: &Principal) -> bool {
    matches!(principal, Principal::Local | Principal::User { role: UserRole::Operator | UserRole::Admin, .. })
}

/// Whether the caller may see the job.
pub fn may_see(principal: &Principal, job: &JobFacts<'_>, lists: &QueueLists) -> bool {
    match principal {
        Principal::Local | Principal::User { role: UserRole::Operator | UserRole::Admin, .. } => true,
        Principal::User { name, role: UserRole::Viewer | UserRole::User, .. } => {
            let is_open = || !job.private && job.queue.is_none_or(|queue| lists.may_view(name, queue));
            job.owner == Some(name) || is_open()
        }
        Principal::Worker { id, .. } => job.worker == Some(id),
        Principal::Job(id) => job.id == *id,
        Principal::Stranger(_) | Principal::Joiner | Principal::Keyless(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Unproven;
    use crate::queue::Queue;
    use crate::queue_access::QueueAccess;

    const CALLERS: [&str; 11] = [
        "local",
        "stranger",
        "viewer",
        "viewer on the list",
        "other user",
        "owner",
        "admin of the queue",
        "operator",
        "worker that holds it",
        "other worker",
        "job itself",
    ];

    fn user(name: &str, role: UserRole) -> Principal {
        Principal::User { name: name.to_owned(), role, queues: None }
    }

    fn worker(name: &str) -> Principal {
        Principal::Worker { id: WorkerId::new(name), tags: None }
    }

    fn caller(name: &str, job: JobId) -> Principal {
        match name {
            "local" => Principal::Local,
            "stranger" => Principal::Stranger(Unproven::NoCredential),
            "viewer" => user("vera", UserRole::Viewer),
            "viewer on the list" => user("lisa", UserRole::Viewer),
            "other user" => user("bob", UserRole::User),
            "owner" => user("ann", UserRole::User),
            "admin of the queue" => user("carl", UserRole::User),
            "operator" => user("olga", UserRole::Operator),
            "worker that holds it" => worker("w1"),
            "other worker" => worker("w2"),
            _ => Principal::Job(job),
        }
    }

    #[test]
    fn every_cell() {
        let id = JobId::from_random([1; 16]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let access =
            QueueAccess { admins: names(&["carl"]), viewers: names(&["lisa"]), ..QueueAccess::default() };
        let lists = QueueLists::of(&[Queue { access, ..Queue::new(QueueName::new("q")) }]);
        let (listed, holder) = (QueueName::new("q"), WorkerId::new("w1"));
        // In the order of the callers.
        let cases = [
            (false, None, "+-+++++++-+"),
            (true, None, "+----+-++-+"),
            (false, Some(&listed), "+--+-++++-+"),
            (true, Some(&listed), "+----+-++-+"),
        ];
        for (private, queue, expected) in cases {
            let job = JobFacts { id, owner: Some("ann"), private, queue, worker: Some(&holder) };
            let sees = |name: &&str| may_see(&caller(name, id), &job, &lists);
            let seen: String = CALLERS.iter().map(|name| if sees(name) { '+' } else { '-' }).collect();
            assert_eq!(seen, expected, "private: {private}, queue: {queue:?}");
        }
    }

    #[test]
    fn a_private_job_without_an_owner_is_for_those_above_the_lists() {
        let job = JobFacts {
            id: JobId::from_random([1; 16]),
            owner: None,
            private: true,
            queue: None,
            worker: None,
        };
        let sees = |principal: &Principal| may_see(principal, &job, &QueueLists::default());
        assert!(sees(&Principal::Local) && sees(&user("olga", UserRole::Admin)));
        assert!(!sees(&user("ann", UserRole::User)) && !sees(&Principal::Job(JobId::from_random([2; 16]))));
    }

    #[test]
    fn who_sees_all_need_not_be_asked() {
        for name in CALLERS {
            let principal = caller(name, JobId::from_random([1; 16]));
            assert_eq!(sees_all(&principal), ["local", "operator"].contains(&name), "{name}");
        }
    }
}
