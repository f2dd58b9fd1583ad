//! CPUs for attempts that ask for whole cores, and what is left for all others (`--cpu-bind`).
//!
//! Guarantees: no CPU is given to two attempts that asked for whole cores; who did not ask for whole cores stays off those
//! CPUs, as long as there are others; what an attempt had is free when its group is empty.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cpu_plan::{self, Cpu};
use super::files::write;
use super::{Isolation, IsolationForm, Tree};

/// The controller.
pub(super) const CPUSET: &str = "cpuset";
const SYSTEM: &str = "/sys/devices/system";

/// Who has which CPUs, among the attempts of one keeper.
#[derive(Debug, Default)]
pub(in super::super) struct CpuBook(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    machine: Vec<Cpu>,
    /// By slot.
    taken: BTreeMap<u32, Vec<u32>>,
    /// The files of those that share the rest, by slot.
    sharing: BTreeMap<u32, PathBuf>,
}

/// The CPUs of one attempt, given back when this is dropped.
#[derive(Debug)]
pub(in super::super) struct CpuLease {
    book: Arc<CpuBook>,
    slot: u32,
}

impl CpuBook {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an attempt its CPUs, or a part in the rest. `group` is where the slot has its group.
    pub(super) fn enter(
        self: &Arc<Self>,
        slot: u32,
        group: &Path,
        cpus_milli: Option<u64>,
    ) -> Result<CpuLease, String> {
        let file = group.join("cpuset.cpus");
        let mut entries = self.lock();
        if entries.machine.is_empty() {
            entries.machine =
                machine(group.parent().and_then(Path::parent).unwrap_or(group), Path::new(SYSTEM));
        }
        let lease = CpuLease { book: Arc::clone(self), slot };
        let whole = cpus_milli.filter(|milli| milli % 1_000 == 0).map_or(0, |milli| milli / 1_000);
        let free: Vec<Cpu> = entries.free();
        let Some(chosen) = cpu_plan::choose(&free, usize::try_from(whole).unwrap_or(usize::MAX)) else {
            let list = entries.rest();
            entries.sharing.insert(slot, file.clone());
            drop(entries);
            write(&file, &list).map_err(|error| format!("the attempt cannot share CPUs: {error}"))?;
            return Ok(lease);
        };
        let list = cpu_plan::format(chosen.iter().copied());
        entries.taken.insert(slot, chosen);
        // Before it starts.
        entries.tell_the_others();
        // The lease gives back what was taken when this fails.
        drop(entries);
        write(&file, &list).map_err(|error| format!("the attempt cannot have CPUs of its own: {error}"))?;
        Ok(lease)
    }
}

impl Entries {
    fn free(&self) -> Vec<Cpu> {
        let taken: BTreeSet<u32> = self.taken.values().flatten().copied().collect();
        self.machine.iter().filter(|cpu| !taken.contains(&cpu.number)).copied().collect()
    }

    /// What those share that asked for no whole cores; everything where nothing is left.
    fn rest(&self) -> String {
        let free = self.free();
        let rest = if free.is_empty() { &self.machine } else { &free };
        cpu_plan::format(rest.iter().map(|cpu| cpu.number))
    }

    fn tell_the_others(&self) {
        let list = self.rest();
        for file in self.sharing.values() {
            if let Err(error) = write(file, &list) {
                eprintln!("keeper: CPUs that are taken cannot be taken from others: {error}");
            }
        }
    }
}

impl Drop for CpuLease {
    fn drop(&mut self) {
        let mut entries = self.book.lock();
        entries.sharing.remove(&self.slot);
        if entries.taken.remove(&self.slot).is_some() {
            entries.tell_the_others();
        }
    }
}

