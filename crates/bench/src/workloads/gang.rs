//! Gangs: how long all ranks take to start once the last slot that they need is free, and to start again
//! together after one of them has failed.
//!
//! The ranks are this program itself, and every time is taken by the process that it is about. A bare loop starts
//! as many of the same processes beside each round, so that what the machine needs for that can be taken away.

use std::env;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use muster_protocol::{LaunchMode, SubmitRequest};

use super::{BOUND, Measured, Setting};
use crate::api::Api;
use crate::cluster::Cluster;
use crate::limits;
use crate::member::{self, Member, Roll};
use crate::metric::{Gang, Metric, Portion, Ranks, Share};
use crate::stats;

const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);
/// Long enough for everything that a submit or a start leaves to do to be over.
const REST: Duration = Duration::from_millis(50);

/// How the slots that a gang needs are spread over workers. Sixty-four workers would measure how two cores share
/// themselves among so many programs, so the large gang has eight workers with eight slots each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    workers: usize,
    slots: usize,
}

impl Layout {
    fn of(ranks: Ranks) -> Self {
        match ranks {
            Ranks::Eight => Self { workers: 8, slots: 1 },
            Ranks::SixtyFour => Self { workers: 8, slots: 8 },
        }
    }

    fn ranks(self) -> usize {
        self.workers * self.slots
    }
}

pub(super) fn start_and_restart(setting: &Setting<'_>) -> Result<Measured> {
    let mut measured = start(setting, Ranks::Eight, setting.sizes.gang_rounds)?;
    measured.extend(start(setting, Ranks::SixtyFour, setting.sizes.large_gang_rounds)?);
    measured.extend(restart(setting, setting.sizes.gang_rounds)?);
    Ok(measured)
}

/// Scheduler, workers, and the socket that the processes speak to.
struct Scene {
    /// Everything ends with it.
    _cluster: Cluster,
    api: Api,
    roll: Roll,
    /// The command of every process.
    argv: Vec<String>,
    layout: Layout,
}

impl Scene {
    fn set(setting: &Setting<'_>, ranks: Ranks) -> Result<Self> {
        let layout = Layout::of(ranks);
        let mut cluster = Cluster::scheduler(setting.ground)?;
        cluster.add_workers(layout.workers, layout.slots)?;
        let socket = cluster.directory().join("roll");
        let roll = Roll::listen(&socket, PATIENCE)?;
        let own = env::current_exe()?.into_os_string().into_string();
        let own = own.ok().context("the path of this program is not text")?;
        let argv = vec![own, member::MODE.to_owned(), socket.display().to_string()];
        Ok(Self { api: cluster.api()?, _cluster: cluster, roll, argv, layout })
    }

    fn single(&self) -> SubmitRequest {
        SubmitRequest { argv: self.argv.clone(), ..SubmitRequest::default() }
    }

    fn gang(&self) -> SubmitRequest {
        SubmitRequest {
            gang_size: Some(self.layout.ranks() as i64),
            tasks_per_worker: Some(self.layout.slots as i64),
            launch: Some(LaunchMode::PerRank),
            ..self.single()
        }
    }

    /// Ends all processes and waits until their jobs are done.
    fn dismiss(&mut self, members: &[Member], task: &str) -> Result<()> {
        self.roll.dismiss(members)?;
        self.api.await_all(&[task.to_owned()], POLL, BOUND)
    }

    /// A single has one slot of all that the gang needs; the milliseconds from its end to the start of the last
    /// rank.
    fn start_round(&mut self) -> Result<f64> {
        self.api.submit(&serde_json::to_vec(&self.single())?)?;
        let single = self.roll.await_started(1).context("waiting for the single job")?;
        let task = self.api.submit_gang(&serde_json::to_vec(&self.gang())?)?;
        thread::sleep(REST);
        let ended = self.roll.end(&single[0], 0)?;
        let members = self.roll.await_started(self.layout.ranks()).context("waiting for the gang")?;
        ensure!(member::first_began(&members) >= ended, "a rank began before there was room for all");
        let delay = milliseconds(ended, member::last_began(&members));
        thread::sleep(REST);
        self.dismiss(&members, &task)?;
        Ok(delay)
    }

