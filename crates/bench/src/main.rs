//! `make bench`: starts the real binaries on loopback, runs each workload several times, and prints median and
//! spread beside the limits of the machine, measured in the same minutes.

mod accounts;
mod api;
mod cluster;
mod history;
mod http;
mod limits;
mod lines;
mod measure;
mod member;
mod metric;
mod noise;
mod peers;
mod process;
mod record;
mod report;
mod settings;
mod stamp;
mod stats;
mod trend;
mod workloads;

use std::env;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Result;
use clap::Parser;

use crate::record::Record;
use crate::settings::Settings;

fn main() -> Result<ExitCode> {
    // The clock is read before anything else: one of the modes measures when this process began.
    let now = SystemTime::now();
    let mut arguments = env::args_os().skip(1);
    let mode = arguments.next();
    if mode.as_ref().is_some_and(|mode| mode == stamp::MODE) {
        stamp::send(now, env::args_os().skip(1))?;
        return Ok(ExitCode::SUCCESS);
    }
    if mode.as_ref().is_some_and(|mode| mode == member::MODE) {
        return Ok(ExitCode::from(member::run(now, arguments)?));
    }
    if mode.is_some_and(|mode| mode == lines::MODE) {
        lines::write(arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = Settings::parse();
    let mut record = Record::default();
    for kind in &settings.store {
        measure::store(&settings, *kind, &mut record);
    }
    report::print(&record, &settings.store);
    if let Some(path) = &settings.json {
        report::write_json(&record, path)?;
    }
    if let Some(path) = &settings.trend {
        for loss in trend::append(&record, &settings.store, path)? {
            println!("lost: {loss}");
        }
    }
    Ok(if record.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
