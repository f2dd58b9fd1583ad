//! A step whose tasks start together or not at all: `gang`.

use muster_protocol::{GangPolicy, SubmitRequest, Topology, TopologyMode};

use crate::mistake::{Mistakes, Position};
use crate::node::{Content, Node};
use crate::values;

/// One task alone is no gang.
const LEAST: i64 = 2;
/// As many as the scheduler takes.
const MOST: i64 = 4_096;

const POLICIES: [(&str, GangPolicy); 2] =
    [("restart_all", GangPolicy::RestartAll), ("keep_done", GangPolicy::KeepDone)];
const KEYS: [&str; 7] = ["size", "min", "tasks_per_worker", "policy", "pack", "require_pack", "spread"];

/// What the step says about its tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gang {
    pub(crate) size: i64,
    min: Option<i64>,
    tasks_per_worker: Option<i64>,
    policy: Option<GangPolicy>,
    topology: Option<Topology>,
}

impl Gang {
    /// Writes it into the request that all tasks are made from.
    pub(crate) fn write(&self, request: &mut SubmitRequest) {
        request.gang_size = Some(self.size);
        request.gang_min = self.min;
        request.tasks_per_worker = self.tasks_per_worker;
        request.gang_policy = self.policy;
        request.topology.clone_from(&self.topology);
    }
}

/// `{size: 4, min: 2, tasks_per_worker: 1, policy: keep_done}`, or the size alone.
pub(crate) fn read(node: &Node, mistakes: &mut Mistakes) -> Option<Gang> {
    if matches!(node.content, Content::Scalar(_)) {
        let size = values::whole(node, "gang", (LEAST, MOST), mistakes)?;
        return Some(Gang { size, ..Gang::default() });
    }
    let mut gang = Gang::default();
    let mut bounded: Vec<(&str, Position, i64)> = Vec::new();
    let mut sized = false;
    for entry in values::mapping(node, "gang", mistakes)? {
        let (key, value) = (entry.key.as_str(), &entry.value);
        let amount = match key {
            "size" => {
                sized = true;
                gang.size = values::whole(value, key, (LEAST, MOST), mistakes).unwrap_or_default();
                None
            }
            "min" => {
                gang.min = values::whole(value, key, (1, MOST), mistakes);
                gang.min
            }
            "tasks_per_worker" => {
                gang.tasks_per_worker = values::whole(value, key, (1, MOST), mistakes);
                gang.tasks_per_worker
            }
            "policy" => {
                gang.policy = values::word(value, key, &POLICIES, mistakes);
                None
            }
            "pack" | "require_pack" | "spread" => {
                if gang.topology.is_some() {
                    mistakes.add(
                        entry.at,
                        "pack, require_pack and spread say where tasks are to be; keep one of them",
                    );
                }
                gang.topology = topology(key, value, mistakes);
                None
            }
            other => {
                mistakes.unknown_key(entry.at, other, "gang", &KEYS);
                None
            }
        };
        bounded.extend(amount.map(|amount| (key, value.at, amount)));
    }
    if !sized {
        mistakes.add(node.at, "gang needs the number of its tasks, such as {size: 4}");
        return None;
    }
    // A size that is wrong is a mistake already.
    for (key, at, amount) in bounded.into_iter().filter(|(.., amount)| gang.size > 0 && *amount > gang.size) {
        mistakes.add(at, format!("{key} is {amount}, and the gang has only {} tasks", gang.size));
    }
    Some(gang)
}

