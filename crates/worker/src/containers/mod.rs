//! Jobs in containers: what is asked of the engine, by whom, and how nothing is left behind.
//!
//! The agent finds the engine ([`engine`]), pulls images and says what a container is to be ([`spec`]). The keeper starts a
//! [`runner`] for it, as it starts any process: it makes the container, passes signals to it and its output on, waits for its
//! end and removes it. Whoever outlives a runner removes what that one could not ([`removal`]).
//!
//! Guarantees: an attempt is told as ended when its container has ended; every container carries the data directory of its
//! worker, job and lease as labels, and those of attempts that nobody looks after are removed.

mod engine;
mod errors;
mod guest;
mod labels;
mod mounts;
mod note;
mod own_terminal;
mod plan;
mod process_end;
mod pull;
mod raw_stream;
mod removal;
mod runner;
mod signals;
mod spec;

pub use engine::Reach;
pub use engine::{ContainerMode, ContainerSettings};
pub(crate) use engine::{Engine, find};
pub(crate) use guest::{
    GUEST_ARGUMENT, GUEST_ORDER, GuestOrder, carried, run_from_arguments as run_guest_from_arguments,
};
pub(crate) use labels::container_name;
pub use mounts::AllowedMount;
pub(crate) use note::{Note, Verdict};
pub(crate) use own_terminal::pass_everything;
pub(crate) use plan::{Planned, Surroundings, plan};
pub(crate) use pull::{Fetched, Prospect, Pulled, Pulls, Wanted};
pub(crate) use removal::{
    end_first_process, is_in_use, mark_in_use, remove_all_here, remove_in_process, remove_strangers,
    run_from_arguments as run_removal_from_arguments,
};
pub(crate) use runner::run_from_arguments;
pub(crate) use runner::{Order, RUNNER_ARGUMENT};
pub use spec::{ContainerSpec, FileMount};
