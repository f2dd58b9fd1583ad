//! What attempts use is measured, and what they may use is held.

use serde_json::json;

use crate::process::Worker;
use crate::scheduler::Scheduler;

/// Takes this many bytes of memory at once, twice: where they come from and where they go to.
fn taking(bytes: u64) -> String {
    format!("head -c {bytes} /dev/zero | tail -c {bytes} | wc -c")
}

#[test]
fn reports_tell_what_an_attempt_used() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let id = scheduler.submit(&format!("{count}; {}", taking(100_000_000)), &json!({}));
    let usage = scheduler.report_of(&id).usage.unwrap();
    assert!(usage.cpu_user_ms.unwrap() >= 10, "{usage:?}");
    assert!(usage.cpu_system_ms.is_some(), "{usage:?}");
    assert!((100_000_000..250_000_000).contains(&usage.peak_memory_bytes.unwrap()), "{usage:?}");
    let id = scheduler.submit("x", &json!({"argv": ["/no/such/program"]}));
    assert_eq!(scheduler.report_of(&id).usage, None, "there was no process");
}
