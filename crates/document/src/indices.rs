//! The indices of an array as people write them: `0-999`, `1,3,5-9`, `0-99:10`, with `%50` for at most 50 at once.

/// The most elements that an array may have.
pub const MAX_INDICES: usize = 1_000_000;

/// The indices in the order in which they are written; each may occur once.
pub fn parse_indices(text: &str) -> Result<Vec<u32>, String> {
    let mut indices = Vec::new();
    for part in text.split(',') {
        let range = part.trim();
        let (first, last, step) = parse_range(range).ok_or_else(|| {
            format!("{range:?} is no range of indices; write for example 0-9, 1,3,5 or 0-99:10")
        })?;
        if last < first {
            return Err(format!("the range {range:?} runs backwards; write {last}-{first}"));
        }
        let beyond_first = ((last - first) / step) as usize;
        if indices.len().saturating_add(beyond_first) >= MAX_INDICES {
            return Err(format!(
                "{text:?} has more than {MAX_INDICES} indices; submit them in several arrays"
            ));
        }
        indices.extend((first..=last).step_by(step as usize));
    }
    let mut sorted = indices.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the index {} occurs twice in {text:?}; each may occur once", pair[0])),
        None => Ok(indices),
    }
}

/// `A`, `A-B` or `A-B:STEP`.
fn parse_range(text: &str) -> Option<(u32, u32, u32)> {
    let (range, step) = match text.split_once(':') {
        Some((range, step)) => (range, number(step)?),
        None => (text, 1),
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (number(first)?, number(last)?);
    (step > 0).then_some((first, last, step))
}

/// Digits only: the signs that numbers may have mean ranges here.
fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    if text.chars().all(|letter| letter.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// `0-999%50`: the indices, and how many run at once.
pub fn parse_array(text: &str) -> Result<(Vec<u32>, Option<u32>), String> {
    let Some((indices, limit)) = text.split_once('%') else { return Ok((parse_indices(text)?, None)) };
    let limit = number(limit).filter(|limit| *limit > 0).ok_or_else(|| {
        format!("{limit:?} is not how many may run at once; write for example {}%50", indices.trim())
    })?;
    Ok((parse_indices(indices)?, Some(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lists_and_steps() {
        let cases: [(&str, &[u32]); 6] = [
            ("3", &[3]),
            ("0-3", &[0, 1, 2, 3]),
            ("5,1, 2-3", &[5, 1, 2, 3]),
            ("0-9,20-30:5", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 25, 30]),
            ("0-10:4", &[0, 4, 8]),
            ("4294967295", &[u32::MAX]),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_indices(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_list_of_indices_is_refused_with_the_next_step() {
        for text in ["", "a", "-1", "+1", "1-", "1,,2", "0-9:0", "1-2-3", "1:2:3", "4294967296"] {
            assert!(parse_indices(text).unwrap_err().contains("write for example"), "{text}");
        }
        assert_eq!(parse_indices("9-0").unwrap_err(), "the range \"9-0\" runs backwards; write 0-9");
        assert!(parse_indices("1-3,2").unwrap_err().contains("index 2 occurs twice"));
        assert_eq!(parse_indices("0-999999").map(|indices| indices.len()), Ok(MAX_INDICES));
        for text in ["0-1000000", "0-4294967295", "0-999999,1000000"] {
            assert!(parse_indices(text).unwrap_err().contains("1000000 indices"), "{text}");
        }
    }

    #[test]
    fn how_many_run_at_once() {
        assert_eq!(parse_array("0-2%2"), Ok((vec![0, 1, 2], Some(2))));
        assert_eq!(parse_array("0-2"), Ok((vec![0, 1, 2], None)));
        for text in ["0-2%", "0-2%0", "0-2%x", "0-2%-1", "%3"] {
            assert!(parse_array(text).is_err(), "{text}");
        }
    }
}
