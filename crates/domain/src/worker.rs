//! Workers as the scheduler knows them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::devices::Device;
use crate::health::Health;
use crate::ids::WorkerId;
use crate::kept_room::KeptRoom;
use crate::resources::Resources;
use crate::time::{Span, Timestamp};

/// Whether a worker was heard of lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerStatus {
    Active,
    Offline,
}

impl WorkerStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Offline => "offline",
        }
    }
}

/// A registered worker: what it has in all, and when it last spoke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub id: WorkerId,
    pub exec_addr: String,
    /// What the machine has in all; what is free is always derived from the jobs it holds.
    pub resources: Resources,
    pub tags: BTreeSet<String>,
    /// Its GPUs one by one; empty when it gave only their number, or has none.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Where it is, such as `rack` and `zone`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How many jobs it runs at once; unlimited when it did not say.
    pub slots: Option<u32>,
    pub hostname: Option<String>,
    pub version: Option<String>,
    /// How it isolates jobs, in its own word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Whose user its jobs run as, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    pub status: WorkerStatus,
    pub last_heartbeat: Timestamp,
    pub registered_at: Timestamp,
    /// It never registered, as far as is known, but asked for work by its name: what it has is not known, and single jobs are
    /// handed to it whatever they need, as to an anonymous claimer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// How jobs fared on it lately.
    #[serde(default)]
    pub health: Health,
    /// Ports that it keeps free for gangs.
    #[serde(default)]
    pub ports: Ports,
    /// Room for work that goes first and does not fit yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<KeptRoom>>,
}

/// Ports that a worker keeps free for tasks of gangs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    pub kept: Vec<u16>,
    /// Those of them that were promised to a task and that it has not given free yet.
    pub promised: Vec<u16>,
    /// Those that it gave to their tasks, the latest last. One of them that it says to keep again may come from a
    /// message that was long on its way, while the task still has it: the others go first.
    pub given: Vec<u16>,
}

/// How many ports are remembered as given to a task.
const REMEMBERED_PORTS: usize = 64;

impl Ports {
    pub const fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.promised.is_empty() && self.given.is_empty()
    }

    /// The worker keeps these now; what was promised and is not among them was given to its task.
    fn keeps(&mut self, kept: &[u16]) {
        let (open, gone): (Vec<u16>, Vec<u16>) = self.promised.iter().partition(|port| kept.contains(port));
        self.given.retain(|port| !gone.contains(port));
        self.given.extend(gone);
        let surplus = self.given.len().saturating_sub(REMEMBERED_PORTS);
        self.given.drain(..surplus);
        (self.kept, self.promised) = (kept.to_vec(), open);
    }
}

impl Worker {
    /// A claimer of which nothing is known but its name.
    pub fn assumed(id: WorkerId, now: Timestamp) -> Self {
        Self {
            id,
            exec_addr: String::new(),
            resources: Resources::default(),
            tags: BTreeSet::new(),
            devices: Vec::new(),
            labels: BTreeMap::new(),
            slots: None,
            hostname: None,
            isolation: None,
            run_as: None,
            version: None,
            status: WorkerStatus::Active,
            last_heartbeat: now,
            registered_at: now,
            assumed: true,
            health: Health::default(),
            ports: Ports::default(),
            kept: None,
        }
    }

    /// Takes over a repeated registration, keeping the time of the first one and what is known
    /// about how jobs fared on it.
    #[must_use]
    pub fn re_registered(self, earlier: &Self) -> Self {
        // What was promised to a task that has not come for it yet stays promised.
        let mut ports = earlier.ports.clone();
        ports.keeps(&self.ports.kept);
        Self {
            registered_at: earlier.registered_at,
            health: earlier.health.clone(),
            kept: earlier.kept.clone(),
            ports,
            ..self
        }
    }

    /// Takes note of the ports that the worker keeps free now; one that was promised and that it no longer
    /// keeps was given to its task.
    pub fn keeps_ports(&mut self, ports: &[u16]) {
        self.ports.keeps(ports);
    }

    /// How many of the ports that it keeps are promised to nobody.
    pub fn free_ports(&self) -> usize {
        self.ports.kept.iter().filter(|port| !self.ports.promised.contains(port)).count()
    }

    /// Only these promises still hold.
    pub fn void_promises_but(&mut self, held: &[u16]) {
        self.ports.promised.retain(|port| held.contains(port));
    }

