//! Pipelines and arrays for people: the tree of steps, counts, progress, failed elements.

use std::collections::BTreeMap;

use comfy_table::Color;
use jiff::Timestamp;
use muster_client::{BulkVerb, status_name};
use muster_protocol::{BulkResult, Counts, DependencyRule, Job, JobSet, JobStatus, Pipeline, Step};

use super::human::id;
use super::quantities::{age, printable, span};
use super::screen::Screen;
use super::status;
use super::style;
use super::table::{Column, Content, render};

const BAR: usize = 24;
const LABEL_WIDTH: usize = 12;
/// Reasons of failed elements that are shown.
const REASONS: usize = 3;

/// How many jobs there are in the states that people think in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    waiting: u64,
    running: u64,
    done: u64,
    failed: u64,
    cancelled: u64,
}

impl Tally {
    fn of(counts: &Counts) -> Self {
        let mut tally = Self::default();
        for (status, count) in counts {
            let part = match status {
                JobStatus::Pending | JobStatus::Blocked | JobStatus::Preempted => &mut tally.waiting,
                JobStatus::Reserved | JobStatus::Running | JobStatus::Preempting | JobStatus::Finished => {
                    &mut tally.running
                }
                JobStatus::Done => &mut tally.done,
                JobStatus::Failed => &mut tally.failed,
                JobStatus::Cancelled => &mut tally.cancelled,
            };
            *part += count;
        }
        tally
    }

    fn ended(self) -> u64 {
        self.done + self.failed + self.cancelled
    }

    /// `3 done, 1 failed, 2 running`; what is zero is left out.
    fn words(self) -> String {
        let parts = [
            (self.done, "done"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
            (self.running, "running"),
            (self.waiting, "waiting"),
        ];
        let words: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        // Jobs that have ended are removed one day; what they were a part of may be there longer.
        if words.is_empty() { "removed".to_owned() } else { words.join(", ") }
    }
}

/// `████████░░░░  62%`.
fn bar(ended: u64, size: u64) -> String {
    let size = size.max(1);
    let full = (ended.min(size) as usize * BAR) / size as usize;
    let percent = ended.min(size) * 100 / size;
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(BAR - full))
}

fn painted(status: JobStatus, screen: Screen) -> String {
    style::paint(status_name(status), style::of_status(status), screen.colour)
}

/// The lists of `muster pipelines` and `muster arrays`.
pub(crate) fn set_list(sets: &[JobSet], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 6] = [
        Column::fixed("ID"),
        Column::elastic("NAME", 6),
        Column::fixed("STATUS"),
        Column::right("ENDED"),
        Column::right("AGE"),
        Column::elastic("JOBS", 12),
    ];
    let rows: Vec<Vec<Content>> = sets
        .iter()
        .map(|set| {
            let tally = Tally::of(&set.counts);
            vec![
                (id(&set.id, screen), None),
                (set.name.as_deref().map_or_else(|| "-".to_owned(), printable), None),
                (status_name(set.status).to_owned(), style::of_status(set.status)),
                (format!("{}/{}", tally.ended(), set.size), None),
                (age(set.created_at, now), None),
                (tally.words(), None),
            ]
        })
        .collect();
    render(&COLUMNS, &rows, screen)
}

/// How a set ended, in one line.
pub(crate) fn set_ended(set: &JobSet, screen: Screen) -> String {
    format!("{} {} ({})", printable(&set.id), painted(set.status, screen), Tally::of(&set.counts).words())
}

fn heading(set: &JobSet, now: Timestamp, screen: Screen) -> Vec<String> {
    let tally = Tally::of(&set.counts);
    let line = |label: &str, value: &str| format!("{:<LABEL_WIDTH$}{value}", format!("{label}:"));
    let mut lines = vec![line("id", &printable(&set.id))];
    lines.extend(set.name.as_deref().map(|name| line("name", &printable(name))));
    lines.push(line("status", &painted(set.status, screen)));
    lines.push(line("jobs", &format!("{} ({})", set.size, tally.words())));
    lines.push(line("progress", &bar(tally.ended(), set.size)));
    lines.extend(set.max_parallel.map(|most| line("at once", &format!("at most {most}"))));
    let submitted = format!("{} ({} ago)", screen.zone.time(set.created_at), age(set.created_at, now));
    lines.push(line("submitted", &submitted));
    let ended = |at| format!("{} (took {})", screen.zone.time(at), span(set.created_at, at));
    lines.extend(set.done_at.map(|at| line("ended", &ended(at))));
    lines.extend(set.warnings.iter().map(|warning| line("warning", &printable(warning))));
    lines
}

