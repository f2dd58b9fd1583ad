//! Which paths the patterns of a job name: `*`, `?` and `[...]` within a name, `**` for any folders.
//!
//! Guarantee: a comparison takes a time that is bounded by the lengths of both, whatever a pattern looks like.

/// Whether the path of a file matches a pattern.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let parts: Vec<&str> = pattern.split('/').collect();
    let names: Vec<&str> = path.split('/').collect();
    // Which beginnings of the names the parts so far can stand for; each step costs no more than there are names.
    let mut open = vec![false; names.len() + 1];
    open[0] = true;
    for part in parts {
        let mut next = vec![false; names.len() + 1];
        if part == "**" {
            let first = open.iter().position(|is_open| *is_open).unwrap_or(names.len() + 1);
            next.iter_mut().skip(first).for_each(|place| *place = true);
        } else {
            for at in 0..names.len() {
                next[at + 1] = open[at] && matches_part(part, names[at]);
            }
        }
        open = next;
    }
    open[names.len()]
}

/// Whether files below a folder can match.
pub(super) fn leads(pattern: &str, folder: &str) -> bool {
    let parts: Vec<&str> = pattern.split('/').collect();
    let mut parts = parts.iter();
    for name in folder.split('/') {
        match parts.next() {
            Some(&"**") => return true,
            Some(part) if matches_part(part, name) => {}
            _ => return false,
        }
    }
    parts.next().is_some()
}

/// Whether a name matches a part of a pattern. `*` is tried from left to right, the last one taken back first.
fn matches_part(part: &str, name: &str) -> bool {
    let (part, name): (Vec<char>, Vec<char>) = (part.chars().collect(), name.chars().collect());
    let (mut at, mut letter) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while letter < name.len() {
        match part.get(at) {
            Some('*') => {
                star = Some((at, letter));
                at += 1;
                continue;
            }
            Some('?') => {
                at += 1;
                letter += 1;
                continue;
            }
            Some('[') => {
                if let Some(length) = matches_set(&part[at..], name[letter]) {
                    at += length;
                    letter += 1;
                    continue;
                }
            }
            Some(same) if *same == name[letter] => {
                at += 1;
                letter += 1;
                continue;
            }
            _ => {}
        }
        let Some((back, taken)) = star else { return false };
        star = Some((back, taken + 1));
        at = back + 1;
        letter = taken + 1;
    }
    part[at..].iter().all(|rest| *rest == '*')
}

/// The length of `[...]` when the letter is one of it.
fn matches_set(set: &[char], letter: char) -> Option<usize> {
    let not = matches!(set.get(1), Some('!' | '^'));
    let from = if not { 2 } else { 1 };
    let end = from + 1 + set.get(from + 1..)?.iter().position(|c| *c == ']')?;
    let (mut at, mut found) = (from, false);
    while at < end {
        if at + 2 < end && set[at + 1] == '-' {
            found |= set[at] <= letter && letter <= set[at + 2];
            at += 3;
        } else {
            found |= set[at] == letter;
            at += 1;
        }
    }
    (found != not).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        let cases = [
            ("out/*.pt", "out/a.pt", true),
            ("out/*.pt", "out/sub/a.pt", false),
            ("out/*.pt", "x/out/a.pt", false),
            ("**/*.pt", "a.pt", true),
            ("**/*.pt", "x/y/a.pt", true),
            ("out/**", "out/x/y", true),
            ("out/**/y", "out/y", true),
            ("out/**/y", "out/x/z", false),
            ("**/a/**/b", "a/a/x/b", true),
            ("run-?/log[0-9].txt", "run-1/log7.txt", true),
            ("run-?/log[!0-9].txt", "run-1/log7.txt", false),
            ("log[]a].txt", "log].txt", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("plain", "plain", true),
            ("\u{e4}?", "\u{e4}\u{f6}", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        let long = "*a".repeat(200);
        assert!(!matches(&long, &"a".repeat(250)[..199]));
    }

    #[test]
    fn folders_without_matches_are_not_entered() {
        for (pattern, folder, expected) in [
            ("out/*.pt", "out", true),
            ("out/*.pt", "in", false),
            ("out/*.pt", "out/x", false),
            ("**/a", "x/y", true),
            ("o?t/*/z", "out/x", true),
        ] {
            assert_eq!(leads(pattern, folder), expected, "{pattern} {folder}");
        }
    }
}
