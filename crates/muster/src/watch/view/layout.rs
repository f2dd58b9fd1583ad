//! How the lines of the screen are shared among the lists.
//!
//! Guarantee: the shares add up to what there is; the focused list comes first, and no list that has
//! something to show disappears while another has more than it needs.

/// A list that wants lines: its title, perhaps the titles of its columns, and one for each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) entries: usize,
    pub(super) focused: bool,
    /// Lines above the first entry.
    pub(super) titles: usize,
}

/// The heights of the lists, in their order.
pub(super) fn heights(available: usize, claims: &[Claim]) -> Vec<usize> {
    let wanted = |claim: &Claim| if claim.entries == 0 { 1 } else { claim.titles + claim.entries };
    let least = |claim: &Claim| if claim.entries == 0 { 1 } else { claim.titles + 1 };
    let mut heights: Vec<usize> = claims.iter().map(least).collect();
    let mut sum: usize = heights.iter().sum();
    // Too little for all: the last ones that are not focused give way.
    for (index, claim) in claims.iter().enumerate().rev() {
        if sum <= available {
            break;
        }
        if !claim.focused {
            sum -= heights[index];
            heights[index] = 0;
        }
    }
    if sum > available {
        // Only the focused one is left.
        return claims.iter().map(|claim| if claim.focused { available } else { 0 }).collect();
    }
    let mut spare = available - sum;
    if let Some(index) = claims.iter().position(|claim| claim.focused) {
        let more = wanted(&claims[index]).saturating_sub(heights[index]).min(spare.div_ceil(2));
        heights[index] += more;
        spare -= more;
    }
    // One line each, round after round, to those that want more.
    while spare > 0 {
        let before = spare;
        for (height, claim) in heights.iter_mut().zip(claims) {
            if spare > 0 && *height > 0 && *height < wanted(claim) {
                *height += 1;
                spare -= 1;
            }
        }
        if spare == before {
            break;
        }
    }
    heights
}

/// The first entry that is shown so that the selected one is, near the middle where that is possible.
pub(super) fn first_visible(selected: usize, entries: usize, rows: usize) -> usize {
    selected.saturating_sub(rows / 2).min(entries.saturating_sub(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(entries: &[usize], focus: usize) -> Vec<Claim> {
        let claim = |(index, entries): (usize, &usize)| Claim {
            entries: *entries,
            focused: index == focus,
            titles: 2,
        };
        entries.iter().enumerate().map(claim).collect()
    }

    #[test]
    fn everything_fits_where_there_is_room() {
        assert_eq!(heights(40, &claims(&[3, 0, 5], 0)), [5, 1, 7]);
    }

    #[test]
    fn the_focused_list_gets_the_larger_part() {
        let heights = heights(20, &claims(&[200, 200, 0], 1));
        assert_eq!(heights.iter().sum::<usize>(), 20);
        assert!(heights[1] > heights[0] && heights[0] > 3, "{heights:?}");
    }

    #[test]
    fn nothing_is_taken_that_is_not_there() {
        for available in 0..40 {
            for focus in 0..6 {
                let claims = claims(&[200, 7, 0, 1, 90, 2], focus);
                let heights = heights(available, &claims);
                assert!(heights.iter().sum::<usize>() <= available, "{available}: {heights:?}");
                assert!(available == 0 || heights[focus] > 0, "{available}: {heights:?}");
            }
        }
    }

    #[test]
    fn the_selected_entry_is_in_sight() {
        for (selected, entries, rows) in [(0, 10, 4), (5, 10, 4), (9, 10, 4), (2, 3, 9), (0, 0, 3)] {
            let first = first_visible(selected, entries, rows);
            assert!(first <= selected && (selected < first + rows || entries == 0));
        }
    }
}