/// What `muster show` says about a pipeline: its state, and its steps as a tree along what they need.
pub(crate) fn pipeline_tree(pipeline: &Pipeline, now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 5] = [
        Column::elastic("STEP", 12),
        Column::fixed("STATUS"),
        Column::right("JOBS"),
        Column::right("TIME"),
        Column::elastic("NOTE", 10),
    ];
    let tree = super::tree::arrange(&pipeline.steps);
    let names = names(&pipeline.steps);
    let parents: BTreeMap<usize, Option<usize>> =
        tree.iter().map(|branch| (branch.step, branch.parent)).collect();
    let rows: Vec<Vec<Content>> = tree
        .iter()
        .map(|branch| {
            let step = &pipeline.steps[branch.step];
            let tally = Tally::of(&step.counts);
            let jobs = if step.size > 1 { format!("{}/{}", tally.ended(), step.size) } else { String::new() };
            let above = above(branch.parent, &parents);
            let above: Vec<&str> = above.iter().map(|step| pipeline.steps[*step].name.as_str()).collect();
            let reason = step.reason.as_deref().map(|reason| with_names(reason, &names));
            let (status, colour) = if is_skipped(step) {
                ("skipped", None)
            } else {
                (status_name(step.status), style::of_status(step.status))
            };
            vec![
                (format!("{}{}", branch.lines, printable(&step.name)), None),
                (status.to_owned(), colour),
                (jobs, None),
                (took(step, now), None),
                (note(step, reason, &above), note_colour(step)),
            ]
        })
        .collect();
    format!("{}\n\n{}", heading(&pipeline.set, now, screen).join("\n"), render(&COLUMNS, &rows, screen))
}

fn took(step: &Step, now: Timestamp) -> String {
    match (step.started_at, step.done_at) {
        (Some(started), Some(done)) => span(started, done),
        (Some(started), None) => span(started, now),
        (None, _) => String::new(),
    }
}

fn note_colour(step: &Step) -> Option<Color> {
    if step.status == JobStatus::Failed { Some(Color::DarkRed) } else { None }
}

/// The steps on the way from a step to the top of the tree.
fn above(parent: Option<usize>, parents: &BTreeMap<usize, Option<usize>>) -> Vec<usize> {
    // As long as anybody looks at: a chain of thousands of steps is not walked for each of them.
    const FARTHEST: usize = 50;
    std::iter::successors(parent, |step| parents.get(step).copied().flatten()).take(FARTHEST).collect()
}

/// What people call each job: its step, with the number of the element where there are several.
fn names(steps: &[Step]) -> BTreeMap<&str, String> {
    let of_step = |step: &Step, number: usize| {
        if step.size > 1 { format!("{}[{number}]", step.name) } else { step.name.clone() }
    };
    let jobs = steps.iter().flat_map(|step| {
        step.jobs.iter().enumerate().map(move |(number, id)| (id.as_str(), of_step(step, number)))
    });
    jobs.collect()
}

/// A reason with the jobs of the pipeline named as people name them.
fn with_names(reason: &str, names: &BTreeMap<&str, String>) -> String {
    let words = reason.split(' ').map(|word| names.get(word).map_or(word, String::as_str));
    printable(&words.collect::<Vec<_>>().join(" "))
}

/// Never run, because its rule could not be met: that is no failure, and nobody cancelled it.
fn is_skipped(step: &Step) -> bool {
    step.status == JobStatus::Cancelled
        && step.reason.as_deref().is_some_and(|reason| reason.starts_with("skipped"))
}

/// How its jobs stand, why it ended badly, what it waits for beside its place in the tree, and by which rules.
fn note(step: &Step, reason: Option<String>, above: &[&str]) -> String {
    let mut parts = Vec::new();
    if step.size > 1 {
        parts.push(Tally::of(&step.counts).words());
    }
    parts.extend(reason.filter(|_| !is_skipped(step)));
    let others: Vec<&str> =
        step.needs.iter().map(|need| need.step.as_str()).filter(|name| !above.contains(name)).collect();
    if !others.is_empty() {
        parts.push(format!("also after {}", printable(&others.join(", "))));
    }
    let mut rules: Vec<&'static str> = step.needs.iter().filter_map(|need| rule_name(need.rule)).collect();
    rules.dedup();
    if !rules.is_empty() {
        parts.push(format!("when {}", rules.join(", ")));
    }
    parts.join("; ")
}

