//! The order of things: round after round, each workload between two looks at the limit it is compared with,
//! so that a machine that changes its speed changes both.

use std::path::PathBuf;

use anyhow::Result;

use crate::cluster::Ground;
use crate::limits;
use crate::metric::Metric;
use crate::noise::{self, Noise, Watch};
use crate::peers;
use crate::record::{Record, Sample};
use crate::settings::{Settings, StoreKind, Workload};
use crate::workloads::{self, CONNECTIONS, Measured, Setting};

/// Measures everything that was asked for on one store. What fails is recorded and the rest goes on.
pub(crate) fn store(settings: &Settings, kind: StoreKind, record: &mut Record) {
    let directory = settings.data.clone().unwrap_or_else(std::env::temp_dir);
    let ground = match Ground::prepare(kind, directory.clone()) {
        Ok(ground) => ground,
        Err(error) => {
            record.failures.push(format!("{}: {error:#}", kind.driver()));
            return;
        }
    };
    let setting = Setting { ground: &ground, sizes: settings.sizes(), slots: settings.slots() };
    let mut session = Rounds { settings, setting, directory, record, run: 0 };
    for run in 1..=settings.runs {
        session.run = run;
        session.round();
    }
}

struct Rounds<'a> {
    settings: &'a Settings,
    setting: Setting<'a>,
    directory: PathBuf,
    record: &'a mut Record,
    run: u32,
}

impl Rounds<'_> {
    fn round(&mut self) {
        if !self.settings.bare {
            self.measure("the limits of the store", Self::store_limits);
            self.measure("the bare handler", |rounds| {
                let rate = limits::requests_per_second(CONNECTIONS, rounds.setting.sizes.limit)?;
                Ok(vec![(Metric::HttpLimit, rate)])
            });
        }
        for workload in self.settings.workloads() {
            let name = format!("workload {}", workload.letter());
            self.measure(&name, |rounds| rounds.workload(workload));
        }
        // The peers do not use our stores: once is enough.
        if !self.settings.bare && self.settings.store.first() == Some(&self.setting.ground.kind) {
            self.measure("HyperQueue", Self::hyperqueue);
            self.measure("Slurm", Self::slurm);
        }
    }

    /// Runs one measurement under watch and records what it gives, or why it gives nothing.
    fn measure(&mut self, name: &str, measurement: impl FnOnce(&mut Self) -> Result<Measured>) {
        let store = self.setting.ground.kind;
        eprintln!("{} run {}: {name}", store.driver(), self.run);
        let before = noise::before();
        let watch = Watch::start(Some(&self.directory.join("muster-bench-")));
        let measured = measurement(self);
        let during = watch.finish();
        let noise =
            Noise { steal: before.steal.max(during.steal), foreign: before.foreign.max(during.foreign) };
        match measured {
            Ok(values) => {
                let sample = |(metric, value)| Sample {
                    store,
                    metric,
                    run: self.run,
                    value,
                    noise,
                    noisy: noise.is_noisy(),
                };
                self.record.samples.extend(values.into_iter().map(sample));
            }
            Err(error) => {
                self.record.failures.push(format!("{}, run {}, {name}: {error:#}", store.driver(), self.run));
            }
        }
    }

    fn store_limits(&mut self) -> Result<Measured> {
        let duration = self.setting.sizes.limit;
        let ground = self.setting.ground;
        if let Some(url) = ground.postgres_url() {
            let commits = limits::postgres_commits(&url, duration)?;
            return Ok(vec![
                (Metric::PostgresSingle, commits.single),
                (Metric::PostgresEight, commits.eight_clients),
                (Metric::PostgresGrouped, commits.grouped),
            ]);
        }
        if ground.kind == StoreKind::Sqlite {
            let commits = limits::sqlite_commits(&ground.directory, duration)?;
            return Ok(vec![
                (Metric::SqliteSingle, commits.single),
                (Metric::SqliteGrouped, commits.grouped),
            ]);
        }
        Ok(Vec::new())
    }

    /// The workloads that start processes are put between two looks at the bare spawn loop.
    fn workload(&mut self, workload: Workload) -> Result<Measured> {
        let share = match workload {
            Workload::A => Metric::BatchShare,
            Workload::B => Metric::SingleShare,
            _ => return workloads::run(workload, &self.setting),
        };
        self.beside_spawn_limit(share, |setting| workloads::run(workload, setting))
    }

    fn hyperqueue(&mut self) -> Result<Measured> {
        if crate::process::on_path("hq").is_none() {
            self.absent("HyperQueue");
            return Ok(Vec::new());
        }
        self.beside_spawn_limit(Metric::HyperQueueShare, |setting| {
            let rate = peers::hyperqueue(&setting.ground.directory, setting.slots, setting.sizes.jobs)?;
            Ok(rate.map(|rate| (Metric::HyperQueue, rate)).into_iter().collect())
        })
    }

    fn slurm(&mut self) -> Result<Measured> {
        let rate = peers::slurm()?;
        if rate.is_none() {
            self.absent("Slurm");
        }
        Ok(rate.map(|rate| (Metric::Slurm, rate)).into_iter().collect())
    }

    fn absent(&mut self, peer: &'static str) {
        if !self.record.absent.contains(&peer) {
            self.record.absent.push(peer);
        }
    }

    fn beside_spawn_limit(
        &self,
        share: Metric,
        measurement: impl FnOnce(&Setting<'_>) -> Result<Measured>,
    ) -> Result<Measured> {
        let spawns = || limits::spawns_per_second(self.setting.slots, self.setting.sizes.spawns);
        let before = spawns()?;
        let mut measured = measurement(&self.setting)?;
        let limit = f64::midpoint(before, spawns()?);
        let rate = measured.first().map(|(_, rate)| *rate);
        measured.push((Metric::SpawnLimit, limit));
        measured.extend(rate.map(|rate| (share, rate / limit)));
        Ok(measured)
    }
}
