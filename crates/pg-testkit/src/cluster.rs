//! One PostgreSQL cluster: start, stop in every manner, restart on the same port and data.
//!
//! The server is a child of this process. A watchdog, another child, waits for the end of this process
//! (its standard input closes) and then stops the server and removes the directory, so that a killed test
//! leaves nothing behind.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::installation::{self, Account};
use crate::port::PortLease;

const START_BOUND: Duration = Duration::from_secs(60);
const STOP_BOUND: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
const USER: &str = "muster";

/// Stops the server that runs in `$1`, if one does, and removes `$2`. A process counts as the server only
/// when its working directory is the data directory, so that a number reused by another is left alone.
const WATCHDOG: &str = r#"
cat >/dev/null
pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$1" ]; then kill -QUIT "$pid"; fi
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$2" 2>/dev/null && break; sleep 0.2; done
"#;

/// How a cluster is set up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Flush to disk at each commit, as in production. Tests do without: killing a process loses nothing that
    /// the kernel holds, only a power cut does.
    pub durable: bool,
    /// Listen on all addresses and let anybody in, for tests in a network of their own.
    pub everywhere: bool,
}

/// A running (or deliberately stopped) cluster.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    account: Option<Account>,
    dir: PathBuf,
    data: PathBuf,
    port: PortLease,
    server: Mutex<Option<Child>>,
    databases: AtomicU32,
    watchdog: Option<Child>,
}

/// A fresh, empty database of a cluster.
#[derive(Debug)]
pub struct Database<'a> {
    cluster: &'a Postgres,
    name: String,
}

impl Postgres {
    /// The cluster that all tests of this process share; started by the first that asks.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A private cluster, for tests that stop or kill it.
    pub fn start() -> Self {
        Self::start_with(Options::default())
    }

    pub fn start_with(options: Options) -> Self {
        let bin = installation::bin_dir();
        let account = installation::account();
        let dir = make_dir(account);
        let data = dir.join("data");
        let watchdog = spawn_watchdog(&data, &dir);
        let cluster = Self {
            bin,
            account,
            data,
            port: PortLease::take(),
            server: Mutex::new(None),
            databases: AtomicU32::new(0),
            watchdog: Some(watchdog),
            dir,
        };
        cluster.init(options);
        cluster.launch();
        cluster
    }

