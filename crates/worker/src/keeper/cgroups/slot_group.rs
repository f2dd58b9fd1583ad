//! The group of a slot: all attempts of the slot use it, one after the other.
//!
//! Making a group costs more than many a short job; so it is made once, and its limits are written only when they
//! differ from those of the attempt before. One that cannot be used as it is, is made anew.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_protocol::Usage;

use super::counters::{Count, Counters};
use super::cpu_bind::{self, CPUSET, CpuBook, CpuLease};
use super::doors::{Doors, Way};
use super::files::{Kept, named, processes, write};
use super::leftovers::{kill_listed, kill_tree};
use super::{CpuLimit, Isolation, IsolationForm, Limits, Tree};

/// The time over which the use of cores is bounded, in microseconds, and the smallest part of it that the kernel takes.
const PERIOD_US: u64 = 100_000;
const LEAST_QUOTA_US: u64 = 1_000;
/// What a group gets that asks for one core, or for none.
const SHARES_OF_A_CORE: u64 = 1_024;
const WEIGHT_OF_A_CORE: u64 = 100;

/// What a group counted of one attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Measured {
    /// Processor time in all, and the part of it in the kernel where that is known.
    cpu_us: Option<u64>,
    system_us: Option<u64>,
    /// Without what was kept of files in memory.
    held_bytes: Option<u64>,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
    /// With what was kept of files in memory.
    pub(in super::super) peak_bytes: u64,
    /// Processes that the kernel killed for want of memory, and how many of them while guests were there.
    kills: u64,
    excused: u64,
}

#[derive(Debug)]
pub(in super::super) struct SlotGroup {
    isolation: Arc<Isolation>,
    number: u32,
    /// How many groups the slot had before this one.
    generation: u32,
    made: Made,
}

#[derive(Debug)]
struct Made {
    places: Vec<Tree>,
    counters: Counters,
    /// How many processes and threads there are.
    tasks: Option<Kept>,
    doors: Arc<Doors>,
    /// How many of the places an attempt goes into that asks for no cores: it competes for them like everybody else.
    without_cores: usize,
    /// How many of them an attempt goes into that asks for nothing: enough to end it. Each more costs a short job.
    without_limits: usize,
    /// What is written to the files of the group.
    set: Limits,
    is_used: bool,
    /// All of it was killed at once. Kernels from 6.14 on, and older ones with that change, then kill at once whatever is
    /// made inside of the group from outside.
    is_spent: Cell<bool>,
    /// The peak is that of the attempt under way alone.
    peak_is_own: bool,
    before: Count,
}

impl SlotGroup {
    pub(in super::super) fn make(isolation: &Arc<Isolation>, number: u32) -> io::Result<Self> {
        let made = Made::new(isolation, number, 0)?;
        Ok(Self { isolation: Arc::clone(isolation), number, generation: 0, made })
    }

    /// Whether the group is what this asks for.
    pub(in super::super) fn is_of(&self, isolation: &Arc<Isolation>) -> bool {
        Arc::ptr_eq(&self.isolation, isolation) || self.isolation == *isolation
    }

    /// Gets the group ready for an attempt.
    pub(in super::super) fn begin(&mut self, limits: &Limits) -> Result<(), String> {
        let said = |error: io::Error| format!("the control group of the attempt cannot be set up: {error}");
        if self.made.is_spent.get() {
            self.renew().map_err(said)?;
        }
        let exact = limits.memory_bytes.is_none() || !self.made.is_used;
        if self.made.limit(limits, self.isolation.cpu_limit).is_err() {
            // What attempts before it left in memory can keep a limit from being set.
            self.renew().map_err(said)?;
            self.made.limit(limits, self.isolation.cpu_limit).map_err(said)?;
        }
        self.made.doors.begin();
        if !self.counts() {
            return Ok(());
        }
        self.made.peak_is_own = self.made.counters.reset_peak();
        if !self.made.peak_is_own && !exact {
            self.renew().map_err(said)?;
            self.made.limit(limits, self.isolation.cpu_limit).map_err(said)?;
        }
        self.made.peak_is_own |= !self.made.is_used;
        self.made.is_used = true;
        self.made.before = self.made.counters.read();
        Ok(())
    }

    /// Gives the attempt its CPUs, where attempts are bound to them.
    pub(in super::super) fn bind(
        &self,
        book: &Arc<CpuBook>,
        limits: &Limits,
    ) -> Result<Option<CpuLease>, String> {
        let place =
            self.made.places.iter().find(|place| has_cpuset(place)).filter(|_| self.isolation.cpu_bind);
        place.map(|place| book.enter(self.number, &place.path, limits.cpus_milli)).transpose()
    }

