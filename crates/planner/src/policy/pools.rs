//! Pools of workers that each have a policy of their own.
//!
//! A pool is named by tags. A job belongs to the first pool all of whose tags it requires, so that it can run on
//! the workers of that pool only; what belongs to none is in the usual pool, which has no tags and is the last.
//!
//! Guarantees: every job belongs to one pool, by its tags alone; units of different pools have one order, by the
//! order of their pools, whatever their policies; nobody is stopped for a unit that goes behind it, but for quota.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_domain::{Job, PoolAt};
use thiserror::Error;

use super::settings::Policy;
use super::victims::Cause;
use crate::score::Scoring;

/// More are surely a mistake.
const MOST: usize = 100;

/// Workers with certain tags, and the policy for jobs that require them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    pub tags: BTreeSet<String>,
    pub policy: Policy,
}

/// The policy of every pool. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    usual: Policy,
    pools: Arc<[Pool]>,
}

/// Pools that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WrongPools {
    #[error("a pool needs a name")]
    NoName,
    #[error("there are two pools {0:?}")]
    Twice(String),
    #[error("pool {0:?} has no tags: jobs without tags follow [policy]")]
    NoTags(String),
    #[error(
        "pool {pool:?} would never get a job: those with its tags belong to pool {before:?}, which stands before it"
    )]
    Hidden { pool: String, before: String },
    #[error("there are {0} pools; {MOST} is the most")]
    TooMany(usize),
}

impl Policies {
    /// `pools` in the order in which they are asked whether a job is theirs; `usual` for all others.
    pub fn new(usual: Policy, pools: Vec<Pool>) -> Result<Self, WrongPools> {
        if pools.len() > MOST {
            return Err(WrongPools::TooMany(pools.len()));
        }
        for (at, pool) in pools.iter().enumerate() {
            if pool.name.trim().is_empty() {
                return Err(WrongPools::NoName);
            }
            if pool.tags.is_empty() {
                return Err(WrongPools::NoTags(pool.name.clone()));
            }
            let earlier = &pools[..at];
            if earlier.iter().any(|other| other.name == pool.name) {
                return Err(WrongPools::Twice(pool.name.clone()));
            }
            if let Some(before) = earlier.iter().find(|other| other.tags.is_subset(&pool.tags)) {
                return Err(WrongPools::Hidden { pool: pool.name.clone(), before: before.name.clone() });
            }
        }
        Ok(Self { usual, pools: pools.into() })
    }

    /// The same pools with other policies; `of` says which.
    #[must_use]
    pub fn with_policies(&self, usual: Policy, of: impl Fn(PoolAt) -> Policy) -> Self {
        let pool = |(pool, at): (&Pool, PoolAt)| Pool { policy: of(at), ..pool.clone() };
        Self { usual, pools: self.pools.iter().zip(self.all()).map(pool).collect() }
    }

    /// The pool of jobs that require these tags.
    pub fn pool_of(&self, required: &BTreeSet<String>) -> PoolAt {
        let found = self.pools.iter().position(|pool| pool.tags.is_subset(required));
        PoolAt(found.unwrap_or(self.pools.len()) as u16)
    }

    /// The policy of a pool. One that is no longer there has the usual one.
    pub fn at(&self, pool: PoolAt) -> &Policy {
        self.named(pool).map_or(&self.usual, |pool| &pool.policy)
    }

    /// The policy of a job.
    pub fn of(&self, job: &Job) -> &Policy {
        self.at(self.pool_of(&job.spec.tags))
    }

    /// How the best of several fitting workers is chosen: alike in all pools, since a worker may be of several.
    pub fn scoring(&self) -> Scoring {
        self.usual.scoring
    }

    /// The pool, unless it is the usual one.
    pub fn named(&self, pool: PoolAt) -> Option<&Pool> {
        self.pools.get(usize::from(pool.0))
    }

    /// All pools, those that go first first.
    pub fn all(&self) -> impl Iterator<Item = PoolAt> + use<> {
        (0..=self.pools.len() as u16).map(PoolAt)
    }

    /// Whether a worker with these tags may get jobs of a pool.
    pub fn has(&self, pool: PoolAt, tags: &BTreeSet<String>) -> bool {
        self.named(pool).is_none_or(|pool| pool.tags.is_subset(tags))
    }

    /// The place of a job in the line of its pool: smaller goes first, then who came first.
    pub fn rank_of(&self, job: &Job) -> i64 {
        self.of(job).rank_of(job)
    }

    /// What ranks depend on besides jobs, in words: where two of them differ, ranks have to be written anew.
    pub fn ranks_by(&self) -> String {
        let pools = self.pools.iter().map(|pool| format!("; {:?} {}", pool.tags, pool.policy.ranks_by()));
        std::iter::once(self.usual.ranks_by()).chain(pools).collect()
    }

    /// Whether one that runs in the pool `runs` may be stopped for one of the pool `comes`, for this cause. Levels
    /// are those of one policy. Priority counts only as far as the order does: who would be stopped for one that
    /// goes behind it would take the room back.
    pub fn may_stop(&self, comes: PoolAt, runs: PoolAt, cause: Cause) -> bool {
        let crosses = match cause {
            Cause::Quota => true,
            Cause::Priority => comes < runs,
            Cause::Level => false,
        };
        self.at(comes).preempts() && self.at(runs).preempts() && (comes == runs || crosses)
    }
}

impl From<Policy> for Policies {
    fn from(usual: Policy) -> Self {
        Self { usual, pools: Arc::new([]) }
    }
}

