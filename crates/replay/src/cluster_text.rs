//! Clusters as they are written: `80x8gpu` on a command line, or a file with nodes.

use std::collections::BTreeMap;

use muster_document::amounts;
use muster_domain::Resources;
use muster_planner::board::QueueTerms;
use serde::Deserialize;
use thiserror::Error;

use crate::settings::{Cluster, NodeGroup};
use crate::written::{Written, cpu_millis};

/// A description that is no cluster.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    #[error(
        "{text:?} describes no cluster: {what}; write for example 80x8gpu, 100cpu or 10x(8gpu,64cpu,512g,rack=a)"
    )]
    Text { text: String, what: String },
    #[error("the description of the cluster is wrong: {0}")]
    File(String),
}

const MOST_NODES: u32 = 1_000_000;
const MOST_OF_A_NODE: u64 = 1_000_000_000;

/// Reads groups of nodes that are joined by `+`.
pub fn parse_cluster(text: &str) -> Result<Cluster, ClusterError> {
    let wrong = |what: String| ClusterError::Text { text: text.chars().take(200).collect(), what };
    let nodes: Result<Vec<NodeGroup>, String> = text.split('+').map(|part| group(part.trim())).collect();
    Ok(Cluster { nodes: nodes.map_err(wrong)?, ..Cluster::default() })
}

fn group(text: &str) -> Result<NodeGroup, String> {
    let (count, rest) = match text.split_once('x') {
        Some((count, rest)) if !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()) => {
            (count.parse().unwrap_or(0), rest)
        }
        Some(_) | None => (1, text),
    };
    if !(1..=MOST_NODES).contains(&count) {
        return Err(format!("the number of nodes must be from 1 to {MOST_NODES}"));
    }
    let inside = match rest.strip_prefix('(') {
        Some(inside) => inside.strip_suffix(')').ok_or("a parenthesis is not closed")?,
        None => rest,
    };
    let mut group = NodeGroup { count, ..NodeGroup::default() };
    for part in inside.split(',') {
        add(&mut group, part.trim())?;
    }
    if group.each.is_zero() {
        return Err("a node must have something".into());
    }
    Ok(group)
}

/// One word: an amount with what it is an amount of, or a label.
fn add(group: &mut NodeGroup, word: &str) -> Result<(), String> {
    if let Some((name, value)) = word.split_once('=') {
        if name.is_empty() || value.is_empty() {
            return Err(format!("{word:?} is no label"));
        }
        group.labels.insert(name.to_owned(), value.to_owned());
        return Ok(());
    }
    let lower = word.to_ascii_lowercase();
    let unit = lower.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let amount = &lower[..lower.len() - unit.len()];
    let number = || amount.parse::<f64>().ok().filter(|number| *number <= MOST_OF_A_NODE as f64);
    let whole = || amount.parse::<u64>().ok().filter(|number| *number <= MOST_OF_A_NODE);
    let wrong =
        || format!("{word:?} is neither an amount such as 8gpu, 64cpu or 512g nor a label such as rack=a");
    match unit {
        "gpu" | "gpus" => group.each.gpus = whole().ok_or_else(wrong)?,
        "cpu" | "cpus" => group.each.cpu_millis = (number().ok_or_else(wrong)? * 1e3).round() as u64,
        _ if unit.is_empty() || amount.is_empty() => return Err(wrong()),
        _ => group.each.memory_mb = amounts::memory_mb(&lower).ok_or_else(wrong)?,
    }
    Ok(())
}

/// The file, exactly as it can be written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    nodes: Vec<NodesWritten>,
    #[serde(default)]
    queues: Vec<QueueWritten>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueWritten {
    name: String,
    #[serde(default = "one")]
    weight: u32,
    nominal: Option<AmountsWritten>,
    borrow: Option<AmountsWritten>,
}

