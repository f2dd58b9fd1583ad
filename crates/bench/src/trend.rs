//! The figures that are kept from one run of this program to the next, so that a loss is seen when it happens.
//!
//! One line for each store and run is appended to a file of comma-separated values. A run is compared with the best
//! quiet line of the same store and number of processors: what is worse by more than the tolerance is called lost.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use jiff::{Timestamp, tz::TimeZone};

use crate::metric::{Metric, Part};
use crate::record::Record;
use crate::settings::{StoreKind, Workload};

/// Which direction is good, and how much worse a figure may be before it counts as lost.
#[derive(Debug, Clone, Copy)]
enum Better {
    Higher(f64),
    Lower(f64),
}

/// A figure that is kept: its name in the file, where it comes from, which direction is good.
struct Figure {
    name: &'static str,
    value: fn(&Medians<'_>) -> Option<f64>,
    digits: usize,
    better: Better,
}

const FIGURES: [Figure; 10] = [
    Figure { name: "a_share", value: |m| m.of(Metric::BatchShare), digits: 2, better: Better::Higher(0.1) },
    Figure { name: "b_share", value: |m| m.of(Metric::SingleShare), digits: 2, better: Better::Higher(0.1) },
    Figure {
        name: "g_per_second",
        value: |m| m.of(Metric::NoopRate),
        digits: 0,
        better: Better::Higher(0.15),
    },
    Figure { name: "g_share", value: |m| m.noop_share(), digits: 3, better: Better::Higher(0.15) },
    cost("a_scheduler_us", |m| m.cost(Workload::A, Part::Scheduler)),
    cost("a_worker_us", |m| m.cost(Workload::A, Part::Worker)),
    cost("a_database_us", |m| m.cost(Workload::A, Part::Database)),
    cost("g_scheduler_us", |m| m.cost(Workload::G, Part::Scheduler)),
    cost("g_worker_us", |m| m.cost(Workload::G, Part::Worker)),
    cost("g_database_us", |m| m.cost(Workload::G, Part::Database)),
];

const fn cost(name: &'static str, value: fn(&Medians<'_>) -> Option<f64>) -> Figure {
    Figure { name, value, digits: 0, better: Better::Lower(0.15) }
}

/// The medians of one store.
struct Medians<'r> {
    record: &'r Record,
    store: StoreKind,
}

impl Medians<'_> {
    fn of(&self, metric: Metric) -> Option<f64> {
        Some(self.record.summary(self.store, metric)?.spread.median)
    }

    fn cost(&self, workload: Workload, part: Part) -> Option<f64> {
        self.of(Metric::Cost(workload, part))
    }

    /// No-op jobs for each bare row that the same database takes in transactions of 500.
    fn noop_share(&self) -> Option<f64> {
        let rows = match self.store {
            StoreKind::Sqlite => Metric::SqliteGrouped,
            StoreKind::Postgres => Metric::PostgresGrouped,
            StoreKind::Memory => return None,
        };
        Some(self.of(Metric::NoopRate)? / self.of(rows)?)
    }
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    date: String,
    commit: String,
    store: String,
    processors: String,
    /// Whether any measurement behind the figures was noisy.
    noisy: bool,
    /// In the order of [`FIGURES`].
    figures: Vec<Option<f64>>,
}

impl Line {
    fn of(record: &Record, store: StoreKind, date: &str, commit: &str) -> Option<Self> {
        let medians = Medians { record, store };
        let figures: Vec<Option<f64>> = FIGURES.iter().map(|figure| (figure.value)(&medians)).collect();
        figures.iter().any(Option::is_some).then(|| Self {
            date: date.to_owned(),
            commit: commit.to_owned(),
            store: store.driver().to_owned(),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get).to_string(),
            noisy: record.is_noisy(store, &[Workload::A, Workload::B, Workload::G]),
            figures,
        })
    }

    fn text(&self) -> String {
        let figures = self.figures.iter().zip(&FIGURES).map(|(value, figure)| {
            value.map_or_else(String::new, |value| format!("{value:.*}", figure.digits))
        });
        let noisy = if self.noisy { "noisy" } else { "quiet" };
        let first = [&self.date, &self.commit, &self.store, &self.processors, noisy].map(str::to_owned);
        first.into_iter().chain(figures).collect::<Vec<_>>().join(",")
    }

    /// `None` for what is not a line of figures, such as the first one.
    fn parse(text: &str) -> Option<Self> {
        let cells: Vec<&str> = text.split(',').collect();
        let (first, figures) = cells.split_at_checked(5)?;
        let noisy = match first[4] {
            "noisy" => true,
            "quiet" => false,
            _ => return None,
        };
        Some(Self {
            date: first[0].to_owned(),
            commit: first[1].to_owned(),
            store: first[2].to_owned(),
            processors: first[3].to_owned(),
            noisy,
            figures: figures.iter().map(|cell| cell.parse().ok()).collect(),
        })
    }
}

