//! What others have measured, to compare our simulator with.

use muster_replay::PolicyName;
use muster_replay::figures::Figures;

use super::cases::Key;

/// Which figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Slowdown,
    Completion,
    Wait,
    LongestSlowdown,
}

impl Figure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Slowdown => "mean bounded slowdown",
            Self::Completion => "mean completion time, s",
            Self::Wait => "mean wait, s",
            Self::LongestSlowdown => "largest bounded slowdown",
        }
    }

    pub(super) fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::Slowdown => figures.total.bounded_slowdown.mean,
            Self::Completion => figures.total.jct_s.mean,
            Self::Wait => figures.total.wait_s.mean,
            Self::LongestSlowdown => figures.total.bounded_slowdown.max,
        }
    }
}

/// One value, as it was printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    pub(super) key: Key,
    pub(super) policy: PolicyName,
    pub(super) figure: Figure,
    pub(super) value: &'static str,
}

const fn known(key: Key, policy: PolicyName, figure: Figure, value: &'static str) -> Reference {
    Reference { key, policy, figure, value }
}

use Figure::{Completion, LongestSlowdown, Slowdown, Wait};
use Key::{Kth, KthOneByOne, KthTrue, KthTrueOneByOne, Philly, PhillyPooled};
use PolicyName::{Easy, EasySjbf, Fifo, Greedy, LargestGang, Sjf, SjfEasy};

/// KTH: the artifact of Gaussier, Glesser, Reis and Trystram (SC '15), FCFS and the batched values by an
/// independent program; Philly: by an independent program.
pub(super) const REFERENCES: [Reference; 40] = [
    known(KthOneByOne, Easy, Slowdown, "92.576540"),
    known(KthOneByOne, Easy, Completion, "15696.7982"),
    known(KthOneByOne, Easy, Wait, "6836.8721"),
    known(KthOneByOne, Easy, LongestSlowdown, "14805.2"),
    known(KthOneByOne, EasySjbf, Slowdown, "69.405401"),
    known(KthOneByOne, EasySjbf, Completion, "14764.0027"),
    known(KthOneByOne, EasySjbf, Wait, "5904.0766"),
    known(KthOneByOne, EasySjbf, LongestSlowdown, "14805.2"),
    known(KthTrueOneByOne, Easy, Slowdown, "71.722385"),
    known(KthTrueOneByOne, Easy, Completion, "15187.6077"),
    known(KthTrueOneByOne, Easy, Wait, "6327.6816"),
    known(KthTrueOneByOne, Easy, LongestSlowdown, "10017.2"),
    known(KthTrueOneByOne, EasySjbf, Slowdown, "49.847719"),
    known(KthTrueOneByOne, EasySjbf, Completion, "14295.9468"),
    known(KthTrueOneByOne, EasySjbf, Wait, "5436.0208"),
    known(KthTrueOneByOne, EasySjbf, LongestSlowdown, "9941.7"),
    known(KthOneByOne, Fifo, Slowdown, "6814.97331"),
    known(KthOneByOne, Fifo, Wait, "353776.4091"),
    known(Kth, Easy, Slowdown, "92.687654"),
    known(Kth, EasySjbf, Slowdown, "69.393636"),
    known(KthTrue, Easy, Slowdown, "71.722385"),
    known(KthTrue, EasySjbf, Slowdown, "49.847242"),
    known(Philly, Fifo, Completion, "123509.6"),
    known(Philly, Fifo, Slowdown, "586.77"),
    known(Philly, Greedy, Completion, "24853.1"),
    known(Philly, Greedy, Slowdown, "61.67"),
    known(Philly, LargestGang, Completion, "35716.7"),
    known(Philly, LargestGang, Slowdown, "175.95"),
    known(Philly, Easy, Completion, "31755.1"),
    known(Philly, Easy, Slowdown, "86.57"),
    known(Philly, Sjf, Completion, "16954.6"),
    known(Philly, Sjf, Slowdown, "2.288"),
    known(Philly, SjfEasy, Completion, "16082.8"),
    known(Philly, SjfEasy, Slowdown, "1.956"),
    known(PhillyPooled, Fifo, Completion, "46302.7"),
    known(PhillyPooled, Easy, Completion, "39368.5"),
    known(PhillyPooled, Easy, Slowdown, "90.75"),
    known(PhillyPooled, EasySjbf, Completion, "34964.1"),
    known(PhillyPooled, SjfEasy, Completion, "17395.2"),
    known(PhillyPooled, SjfEasy, Slowdown, "3.065"),
];

/// The same number of digits as the reference has.
pub(super) fn like(value: f64, reference: &str) -> String {
    let digits = reference.split_once('.').map_or(0, |(_, digits)| digits.len());
    format!("{value:.digits$}")
}
