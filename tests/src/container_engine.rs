//! A real Docker daemon of the tests' own, with one small image and nothing of the machine's.
//!
//! It has its own data, socket and control groups, makes no bridge and touches no firewall. A shell looks after it and ends it, with all
//! it has, when the test program is gone.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::until;

/// The image that every engine has: a shell and the usual programs.
pub const IMAGE: &str = "muster-test:1";

const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the daemon when standard input ends: `$1` is its folder, and the rest its command.
const SUPERVISOR: &str = r#"
folder=$1; shift
start() { "$@" >>"$folder/log" 2>&1 & echo $! > "$folder/daemon"; }
start "$@"
while read -r word; do start "$@"; done
daemon=$(cat "$folder/daemon")
kill -CONT "$daemon" 2>/dev/null; kill -TERM "$daemon" 2>/dev/null
for _ in $(seq 100); do kill -0 "$daemon" 2>/dev/null || break; sleep 0.1; done
kill -KILL "$daemon" 2>/dev/null
containerd=$(cat "$folder/exec/containerd/containerd.pid" 2>/dev/null) && kill -TERM "$containerd" 2>/dev/null
for shim in $(pgrep -f "containerd-shim.*$folder/"); do kill -KILL "$shim"; done
sleep 0.2
grep "$folder" /proc/self/mounts | cut -d' ' -f2 | sort -r | while read -r mount; do umount -l "$mount"; done
rm -rf "$folder"
find /sys/fs/cgroup -depth -type d -path "*/$(basename "$folder")*" -exec rmdir {} \; 2>/dev/null
"#;

/// The daemon.
#[derive(Debug)]
pub struct ContainerEngine {
    folder: PathBuf,
    supervisor: Mutex<Supervisor>,
}

#[derive(Debug)]
struct Supervisor {
    process: Child,
    words: Option<ChildStdin>,
}

impl ContainerEngine {
    /// One for all tests of a program, which none of them may harm.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ContainerEngine> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// Starts one with more arguments, and waits until it answers and has the image.
    pub fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("muster-engine-").tempdir();
        let folder = folder.expect("the temporary directory is writable").keep();
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let group = format!("/{}", folder.file_name().and_then(|name| name.to_str()).unwrap_or_default());
        let mut process = Command::new("sh")
            .args(["-c", SUPERVISOR, "sh"])
            .arg(&folder)
            .arg("dockerd")
            .args(["--data-root", &path("data"), "--exec-root", &path("exec"), "--pidfile", &path("pid")])
            .args(["--host", &format!("unix://{}", path("socket")), "--cgroup-parent", &group])
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(arguments)
            .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
            .stdin(Stdio::piped())
            // It must see the end of the test program, and no signal that is meant for that.
            .process_group(0)
            .spawn()
            .expect("sh can be started");
        let words = process.stdin.take();
        let engine = Self { folder, supervisor: Mutex::new(Supervisor { process, words }) };
        engine.await_answer();
        engine.import_image();
        engine
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until the daemon answers.
    pub fn await_answer(&self) {
        until("the Docker daemon answers; scripts/install-test-deps installs it", PATIENCE, || {
            let alive = self.pid().is_none_or(|pid| kill(pid, None).is_ok());
            assert!(alive, "the Docker daemon has ended; it needs root:\n{}", self.log());
            self.docker(&["version"]).status.success()
        });
    }

    /// The daemon itself.
    pub fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.folder.join("daemon")).ok()?;
        Some(Pid::from_raw(text.trim().parse().ok()?))
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill(pid, signal);
        }
    }

    /// Ends the daemon by a signal and waits until it is gone.
    pub fn end(&self, signal: Signal) {
        let pid = self.pid().expect("the daemon runs");
        self.signal(signal);
        until("the Docker daemon has ended", PATIENCE, || {
            !Path::new(&format!("/proc/{pid}/stat")).exists() || is_zombie(pid)
        });
        // Nobody may have collected those who ended with it, so that their numbers look alive.
        for left in ["pid", "exec/containerd/containerd.pid"] {
            let _ = fs::remove_file(self.folder.join(left));
        }
    }

    /// Starts it again with all that it had.
    pub fn restart(&self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        let words = supervisor.words.as_mut().expect("the supervisor listens");
        words.write_all(b"again\n").expect("the supervisor listens");
        drop(supervisor);
        until("the Docker daemon is back", PATIENCE, || self.docker(&["version"]).status.success());
    }

    /// Runs the command line client.
    pub fn docker(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("docker");
        command.arg("--host").arg(format!("unix://{}", self.socket().display())).args(arguments);
        command.env("DOCKER_CONFIG", self.folder.join("client"));
        command.output().expect("docker can be started; scripts/install-test-deps installs it")
    }

    /// What it prints, which must be well.
    pub fn docker_says(&self, arguments: &[&str]) -> String {
        let output = self.docker(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "docker {arguments:?}: {said}\n{}", self.log());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The containers of a worker, running or not.
    pub fn containers_of(&self, worker_directory: &Path) -> Vec<String> {
        let label = format!("label=muster.worker-dir={}", worker_directory.display());
        let listed = self.docker_says(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &label]);
        listed.lines().map(str::to_owned).collect()
    }

    fn import_image(&self) {
        let archive = pack_image(&self.folder);
        self.docker_says(&["import", "--change", "CMD [\"sh\"]", &archive.to_string_lossy(), IMAGE]);
    }
}

/// Packs the file system of the image into a folder, and says where.
pub(crate) fn pack_image(folder: &Path) -> PathBuf {
    let root = folder.join("image");
    for directory in ["bin", "tmp", "etc", "root", "dev", "proc", "sys", "run"] {
        fs::create_dir_all(root.join(directory)).expect("the folder is writable");
    }
    fs::set_permissions(root.join("tmp"), std::os::unix::fs::PermissionsExt::from_mode(0o1777))
        .expect("the folder is ours");
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    let busybox = busybox.expect("busybox is missing: run scripts/install-test-deps");
    fs::copy(busybox, root.join("bin/busybox")).expect("the folder is writable");
    let list = Command::new(busybox).arg("--list").output().expect("busybox runs").stdout;
    for name in String::from_utf8_lossy(&list).lines().filter(|name| *name != "busybox") {
        symlink("busybox", root.join("bin").join(name)).expect("the folder is writable");
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nsomeone:x:1000:1000::/tmp:/bin/sh\n")
        .expect("the folder is writable");
    let archive = folder.join("image.tar");
    let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status();
    assert!(packed.is_ok_and(|status| status.success()), "tar packs the image");
    archive
}

impl Drop for ContainerEngine {
    fn drop(&mut self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        supervisor.words = None;
        let _ = supervisor.process.wait();
    }
}

fn is_zombie(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}
