//! The store that keeps everything in memory and nothing on disk. It must be asked for.
//!
//! It serves tests, simulations and people who want no files. One lock guards the data; verbs run
//! under it without waiting, so that a transaction is simply a turn.

mod data;
mod gangs;
mod sets;
mod turns;
mod tx;
mod webhooks;

use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use muster_domain::Timestamp;

use crate::command::{Applied, Command, Wake};
use crate::engine::{self, Policies};
use crate::error::StoreError;
use crate::query::{Query, Reply};
use crate::store::{Leadership, Role, Store};
use data::Data;

/// Everything in memory; gone with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    policies: Policies,
    data: Mutex<Data>,
}

impl MemoryStore {
    pub fn new(policies: impl Into<Policies>) -> Self {
        Self { policies: policies.into(), data: Mutex::default() }
    }

    fn with_data<O>(&self, turn: impl FnOnce(&mut Data) -> O) -> O {
        // A poisoned lock means that a turn panicked; the rules never do, so go on with what is there.
        turn(&mut self.data.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for MemoryStore {
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        async move {
            self.with_data(|data| engine::run_ready(engine::apply(data, &self.policies, now, &commands)))
        }
        .boxed()
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        async move { self.with_data(|data| engine::run_ready(engine::read(data, &self.policies, &query))) }
            .boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }

    fn lead(&self, _role: Role) -> BoxFuture<'_, Result<Option<Leadership>, StoreError>> {
        async { Ok(Some(Leadership::holding(()))) }.boxed()
    }

    fn wakes(&self) -> BoxStream<'static, Wake> {
        futures::stream::pending().boxed()
    }

    fn kind(&self) -> &'static str {
        "memory"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}
