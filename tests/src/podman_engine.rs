//! A real Podman of the tests' own behind its API, with the image of the tests and nothing of the machine's.
//!
//! It has its own storage and socket. A shell looks after it and ends it, with all it has, when the test program is gone.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::container_engine::{IMAGE, pack_image};
use crate::wait::until;

const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the service when standard input ends: `$1` is its folder. A machine may allow fewer open files than Podman asks for.
const SUPERVISOR: &str = r#"
folder=$1
files=$(awk '/^Max open files/ {print $5}' /proc/self/limits); [ "$files" = unlimited ] && files=1048576
echo "[containers]
default_ulimits = [\"nofile=$files:$files\", \"nproc=4096:4096\"]" > "$folder/containers.conf"
export CONTAINERS_CONF="$folder/containers.conf"
with() {
    podman --root "$folder/root" --runroot "$folder/run" --tmpdir "$folder/tmp" --storage-driver vfs \
        --cgroup-manager cgroupfs --events-backend file "$@"
}
with import --change 'CMD ["sh"]' "$folder/image.tar" "$2" >> "$folder/log" 2>&1
podman --root "$folder/root" --runroot "$folder/run" --tmpdir "$folder/tmp" --storage-driver vfs \
    --cgroup-manager cgroupfs --events-backend file system service --time=0 "unix://$folder/socket" >> "$folder/log" 2>&1 &
service=$!
echo $service > "$folder/service"
cat > /dev/null
with rm --all --force --time 0 >> "$folder/log" 2>&1
kill -TERM $service 2>/dev/null
for _ in $(seq 50); do kill -0 $service 2>/dev/null || break; sleep 0.1; done
kill -KILL $service 2>/dev/null
grep "$folder" /proc/self/mounts | cut -d' ' -f2 | sort -r | while read -r mount; do umount -l "$mount"; done
rm -rf "$folder"
find /sys/fs/cgroup -depth -type d -name libpod_parent -exec rmdir {} \; 2>/dev/null
"#;

/// The service.
#[derive(Debug)]
pub struct PodmanEngine {
    folder: PathBuf,
    supervisor: Mutex<Child>,
    words: Mutex<Option<ChildStdin>>,
}

impl PodmanEngine {
    /// One for all tests of a program, which none of them may harm.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PodmanEngine> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("muster-podman-").tempdir();
        let folder = folder.expect("the temporary directory is writable").keep();
        pack_image(&folder);
        let mut process = Command::new("sh")
            .args(["-c", SUPERVISOR, "sh"])
            .arg(&folder)
            .arg(format!("docker.io/library/{IMAGE}"))
            // The monitors of containers leave files where the service was started.
            .current_dir(&folder)
            .stdin(Stdio::piped())
            // It must see the end of the test program, and no signal that is meant for that.
            .process_group(0)
            .spawn()
            .expect("sh can be started");
        let words = Mutex::new(process.stdin.take());
        let engine = Self { folder, supervisor: Mutex::new(process), words };
        until("Podman answers; scripts/install-test-deps installs it", PATIENCE, || {
            let service = fs::read_to_string(engine.folder.join("service")).unwrap_or_default();
            let gone = !service.is_empty() && !Path::new("/proc").join(service.trim()).exists();
            assert!(!gone, "Podman has ended; it needs root:\n{}", engine.log());
            engine.docker(&["version"]).status.success()
        });
        engine
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn docker(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("docker");
        command.arg("--host").arg(format!("unix://{}", self.socket().display())).args(arguments);
        command.output().expect("docker can be started; scripts/install-test-deps installs it")
    }

    /// The containers of a worker, running or not, as its API lists them.
    pub fn containers_of(&self, worker_directory: &Path) -> Vec<String> {
        let label = format!("label=muster.worker-dir={}", worker_directory.display());
        let listed = self.docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &label]);
        assert!(listed.status.success(), "{}\n{}", String::from_utf8_lossy(&listed.stderr), self.log());
        String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect()
    }
}

impl Drop for PodmanEngine {
    fn drop(&mut self) {
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }
}
