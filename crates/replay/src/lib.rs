//! What a policy would have done: a workload is played through the planner on a made-up cluster.
//!
//! Guarantees: the same input gives the same outcome, to the last digit; the rules are those of the planner's
//! board, none of its own; no clock and no file is touched here.

mod cluster_text;
mod error;
mod estimate;
pub mod figures;
pub mod generate;
mod outcome;
pub mod page;
mod play;
mod sampler;
mod settings;
pub mod table;
pub mod trace;
pub mod words;
mod workload;
mod written;

pub use cluster_text::{ClusterError, cluster_text, parse_cluster, parse_cluster_file};
pub use error::ReplayError;
pub use muster_planner::policy::{Policy, PolicyName, UnknownPolicy};
pub use outcome::{JobOutcome, Outcome, Progress, Sample};
pub use play::replay;
pub use settings::{Cluster, Estimates, Events, NodeGroup, Settings};
pub use workload::{TraceJob, Workload};
