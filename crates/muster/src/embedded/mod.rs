//! A scheduler and a worker in this process, joined without a socket, and one left behind in the background.

mod background;
mod installation;
mod stores;

pub(crate) use background::start_in_background;
pub(crate) use installation::{Embedded, Installation, registered, worker_config};
pub(crate) use stores::StoreSettings;
