//! The harness of the end-to-end tests: it starts the real binaries on free loopback ports, talks to them
//! over raw sockets, and ends them.
//!
//! Guarantees: nothing waits without a bound; every process that a test starts is ended with it, by its id;
//! a missing prerequisite fails the test and says what to do.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: what goes wrong here has to fail the test, loudly and at once"
)]

mod api;
mod browser;
pub mod chaos;
mod container_engine;
pub mod fuzz;
mod gangs;
mod http;
mod image_registry;
mod local_user;
mod login_provider;
mod network;
mod podman_engine;
mod process;
mod receiver;
mod scheduler;
mod stores;
mod switch;
pub mod tree;
mod valve;
mod wait;
mod watchdog;
mod worker;

pub use api::{id_of, is_uuid_v4, lease_of};
pub use browser::{Browser, Page};
pub use container_engine::{ContainerEngine, IMAGE};
pub use gangs::Gang;
pub use http::{Http, Request, Response};
pub use image_registry::ImageRegistry;
pub use local_user::LocalUser;
pub use login_provider::{CLIENT_SECRET, LoginProvider};
pub use muster_pg_testkit::{PortLease, Postgres};
pub use network::{Cable, Machine, in_own_network};
pub use podman_engine::PodmanEngine;
pub use process::{Process, binary};
pub use receiver::{Received, Receiver, Reply};
pub use scheduler::{Scheduler, Settings};
pub use stores::{Backing, StoreKind};
pub use switch::Switch;
pub use valve::Valve;
pub use wait::{eventually, until};
pub use worker::{Worker, WorkerSettings};

/// Makes one test for each store of a function that takes a [`StoreKind`]. The tests are named after the
/// function and the store, such as `t05_...::sqlite`.
#[macro_export]
macro_rules! for_each_store {
    ($($(#[$attribute:meta])* fn $name:ident($store:ident) $body:block)+) => {$(
        $(#[$attribute])*
        mod $name {
            use super::*;

            fn scenario($store: $crate::StoreKind) $body

            #[test]
            fn memory() {
                scenario($crate::StoreKind::Memory);
            }

            #[test]
            fn sqlite() {
                scenario($crate::StoreKind::Sqlite);
            }

            #[test]
            fn postgres() {
                scenario($crate::StoreKind::Postgres);
            }
        }
    )+};
}
