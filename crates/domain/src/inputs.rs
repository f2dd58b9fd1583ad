//! What a job finds when it starts, besides its command: a directory, its standard input, artifacts of jobs that it needs.
//!
//! Guarantee: where an artifact goes follows from what the job said and from its name alone, so that every attempt finds it in
//! the same place.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::artifact::{InvalidArtifactName, check_artifact_name};
use crate::ids::JobId;

/// An upload, by the space that it lies in and the digest of what it consists of.
///
/// Whoever knows a digest learns nothing by it: an upload is found only in the space of those who sent it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UploadRef {
    pub space: String,
    pub id: String,
}

impl fmt::Display for UploadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.id)
    }
}

/// The inputs of a job. They are the same for each of its attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The directory that each attempt runs in a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadRef>,
    /// What each attempt reads from its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<UploadRef>,
    /// A literal standard input on its way in. It is kept as an upload before the job is taken in, and never with the job.
    #[serde(skip)]
    pub stdin_text: Option<Arc<str>>,
    /// Artifacts of jobs that this one depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactInput>,
}

impl Inputs {
    /// In a box, as a specification has it; nothing when there are none.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Everything that was sent along and is to be fetched for it.
    pub fn uploads(&self) -> impl Iterator<Item = &UploadRef> {
        self.upload.iter().chain(&self.stdin)
    }

    /// Whether the same was asked for. The jobs that a name comes to are known to the first of two submissions only.
    pub fn asks_as(&self, other: &Self) -> bool {
        let asked = |inputs: &Self| -> Vec<_> {
            let each = inputs.artifacts.iter();
            each.map(|input| (input.from.clone(), input.path.clone(), input.to.clone())).collect()
        };
        self.upload == other.upload && self.stdin == other.stdin && asked(self) == asked(other)
    }
}

/// Artifacts of a job, of all jobs of a step, or of all tasks of a gang.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactInput {
    /// As it was named: a step, a job or a gang.
    pub from: String,
    /// The names among the dependencies of a submission that `from` comes to, on their way in.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The jobs that it comes to; a gang by its first task.
    #[serde(default)]
    pub jobs: Vec<JobId>,
    /// A file, a folder, or a pattern with `*`, `?` and `**`; everything when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it goes; under its own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Why an input cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInput {
    #[error("path is {path:?}: {why}")]
    Path { path: String, why: InvalidArtifactName },
    #[error("to is {to:?}: {why}")]
    To { to: String, why: InvalidArtifactName },
}

/// What of a name is meant.
enum Match<'n> {
    /// It is the file that was named.
    Whole,
    /// It lies in the folder, or fits the pattern; this is what comes after the part that is fixed.
    Below(&'n str),
}

impl ArtifactInput {
    /// Refuses paths that are no names of artifacts. Both may end with `/`, which says that a folder is meant.
    pub fn check(&self) -> Result<(), InvalidInput> {
        if let Some(path) = &self.path
            && let Err(why) = check_artifact_name(without_end(path))
        {
            return Err(InvalidInput::Path { path: path.clone(), why });
        }
        match &self.to {
            Some(to) => {
                check_artifact_name(without_end(to)).map_err(|why| InvalidInput::To { to: to.clone(), why })
            }
            None => Ok(()),
        }
    }

    /// Whether `path` stands for whatever fits it, so that one job of many may have nothing.
    pub fn is_pattern(&self) -> bool {
        self.path.as_deref().is_some_and(has_wildcard)
    }

    /// Whether an artifact of this name is meant.
    pub fn means(&self, name: &str) -> bool {
        self.matched(name).is_some()
    }

    /// Where an artifact goes, below the directory of inputs; `None` when it is not meant. `element` tells the jobs of one
    /// step apart, and the tasks of one gang.
    pub fn place(&self, name: &str, element: Option<&str>) -> Option<String> {
        let matched = self.matched(name)?;
        let base = name.rsplit('/').next().unwrap_or(name);
        let place = match (self.to.as_deref(), element) {
            (None, None) => name.to_owned(),
            (None, Some(element)) => format!("{}/{element}/{name}", self.from),
            (Some(to), element) => {
                let folder = without_end(to);
                match (element, matched) {
                    (None, Match::Whole) if folder == to => to.to_owned(),
                    (None, Match::Whole) => format!("{folder}/{base}"),
                    (None, Match::Below(rest)) => format!("{folder}/{rest}"),
                    (Some(element), Match::Whole) => format!("{folder}/{element}/{base}"),
                    (Some(element), Match::Below(rest)) => format!("{folder}/{element}/{rest}"),
                }
            }
        };
        Some(place)
    }

    fn matched<'n>(&self, name: &'n str) -> Option<Match<'n>> {
        let Some(path) = self.path.as_deref() else { return Some(Match::Below(name)) };
        let folder = without_end(path);
        if name == path {
            return Some(Match::Whole);
        }
        if let Some(rest) = name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
            return Some(Match::Below(rest));
        }
        if !has_wildcard(path) || !fits(folder, name) {
            return None;
        }
        let fixed = folder.split('/').take_while(|part| !has_wildcard(part)).map(|part| part.len() + 1).sum();
        Some(Match::Below(name.get(fixed..).unwrap_or(name)))
    }
}

