//! What attempts use is measured, and what they may use is held.

use std::fs;
use std::path::PathBuf;

use muster_protocol::ReportKind;
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::{Happened, Scheduler};

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

/// Takes memory in a process of its own, byte for byte.
const HUNGRY: &str = "exec python3 -c 'x = b\"x\" * 200000000; print(len(x))'";

/// The groups that the keeper of a worker has written down.
fn groups(worker: &Worker) -> Vec<PathBuf> {
    let text = fs::read_to_string(worker.directory().join("data/cgroups")).unwrap_or_default();
    text.lines().map(PathBuf::from).collect()
}

fn isolated(scheduler: &Scheduler, flags: &[&str]) -> Worker {
    isolated_with(scheduler, 1, flags)
}

fn isolated_with(scheduler: &Scheduler, slots: u32, flags: &[&str]) -> Worker {
    let slots = format!("--workers={slots}");
    let flags: Vec<&str> =
        [slots.as_str(), "--require-isolation"].into_iter().chain(flags.iter().copied()).collect();
    let worker = Worker::start(scheduler, &flags);
    let form = scheduler.until("it says how it isolates jobs", |inner| {
        Some(inner.registrations.last()?["isolation"].as_str()?.to_owned())
    });
    assert!(
        form.starts_with("cgroup-v"),
        "{form}: these tests need a machine on which control groups can be made"
    );
    if let Ok(wanted) = std::env::var("MUSTER_TEST_ISOLATION") {
        assert_eq!(form, wanted);
    }
    worker
}

#[test]
fn a_job_that_takes_more_memory_than_it_asked_for_ends_as_out_of_memory() {
    let scheduler = Scheduler::start();
    let _worker = isolated(&scheduler, &[]);
    let limited = json!({"resources": {"memory_mb": 64}});
    let report = scheduler.report_of(&scheduler.submit(HUNGRY, &limited));
    assert_eq!((report.kind, report.signal), (ReportKind::Oom, Some(9)));
    assert_eq!(report.message.as_deref(), Some("out of memory: used 64 MiB of its limit of 64 MiB"));
    // Only a child was killed, and the program went on.
    let id = scheduler.submit(&format!("( {HUNGRY} ); exit 3"), &limited);
    let report = scheduler.report_of(&id);
    let said = report.message.unwrap();
    match report.exit_code {
        Some(code) => {
            assert_eq!((report.kind, code), (ReportKind::Oom, 3));
            assert!(said.contains("one of its processes was killed"), "{said}");
        }
        // The second form ends all of the job.
        None => assert_eq!((report.kind, report.signal), (ReportKind::Oom, Some(9)), "{said}"),
    }
    // The next attempt in the same slot has its own limit and its own figures.
    let report = scheduler.report_of(&scheduler.submit("exit 4", &limited));
    assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(4)));
    let report = scheduler.report_of(&scheduler.submit(HUNGRY, &json!({"resources": {"memory_mb": 400}})));
    assert_eq!(report.kind, ReportKind::Done);
    let peak = report.usage.unwrap().peak_memory_bytes.unwrap();
    assert!((200_000_000..400 << 20).contains(&peak), "{peak}");
    let report = scheduler.report_of(&scheduler.submit(HUNGRY, &json!({})));
    assert_eq!(report.kind, ReportKind::Done, "who asks for nothing is not limited");
}

#[test]
fn a_job_gets_no_more_cores_than_it_asked_for() {
    let scheduler = Scheduler::start();
    let _worker = isolated(&scheduler, &[]);
    // Two processes that count until they have used 2 s of processor time between them, on half a core.
    let spin = "import time\nwhile time.process_time() < 1: pass";
    let script = format!("python3 -c '{spin}' & python3 -c '{spin}'; wait");
    let begun = std::time::Instant::now();
    let report = scheduler.report_of(&scheduler.submit(&script, &json!({"resources": {"cpus": 0.5}})));
    let (wall, usage) = (begun.elapsed().as_millis() as u64, report.usage.unwrap());
    let used = usage.cpu_user_ms.unwrap() + usage.cpu_system_ms.unwrap();
    assert_eq!(report.kind, ReportKind::Done);
    assert!(used >= 1_900, "{usage:?}");
    assert!(used * 100 <= wall * 56, "{used} ms of processor time in {wall} ms are more than half a core");
}

#[test]
fn cores_are_shared_where_the_worker_says_so() {
    let scheduler = Scheduler::start();
    let worker = isolated(&scheduler, &["--cpu-limit=shares"]);
    let id = scheduler.submit("sleep 300", &json!({"resources": {"cpus": 0.5}}));
    scheduler.until("it runs", |inner| {
        inner
            .history
            .iter()
            .any(|event| matches!(event, Happened::Beat { job_id } if *job_id == id))
            .then_some(())
    });
    let read = |name: &str| {
        let file = groups(&worker)
            .into_iter()
            .map(|tree| tree.join("slot-1.0").join(name))
            .find(|file| file.exists());
        file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default().trim().to_owned()
    };
    eventually("its share is written", || {
        (read("cpu.shares") == "512" || read("cpu.weight") == "50").then_some(())
    });
    assert!(read("cpu.cfs_quota_us") == "-1" || read("cpu.max").starts_with("max"));
    scheduler.stop(&id, 0);
    scheduler.report_of(&id);
}

