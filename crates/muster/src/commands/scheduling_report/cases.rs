//! The workloads of the report, and how each is played.

use std::path::Path;

use muster_domain::Span;
use muster_replay::generate::Generator;
use muster_replay::trace::{self, Trace};
use muster_replay::{Estimates, Events, PolicyName};

use crate::commands::sim::text_of;

/// Which claims and references a case is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Kth,
    KthOneByOne,
    KthTrue,
    KthTrueOneByOne,
    Philly,
    PhillySlow,
    PhillyPooled,
    SmallGpu,
    OtherSmallGpu,
    Hpc2n,
    Other,
}

/// Where the jobs come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    File(&'static str),
    Made(&'static str),
}

/// One workload on one cluster under several policies.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) key: Key,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) source: Source,
    pub(super) cluster: &'static str,
    pub(super) estimates: Estimates,
    pub(super) events: Events,
    pub(super) restart: Span,
    pub(super) policies: Vec<PolicyName>,
}

const MINUTE: Span = Span::from_secs(60);
const QUARTER: Span = Span::from_secs(900);
const KTH: Source = Source::File("kth_sp2.csv.gz");
const HPC2N: Source = Source::File("hpc2n.csv.gz");
const ITP_02: Source = Source::File("itp_c02.csv.gz");
const ITP_06: Source = Source::File("itp_c06.csv.gz");
const PHILLY: Source = Source::File("philly.csv.gz");

impl Case {
    /// Batched events, all policies, a minute to restart, and what users said about their jobs.
    fn new(key: Key, title: &'static str, source: Source, cluster: &'static str) -> Self {
        Self {
            key,
            title,
            about: "",
            source,
            cluster,
            estimates: Estimates::Limit,
            events: Events::Batched,
            restart: MINUTE,
            policies: PolicyName::ALL.to_vec(),
        }
    }

    fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    fn only(self, policies: &[PolicyName]) -> Self {
        Self { policies: policies.to_vec(), ..self }
    }

    /// The jobs; `None` when their file is not there.
    pub(super) fn trace(&self, traces: Option<&Path>) -> anyhow::Result<Option<Trace>> {
        match self.source {
            Source::Made(description) => Ok(Some(description.parse::<Generator>()?.trace())),
            Source::File(name) => {
                let Some(file) = traces.map(|traces| traces.join(name)).filter(|file| file.exists()) else {
                    return Ok(None);
                };
                Ok(Some(trace::read(&text_of(&file)?, 0)?))
            }
        }
    }
}

/// In the order of the page.
pub(super) fn all() -> Vec<Case> {
    let mut cases = traces();
    cases.extend(made_up());
    cases.extend(for_reference());
    cases
}

fn traces() -> Vec<Case> {
    vec![
        Case::new(Key::Philly, "Philly, 80 nodes of 8 GPUs, 60 s to restart", PHILLY, "80x8gpu").about(
            "Microsoft's Philly trace (ATC '19). It has no time limits: `muster` is told nothing about run times, \
             all others are told the true ones.",
        ),
        Case {
            restart: QUARTER,
            ..Case::new(Key::PhillySlow, "Philly, 80 nodes of 8 GPUs, 900 s to restart", PHILLY, "80x8gpu")
        }
        .about("The same, where a job that is stopped loses a quarter of an hour. Only `muster` stops jobs.")
        .only(&[PolicyName::Sjf, PolicyName::SjfEasy, PolicyName::Easy, PolicyName::Muster]),
        Case::new(Key::PhillyPooled, "Philly, 640 GPUs in one pool", PHILLY, "640gpu")
            .about("The same jobs as if all GPUs were in one node, so that nothing is fragmented."),
        Case::new(Key::Kth, "KTH-SP2, 100 processors, users' limits", KTH, "100cpu").about(
            "The KTH-SP2 log of the Parallel Workloads Archive. All policies are told the limits that users gave.",
        ),
        Case::new(Key::Hpc2n, "HPC2N, 240 processors, users' limits", HPC2N, "240cpu")
            .about("The HPC2N log of the Parallel Workloads Archive, likewise."),
        Case::new(Key::SmallGpu, "ITP, cluster 02, 15 nodes of 8 GPUs", ITP_02, "15x8gpu").about(
            "A small cluster of Microsoft's ITP (ElasticFlow), with more work than it can do at times. It has no time limits.",
        ),
        Case::new(Key::OtherSmallGpu, "ITP, cluster 06, 15 nodes of 8 GPUs", ITP_06, "15x8gpu").about("Another one."),
    ]
}

fn made_up() -> Vec<Case> {
    vec![
        Case::new(
            Key::Other,
            "Made up: ML, 32 nodes of 8 GPUs, load 0.9",
            Source::Made("ml:jobs=20000,seed=11,size=32,load=0.9"),
            "32x8gpu",
        )
        .about("`muster sim --generate ml:jobs=20000,seed=11,size=32,load=0.9`. Half of the jobs are gangs."),
        Case::new(
            Key::Other,
            "Made up: ML, 32 nodes of 8 GPUs, load 1.1",
            Source::Made("ml:jobs=20000,seed=12,size=32,load=1.1"),
            "32x8gpu",
        )
        .about("More work comes than the cluster can do."),
        Case::new(
            Key::Other,
            "Made up: HPC, 256 processors, load 0.9",
            Source::Made("hpc:jobs=20000,seed=13,size=256,load=0.9"),
            "256cpu",
        )
        .about(
            "`muster sim --generate hpc:jobs=20000,seed=13,size=256,load=0.9`, after the model of Lublin and Feitelson, \
             with limits that are mostly far too long.",
        ),
    ]
}

/// Only for the digits that others have published.
fn for_reference() -> Vec<Case> {
    let backfilling = [PolicyName::Easy, PolicyName::EasySjbf];
    let exact = |key, title| Case { events: Events::OneByOne, ..Case::new(key, title, KTH, "100cpu") };
    vec![
        exact(Key::KthOneByOne, "KTH-SP2, users' limits, one event at a time").only(&[
            PolicyName::Fifo,
            PolicyName::Easy,
            PolicyName::EasySjbf,
        ]),
        Case {
            estimates: Estimates::True,
            ..exact(Key::KthTrueOneByOne, "KTH-SP2, true times, one event at a time")
        }
        .only(&backfilling),
        Case {
            estimates: Estimates::True,
            ..Case::new(Key::KthTrue, "KTH-SP2, 100 processors, true times", KTH, "100cpu")
        }
        .only(&backfilling),
    ]
}
