//! The keeper: a small process of its own that starts, watches, stops and fences the processes of jobs.
//!
//! It is apart from the agent so that a job survives the agent: an agent that crashes or is replaced
//! finds its jobs again, with their exit codes, in the keeper. And because it is apart it can guard the
//! lease: when no agent has moved the fence in time, the keeper stops the jobs by itself, so that two
//! attempts of one job never overlap.
//!
//! Threads, no async: one thread per slot spawns and waits, which is the fastest way to run short
//! processes. [`table`](self) holds the one lock around what is known of the jobs.

mod artifact_room;
mod cgroups;
mod children;
mod clock;
mod clone_into;
mod connection;
mod contained;
mod deadman;
mod former;
mod guard;
mod host;
mod hostfile;
mod job_directory;
mod launch;
mod leavings;
mod mark;
mod masked_output;
mod masking;
mod memory_watch;
mod message;
mod notice_file;
mod outputs;
mod personal;
mod private_tmp;
mod process_tree;
mod result_file;
mod rusage;
mod secret_grant;
mod signals;
mod slots;
mod socket;
mod spawn;
mod stopping;
mod stragglers;
mod table;
mod terminals;
mod user_namespace;
mod view;

pub use artifact_room::artifact_directory;
pub use cgroups::{
    Choice, CpuLimit, Isolation, IsolationForm, IsolationMode, Limits, Tree, bind_cpus, choose,
};
pub(crate) use cgroups::{ContainerGroup, remove_recorded};
pub use clock::boottime_ns;
pub(crate) use former::end_former;
pub use host::{KEEPER_ARGUMENT, run_from_arguments};
pub use job_directory::remove_empty_directories;
pub(crate) use mark::{Mark, MarkFamily};
pub use message::{
    Adopted, AttemptPaths, End, Files, FinishedBy, FromKeeper, Key, MAX_FRAME_BYTES, OutOfMemory, Outcome,
    Phase, StartSpec, StopCause, StopManner, StopSpec, ToKeeper, decode_frame, encode_frame,
};
pub use outputs::output_directory;
pub use private_tmp::PrivateTmp;
pub(crate) use private_tmp::{choose as choose_private_tmp, remove_leftovers as remove_private_tmp};
pub(crate) use process_tree::{descendants, groups_below};
pub use result_file::result_directory;
pub use secret_grant::SecretGrant;
pub(crate) use signals::process_handle;
pub use socket::{connect, connect_terminals, socket_path};
pub use stopping::Words;
pub(crate) use terminals::MAX_MESSAGE_BYTES as MAX_TERMINAL_MESSAGE;
pub use terminals::TerminalGreeting;
