//! The flags of a scheduler that say who goes first, who may pass and who must stop.
//!
//! All of them come to one [`Policy`]. In `muster.toml` they stand under `[policy]`, by the names of its fields.

use std::time::Duration;

use clap::Args;
use muster_planner::policy::{Policy, PolicyName};

use super::knobs::as_span;
use super::values::{any_duration, on_or_off, per_mille, policy_name};

/// The key of each flag under `[policy]`, and the flag.
pub(super) const KEYS: [(&str, &str); 12] = [
    ("name", "policy"),
    ("preempt", "preemption"),
    ("least_run", "preempt_after"),
    ("pass_for", "passing"),
    ("first_service", "first_service"),
    ("second_service", "second_service"),
    ("pin_after", "pin_after"),
    ("pinned_per_mille", "pinned_per_mille"),
    ("preempt_by_level", "preempt_by_level"),
    ("waste_per_mille", "waste_per_mille"),
    ("restart", "restart_cost"),
    ("patience", "patience"),
];

/// The policy and its knobs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Order of work")]
pub struct PolicyArgs {
    #[arg(
        long = "policy",
        id = "policy",
        help = "Who goes first and who may pass: muster, or, to compare with, fifo, greedy, largest-gang, sjf, sjf-easy, easy or easy-sjbf",
        value_name = "NAME",
        env = "MUSTER_POLICY",
        default_value = "muster",
        value_parser = policy_name
    )]
    pub name: PolicyName,
    /// Stop work so that what goes before it can start: on or off
    #[arg(long, value_name = "ON|OFF", env = "MUSTER_PREEMPTION", default_value = "on", value_parser = on_or_off,
          action = clap::ArgAction::Set)]
    pub preemption: bool,
    /// Nothing is stopped for others before it has run for so long
    #[arg(long, value_name = "TIME", env = "MUSTER_PREEMPT_AFTER", default_value = "1m", value_parser = any_duration)]
    pub preempt_after: Duration,
    /// How long others may pass work whose start cannot be foreseen before room is kept for it, at the least: longer where what runs has run for long
    #[arg(long, value_name = "TIME", env = "MUSTER_PASSING", default_value = "10m", value_parser = any_duration)]
    pub passing: Duration,
    /// Time on one GPU (or core) after which work goes behind what has had less
    #[arg(long, value_name = "TIME", env = "MUSTER_FIRST_SERVICE", default_value = "4h", value_parser = any_duration)]
    pub first_service: Duration,
    /// The same for the second and last level of service
    #[arg(long, value_name = "TIME", env = "MUSTER_SECOND_SERVICE", default_value = "40h", value_parser = any_duration)]
    pub second_service: Duration,
    /// Work that has waited for longer than this, and for longer than it ran, goes first in its priority
    #[arg(long, value_name = "TIME", env = "MUSTER_PIN_AFTER", default_value = "24h", value_parser = any_duration)]
    pub pin_after: Duration,
    /// The part of the cluster, in thousandths, that work may hold which goes first for having waited
    #[arg(long, value_name = "N", env = "MUSTER_PINNED_PER_MILLE", default_value = "100", value_parser = per_mille)]
    pub pinned_per_mille: u32,
    /// Stop work that has had more service for work of the same priority that has had less: on or off
    #[arg(long, value_name = "ON|OFF", env = "MUSTER_PREEMPT_BY_LEVEL", default_value = "off", value_parser = on_or_off,
          action = clap::ArgAction::Set)]
    pub preempt_by_level: bool,
    /// The part of the cluster's time, in thousandths, that stops may waste which priority does not demand
    #[arg(long, value_name = "N", env = "MUSTER_WASTE_PER_MILLE", default_value = "40", value_parser = per_mille)]
    pub waste_per_mille: u32,
    /// What a stop is taken to cost besides the work since the last checkpoint
    #[arg(long, value_name = "TIME", env = "MUSTER_RESTART_COST", default_value = "1m", value_parser = any_duration)]
    pub restart_cost: Duration,
    /// How long a job outside gangs waits before room is kept for it
    #[arg(long, value_name = "TIME", env = "MUSTER_PATIENCE", default_value = "30s", value_parser = any_duration)]
    pub patience: Duration,
}

impl PolicyArgs {
    pub(super) fn policy(&self) -> Policy {
        let span = as_span;
        Policy {
            name: self.name,
            first_service: span(self.first_service),
            second_service: span(self.second_service),
            pin_after: span(self.pin_after),
            pinned_per_mille: self.pinned_per_mille,
            pass_for: span(self.passing),
            least_run: span(self.preempt_after),
            restart: span(self.restart_cost),
            preempt_by_level: self.preempt_by_level,
            waste_per_mille: self.waste_per_mille,
            preempt: self.preemption,
            patience: span(self.patience),
            ..Policy::default()
        }
    }
}
