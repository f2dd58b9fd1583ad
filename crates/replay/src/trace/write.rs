//! A workload as a table, for other programs and for another run.

use std::fmt::Write as _;

use super::Trace;
use super::fields::quoted;

const TITLES: &str =
    "submit_s,duration_s,req_time_s,tasks,cpus,memory_mb,gpus_per_task,queue,user,priority,preemptible,name";

/// Writes the jobs as [`super::read`] reads them.
pub fn write_csv(trace: &Trace) -> String {
    let mut text = String::from(TITLES);
    text.push('\n');
    let workload = &trace.workload;
    let named = |list: &[String], position: usize| {
        list.get(position).map(|name| quoted(name).into_owned()).unwrap_or_default()
    };
    for (index, job) in workload.jobs.iter().enumerate() {
        let submit = seconds(job.submit.as_micros().max(0).unsigned_abs());
        let run = seconds(job.run.as_micros());
        let limit = job.limit.map(|limit| seconds(limit.as_micros())).unwrap_or_default();
        let queue = named(&workload.queues, job.queue as usize);
        let user = named(&workload.users, job.user as usize);
        let name = named(&trace.names, index);
        let need = &job.need;
        let cpus = decimal(need.cpu_millis, 1000);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{submit},{run},{limit},{},{cpus},{},{},{queue},{user},{},{},{name}",
            job.tasks, need.memory_mb, need.gpus, job.priority, job.preemptible
        );
    }
    text
}

fn seconds(micros: u64) -> String {
    decimal(micros, 1_000_000)
}

/// A number of parts of a whole, without digits that say nothing.
fn decimal(parts: u64, whole: u64) -> String {
    let (integer, fraction) = (parts / whole, parts % whole);
    if fraction == 0 {
        return integer.to_string();
    }
    let digits = (whole as f64).log10().round() as usize;
    format!("{integer}.{fraction:0digits$}").trim_end_matches('0').to_owned()
}
