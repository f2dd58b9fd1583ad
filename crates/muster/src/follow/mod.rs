//! Following jobs and gangs: their output as it is written, and their way to the end.

mod copy;
mod gang;
mod patience;
mod ranks;
mod sink;
mod to_the_end;

pub(crate) use copy::copy;
pub(crate) use gang::{EndedGang, FollowedGang, GangFollower, all_events, ended_gang, follow_gang};
pub(crate) use patience::Patience;
pub(crate) use ranks::{Part, Rank, RankSink, copy_ranks};
pub(crate) use sink::{Sink, Streams};
pub(crate) use to_the_end::{Followed, Follower, follow};
