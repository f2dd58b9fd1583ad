//! Figures and fates as tables for programs.

use std::fmt::Write as _;

use crate::figures::{Figures, Group, Spread};
use crate::outcome::Outcome;
use crate::trace::{Trace, quoted};

const SPREADS: [&str; 3] = ["wait", "jct", "bounded_slowdown"];

/// One row for each policy and group: all jobs, each size, each queue. What concerns the cluster stands in the
/// rows of all jobs.
pub fn figures_csv<P: AsRef<str>>(runs: &[(P, &Figures)]) -> String {
    let mut text = String::from("policy,group,name,jobs");
    for name in SPREADS {
        let unit = if name == "bounded_slowdown" { "" } else { "_s" };
        // Writing to a String cannot fail.
        let _ = write!(text, ",{name}_mean{unit},{name}_median{unit},{name}_p95{unit},{name}_max{unit}");
    }
    text.push_str(
        ",preemptions,preempted_jobs,lost_s,makespan_s,utilisation,useful,utilisation_under_demand,fragmentation,\
         fairness_queues,fairness_users,lost_unit_hours\n",
    );
    for (policy, figures) in runs {
        row(&mut text, policy.as_ref(), "all", &figures.total);
        let _ = writeln!(
            text,
            ",{},{},{},{},{},{},{},{}",
            figures.makespan_s,
            figures.utilisation,
            figures.useful,
            figures.utilisation_under_demand,
            figures.fragmentation,
            figures.fairness_queues,
            figures.fairness_users,
            figures.lost_unit_hours
        );
        for (kind, groups) in [("size", &figures.by_size), ("queue", &figures.by_queue)] {
            for group in groups {
                row(&mut text, policy.as_ref(), kind, group);
                text.push_str(",,,,,,,,\n");
            }
        }
    }
    text
}

fn row(text: &mut String, policy: &str, kind: &str, group: &Group) {
    let _ = write!(text, "{policy},{kind},{},{}", quoted(&group.name), group.jobs);
    for Spread { mean, median, p95, max } in [group.wait_s, group.jct_s, group.bounded_slowdown] {
        let _ = write!(text, ",{mean},{median},{p95},{max}");
    }
    let _ = write!(text, ",{},{},{}", group.preemptions, group.preempted_jobs, group.lost_s);
}

/// One row for each policy and job.
pub fn jobs_csv<P: AsRef<str>>(trace: &Trace, runs: &[(P, &Outcome)]) -> String {
    let mut text =
        String::from("policy,job,name,submit_s,start_s,end_s,run_s,tasks,preemptions,lost_s,node\n");
    let seconds = |time: muster_domain::Timestamp| time.as_micros() as f64 / 1e6;
    for (policy, outcome) in runs {
        for (index, (job, fate)) in trace.workload.jobs.iter().zip(&outcome.jobs).enumerate() {
            let name = trace.names.get(index).map(|name| quoted(name)).unwrap_or_default();
            let _ = writeln!(
                text,
                "{},{},{name},{},{},{},{},{},{},{},{}",
                policy.as_ref(),
                index + 1,
                seconds(job.submit),
                seconds(fate.start),
                seconds(fate.end),
                job.run.as_secs_f64(),
                job.tasks,
                fate.preemptions,
                fate.lost.as_secs_f64(),
                fate.node
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figures;
    use crate::generate::Generator;
    use crate::outcome::JobOutcome;

    #[test]
    fn every_row_has_every_column() {
        let mut trace = "ml:jobs=40,seed=3".parse::<Generator>().unwrap().trace();
        trace.workload.queues[0] = "a, b".into();
        let end = |job: &crate::workload::TraceJob| job.submit + job.run;
        let fates =
            trace.workload.jobs.iter().map(|job| JobOutcome { end: end(job), ..JobOutcome::default() });
        let outcome = Outcome { jobs: fates.collect(), ..Outcome::default() };
        let figures = figures(&trace.workload, &trace.cluster.clone().unwrap(), &outcome);
        let text = figures_csv(&[("easy", &figures), ("muster", &figures)]).replace("\"a, b\"", "a");
        let columns = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{text}");
        assert!(text.contains("\neasy,all,all,40,0,") && text.contains("\nmuster,size,1,"), "{text}");
        let jobs = jobs_csv(&trace, &[("easy", &outcome)]);
        assert_eq!(jobs.lines().count(), 41);
        assert!(jobs.lines().all(|line| line.split(',').count() == 11), "{jobs}");
    }
}
