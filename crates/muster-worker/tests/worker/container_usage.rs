//! What attempts in containers use is measured, short ones too.

use muster_protocol::ReportKind;
use serde_json::json;

use crate::executors::Executor;
use crate::scheduler::Scheduler;

#[test]
fn what_a_container_used_is_told() {
    let scheduler = Scheduler::start();
    let _worker = Executor::Container.worker(&scheduler, &["--workers=1"]);
    let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    // What is taken twice at a time: where it comes from and where it goes to.
    let take = "head -c 100000000 /dev/zero | tail -c 100000000 | wc -c";
    let command = format!("({count}) & ({count}) & {take}; wait");
    let id = Executor::Container.submit(&scheduler, &command, &json!({}));
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Done, "{report:?}");
    let usage = report.usage.unwrap();
    assert!(usage.cpu_user_ms.unwrap() >= 100, "{usage:?}");
    assert!(usage.cpu_system_ms.is_some(), "{usage:?}");
    assert!((100_000_000..400_000_000).contains(&usage.peak_memory_bytes.unwrap()), "{usage:?}");
}

#[test]
fn the_time_of_a_container_is_exact_to_its_end() {
    let scheduler = Scheduler::start();
    let _worker = Executor::Container.worker(&scheduler, &["--workers=1"]);
    // What the container itself reads last is less than what is told, by little.
    let command = "timeout 3 sh -c 'while :; do :; done'; for f in /sys/fs/cgroup/cpuacct/cpuacct.usage /sys/fs/cgroup/cpu.stat; do cat $f 2>/dev/null; done; exit 7";
    let id = Executor::Container.submit(&scheduler, command, &json!({}));
    let report = scheduler.report_of(&id);
    assert_eq!(report.exit_code, Some(7), "{report:?}");
    let told = scheduler.output_with(&id, "stdout", "\n");
    let own = told.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    let own_ms = if told.contains("usage_usec") { own / 1e3 } else { own / 1e6 };
    let usage = report.usage.unwrap();
    let measured = (usage.cpu_user_ms.unwrap() + usage.cpu_system_ms.unwrap()) as f64;
    assert!((own_ms - 2.0..own_ms + 300.0).contains(&measured), "{own_ms} ms, and {usage:?}");
}

#[test]
fn a_short_container_has_a_time_or_says_that_it_has_none() {
    let scheduler = Scheduler::start();
    let _worker = Executor::Container.worker(&scheduler, &["--workers=1"]);
    let count = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; usleep 30000";
    let ids: Vec<String> =
        (0..8).map(|_| Executor::Container.submit(&scheduler, count, &json!({}))).collect();
    let used = ids.iter().map(|id| scheduler.report_of(id).usage);
    let times: Vec<_> = used
        .map(|used| used.map(|used| used.cpu_user_ms.unwrap() + used.cpu_system_ms.unwrap_or(0)))
        .collect();
    assert!(times.iter().flatten().all(|ms| (3..5_000).contains(ms)), "none is zero: {times:?}");
    assert!(times.iter().flatten().count() >= 4, "most are measured: {times:?}");
}
