//! The workloads: each starts a fresh cluster, does one thing, checks that it was really done, and returns
//! what it measured.

mod accounts;
mod array;
mod artifacts;
mod containers;
mod cost;
mod gang;
mod graph;
mod history;
mod idle;
mod latency;
mod output;
mod planning;
mod reads;
mod store;
mod submit;
mod throughput;

use std::time::Duration;

use anyhow::Result;

use crate::cluster::Ground;
use crate::metric::Metric;
use crate::settings::{Sizes, Workload};

pub(crate) use store::through as run_through;

/// Connections of the workloads that submit from several.
pub(crate) const CONNECTIONS: usize = 8;
/// No workload may take longer than this.
const BOUND: Duration = Duration::from_secs(180);

/// What a run needs to know.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) sizes: Sizes,
    pub(crate) slots: usize,
}

/// What one run measured.
pub(crate) type Measured = Vec<(Metric, f64)>;

pub(crate) fn run(workload: Workload, setting: &Setting<'_>) -> Result<Measured> {
    match workload {
        Workload::A => throughput::one_batch(setting),
        Workload::B => throughput::one_request_each(setting),
        Workload::C => latency::idle_dispatch(setting),
        Workload::D => submit::batches(setting),
        Workload::E => graph::chain_and_fan(setting),
        Workload::F => idle::at_rest(setting),
        Workload::G => throughput::no_operation(setting),
        Workload::H => history::beside(setting),
        Workload::K => accounts::cost(setting),
        Workload::L => output::beside_control(setting),
        Workload::M => array::whole(setting),
        Workload::P => planning::at_scale(setting),
        Workload::R => reads::under_load(setting),
        Workload::S => store::verbs(setting),
        Workload::T => gang::start_and_restart(setting),
        Workload::V => artifacts::there_and_back(setting),
        Workload::W => containers::one_by_one(setting),
    }
}
