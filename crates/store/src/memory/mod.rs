//! The store that keeps everything in memory and nothing on disk. It must be asked for.
//!
//! It serves tests, simulations and people who want no files. One lock guards the data; verbs run
//! under it without waiting, so that a transaction is simply a turn.

mod artifacts;
mod data;
mod gangs;
mod held;
mod log;
mod output;
mod records;
mod sets;
mod turns;
mod tx;
mod webhooks;

use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use muster_domain::Timestamp;

use crate::applied::{Applied, Wake};
use crate::command::Command;
use crate::engine::{self, Policies, Roster};
use crate::error::StoreError;
use crate::query::{Query, Reply};
use crate::store::Store;
use data::Data;

/// Everything in memory; gone with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    policies: Policies,
    data: Mutex<Turn>,
}

/// What a turn has for itself: the data, and what is remembered of them.
#[derive(Debug, Default)]
struct Turn {
    data: Data,
    roster: Roster,
}

impl MemoryStore {
    pub fn new(policies: impl Into<Policies>) -> Self {
        Self { policies: policies.into(), data: Mutex::default() }
    }

    fn in_turn<O>(&self, action: impl FnOnce(&mut Turn) -> O) -> O {
        // A poisoned lock means that a turn panicked; the rules never do, so go on with what is there.
        action(&mut self.data.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn apply_now(&self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        self.in_turn(|Turn { data, roster }| {
            let mut known = roster.take();
            let applied = engine::run_ready(engine::apply(data, &self.policies, &mut known, now, commands))?;
            roster.put(known);
            Ok(applied)
        })
    }
}

impl Store for MemoryStore {
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        async move { self.apply_now(now, &commands) }.boxed()
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        async move {
            self.in_turn(|turn| engine::run_ready(engine::read(&mut turn.data, &self.policies, &query)))
        }
            .boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
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
