//! The real program, as a person or a script uses it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod control;
mod embedded;
mod entering;
mod entering_containers;
mod examples;
mod gangs;
mod harness;
mod inputs;
mod inside;
mod logs;
mod looking;
mod pipelines;
mod running;
mod screen;
mod simulating;
mod submitting;
mod times;
mod upping;
mod waiting;
mod watching;
mod webhooks;
mod wrong;
