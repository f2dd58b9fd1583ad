//! From a claimed job and this machine to what its process is told about its round. No clock, no I/O.

use muster_protocol::{GangPeer, Job, LaunchMode};

use super::topology::Topology;
use super::{hostfile, per_node, per_rank, slurm};

/// A job that is alone meets itself here.
const ALONE: &str = "127.0.0.1";

/// What there is to know of the machine.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// The cores on offer.
    pub(crate) cpus: f64,
    pub(crate) slots: u32,
    pub(crate) hostname: Option<String>,
}

/// What a process is told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendezvous {
    /// For frameworks; variables of the job itself win over them.
    pub(crate) variables: Vec<(String, String)>,
    /// Our own, which are facts and cannot be overridden.
    pub(crate) facts: Vec<(String, String)>,
    /// The text of the hostfile.
    pub(crate) hostfile: Option<String>,
}

/// A list of variables in the making.
#[derive(Debug, Default)]
pub(super) struct Variables(Vec<(String, String)>);

impl Variables {
    #[expect(clippy::needless_pass_by_value, reason = "numbers, texts and references are all given alike")]
    pub(super) fn set(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    pub(super) fn set_known(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }
}

/// What one task has of its machine.
#[derive(Debug, PartialEq)]
pub(super) struct Share {
    cpus: f64,
    /// The job has asked for cores; otherwise they are those of a slot.
    pub(super) asked_cpus: bool,
    pub(super) gpus: u64,
}

impl Share {
    fn of(job: &Job, machine: &Machine) -> Self {
        let asked = job.resources.as_ref().map_or(0.0, |resources| resources.cpus);
        let gpus = job.resources.as_ref().map_or(0, |resources| resources.gpus);
        let of_slot = machine.cpus / f64::from(machine.slots.max(1));
        let asked_cpus = asked > 0.0;
        Self { cpus: if asked_cpus { asked } else { of_slot }, asked_cpus, gpus }
    }

    /// Whole cores for each of so many processes of the task, at least one.
    pub(super) fn threads(&self, processes: u64) -> u64 {
        ((self.cpus / processes.max(1) as f64) as u64).max(1)
    }

    /// Whole cores of so many tasks, at least one for each.
    pub(super) fn cpus_of(&self, tasks: u64) -> u64 {
        ((self.cpus * tasks as f64) as u64).max(tasks)
    }
}

/// Whether a job meets only itself, at a port that nobody has reserved for it yet.
pub(crate) fn needs_local_port(job: &Job) -> bool {
    job.gang.is_none() && job.launch == Some(LaunchMode::PerRank)
}

/// The port that the scheduler has taken from this worker for a task.
pub(crate) fn own_port(job: &Job, worker_id: &str) -> Option<u16> {
    let gang = job.gang.as_ref()?;
    let own = gang.peers.iter().find(|peer| peer.index == gang.index)?;
    own.port.filter(|_| own.worker_id == worker_id)
}

/// What the process of a job is told; `None` for a job that is alone and did not ask to be a rank.
pub(crate) fn rendezvous(
    job: &Job,
    machine: &Machine,
    directory: &str,
    local_port: Option<u16>,
) -> Option<Rendezvous> {
    let share = Share::of(job, machine);
    let Some(gang) = &job.gang else {
        if !needs_local_port(job) {
            return None;
        }
        let alone = [GangPeer { host: ALONE.to_owned(), port: local_port, ..GangPeer::default() }];
        let place = Topology::of(&alone, 0)?;
        let mut variables = per_rank::variables(&place, &share);
        if job.slurm_env {
            let restarts = job.attempts.saturating_sub(1);
            let step = slurm::Step { job, id: &job.id, restarts, directory };
            variables.0.extend(slurm::variables(step, &place, &share, machine).0);
        }
        return Some(Rendezvous { variables: variables.0, ..Rendezvous::default() });
    };
    let place = Topology::of(&gang.peers, gang.index)?;
    let (variables, slots) = match gang.launch {
        LaunchMode::PerNode => (per_node::variables(&place, &share), per_node::processes(&share)),
        LaunchMode::PerRank => {
            let mut variables = per_rank::variables(&place, &share);
            if gang.slurm_env {
                let restarts = gang.round.saturating_sub(1);
                let step = slurm::Step { job, id: &gang.gang_id, restarts, directory };
                variables.0.extend(slurm::variables(step, &place, &share, machine).0);
            }
            (variables, 1)
        }
    };
    let mut facts = Variables::default();
    facts.set("MUSTER_GANG_ID", &gang.gang_id);
    facts.set("MUSTER_GANG_ROUND", gang.round);
    let hostfile = hostfile::text(&place, slots);
    Some(Rendezvous { variables: variables.0, facts: facts.0, hostfile })
}
