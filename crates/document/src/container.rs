//! How the container of a step is made: the field `container`.

use muster_protocol::{Container, ContainerNetwork, PullPolicy};

use crate::mistake::Mistakes;
use crate::node::Node;
use crate::values;

const KEYS: [&str; 11] = [
    "network",
    "pull",
    "mounts",
    "read_only",
    "user",
    "entrypoint",
    "init",
    "shm",
    "pids",
    "ulimits",
    "credentials",
];
const NETWORKS: [(&str, ContainerNetwork); 3] = [
    ("none", ContainerNetwork::None),
    ("bridge", ContainerNetwork::Bridge),
    ("host", ContainerNetwork::Host),
];
const PULLS: [(&str, PullPolicy); 3] =
    [("missing", PullPolicy::Missing), ("always", PullPolicy::Always), ("never", PullPolicy::Never)];

/// Reads the whole field. What the words may be in detail the scheduler says.
pub(crate) fn container(node: &Node, mistakes: &mut Mistakes) -> Option<Box<Container>> {
    let mut made = Container::default();
    for entry in values::mapping(node, "container", mistakes)? {
        let (key, value) = (entry.key.as_str(), &entry.value);
        match key {
            "network" => made.network = values::word(value, key, &NETWORKS, mistakes),
            "pull" => made.pull = values::word(value, key, &PULLS, mistakes),
            "mounts" => made.mounts = words(value, key, mistakes).unwrap_or_default(),
            "read_only" => made.read_only = values::boolean(value, key, mistakes).unwrap_or(false),
            "user" => made.user = values::text(value, key, mistakes),
            "entrypoint" => made.entrypoint = words(value, key, mistakes),
            "init" => made.init = values::boolean(value, key, mistakes),
            "shm" => made.shm_mb = values::size(value, key, mistakes),
            "pids" => made.pids = values::whole(value, key, (1, u32::MAX), mistakes),
            "ulimits" => {
                for limit in values::mapping(value, key, mistakes).unwrap_or_default() {
                    if let Some(text) = values::text(&limit.value, "a value of ulimits", mistakes) {
                        made.ulimits.insert(limit.key.clone(), text);
                    }
                }
            }
            "credentials" => made.credentials = values::name(value, key, mistakes),
            other => mistakes.unknown_key(entry.at, other, "container", &KEYS),
        }
    }
    Some(Box::new(made))
}

fn words(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<Vec<String>> {
    values::list_of(node, field, mistakes, |item, mistakes| values::text(item, "an element", mistakes))
}
