//! One SeaweedFS: start, kill, start again on the same ports and data.
//!
//! The server is a child of this process. A watchdog, another child, waits for the end of this process (its
//! standard input closes) and then kills the server and removes the directory.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use muster_pg_testkit::PortLease;

use crate::listing::files_below;

/// What clients show.
pub const ACCESS_KEY: &str = "muster";
pub const SECRET_KEY: &str = "muster-secret";
/// The bucket that is there from the start.
pub const BUCKET: &str = "muster-test";

const START_BOUND: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Kills the server whose number is in `$1/pid` and removes `$1`. A process counts as the server only when its
/// working directory is that one, so that a number reused by another is left alone.
const WATCHDOG: &str = r#"
cat >/dev/null
pid=$(cat "$1/pid" 2>/dev/null)
if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$1" ]; then kill -KILL "$pid"; fi
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" 2>/dev/null && break; sleep 0.2; done
"#;

/// A running (or deliberately killed) S3 server.
#[derive(Debug)]
pub struct Seaweed {
    directory: PathBuf,
    s3: PortLease,
    inner: [PortLease; 6],
    server: Mutex<Option<Child>>,
    watchdog: Option<Child>,
}

impl Seaweed {
    /// The server that all tests of this process share; started by the first that asks.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Seaweed> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A private server, for tests that kill it.
    pub fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-s3-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).expect("the temporary directory is writable");
        let directory = directory.canonicalize().expect("the directory exists");
        let server = Self {
            watchdog: Some(spawn_watchdog(&directory)),
            s3: PortLease::take(),
            inner: std::array::from_fn(|_| PortLease::take()),
            server: Mutex::new(None),
            directory,
        };
        server.launch();
        server
    }

    /// Where it listens, also while it does not run.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.s3.port())
    }

    /// Ends it as a loss of power would.
    pub fn kill(&self) {
        if let Some(mut server) = self.lock().take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Stops it in its tracks: it takes connections, as its machine does, and answers nothing.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// The objects whose keys begin with a folder, and parts of uploads in the bucket that nobody completed.
    pub fn objects_and_parts(&self, folder: &str) -> (Vec<String>, Vec<String>) {
        let filer = self.inner[2].port();
        let root = format!("/buckets/{BUCKET}");
        (files_below(filer, &format!("{root}/{folder}")), files_below(filer, &format!("{root}/.uploads")))
    }

    fn signal(&self, signal: &str) {
        if let Some(server) = &*self.lock() {
            let sent = Command::new("kill").args([signal, &server.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "the server can be signalled");
        }
    }

    /// Starts it again, on the same ports and data.
    pub fn launch(&self) {
        let program = program();
        let [master, volume, filer, admin, iceberg, lance] = self.inner.each_ref().map(PortLease::port);
        let log = fs::File::create(self.directory.join("log")).expect("the directory is writable");
        let mut command = Command::new(program);
        command
            .arg("mini")
            .arg(format!("-dir={}", self.directory.display()))
            .args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-metricsIp=127.0.0.1"])
            .args([
                "-admin.ui=false",
                "-webdav=false",
                "-master.telemetry=false",
                "-s3.autoCreateBucket=false",
                // By itself it finds no room for volumes when it starts a second time on the same data.
                "-volume.max=100",
            ])
            .arg(format!("-bucket={BUCKET}"))
            .arg(format!("-s3.port={}", self.s3.port()))
            .arg(format!("-master.port={master}"))
            .arg(format!("-volume.port={volume}"))
            .arg(format!("-filer.port={filer}"))
            .arg(format!("-admin.port={admin}"))
            .arg(format!("-s3.port.iceberg={iceberg}"))
            .arg(format!("-s3.port.lance={lance}"))
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        let child = command.spawn().expect("weed can be started");
        fs::write(self.directory.join("pid"), child.id().to_string()).expect("the directory is writable");
        *self.lock() = Some(child);
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + START_BOUND;
        while !self.has_bucket() {
            let ended = self.lock().as_mut().and_then(|server| server.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                panic!("SeaweedFS does not serve its bucket ({ended:?}):\n{log}");
            }
            thread::sleep(POLL);
        }
    }

    /// Whether the bucket answers. Without credentials a bucket that exists is forbidden.
    fn has_bucket(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.s3.port())) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let request = format!(
            "GET /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            self.s3.port()
        );
        let mut answer = String::new();
        if stream.write_all(request.as_bytes()).is_err() || stream.read_to_string(&mut answer).is_err() {
            return false;
        }
        answer.starts_with("HTTP/1.1 403")
            && fs::read_to_string(self.directory.join("log"))
                .is_ok_and(|log| log.contains("Admin        ready"))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seaweed {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut watchdog) = self.watchdog.take() {
            drop(watchdog.stdin.take());
            let _ = watchdog.wait();
        }
    }
}

fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join(".venv/bin/weed");
    assert!(
        program.exists(),
        "the S3 server of the tests is missing ({}): run scripts/install-test-deps",
        program.display()
    );
    program
}

fn spawn_watchdog(directory: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", WATCHDOG, "sh"]).arg(directory).stdin(Stdio::piped());
    // A group of its own: what kills the test's group must not kill it.
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("sh can be started")
}
