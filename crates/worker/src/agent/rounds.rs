//! What a task is told about its round when it starts, and the ports that this worker keeps for rounds.

use std::collections::HashMap;

use muster_protocol::{Job, JobStatus, LeaseRef};

use super::agent_loop::Agent;
use super::held::Stage;
use super::reports;
use crate::config::WorkerConfig;
use crate::keeper::{Key, StartSpec, ToKeeper, boottime_ns};
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
    /// Tasks that start when they are told to, with what is to be started once they are prepared.
    barrier: HashMap<Key, Option<Box<StartSpec>>>,
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
            barrier: HashMap::new(),
            telling: None,
            registering: 0,
        }
    }

    /// Whether a task that is not started keeps a slot.
    pub(super) fn is_assembling(&self) -> bool {
        !self.barrier.is_empty()
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
        self.identity.containers = self.containers.announce();
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

    /// Notes that a task is to wait for the others of its round, if the scheduler says so.
    pub(super) fn await_round(&mut self, job: &Job, key: &Key) -> bool {
        let waits = job.status == JobStatus::Reserved;
        if waits {
            self.rounds.barrier.insert(key.clone(), None);
        }
        waits
    }

    /// Everything but the process is ready: starts it, unless it is to wait for the others of its round.
    pub(super) fn ready_to_start(&mut self, spec: Box<StartSpec>) {
        if let Some(place) = self.rounds.barrier.get_mut(&spec.key) {
            self.held.advance(&spec.key, Stage::Prepared);
            *place = Some(spec);
            return;
        }
        self.held.advance(&spec.key, Stage::Queued);
        self.update_fence();
        self.launch(spec);
    }

    /// The whole round is prepared. Said again, it means nothing; said too late for the lease, the scheduler is asked
    /// again.
    pub(super) fn go(&mut self, tasks: Vec<LeaseRef>) {
        for task in tasks {
            let key = reports::key_of(&task.job_id, task.lease);
            let prepared =
                self.held.get(&key).is_some_and(|held| held.stage == Stage::Prepared && !held.lost);
            if !prepared {
                continue;
            }
            if !self.held.is_fresh(&key, self.lease(), boottime_ns()) {
                tracing::warn!(job_id = %key.job_id, lease = key.lease, "the word to start came too late for its lease");
                continue;
            }
            let Some(Some(spec)) = self.rounds.barrier.remove(&key) else { continue };
            self.held.advance(&key, Stage::Queued);
            self.update_fence();
            self.launch(spec);
        }
    }

    /// Forgets a task that will not be started, with what was fetched for it.
    pub(super) fn drop_prepared(&mut self, key: &Key) {
        if let Some(Some(spec)) = self.rounds.barrier.remove(key)
            && !spec.paths.checkpoint.is_empty()
        {
            // What cannot be removed now is removed with the other leftovers.
            let _ = std::fs::remove_file(&spec.paths.checkpoint);
        }
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
