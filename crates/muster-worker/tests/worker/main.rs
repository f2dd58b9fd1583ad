//! The real worker binary against a scheduler that does what a test tells it to.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

mod checkpoints;
mod claiming;
mod container_usage;
mod containers;
mod delegated;
mod escaping;
mod executors;
mod gangs;
mod limits;
mod notices;
mod output_files;
mod privacy;
mod private_tmp;
mod process;
mod results;
mod running;
mod scheduler;
mod second_form;
mod stopping;
mod surviving;
mod times;
