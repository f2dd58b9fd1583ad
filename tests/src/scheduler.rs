//! A real `muster-scheduler` process on a free port.

use std::net::Ipv4Addr;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use muster_pg_testkit::PortLease;
use nix::sys::signal::Signal;

use crate::http::Http;
use crate::network::Machine;
use crate::process::{Process, binary};
use crate::stores::{Backing, StoreKind};
use crate::wait::eventually;

const START_BOUND: Duration = Duration::from_secs(30);

/// Settings by the names of the flags; given to the program as environment variables.
#[derive(Debug, Clone, Default)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// Adds a setting, such as `job-heartbeat-timeout`.
    #[must_use]
    pub fn set(mut self, flag: &str, value: &str) -> Self {
        let variable = format!("MUSTER_{}", flag.replace('-', "_").to_uppercase());
        self.0.push((variable, value.to_owned()));
        self
    }

    pub(crate) fn apply(&self, command: &mut Command) {
        command.envs(self.0.iter().map(|(variable, value)| (variable, value)));
    }
}

/// A scheduler, its port and its data.
#[derive(Debug)]
pub struct Scheduler {
    process: Process,
    port: PortLease,
    settings: Settings,
    backing: Backing,
    place: Place,
}

/// Where a scheduler runs.
#[derive(Debug, Clone)]
struct Place {
    address: Ipv4Addr,
    /// What goes before its command.
    entrance: Vec<String>,
    /// The name of its data directory.
    data: &'static str,
}

impl Place {
    const HERE: Self = Self { address: Ipv4Addr::LOCALHOST, entrance: Vec::new(), data: "data" };
}

impl Scheduler {
    /// Starts on empty data with the default settings, and waits until it is ready.
    pub fn start(kind: StoreKind) -> Self {
        Self::start_with(kind, Settings::default())
    }

    pub fn start_with(kind: StoreKind, settings: Settings) -> Self {
        Self::start_on(&Backing::new(kind), settings)
    }

    /// Starts on data that others may use too.
    pub fn start_on(backing: &Backing, settings: Settings) -> Self {
        Self::start_in(Place::HERE, backing, settings)
    }

    /// The same with a data directory of its own.
    pub fn start_apart(backing: &Backing, settings: Settings, data: &'static str) -> Self {
        Self::start_in(Place { data, ..Place::HERE }, backing, settings)
    }

    /// Starts on a machine, listening on one of its addresses.
    pub fn start_at(machine: &Machine, address: Ipv4Addr, backing: &Backing, settings: Settings) -> Self {
        Self::start_in(Place { address, entrance: machine.entrance(), ..Place::HERE }, backing, settings)
    }

    fn start_in(place: Place, backing: &Backing, settings: Settings) -> Self {
        let port = PortLease::take();
        let process = launch(&place, backing, port.port(), &settings);
        let mut scheduler = Self { process, port, settings, backing: backing.clone(), place };
        scheduler.await_ready();
        scheduler
    }

    /// Starts without waiting until it is ready: its store may be away.
    pub fn start_unready(backing: &Backing, settings: Settings) -> Self {
        let port = PortLease::take();
        let process = launch(&Place::HERE, backing, port.port(), &settings);
        Self { process, port, settings, backing: backing.clone(), place: Place::HERE }
    }

    /// Starts again on the same port and data after the process has ended.
    pub fn restart(&mut self) {
        // The new one must not find the port or the database in use.
        if self.process.is_alive() {
            self.process.kill9();
        }
        self.process = launch(&self.place, &self.backing, self.port.port(), &self.settings);
        self.await_ready();
    }

    /// Starts again as a supervisor does: anew whenever it ends, until it is ready. False when it never was.
    pub fn supervise(&mut self, bound: Duration) -> bool {
        let deadline = Instant::now() + bound;
        while Instant::now() < deadline {
            if self.process.ended().is_some() {
                self.process = launch(&self.place, &self.backing, self.port.port(), &self.settings);
            }
            let answer = self.http().request("GET", "/readyz").try_send();
            if answer.is_ok_and(|response| response.status == 200) {
                return true;
            }
            thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// The same with other settings.
    pub fn restart_with(&mut self, settings: Settings) {
        self.settings = settings;
        self.restart();
    }

    /// Waits until the scheduler says that it is ready; fails at once when it ends instead.
    pub fn await_ready(&mut self) {
        let http = self.http();
        let process = &mut self.process;
        eventually("the scheduler is ready", START_BOUND, || {
            if let Some(status) = process.ended() {
                panic!("the scheduler ended with {status}:\n{}", process.output());
            }
            http.request("GET", "/readyz").try_send().ok().filter(|response| response.status == 200)
        });
    }

    pub fn http(&self) -> Http {
        Http::at((self.place.address, self.port.port()).into())
    }

    pub fn port(&self) -> u16 {
        self.port.port()
    }

    pub fn url(&self) -> String {
        format!("http://{}:{}", self.place.address, self.port.port())
    }

    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Kills without a chance to tidy up.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Asks for a polite end and waits for it.
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.signal(Signal::SIGTERM);
        self.process.wait(Duration::from_secs(20))
    }
}

fn launch(place: &Place, backing: &Backing, port: u16, settings: &Settings) -> Process {
    let program = binary("muster-scheduler");
    let mut command = match place.entrance.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.arg("--listen").arg(format!("{}:{port}", place.address));
    if !place.address.is_loopback() {
        command.arg("--insecure");
    }
    command.args(["--db-driver", backing.driver()]);
    if !backing.url().is_empty() {
        command.args(["--db-url", backing.url()]);
    }
    command.arg("--data-dir").arg(backing.directory().join(place.data)).current_dir(backing.directory());
    settings.apply(&mut command);
    let log = backing.directory().join(format!("scheduler-{port}.log"));
    Process::start("muster-scheduler", command, &log)
}
