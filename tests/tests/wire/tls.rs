//! TLS with the real programs: certificates of every origin, pins, reload, and clients that behave badly.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_tests::{Backing, PortLease, Postgres, Process, StoreKind, binary, eventually, until};
use muster_tls::{Fingerprint, Verification, client_config, fingerprint_of};
use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(120);
const SELF_SIGNED: &[&str] = &["--tls-self-signed"];
const OTHER_USER: u32 = 65_534;

type Line = StreamOwned<ClientConnection, TcpStream>;
type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate for localhost and its key as `cert.pem` and `key.pem`, each by a rename.
fn issue(authority: &Authority, directory: &Path) {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    replace(&directory.join("cert.pem"), &certificate.pem());
    replace(&directory.join("key.pem"), &key.serialize_pem());
}

fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(beside, path).unwrap();
}

/// A program of ours without settings of the surrounding environment.
fn program(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(binary(name));
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(|name| name.starts_with("MUSTER_")) {
            command.env_remove(variable);
        }
    }
    command.current_dir(directory);
    command
}

/// A scheduler with TLS.
struct Secure {
    process: Process,
    port: PortLease,
    directory: TempDir,
    arguments: Vec<String>,
}

impl Secure {
    /// Starts with these arguments, in a directory with what `prepare` puts there.
    fn start_prepared(arguments: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let directory = TempDir::with_prefix("muster-test-").unwrap();
        prepare(directory.path());
        let port = PortLease::take();
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let process = launch(directory.path(), port.port(), &arguments);
        let mut started = Self { process, port, directory, arguments };
        started.await_ready();
        started
    }

    fn start(arguments: &[&str]) -> Self {
        Self::start_prepared(arguments, |_| {})
    }

    fn restart(&mut self) {
        self.process.kill9();
        self.process = launch(self.directory.path(), self.port.port(), &self.arguments);
        self.await_ready();
    }

    fn await_ready(&mut self) {
        until("the scheduler is ready", BOUND, || {
            assert!(self.process.is_alive(), "{}", self.process.output());
            self.try_ask("GET /readyz HTTP/1.1\r\n").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.port.port())
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn tcp(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port.port()))?;
        stream.set_read_timeout(Some(BOUND))?;
        stream.set_write_timeout(Some(BOUND))?;
        Ok(stream)
    }

    /// A connection that shakes hands with anybody.
    fn line(&self) -> io::Result<Line> {
        let config = client_config(Verification::Nobody).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut line = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), self.tcp()?);
        while line.conn.is_handshaking() {
            line.conn.complete_io(&mut line.sock)?;
        }
        Ok(line)
    }

    /// The certificate that new connections are shown.
    fn shown(&self) -> Fingerprint {
        let line = eventually("a handshake", BOUND, || self.line().ok());
        fingerprint_of(&line.conn.peer_certificates().unwrap()[0])
    }

    /// Sends the first lines of a request and reads to the end of the connection.
    fn try_ask(&self, head: &str) -> io::Result<String> {
        let mut line = self.line()?;
        let host = format!("Host: localhost:{}\r\nConnection: close\r\n\r\n", self.port.port());
        line.write_all(format!("{head}{host}").as_bytes())?;
        let mut answer = Vec::new();
        line.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn ask(&self, head: &str) -> String {
        self.try_ask(head).unwrap()
    }

    fn muster(&self, arguments: &[&str]) -> Output {
        let mut command = program("muster", self.directory.path());
        command.env("MUSTER_URL", self.url()).args(arguments).output().unwrap()
    }

    /// How often handshakes have failed for that reason.
    fn failures(&self, reason: &str) -> u64 {
        let metrics = self.ask("GET /metrics HTTP/1.1\r\n");
        let name = format!("muster_tls_handshake_failures_total{{reason=\"{reason}\"}} ");
        let found = metrics.lines().find_map(|line| line.strip_prefix(&name));
        found.map_or(0, |count| count.trim().parse().unwrap())
    }
}

fn launch(directory: &Path, port: u16, arguments: &[String]) -> Process {
    let mut command = program("muster-scheduler", directory);
    command.arg("--listen").arg(format!("127.0.0.1:{port}")).args(arguments);
    if !arguments.iter().any(|argument| argument.starts_with("--db-")) {
        command.args(["--db-driver", "sqlite"]);
    }
    Process::start("muster-scheduler", command, &directory.join("scheduler.log"))
}

fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A worker, told to end politely so that nothing of it is left.
struct Agent {
    process: Process,
    _directory: TempDir,
}

impl Agent {
    fn start(scheduler: &Secure, arguments: &[&str]) -> Self {
        let directory = TempDir::with_prefix("muster-worker-").unwrap();
        let mut command = program("muster-worker", directory.path());
        command.args(["--scheduler", &scheduler.url(), "--worker-id", "w", "--workers", "2"]).args(arguments);
        command.arg("--data-dir").arg(directory.path());
        let process = Process::start("muster-worker", command, &directory.path().join("worker.log"));
        Self { process, _directory: directory }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.process.signal(Signal::SIGTERM);
        if !std::thread::panicking() {
            self.process.wait(BOUND);
        }
    }
}

#[test]
fn a_job_runs_and_calls_back_over_tls_with_a_pin() {
    let scheduler = Secure::start(SELF_SIGNED);
    let pin = scheduler.shown().to_string();
    let log = scheduler.process.output();
    assert!(log.contains(&pin), "the scheduler logs its fingerprint: {log}");
    let _worker = Agent::start(&scheduler, &["--tls-fingerprint", &pin]);
    let inside = format!("{} show $MUSTER_JOB_ID --json", binary("muster").display());
    let told = ok(&scheduler.muster(&["run", "--tls-fingerprint", &pin, "--", "sh", "-c", &inside]));
    assert!(told.contains("\"running\""), "{told}");
    let by_variable = program("muster", scheduler.directory.path())
        .env("MUSTER_URL", scheduler.url())
        .env("MUSTER_TLS_FINGERPRINT", pin.to_uppercase())
        .args(["ls", "--all", "--json"])
        .output();
    assert!(ok(&by_variable.unwrap()).contains("\"done\""));
}

#[test]
fn another_certificate_than_the_pinned_one_is_refused() {
    let scheduler = Secure::start(SELF_SIGNED);
    let (seen, pinned) = (scheduler.shown().to_string(), Fingerprint::from_sha256([0xab; 32]).to_string());
    let text = refused(&scheduler.muster(&["ls", "--tls-fingerprint", &pinned]));
    assert!(text.contains(&format!("its certificate is {seen}, but {pinned} is pinned")), "{text}");
    assert!(text.contains("compare the fingerprint"), "{text}");
    let unpinned = refused(&scheduler.muster(&["ls"]));
    assert!(unpinned.contains(&format!("--tls-fingerprint {seen}")), "{unpinned}");
    assert!(unpinned.contains("--ca-file"), "{unpinned}");
    let plain =
        refused(&scheduler.muster(&["ls", "--tls-fingerprint", &seen, "--url", "http://localhost:1"]));
    assert!(plain.contains("which needs https://"), "{plain}");
    // A worker says so and ends; it does not try for a minute.
    let mut worker = Agent::start(&scheduler, &["--tls-fingerprint", &pinned]);
    assert_eq!(worker.process.wait(BOUND).code(), Some(1));
    let log = worker.process.output();
    assert!(log.contains(&seen) && log.contains(&pinned), "{log}");
    assert!(scheduler.failures("refused_by_client") >= 3);
    assert!(scheduler.ask("GET /workers HTTP/1.1\r\n").contains("[]"), "nothing was sent");
}

