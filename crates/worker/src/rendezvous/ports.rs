//! Ports that the worker keeps for the tasks of gangs.
//!
//! A kept port is bound and does not listen: nobody else on the machine can have it, and whoever connects to it
//! is refused. It is let go right before the process starts that it is for. Between that moment and the moment
//! when the process takes it anybody could; so ports are chosen outside of the range from which the system hands
//! out ports by itself. Guarantee: a port that was let go is not kept again soon, so no two rounds share one.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrStorage, bind, getsockname,
    setsockopt, socket, sockopt,
};

/// Well-known services live below, as a rule.
const LOWEST: u16 = 20_000;
/// Where the system's range begins on most machines.
const USUAL_RANGE_START: u16 = 32_768;
/// A range with fewer ports is no choice.
const FEWEST: u16 = 1_000;
/// Tries at random places before the system may choose.
const TRIES: u32 = 64;
/// How many ports that were let go are remembered.
const REMEMBERED: usize = 1_024;
const RANGE_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// One port, kept as long as its socket is open.
#[derive(Debug)]
pub(crate) struct KeptPort {
    number: u16,
    _socket: OwnedFd,
}

impl KeptPort {
    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// The ports that a worker keeps, and what the scheduler knows of them.
#[derive(Debug)]
pub(crate) struct PortPool {
    kept: Vec<KeptPort>,
    wanted: usize,
    /// Where ports are looked for; empty when the system must choose.
    range: Range<u16>,
    let_go: VecDeque<u16>,
    version: u64,
    announced: u64,
}

impl PortPool {
    /// Keeps so many ports, or as many as can be had.
    pub(crate) fn new(wanted: usize) -> Self {
        let range = choice(std::fs::read_to_string(RANGE_FILE).ok().as_deref());
        let mut pool =
            Self { kept: Vec::new(), wanted, range, let_go: VecDeque::new(), version: 1, announced: 0 };
        pool.fill();
        if pool.kept.is_empty() {
            tracing::warn!("no port could be kept free: tasks of gangs are told none");
        }
        pool
    }

    /// The numbers of all kept ports.
    pub(crate) fn numbers(&self) -> Vec<u16> {
        self.kept.iter().map(KeptPort::number).collect()
    }

    /// Which list of ports this is; it grows with every change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.announced >= self.version
    }

    /// The scheduler knows this list.
    pub(crate) fn announced(&mut self, version: u64) {
        self.announced = self.announced.max(version);
    }

    /// Lets a port go, for the process that is about to start, and keeps another instead. A port that is not
    /// here was another agent's: nothing has to be done about it.
    pub(crate) fn let_go(&mut self, port: u16) {
        let Some(index) = self.kept.iter().position(|kept| kept.number == port) else { return };
        // The new one first, or it could be the old one.
        let fresh = self.keep_one();
        self.kept.remove(index);
        self.kept.extend(fresh);
        self.version += 1;
        self.remember(port);
        self.fill();
    }

    /// A port that the scheduler need not know, kept until it is dropped.
    pub(crate) fn private(&mut self) -> Option<KeptPort> {
        let kept = self.keep_one()?;
        self.remember(kept.number);
        Some(kept)
    }

    fn remember(&mut self, port: u16) {
        self.let_go.push_back(port);
        if self.let_go.len() > REMEMBERED {
            self.let_go.pop_front();
        }
    }

    fn fill(&mut self) {
        while self.kept.len() < self.wanted {
            let Some(kept) = self.keep_one() else { return };
            self.kept.push(kept);
        }
    }

    fn keep_one(&self) -> Option<KeptPort> {
        for _ in 0..TRIES {
            let number = if self.range.is_empty() { 0 } else { rand::random_range(self.range.clone()) };
            if self.let_go.contains(&number) {
                continue;
            }
            if let Ok(kept) = keep(number) {
                return Some(kept);
            }
        }
        keep(0).ok()
    }
}

/// The ports to choose from, given the range from which the system hands out its own.
fn choice(system: Option<&str>) -> Range<u16> {
    let start = system.and_then(|text| text.split_whitespace().next()?.parse().ok());
    let start: u16 = start.unwrap_or(USUAL_RANGE_START);
    if start >= LOWEST + FEWEST { LOWEST..start } else { 0..0 }
}

