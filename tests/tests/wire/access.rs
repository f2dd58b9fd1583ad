//! Users of one machine: a scheduler on loopback serves the one who started it and root, and nobody else.
//!
//! The scheduler and its clients run as different users, which takes root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use muster_tests::{PortLease, Process, binary, until};
use nix::sys::signal::Signal;
use tempfile::TempDir;

const ROOT: u32 = 0;
const OWNER: u32 = 61_001;
const OTHER: u32 = 65_534;
const BOUND: Duration = Duration::from_secs(30);

/// Connects to `argv[1]` at port `argv[2]`, sends `argv[3]`, and does as `argv[4]` says: `read` prints the answer,
/// `leave` closes at once without reading, `device` has bound the socket to the loopback device before.
const CLIENT: &str = r#"
import socket, sys
host, port, request, manner = sys.argv[1:]
family = socket.AF_INET6 if ":" in host else socket.AF_INET
client = socket.socket(family)
client.settimeout(30)
if manner == "device":
    client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
client.connect((host, int(port)))
client.sendall(request.encode())
answer = b""
while manner != "leave" and (part := client.recv(65536)):
    answer += part
client.close()
sys.stdout.buffer.write(answer)
"#;

/// A scheduler that another user than the test has started.
struct Owned {
    process: Process,
    port: PortLease,
    host: &'static str,
    _directory: TempDir,
}

impl Owned {
    fn start(listen: &str, host: &'static str, arguments: &[&str]) -> Self {
        let directory = TempDir::with_prefix("muster-test-").unwrap();
        let port = PortLease::take();
        // The directory of the build may be closed to others.
        let program = directory.path().join("muster-scheduler");
        fs::copy(binary("muster-scheduler"), &program).unwrap();
        chown(directory.path(), Some(OWNER), Some(OWNER)).unwrap();
        let mut command = Command::new(program);
        command.arg("--listen").arg(format!("{listen}:{}", port.port())).args(["--db-driver", "memory"]);
        command.args(arguments).current_dir(directory.path()).uid(OWNER).gid(OWNER);
        let process = Process::start("muster-scheduler", command, &directory.path().join("log"));
        let owned = Self { process, port, host, _directory: directory };
        until("the scheduler is ready", BOUND, || owned.get(OWNER, "/readyz").starts_with("HTTP/1.1 200"));
        owned
    }

    /// Sends a request as a user and returns what came back; nothing when there was no connection.
    fn send(&self, uid: u32, request: &str, manner: &str) -> String {
        let port = self.port.port().to_string();
        let mut client = Command::new("python3");
        client.args(["-c", CLIENT, self.host, &port, request, manner]).uid(uid).gid(uid).current_dir("/");
        let output = client.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn get(&self, uid: u32, target: &str) -> String {
        self.send(uid, &get(target), "read")
    }

    fn jobs(&self) -> usize {
        let answer = self.get(OWNER, "/jobs");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.matches("\"command\"").count()
    }
}

fn get(target: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    )
}

fn submit() -> String {
    let body = r#"{"command":"true"}"#;
    let length = body.len();
    format!(
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "not {status}: {answer}");
}

#[test]
fn another_user_of_the_machine_is_refused_in_every_family_of_addresses() {
    let places = [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("[::ffff:127.0.0.1]", "127.0.0.1")];
    for (listen, host) in places {
        let scheduler = Owned::start(listen, host, &[]);
        for target in ["/jobs", "/users", "/metrics", "/jobs/next", "/tokens"] {
            let refused = scheduler.get(OTHER, target);
            assert_status(&refused, 403);
            assert!(refused.contains("\"code\":\"other_user\""), "{listen}: {refused}");
            assert!(refused.contains("uid 65534") && refused.contains("--loopback any"), "{refused}");
        }
        assert_status(&scheduler.send(OTHER, &submit(), "read"), 403);
        assert_eq!(scheduler.jobs(), 0, "{listen}");
        for (uid, jobs) in [(OWNER, 1), (ROOT, 2)] {
            assert_status(&scheduler.send(uid, &submit(), "read"), 201);
            assert_eq!(scheduler.jobs(), jobs, "{listen}");
        }
    }
}

#[test]
fn nobody_passes_for_root_by_leaving_early() {
    let mut scheduler = Owned::start("127.0.0.1", "127.0.0.1", &[]);
    // A closed socket is shown as root's. The scheduler stands still, so that it sees nothing but closed ones.
    scheduler.process.signal(Signal::SIGSTOP);
    for _ in 0..5 {
        scheduler.send(OTHER, &submit(), "leave");
    }
    scheduler.process.signal(Signal::SIGCONT);
    // Connections are accepted in turn: those before have been accepted when this one is answered.
    assert_status(&scheduler.get(OWNER, "/jobs"), 200);
    // Whether a request of a closed connection is read at all is up to the kernel; one that was let in would be a job soon.
    for _ in 0..50 {
        assert_eq!(scheduler.jobs(), 0);
    }
}

#[test]
fn a_connection_whose_owner_is_not_known_is_refused() {
    let scheduler = Owned::start("127.0.0.1", "127.0.0.1", &[]);
    // The lookup names no device, and so does not find a socket that is bound to one.
    let refused = scheduler.send(ROOT, &get("/jobs"), "device");
    assert_status(&refused, 403);
    assert!(refused.contains("\"code\":\"unknown_user\"") && refused.contains("--loopback any"), "{refused}");
}

#[test]
fn the_operator_can_open_a_scheduler_to_every_user_of_the_machine() {
    let scheduler = Owned::start("127.0.0.1", "127.0.0.1", &["--loopback", "any"]);
    assert_status(&scheduler.send(OTHER, &submit(), "read"), 201);
    assert_eq!(scheduler.jobs(), 1);
}
