//! `muster sim`: a workload through the planner, under several policies.

mod input;
mod meter;
mod play;
mod server;

use std::path::Path;

use anyhow::Context as _;
use muster_replay::page::{Page, Run};
use muster_replay::trace::{Trace, write_csv};
use muster_replay::{Settings as Replay, cluster_text, table};

pub(crate) use input::{sample_every, text_of};
pub(crate) use play::{Played, play};

use crate::args::{SimArgs, SimOutputArgs};
use crate::exit;
use crate::output::{json, note, sim, text};
use crate::settings::Settings;

pub(crate) async fn run(args: &SimArgs, settings: &Settings) -> anyhow::Result<u8> {
    let input = input::collect(args, settings).await?;
    if let Some(file) = &args.output.write_trace {
        return write_trace(file, &input.trace);
    }
    let cluster = input.cluster(args)?;
    let replay = replay_settings(args, &input.trace);
    let played = play(&input.trace.workload, &cluster, &args.policies(), &replay)?;
    let about = sim::About {
        source: input.source,
        cluster: cluster_text(&cluster),
        settings: words(args),
        replay: &replay,
        trace: &input.trace,
    };
    print(&about, &played, &args.output, settings)?;
    write(&about, &played, &args.output)?;
    Ok(exit::OK)
}

fn replay_settings(args: &SimArgs, trace: &Trace) -> Replay {
    Replay {
        estimates: args.estimates.into(),
        events: args.events.into(),
        restart: args.restart.into(),
        sample_every: sample_every(&trace.workload),
    }
}

/// How it was played, for people.
fn words(args: &SimArgs) -> Vec<String> {
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    let estimates = name(clap::ValueEnum::to_possible_value(&args.estimates));
    let events = name(clap::ValueEnum::to_possible_value(&args.events));
    let mut words = vec![
        format!("estimates {estimates}"),
        format!("events {events}"),
        format!("restart {}", muster_replay::words::duration(args.restart.as_secs_f64())),
    ];
    words.extend(args.set.iter().map(ToString::to_string));
    words
}

fn print(
    about: &sim::About,
    played: &[Played],
    args: &SimOutputArgs,
    settings: &Settings,
) -> anyhow::Result<()> {
    if settings.screen.json {
        json::document(&sim::document(about, played))?;
        return Ok(());
    }
    if args.csv {
        let rows: Vec<_> = played.iter().map(|run| (run.policy.as_str(), &run.figures)).collect();
        text(&table::figures_csv(&rows))?;
        return Ok(());
    }
    settings.screen.line(&sim::tables(about, played, &args.by, settings.screen))?;
    Ok(())
}

/// The files that were asked for.
fn write(about: &sim::About, played: &[Played], args: &SimOutputArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.html {
        let runs: Vec<Run> = played
            .iter()
            .map(|run| Run { policy: run.policy.to_string(), figures: &run.figures, outcome: &run.outcome })
            .collect();
        let page = Page {
            source: &about.source,
            cluster: &about.cluster,
            settings: &about.settings,
            trace: about.trace,
            runs: &runs,
        };
        save(file, &page.render())?;
        note(&format!("the page is in {}", file.display()));
    }
    if let Some(file) = &args.jobs {
        let rows: Vec<_> = played.iter().map(|run| (run.policy.as_str(), &run.outcome)).collect();
        save(file, &table::jobs_csv(about.trace, &rows))?;
    }
    Ok(())
}

fn write_trace(file: &Path, trace: &Trace) -> anyhow::Result<u8> {
    let table = write_csv(trace);
    if file == Path::new("-") {
        text(&table)?;
    } else {
        save(file, &table)?;
        note(&format!("{} jobs are in {}", trace.workload.jobs.len(), file.display()));
    }
    Ok(exit::OK)
}

fn save(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
}
