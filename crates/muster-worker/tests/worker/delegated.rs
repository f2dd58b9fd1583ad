//! A worker in a group of the second form that is not the uppermost one: in a unit of systemd with `Delegate=yes`, or in a
//! container with a view of its own. It must leave its group before it can hand controllers down.
//!
//! `second_form` runs these on a kernel that has all of cgroup v2, and nobody else does: they make groups at the root.

use std::fs;

use muster_protocol::ReportKind;
use serde_json::json;

use crate::process::{Worker, eventually};
use crate::scheduler::Scheduler;

/// As systemd does: the first start is in the group of the unit, a later one in the leaf (`DelegateSubgroup`).
const UNIT: &str = "d=/sys/fs/cgroup/unit; mkdir -p $d; test -d $d/muster-worker && d=$d/muster-worker; \
    echo $$ > $d/cgroup.procs";
const HUNGRY: &str = "exec python3 -c 'x = b\"x\" * 200000000; print(len(x))'";

/// Whether this is that kernel.
fn is_second_form() -> bool {
    std::env::var("MUSTER_TEST_ISOLATION").is_ok_and(|form| form == "cgroup-v2")
}

fn groups_of(place: &str) -> String {
    fs::read_to_string(format!("/sys/fs/cgroup/{place}/cgroup.procs")).unwrap_or_default()
}

fn limits_hold(scheduler: &Scheduler, below: &str) {
    let id = scheduler.submit("grep ^0:: /proc/self/cgroup", &json!({}));
    let said = scheduler.output_with(&id, "stdout", "\n");
    assert!(said.starts_with(&format!("0::{below}/muster-")) && said.contains("/slot-1."), "{said}");
    let report = scheduler.report_of(&scheduler.submit(HUNGRY, &json!({"resources": {"memory_mb": 64}})));
    assert_eq!(report.kind, ReportKind::Oom, "{report:?}");
}

fn isolation(scheduler: &Scheduler, registrations: usize) -> String {
    scheduler.until("it registers", |inner| {
        let last = inner.registrations.get(registrations - 1)?;
        Some(last["isolation"].as_str()?.to_owned())
    })
}

#[test]
fn in_a_unit_of_systemd_the_worker_goes_into_a_leaf_and_finds_it_again() {
    if !is_second_form() {
        return;
    }
    let scheduler = Scheduler::start();
    let mut worker = Worker::start_after(&scheduler, UNIT);
    assert_eq!(isolation(&scheduler, 1), "cgroup-v2", "{}", worker.log());
    limits_hold(&scheduler, "/unit");
    assert_eq!(groups_of("unit"), "", "nobody is left in the group of the unit");
    assert!(groups_of("unit/muster-worker").lines().count() >= 3, "worker, keeper and guard");
    worker.kill9();
    worker.restart();
    assert_eq!(isolation(&scheduler, 2), "cgroup-v2", "{}", worker.log());
    limits_hold(&scheduler, "/unit");
}

#[test]
fn in_a_container_everybody_goes_into_the_leaf() {
    if !is_second_form() {
        return;
    }
    let scheduler = Scheduler::start();
    // Somebody else in the container, and a view that begins at its group.
    let words = "d=/sys/fs/cgroup/box; mkdir -p $d; echo $$ > $d/cgroup.procs; sleep 300 & \
        set -- unshare --cgroup --mount sh -c 'umount /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec \"$@\"' - \"$@\"";
    let worker = Worker::start_after(&scheduler, words);
    assert_eq!(isolation(&scheduler, 1), "cgroup-v2", "{}", worker.log());
    limits_hold(&scheduler, "");
    assert_eq!(groups_of("box"), "");
    assert!(groups_of("box/muster-worker").lines().count() >= 4, "the stranger too");
}

#[test]
fn where_others_are_in_its_group_the_worker_stays_and_says_why() {
    if !is_second_form() {
        return;
    }
    let scheduler = Scheduler::start();
    let words = "d=/sys/fs/cgroup/session; mkdir -p $d; echo $$ > $d/cgroup.procs; sleep 300 & true";
    let worker = Worker::start_after(&scheduler, words);
    assert_eq!(isolation(&scheduler, 1), "none");
    eventually("it says why", || worker.log().contains("Delegate=yes").then_some(()));
    assert!(groups_of("session").lines().count() >= 4, "worker, keeper, guard and the other one");
    assert!(!std::path::Path::new("/sys/fs/cgroup/session/muster-worker").exists());
    assert_eq!(scheduler.report_of(&scheduler.submit("true", &json!({}))).kind, ReportKind::Done);
}
