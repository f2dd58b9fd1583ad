//! What the machine can do with no scheduler at all, measured in the same minutes as the workloads.

mod http;
mod postgres;
mod spawn;
mod sqlite;

pub(crate) use http::requests_per_second;
pub(crate) use postgres::commits as postgres_commits;
pub(crate) use spawn::{spawns_per_second, start_all};
pub(crate) use sqlite::commits as sqlite_commits;
