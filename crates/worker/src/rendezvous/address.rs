//! The address of this machine as its peers see it: the one by which it reaches the scheduler.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{UdpSocket, lookup_host};

const DEFAULT_PORT: u16 = 80;
const DEFAULT_SECURE_PORT: u16 = 443;

/// The local address from which packets to a URL leave, with brackets where it has colons. Nothing is sent.
pub async fn reaching(url: &str) -> Option<String> {
    let mut targets: Vec<SocketAddr> = lookup_host(authority(url)?).await.ok()?.collect();
    // Where a name has both, the addresses without colons are understood by more programs.
    targets.sort_by_key(SocketAddr::is_ipv6);
    for target in targets {
        if let Ok(address) = local_address(target).await
            && !address.is_unspecified()
        {
            return Some(written(address));
        }
    }
    None
}

/// Choosing a route for a socket that keeps no connection is all that connecting it does.
async fn local_address(target: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr =
        if target.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(target).await?;
    Ok(socket.local_addr()?.ip())
}

fn written(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// `host:port` of a URL.
fn authority(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    if after_host.contains(':') {
        return Some(authority.to_owned());
    }
    let port = if scheme == "https" { DEFAULT_SECURE_PORT } else { DEFAULT_PORT };
    Some(format!("{authority}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_host_and_a_port() {
        for (url, expected) in [
            ("http://host:8080/prefix", "host:8080"),
            ("http://host", "host:80"),
            ("https://host", "host:443"),
            ("http://me:secret@host:1", "host:1"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("http://[fe80::2]/x", "[fe80::2]:80"),
        ] {
            assert_eq!(authority(url).as_deref(), Some(expected), "{url}");
        }
        assert_eq!(authority("http://"), None);
        assert_eq!(written("fe80::1".parse().unwrap()), "[fe80::1]");
    }

    #[tokio::test]
    async fn the_way_to_this_machine_is_its_loopback() {
        assert_eq!(reaching("http://127.0.0.1:8080").await.as_deref(), Some("127.0.0.1"));
        assert_eq!(reaching("http://127.0.0.1/x").await.as_deref(), Some("127.0.0.1"));
        assert_eq!(reaching("http://").await, None);
    }
}
