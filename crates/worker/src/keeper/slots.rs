//! The slots: each is a thread that takes a job, starts it, waits for it and takes the next.
//!
//! A slot never waits for the agent between two jobs; what it has to say goes to the outbox.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_protocol::{SignalScope, Usage};
use nix::libc;

use super::artifact_room::ArtifactRoom;
use super::cgroups::{CpuBook, CpuLease, Isolation, Limits, Measured, SlotGroup, Way};
use super::clock::boottime_ns;
use super::contained::{self, Contained, Settled};
use super::hostfile::Hostfile;
use super::launch::{self, Surroundings};
use super::leavings;
use super::message::{End, OutOfMemory, Outcome, StartSpec};
use super::outputs::{Handles, OutputNames, SlotOutputs};
use super::personal::Personal;
use super::private_tmp::{AttemptTmp, PrivateTmp};
use super::process_tree::Process;
use super::result_file::{Left, SlotResult};
use super::rusage;
use super::secret_grant::HandedSecrets;
use super::stragglers::Origin;
use super::table::{AttemptPlace, Table, elapsed_us};
use super::terminals::JobTerminal;
use crate::job_user::hand_over;

/// A slot's thread only spawns and waits.
const STACK_BYTES: usize = 256 * 1024;
/// How often those are looked for that were told to stop and have lost their leader.
const OTHERS_ROUND: Duration = Duration::from_millis(20);

/// The files of the attempt that a slot runs, and those that it keeps for the next.
#[derive(Debug, Default)]
struct SlotFiles {
    outputs: SlotOutputs,
    result: SlotResult,
    artifacts: ArtifactRoom,
    hostfile: Option<Hostfile>,
    secrets: HandedSecrets,
    group: Option<SlotGroup>,
    cpus: Option<CpuLease>,
    /// Of an attempt that runs in a container.
    container: Option<Contained>,
    terminal: Option<JobTerminal>,
    no_new_privileges: bool,
    private_tmp: Option<AttemptTmp>,
}

impl SlotFiles {
    /// Makes the terminal of an attempt that wants one. Its process writes to that, and what comes out goes to the file.
    fn terminal_of(
        &mut self,
        table: &Table,
        spec: &StartSpec,
        handles: Handles,
    ) -> Result<(Handles, Option<File>), String> {
        let Some(size) = spec.terminal else { return Ok((handles, None)) };
        let Handles { stdout, stderr } = handles;
        let (terminal, theirs) = JobTerminal::open(size, stdout)?;
        let stdout =
            theirs.try_clone().map_err(|error| format!("cannot make a terminal for the job: {error}"))?;
        terminal.publish(&table.screens, &spec.key);
        self.terminal = Some(terminal);
        Ok((Handles { stdout, stderr }, Some(theirs)))
    }
}

/// How an attempt ended, and what it used if there was one.
#[derive(Debug)]
struct Reaped {
    outcome: Outcome,
    usage: Option<Usage>,
    out_of_memory: Option<OutOfMemory>,
}

impl Reaped {
    fn unstarted(reason: String) -> Self {
        Self { outcome: Outcome::NotStarted(reason), usage: None, out_of_memory: None }
    }

    /// Adds what the group of the attempt has counted.
    fn with(self, measured: &Measured, spec: &StartSpec) -> Self {
        let ended_well = matches!(self.outcome, Outcome::Exited(0));
        let was_killed = matches!(self.outcome, Outcome::Signalled(libc::SIGKILL));
        let ran_out = measured.was_out_of_memory(was_killed) && !ended_well;
        let out_of_memory = ran_out.then_some(OutOfMemory {
            limit_bytes: spec.limits.memory_bytes,
            peak_bytes: measured.peak_bytes,
        });
        Self { usage: self.usage.map(|waited| measured.improve(waited)), out_of_memory, ..self }
    }
}

/// Adds threads while there is more queued than idle threads can take, up to the number of slots.
pub(super) fn grow(table: &Arc<Table>, names: &Arc<OutputNames>) -> io::Result<()> {
    loop {
        let number = {
            let mut state = table.lock();
            let wanted = state.queue.len() as u64 > u64::from(state.idle_threads);
            if !wanted || state.threads >= state.slots {
                return Ok(());
            }
            state.threads += 1;
            // Counted as idle at once, so that the next turn of this loop sees it.
            state.idle_threads += 1;
            state.threads_made += 1;
            state.threads_made
        };
        let (shared, names) = (Arc::clone(table), Arc::clone(names));
        let spawned = std::thread::Builder::new()
            .name("slot".into())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&shared, &names, number));
        if let Err(error) = spawned {
            let mut state = table.lock();
            state.threads -= 1;
            state.idle_threads -= 1;
            return Err(error);
        }
    }
}