    /// Whether the attempt is counted in its group: in the first form only where it is in those that count.
    fn counts(&self) -> bool {
        self.isolation.form == IsolationForm::CgroupV2 || !self.made.set.are_none()
    }

    fn renew(&mut self) -> io::Result<()> {
        self.generation += 1;
        let next = Made::new(&self.isolation, self.number, self.generation)?;
        std::mem::replace(&mut self.made, next).remove();
        Ok(())
    }

    /// The way that the processes of the attempt go.
    pub(in super::super) fn way(&self) -> Way {
        let made = &self.made;
        let count = match made.set {
            Limits { cpus_milli: Some(_), .. } => made.doors.join.len(),
            Limits { memory_bytes: Some(_), .. } => made.without_cores,
            Limits { cpus_milli: None, memory_bytes: None } => made.without_limits,
        };
        Way::new(&made.doors, count)
    }

    /// Whether nobody is in the group, those included that have ended and wait to be collected: they count against what
    /// the next attempt may have.
    pub(in super::super) fn is_empty(&self) -> bool {
        match self.made.tasks.as_ref().and_then(Kept::number) {
            Some(tasks) => tasks == 0,
            None => processes(&self.made.file("pids", "")).is_empty(),
        }
    }

    /// Kills, once, everything that is in the group. `again` when that was done before: what starts new processes
    /// faster than they are killed may start no more.
    pub(in super::super) fn kill(&self, again: bool) {
        self.made.is_spent.set(self.isolation.form == IsolationForm::CgroupV2);
        for place in &self.made.places {
            if again || self.isolation.form == IsolationForm::CgroupV2 {
                kill_tree(&place.path);
            } else {
                kill_listed(&place.path);
            }
        }
        if again {
            // What was forbidden to those is allowed to the next.
            self.made.allow_processes(self.isolation.max_processes);
        }
    }

    /// What was counted since the attempt began.
    pub(in super::super) fn measured(&self) -> Measured {
        if !self.counts() {
            return Measured::default();
        }
        let (before, after) = (self.made.before, self.made.counters.read());
        let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let peak = after.peak_bytes.filter(|peak| self.made.peak_is_own || Some(*peak) > before.peak_bytes);
        // What is left when nobody is alive are files, which nobody waits for when memory gets short.
        let held = peak.map(|peak| peak.saturating_sub(after.memory_bytes.unwrap_or(0)));
        Measured {
            cpu_us: since(before.cpu_us, after.cpu_us),
            system_us: since(before.system_us, after.system_us),
            held_bytes: held,
            read_bytes: since(before.read_bytes, after.read_bytes),
            written_bytes: since(before.written_bytes, after.written_bytes),
            peak_bytes: peak.unwrap_or(0),
            kills: after.oom_kills.saturating_sub(before.oom_kills),
            excused: self.made.doors.excused(),
        }
    }
}

impl Drop for SlotGroup {
    fn drop(&mut self) {
        self.made.remove();
    }
}

impl Measured {
    /// Whether the attempt ran out of memory. Where a guest took too much, only what befell the first process tells.
    pub(in super::super) fn was_out_of_memory(&self, first_was_killed: bool) -> bool {
        self.kills > self.excused || (self.kills > 0 && first_was_killed)
    }

    /// Takes what the group knows better than the parent of a process does: the group counts everybody, the parent those
    /// that were waited for.
    pub(in super::super) fn improve(&self, waited: Usage) -> Usage {
        let (user_ms, system_ms) = (waited.cpu_user_ms.unwrap_or(0), waited.cpu_system_ms.unwrap_or(0));
        // Where the group knows only the whole, it is divided as that of those that were waited for.
        let system_us = |whole: u64| match (self.system_us, user_ms + system_ms) {
            (Some(known), _) => known.min(whole),
            (None, 0) => 0,
            (None, both) => {
                u64::try_from(u128::from(whole) * u128::from(system_ms) / u128::from(both)).unwrap_or(0)
            }
        };
        let cpu = self.cpu_us.map(|whole| (whole - system_us(whole), system_us(whole)));
        Usage {
            cpu_user_ms: cpu.map_or(waited.cpu_user_ms, |(user, _)| Some(user / 1_000)),
            cpu_system_ms: cpu.map_or(waited.cpu_system_ms, |(_, system)| Some(system / 1_000)),
            // The parent hears of one process, with memory that others were charged for: libraries, files. The group may
            // have held files when it held most. It never held more than it counted.
            peak_memory_bytes: match self.held_bytes {
                Some(held) => Some(held.max(waited.peak_memory_bytes.unwrap_or(0)).min(self.peak_bytes)),
                None => waited.peak_memory_bytes,
            },
            read_bytes: self.read_bytes.max(waited.read_bytes),
            written_bytes: self.written_bytes.max(waited.written_bytes),
            peak_gpu_memory_bytes: waited.peak_gpu_memory_bytes,
        }
    }
}

