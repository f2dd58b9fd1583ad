//! Secrets and the keys of the fleet for people. Values are not known here.

use comfy_table::Color;
use jiff::Timestamp;
use muster_protocol::{FleetKey, SecretSummary};

use super::quantities::{age, printable};
use super::screen::Screen;
use super::table::{Column, Content, render};

const LABEL_WIDTH: usize = 10;

/// The queue or the owner, whichever it has.
fn whose(secret: &SecretSummary) -> String {
    match (&secret.queue, &secret.owner) {
        (Some(queue), _) => format!("queue {}", printable(queue)),
        (None, Some(owner)) => format!("user {}", printable(owner)),
        (None, None) => "-".to_owned(),
    }
}

/// The table of `muster secret ls`.
pub(crate) fn secrets(all: &[SecretSummary], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 5] = [
        Column::elastic("NAME", 12),
        Column::elastic("FOR", 8),
        Column::right("VERSION"),
        Column::right("CHANGED"),
        Column::elastic("SEALED TO", 16),
    ];
    let row = |secret: &SecretSummary| -> Vec<Content> {
        vec![
            (printable(&secret.name), None),
            (whose(secret), None),
            (secret.version.to_string(), None),
            (age(secret.updated_at, now), None),
            (printable(&secret.keys.join(",")), None),
        ]
    };
    render(&COLUMNS, &all.iter().map(row).collect::<Vec<_>>(), screen)
}

/// What is known of one secret, one field a line.
pub(crate) fn secret_details(secret: &SecretSummary, screen: Screen) -> String {
    let lines = [
        ("name", printable(&secret.name)),
        ("for", whose(secret)),
        ("version", secret.version.to_string()),
        ("changed", screen.zone.time(secret.updated_at)),
        ("sealed to", printable(&secret.keys.join(", "))),
    ];
    let lines = lines.map(|(label, value)| format!("{:<LABEL_WIDTH$} {value}", format!("{label}:")));
    lines.join("\n")
}

/// The table of `muster secret keys`.
pub(crate) fn fleet_keys(keys: &[(FleetKey, bool)], screen: Screen) -> String {
    const COLUMNS: [Column; 4] = [
        Column::fixed("ID"),
        Column::fixed("TRUSTED"),
        Column::fixed("PUBLIC KEY"),
        Column::elastic("WORKERS", 12),
    ];
    let row = |(key, trusted): &(FleetKey, bool)| -> Vec<Content> {
        let trust =
            if *trusted { ("yes".to_owned(), None) } else { ("no".to_owned(), Some(Color::DarkYellow)) };
        vec![
            (printable(&key.id), None),
            trust,
            (printable(&key.public_key), None),
            (printable(&key.workers.join(",")), None),
        ]
    };
    render(&COLUMNS, &keys.iter().map(row).collect::<Vec<_>>(), screen)
}
