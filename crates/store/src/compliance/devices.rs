//! GPUs as devices, workers for one job alone, and gangs that are to be close together.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{
    Device, Grant, JobSpec, ReportKind, Resources, Span, Status, Topology, TopologyMode, Worker, WorkerId,
};

use super::band::membership;
use super::stage::{Stage, memory, needing};
use crate::store::StoreExt as _;

fn devices(count: u32, vram_mb: u64) -> Vec<Device> {
    (0..count).map(|index| Device { index, vram_mb, ..Device::default() }).collect()
}

fn gpus(gpus: u64, vram_mb: u64) -> JobSpec {
    let resources = Resources { gpus, vram_mb, ..Resources::default() };
    JobSpec { resources: Some(resources), ..JobSpec::shell("train") }
}

impl Stage {
    /// A worker with GPUs and labels.
    pub async fn register_with_gpus(
        &self,
        id: &str,
        devices: Vec<Device>,
        labels: &[(&str, &str)],
    ) -> Worker {
        let plain = Worker {
            id: WorkerId::new(id),
            resources: memory(1000).with_devices(&devices),
            labels: labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect(),
            devices,
            slots: None,
            ..self.register("model", Resources::default(), Some(0)).await
        };
        self.register_worker(plain).await
    }

    /// The GPUs of the next job that the worker gets, if it gets one.
    async fn next_grant(&self, worker: &str) -> Given {
        match self.claim_by(worker).await {
            None => Given::NoJob,
            Some(job) => job.devices.map_or(Given::NoDevices, Given::Devices),
        }
    }
}

/// What a claim gave.
#[derive(Debug, PartialEq, Eq)]
enum Given {
    NoJob,
    NoDevices,
    Devices(Grant),
}

fn whole(indices: &[u32]) -> Given {
    Given::Devices(Grant::Whole(indices.to_vec()))
}

const fn share(index: u32, vram_mb: u64) -> Given {
    Given::Devices(Grant::Share { index, vram_mb })
}

pub async fn a_worker_keeps_its_devices_and_labels(stage: &Stage) {
    let named = Device {
        index: 3,
        vram_mb: 81_920,
        uuid: Some("GPU-1".to_owned()),
        name: Some("H100".to_owned()),
        vendor: Some("nvidia".to_owned()),
    };
    let worker = stage.register_with_gpus("w", vec![named], &[("rack", "a"), ("zone", "1")]).await;
    let kept = stage.store.workers().await.unwrap();
    assert!(kept.iter().any(|usage| usage.worker == worker), "{kept:#?}");
    assert_eq!((worker.resources.gpus, worker.resources.vram_mb), (1, 81_920));
}

pub async fn whole_devices_are_given_once_and_come_back(stage: &Stage) {
    stage.register_with_gpus("w", devices(4, 80), &[]).await;
    for count in [1, 2, 1, 1] {
        stage.submit(gpus(count, 0)).await;
    }
    let first = stage.claim_by("w").await.unwrap();
    assert_eq!(first.devices, Some(Grant::Whole(vec![0])));
    assert_eq!(stage.next_grant("w").await, whole(&[1, 2]));
    assert_eq!(stage.next_grant("w").await, whole(&[3]));
    assert_eq!(stage.next_grant("w").await, Given::NoJob, "all are held");
    stage.check().await;
    stage.cancel(first.id).await.unwrap();
    assert_eq!(stage.next_grant("w").await, Given::NoJob, "the process may still be alive");
    stage.report(&first, ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.next_grant("w").await, whole(&[0]));
    assert_eq!(stage.get(first.id).await.devices, Some(Grant::Whole(vec![0])), "known afterwards");
}

pub async fn shares_fill_a_device_and_never_mix_with_whole_ones(stage: &Stage) {
    stage.register_with_gpus("w", devices(3, 80), &[]).await;
    stage.submit(gpus(0, 30)).await;
    assert_eq!(stage.next_grant("w").await, share(0, 30));
    stage.submit(gpus(0, 60)).await;
    assert_eq!(stage.next_grant("w").await, share(1, 60));
    stage.submit(gpus(0, 20)).await;
    assert_eq!(stage.next_grant("w").await, share(1, 20), "the fullest that has room");
    stage.submit(gpus(2, 0)).await;
    assert_eq!(stage.next_grant("w").await, Given::NoJob, "two are shared");
    stage.submit(gpus(1, 80)).await;
    assert_eq!(stage.next_grant("w").await, whole(&[2]));
    stage.submit(gpus(0, 51)).await;
    assert_eq!(stage.next_grant("w").await, Given::NoJob, "50 are left on one device, and no more on any");
    let usage = stage.store.workers().await.unwrap();
    let usage = usage.iter().find(|usage| usage.worker.id.as_str() == "w").unwrap();
    assert_eq!(usage.holders.len(), 4);
    stage.check().await;
}