/// The label of workers that counts, such as `rack`.
fn topology(key: &str, value: &Node, mistakes: &mut Mistakes) -> Option<Topology> {
    let mode = if key == "spread" { TopologyMode::Spread } else { TopologyMode::Pack };
    let label = values::name(value, key, mistakes)?;
    Some(Topology { label, mode, required: key == "require_pack" })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_protocol::{GangPolicy, LaunchMode, OnPreemptExit0, SignalScope, TopologyMode};

    use crate::{Mistake, Step, parse};

    fn text(field: &str) -> String {
        format!("steps:\n  - name: a\n    run: x\n    {field}\n")
    }

    fn step(field: &str) -> Step {
        parse(&text(field), &BTreeMap::new())
            .unwrap_or_else(|found| panic!("{found:?}: {field}"))
            .steps
            .remove(0)
    }

    /// The only mistake is in the fourth line, at this column.
    #[track_caller]
    fn wrong(field: &str, column: usize, part: &str) {
        let found: Vec<Mistake> = parse(&text(field), &BTreeMap::new()).unwrap_err();
        let [only] = found.as_slice() else { panic!("{found:#?}") };
        assert_eq!((only.line, only.column), (4, column), "{only}");
        assert!(only.message.contains(part), "{only}");
    }

    #[test]
    fn a_number_or_a_mapping() {
        let short = step("gang: 4");
        assert_eq!((short.job.gang_size, short.job.gang_min, short.jobs()), (Some(4), None, 4));
        assert_eq!(step("gpus: 1").jobs(), 1);
        let job = step("gang: {size: 4, min: 2, tasks_per_worker: 3, policy: keep_done}").job;
        assert_eq!((job.gang_size, job.gang_min, job.tasks_per_worker), (Some(4), Some(2), Some(3)));
        assert_eq!(job.gang_policy, Some(GangPolicy::KeepDone));
    }

    #[test]
    fn tasks_are_packed_or_spread_by_a_label_and_workers_may_be_asked_for_alone() {
        let wanted = |field: &str| {
            let topology = step(field).job.topology.unwrap();
            (topology.label, topology.mode, topology.required)
        };
        assert_eq!(wanted("gang: {size: 4, pack: rack}"), ("rack".to_owned(), TopologyMode::Pack, false));
        assert_eq!(
            wanted("gang: {size: 4, require_pack: zone}"),
            ("zone".to_owned(), TopologyMode::Pack, true)
        );
        assert_eq!(wanted("gang: {size: 4, spread: rack}"), ("rack".to_owned(), TopologyMode::Spread, false));
        assert_eq!(step("gang: 4").job.topology, None);
        wrong("gang: {size: 4, pack: rack, spread: rack}", 33, "keep one of them");
        let text =
            "defaults: {exclusive: true}\nsteps: [{name: a, run: x}, {name: b, run: x, exclusive: false}]\n";
        let steps = parse(text, &BTreeMap::new()).unwrap().steps;
        assert_eq!([steps[0].job.exclusive, steps[1].job.exclusive], [true, false]);
    }

    #[test]
    fn how_tasks_are_started_and_stopped_may_be_said_for_all_steps() {
        let text = "defaults: {launch: per_rank, slurm_env: true, signal_scope: leader}\n\
                    steps:\n  a: {run: x, gang: 2}\n  b: {run: x, launch: per_node, slurm_env: false, \
                    on_preempt_exit0: success, signal_scope: all}\n";
        let document = parse(text, &BTreeMap::new()).unwrap();
        let [a, b] = document.steps.as_slice() else { panic!("{document:?}") };
        assert_eq!((a.job.launch, a.job.slurm_env), (Some(LaunchMode::PerRank), true));
        assert_eq!((a.job.signal_scope, a.job.on_preempt_exit0), (Some(SignalScope::Leader), None));
        assert_eq!((b.job.launch, b.job.slurm_env), (Some(LaunchMode::PerNode), false));
        assert_eq!(b.job.on_preempt_exit0, Some(OnPreemptExit0::Success));
        assert_eq!(b.job.signal_scope, Some(SignalScope::All));
    }

    #[test]
    fn mistakes_have_their_places() {
        wrong("gang: 1", 11, "from 2");
        wrong("gang: many", 11, "whole number");
        wrong("gang:", 5, "has no value");
        wrong("gang: [4]", 11, "a mapping such as");
        wrong("gang: {min: 2}", 11, "such as {size: 4}");
        wrong("gang: {size: 0, min: 2}", 18, "from 2");
        wrong("gang: {size: 4, min: 5}", 26, "min is 5, and the gang has only 4 tasks");
        wrong("gang: {min: 0, size: 4}", 17, "from 1");
        wrong("gang: {size: 4, tasks_per_worker: 8}", 39, "only 4 tasks");
        wrong("gang: {size: 4, policy: keepdone}", 29, "did you mean keep_done?");
        wrong("gang: {size: 4, tasks_per_workers: 2}", 21, "did you mean tasks_per_worker?");
        wrong("launch: per-rank", 13, "did you mean per_rank?");
        wrong("slurm_env: yes", 16, "true or false");
        wrong("on_preempt_exit0: fail", 23, "one of requeue, success");
        wrong("signal_scope: groop", 19, "did you mean group?");
    }

    #[test]
    fn a_step_may_be_many_gangs_and_defaults_none() {
        let many = step("gang: 4\n    array: 0-9");
        assert_eq!((many.elements.len(), many.job.gang_size, many.jobs()), (10, Some(4), 40));
        let found = parse("defaults: {gang: 4}\nsteps: [{name: a, run: x}]\n", &BTreeMap::new()).unwrap_err();
        assert!(found[0].message.contains("a step's own"), "{found:?}");
    }

    #[test]
    fn the_tasks_count_as_jobs() {
        let found = parse(&text("gang: 4096\n    array: 0-99"), &BTreeMap::new()).unwrap_err();
        assert!(found[0].message.contains("409600 jobs"), "{found:?}");
        wrong("gang: 4097", 11, "to 4096");
    }
}