#[test]
fn an_authority_of_ones_own_vouches_for_names() {
    let (ours, other) = (authority("ours"), authority("other"));
    let files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let scheduler = Secure::start_prepared(&files, |directory| {
        issue(&ours, directory);
        fs::write(directory.join("ours.pem"), ours.pem()).unwrap();
        fs::write(directory.join("other.pem"), other.pem()).unwrap();
    });
    ok(&scheduler.muster(&["ls", "--ca-file", "ours.pem"]));
    let by_variable = program("muster", Path::new("/"))
        .env("MUSTER_URL", scheduler.url())
        .env("MUSTER_CA_FILE", scheduler.path("ours.pem"))
        .arg("ls")
        .output();
    ok(&by_variable.unwrap());
    for arguments in [&["ls"][..], &["ls", "--ca-file", "other.pem"]] {
        let text = refused(&scheduler.muster(arguments));
        assert!(text.contains("no trusted CA has signed its certificate"), "{text}");
    }
    let by_address = scheduler.url().replace("localhost", "127.0.0.1");
    let text = refused(&scheduler.muster(&["ls", "--ca-file", "ours.pem", "--url", &by_address]));
    assert!(text.contains("is for localhost and not for 127.0.0.1"), "{text}");
    let missing = refused(&scheduler.muster(&["ls", "--ca-file", "no-such.pem"]));
    assert!(missing.contains("no-such.pem"), "{missing}");
    // Jobs check by the same file, wherever they run.
    let _worker = Agent::start(&scheduler, &["--ca-file", &scheduler.path("ours.pem")]);
    let inside = format!("cd / && {} show $MUSTER_JOB_ID --json", binary("muster").display());
    let told = ok(&scheduler.muster(&["run", "--ca-file", "ours.pem", "--", "sh", "-c", &inside]));
    assert!(told.contains("\"running\""), "{told}");
}

#[test]
fn a_changed_certificate_is_shown_without_a_restart_and_a_broken_one_is_not() {
    let ours = authority("ours");
    let files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let scheduler = Secure::start_prepared(&files, |directory| issue(&ours, directory));
    let directory = scheduler.directory.path();
    let first = scheduler.shown();
    let mut open = scheduler.line().unwrap();
    issue(&ours, directory);
    until("new connections see the new certificate", BOUND, || scheduler.shown() != first);
    let second = scheduler.shown();
    assert!(scheduler.process.output().contains(&second.to_string()), "it is logged");
    let request = format!("GET /readyz HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", scheduler.port.port());
    open.write_all(request.as_bytes()).unwrap();
    let mut status = [0; 12];
    open.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200", "the open connection goes on");
    // The key of the new one is missing.
    replace(&directory.join("cert.pem"), &ours.pem());
    until("it is complained about", BOUND, || scheduler.process.output().contains("the former one stays"));
    assert_eq!(scheduler.shown(), second);
    issue(&ours, directory);
    until("the next one is taken", BOUND, || scheduler.shown() != second);
}

#[test]
fn a_certificate_of_its_own_making_survives_a_restart() {
    let mut scheduler = Secure::start(SELF_SIGNED);
    let first = scheduler.shown();
    let mode = |name: &str| fs::metadata(scheduler.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("data/tls"), mode("data/tls/key.pem")), (0o700, 0o600));
    scheduler.restart();
    assert_eq!(scheduler.shown(), first);
    let file = scheduler.path("data/tls/cert.pem");
    for host in ["localhost", "127.0.0.1"] {
        let url = scheduler.url().replace("localhost", host);
        ok(&scheduler.muster(&["ls", "--url", &url, "--ca-file", &file]));
    }
}

#[test]
fn clients_that_say_nothing_or_nonsense_block_nobody() {
    let scheduler = Secure::start(&["--tls-self-signed", "--header-timeout", "2s"]);
    let mut silent: Vec<TcpStream> = (0..100).map(|_| scheduler.tcp().unwrap()).collect();
    // The beginning of a handshake that does not go on.
    let mut halfway: Vec<TcpStream> = (0..20).map(|_| scheduler.tcp().unwrap()).collect();
    for stream in &mut halfway {
        stream.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    }
    let mut garbage = scheduler.tcp().unwrap();
    garbage.write_all(&[0xff; 300]).unwrap();
    assert!(scheduler.ask("GET /jobs HTTP/1.1\r\n").starts_with("HTTP/1.1 200"), "others are served");
    for stream in silent.iter_mut().chain(&mut halfway).chain([&mut garbage]) {
        let mut rest = Vec::new();
        // Closed or reset, but not left open.
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }
    assert_eq!(scheduler.failures("timeout"), 120);
    assert_eq!(scheduler.failures("not_tls"), 1);
    drop(scheduler.tcp().unwrap());
    until("a connection that is closed at once is counted", BOUND, || scheduler.failures("closed") == 1);
}