    /// The milliseconds that a bare loop takes until the last of as many processes has begun.
    fn bare_round(&self, threads: usize) -> Result<f64> {
        let command = |index: usize| {
            let mut command = Command::new(&self.argv[0]);
            command.args(&self.argv[1..]).env(member::INDEX, index.to_string());
            command
        };
        let begin = member::since_epoch(SystemTime::now());
        let children = limits::start_all(threads, self.layout.ranks(), command)?;
        let members = self.roll.await_started(children.len()).context("waiting for the bare loop")?;
        let delay = milliseconds(begin, member::last_began(&members));
        self.roll.dismiss(&members)?;
        for mut child in children {
            ensure!(child.wait()?.success(), "a process of the bare loop failed");
        }
        Ok(delay)
    }
}

fn start(setting: &Setting<'_>, ranks: Ranks, rounds: usize) -> Result<Measured> {
    let mut scene = Scene::set(setting, ranks)?;
    let (mut delays, mut bare) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for _ in 0..rounds {
        thread::sleep(REST);
        delays.push(scene.start_round()?);
        thread::sleep(REST);
        bare.push(scene.bare_round(setting.slots)?);
    }
    scene.api.check_done(rounds * (scene.layout.ranks() + 1))?;
    portions(ranks, &delays, &bare)
}

/// The delays, those of the bare loop, and what is left when the middle one of the bare loop is taken away.
fn portions(ranks: Ranks, delays: &[f64], bare: &[f64]) -> Result<Measured> {
    let at = |values: &[f64], share: Share| {
        stats::percentile(values, share.of_all()).context("no round was measured")
    };
    let spawn = at(bare, Share::Median)?;
    let mut measured = Measured::new();
    for share in [Share::Median, Share::Tail] {
        let whole = at(delays, share)?;
        let parts =
            [(Portion::Whole, whole), (Portion::Spawn, at(bare, share)?), (Portion::Besides, whole - spawn)];
        let metric = |portion| Metric::Gang(Gang::Start(ranks, portion, share));
        measured.extend(parts.map(|(portion, value)| (metric(portion), value)));
    }
    Ok(measured)
}

/// One gang that fails and starts again, round after round; another rank fails each time.
fn restart(setting: &Setting<'_>, rounds: usize) -> Result<Measured> {
    let mut scene = Scene::set(setting, Ranks::Eight)?;
    let ranks = scene.layout.ranks();
    let gang = SubmitRequest { max_retries: Some(rounds as i64 + 1), ..scene.gang() };
    let task = scene.api.submit_gang(&serde_json::to_vec(&gang)?)?;
    let mut members = scene.roll.await_started(ranks).context("waiting for the gang")?;
    let mut delays = Vec::with_capacity(rounds);
    for round in 0..rounds {
        thread::sleep(REST);
        let ended = scene.roll.end(&members[round % ranks], 1)?;
        members = scene.roll.await_started(ranks).context("waiting for the gang to start again")?;
        ensure!(member::first_began(&members) >= ended, "a rank of the next round began too early");
        delays.push(milliseconds(ended, member::last_began(&members)));
    }
    thread::sleep(REST);
    scene.dismiss(&members, &task)?;
    scene.api.check_done_at_last(ranks)?;
    let at = |share: Share| stats::percentile(&delays, share.of_all()).context("no round was measured");
    let both = [Share::Median, Share::Tail];
    both.into_iter().map(|share| Ok((Metric::Gang(Gang::Again(share)), at(share)?))).collect()
}

fn milliseconds(from: Duration, to: Duration) -> f64 {
    to.saturating_sub(from).as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_slots_as_ranks() {
        assert_eq!(Layout::of(Ranks::Eight).ranks(), 8);
        assert_eq!(Layout::of(Ranks::SixtyFour).ranks(), 64);
    }

    #[test]
    fn the_middle_of_the_bare_loop_is_taken_away_from_each_share() {
        let measured = portions(Ranks::Eight, &[10.0, 30.0, 20.0], &[4.0, 3.0, 9.0]).unwrap();
        let value = |portion, share| {
            let wanted = Metric::Gang(Gang::Start(Ranks::Eight, portion, share));
            let found = measured.iter().find(|(metric, _)| *metric == wanted);
            found.map(|(_, value)| value.to_string()).unwrap()
        };
        assert_eq!(value(Portion::Whole, Share::Median), "20");
        assert_eq!(value(Portion::Whole, Share::Tail), "30");
        assert_eq!(value(Portion::Spawn, Share::Median), "4");
        assert_eq!(value(Portion::Spawn, Share::Tail), "9");
        assert_eq!(value(Portion::Besides, Share::Median), "16");
        assert_eq!(value(Portion::Besides, Share::Tail), "26");
        assert!(portions(Ranks::Eight, &[], &[]).is_err());
    }
}