    /// Promises a port to a task: one that is free and was not given away lately, else one that is free, else the
    /// one that was promised the longest time ago. That the worker still keeps that one shows that nobody came for
    /// it, as when a placement was taken back.
    pub fn take_port(&mut self) -> Option<u16> {
        let Ports { kept, promised, given } = &mut self.ports;
        let free = || kept.iter().copied().filter(|port| !promised.contains(port));
        let free = free().find(|port| !given.contains(port)).or_else(|| free().next());
        let port = free.or_else(|| (!promised.is_empty()).then(|| promised.remove(0)))?;
        promised.push(port);
        Some(port)
    }

    /// Name or address under which it is reached: what it was told to say, without the port.
    pub fn host(&self) -> &str {
        let (host, port) = self.exec_addr.rsplit_once(':').unwrap_or((&self.exec_addr, ""));
        if port.parse::<u16>().is_ok() { host } else { &self.exec_addr }
    }

    /// The port that it was told to say, if any.
    pub fn told_port(&self) -> Option<u16> {
        self.exec_addr.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
    }

    /// A sign of life: the worker is active again, whatever it was.
    pub fn heard(&mut self, now: Timestamp) {
        self.status = WorkerStatus::Active;
        self.last_heartbeat = self.last_heartbeat.max(now);
    }

    /// Whether the worker has been silent for strictly longer than `timeout`.
    pub fn is_stale(&self, now: Timestamp, timeout: Span) -> bool {
        self.status == WorkerStatus::Active && now.since(self.last_heartbeat) > timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping(kept: &[u16]) -> Worker {
        Worker {
            id: WorkerId::new("w"),
            exec_addr: "host".to_owned(),
            resources: Resources::default(),
            tags: BTreeSet::new(),
            devices: Vec::new(),
            labels: BTreeMap::new(),
            slots: None,
            hostname: None,
            isolation: None,
            run_as: None,
            version: None,
            status: WorkerStatus::Active,
            last_heartbeat: Timestamp::default(),
            registered_at: Timestamp::default(),
            assumed: false,
            health: Health::default(),
            ports: Ports { kept: kept.to_vec(), ..Ports::default() },
            kept: None,
        }
    }

    #[test]
    fn a_port_is_promised_again_only_when_no_other_is_left() {
        let mut worker = keeping(&[1, 2, 3]);
        let taken: Vec<Option<u16>> = (0..5).map(|_| worker.take_port()).collect();
        assert_eq!(taken, [Some(1), Some(2), Some(3), Some(1), Some(2)]);
        worker.keeps_ports(&[2, 3, 4]);
        assert_eq!((worker.take_port(), worker.take_port()), (Some(4), Some(3)));
        assert_eq!(keeping(&[]).take_port(), None);
    }

    #[test]
    fn promises_that_no_longer_hold_make_room() {
        let mut worker = keeping(&[1, 2, 3]);
        assert_eq!((worker.take_port(), worker.take_port(), worker.take_port()), (Some(1), Some(2), Some(3)));
        assert_eq!(worker.free_ports(), 0);
        worker.void_promises_but(&[1, 3, 9]);
        assert_eq!((worker.free_ports(), worker.take_port()), (1, Some(2)));
    }

    #[test]
    fn a_port_that_was_given_away_is_used_last_when_an_old_message_names_it_again() {
        let mut worker = keeping(&[1, 2, 3]);
        assert_eq!(worker.take_port(), Some(1));
        worker.keeps_ports(&[2, 3, 4]);
        // A registration from before arrives, then a sign of life from before.
        let mut late = keeping(&[1, 2, 3]).re_registered(&worker);
        assert_eq!((late.take_port(), late.take_port(), late.take_port()), (Some(2), Some(3), Some(1)));
        worker.keeps_ports(&[1, 2, 3]);
        assert_eq!(worker.take_port(), Some(2));
        for port in 100..300 {
            worker.keeps_ports(&[port]);
            worker.take_port();
        }
        assert_eq!(worker.ports.given.len(), REMEMBERED_PORTS);
    }

    #[test]
    fn a_promise_outlives_a_registration_as_long_as_the_port_is_kept() {
        let mut worker = keeping(&[1, 2, 3]);
        assert_eq!((worker.take_port(), worker.take_port()), (Some(1), Some(2)));
        let mut again = keeping(&[2, 3, 4]).re_registered(&worker);
        assert_eq!((again.take_port(), again.take_port()), (Some(3), Some(4)));
    }
}