impl SlotFiles {
    /// Makes a `/tmp` for an attempt that is to have its own. A container has one anyway.
    fn give_tmp(&mut self, table: &Table, spec: &StartSpec, by: Option<PrivateTmp>) -> Result<(), String> {
        let Some(by) = by.filter(|_| spec.container.is_none()) else { return Ok(()) };
        let made = AttemptTmp::make(&table.lock().directory, by);
        self.private_tmp = Some(made.map_err(|error| format!("there is no /tmp for the attempt: {error}"))?);
        Ok(())
    }

    /// Gets the group of the slot ready for an attempt, where attempts have groups.
    fn enclose(
        &mut self,
        spec: &StartSpec,
        isolation: Option<&Arc<Isolation>>,
        cpus: &Arc<CpuBook>,
        number: u32,
    ) -> Result<(), String> {
        let Some(isolation) = isolation else {
            self.group = None;
            return Ok(());
        };
        let group = match self.group.take().filter(|group| group.is_of(isolation)) {
            Some(group) => group,
            None => SlotGroup::make(isolation, number)
                .map_err(|error| format!("there is no control group for the attempt: {error}"))?,
        };
        // A container has limits of its own; its runner is not bounded by them.
        let limits = if spec.container.is_some() { Limits::default() } else { spec.limits };
        let group = self.group.insert(group);
        group.begin(&limits)?;
        self.cpus = group.bind(cpus, &limits)?;
        Ok(())
    }
}

fn serve(table: &Table, names: &OutputNames, number: u32) {
    let mut slot = SlotFiles::default();
    while let Some(taken) = take(table) {
        let Taken { spec, base_env, isolation, no_new_privileges, private_tmp } = taken;
        slot.no_new_privileges = no_new_privileges;
        let begun = Instant::now();
        // A user of its own has its own directory for checkpoints.
        let shared = if spec.user.is_none() { spec.paths.checkpoint_dir.as_str() } else { "" };
        let directory = table.directories.prepare(shared);
        let spawned = directory
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|_| slot.enclose(&spec, isolation.as_ref(), &table.cpus, number))
            .and_then(|()| slot.give_tmp(table, &spec, private_tmp))
            .and_then(|()| prepare(table, &spec, &base_env, &mut slot, names));
        let (mut reaped, announced) = match spawned {
            Ok(origin) => run(table, &origin, &spec, &slot),
            Err(reason) => (Reaped::unstarted(reason), false),
        };
        slot.cpus = None;
        if let Some(container) = slot.container.take() {
            let Settled { outcome, usage, out_of_memory } =
                container.settle(reaped.outcome, table.is_stopping(&spec.key));
            reaped = Reaped { outcome, usage, out_of_memory };
        }
        let Reaped { outcome, usage, out_of_memory } = reaped;
        if let Some(terminal) = slot.terminal.take() {
            terminal.finish(&table.screens, &spec.key, &outcome);
        }
        slot.hostfile = None;
        // The files of secrets go, and what the mask has held back comes out.
        slot.secrets = HandedSecrets::default();
        let mut files = slot.outputs.paths();
        let mut complaint = None;
        let left = leavings::collect(table, &spec, &outcome);
        leavings::release(table, &spec);
        files.checkpoint = left.checkpoint;
        files.artifacts = slot.artifacts.settle();
        let lent = directory.unwrap_or_default();
        let wanted = || table.has_other_attempt(&spec.key);
        table.directories.release(shared, &lent, wanted);
        match slot.result.settle(table.is_stopping(&spec.key) && left.finished.is_none()) {
            Left::Nothing => {}
            Left::Values(path) => files.result = path,
            Left::Mistake(mistake) => {
                slot.outputs.remark(&mistake);
                complaint = Some(mistake);
            }
        }
        // The agent follows the files of a job that it has heard of; they must not become another's.
        let (stdout_bytes, stderr_bytes) = slot.outputs.settle(!announced && spec.user.is_none());
        if stdout_bytes == 0 {
            files.stdout.clear();
        }
        if stderr_bytes == 0 {
            files.stderr.clear();
        }
        let (finished, run_us) = (left.finished, elapsed_us(begun));
        let end = End { finished, stdout_bytes, stderr_bytes, files, complaint, run_us, ..End::of(outcome) };
        let end = End { usage, out_of_memory, ..end };
        table.ended(&spec.key, end);
        // Nobody waits for the removal of what may be much.
        slot.private_tmp = None;
        table.lock().idle_threads += 1;
    }
}

/// What a slot has taken from the table.
struct Taken {
    spec: Box<StartSpec>,
    base_env: Arc<Vec<(String, String)>>,
    isolation: Option<Arc<Isolation>>,
    no_new_privileges: bool,
    private_tmp: Option<PrivateTmp>,
}

