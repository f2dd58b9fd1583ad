//! Levels of service: who has had little goes before who has had much, without knowing how long anything runs.
//!
//! Guarantees: a level never falls; what has had nothing is on the first level; a large gang climbs faster
//! than a single, since it takes more per second.

use muster_domain::{Span, Timestamp};

use super::settings::Policy;

/// The last level.
pub const LAST: u8 = 2;

/// What has been taken in all: an amount of GPUs (or cores) over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// In GPUs, or in thousandths of a core.
    pub size: u64,
    /// How much of `size` is one GPU or one core.
    pub one: u64,
    pub ran: Span,
}

impl Service {
    /// What so many tasks take that need so much each: GPUs, or cores where none is needed. Who asks for neither
    /// counts as one core: it takes a place.
    pub fn of(gpus: u64, cpu_millis: u64, tasks: u32, ran: Span) -> Self {
        let (each, one) = match (gpus, cpu_millis) {
            (0, 0) => (1000, 1000),
            (0, millis) => (millis, 1000),
            (gpus, _) => (gpus, 1),
        };
        Self { size: each.saturating_mul(u64::from(tasks)), one, ran }
    }
}

impl Policy {
    /// How long it runs until it has had the service of a level.
    fn bound(&self, level: u8, service: Service) -> Span {
        let alone = if level == 0 { self.first_service } else { self.second_service };
        let micros = u128::from(alone.as_micros()) * u128::from(service.one.max(1));
        let shared = micros.div_ceil(u128::from(service.size.max(1)));
        Span::from_micros(u64::try_from(shared).unwrap_or(u64::MAX))
    }

    /// The level of something that has run for so long.
    pub fn level(&self, service: Service) -> u8 {
        (0..LAST).find(|level| service.ran < self.bound(*level, service)).unwrap_or(LAST)
    }

    /// When something that runs since `since`, and had run before, reaches the next level.
    pub fn climbs_at(&self, level: u8, service: Service, since: Timestamp) -> Option<Timestamp> {
        let bound = self.bound(level, service).as_micros();
        let missing = bound.saturating_sub(service.ran.as_micros());
        (level < LAST).then(|| since + Span::from_micros(missing))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn service(size: u64, hours: u32) -> Service {
        Service { size, one: 1, ran: Span::from_secs(hours * 3600) }
    }

    #[test]
    fn four_and_forty_hours_of_one_gpu_are_the_bounds() {
        let policy = Policy::default();
        let levels = [0, 3, 4, 39, 40].map(|hours| policy.level(service(1, hours)));
        assert_eq!(levels, [0, 0, 1, 1, 2]);
        assert_eq!(policy.level(service(8, 1)), 1);
        let cores = |thousandths| policy.level(Service { one: 1000, ..service(thousandths, 4) });
        assert_eq!((cores(500), cores(1000), cores(10_000)), (0, 1, 2));
    }

    proptest! {
        #[test]
        fn a_level_is_reached_when_it_was_said_and_never_falls(size in 1_u64..200, ran in 0_u32..300_000, more in 0_u32..300_000) {
            let policy = Policy::default();
            let at = |ran: u32| Service { size, one: 1, ran: Span::from_secs(ran) };
            let before = policy.level(at(ran));
            prop_assert!(policy.level(at(ran + more)) >= before);
            if let Some(climbs) = policy.climbs_at(before, at(ran), Timestamp::default()) {
                let then = Service { ran: Span::from_secs(ran) + climbs.since(Timestamp::default()), ..at(ran) };
                prop_assert!(policy.level(then) > before);
                let just_before = Service { ran: Span::from_micros(then.ran.as_micros() - 1), ..then };
                prop_assert_eq!(policy.level(just_before), before);
            } else {
                prop_assert_eq!(before, LAST);
            }
        }
    }
}
