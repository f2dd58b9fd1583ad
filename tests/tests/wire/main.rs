//! Black-box tests of the HTTP API: the real scheduler over a real socket, on each of the three stores.
//!
//! Tests that carry a number (`t05_...`) show the statement of the behaviour contract with that number.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the scenarios are test code, outside of the test functions that run them"
)]

mod access;
mod accounts;
mod additions;
mod arrays;
mod artifact_transfers;
mod artifacts;
mod bad_input;
mod batch;
mod browsers;
mod cancel;
mod claims;
mod configuration;
mod control;
mod dependencies;
mod disconnects;
mod explaining;
mod exposure;
mod fencing;
mod finished_output;
mod floods;
mod following;
mod full_disk;
mod fuzzed;
mod gang_control;
mod gang_demo;
mod gang_drains;
mod gang_starts;
mod gangs;
mod gangs_in_containers;
mod gangs_of_two;
mod gpus;
mod image_pulls;
mod inputs;
mod inputs_broken_off;
mod inputs_in_containers;
mod legacy_workers;
mod liveness;
mod logs;
mod making_room;
mod metrics;
mod oidc;
mod original_worker;
mod outage;
mod partitions;
mod pipelines;
mod quotas;
mod reports;
mod responses;
mod retention;
mod retries;
mod rights;
mod run_as;
mod secrets;
mod separate_directories;
mod shutdown;
mod submit;
mod sync;
mod terminals;
mod times;
mod tls;
mod two_schedulers;
mod uploads;
mod usage;
mod visibility;
mod webhooks;
mod workers;
