//! The worker: claims jobs, runs them, and tells the scheduler how they ended.
pub mod keeper;