impl Made {
    fn new(isolation: &Isolation, number: u32, generation: u32) -> io::Result<Self> {
        let is_second = isolation.form == IsolationForm::CgroupV2;
        let mut places = Vec::new();
        for tree in &isolation.trees {
            make_tree(tree, is_second)?;
            let path = tree.path.join(format!("slot-{number}.{generation}"));
            make_directory(&path)?;
            if !is_second && has_cpuset(tree) {
                cpu_bind::fill_first(&path);
            }
            places.push(Tree { path, ..tree.clone() });
        }
        let place = |controller: &str| {
            let has = |place: &&Tree| place.controllers.iter().any(|known| known == controller);
            places.iter().find(has).map(|place| place.path.clone()).unwrap_or_default()
        };
        let counters = if is_second { Counters::second(&place("memory")) } else { Counters::first(place) };
        let tasks = Kept::open(&place("pids").join("pids.current"));
        let into = places.first().filter(|_| is_second).map(|place| File::open(&place.path)).transpose()?;
        let open = |place: &Tree| {
            // A process that has one thread is moved by the older file without the kernel waiting for all others.
            let path = place.path.join(if is_second { "cgroup.procs" } else { "tasks" });
            OpenOptions::new().write(true).open(&path).map_err(|error| named(&path, "0", &error))
        };
        let join = places.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let count_of_kills = if is_second { "memory.events" } else { "memory.oom_control" };
        let together = is_second.then(|| place("memory").join("memory.oom.group"));
        let kills = Kept::open(&place("memory").join(count_of_kills));
        let doors = Arc::new(Doors { into, join, kills, together, ..Doors::default() });
        let without_cores = places.iter().take_while(|place| place.controllers != ["cpu"]).count();
        let ends = |place: &&Tree| has_cpuset(place) || place.controllers.iter().any(|known| known == "pids");
        let without_limits = places.iter().take_while(ends).count();
        let (set, before) = (Limits::default(), Count::default());
        let made = Self {
            places,
            counters,
            tasks,
            doors,
            without_cores,
            without_limits,
            set,
            is_used: false,
            is_spent: Cell::new(false),
            peak_is_own: false,
            before,
        };
        made.allow_processes(isolation.max_processes);
        if is_second {
            // One process alone is rarely of use without the others. Kernels before 4.19 cannot.
            let _ = write(&made.file("memory", "memory.oom.group"), "1");
        }
        Ok(made)
    }

    fn file(&self, controller: &str, name: &str) -> PathBuf {
        let has = |place: &&Tree| place.controllers.iter().any(|known| known == controller);
        self.places.iter().find(has).map(|place| place.path.join(name)).unwrap_or_default()
    }

    fn allow_processes(&self, most: u64) {
        if most > 0 {
            // A group that is not bounded is bounded by the one above.
            let _ = write(&self.file("pids", "pids.max"), &most.to_string());
        }
    }

    /// Writes the limits that differ from those that are set.
    fn limit(&mut self, limits: &Limits, cpu_limit: CpuLimit) -> io::Result<()> {
        if limits.memory_bytes != self.set.memory_bytes {
            self.limit_memory(limits.memory_bytes)?;
            self.set.memory_bytes = limits.memory_bytes;
        }
        if limits.cpus_milli != self.set.cpus_milli {
            self.limit_cpus(limits.cpus_milli, cpu_limit)?;
            self.set.cpus_milli = limits.cpus_milli;
        }
        Ok(())
    }

    fn limit_memory(&self, bytes: Option<u64>) -> io::Result<()> {
        if self.doors.into.is_some() {
            let (most, swap) = bytes.map_or(("max".to_owned(), "max"), |bytes| (bytes.to_string(), "0"));
            // There may be no swap to speak of.
            let _ = write(&self.file("memory", "memory.swap.max"), swap);
            return write(&self.file("memory", "memory.max"), &most);
        }
        let most = bytes.map_or_else(|| "-1".to_owned(), |bytes| bytes.to_string());
        // Memory with swap may never be less than memory alone, and is there only where swap is counted.
        let with_swap = self.file("memory", "memory.memsw.limit_in_bytes");
        let _ = write(&with_swap, "-1");
        write(&self.file("memory", "memory.limit_in_bytes"), &most)?;
        if bytes.is_some() && with_swap.exists() { write(&with_swap, &most) } else { Ok(()) }
    }