#[test]
fn handshakes_under_way_are_bounded_for_strangers_and_not_for_the_owner() {
    let bounded = ["--tls-self-signed", "--max-handshakes", "5"];
    for (loopback, others_wait) in [("none", true), ("same", false)] {
        let scheduler = Secure::start(&[&bounded[..], &["--loopback", loopback]].concat());
        let mut halfway = Vec::new();
        let mut begin = || {
            let mut stream = scheduler.tcp().unwrap();
            // The beginning of a handshake whose rest does not come.
            stream.write_all(&[22, 3, 1, 2, 0]).unwrap();
            halfway.push(stream);
        };
        (0..5).for_each(|_| begin());
        if others_wait {
            // One that met another handshake was refused itself, so that there is a new one each time.
            until("the next handshake is refused", BOUND, || {
                begin();
                scheduler.line().is_err()
            });
        } else {
            assert!(scheduler.line().is_ok());
        }
        drop(halfway);
        until("hands are shaken again", BOUND, || scheduler.line().is_ok());
    }
}

#[test]
fn plain_http_is_told_to_use_https() {
    let scheduler = Secure::start(SELF_SIGNED);
    let mut plain = scheduler.tcp().unwrap();
    plain
        .write_all(b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{\"command\"")
        .unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("use https://\n"), "{answer}");
    drop(plain);
    let text = refused(&scheduler.muster(&["ls", "--url", &scheduler.url().replace("https", "http")]));
    assert!(text.contains("this port speaks TLS: use https://"), "{text}");
    until("it is counted", BOUND, || scheduler.failures("plain_http") == 2);
    // And the other way round.
    let plain = muster_tests::Scheduler::start(StoreKind::Memory);
    let text = refused(&scheduler.muster(&["ls", "--url", &plain.url().replace("http:", "https:")]));
    assert!(text.contains("it does not speak TLS: use http://"), "{text}");
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let scheduler = Secure::start(&["--tls-self-signed", "--write-timeout", "200ms"]);
    let mut line = scheduler.line().unwrap();
    let request = format!("GET /openapi.json HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", scheduler.port.port());
    // Answers pile up until nothing more fits into the buffers between us; then nobody reads our requests, too.
    line.sock.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let deadline = Instant::now() + BOUND;
    let error = loop {
        let waits =
            |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline;
        match line.write_all(request.as_bytes()) {
            Ok(()) => assert!(Instant::now() < deadline, "the connection was left open"),
            Err(error) if waits(&error) => {}
            Err(error) => break error,
        }
    };
    let cut_off = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
    assert!(cut_off.contains(&error.kind()), "{error:?}");
    assert!(scheduler.ask("GET /jobs HTTP/1.1\r\n").starts_with("HTTP/1.1 200"));
}

#[test]
fn pages_of_the_scheduler_come_by_https() {
    let scheduler = Secure::start(SELF_SIGNED);
    let port = scheduler.port.port();
    let ask = |scheme: &str| {
        scheduler.ask(&format!("GET /jobs HTTP/1.1\r\nOrigin: {scheme}://localhost:{port}\r\n"))
    };
    assert!(ask("https").starts_with("HTTP/1.1 200"));
    assert!(ask("http").starts_with("HTTP/1.1 403"));
}

