//! The hostfile: a line `host slots=N` for each host, as `DeepSpeed` and MPI read it.

use std::fmt::Write as _;

use super::topology::{Topology, bare_host};

/// The text of the file; `None` when no host is known. A host that several workers share has one line.
pub(super) fn text(place: &Topology<'_>, slots_per_task: u64) -> Option<String> {
    let mut hosts: Vec<(&str, u64)> = Vec::new();
    for host in place.peers.iter().map(|peer| bare_host(peer)).filter(|host| !host.is_empty()) {
        match hosts.iter_mut().find(|(known, _)| *known == host) {
            Some((_, slots)) => *slots += slots_per_task,
            None => hosts.push((host, slots_per_task)),
        }
    }
    let line = |mut text: String, (host, slots): &(&str, u64)| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{host} slots={slots}");
        text
    };
    (!hosts.is_empty()).then(|| hosts.iter().fold(String::new(), line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_protocol::GangPeer;

    #[test]
    fn every_host_has_one_line() {
        let peer = |index, worker: &str, host: &str| GangPeer {
            index,
            worker_id: worker.to_owned(),
            host: host.to_owned(),
            ..GangPeer::default()
        };
        let peers = [peer(0, "w1", "h1"), peer(1, "w2", "h2"), peer(2, "w3", "h1"), peer(3, "w4", "")];
        let place = Topology::of(&peers, 0).unwrap();
        assert_eq!(text(&place, 4).unwrap(), "h1 slots=8\nh2 slots=4\n");
        let nowhere = [peer(0, "w1", "")];
        assert_eq!(text(&Topology::of(&nowhere, 0).unwrap(), 1), None);
    }
}