fn without_end(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether a name fits a pattern: `**` stands for any number of folders, `*` for any letters of one part, `?` for one letter.
fn fits(pattern: &str, name: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let name: Vec<&str> = name.split('/').collect();
    runs(&pattern, &name, |part| *part == "**", |part, name| part_fits(part, name))
}

fn part_fits(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    runs(&pattern, &name, |letter| *letter == '*', |letter, other| *letter == '?' || letter == other)
}

/// Whether `items` are what the pattern says, where a star stands for any number of them. Only the last star is tried again,
/// so that no pattern takes long.
fn runs<P, I>(
    pattern: &[P],
    items: &[I],
    is_star: impl Fn(&P) -> bool,
    is_one: impl Fn(&P, &I) -> bool,
) -> bool {
    let (mut at, mut item, mut star) = (0, 0, None);
    while item < items.len() {
        if pattern.get(at).is_some_and(&is_star) {
            star = Some((at, item));
            at += 1;
        } else if pattern.get(at).is_some_and(|wanted| is_one(wanted, &items[item])) {
            (at, item) = (at + 1, item + 1);
        } else if let Some((place, taken)) = star {
            star = Some((place, taken + 1));
            (at, item) = (place + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(is_star)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(path: Option<&str>, to: Option<&str>) -> ArtifactInput {
        let own = |text: Option<&str>| text.map(str::to_owned);
        ArtifactInput { from: "train".into(), path: own(path), to: own(to), ..ArtifactInput::default() }
    }

    #[test]
    fn a_file_goes_under_its_name_or_where_it_is_said() {
        let place = |path, to, name| input(path, to).place(name, None);
        assert_eq!(place(Some("raw.csv"), None, "raw.csv").as_deref(), Some("raw.csv"));
        assert_eq!(place(Some("raw.csv"), Some("in/a.csv"), "raw.csv").as_deref(), Some("in/a.csv"));
        assert_eq!(place(Some("out/raw.csv"), Some("in/"), "out/raw.csv").as_deref(), Some("in/raw.csv"));
        assert_eq!(place(Some("raw.csv"), None, "raw.csv2"), None);
        assert_eq!(place(None, None, "a/b").as_deref(), Some("a/b"));
        assert_eq!(place(None, Some("in"), "a/b").as_deref(), Some("in/a/b"));
        assert_eq!(place(Some("parts"), None, "parts/1").as_deref(), Some("parts/1"));
        assert_eq!(place(Some("parts/"), Some("in"), "parts/x/1").as_deref(), Some("in/x/1"));
        assert_eq!(place(Some("parts/*"), Some("in"), "parts/1").as_deref(), Some("in/1"));
        assert_eq!(place(Some("**/*.csv"), Some("in"), "a/b/1.csv").as_deref(), Some("in/a/b/1.csv"));
    }

    #[test]
    fn the_jobs_of_a_step_have_a_folder_each() {
        let place = |path, to, name| input(path, to).place(name, Some("3")).unwrap();
        assert_eq!(place(Some("m.pt"), None, "m.pt"), "train/3/m.pt");
        assert_eq!(place(Some("m.pt"), Some("models"), "m.pt"), "models/3/m.pt");
        assert_eq!(place(Some("out/*"), Some("models/"), "out/m.pt"), "models/3/m.pt");
        assert_eq!(place(None, None, "a/b"), "train/3/a/b");
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name, expected) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "a/b.csv", false),
            ("parts/*", "parts/1", true),
            ("parts/*", "parts/1/2", false),
            ("parts/**", "parts/1/2", true),
            ("**", "a/b", true),
            ("**/x", "x", true),
            ("a/**/x", "a/b/c/x", true),
            ("a/**/x", "a/b/c/y", false),
            ("?.t*", "a.txt", true),
            ("?.t*", "ab.txt", false),
            ("a*b*c", "aXbYbZc", true),
            ("\u{e4}*", "\u{e4}\u{f6}", true),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        let slow = format!("{}b", "*a".repeat(200));
        assert!(!fits(&slow, &"a".repeat(1_000)), "no pattern takes long");
        assert!(input(Some("w[1]*"), None).means("w[1]*"), "a name is always meant by itself");
    }

    #[test]
    fn paths_stay_inside() {
        assert_eq!(input(Some("parts/"), Some("in/")).check(), Ok(()));
        for wrong in ["", "/", "/etc/passwd", "../x", "a/../../x", "a//b", "a\nb"] {
            assert!(input(Some(wrong), None).check().is_err(), "{wrong:?}");
            assert!(input(None, Some(wrong)).check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn two_submissions_ask_for_the_same_before_the_jobs_are_known() {
        let taken = Inputs {
            artifacts: vec![ArtifactInput { jobs: vec![JobId::from_random([1; 16])], ..input(None, None) }],
            ..Inputs::default()
        };
        let again = Inputs { artifacts: vec![input(None, None)], ..Inputs::default() };
        assert!(taken.asks_as(&again) && again.asks_as(&taken));
        let other = Inputs { artifacts: vec![input(Some("x"), None)], ..Inputs::default() };
        assert!(!taken.asks_as(&other) && !taken.asks_as(&Inputs::default()));
    }
}