fn header() -> String {
    let names = FIGURES.iter().map(|figure| figure.name);
    ["date", "commit", "store", "processors", "noise"].into_iter().chain(names).collect::<Vec<_>>().join(",")
}

/// What is worse in `new` than in the best quiet line that it can be compared with.
fn losses(before: &[Line], new: &Line) -> Vec<String> {
    let alike = |line: &&Line| !line.noisy && line.store == new.store && line.processors == new.processors;
    let mut lost = Vec::new();
    for (position, figure) in FIGURES.iter().enumerate() {
        let value = |line: &Line| line.figures.get(position).copied().flatten();
        let known = before.iter().filter(alike).filter_map(|line| Some((value(line)?, line)));
        let (best, is_lost): (_, fn(f64, f64, f64) -> bool) = match figure.better {
            Better::Higher(_) => {
                (known.max_by(|a, b| a.0.total_cmp(&b.0)), |now, best, by| now < best * (1.0 - by))
            }
            Better::Lower(_) => {
                (known.min_by(|a, b| a.0.total_cmp(&b.0)), |now, best, by| now > best * (1.0 + by))
            }
        };
        let (Better::Higher(by) | Better::Lower(by)) = figure.better;
        if let (Some(now), Some((best, line))) = (value(new), best)
            && is_lost(now, best, by)
        {
            let digits = figure.digits;
            lost.push(format!(
                "{} {}: {now:.digits$}, was {best:.digits$} at {} on {}",
                new.store, figure.name, line.commit, line.date
            ));
        }
    }
    lost
}

/// The commit of the tree that was built, with a mark when the tree was changed since.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed =
        git(&["status", "--porcelain", "--", "crates", "Cargo.lock"]).is_none_or(|text| !text.is_empty());
    let name = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    if changed { format!("{name}+") } else { name }
}

/// Appends a line for each store to the file and says what was lost.
pub(crate) fn append(record: &Record, stores: &[StoreKind], path: &Path) -> Result<Vec<String>> {
    let context = || format!("keeping the figures in {}", path.display());
    let known = fs::read_to_string(path).unwrap_or_default();
    let before: Vec<Line> = known.lines().filter_map(Line::parse).collect();
    let date = Timestamp::now().to_zoned(TimeZone::UTC).date().to_string();
    let commit = commit();
    let new: Vec<Line> = stores.iter().filter_map(|store| Line::of(record, *store, &date, &commit)).collect();
    let mut file = OpenOptions::new().create(true).append(true).open(path).with_context(context)?;
    let head = known.is_empty().then(header);
    for line in head.into_iter().chain(new.iter().map(Line::text)) {
        writeln!(file, "{line}").with_context(context)?;
    }
    Ok(new.iter().flat_map(|line| losses(&before, line)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;
    use crate::record::Sample;

    fn record(metric: Metric, value: f64, noisy: bool) -> Record {
        let sample =
            Sample { store: StoreKind::Sqlite, metric, run: 1, value, noise: Noise::default(), noisy };
        Record { samples: vec![sample], ..Record::default() }
    }

    fn line(metric: Metric, value: f64, noisy: bool) -> Line {
        Line::of(&record(metric, value, noisy), StoreKind::Sqlite, "2026-01-01", "abc").unwrap()
    }

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        let line = line(Metric::BatchShare, 0.75, true);
        assert_eq!(Line::parse(&line.text()), Some(line));
        assert_eq!(Line::parse(&header()), None);
        assert_eq!(header().split(',').count(), 5 + FIGURES.len());
    }

    #[test]
    fn a_loss_is_told_against_the_best_quiet_line() {
        let share = |value, noisy| line(Metric::BatchShare, value, noisy);
        let before = [share(0.77, false), share(0.95, true), share(0.70, false)];
        assert_eq!(losses(&before, &share(0.70, false)), Vec::<String>::new());
        let lost = losses(&before, &share(0.58, false));
        assert_eq!(lost, ["sqlite a_share: 0.58, was 0.77 at abc on 2026-01-01"]);
    }

    #[test]
    fn processor_time_is_lost_when_it_grows() {
        let cost = |value| line(Metric::Cost(Workload::A, Part::Scheduler), value, false);
        assert_eq!(losses(&[cost(87.0)], &cost(136.0)).len(), 1);
        assert!(losses(&[cost(136.0)], &cost(87.0)).is_empty());
    }

    #[test]
    fn lines_of_other_stores_and_machines_are_not_compared() {
        let good = line(Metric::BatchShare, 0.77, false);
        let bad = line(Metric::BatchShare, 0.10, false);
        let other_store = Line { store: "postgres".into(), ..good.clone() };
        let other_machine = Line { processors: "1024".into(), ..good };
        assert!(losses(&[other_store, other_machine], &bad).is_empty());
    }

    #[test]
    fn the_file_gets_its_first_line_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept.csv");
        let record = record(Metric::BatchShare, 0.5, false);
        for _ in 0..2 {
            assert!(append(&record, &[StoreKind::Sqlite], &path).unwrap().is_empty());
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| *line == header()).count(), 1, "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
