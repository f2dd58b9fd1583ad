//! Groups of states as conditions, word for word those of the partial indexes: an index is used where a query repeats
//! its condition.
//!
//! Each is a chain of comparisons. `IN` with three or more words would be a table that is built wherever the
//! condition is evaluated, at each row that is written too.

/// What holds room on a worker. The state that most of them have comes first.
pub(crate) const HELD: &str = "(status = 'running' OR status = 'reserved' OR status = 'preempting')";

/// What has not ended and can neither start nor runs.
pub(crate) const WAITING: &str = "(status = 'blocked' OR status = 'preempted' OR status = 'delayed' OR status = 'held' OR status = 'finished')";
