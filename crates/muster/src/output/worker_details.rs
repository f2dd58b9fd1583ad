//! One worker for people: what it has, where it is, and what each of its GPUs does.

use jiff::Timestamp;
use muster_protocol::{GpuState, Worker, WorkerStatus};

use super::quantities::{age, cores, memory, printable};
use super::screen::Screen;
use crate::watch::short;

/// GPUs that are in use, and their memory that is taken; as the jobs asked where GPUs are only counted.
pub(super) fn gpus_used(worker: &Worker) -> (u64, u64) {
    if worker.gpus.is_empty() {
        return (worker.used.gpus, worker.used.vram_mb);
    }
    let in_use = worker.gpus.iter().filter(|gpu| !gpu.jobs.is_empty()).count() as u64;
    (in_use, worker.gpus.iter().map(|gpu| gpu.used_mb).sum())
}

/// Tags, and labels with their values.
pub(super) fn tags_and_labels(worker: &Worker) -> String {
    let labels = worker.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let all: Vec<String> = worker.tags.iter().cloned().chain(labels).collect();
    if all.is_empty() { "-".to_owned() } else { printable(&all.join(",")) }
}

/// What `muster worker show` says.
pub(crate) fn worker(worker: &Worker, now: Timestamp, screen: Screen) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<11} {value}", format!("{name}:")));
        }
    };
    add("id", printable(&worker.id));
    let status = match (worker.status, &worker.quarantine) {
        (WorkerStatus::Active, None) => "active",
        (WorkerStatus::Active, Some(_)) => "quarantine",
        (WorkerStatus::Offline, _) => "offline",
    };
    add("status", format!("{status}, seen {} ago", age(worker.last_heartbeat, now)));
    add("isolation", worker.isolation.as_deref().map(printable).unwrap_or_default());
    add("run as", worker.run_as.as_deref().map(printable).unwrap_or_default());
    add("host", worker.hostname.as_deref().map(printable).unwrap_or_default());
    let slots = worker.slots.map_or_else(String::new, |slots| format!(" of {slots}"));
    let alone = if worker.exclusive { ", one that has the worker for itself" } else { "" };
    add("jobs", format!("{}{slots}{alone}", worker.running));
    add("cpus", format!("{} of {}", cores(worker.used.cpus), cores(worker.resources.cpus)));
    add("memory", format!("{} of {}", memory(worker.used.memory_mb), memory(worker.resources.memory_mb)));
    for (name, amount) in &worker.resources.counters {
        let used = worker.used.counters.get(name).copied().unwrap_or(0);
        add(&printable(name), format!("{used} of {amount}"));
    }
    let engine = worker.containers.as_ref().map(|engine| format!("{} {}", engine.name, engine.version));
    add("containers", printable(&engine.unwrap_or_default()));
    add("tags", printable(&worker.tags.join(", ")));
    let labels: Vec<String> = worker.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    add("labels", printable(&labels.join(", ")));
    if worker.gpus.is_empty() && worker.resources.gpus > 0 {
        add("gpus", format!("{} of {}, which are only counted", worker.used.gpus, worker.resources.gpus));
    }
    for state in &worker.gpus {
        add(&format!("gpu {}", state.gpu.index), gpu(state, screen));
    }
    lines.join("\n")
}

fn gpu(state: &GpuState, screen: Screen) -> String {
    let id = |id: &String| {
        let id = printable(id);
        if screen.width.is_some() { short(&id).to_owned() } else { id }
    };
    let jobs: Vec<String> = state.jobs.iter().map(id).collect();
    let what = match jobs.as_slice() {
        [] => "idle".to_owned(),
        [one] if state.used_mb >= state.gpu.vram_mb => format!("taken by {one}"),
        jobs => format!("{} taken by {}", memory(state.used_mb), jobs.join(", ")),
    };
    let named = [&state.gpu.name, &state.gpu.uuid].into_iter().flatten().map(|text| printable(text));
    let named: Vec<String> = std::iter::once(memory(state.gpu.vram_mb)).chain(named).collect();
    format!("{what} ({})", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Worker {
        serde_json::from_value(serde_json::json!({
            "id": "w1", "exec_addr": "", "status": "active", "slots": 4, "running": 3,
            "resources": {"cpus": 8.0, "memory_mb": 16384, "gpus": 3, "vram_mb": 245_760},
            "used": {"cpus": 2.0, "gpus": 1, "vram_mb": 20480}, "tags": ["fast"], "labels": {"rack": "a"},
            "last_heartbeat": "2026-01-01T00:00:00Z", "registered_at": "2026-01-01T00:00:00Z",
            "gpus": [
                {"index": 0, "vram_mb": 81920, "used_mb": 81920, "jobs": ["job-1"], "name": "H100"},
                {"index": 1, "vram_mb": 81920, "used_mb": 20480, "jobs": ["job-2", "job-3"]},
                {"index": 2, "vram_mb": 81920},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn every_gpu_says_what_it_does() {
        let screen = Screen { json: false, colour: false, width: None, zone: crate::zone::Zone::UTC };
        let text = worker(&example(), "2026-01-01T00:00:05Z".parse().unwrap(), screen);
        for line in [
            "gpu 0:      taken by job-1 (80G, H100)",
            "gpu 1:      20G taken by job-2, job-3 (80G)",
            "gpu 2:      idle (80G)",
            "labels:     rack=a",
            "jobs:       3 of 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn the_table_counts_devices_in_use_and_shows_labels() {
        assert_eq!(gpus_used(&example()), (2, 102_400));
        assert_eq!(tags_and_labels(&example()), "fast,rack=a");
    }
}
