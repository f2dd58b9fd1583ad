//! Following jobs: their output as it is written, and their way to the end.

mod copy;
mod patience;
mod sink;
mod to_the_end;

pub(crate) use copy::copy;
pub(crate) use patience::Patience;
pub(crate) use sink::{Sink, Streams};
pub(crate) use to_the_end::{Follower, follow};
