//! The lists of the screen, and which entry of each is selected.

use muster_protocol::{Job, JobSet};

use super::model::{Arrangement, Model};

/// One list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pane {
    Running,
    Waiting,
    Ended,
    Sets,
    Workers,
    Queues,
}

impl Pane {
    pub(crate) const ALL: [Self; 6] =
        [Self::Running, Self::Waiting, Self::Ended, Self::Sets, Self::Workers, Self::Queues];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Running => 0,
            Self::Waiting => 1,
            Self::Ended => 2,
            Self::Sets => 3,
            Self::Workers => 4,
            Self::Queues => 5,
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::Ended => "Ended",
            Self::Sets => "Pipelines and arrays",
            Self::Workers => "Workers",
            Self::Queues => "Queues",
        }
    }
}

/// The selected entry: the one with this key, wherever it moves, else the one at this place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    key: Option<String>,
    pub(crate) index: usize,
}

impl Cursor {
    /// Finds the entry again in a new list.
    pub(crate) fn settle(&mut self, keys: &[String]) {
        let found = self.key.as_ref().and_then(|key| keys.iter().position(|other| other == key));
        self.index = found.unwrap_or(self.index).min(keys.len().saturating_sub(1));
        self.key = keys.get(self.index).cloned();
    }

    fn select(&mut self, index: usize, keys: &[String]) {
        self.key = None;
        self.index = index;
        self.settle(keys);
    }
}

impl Model {
    /// The lists that this arrangement shows, in the order of the screen.
    pub(crate) fn panes(&self) -> &'static [Pane] {
        match self.arrangement {
            Arrangement::Watch => &Pane::ALL,
            Arrangement::Top => &[Pane::Workers, Pane::Running],
        }
    }

    /// The jobs of a list; none for those that hold something else.
    pub(crate) fn jobs(&self, pane: Pane) -> &[Job] {
        let Some(snapshot) = &self.snapshot else { return &[] };
        match pane {
            Pane::Running => &snapshot.running.jobs,
            Pane::Waiting => &snapshot.waiting.jobs,
            Pane::Ended => &snapshot.ended.jobs,
            Pane::Sets | Pane::Workers | Pane::Queues => &[],
        }
    }

    /// What tells the entries of a list apart.
    pub(crate) fn keys(&self, pane: Pane) -> Vec<String> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        match pane {
            Pane::Running | Pane::Waiting | Pane::Ended => {
                self.jobs(pane).iter().map(|job| job.id.clone()).collect()
            }
            Pane::Sets => snapshot.sets.iter().map(|set| set.id.clone()).collect(),
            Pane::Workers => snapshot.workers.iter().map(|worker| worker.id.clone()).collect(),
            Pane::Queues => snapshot.queues.iter().map(|queue| queue.name.clone()).collect(),
        }
    }

    /// How many entries a list has.
    pub(crate) fn len(&self, pane: Pane) -> usize {
        let Some(snapshot) = &self.snapshot else { return 0 };
        match pane {
            Pane::Running | Pane::Waiting | Pane::Ended => self.jobs(pane).len(),
            Pane::Sets => snapshot.sets.len(),
            Pane::Workers => snapshot.workers.len(),
            Pane::Queues => snapshot.queues.len(),
        }
    }

    pub(crate) fn selected_index(&self, pane: Pane) -> usize {
        self.cursors[pane.index()].index
    }

    /// The selected job of the focused list.
    pub(crate) fn selected_job(&self) -> Option<&Job> {
        self.jobs(self.focus).get(self.selected_index(self.focus))
    }

    /// The selected pipeline or array, if that list is focused.
    pub(crate) fn selected_set(&self) -> Option<&JobSet> {
        let sets = &self.snapshot.as_ref()?.sets;
        sets.get(self.selected_index(Pane::Sets)).filter(|_| self.focus == Pane::Sets)
    }

    /// The key of the selected entry of the focused list.
    pub(crate) fn selected_key(&self) -> Option<String> {
        self.keys(self.focus).into_iter().nth(self.selected_index(self.focus))
    }

    pub(super) fn select(&mut self, index: usize) {
        let keys = self.keys(self.focus);
        self.cursors[self.focus.index()].select(index, &keys);
    }

    pub(super) fn move_selection(&mut self, by: isize) {
        let index = self.selected_index(self.focus).saturating_add_signed(by);
        self.select(index);
    }

    /// The next list of the screen, or the one before.
    pub(super) fn step_focus(&mut self, forward: bool) {
        let panes = self.panes();
        let at = panes.iter().position(|pane| *pane == self.focus).unwrap_or(0);
        let next = if forward { at + 1 } else { at + panes.len() - 1 };
        self.focus = panes[next % panes.len()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_stays_with_its_entry() {
        let keys = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut cursor = Cursor::default();
        cursor.select(1, &keys("a b c"));
        cursor.settle(&keys("x y a b c"));
        assert_eq!(cursor.index, 3, "b has moved");
        cursor.settle(&keys("x y a"));
        assert_eq!((cursor.index, cursor.key.as_deref()), (2, Some("a")), "b has gone");
        cursor.settle(&[]);
        assert_eq!(cursor, Cursor { key: None, index: 0 });
    }
}
