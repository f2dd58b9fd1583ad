//! Dependency rules: when a job may run, given how those it waits for have ended so far.
//!
//! Guarantees: a rule never changes its mind (once satisfied or out of reach it stays so, whatever ends
//! later), and once nothing is unfinished it is one or the other.

use serde::{Deserialize, Serialize};

/// What a group of dependencies must come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Every one is done.
    #[default]
    AllSuccess,
    /// Every one has ended, however.
    AllDone,
    /// Every one has failed.
    AllFailed,
    /// At least one has failed; the rest is not waited for.
    OneFailed,
    /// At least one is done; the rest is not waited for.
    OneSuccess,
    /// Every one has ended and none has failed; cancelled ones do not count as failed.
    NoneFailed,
    /// Nothing is waited for.
    Always,
}

impl Rule {
    pub const ALL: [Self; 7] = [
        Self::AllSuccess,
        Self::AllDone,
        Self::AllFailed,
        Self::OneFailed,
        Self::OneSuccess,
        Self::NoneFailed,
        Self::Always,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllSuccess => "all_success",
            Self::AllDone => "all_done",
            Self::AllFailed => "all_failed",
            Self::OneFailed => "one_failed",
            Self::OneSuccess => "one_success",
            Self::NoneFailed => "none_failed",
            Self::Always => "always",
        }
    }

    /// The place in [`Self::ALL`], by which databases keep it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == text)
    }

    /// What the tally means under this rule.
    pub const fn judge(self, tally: Tally) -> Verdict {
        let Tally { unfinished, done, failed, cancelled, skipped } = tally;
        let all_ended = unfinished == 0;
        let unstarted = cancelled + skipped;
        let (satisfied, hopeless) = match self {
            Self::AllSuccess => (all_ended && failed == 0 && unstarted == 0, failed > 0 || unstarted > 0),
            Self::AllDone => (all_ended, false),
            Self::AllFailed => (all_ended && done == 0 && unstarted == 0, done > 0 || unstarted > 0),
            Self::OneFailed => (failed > 0, all_ended && failed == 0),
            Self::OneSuccess => (done > 0, all_ended && done == 0),
            Self::NoneFailed => (all_ended && failed == 0, failed > 0),
            Self::Always => (true, false),
        };
        match (satisfied, hopeless) {
            (true, _) => Verdict::Satisfied,
            (false, true) => Verdict::OutOfReach,
            (false, false) => Verdict::Waiting,
        }
    }
}

/// How the members of a group stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    #[serde(rename = "u", default)]
    pub unfinished: u32,
    #[serde(rename = "d", default)]
    pub done: u32,
    #[serde(rename = "f", default)]
    pub failed: u32,
    #[serde(rename = "c", default)]
    pub cancelled: u32,
    #[serde(rename = "s", default)]
    pub skipped: u32,
}

/// How a dependency ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Done,
    Failed,
    Cancelled,
    /// Never run, because its own rule could not be met; neither a success nor a failure.
    Skipped,
}

impl Tally {
    /// Counts the end of one member that was unfinished.
    pub const fn count(&mut self, ended: Ended) {
        self.unfinished = self.unfinished.saturating_sub(1);
        self.add(ended);
    }

    /// Counts a member that had ended before it was looked at.
    pub const fn add(&mut self, ended: Ended) {
        match ended {
            Ended::Done => self.done += 1,
            Ended::Failed => self.failed += 1,
            Ended::Cancelled => self.cancelled += 1,
            Ended::Skipped => self.skipped += 1,
        }
    }
}

/// What a rule says so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Waiting,
    Satisfied,
    /// No way of ending of the rest can satisfy it any more.
    OutOfReach,
}

/// How all dependencies of a job stand: those with the same rule are judged together, and every group
/// must be satisfied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Needs(Vec<(Rule, Tally)>);

impl Needs {
    /// Waits for this many, all of which must be done.
    pub fn all_success(unfinished: u32) -> Self {
        if unfinished == 0 {
            return Self::default();
        }
        Self(vec![(Rule::AllSuccess, Tally { unfinished, ..Tally::default() })])
    }