/// What is not named is not bounded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct AmountsWritten {
    cpus: Option<f64>,
    memory: Option<Written>,
    gpus: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesWritten {
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    cpus: f64,
    #[serde(default)]
    memory: Option<Written>,
    #[serde(default)]
    gpus: u64,
    #[serde(default)]
    counters: BTreeMap<String, u64>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

/// Reads a file of nodes, which is TOML.
pub fn parse_cluster_file(text: &str) -> Result<Cluster, ClusterError> {
    let file: ClusterFile = toml::from_str(text).map_err(|error| ClusterError::File(error.to_string()))?;
    let nodes: Result<Vec<NodeGroup>, String> = file.nodes.into_iter().map(nodes).collect();
    let mut queues = BTreeMap::new();
    for written in file.queues {
        let name = written.name.clone();
        let terms = terms(&written).map_err(|what| ClusterError::File(format!("queue {name:?}: {what}")))?;
        if queues.insert(name.clone(), terms).is_some() {
            return Err(ClusterError::File(format!("queue {name:?} stands there twice")));
        }
    }
    Ok(Cluster { nodes: nodes.map_err(ClusterError::File)?, queues })
}

fn terms(written: &QueueWritten) -> Result<QueueTerms, String> {
    if written.weight == 0 {
        return Err("weight is 0; write a whole number from 1 on".into());
    }
    if written.borrow.is_some() && written.nominal.is_none() {
        return Err("borrow bounds what is taken beyond nominal, and nominal is not given".into());
    }
    Ok(QueueTerms {
        weight: written.weight,
        nominal: written.nominal.as_ref().map(quota).transpose()?,
        borrow: written.borrow.as_ref().map(quota).transpose()?,
        paused: false,
    })
}

fn quota(written: &AmountsWritten) -> Result<Resources, String> {
    let unbounded = u64::MAX;
    let memory = written.memory.as_ref().map(|memory| memory.memory_mb("memory")).transpose()?;
    let cpus = written.cpus.map(|cpus| cpu_millis(cpus, "cpus")).transpose()?;
    Ok(Resources {
        cpu_millis: cpus.unwrap_or(unbounded),
        memory_mb: memory.unwrap_or(unbounded),
        gpus: written.gpus.unwrap_or(unbounded),
        vram_mb: unbounded,
        ..Resources::default()
    })
}

fn nodes(written: NodesWritten) -> Result<NodeGroup, String> {
    if !(1..=MOST_NODES).contains(&written.count) {
        return Err(format!("count is {}; write a number of nodes from 1 to {MOST_NODES}", written.count));
    }
    let memory_mb = written.memory.as_ref().map_or(Ok(0), |memory| memory.memory_mb("memory"))?;
    let each = Resources {
        cpu_millis: cpu_millis(written.cpus, "cpus")?,
        memory_mb,
        gpus: written.gpus.min(MOST_OF_A_NODE),
        counters: written.counters,
        ..Resources::default()
    };
    if each.is_zero() {
        return Err("a node has nothing; give it cpus, memory, gpus or counters".into());
    }
    Ok(NodeGroup { count: written.count, each, labels: written.labels })
}

/// The cluster in one line, as [`parse_cluster`] reads it.
pub fn cluster_text(cluster: &Cluster) -> String {
    let groups: Vec<String> = cluster.nodes.iter().map(group_text).collect();
    groups.join("+")
}

fn group_text(group: &NodeGroup) -> String {
    let mut parts = Vec::new();
    let each = &group.each;
    if each.gpus > 0 {
        parts.push(format!("{}gpu", each.gpus));
    }
    if each.cpu_millis > 0 {
        parts.push(format!("{}cpu", each.cpu_millis as f64 / 1e3));
    }
    match each.memory_mb {
        0 => {}
        memory if memory % 1024 == 0 => parts.push(format!("{}g", memory / 1024)),
        memory => parts.push(format!("{memory}m")),
    }
    parts.extend(each.counters.iter().map(|(name, amount)| format!("{amount}{name}")));
    parts.extend(group.labels.iter().map(|(name, value)| format!("{name}={value}")));
    let inside = parts.join(",");
    let count = if group.count == 1 { String::new() } else { format!("{}x", group.count) };
    if parts.len() == 1 { format!("{count}{inside}") } else { format!("{count}({inside})") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_forms_are_read_and_written() {
        let cluster = parse_cluster("10x(8gpu,64cpu,512g,rack=a)+100cpu").unwrap();
        assert_eq!(cluster.nodes.len(), 2);
        let first = &cluster.nodes[0];
        assert_eq!((first.count, first.each.gpus, first.each.cpu_millis), (10, 8, 64_000));
        assert_eq!((first.each.memory_mb, first.labels["rack"].as_str()), (524_288, "a"));
        assert_eq!((cluster.nodes[1].count, cluster.nodes[1].each.cpu_millis), (1, 100_000));
        for text in ["80x8gpu", "100cpu", "10x(8gpu,64cpu,512g,rack=a)", "2x0.5cpu+(1gpu,100m)"] {
            assert_eq!(cluster_text(&parse_cluster(text).unwrap()), text);
        }
    }

    #[test]
    fn what_is_no_cluster_is_refused_with_the_part_at_fault() {
        for (text, part) in [
            ("", "\"\""),
            ("0x8gpu", "number of nodes"),
            ("8", "\"8\""),
            ("8potatoes", "8potatoes"),
            ("2x(8gpu", "not closed"),
            ("4x0gpu", "must have something"),
            ("8gpu,=a", "no label"),
            ("99999999999x1gpu", "number of nodes"),
        ] {
            let message = parse_cluster(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("80x8gpu"), "{text}: {message}");
        }
    }

    #[test]
    fn files_have_groups_of_nodes() {
        let text = "[[nodes]]\ncount = 4\ngpus = 8\nmemory = \"64G\"\nlabels = { rack = \"b\" }\n[[nodes]]\ncpus = 0.5\ncounters = { licence = 2 }\n";
        let cluster = parse_cluster_file(text).unwrap();
        assert_eq!((cluster.nodes[0].count, cluster.nodes[0].each.memory_mb), (4, 65_536));
        assert_eq!((cluster.nodes[1].each.cpu_millis, cluster.nodes[1].each.counter("licence")), (500, 2));
        assert!(
            parse_cluster_file("[[nodes]]\ncount = 0\ngpus = 1")
                .unwrap_err()
                .to_string()
                .contains("count is 0")
        );
        assert!(parse_cluster_file("[[nodes]]\nwheels = 4").unwrap_err().to_string().contains("wheels"));
    }

    #[test]
    fn queues_own_what_is_named_and_nothing_bounds_the_rest() {
        let nodes = "[[nodes]]\ngpus = 8\n";
        let text = format!(
            "{nodes}[[queues]]\nname = \"lab\"\nweight = 2\nnominal = {{ gpus = 4 }}\n[[queues]]\nname = \"rest\"\n"
        );
        let queues = parse_cluster_file(&text).unwrap().queues;
        let own = queues["lab"].nominal.clone().unwrap();
        assert_eq!((queues["lab"].weight, own.gpus, own.cpu_millis), (2, 4, u64::MAX));
        assert_eq!(queues["rest"], QueueTerms::default());
        for (wrong, part) in [
            ("name = \"a\"\nweight = 0", "weight is 0"),
            ("name = \"a\"\nborrow = { gpus = 1 }", "nominal is not given"),
            ("name = \"a\"\nparent = \"b\"", "parent"),
            ("name = \"a\"\n[[queues]]\nname = \"a\"", "twice"),
        ] {
            let message =
                parse_cluster_file(&format!("{nodes}[[queues]]\n{wrong}\n")).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC{0,40}", shaped in "[0-9x(),.a-z=+]{0,30}") {
            let _ = parse_cluster(&text);
            if let Ok(cluster) = parse_cluster(&shaped) {
                prop_assert!(!cluster.nodes.is_empty());
            }
            let _ = parse_cluster_file(&text);
        }
    }
}
