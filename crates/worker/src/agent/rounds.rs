//! What a task is told about its round when it starts, and the ports that this worker keeps for rounds.

use std::collections::HashMap;

use muster_protocol::Job;

use super::agent_loop::Agent;
use crate::config::WorkerConfig;
use crate::keeper::{Key, StartSpec, ToKeeper};
use crate::machine;
use crate::rendezvous::{self, KeptPort, Machine, PortPool};

/// A task needs a slot, so that more ports than slots are of no use; but some are, while others are let go.
const FEWEST_PORTS: u32 = 8;
const MOST_PORTS: u32 = 64;

/// The port of a job that is about to start.
#[derive(Debug)]
enum Port {
    /// One of those that the scheduler knows.
    OfPool(u16),
    Private(KeptPort),
}

/// What the worker knows about itself that tasks are told.
#[derive(Debug)]
pub(super) struct Rounds {
    machine: Machine,
    pub(super) ports: PortPool,
    /// Variables that the worker passes on to jobs, but not to those of a round.
    withheld: Vec<String>,
    /// The ports of jobs that are about to start.
    waiting: HashMap<Key, Port>,
    /// The list of ports that the heartbeat under way has told.
    telling: Option<u64>,
    /// The list of ports that the registration under way has told.
    registering: u64,
}

impl Rounds {
    pub(super) fn new(config: &WorkerConfig) -> Self {
        let offered = config.resources.cpus;
        let cpus = if offered > 0.0 { offered } else { f64::from(machine::cores()) };
        let withheld = config.pass_env.iter().filter(|name| rendezvous::governed(name));
        Self {
            machine: Machine { cpus, slots: config.slots, hostname: machine::hostname() },
            ports: PortPool::new(config.slots.clamp(FEWEST_PORTS, MOST_PORTS) as usize),
            withheld: withheld.cloned().collect(),
            waiting: HashMap::new(),
            telling: None,
            registering: 0,
        }
    }

    /// The ports for a registration.
    pub(super) fn register(&mut self) -> Vec<u16> {
        self.registering = self.ports.version();
        self.ports.numbers()
    }

    /// The registration was accepted.
    pub(super) fn registered(&mut self) {
        self.ports.announced(self.registering);
    }

    /// The ports for the next heartbeat, if the scheduler does not know them yet.
    pub(super) fn tell(&mut self) -> Option<Vec<u16>> {
        self.telling = (!self.ports.is_announced()).then(|| self.ports.version());
        self.telling.map(|_| self.ports.numbers())
    }

    /// The heartbeat has come back.
    pub(super) fn told(&mut self, answered: bool) {
        if let Some(version) = self.telling.take()
            && answered
        {
            self.ports.announced(version);
        }
    }
}

impl Agent {
    /// Makes the worker known again, with the ports that it keeps by now.
    pub(super) fn register_again(&mut self) {
        self.identity.ports = self.rounds.register();
        self.calls.register(self.identity.clone());
    }

    /// Completes what is to be started with what its round needs. Its port stays kept until [`Agent::launch`].
    pub(super) fn join_round(&mut self, job: &Job, spec: &mut StartSpec) {
        let rounds = &mut self.rounds;
        let local = if rendezvous::needs_local_port(job) { rounds.ports.private() } else { None };
        let local_port = local.as_ref().map(KeptPort::number);
        let Some(told) = rendezvous::rendezvous(job, &rounds.machine, &spec.cwd, local_port) else {
            if job.gang.is_some() {
                tracing::warn!(job_id = %job.id, "the task is not among the peers of its round");
            }
            return;
        };
        // What comes later wins: the job's own variables over ours for frameworks, facts over all.
        spec.env.splice(0..0, told.variables);
        spec.env.extend(told.facts);
        spec.hostfile = told.hostfile;
        spec.unset.clone_from(&rounds.withheld);
        let port = match local {
            Some(kept) => Some(Port::Private(kept)),
            None => rendezvous::own_port(job, &self.identity.id).map(Port::OfPool),
        };
        rounds.waiting.extend(port.map(|port| (spec.key.clone(), port)));
    }

    /// Starts a process. Its port is free from here on, so that nothing may come in between.
    pub(super) fn launch(&mut self, spec: Box<StartSpec>) {
        self.give_up_port(&spec.key);
        self.executor.send(ToKeeper::Start(spec));
    }

    /// A job will not be started after all. Its port was promised to it, so that others must get another.
    pub(super) fn give_up_port(&mut self, key: &Key) {
        match self.rounds.waiting.remove(key) {
            Some(Port::OfPool(number)) => self.rounds.ports.let_go(number),
            Some(Port::Private(kept)) => drop(kept),
            None => {}
        }
    }

    /// The same for a job that was handed back as soon as it came.
    pub(super) fn refuse_port(&mut self, job: &Job) {
        if let Some(port) = rendezvous::own_port(job, &self.identity.id) {
            self.rounds.ports.let_go(port);
        }
    }
}
