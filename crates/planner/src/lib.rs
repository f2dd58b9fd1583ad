//! Who runs what, as one pure function of a view of the cluster.
//!
//! Guarantees: deterministic for equal input; no worker gets more than it has, in any dimension; a job
//! goes only to a worker that asked for work; a job that fits nowhere never hides one that fits.

mod explain;
mod fit;
mod order;
mod place;
mod score;

pub use explain::explain;
pub use fit::WorkerView;
pub use order::Candidate;
pub use place::{Placement, View, place};
pub use score::Scoring;