/// The rule, unless it is the one that everybody expects.
fn rule_name(rule: DependencyRule) -> Option<&'static str> {
    match rule {
        DependencyRule::AllSuccess => None,
        DependencyRule::AllDone => Some("all_done"),
        DependencyRule::AllFailed => Some("all_failed"),
        DependencyRule::OneFailed => Some("one_failed"),
        DependencyRule::OneSuccess => Some("one_success"),
        DependencyRule::NoneFailed => Some("none_failed"),
        DependencyRule::Always => Some("always"),
    }
}

/// What `muster show` says about an array, with the elements that failed.
pub(crate) fn array_details(set: &JobSet, failed: &[Job], now: Timestamp, screen: Screen) -> String {
    let mut lines = heading(set, now, screen);
    if !failed.is_empty() {
        let indices = failed_indices(failed);
        let mut failed: Vec<&Job> = failed.iter().collect();
        failed.sort_by_key(|job| job.array_index);
        let more = if (failed.len() as u64) < Tally::of(&set.counts).failed { ", ..." } else { "" };
        lines.push(format!("{:<LABEL_WIDTH$}{}{more}", "failed:", indices));
        for job in failed.iter().take(REASONS) {
            let index = job.array_index.map_or_else(String::new, |index| format!("[{index}] "));
            let why =
                job.reason.as_deref().map_or_else(String::new, |reason| format!(": {}", printable(reason)));
            lines.push(format!("{:LABEL_WIDTH$}{index}{}{why}", "", id(&job.id, screen)));
        }
    }
    lines.join("\n")
}

/// The indices of elements, in short.
pub(crate) fn failed_indices(failed: &[Job]) -> String {
    let mut indices: Vec<u32> = failed.iter().filter_map(|job| job.array_index).collect();
    indices.sort_unstable();
    ranges(&indices)
}

/// `0-3,7,9-10`.
fn ranges(sorted: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for index in sorted {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*index) => *last = *index,
            Some(_) | None => parts.push((*index, *index)),
        }
    }
    let shown: Vec<String> = parts
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    shown.join(",")
}

/// What became of jobs that were to be changed, one a line.
pub(crate) fn changes(verb: BulkVerb, result: &BulkResult) -> String {
    let past = match verb {
        BulkVerb::Cancel => "cancelled",
        BulkVerb::Hold => "held",
        BulkVerb::Release => "released",
        BulkVerb::Retry => "runs again",
        BulkVerb::Delete => "deleted",
    };
    let (changed, stopping) = if result.dry_run {
        let future =
            if verb == BulkVerb::Retry { "would run again".to_owned() } else { format!("would be {past}") };
        (future, "would be stopped")
    } else {
        (past.to_owned(), "is being stopped")
    };
    let ended = result.changed.iter().map(|id| format!("{} {changed}", printable(id)));
    let stopped = result.stopping.iter().map(|id| format!("{} {stopping}", printable(id)));
    ended.chain(stopped).collect::<Vec<_>>().join("\n")
}

/// One line at the bottom of the terminal that says how far sets are.
#[derive(Debug)]
pub(crate) struct Progress {
    wanted: bool,
}

