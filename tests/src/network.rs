//! Networks of a test's own: machines that are network namespaces, each with cables that can be pulled.
//!
//! Guarantees: nothing is changed in the network of the machine that runs the test, since the test moves into a
//! namespace first; everything goes with the processes that live in it. Needs root, `unshare`, `nsenter` and `ip`.

use std::env;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::process::Process;
use crate::wait::eventually;

/// Set for a test that runs inside its own network.
const INSIDE: &str = "TEST_HAS_OWN_NETWORK";
const BOUND: Duration = Duration::from_secs(10);

/// Runs the test of that name in a network of its own: this program once more, with this test only.
pub fn in_own_network(test: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        run("ip", &["link", "set", "lo", "up"]);
        return body();
    }
    let program = env::current_exe().expect("the test knows its own path");
    let mut command = Command::new("unshare");
    command.arg("--net").arg("--").arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let status = command.status().expect("unshare is installed (util-linux)");
    assert!(status.success(), "{test} failed in its own network; making one needs root: {status}");
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program} does not start: {error}; see install-test-deps"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// A namespace that stands for a machine.
#[derive(Debug)]
pub struct Machine {
    holder: Process,
}

/// A cable between a machine and the test.
#[derive(Debug, Clone)]
pub struct Cable {
    machine: u32,
    name: String,
    number: u8,
}

impl Machine {
    /// A machine with nothing but a loopback device.
    pub fn new(directory: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sleep", "3600"]);
        let holder = Process::start("machine", command, &directory.join("machine.log"));
        let own = std::fs::read_link("/proc/self/ns/net").expect("there are namespaces");
        let path = format!("/proc/{}/ns/net", holder.id());
        eventually("the machine has its own network", BOUND, || {
            std::fs::read_link(&path).ok().filter(|network| *network != own)
        });
        let machine = Self { holder };
        machine.run("ip", &["link", "set", "lo", "up"]);
        machine
    }

    /// What a command has to be preceded by to run on this machine.
    pub(crate) fn entrance(&self) -> Vec<String> {
        ["nsenter", "--target", &self.holder.id().to_string(), "--net", "--"].map(str::to_owned).to_vec()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        enter(self.holder.id(), program, arguments);
    }

    /// Lays a cable between the test and this machine.
    pub fn connect(&self) -> Cable {
        static NUMBER: AtomicU8 = AtomicU8::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (pid, near, name) =
            (self.holder.id().to_string(), format!("near{number}"), format!("far{number}"));
        let cable = Cable { machine: self.holder.id(), name: name.clone(), number };
        run("ip", &["link", "add", &near, "type", "veth", "peer", "name", &name, "netns", &pid]);
        run("ip", &["addr", "add", &format!("{}/24", cable.near()), "dev", &near]);
        run("ip", &["link", "set", &near, "up"]);
        self.run("ip", &["addr", "add", &format!("{}/24", cable.far()), "dev", &name]);
        self.run("ip", &["link", "set", &name, "up"]);
        cable
    }
}

fn enter(machine: u32, program: &str, arguments: &[&str]) {
    let target = machine.to_string();
    let entrance = ["--target", &target, "--net", "--", program];
    run("nsenter", &[&entrance, arguments].concat());
}

impl Cable {
    /// The address of the test on this cable.
    pub fn near(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 1)
    }

    /// The address of the machine.
    pub fn far(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 2)
    }

    /// Nothing comes through any more, and nobody is told.
    pub fn pull(&self) {
        enter(self.machine, "ip", &["link", "set", &self.name, "down"]);
    }

    pub fn plug_in(&self) {
        enter(self.machine, "ip", &["link", "set", &self.name, "up"]);
    }
}
