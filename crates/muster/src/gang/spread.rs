//! How many tasks share a worker when nobody said it.
//!
//! On one machine a gang would wait for ever if each task had to have a worker of its own, and that is not what
//! somebody means who tries it there. With enough workers each task gets its own.

use muster_client::Client;
use muster_protocol::{Resources, SubmitRequest, Worker, WorkerStatus};

use crate::output::note;

/// Sets `tasks_per_worker` where fewer workers than tasks are there and sharing makes room for all of them; says
/// so in one line. Without workers nothing is known, and nothing changes.
pub(crate) async fn choose(client: &Client, request: &mut SubmitRequest) -> anyhow::Result<()> {
    let Some(size) = request.gang_size else { return Ok(()) };
    let workers = client.workers().await?;
    let rooms = rooms(&workers, request);
    if let Some(most) = shared(size, &rooms) {
        request.tasks_per_worker = Some(most);
        let count = rooms.len();
        let plural = if count == 1 { "worker" } else { "workers" };
        note(&format!(
            "{size} tasks and {count} {plural}: up to {most} tasks share a worker (--spread forbids it)"
        ));
    }
    Ok(())
}

/// How many tasks each worker that takes work could hold if it did nothing else; those without room are left out.
fn rooms(workers: &[Worker], request: &SubmitRequest) -> Vec<i64> {
    let takes = |worker: &&Worker| {
        worker.status == WorkerStatus::Active
            && worker.quarantine.is_none()
            && request.tags.iter().all(|tag| worker.tags.contains(tag))
    };
    let rooms = workers.iter().filter(takes).map(|worker| room(worker, request.resources.as_ref()));
    rooms.filter(|room| *room > 0).collect()
}

fn room(worker: &Worker, needs: Option<&Resources>) -> i64 {
    let slots = worker.slots.map_or(i64::MAX, i64::from);
    let Some(needs) = needs else { return slots };
    let have = &worker.resources;
    if let Some(gpus) = gpus(worker, needs) {
        let others = Resources { gpus: 0, vram_mb: 0, ..needs.clone() };
        let counted = Worker { gpus: Vec::new(), ..worker.clone() };
        return gpus.min(room(&counted, Some(&others)));
    }
    let whole = |have: u64, need: u64| {
        have.checked_div(need).map_or(i64::MAX, |room| i64::try_from(room).unwrap_or(i64::MAX))
    };
    let milli = |cpus: f64| (cpus * 1000.0).round() as u64;
    let counters =
        needs.counters.iter().map(|(name, need)| whole(have.counters.get(name).copied().unwrap_or(0), *need));
    [
        slots,
        whole(milli(have.cpus), milli(needs.cpus)),
        whole(have.memory_mb, needs.memory_mb),
        whole(have.gpus, needs.gpus),
        whole(have.vram_mb, needs.vram_mb),
    ]
    .into_iter()
    .chain(counters)
    .min()
    .unwrap_or(0)
}

/// How many tasks the GPUs of a worker have room for, where they are told apart and some are wanted.
fn gpus(worker: &Worker, needs: &Resources) -> Option<i64> {
    if worker.gpus.is_empty() || (needs.gpus == 0 && needs.vram_mb == 0) {
        return None;
    }
    let sizes = || worker.gpus.iter().map(|state| state.gpu.vram_mb);
    let tasks = match needs.gpus {
        0 => sizes().map(|size| size / needs.vram_mb).sum(),
        count => sizes().filter(|size| *size >= needs.vram_mb).count() as u64 / count,
    };
    Some(i64::try_from(tasks).unwrap_or(i64::MAX))
}

/// The fewest tasks on one worker with which all fit; `None` when each can have its own, or nothing helps.
fn shared(size: i64, rooms: &[i64]) -> Option<i64> {
    let held = |most: i64| rooms.iter().fold(0_i64, |sum, room| sum.saturating_add(most.min(*room)));
    if held(1) >= size || held(size) < size {
        return None;
    }
    let (mut too_few, mut enough) = (1, size);
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if held(middle) >= size { enough = middle } else { too_few = middle }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(slots: u32, resources: &str, more: &str) -> Worker {
        let text = format!(
            r#"{{"id":"w","exec_addr":"","resources":{resources},"status":"active","last_heartbeat":"2026-05-05T08:00:00Z",
                "registered_at":"2026-05-05T08:00:00Z","slots":{slots}{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn tasks_share_workers_only_as_far_as_they_must() {
        assert_eq!(shared(4, &[4]), Some(4));
        assert_eq!(shared(4, &[8, 8]), Some(2));
        assert_eq!(shared(5, &[8, 8]), Some(3));
        assert_eq!(shared(8, &[2, 8]), Some(6));
        assert_eq!(shared(4, &[1, 1, 1, 1]), None);
        assert_eq!(shared(4, &[2]), None);
        assert_eq!(shared(4, &[]), None);
        assert_eq!(shared(1_000_000, &[i64::MAX, i64::MAX]), Some(500_000));
    }

    #[test]
    fn a_worker_holds_what_its_slots_amounts_and_tags_allow() {
        let mut request = SubmitRequest::default();
        let plain = worker(4, r#"{"cpus":8,"gpus":2}"#, "");
        assert_eq!(rooms(std::slice::from_ref(&plain), &request), [4]);
        request.resources = Some(Resources { gpus: 1, cpus: 0.5, ..Resources::default() });
        assert_eq!(rooms(std::slice::from_ref(&plain), &request), [2]);
        request.resources =
            Some(Resources { counters: [("licence".into(), 1)].into(), ..Resources::default() });
        assert!(rooms(std::slice::from_ref(&plain), &request).is_empty());
        let tagged = SubmitRequest { tags: vec!["ssd".into()], ..SubmitRequest::default() };
        let workers = [plain, worker(3, "{}", r#","tags":["ssd"]"#)];
        assert_eq!(rooms(&workers, &tagged), [3]);
    }
}