/// Binds a port on all addresses, without `SO_REUSEADDR`: with it, others that have set it too could still bind.
fn keep(number: u16) -> nix::Result<KeptPort> {
    match keep_both_families(number) {
        Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL | Errno::EPERM) => keep_v4(number),
        kept_or_taken => kept_or_taken,
    }
}

fn keep_both_families(number: u16) -> nix::Result<KeptPort> {
    let socket = stream(AddressFamily::Inet6)?;
    setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    bind(socket.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, number, 0, 0)))?;
    kept(socket)
}

fn keep_v4(number: u16) -> nix::Result<KeptPort> {
    let socket = stream(AddressFamily::Inet)?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, number)))?;
    kept(socket)
}

/// The keeper and the processes of jobs must not inherit it, or it would stay bound.
fn stream(family: AddressFamily) -> nix::Result<OwnedFd> {
    socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
}

fn kept(socket: OwnedFd) -> nix::Result<KeptPort> {
    let name: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    let number = name
        .as_sockaddr_in6()
        .map(SockaddrIn6::port)
        .or_else(|| name.as_sockaddr_in().map(SockaddrIn::port))
        .ok_or(Errno::EAFNOSUPPORT)?;
    Ok(KeptPort { number, _socket: socket })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    /// The standard library binds with `SO_REUSEADDR`, as most servers do.
    fn can_listen(port: u16) -> bool {
        let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
        let here = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        everywhere.is_ok() || here.is_ok()
    }

    /// Listens on a port that was let go. Processes that other tests are starting at this moment have a copy of
    /// every socket until they become their program, so that it may take a little.
    fn listen_soon(port: u16) -> TcpListener {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
                Ok(listener) => return listener,
                Err(error) => assert!(Instant::now() < deadline, "{port} is still taken: {error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_kept_port_is_nobody_elses_until_it_is_let_go() {
        let mut pool = PortPool::new(3);
        let before = pool.numbers();
        assert_eq!(before.len(), 3);
        for port in &before {
            assert!(!can_listen(*port), "{port} is kept");
            assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err(), "nobody listens on {port}");
        }
        let others = PortPool::new(3);
        assert!(others.numbers().iter().all(|port| !before.contains(port)));

        pool.let_go(before[1]);
        let listener = listen_soon(before[1]);
        TcpStream::connect((Ipv4Addr::LOCALHOST, before[1])).unwrap();
        drop(listener);
        let after = pool.numbers();
        assert!(after.len() == 3 && !after.contains(&before[1]), "another is kept instead: {after:?}");
        assert!(!can_listen(before[0]) && !can_listen(before[2]));
    }

    #[test]
    fn a_process_that_was_started_meanwhile_does_not_hold_a_port() {
        let mut pool = PortPool::new(1);
        let port = pool.numbers()[0];
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        pool.let_go(port);
        listen_soon(port);
        assert_eq!(child.try_wait().unwrap(), None, "it runs all the time");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_private_port_is_kept_until_it_is_dropped() {
        let mut pool = PortPool::new(0);
        let kept = pool.private().unwrap();
        let port = kept.number();
        assert!(!can_listen(port) && pool.numbers().is_empty());
        drop(kept);
        listen_soon(port);
    }

    #[test]
    fn a_change_is_announced_once() {
        let mut pool = PortPool::new(2);
        assert!(!pool.is_announced());
        let first = pool.version();
        pool.let_go(pool.numbers()[0]);
        pool.announced(first);
        assert!(!pool.is_announced(), "the list has changed since");
        pool.announced(pool.version());
        assert!(pool.is_announced());
        pool.let_go(1);
        assert!(pool.is_announced(), "a port of somebody else changes nothing");
    }

    #[test]
    fn ports_are_chosen_where_the_system_does_not() {
        assert_eq!(choice(Some("32768\t60999\n")), 20_000..32_768);
        assert_eq!(choice(None), 20_000..32_768);
        assert!(choice(Some("1024\t65535\n")).is_empty());
    }
}
