//! Paths of output files with places in them: `logs/%x-%j.out`.
//!
//! Guarantee: a pattern that was accepted can always be filled in. The host stays a place (`%N`), which the worker fills
//! in that knows it; so does `%%`.

use serde::{Deserialize, Serialize};

use crate::job::Job;

/// Wider numbers than this are a mistake.
const MOST_DIGITS: usize = 10;

/// Where a job's output goes besides what is kept of it, and which of its files are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputFiles {
    /// Patterns of paths.
    #[serde(rename = "o", skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// What is in the files already stays. Otherwise each attempt begins them anew.
    #[serde(rename = "a", skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Patterns of files of the working directory that are kept as artifacts.
    #[serde(rename = "k", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error(
        "{place:?} is no place that can be filled in; there are %j (job), %A (array), %a (index), %x (name), %u (user), \
         %t (rank), %N (host), %% (a percent sign), %{{JOB_ID}}, %{{TASK_ID}}, %{{INSTANCE_ID}} and %{{JOB_NAME}}"
    )]
    Unknown { place: String },
    #[error("{place:?} has more than {MOST_DIGITS} digits")]
    TooWide { place: String },
    #[error("a path is empty or ends with /; it must name a file")]
    NoFile,
}

/// A piece of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'p> {
    Text(&'p str),
    /// A number or a name, with the least digits of a number.
    Place(Place, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Job,
    Array,
    Index,
    Name,
    User,
    Rank,
    Host,
    Attempt,
    Percent,
}

/// The names of `HyperQueue`, beside the letters of `sbatch`.
const LONG: [(&str, Place); 4] = [
    ("{JOB_ID}", Place::Job),
    ("{TASK_ID}", Place::Index),
    ("{INSTANCE_ID}", Place::Attempt),
    ("{JOB_NAME}", Place::Name),
];

fn pieces(pattern: &str) -> Result<Vec<Piece<'_>>, PatternError> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        let (place, digits, length) = place(from)?;
        pieces.push(Piece::Place(place, digits));
        rest = &from[length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// The place at the beginning of a text, its least digits, and how long it is.
fn place(from: &str) -> Result<(Place, usize, usize), PatternError> {
    let after = &from[1..];
    if let Some((name, place)) = LONG.iter().find(|(name, _)| after.starts_with(name)) {
        return Ok((*place, 0, 1 + name.len()));
    }
    let digits = after.len() - after.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let letter = after[digits..].chars().next();
    let length = 1 + digits + letter.map_or(0, char::len_utf8);
    let shown = || from[..length].to_owned();
    let place = match letter {
        Some('j' | 'J') => Place::Job,
        Some('A') => Place::Array,
        Some('a') => Place::Index,
        Some('x') => Place::Name,
        Some('u') => Place::User,
        Some('t') => Place::Rank,
        Some('N' | 'h') => Place::Host,
        Some('%') if digits == 0 => Place::Percent,
        _ => return Err(PatternError::Unknown { place: shown() }),
    };
    let least = after[..digits].parse().unwrap_or(0);
    if least > MOST_DIGITS || digits > 2 {
        return Err(PatternError::TooWide { place: shown() });
    }
    Ok((place, least, length))
}

/// Whether a pattern names a file and can be filled in.
pub fn check(pattern: &str) -> Result<(), PatternError> {
    if pattern.is_empty() || pattern.ends_with('/') {
        return Err(PatternError::NoFile);
    }
    pieces(pattern).map(|_| ())
}

/// The pattern with everything filled in but the host and percent signs.
pub fn fill(pattern: &str, job: &Job) -> String {
    // What is stored was checked when it came in.
    let Ok(pieces) = pieces(pattern) else { return pattern.to_owned() };
    let mut path = String::with_capacity(pattern.len() + 40);
    for piece in pieces {
        match piece {
            Piece::Text(text) => path.push_str(text),
            Piece::Place(place, digits) => path.push_str(&value(place, digits, job)),
        }
    }
    path
}

fn value(place: Place, digits: usize, job: &Job) -> String {
    let member = job.member.as_ref();
    let number = |number: u32| format!("{number:0digits$}");
    let index = member.and_then(|member| member.index).unwrap_or(0);
    match place {
        Place::Job => job.id.to_string(),
        Place::Array => member.map_or_else(|| job.id.to_string(), |member| member.set.to_string()),
        Place::Index => number(index),
        Place::Rank => number(job.spec.gang.as_ref().map_or(0, |gang| gang.index)),
        // The first is 0.
        Place::Attempt => number(job.attempts.saturating_sub(1)),
        Place::Name => {
            let step = || member.and_then(|member| member.step.as_deref());
            plain(job.spec.name.as_deref().or_else(step).unwrap_or("job"))
        }
        Place::User => plain(job.spec.user.as_deref().unwrap_or("nobody")),
        Place::Host => "%N".to_owned(),
        Place::Percent => "%%".to_owned(),
    }
}

/// A name as one part of a path, in which nothing is left to fill in.
fn plain(name: &str) -> String {
    let part = name.replace(['/', '\0'], "_").replace('%', "%%");
    if part == "." || part == ".." { "_".to_owned() } else { part }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{JobId, JobSpec, Member, Phase, SetId, Timestamp};

    fn job(name: Option<&str>) -> Job {
        let spec =
            JobSpec { name: name.map(str::to_owned), user: Some("ann".to_owned()), ..JobSpec::shell("x") };
        let id = JobId::from_random([1; 16]);
        let mut job = Job::new(id, Arc::new(spec), Phase::Pending, Timestamp::default());
        job.attempts = 2;
        job.member = Some(Member { set: SetId::from_random([2; 16]), step: None, index: Some(7) });
        job
    }

    #[test]
    fn places_are_filled_in() {
        let it = job(Some("fit"));
        let (id, set) = (it.id.to_string(), it.member.as_ref().unwrap().set.to_string());
        for (pattern, expected) in [
            ("out.txt", "out.txt".to_owned()),
            ("logs/%x-%j.out", format!("logs/fit-{id}.out")),
            ("%A_%a.out", format!("{set}_7.out")),
            ("%4a-%t-%u", "0007-0-ann".to_owned()),
            ("%N/100%%", "%N/100%%".to_owned()),
            ("%{JOB_ID}.%{TASK_ID}.%{INSTANCE_ID}.%{JOB_NAME}", format!("{id}.7.1.fit")),
            ("%3N", "%N".to_owned()),
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
            assert_eq!(fill(pattern, &it), expected, "{pattern}");
        }
        let none = Job { member: None, ..job(None) };
        assert_eq!(fill("%x_%a_%A", &none), format!("job_0_{}", none.id));
    }

    #[test]
    fn names_stay_one_part_of_a_path_and_are_not_filled_in_again() {
        assert_eq!(fill("%x.out", &job(Some("a/b%N"))), "a_b%%N.out");
        assert_eq!(fill("%x/out", &job(Some(".."))), "_/out");
    }

    #[test]
    fn what_cannot_be_filled_in_is_refused_with_what_can() {
        for wrong in ["%", "a%", "%q", "%{X}", "%%%", "%4%", "%99a", "%123a", "", "logs/"] {
            let error = check(wrong).unwrap_err();
            assert!(
                matches!(error, PatternError::NoFile | PatternError::TooWide { .. })
                    || error.to_string().contains("%j"),
                "{wrong}: {error}"
            );
        }
    }
}