/// Adds what binding needs to how attempts are isolated; an error says why it cannot be had.
pub fn bind_cpus(isolation: &mut Isolation) -> Result<(), String> {
    let first = isolation.trees.first().ok_or("there are no control groups: isolation is none")?;
    let base = first.path.parent().map(Path::to_owned).unwrap_or_default();
    match isolation.form {
        IsolationForm::None => return Err("there are no control groups: isolation is none".to_owned()),
        IsolationForm::CgroupV2 => {
            let there = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
            if !there.split_whitespace().any(|controller| controller == CPUSET) {
                return Err(format!("cgroup v2: there is no controller for {CPUSET} in {}", base.display()));
            }
            write(&base.join("cgroup.subtree_control"), &format!("+{CPUSET}"))
                .map_err(|error| format!("cgroup v2: {CPUSET} cannot be handed down: {error}"))?;
            isolation.trees.iter_mut().for_each(|tree| tree.controllers.push(CPUSET.to_owned()));
        }
        IsolationForm::CgroupV1 => {
            let name = first.path.file_name().unwrap_or_default().to_owned();
            let tree = super::choice::first_hierarchy(CPUSET, &name)?;
            let is_there = |other: &Tree| other.path == tree.path;
            if !isolation.trees.iter().any(is_there) {
                // Behind the one that every attempt goes into: every attempt goes into this one too.
                isolation.trees.insert(1, tree);
            }
        }
    }
    isolation.cpu_bind = true;
    Ok(())
}

/// In the first form a new group has no CPUs and no memory nodes, and takes no process before it has both.
pub(super) fn fill_first(group: &Path) {
    let parent = group.parent().unwrap_or(group);
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let value = fs::read_to_string(parent.join(name)).unwrap_or_default();
        // What cannot be written keeps processes out, which is told then.
        let _ = write(&group.join(name), value.trim());
    }
}

/// The CPUs below a group, and how they belong together.
fn machine(base: &Path, system: &Path) -> Vec<Cpu> {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let own = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    let all = own.map(|name| cpu_plan::parse(&read(base.join(name)))).into_iter().find(|all| !all.is_empty());
    let all = all.unwrap_or_else(|| cpu_plan::parse(&read(system.join("cpu/online"))));
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    for node in cpu_plan::parse(&read(system.join("node/online"))) {
        let cpus = cpu_plan::parse(&read(system.join(format!("node/node{node}/cpulist"))));
        nodes.extend(cpus.into_iter().map(|cpu| (cpu, node)));
    }
    let core = |number: u32| {
        let siblings = read(system.join(format!("cpu/cpu{number}/topology/thread_siblings_list")));
        cpu_plan::parse(&siblings).first().copied().unwrap_or(number)
    };
    let cpu = |number| Cpu { node: nodes.get(&number).copied().unwrap_or(0), core: core(number), number };
    all.into_iter().map(cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_cores_are_taken_from_those_who_share_and_given_back() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cpuset.cpus.effective"), "0-3\n").unwrap();
        let slot = |number: u32| {
            let group = root.path().join(format!("muster-1.7/slot-{number}.0"));
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cpuset.cpus"), "").unwrap();
            group
        };
        let has = |group: &Path| cpu_plan::parse(&fs::read_to_string(group.join("cpuset.cpus")).unwrap());
        let book = Arc::new(CpuBook::default());
        let (one, two, three) = (slot(1), slot(2), slot(3));
        let _sharing = book.enter(1, &one, None).unwrap();
        assert_eq!(has(&one).len(), 4);
        let own = book.enter(2, &two, Some(2_000)).unwrap();
        assert_eq!((has(&two).len(), has(&one).len()), (2, 2));
        assert!(has(&one).is_disjoint(&has(&two)));
        let part = book.enter(3, &three, Some(1_500)).unwrap();
        assert_eq!(has(&three), has(&one), "no whole cores");
        drop(part);
        // Files are written over from their beginning, as the kernel takes them; here what was longer stays.
        let all = book.enter(3, &three, Some(2_000)).unwrap();
        assert!(book.lock().free().is_empty());
        assert_eq!(book.lock().rest(), "0,1,2,3", "those who share are not left without");
        drop((own, all));
        assert_eq!(book.lock().free().len(), 4);
    }

    #[test]
    fn nodes_and_cores_are_read_where_the_system_tells_them() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("group/cpuset.cpus", "1-2\n");
        put("system/node/online", "0-1\n");
        put("system/node/node1/cpulist", "2-3\n");
        put("system/cpu/cpu2/topology/thread_siblings_list", "0,2\n");
        let found = machine(&root.path().join("group"), &root.path().join("system"));
        let cpu = |node, core, number| Cpu { node, core, number };
        assert_eq!(found, [cpu(0, 1, 1), cpu(1, 0, 2)]);
    }
}
