//! The table for people and the file for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::metric::Target;
use crate::record::{Record, Summary};
use crate::settings::StoreKind;

/// The whole result, store by store.
pub(crate) fn print(record: &Record, stores: &[StoreKind]) {
    for store in stores {
        let summaries = record.summaries(*store);
        if !summaries.is_empty() {
            println!("\n{}\n{}", store.driver(), table(&summaries, *store));
        }
    }
    for peer in &record.absent {
        println!("{peer}: not installed");
    }
    for failure in &record.failures {
        println!("not measured: {failure}");
    }
    let noisy = record.samples.iter().filter(|sample| sample.noisy).count();
    if noisy > 0 {
        println!(
            "{noisy} of {} measurements are noisy: the host stole time or other programs were busy. \
             Trust ratios within a run only.",
            record.samples.len()
        );
    }
}

fn verdict(summary: &Summary, store: StoreKind) -> Option<bool> {
    Some(summary.metric.target(store)?.is_met(summary.spread.median))
}

fn table(summaries: &[Summary], store: StoreKind) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["", "measure", "median", "low", "high", "target", "met", "noisy runs"]);
    for summary in summaries {
        let unit = summary.metric.unit();
        let (group, name) = summary.metric.label();
        let target = summary.metric.target(store).map_or_else(String::new, |target| match target {
            Target::AtLeast(bound) => format!(">= {}", unit.show(bound)),
            Target::Below(bound) => format!("< {}", unit.show(bound)),
        });
        let met = verdict(summary, store).map_or("", |met| if met { "yes" } else { "NO" });
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(group),
            Cell::new(name),
            right(unit.show(summary.spread.median)),
            right(unit.show(summary.spread.low)),
            right(unit.show(summary.spread.high)),
            right(target),
            Cell::new(met),
            right(format!("{}/{}", summary.noisy, summary.runs)),
        ]);
    }
    table
}

pub(crate) fn write_json(record: &Record, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(record)?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