pub async fn memory_of_each_device_counts_and_why_says_so(stage: &Stage) {
    stage.register_with_gpus("w", devices(2, 40), &[]).await;
    let large = stage.submit(gpus(1, 41)).await.id;
    assert_eq!(stage.next_grant("w").await, Given::NoJob);
    let reasons = stage.reasons(large).await;
    let text = reasons[0].to_string();
    assert!(reasons[0].code() == "impossible" && text.contains("needs 41 vram_mb, has 40"), "{text}");
    let sum = stage.submit(gpus(0, 50)).await.id;
    assert_eq!(stage.why_codes(sum).await[0], "impossible", "a share is of one device");
    stage.submit(gpus(2, 0)).await;
    assert_eq!(stage.next_grant("w").await, whole(&[0, 1]));
    let later = stage.submit(gpus(1, 0)).await.id;
    let reasons = stage.reasons(later).await;
    let text = reasons[0].to_string();
    assert!(reasons[0].code() == "resources" && text.contains("needs 1 gpus, has 0"), "{text}");
}

pub async fn a_worker_that_only_counts_is_served_as_before(stage: &Stage) {
    let amounts = Resources { gpus: 2, vram_mb: 100, ..Resources::default() };
    stage.register("old", amounts, None).await;
    stage.submit(gpus(1, 60)).await;
    stage.submit(gpus(0, 41)).await;
    stage.submit(gpus(0, 40)).await;
    assert_eq!(stage.next_grant("old").await, Given::NoDevices);
    assert_eq!(stage.claim_as(Some("old"), 9).await.len(), 1, "60 of 100 are taken, however many devices");
    stage.check().await;
}

pub async fn devices_of_jobs_that_were_told_none_are_not_given_away(stage: &Stage) {
    let amounts = Resources { gpus: 2, vram_mb: 160, ..memory(1000) };
    stage.register("w", amounts, None).await;
    stage.submit(gpus(1, 0)).await;
    let counted = stage.claim_by("w").await.unwrap();
    assert_eq!(counted.devices, None);
    stage.register_with_gpus("w", devices(2, 80), &[]).await;
    stage.submit(gpus(1, 0)).await;
    assert_eq!(stage.next_grant("w").await, Given::NoJob, "nobody knows which device the first one uses");
    stage.submit(needing(1)).await;
    assert_eq!(stage.next_grant("w").await, Given::NoDevices, "other work goes on");
    stage.report(&counted, ReportKind::Done).await.unwrap();
    assert_eq!(stage.next_grant("w").await, whole(&[0]));
}

pub async fn devices_outlast_a_new_registration_and_a_requeue(stage: &Stage) {
    stage.register_with_gpus("w", devices(2, 80), &[]).await;
    stage.submit(gpus(1, 0)).await;
    let first = stage.claim_by("w").await.unwrap();
    stage.register_with_gpus("w", devices(2, 80), &[]).await;
    stage.submit(gpus(1, 0)).await;
    assert_eq!(stage.next_grant("w").await, whole(&[1]), "the first is still held");
    stage.report(&first, ReportKind::Released).await.unwrap();
    stage.submit(JobSpec { priority: 5, ..gpus(1, 0) }).await;
    assert_eq!(stage.next_grant("w").await, whole(&[0]));
    assert_eq!(stage.status(first.id).await, Status::Pending);
    assert_eq!(stage.next_grant("w").await, Given::NoJob);
}

pub async fn an_exclusive_job_has_a_worker_for_itself(stage: &Stage) {
    stage.register("w", memory(1000), Some(8)).await;
    stage.submit(needing(1)).await;
    let plain = stage.claim_by("w").await.unwrap();
    let alone = stage.submit(JobSpec { exclusive: true, priority: 9, ..needing(1) }).await.id;
    assert!(stage.claim_by("w").await.is_none(), "somebody is there");
    let reasons = stage.reasons(alone).await;
    assert!(reasons[0].to_string().contains("needs the worker for itself"), "{reasons:?}");
    stage.report(&plain, ReportKind::Done).await.unwrap();
    for _ in 0..2 {
        stage.submit(needing(1)).await;
    }
    let handed = stage.claim_as(Some("w"), 9).await;
    assert_eq!(handed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [alone]);
    assert!(stage.claim_by("w").await.is_none());
    stage.check().await;
    stage.report(&handed[0].job, ReportKind::Done).await.unwrap();
    assert_eq!(stage.claim_as(Some("w"), 9).await.len(), 2);
}