    fn limit_cpus(&self, milli: Option<u64>, cpu_limit: CpuLimit) -> io::Result<()> {
        let is_second = self.doors.into.is_some();
        let part =
            |whole: u64, least: u64| milli.map(|milli| (milli.saturating_mul(whole) / 1_000).max(least));
        match (cpu_limit, is_second) {
            (CpuLimit::Hard, true) => {
                let quota =
                    part(PERIOD_US, LEAST_QUOTA_US).map_or_else(|| "max".to_owned(), |us| us.to_string());
                write(&self.file("cpu", "cpu.max"), &format!("{quota} {PERIOD_US}"))
            }
            (CpuLimit::Hard, false) => {
                let quota =
                    part(PERIOD_US, LEAST_QUOTA_US).map_or_else(|| "-1".to_owned(), |us| us.to_string());
                write(&self.file("cpu", "cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&self.file("cpu", "cpu.cfs_quota_us"), &quota)
            }
            (CpuLimit::Shares, true) => {
                let weight = part(WEIGHT_OF_A_CORE, 1).unwrap_or(WEIGHT_OF_A_CORE).min(10_000);
                write(&self.file("cpu", "cpu.weight"), &weight.to_string())
            }
            (CpuLimit::Shares, false) => {
                let shares = part(SHARES_OF_A_CORE, 2).unwrap_or(SHARES_OF_A_CORE).min(262_144);
                write(&self.file("cpu", "cpu.shares"), &shares.to_string())
            }
        }
    }

    /// What cannot be removed now is removed with the groups of the worker.
    fn remove(&self) {
        for place in &self.places {
            if fs::remove_dir(&place.path).is_err() && place.path.exists() {
                kill_tree(&place.path);
                let _ = fs::remove_dir(&place.path);
            }
        }
    }
}

/// The directory of the worker, with the controllers handed down to the slots in the second form.
fn make_tree(tree: &Tree, is_second: bool) -> io::Result<()> {
    let is_new = make_directory(&tree.path)?;
    if is_new && !is_second && has_cpuset(tree) {
        cpu_bind::fill_first(&tree.path);
    }
    if is_new && is_second {
        let control = tree.path.join("cgroup.subtree_control");
        let wanted: Vec<String> =
            tree.controllers.iter().map(|controller| format!("+{controller}")).collect();
        write(&control, &wanted.join(" "))?;
        // Where the worker has no controller for input and output, they are counted by process.
        let _ = write(&control, "+io");
    }
    Ok(())
}

fn has_cpuset(tree: &Tree) -> bool {
    tree.controllers.iter().any(|controller| controller == CPUSET)
}

fn make_directory(path: &Path) -> io::Result<bool> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("{} cannot be made: {error}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_group_counts_goes_before_what_the_parent_hears() {
        let waited = Usage {
            cpu_user_ms: Some(30),
            cpu_system_ms: Some(10),
            peak_memory_bytes: Some(5_000),
            written_bytes: Some(512),
            ..Usage::default()
        };
        assert_eq!(
            Measured::default().improve(waited),
            waited,
            "a group that counts nothing changes nothing"
        );
        let (held_bytes, peak_bytes) = (Some(4_000), 7_000);
        let first = Measured { cpu_us: Some(80_000), held_bytes, peak_bytes, ..Measured::default() };
        let used = first.improve(waited);
        assert_eq!((used.cpu_user_ms, used.cpu_system_ms), (Some(60), Some(20)), "in the same proportion");
        assert_eq!((used.peak_memory_bytes, used.written_bytes), (Some(5_000), Some(512)));
        let second = Measured { system_us: Some(70_000), held_bytes: Some(6_000), ..first };
        let used = second.improve(waited);
        assert_eq!(
            (used.cpu_user_ms, used.cpu_system_ms, used.peak_memory_bytes),
            (Some(10), Some(70), Some(6_000))
        );
        let shared = Usage { peak_memory_bytes: Some(9_000), ..waited };
        assert_eq!(second.improve(shared).peak_memory_bytes, Some(7_000), "never more than the group had");
    }

    #[test]
    fn what_guests_took_is_not_held_against_the_attempt() {
        let measured = |kills, excused| Measured { kills, excused, ..Measured::default() };
        assert!(!measured(0, 0).was_out_of_memory(true));
        assert!(measured(1, 0).was_out_of_memory(false));
        assert!(!measured(2, 2).was_out_of_memory(false));
        assert!(measured(2, 2).was_out_of_memory(true), "its own process was killed");
    }
}