#[test]
fn a_job_that_forks_without_end_is_held_and_leaves_nobody() {
    let scheduler = Scheduler::start();
    let worker = isolated(&scheduler, &["--max-processes=60"]);
    // Children that fork again and again, each in a session of its own, deaf to what is polite.
    let bomb = "import os, signal, time\n\
        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
        full = False\n\
        while not full:\n    \
            try:\n        \
                if os.fork() == 0: os.setsid()\n    \
            except BlockingIOError: full = True\n\
        open(\"full\", \"w\")\n\
        while True:\n    \
            try:\n        \
                os.fork()\n    \
            except BlockingIOError: time.sleep(0.001)\n";
    fs::write(worker.directory().join("bomb.py"), bomb).unwrap();
    let id = scheduler.submit("exec python3 bomb.py", &json!({"grace_seconds": 0}));
    let full = worker.directory().join("full");
    eventually("no more processes can be made", || full.exists().then_some(()));
    let place = groups(&worker).into_iter().find(|tree| tree.join("slot-1.0/pids.max").exists()).unwrap();
    let number = |name: &str| -> u64 {
        fs::read_to_string(place.join("slot-1.0").join(name)).unwrap().trim().parse().unwrap()
    };
    assert!(number("pids.current") <= 60);
    scheduler.stop(&id, 0);
    scheduler.report_of(&id);
    let left = fs::read_to_string(place.join("slot-1.0/cgroup.procs")).unwrap();
    assert_eq!(left, "", "nothing is left when the end is reported");
    assert_eq!(number("pids.max"), 60, "the next job may have processes again");
    let report = scheduler.report_of(&scheduler.submit("true | true", &json!({})));
    assert_eq!(report.kind, ReportKind::Done, "{report:?}");
}

#[test]
fn groups_go_with_the_worker_however_it_ends() {
    let scheduler = Scheduler::start();
    let mut worker = isolated(&scheduler, &[]);
    let run = |scheduler: &Scheduler| scheduler.report_of(&scheduler.submit("true", &json!({}))).kind;
    assert_eq!(run(&scheduler), ReportKind::Done);
    let first = groups(&worker);
    assert!(!first.is_empty() && first.iter().all(|tree| tree.join("slot-1.0").exists()), "{first:?}");
    // The guard removes what a killed keeper leaves.
    kill(worker.keeper().unwrap(), Signal::SIGKILL).unwrap();
    eventually("the groups are removed", || (!first.iter().any(|tree| tree.exists())).then_some(()));
    assert_eq!(run(&scheduler), ReportKind::Done);
    // Nobody is left who could; the next worker does.
    let file = worker.directory().join("pid");
    let escape = format!(
        "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 300' & sleep 300",
        file.display()
    );
    scheduler.submit(&escape, &json!({}));
    let pid = eventually("it has told its number", || fs::read_to_string(&file).ok());
    let second = groups(&worker);
    worker.signal(Signal::SIGSTOP);
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        worker.keepers().into_iter().for_each(|keeper| kill(keeper, signal).unwrap());
    }
    worker.kill9();
    assert!(second.iter().any(|tree| tree.exists()));
    worker.restart();
    assert_eq!(run(&scheduler), ReportKind::Done);
    assert!(!is_alive(pid.trim().parse().unwrap()) && !second.iter().any(|tree| tree.exists()));
    let third = groups(&worker);
    worker.signal(Signal::SIGTERM);
    worker.wait();
    eventually("the groups are removed", || (!third.iter().any(|tree| tree.exists())).then_some(()));
}

#[test]
fn a_worker_without_isolation_says_so_and_one_that_needs_it_does_not_start() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1", "--isolation=none"]);
    assert_eq!(scheduler.report_of(&scheduler.submit("true", &json!({}))).kind, ReportKind::Done);
    scheduler.with(|inner| assert_eq!(inner.registrations[0]["isolation"], "none"));
    assert!(groups(&worker).is_empty());
    let mut refused = Worker::start(&scheduler, &["--workers=1", "--isolation=none", "--require-isolation"]);
    assert_eq!(refused.wait().code(), Some(2));
    assert!(refused.log().contains("isolation is none"), "{}", refused.log());
}

#[test]
fn without_groups_memory_is_watched() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=2", "--isolation=none"]);
    let hungry = "python3 -c 'x = b\"x\" * 200000000; import time; time.sleep(300)'";
    let id = scheduler.submit(&format!("setsid {hungry} & wait"), &json!({"resources": {"memory_mb": 64}}));
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Oom);
    let message = report.message.unwrap();
    assert!(
        message.starts_with("out of memory: used ") && message.contains(" of its limit of 64 MiB"),
        "{message}"
    );
    let modest = scheduler.submit("sleep 0.5", &json!({"resources": {"memory_mb": 64}}));
    assert_eq!(scheduler.report_of(&modest).kind, ReportKind::Done);
}

