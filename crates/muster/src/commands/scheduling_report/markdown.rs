//! The page itself.

use std::fmt::Write as _;

use muster_replay::figures::Figures;
use muster_replay::words::{digits, thousands};
use muster_replay::{Estimates, Events};

use super::Result;
use super::cases::Key;
use super::claims::{claims, figures, gangs};
use super::references::{REFERENCES, like};

const INTRODUCTION: &str = "\
# How the policies schedule

This page is made by `make report`: it plays real traces and made-up workloads through the planner's board, under every
policy that has a name, and writes down what came of it. The running scheduler does not use the board, but asks the
same rules (ADR 21 says where the two differ). The traces are not
part of the project; they are read from the directory that `MUSTER_TRACES` names. Cases whose trace is not there are left
out.

`muster` is the policy that a scheduler runs when nobody sets anything, with the knobs at their defaults: it stops work for
priorities and quotas alone, of which these workloads have none. The row *`muster`, stops by level* is the same with
`preempt_by_level` on: what has had much service is stopped for what has had less. It is for clusters whose work saves
checkpoints, and has to be asked for.

*Wait* is all the time from submission to end in which a job did not get on: before its first start, after it was
stopped, and what it had to do again. *JCT* is the time from submission to end. *Slowdown* is the bounded slowdown,
max(1, JCT / max(10 s, run time)), its mean and its *largest*. *Used* is the share of the cluster that was held while jobs waited, *stops* is how often
a running job was stopped for another, and *lost* is what that cost in hours of one GPU or processor. *Fairness* is Jain's
index over the mean slowdowns of queues, or of users where there is one queue. *Wait 9-32* is the mean wait of jobs that ask
for 9 to 32 GPUs or processors. All times are in seconds.

";

const TUNING: &str = "\
## What was tuned on what

The time in which others may pass a unit whose start nobody can foresee (twelve times the mean age of what runs, longer for
large units) was chosen on the two ITP clusters and Philly, among some thirty variants. The other
knobs of `muster` (levels of 4 and 40 hours of service, ageing after 24 hours with at most a tenth of the pool,
the budget of lost time) were chosen while looking at Philly and KTH-SP2. Some dozens
of variants were tried on them, and on nothing else; the mean wait of large gangs hangs on 280 jobs and moved by a factor
of forty between variants. The
figures of `muster` on these two traces are therefore those of a policy that knew the exam. The made-up workloads were
not used to choose anything; they are there to see whether the choice holds elsewhere. They are made up nonetheless:
the ML mix is fitted to no real cluster, and the HPC model is twenty years old.

On traces without time limits, policies that need run times are told the true ones, which no scheduler knows;
`muster` is told nothing. Everything is preemptible in these runs, and a job that is stopped loses the stated time and
nothing else, as if it had just saved a checkpoint: the figures with stops by level are those of work that can resume.

What the means hide: without time limits `muster` lets small work pass large work for long, and with stops by level it stops
what has run for long, so that its longest waits are longer than those of `easy`. The
column *largest* says what the worst wait comes to in proportion to the job; where it is in the thousands, some short job
has waited very long.
";

pub(super) fn page(results: &[Result], missing: &[&str]) -> String {
    let mut text = String::from(INTRODUCTION);
    aims(&mut text, results);
    for result in results.iter().filter(|result| !is_for_reference(result)) {
        case(&mut text, result);
    }
    references(&mut text, results);
    if !missing.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "## Left out\n\nThe traces of these cases were not there: {}.\n",
            missing.join("; ")
        );
    }
    text.push_str(TUNING);
    text
}

/// Cases that only show that our digits are those of others.
fn is_for_reference(result: &Result) -> bool {
    matches!(result.case.key, Key::KthOneByOne | Key::KthTrue | Key::KthTrueOneByOne)
}

fn aims(text: &mut String, results: &[Result]) {
    let claims = claims(results);
    if claims.is_empty() {
        return;
    }
    text.push_str(
        "## What the policies are held to\n\n| | `muster` | the other | holds |\n|---|--:|--:|---|\n",
    );
    for claim in claims {
        let holds = if claim.holds() { "yes" } else { "**no**" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {holds} |",
            claim.text,
            number(claim.ours),
            number(claim.theirs)
        );
    }
    text.push('\n');
}

