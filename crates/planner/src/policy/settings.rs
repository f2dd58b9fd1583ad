//! A policy with its knobs. The defaults are what `muster` runs with when nobody says otherwise: in the scheduler, the
//! simulator and the report alike.

use muster_domain::Span;
use serde::{Deserialize, Serialize};

use super::backfill::Passing;
use super::name::PolicyName;
use crate::score::Scoring;

const HOUR: u32 = 3600;

/// A policy and its knobs, most of which only [`PolicyName::Muster`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub name: PolicyName,
    /// Work that has held one GPU (or one core, when it needs no GPU) for longer than this has had its first
    /// service, and gives way to work that has not.
    pub first_service: Span,
    /// The same, for the second level.
    pub second_service: Span,
    /// Work that has waited longer than this, and longer than it has run, is pinned.
    pub pin_after: Span,
    /// The part of the pool that pinned work may hold, in thousandths.
    pub pinned_per_mille: u32,
    /// How long others may pass a unit that waits where no end times are known, at the least: what runs and the size of the
    /// unit make it longer. Then room is kept for it.
    pub pass_for: Span,
    /// What runs is not stopped for reasons of level or quota before it has run for this long.
    pub least_run: Span,
    /// What a stop costs besides the work since the last checkpoint: the time to start again.
    pub restart: Span,
    /// Whether work that has had more service is stopped for work of equal priority that has had less.
    pub preempt_by_level: bool,
    /// The part of the pool's time that stops for reasons of level or quota may waste, in thousandths.
    pub waste_per_mille: u32,
    /// How the best of several fitting workers is chosen.
    pub scoring: Scoring,
    /// Whether anything is stopped for the sake of another at all.
    pub preempt: bool,
    /// How long a job outside gangs waits before room is kept for it; most need none.
    pub patience: Span,
}

impl Policy {
    pub fn named(name: PolicyName) -> Self {
        Self { name, ..Self::default() }
    }

    /// What happens behind a unit that does not fit.
    pub fn passing(&self) -> Passing {
        Passing::of(self.name)
    }

    /// Whether anything may be stopped for another: only `muster` knows who may stop whom.
    pub fn preempts(&self) -> bool {
        self.preempt && self.is_fair()
    }

    /// Whether queues take turns by their shares, and priorities and service count. The policies to compare
    /// with have one line for all; what quotas forbid is forbidden with them too.
    pub fn is_fair(&self) -> bool {
        self.name == PolicyName::Muster
    }

    /// What ranks depend on besides jobs, in words: where two of them differ, ranks have to be written anew.
    pub fn ranks_by(&self) -> String {
        match self.name {
            PolicyName::Muster => {
                let (first, second) = (self.first_service.as_micros(), self.second_service.as_micros());
                format!("{} {first} {second}", self.name)
            }
            PolicyName::Fifo | PolicyName::Greedy | PolicyName::Easy | PolicyName::EasySjbf => {
                "age".to_owned()
            }
            PolicyName::Sjf | PolicyName::SjfEasy => "length".to_owned(),
            PolicyName::LargestGang => "size".to_owned(),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            name: PolicyName::default(),
            first_service: Span::from_secs(4 * HOUR),
            second_service: Span::from_secs(40 * HOUR),
            pin_after: Span::from_secs(24 * HOUR),
            pinned_per_mille: 100,
            pass_for: Span::from_secs(600),
            least_run: Span::from_secs(60),
            restart: Span::from_secs(60),
            preempt_by_level: false,
            waste_per_mille: 40,
            scoring: Scoring::default(),
            preempt: true,
            patience: Span::from_secs(30),
        }
    }
}
