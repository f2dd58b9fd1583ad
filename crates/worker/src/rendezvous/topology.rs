//! Who starts in a round, seen from one of its tasks.

use muster_protocol::GangPeer;

/// Tasks that share a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node<'a> {
    worker_id: &'a str,
    host: &'a str,
    /// How many tasks of this round it has.
    pub(super) tasks: usize,
}

impl<'a> Node<'a> {
    /// What to call it: its address, or else the name of its worker.
    pub(super) fn name(&self) -> &'a str {
        if self.host.is_empty() { self.worker_id } else { self.host }
    }
}

/// The place of one task among those that start with it.
#[derive(Debug)]
pub(super) struct Topology<'a> {
    /// By index in the gang.
    pub(super) peers: Vec<&'a GangPeer>,
    /// The place of this task among the peers. It is the index in the gang unless some of it does not start.
    pub(super) rank: usize,
    /// In the order of their first tasks.
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) node_rank: usize,
    /// The place of this task among those of its node.
    pub(super) local_rank: usize,
}

impl<'a> Topology<'a> {
    /// `None` when the task is not among the peers.
    pub(super) fn of(peers: &'a [GangPeer], index: u32) -> Option<Self> {
        let mut peers: Vec<&GangPeer> = peers.iter().collect();
        peers.sort_by_key(|peer| peer.index);
        let rank = peers.iter().position(|peer| peer.index == index)?;
        let own = peers[rank];
        let mut nodes: Vec<Node<'a>> = Vec::new();
        for peer in &peers {
            match nodes.iter_mut().find(|node| node.worker_id == peer.worker_id) {
                Some(node) => node.tasks += 1,
                None => nodes.push(Node { worker_id: &peer.worker_id, host: bare_host(peer), tasks: 1 }),
            }
        }
        let node_rank = nodes.iter().position(|node| node.worker_id == own.worker_id)?;
        let local_rank = peers[..rank].iter().filter(|peer| peer.worker_id == own.worker_id).count();
        Some(Self { peers, rank, nodes, node_rank, local_rank })
    }

    /// How many tasks the node of this task has.
    pub(super) fn local_size(&self) -> usize {
        self.nodes[self.node_rank].tasks
    }

    /// Where the round meets: at its first task.
    pub(super) fn meeting_point(&self) -> Option<MeetingPoint<'a>> {
        MeetingPoint::of(self.peers.first()?)
    }
}

/// Where the first task of a round can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeetingPoint<'a> {
    /// A name or an address, which has no brackets even if it has colons.
    pub(super) host: &'a str,
    pub(super) port: Option<u16>,
}

impl<'a> MeetingPoint<'a> {
    fn of(peer: &'a GangPeer) -> Option<Self> {
        let host = bare_host(peer);
        let port = peer.port.or_else(|| peer.address.rsplit_once(':')?.1.parse().ok());
        (!host.is_empty()).then_some(Self { host, port })
    }

    /// The host as it stands before a port.
    pub(super) fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_owned() }
    }

    /// `host:port`, when there is a port.
    pub(super) fn address(&self) -> Option<String> {
        self.port.map(|port| format!("{}:{port}", self.bracketed()))
    }
}

/// The host of a peer without brackets and port; empty when it is not known.
pub(super) fn bare_host(peer: &GangPeer) -> &str {
    let host = match peer.host.as_str() {
        "" => peer.address.rsplit_once(':').map_or("", |(host, _)| host),
        host => host,
    };
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(index: u32, worker: &str) -> GangPeer {
        let (worker_id, host) = (worker.to_owned(), format!("10.0.0.{}", worker.trim_start_matches('w')));
        GangPeer { index, worker_id, host, ..GangPeer::default() }
    }

    #[test]
    fn tasks_are_counted_by_worker_in_the_order_of_their_first() {
        let peers = [peer(0, "w2"), peer(1, "w1"), peer(2, "w2"), peer(3, "w1"), peer(4, "w1")];
        let seats: Vec<_> = (0..5)
            .map(|index| Topology::of(&peers, index).unwrap())
            .map(|seat| (seat.rank, seat.node_rank, seat.local_rank, seat.local_size()))
            .collect();
        assert_eq!(seats, [(0, 0, 0, 2), (1, 1, 0, 3), (2, 0, 1, 2), (3, 1, 1, 3), (4, 1, 2, 3)]);
        let names: Vec<_> = Topology::of(&peers, 0).unwrap().nodes.iter().map(Node::name).collect();
        assert_eq!(names, ["10.0.0.2", "10.0.0.1"]);
    }

    #[test]
    fn ranks_have_no_holes_when_some_tasks_stay_done() {
        let peers = [peer(5, "w3"), peer(1, "w1"), peer(3, "w2")];
        let rank = |index| Topology::of(&peers, index).map(|seat| seat.rank);
        assert_eq!([rank(1), rank(3), rank(5), rank(0)], [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn the_meeting_point_is_taken_from_wherever_it_is_told() {
        let point = |host: &str, port, address: &str| {
            let (host, address) = (host.to_owned(), address.to_owned());
            let peer = GangPeer { host, port, address, ..GangPeer::default() };
            MeetingPoint::of(&peer).map(|point| (point.host.to_owned(), point.address()))
        };
        let known = |host: &str, address: &str| Some((host.to_owned(), Some(address.to_owned())));
        assert_eq!(point("h0", Some(7), "h0:7"), known("h0", "h0:7"));
        assert_eq!(point("", None, "h0:9000"), known("h0", "h0:9000"));
        assert_eq!(point("[fe80::1]", Some(7), ""), known("fe80::1", "[fe80::1]:7"));
        assert_eq!(point("h0", None, ""), Some(("h0".to_owned(), None)));
        assert_eq!(point("", None, ""), None);
    }
}
