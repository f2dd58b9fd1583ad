//! How the tasks of a gang find each other: variables, hostfile, address and ports.
//!
//! A job is launched in one of two modes. *Per node*: the process starts workers of its own (`torchrun`,
//! `accelerate launch`), and is told about nodes. *Per rank*: the process is one rank, and is told about ranks.
//! Guarantee: the variables of the modes never mix, because frameworks guess from them which one they are in.

mod address;
mod hostfile;
mod inherited;
mod per_node;
mod per_rank;
mod ports;
mod round;
#[cfg(test)]
mod round_tests;
mod slurm;
mod topology;

pub use address::reaching;
pub(crate) use inherited::governed;
pub(crate) use ports::{KeptPort, PortPool};
pub(crate) use round::{Machine, needs_local_port, own_port, rendezvous};