/// Waits for a job. `None` ends the slot: there are fewer slots than there were.
fn take(table: &Table) -> Option<Taken> {
    let mut state = table.lock();
    loop {
        if state.threads > state.slots {
            state.threads -= 1;
            state.idle_threads -= 1;
            return None;
        }
        if let Some(spec) = state.next_start(boottime_ns()) {
            state.idle_threads -= 1;
            let (base_env, isolation) = (Arc::clone(&state.base_env), state.isolation.clone());
            let (no_new_privileges, private_tmp) = (state.no_new_privileges, state.private_tmp);
            return Some(Taken { spec, base_env, isolation, no_new_privileges, private_tmp });
        }
        state = table.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

fn prepare(
    table: &Table,
    spec: &StartSpec,
    base_env: &[(String, String)],
    slot: &mut SlotFiles,
    names: &OutputNames,
) -> Result<Origin, String> {
    let handles = slot.outputs.open(names)?;
    let (secrets, handles) = HandedSecrets::hand_over(spec, handles, names.secrets())?;
    slot.secrets = secrets;
    let (handles, terminal) = slot.terminal_of(table, spec, handles)?;
    let personal = Personal::prepare(table.stragglers.directory(), spec)?;
    let (personal, user) = (personal.as_ref(), spec.user.as_deref());
    hand_over(user, [&handles.stdout, &handles.stderr].into_iter().chain(&terminal))?;
    slot.hostfile = Hostfile::write(names, spec.hostfile.as_deref(), personal)?;
    let (result, hostfile) = (slot.result.prepare(names, personal)?, slot.hostfile.as_ref());
    let artifacts = slot.artifacts.prepare(names, personal)?;
    let (mark, since_ns) = (table.stragglers.next_mark(), boottime_ns());
    let (secrets, terminal) = (slot.secrets.variables(), terminal.as_ref());
    let no_new_privileges = slot.no_new_privileges;
    let way = slot.group.as_ref().map(SlotGroup::way);
    let group = way.as_ref().map(Way::entrance);
    let around = Surroundings {
        base_env,
        handles,
        result,
        artifacts,
        hostfile,
        secrets,
        mark,
        group,
        terminal,
        no_new_privileges,
        user,
        view: slot.private_tmp.as_ref().map(AttemptTmp::view),
    };
    let pid = match &spec.container {
        None => launch::spawn(spec, &around)?,
        Some(container) => {
            let (pid, contained) = contained::spawn(spec, container, &around, table.stragglers.directory())?;
            slot.container = Some(contained);
            pid
        }
    };
    Ok(Origin::new(spec.key.clone(), pid, mark, since_ns))
}

/// Waits for the end of a process and of everything that it has started. Also says whether the agent has heard of
/// the start.
fn run(table: &Table, origin: &Origin, spec: &StartSpec, slot: &SlotFiles) -> (Reaped, bool) {
    let way = slot.group.as_ref().map(SlotGroup::way);
    let place = AttemptPlace { way, has_own_tmp: slot.private_tmp.is_some() };
    table.started(&origin.key, origin.leader.unsigned_abs(), slot.outputs.paths(), place);
    launch::wait_for_end(origin.leader.unsigned_abs());
    await_the_others(table, origin);
    let (mut reaped, announced) =
        table.reap(&origin.key, origin.leader.unsigned_abs(), || reap(origin.leader));
    table.await_guests(&origin.key);
    if let Some(group) = &slot.group {
        table.stragglers.end_group(origin, group);
        reaped = reaped.with(&group.measured(), spec);
    }
    // Without a group, or where one has left it, what is left is found by its marks.
    table.stragglers.end(origin, || table.other_leaders(origin));
    (reaped, announced)
}

/// Those that were told to stop have their time to the end, even if the leader took less: a shell dies of a signal
/// at once, and the program behind it may just be saving what it has.
fn await_the_others(table: &Table, origin: &Origin) {
    while let Some(scope) = table.spared_after_the_leader(&origin.key) {
        let was_told = |process: &Process| match scope {
            SignalScope::Leader => false,
            SignalScope::Group => process.group == origin.leader,
            SignalScope::Descendants | SignalScope::All => true,
        };
        if !table.stragglers.has_left(origin, &table.other_leaders(origin), was_told) {
            return;
        }
        std::thread::sleep(OTHERS_ROUND);
    }
}

fn reap(leader: i32) -> Reaped {
    match rusage::collect(leader) {
        Ok((status, usage)) => {
            Reaped { outcome: outcome(ExitStatus::from_raw(status)), usage: Some(usage), out_of_memory: None }
        }
        Err(error) => Reaped::unstarted(format!("the end of the process was missed: {error}")),
    }
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signalled(signal),
        (None, None) => Outcome::NotStarted(format!("the process ended in an unknown way: {status}")),
    }
}