fn case(text: &mut String, result: &Result) {
    let case = &result.case;
    let _ = writeln!(text, "## {}\n", case.title);
    let events = match case.events {
        Events::Batched => "events batched",
        Events::OneByOne => "one event at a time",
    };
    let estimates = match case.estimates {
        Estimates::Limit => "limits",
        Estimates::True => "true times",
        Estimates::History => "history",
    };
    let jobs = thousands(result.jobs as i64);
    let _ = writeln!(
        text,
        "{} {jobs} jobs on `{}`, estimates from {estimates}, {events}, {} s to restart.\n",
        case.about,
        case.cluster,
        case.restart.as_secs_f64()
    );
    text.push_str(
        "| policy | wait | median | p95 | longest | wait 9-32 | JCT | slowdown | largest | used | fairness | stops | lost, h |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let rows = result.played.iter().map(|run| (format!("`{}`", run.policy), run));
    let by_level = result.by_level.iter().map(|run| ("`muster`, stops by level".to_owned(), run));
    for (name, run) in rows.chain(by_level) {
        let (figures, total) = (&run.figures, &run.figures.total);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} % | {:.3} | {} | {} |",
            number(total.wait_s.mean),
            number(total.wait_s.median),
            number(total.wait_s.p95),
            number(total.wait_s.max),
            number(gangs(figures)),
            number(total.jct_s.mean),
            number(total.bounded_slowdown.mean),
            number(total.bounded_slowdown.max),
            figures.utilisation_under_demand * 100.0,
            fairness(figures),
            thousands(total.preemptions as i64),
            digits(figures.lost_unit_hours)
        );
    }
    text.push('\n');
}

fn references(text: &mut String, results: &[Result]) {
    let found: Vec<_> = REFERENCES
        .iter()
        .filter_map(|reference| Some((reference, figures(results, reference.key, reference.policy)?)))
        .collect();
    if found.is_empty() {
        return;
    }
    text.push_str(
        "## The simulator against others\n\nKTH-SP2 one event at a time: the artifact of Gaussier, Glesser, Reis and \
         Trystram (SC '15); all other values: a program that was written independently.\n\n\
         | case | policy | figure | reference | ours | difference |\n|---|---|---|--:|--:|--:|\n",
    );
    for (reference, figures) in found {
        let value = reference.figure.of(figures);
        let Ok(wanted) = reference.value.parse::<f64>() else { continue };
        let shown = like(value, reference.value);
        let difference = if shown == reference.value {
            "none".to_owned()
        } else {
            format!("{:+.3} %", (value - wanted) / wanted * 100.0)
        };
        let title = results.iter().find(|result| result.case.key == reference.key);
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {shown} | {difference} |",
            title.map_or("", |result| result.case.title),
            reference.policy,
            reference.figure.name(),
            reference.value
        );
    }
    text.push('\n');
}

/// Between queues, or between users where there is only one queue.
fn fairness(figures: &Figures) -> f64 {
    if figures.by_queue.len() > 1 { figures.fairness_queues } else { figures.fairness_users }
}

fn number(value: f64) -> String {
    digits(value)
}

#[cfg(test)]
mod tests {
    use muster_replay::{Policy, PolicyName, Settings};

    use super::*;
    use crate::commands::scheduling_report::cases::{Source, all};
    use crate::commands::sim::play;

    /// A few jobs in the place of a long trace.
    fn played(key: Key, policies: &[PolicyName]) -> Result {
        let mut case = all().into_iter().find(|case| case.key == key).unwrap();
        case.source = Source::Made("ml:jobs=40,seed=5,size=4");
        case.policies = policies.to_vec();
        let trace = case.trace(None).unwrap().unwrap();
        let cluster = muster_replay::parse_cluster("4x8gpu").unwrap();
        let named: Vec<Policy> = policies.iter().copied().map(Policy::named).collect();
        let played = play(&trace.workload, &cluster, &named, &Settings::default()).unwrap();
        let levels = [Policy { preempt_by_level: true, ..Policy::default() }];
        let by_level = play(&trace.workload, &cluster, &levels, &Settings::default()).unwrap().pop();
        Result { jobs: trace.workload.jobs.len(), case, played, by_level }
    }

    #[test]
    fn the_page_has_every_case_every_policy_and_what_was_left_out() {
        let results = [played(Key::Philly, &PolicyName::ALL), played(Key::KthTrue, &[PolicyName::Easy])];
        let page = page(&results, &["KTH-SP2, 100 processors, users' limits"]);
        assert!(page.contains("## Philly, 80 nodes of 8 GPUs, 60 s to restart\n"), "{page}");
        for policy in PolicyName::ALL {
            assert!(page.contains(&format!("\n| `{policy}` | ")), "{policy} is not in {page}");
        }
        // Only for its reference, which these jobs do not meet.
        assert!(!page.contains("## KTH-SP2, 100 processors, true times"), "{page}");
        assert!(page.contains("| `easy` | mean bounded slowdown | 71.722385 |"), "{page}");
        assert!(page.contains("were not there: KTH-SP2, 100 processors, users' limits."), "{page}");
        assert_eq!(page.matches("against `sjf` with perfect knowledge").count(), 2, "{page}");
        assert!(page.ends_with('\n') && !page.contains("NaN"), "{page}");
    }
}
