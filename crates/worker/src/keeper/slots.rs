//! The slots: each is a thread that takes a job, starts it, waits for it and takes the next.
//!
//! A slot never waits for the agent between two jobs; what it has to say goes to the outbox.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock::boottime_ns;
use super::hostfile::Hostfile;
use super::message::{End, Files, Key, Outcome, StartSpec};
use super::outputs::{OutputNames, SlotOutputs};
use super::result_file::{Left, SlotResult};
use super::table::{Table, elapsed_us};
use super::{launch, leavings, process_tree};

/// A slot's thread only spawns and waits.
const STACK_BYTES: usize = 256 * 1024;
/// How often the rest of a group is looked for that was told to stop and has lost its leader.
const GROUP_ROUND: Duration = Duration::from_millis(20);

/// The files of the attempt that a slot runs, and those that it keeps for the next.
#[derive(Debug, Default)]
struct SlotFiles {
    outputs: SlotOutputs,
    result: SlotResult,
    hostfile: Option<Hostfile>,
}

/// Adds threads while there is more queued than idle threads can take, up to the number of slots.
pub(super) fn grow(table: &Arc<Table>, names: &Arc<OutputNames>) -> io::Result<()> {
    loop {
        {
            let mut state = table.lock();
            let wanted = state.queue.len() as u64 > u64::from(state.idle_threads);
            if !wanted || state.threads >= state.slots {
                return Ok(());
            }
            state.threads += 1;
            // Counted as idle at once, so that the next turn of this loop sees it.
            state.idle_threads += 1;
        }
        let (shared, names) = (Arc::clone(table), Arc::clone(names));
        let spawned = std::thread::Builder::new()
            .name("slot".into())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&shared, &names));
        if let Err(error) = spawned {
            let mut state = table.lock();
            state.threads -= 1;
            state.idle_threads -= 1;
            return Err(error);
        }
    }
}

fn serve(table: &Table, names: &OutputNames) {
    let mut slot = SlotFiles::default();
    while let Some((spec, base_env)) = take(table) {
        let begun = Instant::now();
        let directory = table.directories.prepare(&spec.paths.checkpoint_dir);
        let spawned = directory.and_then(|()| prepare(&spec, &base_env, &mut slot, names));
        let (outcome, announced) = match spawned {
            Ok(child) => run(table, &spec.key, child, slot.outputs.paths()),
            Err(reason) => (Outcome::NotStarted(reason), false),
        };
        slot.hostfile = None;
        let mut files = slot.outputs.paths();
        let mut complaint = None;
        let left = leavings::collect(table, &spec, &outcome);
        files.checkpoint = left.checkpoint;
        table.directories.release(&spec.paths.checkpoint_dir, || table.has_other_attempt(&spec.key));
        match slot.result.settle(table.is_stopping(&spec.key) && left.finished.is_none()) {
            Left::Nothing => {}
            Left::Values(path) => files.result = path,
            Left::Mistake(mistake) => {
                slot.outputs.remark(&mistake);
                complaint = Some(mistake);
            }
        }
        // The agent follows the files of a job that it has heard of; they must not become another's.
        let (stdout_bytes, stderr_bytes) = slot.outputs.settle(!announced);
        if stdout_bytes == 0 {
            files.stdout.clear();
        }
        if stderr_bytes == 0 {
            files.stderr.clear();
        }
        let (finished, run_us) = (left.finished, elapsed_us(begun));
        let end = End { finished, stdout_bytes, stderr_bytes, files, complaint, run_us, ..End::of(outcome) };
        table.ended(&spec.key, end);
        table.lock().idle_threads += 1;
    }
}

type Taken = (Box<StartSpec>, Arc<Vec<(String, String)>>);

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
            return Some((spec, Arc::clone(&state.base_env)));
        }
        state = table.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

fn prepare(
    spec: &StartSpec,
    base_env: &[(String, String)],
    slot: &mut SlotFiles,
    names: &OutputNames,
) -> Result<Child, String> {
    let handles = slot.outputs.open(names)?;
    slot.hostfile = Hostfile::write(names, spec.hostfile.as_deref())?;
    launch::spawn(spec, base_env, handles, slot.result.prepare(names)?, slot.hostfile.as_ref())
}

/// Waits for the end of a process. Also says whether the agent has heard of the start.
fn run(table: &Table, key: &Key, mut child: Child, files: Files) -> (Outcome, bool) {
    let pid = child.id();
    table.started(key, pid, files);
    launch::wait_for_end(pid);
    await_the_group(table, key, pid);
    table.reap(key, pid, || reap(&mut child))
}

/// A group that was told to stop has its time to the end, even if the leader took less: a shell dies of a signal
/// at once, and the program behind it may just be saving what it has.
fn await_the_group(table: &Table, key: &Key, leader: u32) {
    while table.spares_the_group(key) && process_tree::outlives_its_leader(leader) {
        std::thread::sleep(GROUP_ROUND);
    }
}

fn reap(child: &mut Child) -> Outcome {
    match child.wait() {
        Ok(status) => outcome(status),
        Err(error) => Outcome::NotStarted(format!("the end of the process was missed: {error}")),
    }
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signalled(signal),
        (None, None) => Outcome::NotStarted(format!("the process ended in an unknown way: {status}")),
    }
}
