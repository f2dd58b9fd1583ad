//! The limits on a kernel with all of cgroup v2, which the machine that runs the tests need not have: a kernel that is a
//! program (User-Mode Linux) runs the same tests with the same worker.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::scheduler::PATIENCE;

/// What the first process of the other kernel does. The file system of this machine is its own, to be read only.
const INIT: &str = r#"#!/bin/dash
mount -t proc proc /proc
mount -t sysfs sys /sys
for place in /tmp /run /dev/shm; do mount -t tmpfs tmpfs $place; done
mount -t cgroup2 none /sys/fs/cgroup
ip link set lo up
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp TMPDIR=/tmp RUST_BACKTRACE=1 MUSTER_TEST_ISOLATION=cgroup-v2
"$TESTS" limits:: --test-threads=1
echo "the tests ended with $?"
for controller in memory cpu pids cpuset io; do echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control; done
"$TESTS" delegated:: --test-threads=1
echo "the tests of groups below ended with $?"
echo o > /proc/sysrq-trigger
sleep 60
"#;

#[test]
fn all_limits_hold_under_cgroup_v2() {
    let kernel = Path::new("/usr/bin/linux.uml");
    assert!(kernel.exists(), "install a kernel with all of cgroup v2: apt-get install user-mode-linux");
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let init = place.path().join("init.sh");
    let tests = std::env::current_exe().unwrap();
    fs::write(&init, INIT.replace("$TESTS", tests.to_str().unwrap())).unwrap();
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
    let output = place.path().join("output");
    let console = fs::File::create(&output).unwrap();
    let mut machine = Command::new(kernel)
        .args(["mem=1200M", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "con=null", "con0=fd:0,fd:1"])
        .arg(format!("init={}", init.display()))
        // Its memory is a file there.
        .env("TMPDIR", "/dev/shm")
        .stdin(Stdio::null())
        .stdout(console)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE * 3;
    while machine.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            // Its processes are its children and end with it.
            machine.kill().unwrap();
            machine.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned();
    assert!(said.contains("the tests ended with 0"), "{said}");
    assert!(said.contains("the tests of groups below ended with 0"), "{said}");
}