#[test]
fn a_worker_that_offers_no_gpus_hides_those_of_its_machine() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1", "--gpus=none", "--pass-env=LC_TEST"]);
    let show = "echo \"cuda=$CUDA_VISIBLE_DEVICES, for containers=$NVIDIA_VISIBLE_DEVICES, amd=$ROCR_VISIBLE_DEVICES\"";
    let id = scheduler.submit(show, &json!({"env": {"CUDA_VISIBLE_DEVICES": "0,1"}}));
    let said = scheduler.output_with(&id, "stdout", "\n");
    assert_eq!(said.trim(), "cuda=, for containers=void, amd=-1");
}

#[test]
fn a_job_gets_no_more_rights_than_it_starts_with_unless_the_worker_says_so() {
    let scheduler = Scheduler::start();
    for (flags, expected) in
        [(vec!["--workers=1"], "1"), (vec!["--workers=1", "--allow-new-privileges"], "0")]
    {
        let _worker = Worker::start(&scheduler, &flags);
        let id = scheduler.submit("grep NoNewPrivs /proc/self/status", &json!({}));
        assert_eq!(scheduler.output_with(&id, "stdout", "\n").split_whitespace().last(), Some(expected));
    }
}

/// The CPUs that a process of a job may use, and how many there are for it.
const SHOW_CPUS: &str = "echo \"$(grep Cpus_allowed_list /proc/self/status | cut -f2) $(nproc)\"";

#[test]
fn a_job_that_asks_for_whole_cores_has_them_for_itself_where_the_worker_binds() {
    let scheduler = Scheduler::start();
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    if !controllers.is_empty() && !controllers.contains("cpuset") {
        // A kernel for one CPU knows no sets of them.
        let mut worker = Worker::start(&scheduler, &["--workers=1", "--cpu-bind"]);
        assert_eq!(worker.wait().code(), Some(1));
        assert!(worker.log().contains("no controller for cpuset"), "{}", worker.log());
        return;
    }
    let mut worker = isolated_with(&scheduler, 3, &["--cpus=8", "--cpu-bind"]);
    let cpus = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let alone = cpus(&scheduler.output_with(&scheduler.submit(SHOW_CPUS, &json!({})), "stdout", "\n"));
    let one = json!({"resources": {"cpus": 1}});
    let held = scheduler.submit(&format!("{SHOW_CPUS}; exec sleep 300"), &one);
    let own = scheduler.output_with(&held, "stdout", "\n");
    assert_eq!(own.split_whitespace().count(), 2, "{own}");
    assert!(own.trim().ends_with(" 1"), "nproc shows the one CPU: {own}");
    let rest = || cpus(&scheduler.output_with(&scheduler.submit(SHOW_CPUS, &json!({})), "stdout", "\n"));
    let beside = rest();
    if alone == cpus(&own) {
        assert_eq!(beside, alone, "a machine with one CPU has no others to share");
    } else {
        assert_ne!(beside, alone, "others stay off it: {own}");
        assert_ne!(beside, cpus(&own));
        // The agent is replaced; the keeper still knows who has what.
        worker.kill9();
        worker.restart();
        assert_eq!(rest(), beside);
    }
    scheduler.stop(&held, 0);
    scheduler.report_of(&held);
    assert_eq!(rest(), alone, "it is free again");
}

#[test]
fn a_worker_that_cannot_bind_jobs_to_cpus_does_not_start() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1", "--isolation=none", "--cpu-bind"]);
    assert_eq!(worker.wait().code(), Some(1));
    assert!(
        worker.log().contains("--cpu-bind") && worker.log().contains("isolation is none"),
        "{}",
        worker.log()
    );
}

#[test]
fn what_is_deaf_to_every_signal_ends_with_its_job() {
    let scheduler = Scheduler::start();
    for isolation in ["--isolation=auto", "--isolation=none"] {
        let worker = Worker::start(&scheduler, &["--workers=1", isolation]);
        let file = worker.directory().join("deaf");
        let deaf = "import os, signal, sys, time\n\
            for number in range(1, 65):\n    \
                try: signal.signal(number, signal.SIG_IGN)\n    \
                except (OSError, ValueError): pass\n\
            if os.fork() == 0:\n    \
                os.setsid()\n    \
                if os.fork() == 0:\n        \
                    open(\"new\", \"w\").write(str(os.getpid())); os.rename(\"new\", \"deaf\")\n    \
                time.sleep(300)\n\
            time.sleep(300)\n";
        fs::write(worker.directory().join("deaf.py"), deaf).unwrap();
        let id = scheduler.submit("exec python3 deaf.py", &json!({}));
        let pid = eventually("it has told its number", || fs::read_to_string(&file).ok()?.parse().ok());
        scheduler.stop(&id, 100);
        scheduler.report_of(&id);
        assert!(!is_alive(pid), "{isolation}");
    }
}
