//! Fair shares between queues.
//!
//! Guarantees: shares are whole numbers, so that they compare the same everywhere; a queue that takes more
//! never has a smaller share, and one with more weight never a larger one.

/// Thousandths of a thousandth of the pool, for weight one.
const WHOLE: u64 = 1_000_000;

/// The largest part of the pool that a queue has of any kind of resource, divided by its weight.
pub fn dominant_share<const KINDS: usize>(used: [u64; KINDS], total: [u64; KINDS], weight: u32) -> u64 {
    let part = |(used, total): (u64, u64)| {
        // Amounts are small enough, but for absurd ones, which count as all there can be.
        let parts = used.saturating_mul(WHOLE).checked_div(total).unwrap_or(0);
        parts / u64::from(weight.max(1))
    };
    used.into_iter().zip(total).map(part).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_scarcest_kind_decides_and_weight_divides() {
        assert_eq!(dominant_share([2, 10], [8, 100], 1), 250_000);
        assert_eq!(dominant_share([2, 90], [8, 100], 3), 300_000);
        assert_eq!(dominant_share([5], [0], 1), 0);
    }

    proptest! {
        #[test]
        fn more_use_is_a_larger_share_and_more_weight_a_smaller_one(
            used in prop::array::uniform2(0_u64..1000), more in prop::array::uniform2(0_u64..1000),
            total in prop::array::uniform2(0_u64..1000), weight in 1_u32..10,
        ) {
            let share = dominant_share(used, total, weight);
            prop_assert!(dominant_share([used[0] + more[0], used[1] + more[1]], total, weight) >= share);
            prop_assert!(dominant_share(used, total, weight + 1) <= share);
        }
    }
}