impl Default for Policies {
    fn default() -> Self {
        Policy::default().into()
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::Span;
    use proptest::prelude::*;

    use super::*;
    use crate::policy::PolicyName;

    fn tags(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn pool(name: &str, names: &[&str], policy: PolicyName) -> Pool {
        Pool { name: name.to_owned(), tags: tags(names), policy: Policy::named(policy) }
    }

    fn two() -> Policies {
        let pools = vec![pool("x", &["a", "b"], PolicyName::Fifo), pool("y", &["a"], PolicyName::Muster)];
        Policies::new(Policy::default(), pools).unwrap()
    }

    #[test]
    fn a_job_belongs_to_the_first_pool_all_of_whose_tags_it_requires() {
        let pools = two();
        let of = |names: &[&str]| pools.pool_of(&tags(names)).0;
        assert_eq!([of(&["a", "b", "c"]), of(&["a", "c"]), of(&["b"]), of(&[])], [0, 1, 2, 2]);
        assert_eq!(pools.at(PoolAt(0)).name, PolicyName::Fifo);
        assert_eq!(pools.at(PoolAt(9)), &Policy::default(), "a pool that is gone");
        assert!(pools.has(PoolAt(1), &tags(&["a"])) && !pools.has(PoolAt(0), &tags(&["a"])));
        assert!(pools.has(PoolAt(2), &tags(&[])));
    }

    #[test]
    fn pools_that_cannot_be_meant_are_refused() {
        let easy = |name: &str, tags: &[&str]| pool(name, tags, PolicyName::Easy);
        let wrong = |pools: Vec<Pool>| Policies::new(Policy::default(), pools).unwrap_err().to_string();
        assert!(wrong(vec![easy(" ", &["a"])]).contains("name"));
        assert!(wrong(vec![easy("x", &[])]).contains("\"x\" has no tags"));
        assert!(wrong(vec![easy("x", &["a"]), easy("x", &["b"])]).contains("two pools \"x\""));
        let hidden = wrong(vec![easy("x", &["a"]), easy("y", &["a", "b"])]);
        assert!(hidden.contains("\"y\" would never") && hidden.contains("\"x\""), "{hidden}");
        let many = (0..=MOST).map(|n| easy(&n.to_string(), &[&n.to_string()])).collect();
        assert!(wrong(many).contains("101"));
    }

    #[test]
    fn ranks_are_written_anew_when_pools_change_what_they_depend_on() {
        let words = |pools: Vec<Pool>| Policies::new(Policy::default(), pools).unwrap().ranks_by();
        assert_eq!(words(Vec::new()), Policy::default().ranks_by(), "as before there were pools");
        let one = words(vec![pool("x", &["a"], PolicyName::Fifo)]);
        assert_eq!(one, words(vec![pool("z", &["a"], PolicyName::Easy)]), "both rank by age");
        let mut slow = pool("x", &["a"], PolicyName::Muster);
        slow.policy.first_service = Span::from_secs(1);
        let others = [
            words(Vec::new()),
            words(vec![pool("x", &["b"], PolicyName::Fifo)]),
            words(vec![pool("x", &["a", "b"], PolicyName::Fifo)]),
            words(vec![pool("x", &["a"], PolicyName::Sjf)]),
            words(vec![pool("x", &["a"], PolicyName::Muster)]),
            words(vec![slow]),
            words(vec![pool("x", &["a"], PolicyName::Fifo), pool("y", &["b"], PolicyName::Fifo)]),
            words(vec![pool("y", &["b"], PolicyName::Fifo), pool("x", &["a"], PolicyName::Fifo)]),
        ];
        let different: BTreeSet<&String> = others.iter().chain([&one]).collect();
        assert_eq!(different.len(), others.len() + 1);
    }

    fn any_pools() -> impl Strategy<Value = Policies> {
        let policy = prop::sample::select(PolicyName::ALL.to_vec());
        let tags = prop::collection::btree_set("[abc]", 1..3);
        prop::collection::vec((tags, policy), 0..4).prop_filter_map("refused", |pools| {
            let pools = pools.into_iter().enumerate();
            let named = pools.map(|(at, (tags, policy))| Pool {
                name: at.to_string(),
                tags,
                policy: Policy::named(policy),
            });
            Policies::new(Policy::default(), named.collect()).ok()
        })
    }

    proptest! {
        /// The workers that a job may run on are workers of its pool; every pool has jobs.
        #[test]
        fn jobs_run_in_their_own_pool(pools in any_pools(), job in prop::collection::btree_set("[abcd]", 0..4),
                                      more in prop::collection::btree_set("[abcd]", 0..4)) {
            let worker: BTreeSet<String> = job.union(&more).cloned().collect();
            prop_assert!(pools.has(pools.pool_of(&job), &worker));
            for at in pools.all() {
                let own = pools.named(at).map(|pool| pool.tags.clone()).unwrap_or_default();
                prop_assert_eq!(pools.pool_of(&own), at);
            }
        }

        /// Of two pools at most one may stop the other's work for its priority, and none for its level.
        #[test]
        fn stops_between_pools_never_go_round(pools in any_pools(), a in 0_u16..5, b in 0_u16..5) {
            let (a, b) = (PoolAt(a), PoolAt(b));
            if a != b {
                prop_assert!(!pools.may_stop(a, b, Cause::Level));
                prop_assert!(!(pools.may_stop(a, b, Cause::Priority) && pools.may_stop(b, a, Cause::Priority)));
            }
            let both = pools.at(a).preempts() && pools.at(b).preempts();
            prop_assert_eq!(pools.may_stop(a, b, Cause::Quota), both);
        }
    }
}
