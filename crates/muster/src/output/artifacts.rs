//! Artifacts for people.

use comfy_table::Color;
use jiff::Timestamp;
use muster_protocol::{Artifact, ArtifactList};

use super::quantities::{age, bytes, printable};
use super::screen::Screen;
use super::table::{Column, Content, render};

/// The table of `muster artifacts ls`.
pub(crate) fn artifacts(all: &[Artifact], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 4] = [
        Column::elastic("NAME", 16),
        Column::right("SIZE"),
        Column::right("KEPT"),
        Column::elastic("TYPE", 12),
    ];
    let row = |artifact: &Artifact| -> Vec<Content> {
        let kind = match &artifact.missing {
            None if artifact.removed_at.is_some() => {
                ("removed (--artifact-retention)".to_owned(), Some(Color::DarkYellow))
            }
            Some(why) => (format!("not kept: {}", printable(why)), Some(Color::DarkYellow)),
            None => (printable(artifact.content_type.as_deref().unwrap_or("-")), None),
        };
        vec![
            (printable(&artifact.name), None),
            (artifact.size.map_or_else(|| "-".to_owned(), bytes), None),
            (age(artifact.at, now), None),
            kind,
        ]
    };
    render(&COLUMNS, &all.iter().map(row).collect::<Vec<_>>(), screen)
}

/// How many there are, in words.
pub(crate) fn artifact_summary(list: &ArtifactList) -> String {
    let files = if list.files == 1 { "file" } else { "files" };
    let missing = match list.missing {
        0 => String::new(),
        missing => format!(", {missing} not kept"),
    };
    format!("{} {files}, {}{missing}", list.files, bytes(list.bytes))
}
