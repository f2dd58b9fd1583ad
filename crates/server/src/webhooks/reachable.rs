//! Which addresses a delivery may go to.
//!
//! Guarantee: a name is checked by the addresses that it leads to at the time of the connection, so that a name that
//! changes does not lead inside. Private targets are forbidden unless the operator allowed them; a scheduler that only
//! its own machine reaches may deliver to that machine.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

use crate::config::WebhookConfig;

/// The address that a host spells out, if it is no name.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

pub(super) fn is_private_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// Whether the address is of this machine or of a network that is not the public one.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or_else(|| is_private_v6(address), is_private_v4),
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || first & 0xfe00 == 0xfc00
        || first & 0xffc0 == 0xfe80
        || first & 0xffc0 == 0xfec0
        || embedded_v4(address).is_some_and(is_private_v4)
}

/// The address that gateways between both versions of the protocol pass such a packet on to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let halves = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(halves(high, low))
        }
        _ => None,
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || (first, second, third) == (192, 0, 0)
        || (first == 198 && (18..20).contains(&second))
        || (first == 100 && (64..128).contains(&second))
}

/// A receiver that an operator allows: a network, an address or the name of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The bits that all addresses of the network begin with, and how many they are.
    Network(IpAddr, u8),
    Host(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no network such as 10.1.0.0/16, no address and no host");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        match (address.parse::<IpAddr>(), bits) {
            (Ok(address), bits) => {
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.unwrap_or(most);
                if bits > most { Err(wrong()) } else { Ok(Self::Network(address, bits)) }
            }
            (Err(_), None) if text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) => {
                if text.is_empty() { Err(wrong()) } else { Ok(Self::Host(plain(text))) }
            }
            (Err(_), _) => Err(wrong()),
        }
    }
}

impl Target {
    fn has(&self, host: &str, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Host(name), _) => *name == plain(host),
            (Self::Network(IpAddr::V4(network), bits), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(*bits);
                u32::from(*network).checked_shr(shift) == u32::from(address).checked_shr(shift)
            }
            (Self::Network(IpAddr::V6(network), bits), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(*bits);
                u128::from(*network).checked_shr(shift) == u128::from(address).checked_shr(shift)
            }
            (Self::Network(..), _) => false,
        }
    }
}

fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Where deliveries may go.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    private: bool,
    loopback: bool,
    allowed: Arc<[Target]>,
}

impl Reach {
    /// For a scheduler that listens on `listening`, or only within its process.
    pub(crate) fn new(config: &WebhookConfig, listening: Option<SocketAddr>) -> Self {
        let alone = listening.is_none_or(|address| address.ip().to_canonical().is_loopback());
        Self {
            private: config.allow_private == Some(true),
            loopback: config.allow_private.unwrap_or(alone),
            allowed: config.allow.clone().into(),
        }
    }

    /// Whether a delivery to `host` may connect to `address`.
    pub(super) fn permits(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.private
            || !is_private(address)
            || (self.loopback && address.is_loopback())
            || self.allowed.iter().any(|target| target.has(host, address))
    }

    /// Whether the host of a URL may be allowed; a name is judged again by where it leads.
    pub(super) fn permits_host(&self, host: &str) -> bool {
        match literal(host) {
            Some(address) => self.permits(host, address),
            None if is_private_name(host) => self.permits(host, IpAddr::V4(Ipv4Addr::LOCALHOST)),
            None => true,
        }
    }
}

/// Looks names up, and leaves out the addresses that are forbidden.
#[derive(Debug, Clone)]
pub(super) struct Resolver {
    pub(super) reach: Reach,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.reach.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| reach.permits(name.as_str(), address.ip())).collect();
            if allowed.is_empty() {
                let why = format!(
                    "{} leads to private addresses only, which are forbidden (see --webhook-allow)",
                    name.as_str()
                );
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            Ok(allowed.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known() {
        for private in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.5.5",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "::1",
            "::",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
            "224.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "fec0::1",
            "198.18.0.1",
            "240.0.0.1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in ["93.184.215.14", "100.128.0.1", "2606:2800:21f::1", "::ffff:8.8.8.8"] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    fn reach(allow_private: Option<bool>, allow: &[&str], listening: &str) -> Reach {
        let allow = allow.iter().map(|target| target.parse().unwrap()).collect();
        let config = WebhookConfig { allow_private, allow, ..WebhookConfig::default() };
        Reach::new(&config, Some(listening.parse().unwrap()))
    }

    #[test]
    fn loopback_is_reached_by_those_that_only_loopback_reaches() {
        let permits = |reach: &Reach, address: &str| reach.permits("host", address.parse().unwrap());
        let alone = reach(None, &[], "127.0.0.1:80");
        assert!(permits(&alone, "127.0.0.1") && permits(&alone, "::1"));
        assert!(permits(&alone, "::ffff:127.0.0.1") && permits(&alone, "8.8.8.8"));
        assert!(!permits(&alone, "10.0.0.1") && !permits(&alone, "169.254.169.254"));
        assert!(alone.permits_host("localhost") && !alone.permits_host("[fd00::1]"));
        let open = reach(None, &[], "0.0.0.0:80");
        assert!(!permits(&open, "127.0.0.1") && !open.permits_host("localhost"));
        assert!(permits(&reach(Some(true), &[], "0.0.0.0:80"), "10.0.0.1"));
        assert!(!permits(&reach(Some(false), &[], "127.0.0.1:80"), "127.0.0.1"));
    }

    #[test]
    fn networks_addresses_and_hosts_can_be_allowed() {
        let some = reach(None, &["10.1.0.0/16", "192.168.0.7", "fd00::/8", "hooks.internal"], "0.0.0.0:80");
        let permits = |host: &str, address: &str| some.permits(host, address.parse().unwrap());
        assert!(permits("a", "10.1.255.1") && !permits("a", "10.2.0.1"));
        assert!(permits("a", "192.168.0.7") && !permits("a", "192.168.0.8"));
        assert!(permits("a", "fd12::1") && !permits("a", "fe80::1"));
        assert!(permits("Hooks.Internal.", "10.9.9.9") && !permits("other.internal", "10.9.9.9"));
        assert!(reach(None, &["0.0.0.0/0"], "0.0.0.0:80").permits("a", "10.0.0.1".parse().unwrap()));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/x", "http://a", "a/8"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_name_is_judged_by_where_it_leads() {
        let name = || "localhost".parse::<Name>().unwrap();
        let look_up = async |reach: Reach| Resolver { reach }.call(name()).await;
        assert!(look_up(reach(None, &[], "127.0.0.1:80")).await.unwrap().next().is_some());
        let error = look_up(reach(None, &[], "0.0.0.0:80")).await.unwrap_err();
        assert!(error.to_string().contains("private"), "{error}");
    }
}
