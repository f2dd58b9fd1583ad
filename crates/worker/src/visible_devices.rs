//! Which GPUs a process sees: the variables that drivers and frameworks read.
//!
//! Guarantees: on a worker that knows its GPUs one by one, a process sees those that its job was given and no
//! others, and a job that was given none sees none. All ranks of a gang on one machine see the GPUs of all of them,
//! in the order of the ranks, because frameworks pick theirs by `LOCAL_RANK`. Where GPUs are only counted, nothing is
//! said. A worker that offers none hides those of its machine.

use muster_protocol::{Gpu, Job, LaunchMode};

/// What a MIG part is known by; it has no number of its own.
const PART: &str = "MIG-";

/// The variables of a job; they are facts that the job cannot override.
pub(crate) fn variables(job: &Job, gpus: &[Gpu]) -> Vec<(String, String)> {
    if gpus.is_empty() {
        return Vec::new();
    }
    let seen: Vec<&Gpu> =
        visible(job).into_iter().filter_map(|index| gpus.iter().find(|gpu| gpu.index == index)).collect();
    let mut variables = Vec::new();
    let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
    set("MUSTER_GPUS", job.devices.len().to_string());
    if let Some(share) = job.devices.iter().find_map(|device| device.vram_mb) {
        set("MUSTER_GPU_VRAM_MB", share.to_string());
    }
    let of = |vendor: &str| gpus.iter().any(|gpu| vendor_of(gpu) == vendor);
    let list = |vendor: &str, name: fn(&Gpu) -> String| {
        let names: Vec<String> =
            seen.iter().filter(|gpu| vendor_of(gpu) == vendor).map(|gpu| name(gpu)).collect();
        names.join(",")
    };
    if of("nvidia") {
        // Otherwise CUDA counts by speed, and the numbers would mean other devices.
        set("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned());
        set("CUDA_VISIBLE_DEVICES", list("nvidia", cuda_name));
        let for_containers = list("nvidia", |gpu| gpu.uuid.clone().unwrap_or_else(|| gpu.index.to_string()));
        // Empty would mean that nothing was said.
        set(
            "NVIDIA_VISIBLE_DEVICES",
            if for_containers.is_empty() { "void".to_owned() } else { for_containers },
        );
    }
    if of("amd") {
        let own = list("amd", |gpu| gpu.index.to_string());
        // What the lower layer leaves is counted anew by the upper one.
        let anew: Vec<String> =
            (0..own.split(',').filter(|id| !id.is_empty()).count()).map(|n| n.to_string()).collect();
        set("GPU_DEVICE_ORDINAL", anew.join(","));
        set("ROCR_VISIBLE_DEVICES", own);
    }
    if of("intel") {
        set("ZE_AFFINITY_MASK", list("intel", |gpu| gpu.index.to_string()));
    }
    variables
}

/// What hides the GPUs of a machine from all jobs of a worker that offers none. A number that no device has ends the list of
/// those that are seen.
pub(crate) fn hidden() -> impl Iterator<Item = (String, String)> {
    let variables = [
        ("MUSTER_GPUS", "0"),
        ("CUDA_VISIBLE_DEVICES", ""),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("ROCR_VISIBLE_DEVICES", "-1"),
        ("HIP_VISIBLE_DEVICES", "-1"),
        ("GPU_DEVICE_ORDINAL", "-1"),
    ];
    variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// The devices that a process of the job sees, each once, as numbers of this machine.
pub(crate) fn visible(job: &Job) -> Vec<u32> {
    let own = || job.devices.iter().map(|device| device.index).collect();
    let whole = job.devices.iter().all(|device| device.vram_mb.is_none());
    let Some(gang) = job.gang.as_ref().filter(|gang| gang.launch == LaunchMode::PerRank && whole) else {
        return own();
    };
    let Some(itself) = gang.peers.iter().find(|peer| peer.index == gang.index) else { return own() };
    let mut local: Vec<_> = gang.peers.iter().filter(|peer| peer.worker_id == itself.worker_id).collect();
    local.sort_by_key(|peer| peer.index);
    let mut seen: Vec<u32> = Vec::new();
    for index in local.into_iter().flat_map(|peer| &peer.devices) {
        if !seen.contains(index) {
            seen.push(*index);
        }
    }
    if seen.is_empty() { own() } else { seen }
}

fn vendor_of(gpu: &Gpu) -> &str {
    gpu.vendor.as_deref().unwrap_or("nvidia")
}

fn cuda_name(gpu: &Gpu) -> String {
    match &gpu.uuid {
        Some(uuid) if uuid.starts_with(PART) => uuid.clone(),
        _ => gpu.index.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gpus(count: u32, vendor: Option<&str>) -> Vec<Gpu> {
        let gpu = |index| Gpu {
            index,
            vram_mb: 100,
            uuid: Some(format!("GPU-{index}")),
            name: None,
            vendor: vendor.map(str::to_owned),
        };
        (0..count).map(gpu).collect()
    }

    fn job(devices: &serde_json::Value) -> Job {
        serde_json::from_value(json!({"id": "job-1", "command": "", "status": "running", "attempts": 1,
            "max_retries": 3, "created_at": "2026-01-01T00:00:00Z", "lease": 7, "devices": devices}))
        .unwrap()
    }

    fn told(job: &Job, gpus: &[Gpu]) -> Vec<String> {
        variables(job, gpus).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_job_sees_its_own_devices_by_number() {
        let two = job(&json!([{"index": 1}, {"index": 3}]));
        let expected = [
            "MUSTER_GPUS=2",
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=1,3",
            "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-3",
        ];
        assert_eq!(told(&two, &gpus(4, Some("nvidia"))), expected);
        assert_eq!(told(&two, &gpus(4, None)), expected);
        assert!(told(&two, &[]).is_empty(), "nothing is known of the devices here");
    }

    #[test]
    fn a_job_without_gpus_sees_none() {
        let expected = [
            "MUSTER_GPUS=0",
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=",
            "NVIDIA_VISIBLE_DEVICES=void",
        ];
        assert_eq!(told(&job(&json!([])), &gpus(2, None)), expected);
    }

    #[test]
    fn a_share_says_how_much_it_is() {
        let share = job(&json!([{"index": 0, "vram_mb": 40}]));
        let expected = [
            "MUSTER_GPUS=1",
            "MUSTER_GPU_VRAM_MB=40",
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=0",
            "NVIDIA_VISIBLE_DEVICES=GPU-0",
        ];
        assert_eq!(told(&share, &gpus(2, None)), expected);
    }

    #[test]
    fn each_vendor_has_its_own_variables() {
        let two = job(&json!([{"index": 2}, {"index": 3}]));
        let amd = ["MUSTER_GPUS=2", "GPU_DEVICE_ORDINAL=0,1", "ROCR_VISIBLE_DEVICES=2,3"];
        assert_eq!(told(&two, &gpus(4, Some("amd"))), amd);
        assert_eq!(told(&two, &gpus(4, Some("intel"))), ["MUSTER_GPUS=2", "ZE_AFFINITY_MASK=2,3"]);
        assert_eq!(told(&two, &gpus(4, Some("tenstorrent"))), ["MUSTER_GPUS=2"]);
        let mut parts = gpus(4, None);
        parts[2].uuid = Some("MIG-7".to_owned());
        assert!(told(&two, &parts).contains(&"CUDA_VISIBLE_DEVICES=MIG-7,3".to_owned()));
    }

    #[test]
    fn all_ranks_on_a_machine_see_the_gpus_of_all_of_them() {
        let peer = |index: u32, worker: &str, devices: &[u32]| json!({"index": index, "worker_id": worker, "host": "", "address": "", "devices": devices});
        let peers = json!([peer(0, "a", &[4]), peer(1, "b", &[0]), peer(2, "a", &[1]), peer(3, "a", &[2])]);
        let task = |index: u32, device: u32, launch: &str| {
            let mut task = job(&json!([{"index": device}]));
            let gang = json!({"gang_id": "g", "size": 4, "index": index, "round": 1, "launch": launch,
                "slurm_env": false, "peers": peers});
            task.gang = Some(serde_json::from_value(gang).unwrap());
            task
        };
        assert_eq!(visible(&task(2, 1, "per_rank")), [4, 1, 2], "in the order of the local ranks");
        assert_eq!(visible(&task(1, 0, "per_rank")), [0]);
        assert_eq!(visible(&task(2, 1, "per_node")), [1], "a node of its own");
        let told = told(&task(2, 1, "per_rank"), &gpus(8, None));
        assert!(told.contains(&"CUDA_VISIBLE_DEVICES=4,1,2".to_owned()), "{told:?}");
        assert!(told.contains(&"MUSTER_GPUS=1".to_owned()), "what is its own");
    }
}