/// Sends `GET /jobs` over TLS to the port `argv[1]`.
const CLIENT: &str = r#"
import socket, ssl, sys
context = ssl._create_unverified_context()
line = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30))
line.sendall(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
print(line.recv(65536).decode())
"#;

/// Who is behind a connection is known with TLS as well. It takes root to be somebody else.
#[test]
fn another_user_of_the_machine_is_refused() {
    let scheduler = Secure::start(SELF_SIGNED);
    let ask = |uid: u32| {
        let mut client = Command::new("python3");
        client.args(["-c", CLIENT, &scheduler.port.port().to_string()]).uid(uid).gid(uid).current_dir("/");
        ok(&client.output().unwrap())
    };
    assert!(ask(nix::unistd::geteuid().as_raw()).starts_with("HTTP/1.1 200"));
    assert!(ask(OTHER_USER).starts_with("HTTP/1.1 403"));
}

#[test]
fn wrong_certificates_are_named_at_the_start() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let path = directory.path();
    let (ours, other) = (path.join("ours"), path.join("other"));
    for place in [&ours, &other] {
        fs::create_dir(place).unwrap();
        issue(&authority("a"), place);
    }
    fs::write(path.join("text.pem"), "hello").unwrap();
    let start = |arguments: &[&str]| {
        let mut command = program("muster-scheduler", path);
        command.args(["--port", "0", "--db-driver", "memory"]).args(arguments);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (certificate, key) = ("ours/cert.pem", "ours/key.pem");
    for (arguments, code, said) in [
        (&["--tls-cert", certificate][..], 2, "add --tls-key"),
        (&["--tls-key", key], 2, "add --tls-cert"),
        (&["--tls-cert", certificate, "--tls-key", key, "--tls-self-signed"], 2, "use one of both"),
        (&["--tls-cert", "no-such.pem", "--tls-key", key], 1, "cannot read no-such.pem"),
        (&["--tls-cert", certificate, "--tls-key", "text.pem"], 1, "text.pem has no private key"),
        (&["--tls-cert", key, "--tls-key", key], 1, "key.pem has no certificate"),
        (
            &["--tls-cert", certificate, "--tls-key", "other/key.pem"],
            1,
            "is not that of the first certificate",
        ),
        (&["--ca-file", "text.pem"], 1, "--ca-file: text.pem has no certificate"),
    ] {
        let (ended, text) = start(arguments);
        assert!(ended == code && text.contains(said), "{arguments:?}: {ended} {text}");
    }
}

/// Each has a certificate of its own making; what they need to believe each other stands in their store.
#[test]
fn schedulers_with_pins_read_from_each_other() {
    let backing = Backing::new(StoreKind::Postgres);
    let arguments = ["--tls-self-signed", "--db-driver", "postgres", "--db-url", backing.url()];
    let (first, second) = (Secure::start(&arguments), Secure::start(&arguments));
    assert_ne!(first.shown(), second.shown());
    let pin = first.shown().to_string();
    let _worker = Agent::start(&first, &["--tls-fingerprint", &pin]);
    let id = ok(&first.muster(&["submit", "--tls-fingerprint", &pin, "--", "echo", "from afar"]));
    let id = id.trim();
    ok(&first.muster(&["wait", "--tls-fingerprint", &pin, id]));
    let target = format!("GET /jobs/{id}/logs?stream=stdout HTTP/1.1\r\n");
    until("the output is at the first", BOUND, || first.ask(&target).contains("from afar\n"));
    let answer = second.ask(&target);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from afar\n"), "{answer}");
    // An impostor at the address of the first one is not believed, and the address is named without the certificate.
    let port = first.port.port();
    let url = first.url();
    let mut first = first;
    first.process.kill9();
    fs::remove_dir_all(first.directory.path().join("data/tls")).unwrap();
    let memory = ["--tls-self-signed".to_owned(), "--db-driver".to_owned(), "memory".to_owned()];
    first.process = launch(first.directory.path(), port, &memory);
    first.await_ready();
    let answer = second.ask(&target);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(first.failures("refused_by_client") >= 1, "it was not asked anything");
    assert!(
        answer.contains(&url.replace("localhost", "127.0.0.1")) && !answer.contains("#sha256"),
        "{answer}"
    );
}

#[test]
fn a_scheduler_uses_postgresql_over_tls_and_refuses_a_server_that_it_does_not_know() {
    let (ours, other) = (authority("ours"), authority("other"));
    let server = Postgres::start();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    server.encrypt(&params.signed_by(&key, &ours).unwrap().pem(), &key.serialize_pem());
    let backing = Backing::on(&server);
    let files = TempDir::with_prefix("muster-test-").unwrap();
    let file = |name: &str, authority: &Authority| -> PathBuf {
        let path = files.path().join(name);
        fs::write(&path, authority.pem()).unwrap();
        path
    };
    let url = |path: &Path| format!("{}?sslmode=verify-full&sslrootcert={}", backing.url(), path.display());
    let refused = program("muster-scheduler", files.path())
        .args(["--port", "0", "--db-url", &url(&file("other.pem", &other))])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("the server is not trusted") && text.contains("sslrootcert=FILE"), "{text}");
    let known = url(&file("ours.pem", &ours));
    let scheduler = Secure::start(&["--tls-self-signed", "--db-url", &known]);
    let answer = scheduler.ask("GET /jobs HTTP/1.1\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let database = backing.url().rsplit('/').next().unwrap().to_owned();
    let clear = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                 WHERE a.application_name = 'muster' AND NOT s.ssl";
    assert_eq!(server.execute(&database, clear), "0");
}
