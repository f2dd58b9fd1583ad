//! Pipelines and arrays of a batch of submissions: new ones, repeated ones, and more steps for old ones.

use std::collections::{BTreeMap, HashSet};

use muster_domain::{JobSet, Rejection, SetId};

use crate::command::{SetPart, Submit};
use crate::engine::work::Work;
use crate::error::StoreError;
use crate::query::SetFilter;
use crate::tx::Tx;

/// The sets that a batch names or makes.
#[derive(Default)]
pub(super) struct Sets {
    /// Sets that existed before, locked; by id.
    known: BTreeMap<SetId, JobSet>,
    /// Sets that keys of this batch name, made before it or by it.
    by_key: BTreeMap<String, JobSet>,
    /// Every submission with a set, in order: the set as it will be.
    entered: Vec<JobSet>,
    new: HashSet<SetId>,
}

impl Sets {
    pub(super) async fn read<T: Tx>(
        work: &mut Work<'_, T>,
        submits: &[(usize, &Submit)],
    ) -> Result<Self, StoreError> {
        let mut sets = Self::default();
        let mut extended: Vec<SetId> = Vec::new();
        for part in submits.iter().filter_map(|(_, submit)| submit.set.as_ref()) {
            match part {
                SetPart::Extend { set, .. } => extended.push(*set),
                SetPart::New(JobSet { idempotency_key: Some(key), .. }) => {
                    let filter = SetFilter { idempotency_key: Some(key.clone()), ..SetFilter::default() };
                    let found = work.tx.sets(&filter).await?;
                    sets.by_key.extend(found.into_iter().map(|set| (key.clone(), set)));
                }
                SetPart::New(_) => {}
            }
        }
        if !extended.is_empty() {
            extended.sort_unstable();
            extended.dedup();
            let found = work.tx.lock_sets(&extended).await?;
            sets.known.extend(found.into_iter().map(|set| (set.id, set)));
        }
        Ok(sets)
    }

    /// The set that was made under the same key.
    pub(super) fn earlier(&self, part: &SetPart) -> Option<JobSet> {
        match part {
            SetPart::New(set) => self.by_key.get(set.idempotency_key.as_ref()?).cloned(),
            SetPart::Extend { .. } => None,
        }
    }

    /// Whether the set exists and its steps are new.
    pub(super) fn check(&self, part: &SetPart) -> Result<(), Rejection> {
        let SetPart::Extend { set, outline } = part else { return Ok(()) };
        let known = self.known.get(set).ok_or(Rejection::SetNotFound { id: *set })?;
        let twice = outline.iter().find(|step| known.outline.iter().any(|old| old.name == step.name));
        match twice {
            Some(step) => Err(Rejection::DuplicateStep { name: step.name.clone() }),
            None => Ok(()),
        }
    }

    /// Enters the set with so many more jobs and returns its place.
    pub(super) fn add(&mut self, part: &SetPart, jobs: u32) -> usize {
        match part {
            SetPart::New(set) => {
                let set = JobSet { size: jobs, ..set.clone() };
                if let Some(key) = &set.idempotency_key {
                    self.by_key.insert(key.clone(), set.clone());
                }
                self.new.insert(set.id);
                self.entered.push(set);
            }
            SetPart::Extend { set, outline } => {
                if let Some(known) = self.known.get_mut(set) {
                    known.size = known.size.saturating_add(jobs);
                    known.outline.extend(outline.iter().cloned());
                    self.entered.push(known.clone());
                }
            }
        }
        self.entered.len().saturating_sub(1)
    }

    /// Writes the sets and returns them in the order in which they were entered.
    pub(super) async fn write<T: Tx>(mut self, work: &mut Work<'_, T>) -> Result<Vec<JobSet>, StoreError> {
        let (mut made, mut grown): (Vec<JobSet>, Vec<JobSet>) = (Vec::new(), Vec::new());
        for set in &self.entered {
            if self.new.contains(&set.id) { made.push(set.clone()) } else { grown.push(set.clone()) }
        }
        if !made.is_empty() {
            work.tx.insert_sets(&mut made).await?;
        }
        if !grown.is_empty() {
            work.tx.update_sets(&grown).await?;
        }
        for set in &mut self.entered {
            if let Some(numbered) = made.iter().find(|made| made.id == set.id) {
                set.seq = numbered.seq;
            }
        }
        Ok(self.entered)
    }
}

/// A key may be used again for the same set, and for nothing else. More steps may have been added since.
pub(super) fn same(earlier: &JobSet, part: &SetPart, jobs: usize) -> Result<(), Rejection> {
    let SetPart::New(set) = part else { return Ok(()) };
    let fields = [
        ("kind", set.kind != earlier.kind),
        ("name", set.name != earlier.name),
        ("max_parallel", set.max_parallel != earlier.max_parallel),
        ("steps", !earlier.outline.starts_with(&set.outline)),
        (
            "size",
            jobs > earlier.size as usize || (set.outline == earlier.outline && jobs < earlier.size as usize),
        ),
    ];
    let fields: Vec<&'static str> =
        fields.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field).collect();
    match &set.idempotency_key {
        Some(key) if !fields.is_empty() => {
            Err(Rejection::KeyReused { key: key.clone(), first: earlier.id.to_string(), fields })
        }
        _ => Ok(()),
    }
}