    /// Where the server listens, also while it is stopped.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// The URL of a database by its name.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port())
    }

    /// Creates an empty database with a name of its own.
    pub fn database(&self) -> Database<'_> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster_{number}");
        self.execute("postgres", &format!("CREATE DATABASE {name}"));
        Database { cluster: self, name }
    }

    /// Runs statements and returns the rows, fields separated by `|`, without headers.
    pub fn execute(&self, database: &str, sql: &str) -> String {
        let output = Command::new(self.bin.join("psql"))
            .args([
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
                "--command",
                sql,
            ])
            .arg(self.url(database))
            .stdin(Stdio::null())
            .output()
            .expect("psql starts");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Stops the server as an administrator would (clients are disconnected, data is flushed).
    pub fn stop(&self) {
        self.end(Signal::SIGINT);
    }

    /// Stops the server at once, without flushing; the next start recovers from the log.
    pub fn stop_immediate(&self) {
        self.end(Signal::SIGQUIT);
    }

    /// Kills the server process with SIGKILL.
    pub fn kill9(&self) {
        self.end(Signal::SIGKILL);
    }

    /// Sends a signal to every process of the server.
    pub fn signal_all(&self, signal: Signal) {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in entries {
            let of_server =
                fs::read_link(entry.path().join("cwd")).is_ok_and(|directory| directory == self.data);
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            if let Some(pid) = pid.filter(|_| of_server) {
                let _ = kill(Pid::from_raw(pid), signal);
            }
        }
    }

    /// Starts a stopped server on the same data and port; one that still runs is stopped first.
    pub fn restart(&self) {
        if self.is_running() {
            self.stop();
        }
        self.launch();
    }

    /// Starts the server again, now with TLS: it shows this certificate, in PEM, to clients that ask for encryption.
    pub fn encrypt(&self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.data.join(name);
            fs::write(&path, text).expect("the data directory is writable");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the file is ours");
            if let Some(account) = self.account {
                let owned = std::os::unix::fs::chown(&path, Some(account.uid), Some(account.gid));
                owned.expect("root may give the file away");
            }
        }
        let file = fs::OpenOptions::new().append(true).open(self.data.join("postgresql.auto.conf"));
        let written = file.and_then(|mut file| file.write_all(b"ssl = on\n"));
        written.expect("the data directory is writable");
        self.restart();
    }

    pub fn is_running(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, signal: Signal) {
        let Some(mut server) = self.lock().take() else { return };
        let sent = kill(Pid::from_raw(server.id() as i32), signal);
        sent.expect("the server is our own child");
        let deadline = Instant::now() + STOP_BOUND;
        while server.try_wait().expect("the server is our own child").is_none() {
            assert!(Instant::now() < deadline, "PostgreSQL did not stop on {signal}:\n{}", self.log_tail());
            thread::sleep(POLL);
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(&self.dir).stdin(Stdio::null()).env("LC_ALL", "C").process_group(0);
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    fn init(&self, options: Options) {
        let output = self
            .command("initdb")
            .args(["--username", USER, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(&self.data)
            .output()
            .expect("initdb starts");
        assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        let durability = if options.durable { "on" } else { "off" };
        let addresses = if options.everywhere { "0.0.0.0" } else { "127.0.0.1" };
        let settings = format!(
            "listen_addresses = '{addresses}'\nport = {}\nunix_socket_directories = ''\nmax_connections = 400\n\
             fsync = {durability}\nfull_page_writes = {durability}\nshared_buffers = 64MB\n\
             log_min_messages = warning\n",
            self.port()
        );
        fs::write(self.data.join("postgresql.auto.conf"), settings).expect("the data directory is writable");
        if options.everywhere {
            let file = fs::OpenOptions::new().append(true).open(self.data.join("pg_hba.conf"));
            let written = file.and_then(|mut file| file.write_all(b"host all all 0.0.0.0/0 trust\n"));
            written.expect("the data directory is writable");
        }
    }

    /// Starts the server and waits until it accepts connections. After a kill the old backends may still hold
    /// the shared memory for a moment, and the server then refuses to start: that is tried again.
    fn launch(&self) {
        let mut server = self.lock();
        let deadline = Instant::now() + START_BOUND;
        loop {
            let mut child = self.spawn();
            if self.becomes_ready(&mut child, deadline) {
                *server = Some(child);
                return;
            }
            assert!(Instant::now() < deadline, "PostgreSQL did not start:\n{}", self.log_tail());
            thread::sleep(POLL * 10);
        }
    }

    fn spawn(&self) -> Child {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path());
        let log = log.expect("the cluster's directory is writable");
        let mut command = self.command("postgres");
        command.arg("-D").arg(&self.data).stdout(Stdio::null()).stderr(log);
        command.spawn().expect("postgres starts")
    }

    /// The server writes its state into the eighth line of `postmaster.pid`, below its process id.
    fn becomes_ready(&self, child: &mut Child, deadline: Instant) -> bool {
        let pid = child.id().to_string();
        while Instant::now() < deadline {
            let file = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = file.lines().map(str::trim).collect();
            if lines.first() == Some(&pid.as_str()) && lines.get(7) == Some(&"ready") {
                return true;
            }
            if child.try_wait().expect("the server is our own child").is_some() {
                return false;
            }
            thread::sleep(POLL);
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let server = self.lock().take();
        if let Some(mut server) = server {
            let _ = kill(Pid::from_raw(server.id() as i32), Signal::SIGQUIT);
            let _ = server.wait();
        }
        if let Some(mut watchdog) = self.watchdog.take() {
            drop(watchdog.stdin.take());
            let _ = watchdog.wait();
        }
    }
}

impl Database<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Runs statements in this database; see [`Postgres::execute`].
    pub fn execute(&self, sql: &str) -> String {
        self.cluster.execute(&self.name, sql)
    }
}

fn make_dir(account: Option<Account>) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("muster-pg-{}-{number}", std::process::id()));
    // Left by a process of the same number whose watchdog was killed too.
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).expect("the temporary directory is writable");
    if let Some(account) = account {
        let owned = std::os::unix::fs::chown(&dir, Some(account.uid), Some(account.gid));
        owned.expect("root may give the directory away");
    }
    dir
}

fn spawn_watchdog(data: &Path, dir: &Path) -> Child {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WATCHDOG, "sh"]).arg(data).arg(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().expect("/bin/sh starts")
}
