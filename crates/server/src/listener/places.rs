//! Places for connections: how many there may be in all, of one address, and of callers that nobody knows yet.
//!
//! Guarantees: a quarter of the places is only for callers that have shown who they are, so that strangers never take all;
//! one address never takes all; a place is given back with its [`Seat`], however the connection ends.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bounds::Bounds;
use crate::metrics::Metrics;

/// Connections beyond the bound. Each lasts for one short request, unless its caller turns out to be one that has places.
pub(super) const RESERVE: u32 = 64;

/// What a connection may be kept out by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crowd {
    /// The address has as many as one may have.
    Address { limit: usize },
    /// The address has as many without a credential as one may have.
    UnknownOfAddress { limit: usize },
    /// All callers without a credential together have as many as they may have.
    Unknown { limit: usize },
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    all: usize,
    unknown: usize,
}

/// The places of one scheduler.
#[derive(Debug)]
pub(super) struct Places {
    room: Arc<Semaphore>,
    unknown: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    most: u32,
    bounds: Bounds,
    addresses: Mutex<HashMap<IpAddr, Count>>,
    metrics: Arc<Metrics>,
}

/// A right to accept one more connection, before anybody knows whose it is.
#[derive(Debug)]
pub(super) enum Entrance {
    Room(OwnedSemaphorePermit),
    Reserve(OwnedSemaphorePermit),
}

/// The place of an open connection.
#[derive(Debug)]
pub(crate) struct Seat {
    places: Arc<Places>,
    network: Option<IpAddr>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    room: Option<OwnedSemaphorePermit>,
    reserve: Option<OwnedSemaphorePermit>,
    unknown: Option<OwnedSemaphorePermit>,
    is_known: bool,
}

impl Held {
    /// The label of the gauge.
    fn kind(&self) -> &'static str {
        match (&self.room, self.is_known) {
            (None, _) => "reserve",
            (Some(_), true) => "known",
            (Some(_), false) => "unknown",
        }
    }
}

fn permit(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(semaphore).try_acquire_owned().ok()
}

/// What counts as one address. Whoever has an IPv6 address has the whole network of it.
fn network(peer: SocketAddr) -> Option<IpAddr> {
    match peer.ip().to_canonical() {
        address if address.is_loopback() => None,
        IpAddr::V4(address) => Some(address.into()),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
        }
    }
}

impl Places {
    pub(super) fn new(bounds: &Bounds, metrics: Arc<Metrics>) -> Arc<Self> {
        let most = bounds.connections.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        let semaphore = |places: usize| Arc::new(Semaphore::new(places));
        Arc::new(Self {
            room: semaphore(most),
            unknown: semaphore(bounds.unknown_connections().max(1)),
            reserve: semaphore(RESERVE as usize),
            most: most as u32,
            bounds: bounds.clone(),
            addresses: Mutex::default(),
            metrics,
        })
    }

    /// Waits until one more connection may be accepted. `None` when there will be none any more.
    pub(super) async fn entrance(&self) -> Option<Entrance> {
        tokio::select! {
            biased;
            permit = Arc::clone(&self.room).acquire_owned() => Some(Entrance::Room(permit.ok()?)),
            permit = Arc::clone(&self.reserve).acquire_owned() => Some(Entrance::Reserve(permit.ok()?)),
        }
    }

    /// Gives a connection its place, now that its peer is known, and whether its caller is.
    pub(super) fn seat(
        self: &Arc<Self>,
        entrance: Entrance,
        peer: SocketAddr,
        is_known: bool,
    ) -> Result<Seat, Crowd> {
        let mut held = Held { is_known, ..Held::default() };
        match entrance {
            Entrance::Room(room) => held.room = Some(room),
            Entrance::Reserve(reserve) => held.reserve = Some(reserve),
        }
        if !is_known && held.room.is_some() {
            held.unknown = permit(&self.unknown);
            if held.unknown.is_none() {
                // It may be a worker that only has not said so yet: it gets a short while to do it.
                let limit = self.bounds.unknown_connections();
                held.reserve = Some(permit(&self.reserve).ok_or(Crowd::Unknown { limit })?);
                held.room = None;
            }
        }
        let network = network(peer);
        if let Some(network) = network {
            self.count(network, is_known)?;
        }
        self.metrics.bounds.opened(held.kind());
        Ok(Seat { places: Arc::clone(self), network, held: Mutex::new(held) })
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Count>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, network: IpAddr, is_known: bool) -> Result<(), Crowd> {
        let mut addresses = self.addresses();
        let count = addresses.get(&network).copied().unwrap_or_default();
        if count.all >= self.bounds.per_address {
            return Err(Crowd::Address { limit: self.bounds.per_address });
        }
        if !is_known && count.unknown >= self.bounds.unknown_per_address {
            return Err(Crowd::UnknownOfAddress { limit: self.bounds.unknown_per_address });
        }
        let count = Count { all: count.all + 1, unknown: count.unknown + usize::from(!is_known) };
        addresses.insert(network, count);
        Ok(())
    }