impl Progress {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { wanted: status::is_possible() && !screen.json }
    }

    pub(crate) fn show(&mut self, sets: &[JobSet]) {
        if !self.wanted {
            return;
        }
        let size = sets.iter().map(|set| set.size).sum();
        let mut counts = Counts::new();
        for (status, count) in sets.iter().flat_map(|set| &set.counts) {
            *counts.entry(*status).or_default() += count;
        }
        let tally = Tally::of(&counts);
        status::show(&format!("{}  {}", bar(tally.ended(), size), tally.words()));
    }

    pub(crate) fn clear(&mut self) {
        if self.wanted {
            status::clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> Screen {
        Screen { json: false, colour: false, width: Some(100), zone: crate::zone::Zone::UTC }
    }

    fn now() -> Timestamp {
        "2026-05-05T08:34:00Z".parse().unwrap()
    }

    #[test]
    fn a_pipeline_is_a_tree_with_states_times_and_reasons() {
        let pipeline: Pipeline = serde_json::from_str(
            r#"{"id":"set-1","kind":"pipeline","name":"nightly","status":"running","created_at":"2026-05-05T08:33:00Z",
                "size":7,"counts":{"done":3,"failed":1,"running":1,"blocked":2},
                "steps":[
                {"name":"extract","status":"done","size":1,"counts":{"done":1},"jobs":["job-1"],
                 "started_at":"2026-05-05T08:33:00Z","done_at":"2026-05-05T08:33:02Z"},
                {"name":"transform","needs":[{"step":"extract","rule":"all_success"}],"status":"failed","size":3,
                 "counts":{"done":2,"failed":1},"jobs":[],"started_at":"2026-05-05T08:33:02Z","done_at":"2026-05-05T08:33:12Z"},
                {"name":"train","needs":[{"step":"transform","rule":"all_success"}],"status":"blocked","size":1,
                 "counts":{"blocked":1},"jobs":["job-2"]},
                {"name":"check","needs":[{"step":"extract","rule":"all_success"}],"status":"failed","size":1,
                 "counts":{"failed":1},"jobs":["job-3"],"reason":"exit code 3"},
                {"name":"alert","needs":[{"step":"train","rule":"one_failed"}],"status":"cancelled","size":1,
                 "counts":{"cancelled":1},"jobs":["job-5"],"reason":"skipped: its rule can no longer be met"},
                {"name":"cleanup","needs":[{"step":"train","rule":"all_done"},{"step":"check","rule":"all_done"}],
                 "status":"blocked","size":1,"counts":{"blocked":1},"jobs":["job-4"],"reason":"dependency job-3 failed"}]}"#,
        )
        .unwrap();
        let text = pipeline_tree(&pipeline, now(), screen());
        let expected = "\
id:         set-1
name:       nightly
status:     running
jobs:       7 (3 done, 1 failed, 1 running, 2 waiting)
progress:   █████████████░░░░░░░░░░░  57%
submitted:  2026-05-05 08:33:00 UTC (60s ago)

STEP              STATUS   JOBS   TIME  NOTE
extract           done            2.0s
├─ transform      failed    3/3  10.0s  2 done, 1 failed
│  └─ train       blocked
│     ├─ alert    skipped               when one_failed
│     └─ cleanup  blocked               dependency check failed; also after check; when all_done
└─ check          failed                exit code 3";
        assert_eq!(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"), expected, "\n{text}");
    }

    #[test]
    fn an_array_names_what_failed() {
        let set: JobSet = serde_json::from_str(
            r#"{"id":"set-2","kind":"array","status":"failed","created_at":"2026-05-05T08:33:00Z","size":10,
                "done_at":"2026-05-05T08:33:30Z","counts":{"done":7,"failed":3},"max_parallel":2}"#,
        )
        .unwrap();
        let failed: Vec<Job> = [8, 3, 4]
            .iter()
            .map(|index| {
                let text = format!(
                    r#"{{"id":"job-{index}","command":"x","status":"failed","created_at":"2026-05-05T08:33:00Z","max_retries":1,"attempts":1,"array_index":{index},"reason":"exit code 1"}}"#
                );
                serde_json::from_str(&text).unwrap()
            })
            .collect();
        let text = array_details(&set, &failed, now(), screen());
        for part in [
            "10 (7 done, 3 failed)",
            "100%",
            "at most 2",
            "took 30.0s",
            "failed:     3-4,8",
            "[8] job-8: exit code 1",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn bars_and_ranges() {
        assert_eq!(bar(0, 0), format!("{}   0%", "░".repeat(BAR)));
        assert_eq!(bar(5, 5), format!("{} 100%", "█".repeat(BAR)));
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[test]
    fn changes_say_what_is_and_what_would_be() {
        let result = BulkResult {
            changed: vec!["job-1".into()],
            stopping: vec!["job-2".into()],
            ..BulkResult::default()
        };
        assert_eq!(changes(BulkVerb::Cancel, &result), "job-1 cancelled\njob-2 is being stopped");
        let dry = BulkResult { dry_run: true, ..result };
        assert_eq!(changes(BulkVerb::Hold, &dry), "job-1 would be held\njob-2 would be stopped");
        assert!(changes(BulkVerb::Retry, &dry).starts_with("job-1 would run again"));
    }
}
