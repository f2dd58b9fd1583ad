//! Who may use a queue: the users that it names, or those that a queue above it names.
//!
//! Guarantee: a queue below another one cannot open what that one keeps closed by saying nothing; a list that names
//! nobody is no list.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::QueueName;
use crate::limits::MAX_QUEUE_DEPTH;
use crate::queue::Queue;

/// The users that a queue names. Without a list here and above, everyone submits and sees, and nobody administrates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueAccess {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub submitters: Vec<String>,
    /// Change the jobs of others in it, and how its users share it. They submit and see as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub admins: Vec<String>,
    /// See the jobs of others in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub viewers: Vec<String>,
}

impl QueueAccess {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The lists of all queues, and which queue is below which.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueLists {
    queues: BTreeMap<QueueName, (Option<QueueName>, QueueAccess)>,
}

impl QueueLists {
    pub fn of(queues: &[Queue]) -> Self {
        let entry = |queue: &Queue| (queue.name.clone(), (queue.terms.parent.clone(), queue.access.clone()));
        Self { queues: queues.iter().map(entry).collect() }
    }

    /// The list of the queue, or of the nearest one above it that has one.
    fn nearest(&self, queue: &QueueName, list: impl Fn(&QueueAccess) -> &Vec<String>) -> Option<&[String]> {
        let mut at = Some(queue);
        for _ in 0..=MAX_QUEUE_DEPTH {
            let (parent, access) = self.queues.get(at?)?;
            let names = list(access);
            if !names.is_empty() {
                return Some(names);
            }
            at = parent.as_ref();
        }
        None
    }

    /// The users who administrate the queue.
    pub fn admins(&self, queue: &QueueName) -> &[String] {
        self.nearest(queue, |access| &access.admins).unwrap_or_default()
    }

    /// The users who may submit, where they are named.
    pub fn submitters(&self, queue: &QueueName) -> Option<&[String]> {
        self.nearest(queue, |access| &access.submitters)
    }

    pub fn may_submit(&self, user: &str, queue: &QueueName) -> bool {
        self.submitters(queue).is_none_or(|names| has(names, user)) || has(self.admins(queue), user)
    }

    /// Whether the user may see what others have in the queue.
    pub fn may_view(&self, user: &str, queue: &QueueName) -> bool {
        let viewers = self.nearest(queue, |access| &access.viewers);
        viewers.is_none_or(|names| has(names, user)) || has(self.admins(queue), user)
    }
}

fn has(names: &[String], user: &str) -> bool {
    names.iter().any(|name| name == user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_tree::Terms;

    fn queue(name: &str, parent: Option<&str>, lists: [&[&str]; 3]) -> Queue {
        let [submitters, admins, viewers] =
            lists.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Queue {
            terms: Terms { parent: parent.map(QueueName::new), ..Terms::default() },
            access: QueueAccess { submitters, admins, viewers },
            ..Queue::new(QueueName::new(name))
        }
    }

    fn lists() -> QueueLists {
        QueueLists::of(&[
            queue("lab", None, [&["ann", "bob"], &["carl"], &["ann", "vera"]]),
            queue("vision", Some("lab"), [&["bob"], &[], &[]]),
            queue("open", None, [&[], &[], &[]]),
        ])
    }

    #[test]
    fn the_nearest_queue_that_has_a_list_decides() {
        let lists = lists();
        let may_submit = |user: &str, queue: &str| lists.may_submit(user, &QueueName::new(queue));
        assert!(may_submit("ann", "lab") && may_submit("bob", "lab") && !may_submit("vera", "lab"));
        assert!(!may_submit("ann", "vision") && may_submit("bob", "vision"));
        assert!(may_submit("carl", "lab") && may_submit("carl", "vision"), "admins may");
        let may_view = |user: &str, queue: &str| lists.may_view(user, &QueueName::new(queue));
        assert!(may_view("vera", "vision") && may_view("carl", "vision"));
        assert!(!may_view("bob", "vision") && !may_view("bob", "lab"));
    }

    #[test]
    fn without_a_list_everyone_submits_and_sees_and_nobody_administrates() {
        let lists = lists();
        for queue in ["open", "never set"].map(QueueName::new) {
            assert!(lists.may_submit("x", &queue) && lists.may_view("x", &queue));
            assert!(lists.admins(&queue).is_empty() && lists.submitters(&queue).is_none());
        }
    }

    #[test]
    fn a_circle_of_queues_has_no_lists() {
        let lists =
            QueueLists::of(&[queue("a", Some("b"), [&[], &[], &[]]), queue("b", Some("a"), [&[], &[], &[]])]);
        assert!(lists.may_view("x", &QueueName::new("a")));
    }
}
