//! Whose socket is at the other end of a connection within this machine. The kernel is asked by a netlink message
//! (`sock_diag(7)`) for exactly one socket, which is a lookup in its table of connections.
//!
//! Guarantees: it does not wait, as the kernel answers within the call that asks; a socket that its process has closed has
//! no owner, although the kernel shows it as root's.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// `SOCK_DIAG_BY_FAMILY`, the type of question and answer.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct inet_diag_req_v2`.
const QUESTION: usize = 56;
/// `struct inet_diag_msg`; the answer goes on with attributes that are not read.
const ANSWER: usize = 72;
/// Numbers of the families and of the protocol as the kernel has them.
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;

/// The user who owns the socket that is bound to `end` and connected to `other`; `None` where there is no such socket or
/// no process has it open any more.
pub(crate) fn owner(end: SocketAddr, other: SocketAddr) -> io::Result<Option<u32>> {
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::NetlinkSockDiag,
    )?;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(netlink.as_raw_fd(), &question(end, other), &kernel, MsgFlags::MSG_DONTWAIT)?;
    let mut answer = [0_u8; 1024];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    Ok(answer.get(..length).and_then(|answer| read(answer, end, other)))
}

fn question(end: SocketAddr, other: SocketAddr) -> [u8; HEADER + QUESTION] {
    let (family, end_bytes) = address(end.ip());
    let (_, other_bytes) = address(other.ip());
    let mut message = [0_u8; HEADER + QUESTION];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = message.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    put(&((HEADER + QUESTION) as u32).to_ne_bytes());
    put(&BY_FAMILY.to_ne_bytes());
    put(&REQUEST.to_ne_bytes());
    put(&[0; 8]);
    put(&[family, TCP, 0, 0]);
    // In any state.
    put(&u32::MAX.to_ne_bytes());
    put(&end.port().to_be_bytes());
    put(&other.port().to_be_bytes());
    put(&end_bytes);
    put(&other_bytes);
    // On any interface, and whichever cookie it has.
    put(&0_u32.to_ne_bytes());
    put(&[0xff; 8]);
    message
}

/// The family and the bytes of an address; IPv4 within IPv6 is IPv4, as the kernel keeps it.
fn address(ip: IpAddr) -> (u8, [u8; 16]) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            (INET, bytes)
        }
        IpAddr::V6(ip) => (INET6, ip.octets()),
    }
}

fn read(answer: &[u8], end: SocketAddr, other: SocketAddr) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let socket = answer.get(HEADER..HEADER + ANSWER).filter(|_| kind == BY_FAMILY)?;
    let port = |at: usize| Some(u16::from_be_bytes(socket.get(at..at + 2)?.try_into().ok()?));
    let number = |at: usize| Some(u32::from_ne_bytes(socket.get(at..at + 4)?.try_into().ok()?));
    // Where no connection matches, the kernel shows a socket that listens on the port, which may be anybody's.
    if port(4)? != end.port() || port(6)? != other.port() {
        return None;
    }
    let (uid, inode) = (number(64)?, number(68)?);
    // Without an inode the process has closed it, and the user is shown as 0.
    (inode != 0).then_some(uid)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a connection: the client's, and the server's view of it.
    fn connected(listen: &str, connect: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((listen, 0)).unwrap();
        let client = TcpStream::connect((connect, listener.local_addr().unwrap().port())).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn seen(server: &TcpStream) -> Option<u32> {
        owner(server.peer_addr().unwrap(), server.local_addr().unwrap()).unwrap()
    }

    #[test]
    fn the_owner_is_found_in_every_family() {
        let me = nix::unistd::geteuid().as_raw();
        for (listen, connect) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            // The server sees ::ffff:127.0.0.1.
            ("::", "127.0.0.1"),
            ("::", "::ffff:127.0.0.1"),
        ] {
            let (client, server) = connected(listen, connect);
            assert_eq!(seen(&server), Some(me), "{connect} to {listen}");
            // Half closed is open still: some clients send all they have and then wait.
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(seen(&server), Some(me), "{connect} to {listen}, half closed");
        }
    }

    #[test]
    fn a_closed_socket_is_nobodys_although_the_kernel_says_root() {
        let (client, server) = connected("127.0.0.1", "127.0.0.1");
        let (end, other) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
        drop(client);
        assert_eq!(owner(end, other).unwrap(), None);
        drop(server);
        assert_eq!(owner(end, other).unwrap(), None);
    }

    #[test]
    fn a_socket_that_listens_on_the_port_does_not_stand_in() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(owner(listener.local_addr().unwrap(), other).unwrap(), None);
    }

    #[test]
    fn an_answer_that_is_too_short_tells_nothing() {
        let end = SocketAddr::from(([127, 0, 0, 1], 1));
        for length in 0..HEADER + ANSWER {
            assert_eq!(read(&vec![BY_FAMILY as u8; length], end, end), None);
        }
    }
}
