//! Policies under which nobody passes: all room is kept for the first in the line that does not fit.
//!
//! Guarantees: whoever goes before it may still start; what could never start holds up nobody.

use std::collections::BTreeMap;

use muster_domain::{KeptRoom, Resources};

use crate::fit::WorkerView;
use crate::outlook::Waiting;
use crate::policy::Policies;
use crate::prospect::{Occupant, prospect};

/// The room that every worker of the pool keeps, by position. `line` has what does not fit of the pool, in the order
/// in which it goes; `free` are the workers, those without a name that keep room for somebody already.
pub(crate) fn all_room(
    free: &[WorkerView],
    occupants: &[Occupant],
    line: &[&Waiting],
    policies: &Policies,
) -> BTreeMap<usize, KeptRoom> {
    let possible =
        |waiting: &&&Waiting| prospect(free, occupants, &waiting.unit, policies.scoring()).is_some();
    let Some(first) = line.iter().find(possible) else { return BTreeMap::new() };
    let unit = &first.unit;
    let room = KeptRoom {
        unit: unit.unit,
        priority: unit.priority,
        pool: unit.pool,
        rank: unit.rank,
        seq: unit.seq,
        tasks: 0,
        resources: Resources::default(),
        // Whoever ends in time would pass.
        until: None,
        spare: Resources::default(),
        spare_slots: Some(0),
    };
    let in_pool = |worker: &WorkerView| worker.id.is_some() && policies.has(unit.pool, &worker.tags);
    (0..free.len()).filter(|worker| in_pool(&free[*worker])).map(|worker| (worker, room.clone())).collect()
}

#[cfg(test)]
mod tests {
    use muster_domain::{Entrant, JobId, Turn, Unit};

    use super::*;
    use crate::gang::GangCandidate;
    use crate::outlook::{Outlook, Sight, outlook};
    use crate::policy::{Allowances, Policy, PolicyName};
    use crate::prospect::tests::{at, occupant, unit, worker};

    fn waits(seq: u64, tasks: u32, gpus: u64) -> Waiting {
        let unit =
            GangCandidate { unit: Unit::Job(JobId::from_random([seq as u8; 16])), seq, ..unit(tasks, gpus) };
        Waiting { unit, since: at(0), level: 0, stopped_for: None }
    }

    fn look(name: PolicyName, waiting: &[Waiting]) -> Outlook {
        let workers = [worker("a", 8, 8), worker("b", 8, 0)];
        let occupants = [occupant(0, 8, Some(200))];
        let sight = Sight {
            workers: &workers,
            occupants: &occupants,
            ledger: None,
            allowances: &Allowances::default(),
        };
        outlook(sight, waiting, &Policy::named(name).into(), at(100))
    }

    #[test]
    fn all_room_is_kept_for_the_first_that_could_start() {
        let found = look(PolicyName::Fifo, &[waits(9, 2, 8), waits(5, 3, 8), waits(7, 2, 8)]);
        assert_eq!(found.rooms.len(), 2);
        let need = Resources::default();
        let seventh = Unit::Job(JobId::from_random([7; 16]));
        for room in found.rooms.values() {
            assert_eq!((room.unit, room.seq), (seventh, 7), "three tasks would never fit");
            let anybody = Unit::Job(JobId::from_random([1; 16]));
            let entrant = |seq| Entrant {
                unit: anybody,
                turn: Turn::new(room.pool, room.rank, seq),
                need: &need,
                ends: Some(at(101)),
            };
            assert!(room.admits(&entrant(6)) && !room.admits(&entrant(8)), "not even who is short passes");
        }
    }

    #[test]
    fn no_room_is_kept_where_everybody_passes_and_nobody_is_stopped_but_by_muster() {
        assert_eq!(look(PolicyName::Greedy, &[waits(7, 2, 8)]), Outlook::default());
        let mut urgent = [waits(7, 2, 8)];
        urgent[0].unit.priority = 9;
        for name in PolicyName::ALL {
            let stops = look(name, &urgent).stops.len();
            assert_eq!(stops, usize::from(name == PolicyName::Muster), "{name}");
        }
    }
}
