//! Flags, variables and exit codes: what is wrong is named, and nothing starts half.

use std::process::Command;
use std::time::Duration;

use muster_tests::{Http, PortLease, Process, Scheduler, StoreKind, binary, until};
use tempfile::TempDir;

/// Starts a program that should end by itself, and returns its exit code and what it wrote.
fn refused(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = Command::new(binary(program));
    command.args(arguments).envs(variables.iter().copied()).current_dir(directory.path());
    let mut process = Process::start(program, command, &directory.path().join("log"));
    let status = process.wait(Duration::from_secs(15));
    (status.code(), process.output())
}

#[track_caller]
fn assert_refused(program: &str, arguments: &[&str], code: i32, named: &str) {
    let (actual, output) = refused(program, arguments, &[]);
    assert_eq!(actual, Some(code), "{program} {arguments:?}: {output}");
    assert!(output.contains(named), "{program} {arguments:?} does not name {named}: {output}");
}

#[test]
fn w26_wrong_values_end_with_2_and_are_named() {
    assert_refused("muster-scheduler", &["--db-driver", "oracle"], 2, "oracle");
    assert_refused("muster-scheduler", &["--mode", "sideways"], 2, "sideways");
    assert_refused("muster-scheduler", &["--port", "seventy"], 2, "seventy");
    assert_refused("muster-scheduler", &["--no-such-flag"], 2, "--no-such-flag");
    assert_refused("muster-scheduler", &["--reaper-interval", "soon"], 2, "soon");
    assert_refused("muster-worker", &["--workers", "many"], 2, "many");
    assert_refused("muster-worker", &["--no-such-flag"], 2, "--no-such-flag");
    assert_refused("muster-worker", &["--scheduler", "ftp://nowhere"], 2, "ftp://nowhere");
}

#[test]
fn w26_wrong_variables_end_with_2_and_are_named() {
    let variables =
        [("MUSTER_DB_DRIVER", "oracle"), ("MUSTER_REAPER_INTERVAL", "soon"), ("MUSTER_PORT", "seventy")];
    for (variable, value) in variables {
        let (code, output) = refused("muster-scheduler", &[], &[(variable, value)]);
        assert_eq!(code, Some(2), "{variable}={value}: {output}");
        assert!(output.contains(value), "{variable}={value}: {output}");
    }
}

#[test]
fn f3_what_cannot_be_opened_ends_with_1() {
    let taken = PortLease::take();
    let _listener = std::net::TcpListener::bind(("127.0.0.1", taken.port())).unwrap();
    let address = format!("127.0.0.1:{}", taken.port());
    assert_refused(
        "muster-scheduler",
        &["--db-driver", "memory", "--listen", &address],
        1,
        &taken.port().to_string(),
    );
    let free = PortLease::take();
    let address = format!("127.0.0.1:{}", free.port());
    let nowhere = "/proc/nowhere/muster.db";
    let arguments = ["--db-driver", "sqlite", "--db-url", nowhere, "--listen", &address];
    assert_refused("muster-scheduler", &arguments, 1, nowhere);
    let (code, output) = refused("muster-scheduler", &["--db-driver", "postgres", "--listen", &address], &[]);
    assert!(matches!(code, Some(1 | 2)), "{output}");
    assert!(output.contains("db-url"), "{output}");
}

#[test]
fn a_scheduler_beyond_loopback_starts_only_when_told_that_the_network_is_trusted() {
    let port = PortLease::take();
    for host in ["0.0.0.0", "[::]"] {
        let address = format!("{host}:{}", port.port());
        for program in [&["muster-scheduler"][..], &["muster", "up"]] {
            let arguments = [&program[1..], &["--db-driver", "memory", "--listen", &address]].concat();
            assert_refused(program[0], &arguments, 2, "--insecure");
        }
    }
    let address = format!("0.0.0.0:{}", port.port());
    for program in [&["muster-scheduler"][..], &["muster", "up"]] {
        let directory = TempDir::with_prefix("muster-test-").unwrap();
        let mut command = Command::new(binary(program[0]));
        command.args(&program[1..]).args(["--db-driver", "memory", "--listen", &address]);
        command.env("MUSTER_INSECURE", "true").current_dir(directory.path());
        let mut scheduler = Process::start(program[0], command, &directory.path().join("log"));
        until("it warns", Duration::from_secs(15), || {
            assert!(scheduler.is_alive(), "{}", scheduler.output());
            scheduler.output().contains("anybody on the network who reaches this port can run commands")
        });
        let http = Http::new(port.port());
        let ready = || http.request("GET", "/readyz").try_send().is_ok_and(|response| response.status == 200);
        until("it is ready", Duration::from_secs(15), ready);
        scheduler.kill9();
    }
}

#[test]
fn f1_the_original_flags_work_in_both_forms() {
    let port = PortLease::take();
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = Command::new(binary("muster-scheduler"));
    let database = directory.path().join("muster.db");
    command.arg(format!("--port={}", port.port())).args(["--db-driver", "sqlite"]);
    command.arg(format!("--db-url={}", database.display())).current_dir(directory.path());
    let mut scheduler = Process::start("muster-scheduler", command, &directory.path().join("scheduler.log"));
    let http = Http::new(port.port());
    let ready = || http.request("GET", "/readyz").try_send().is_ok_and(|response| response.status == 200);
    until("the scheduler is ready", Duration::from_secs(15), ready);
    assert!(database.is_file());
    let mut command = Command::new(binary("muster-worker"));
    command.arg(format!("--scheduler=http://127.0.0.1:{}", port.port())).args([
        "--workers=2",
        "--worker-id",
        "w-1",
    ]);
    command.args(["--exec-addr=host:9000", "--vram-mb", "100", "--memory-mb=200"]);
    command.env("MUSTER_DATA_DIR", directory.path().join("worker")).current_dir(directory.path());
    let _worker = Process::start("muster-worker", command, &directory.path().join("worker.log"));
    until("the worker is registered", Duration::from_secs(15), || {
        let workers = http.get("/workers").expect(200).json();
        workers[0]["id"] == "w-1"
            && workers[0]["exec_addr"] == "host:9000"
            && workers[0]["resources"]["vram_mb"] == 100
            && workers[0]["resources"]["memory_mb"] == 200
    });
    assert!(scheduler.is_alive());
}

#[test]
fn e2_logs_are_json_lines_with_the_request_id() {
    let mut scheduler = Scheduler::start(StoreKind::Memory);
    let response = scheduler.http().post("/jobs", r#"{"command":"true"}"#);
    let id = response.header("x-request-id").unwrap().to_owned();
    let find = |output: &str| {
        let lines = output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.into_iter().find(|line| line["request_id"] == id.as_str())
    };
    until("a line of the log carries the request id", Duration::from_secs(5), || {
        find(&scheduler.process().output()).is_some()
    });
    let line = find(&scheduler.process().output()).unwrap();
    for key in ["time", "level", "msg", "job_id"] {
        assert!(line[key].is_string(), "{key} is missing: {line}");
    }
}