pub async fn a_gang_gets_its_devices_with_its_reservation(stage: &Stage) {
    for name in ["a", "b"] {
        stage.register_with_gpus(name, devices(4, 80), &[]).await;
    }
    stage.submit(gpus(1, 0)).await;
    assert_eq!(stage.next_grant("a").await, whole(&[0]));
    let per_worker = 2;
    let gang =
        stage.submit_gang(gpus(2, 0), muster_domain::GangMembership { per_worker, ..membership(3) }).await;
    assert_eq!(stage.plan().await.placed, 1);
    let given = |tasks: Vec<muster_domain::Job>| -> Vec<(String, Option<Grant>)> {
        let worker = |task: &muster_domain::Job| task.worker().unwrap().as_str().to_owned();
        tasks.into_iter().map(|task| (worker(&task), task.devices)).collect()
    };
    let reserved = given(stage.tasks(gang).await);
    let expected = [("a", [1, 2]), ("b", [0, 1]), ("b", [2, 3])];
    let expected: Vec<(String, Option<Grant>)> = expected
        .into_iter()
        .map(|(worker, indices)| (worker.to_owned(), Some(Grant::Whole(indices.to_vec()))))
        .collect();
    assert_eq!(reserved, expected);
    stage.submit(gpus(2, 0)).await;
    stage.submit(gpus(1, 0)).await;
    assert_eq!(
        stage.claim_as(Some("a"), 9).await.len(),
        2,
        "its task, and what the last device is enough for"
    );
    assert_eq!(stage.claim_as(Some("b"), 9).await.len(), 2, "its two tasks");
    assert_eq!(given(stage.tasks(gang).await), expected, "kept by the claim");
    stage.check().await;
}

pub async fn parallel_claims_never_share_a_device(stage: &Stage) {
    for name in ["w0", "w1"] {
        stage.register_with_gpus(name, devices(4, 80), &[]).await;
    }
    for number in 0..24_u64 {
        let spec = if number.is_multiple_of(3) { gpus(0, 30) } else { gpus(1 + number % 2, 0) };
        stage.submit(spec).await;
    }
    let ask = |number: usize| stage.claim_as(Some(["w0", "w1"][number % 2]), 2);
    let handed: usize = futures::future::join_all((0..12).map(ask)).await.iter().map(Vec::len).sum();
    assert!(handed >= 6, "{handed}");
    stage.check().await;
    let mut seen: BTreeSet<(String, u32)> = BTreeSet::new();
    for job in stage.all().await.into_iter().filter(|job| job.status() == Status::Running) {
        let worker = job.worker().unwrap().as_str().to_owned();
        if let Some(Grant::Whole(indices)) = &job.devices {
            assert!(indices.iter().all(|index| seen.insert((worker.clone(), *index))), "{job:?}");
        }
    }
}

fn topology(mode: TopologyMode, required: bool) -> Topology {
    Topology { label: "rack".to_owned(), mode, required }
}

pub async fn a_gang_is_placed_by_labels(stage: &Stage) {
    for (name, rack) in [("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("b1", "b")] {
        stage.register_with_gpus(name, devices(1, 80), &[("rack", rack)]).await;
    }
    let wanting = |size, mode, required| muster_domain::GangMembership {
        topology: Some(topology(mode, required)),
        ..membership(size)
    };
    let four = stage.submit_gang(gpus(1, 0), wanting(4, TopologyMode::Pack, true)).await;
    assert_eq!(stage.plan().await.placed, 0, "no rack has four");
    let first = stage.tasks(four).await[0].id;
    assert_eq!(stage.why_codes(first).await, ["gang_topology_impossible"]);
    stage.cancel(first).await.unwrap();
    let two = stage.submit_gang(gpus(1, 0), wanting(2, TopologyMode::Pack, true)).await;
    assert_eq!(stage.plan().await.placed, 1);
    let workers = |tasks: Vec<muster_domain::Job>| -> Vec<String> {
        tasks.iter().filter_map(|task| task.worker()).map(|worker| worker.as_str().to_owned()).collect()
    };
    assert_eq!(workers(stage.tasks(two).await), ["b0", "b1"], "the rack that it fills");
    stage.cancel(stage.tasks(two).await[0].id).await.unwrap();
    let spread = stage.submit_gang(gpus(1, 0), wanting(4, TopologyMode::Spread, false)).await;
    stage.advance(Span::from_secs(1));
    assert_eq!(stage.plan().await.placed, 1);
    let mut racks: BTreeMap<char, u32> = BTreeMap::new();
    for worker in workers(stage.tasks(spread).await) {
        *racks.entry(worker.chars().next().unwrap()).or_default() += 1;
    }
    assert_eq!(racks, BTreeMap::from([('a', 2), ('b', 2)]));
}