    fn group(&mut self, rule: Rule) -> &mut Tally {
        let place = self.0.iter().position(|(group, _)| *group == rule).unwrap_or_else(|| {
            self.0.push((rule, Tally::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    /// Adds a dependency that has not ended.
    pub fn wait_for(&mut self, rule: Rule) {
        self.group(rule).unfinished += 1;
    }

    /// Adds a dependency that has ended already.
    pub fn add(&mut self, rule: Rule, ended: Ended) {
        // Successes decide nothing where all must succeed; not counting them keeps the plain case plain.
        if rule != Rule::AllSuccess || ended != Ended::Done {
            self.group(rule).add(ended);
        }
    }

    /// Counts the end of a dependency that was waited for.
    pub fn count(&mut self, rule: Rule, ended: Ended) {
        let group = self.group(rule);
        group.unfinished = group.unfinished.saturating_sub(1);
        self.add(rule, ended);
    }

    pub fn unfinished(&self) -> u32 {
        self.0.iter().map(|(_, tally)| tally.unfinished).sum()
    }

    /// Whether a number says it all: everything is waited for, everything must succeed.
    pub fn is_plain(&self) -> bool {
        *self == Self::all_success(self.unfinished())
    }

    /// The first group that can no longer be satisfied.
    pub fn unmet(&self) -> Option<(Rule, Tally)> {
        self.0.iter().find(|(rule, tally)| rule.judge(*tally) == Verdict::OutOfReach).copied()
    }

    pub fn verdict(&self) -> Verdict {
        if self.unmet().is_some() {
            return Verdict::OutOfReach;
        }
        let satisfied = |(rule, tally): &(Rule, Tally)| rule.judge(*tally) == Verdict::Satisfied;
        if self.0.iter().all(satisfied) { Verdict::Satisfied } else { Verdict::Waiting }
    }
}

/// What becomes of a job whose dependencies can no longer satisfy their rules. When the job says nothing it
/// fails with those that failed, is cancelled with those that were cancelled, and is skipped otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfUnmet {
    Fail,
    Cancel,
    /// It runs all the same, once everything that it depends on has ended.
    Run,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_end() -> impl Strategy<Value = Ended> {
        prop_oneof![Just(Ended::Done), Just(Ended::Failed), Just(Ended::Cancelled), Just(Ended::Skipped)]
    }

    /// The rule in plain words, on the complete list.
    fn plainly(rule: Rule, ends: &[Ended]) -> bool {
        let failed = |end: &Ended| *end == Ended::Failed;
        match rule {
            Rule::AllSuccess => ends.iter().all(|end| *end == Ended::Done),
            Rule::AllDone | Rule::Always => true,
            Rule::AllFailed => ends.iter().all(failed),
            Rule::OneFailed => ends.iter().any(failed),
            Rule::OneSuccess => ends.contains(&Ended::Done),
            Rule::NoneFailed => !ends.iter().any(failed),
        }
    }

    proptest! {
        #[test]
        fn judged_as_the_plain_words_say_and_never_reversed(ends in prop::collection::vec(any_end(), 1..8), pick in 0..7_usize) {
            let rule = Rule::ALL[pick];
            let mut tally = Tally { unfinished: ends.len() as u32, ..Tally::default() };
            let mut decided = None;
            for (count, end) in ends.iter().enumerate() {
                let early = rule.judge(tally);
                if early != Verdict::Waiting {
                    decided.get_or_insert(early);
                }
                prop_assert!(decided.is_none_or(|verdict| verdict == early), "changed its mind after {count}");
                tally.count(*end);
            }
            let expected = if plainly(rule, &ends) { Verdict::Satisfied } else { Verdict::OutOfReach };
            prop_assert_eq!(rule.judge(tally), expected);
            prop_assert!(decided.is_none_or(|verdict| verdict == expected), "decided too early");
        }
    }

    #[test]
    fn names_round_trip() {
        for rule in Rule::ALL {
            assert_eq!(Rule::parse(rule.as_str()), Some(rule));
            assert_eq!(Rule::numbered(rule.number()), Some(rule));
        }
        assert_eq!(Rule::parse("all_succes"), None);
    }
}