    fn known_now(&self, network: IpAddr) {
        if let Some(count) = self.addresses().get_mut(&network) {
            count.unknown = count.unknown.saturating_sub(1);
        }
    }

    fn left(&self, network: IpAddr, was_known: bool) {
        let mut addresses = self.addresses();
        let Some(count) = addresses.get_mut(&network) else { return };
        count.all = count.all.saturating_sub(1);
        count.unknown = count.unknown.saturating_sub(usize::from(!was_known));
        if count.all == 0 {
            addresses.remove(&network);
        }
    }

    /// Resolves when every connection has ended.
    pub(super) async fn all_left(&self) -> bool {
        self.room.acquire_many(self.most).await.is_ok() && self.reserve.acquire_many(RESERVE).await.is_ok()
    }
}

impl Seat {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its caller has shown who it is: it takes no place of unknown callers.
    pub(crate) fn caller_is_known(&self) {
        let mut held = self.held();
        if held.is_known {
            return;
        }
        self.places.metrics.bounds.closed(held.kind());
        held.is_known = true;
        held.unknown = None;
        if held.room.is_none() {
            held.room = permit(&self.places.room);
            if held.room.is_some() {
                held.reserve = None;
            }
        }
        self.places.metrics.bounds.opened(held.kind());
        drop(held);
        if let Some(network) = self.network {
            self.places.known_now(network);
        }
    }

    /// Whether the connection is beyond the bound.
    pub(super) fn is_reserve(&self) -> bool {
        self.held().room.is_none()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let held = self.held();
        let was_known = held.is_known;
        self.places.metrics.bounds.closed(held.kind());
        drop(held);
        if let Some(network) = self.network {
            self.places.left(network, was_known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(bounds: &Bounds) -> Arc<Places> {
        Places::new(bounds, Arc::new(Metrics::new().unwrap()))
    }

    async fn enter(places: &Arc<Places>, peer: &str, is_known: bool) -> Result<Seat, Crowd> {
        let entrance = places.entrance().await.unwrap();
        places.seat(entrance, peer.parse().unwrap(), is_known)
    }

    #[tokio::test]
    async fn an_address_has_its_share_and_loopback_is_not_counted() {
        let bounds = Bounds { per_address: 3, unknown_per_address: 2, ..Bounds::default() };
        let places = places(&bounds);
        let one = enter(&places, "10.0.0.1:1", false).await.unwrap();
        let two = enter(&places, "10.0.0.1:2", false).await.unwrap();
        let full = Crowd::UnknownOfAddress { limit: 2 };
        assert_eq!(enter(&places, "10.0.0.1:3", false).await.err(), Some(full));
        // One that has shown who it is makes room for the next stranger.
        one.caller_is_known();
        one.caller_is_known();
        let three = enter(&places, "10.0.0.1:3", false).await.unwrap();
        assert_eq!(enter(&places, "10.0.0.1:4", true).await.err(), Some(Crowd::Address { limit: 3 }));
        drop(one);
        let four = enter(&places, "10.0.0.1:4", true).await.unwrap();
        let other = enter(&places, "10.0.0.2:1", false).await.unwrap();
        let mut local = Vec::new();
        for port in 1..10 {
            local.push(enter(&places, &format!("127.0.0.1:{port}"), false).await.unwrap());
        }
        let first = enter(&places, "[2001:db8::1]:1", false).await.unwrap();
        let second = enter(&places, "[2001:db8::2]:1", false).await.unwrap();
        assert_eq!(enter(&places, "[2001:db8::3]:1", false).await.err(), Some(full));
        drop((local, two, three, four, other, first, second));
        assert!(places.addresses().is_empty());
    }

    #[tokio::test]
    async fn strangers_leave_places_for_those_who_are_known() {
        let places = places(&Bounds { connections: 8, ..Bounds::default() });
        let mut strangers = Vec::new();
        for _ in 0..6 {
            strangers.push(enter(&places, "127.0.0.1:1", false).await.unwrap());
        }
        assert!(strangers.iter().all(|seat| !seat.is_reserve()));
        let worker = enter(&places, "127.0.0.1:1", false).await.unwrap();
        assert!(worker.is_reserve(), "nobody knows it yet");
        worker.caller_is_known();
        assert!(!worker.is_reserve());
        let local = enter(&places, "127.0.0.1:1", true).await.unwrap();
        assert!(!local.is_reserve());
        let beyond = enter(&places, "127.0.0.1:1", true).await.unwrap();
        assert!(beyond.is_reserve());
        drop((strangers, worker, local, beyond));
        assert!(places.all_left().await);
    }

    #[tokio::test]
    async fn when_the_reserve_is_full_too_strangers_are_sent_away() {
        let places = places(&Bounds { connections: 4, ..Bounds::default() });
        let mut strangers = Vec::new();
        for _ in 0..3 + RESERVE {
            strangers.push(enter(&places, "127.0.0.1:1", false).await.unwrap());
        }
        assert_eq!(enter(&places, "127.0.0.1:1", false).await.err(), Some(Crowd::Unknown { limit: 3 }));
        assert!(!enter(&places, "127.0.0.1:1", true).await.unwrap().is_reserve());
    }
}
