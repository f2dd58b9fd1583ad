//! What the default policy, and the one with stops by level, are meant to be, held against what they were found to be.

use muster_replay::PolicyName;
use muster_replay::figures::{Figures, SizeClass};

use super::Result;
use super::cases::Key;

/// A comparison of the default policy with another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Claim {
    pub(super) text: String,
    pub(super) ours: f64,
    pub(super) theirs: f64,
    /// Whether it must be better, and not only as good.
    pub(super) better: bool,
}

impl Claim {
    pub(super) fn holds(&self) -> bool {
        if self.better { self.ours < self.theirs } else { self.ours <= self.theirs }
    }
}

/// All claims whose cases were played.
pub(super) fn claims(results: &[Result]) -> Vec<Claim> {
    let mut claims = no_worse_than_greedy(results);
    for (key, cost) in [(Key::Philly, "60 s"), (Key::PhillySlow, "900 s")] {
        let of = |policy| figures(results, key, policy);
        if let (Some(ours), Some(sjf), Some(easy)) =
            (by_level(results, key), of(PolicyName::Sjf), of(PolicyName::Easy))
        {
            let case = format!("With stops by level, Philly 80 × 8, {cost} to restart");
            claims.push(claim(
                &case,
                "mean completion time, s, against `sjf` with perfect knowledge",
                ours,
                sjf,
                completion,
            ));
            claims.push(claim(
                &case,
                "mean bounded slowdown against `sjf` with perfect knowledge",
                ours,
                sjf,
                slowdown,
            ));
            claims.push(claim(
                &case,
                "mean wait of jobs with 9 to 32 GPUs, s, against `easy`",
                ours,
                easy,
                gangs,
            ));
        }
    }
    let of = |policy| figures(results, Key::Kth, policy);
    if let (Some(ours), Some(sjbf)) = (by_level(results, Key::Kth), of(PolicyName::EasySjbf)) {
        let case = "With stops by level, KTH-SP2 with users' limits";
        for (what, of) in [
            ("mean bounded slowdown against `easy-sjbf`", slowdown as fn(&Figures) -> f64),
            ("mean completion time, s, against `easy-sjbf`", completion),
        ] {
            claims.push(Claim { better: true, ..claim(case, what, ours, sjbf, of) });
        }
    }
    claims
}

/// The default on every real trace.
fn no_worse_than_greedy(results: &[Result]) -> Vec<Claim> {
    const KEYS: [Key; 5] = [Key::Philly, Key::Kth, Key::Hpc2n, Key::SmallGpu, Key::OtherSmallGpu];
    let claim = |result: &Result| {
        let key = result.case.key;
        let ours = figures(results, key, PolicyName::Muster)?;
        let greedy = figures(results, key, PolicyName::Greedy)?;
        let text = format!("{}: mean completion time, s, against 1.05 × `greedy`", result.case.title);
        Some(Claim { text, ours: completion(ours), theirs: completion(greedy) * 1.05, better: false })
    };
    results.iter().filter(|result| KEYS.contains(&result.case.key)).filter_map(claim).collect()
}

fn claim(case: &str, what: &str, ours: &Figures, theirs: &Figures, of: fn(&Figures) -> f64) -> Claim {
    Claim { text: format!("{case}: {what}"), ours: of(ours), theirs: of(theirs), better: false }
}

fn completion(figures: &Figures) -> f64 {
    figures.total.jct_s.mean
}

fn slowdown(figures: &Figures) -> f64 {
    figures.total.bounded_slowdown.mean
}

/// The gangs of two to four nodes, which wait longest where small jobs pass them.
pub(super) fn gangs(figures: &Figures) -> f64 {
    let group = figures.by_size.iter().find(|group| group.name == SizeClass::Nodes.name());
    group.map_or(0.0, |group| group.wait_s.mean)
}

pub(super) fn figures(results: &[Result], key: Key, policy: PolicyName) -> Option<&Figures> {
    let result = results.iter().find(|result| result.case.key == key)?;
    result.played.iter().find(|run| run.policy == policy).map(|run| &run.figures)
}

/// What came of the policy that also stops work for reasons of level.
fn by_level(results: &[Result], key: Key) -> Option<&Figures> {
    let result = results.iter().find(|result| result.case.key == key)?;
    result.by_level.as_ref().map(|run| &run.figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_good_is_enough_unless_better_was_meant() {
        let claim = Claim { text: String::new(), ours: 1.0, theirs: 1.0, better: false };
        assert!(claim.holds() && !Claim { better: true, ..claim.clone() }.holds());
        assert!(Claim { better: true, ours: 0.9, ..claim.clone() }.holds());
        assert!(!Claim { ours: 1.1, ..claim }.holds());
    }
}
