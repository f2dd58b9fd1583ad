//! Queues for people: the tree of them with what each has, uses, borrows and lends.
//!
//! Guarantee: every queue is shown once, also where a parent is missing.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::Color;
use muster_protocol::{Queue, Quota};

use super::quantities::{cores, memory, printable, seconds_span};
use super::screen::Screen;
use super::style;
use super::table::{Column, Content, render};

const LABEL_WIDTH: usize = 12;

/// The queues from top to bottom, each with what is drawn before its name.
fn arrange(queues: &[Queue]) -> Vec<(&Queue, String)> {
    let names: BTreeSet<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let mut below: BTreeMap<&str, Vec<&Queue>> = BTreeMap::new();
    for queue in queues {
        let parent = queue.parent.as_deref().filter(|parent| names.contains(parent)).unwrap_or("");
        below.entry(parent).or_default().push(queue);
    }
    let mut shown = Vec::new();
    // What has no parent is below nothing; so is the default queue, whose name is empty.
    let roots = below.remove("").unwrap_or_default();
    let mut open: Vec<(&Queue, String, String)> =
        roots.into_iter().rev().map(|queue| (queue, String::new(), String::new())).collect();
    while let Some((queue, lines, indent)) = open.pop() {
        let children = below.remove(queue.name.as_str()).unwrap_or_default();
        let last = children.len().saturating_sub(1);
        for (place, child) in children.into_iter().enumerate().rev() {
            let (corner, line) = if place == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((child, format!("{indent}{corner}"), format!("{indent}{line}")));
        }
        shown.push((queue, lines));
    }
    shown
}

/// The table of `muster queues`.
pub(crate) fn queues(queues: &[Queue], screen: Screen) -> String {
    const COLUMNS: [Column; 10] = [
        Column::elastic("QUEUE", 8),
        Column::fixed("STATE"),
        Column::right("WAITING"),
        Column::right("RUNNING"),
        Column::right("SHARE"),
        Column::elastic("USED/OWN", 8),
        Column::elastic("BORROWED", 8),
        Column::elastic("LENT", 8),
        Column::right("MOST WAITING"),
        Column::right("RATE"),
    ];
    let rows: Vec<Vec<Content>> = arrange(queues)
        .into_iter()
        .map(|(queue, lines)| {
            let (state, colour) = state(queue);
            let plain = |text: String| (if text.is_empty() { "-".to_owned() } else { text }, None);
            vec![
                (format!("{lines}{}", printable(&queue.name)), None),
                (state.to_owned(), colour),
                (queue.queued.to_string(), None),
                plain(running(queue)),
                plain(share(queue)),
                plain(used(queue)),
                plain(amounts(&queue.borrowed)),
                plain(amounts(&queue.lent)),
                plain(queue.max_queued.map(|most| most.to_string()).unwrap_or_default()),
                plain(rate(queue)),
            ]
        })
        .collect();
    render(&COLUMNS, &rows, screen)
}

/// One queue, a line for each thing that is known of it.
pub(crate) fn queue_details(queue: &Queue, screen: Screen) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |label: &str, value: String| {
        if !value.is_empty() {
            let label = if label.is_empty() { String::new() } else { format!("{label}:") };
            lines.push(format!("{label:<LABEL_WIDTH$}{value}"));
        }
    };
    let most = |most: Option<u64>| most.map(|most| format!("at most {most}")).unwrap_or_default();
    let all = |quota: Option<&Quota>| quota.map(amounts).unwrap_or_default();
    let (state, colour) = state(queue);
    add("queue", printable(&queue.name));
    add("state", style::paint(state, colour, screen.colour));
    add("below", queue.parent.as_deref().map(printable).unwrap_or_default());
    add("weight", queue.weight.map(|weight| weight.to_string()).unwrap_or_default());
    add("share", share(queue));
    add("own", all(queue.nominal.as_ref()));
    add("used", amounts(&queue.used));
    add(
        "used below",
        if queue.used_below == queue.used { String::new() } else { amounts(&queue.used_below) },
    );
    add("borrowed", amounts(&queue.borrowed));
    add("may borrow", all(queue.borrow.as_ref()));
    add("lent", amounts(&queue.lent));
    add("may lend", all(queue.lend.as_ref()));
    add("waiting", queue.queued.to_string());
    add("", most(queue.max_queued));
    add("", queue.max_queued_per_user.map(|most| format!("at most {most} of a user")).unwrap_or_default());
    add("running", running(queue));
    add("", most(queue.max_running.map(u64::from)));
    add("", queue.max_running_per_user.map(|most| format!("at most {most} of a user")).unwrap_or_default());
    add("rate", rate(queue));
    add("submit", printable(&queue.submitters.join(", ")));
    add("admins", printable(&queue.admins.join(", ")));
    add("viewers", printable(&queue.viewers.join(", ")));
    lines.join("\n")
}

fn state(queue: &Queue) -> (&'static str, Option<Color>) {
    if queue.paused { ("paused", Some(Color::DarkYellow)) } else { ("open", None) }
}

fn running(queue: &Queue) -> String {
    match queue.running_below.filter(|below| *below != queue.running) {
        Some(below) => format!("{} ({below} with those below)", queue.running),
        None => queue.running.to_string(),
    }
}

fn share(queue: &Queue) -> String {
    queue.share.map(|share| format!("{:.1}%", share * 100.0)).unwrap_or_default()
}

fn rate(queue: &Queue) -> String {
    queue.rate.map(|rate| format!("{}/{}", rate.starts, seconds_span(rate.seconds))).unwrap_or_default()
}

/// What is used beside what is its own: `gpus 3/8, memory 2G/16G`.
fn used(queue: &Queue) -> String {
    let own = queue.nominal.clone().unwrap_or_default();
    let has: BTreeMap<String, String> = parts(&own).into_iter().collect();
    let mut uses: BTreeMap<String, String> = parts(&queue.used).into_iter().collect();
    for kind in has.keys() {
        uses.entry(kind.clone()).or_insert_with(|| "0".to_owned());
    }
    let beside = |(kind, used): (String, String)| match has.get(&kind) {
        Some(own) => format!("{kind} {used}/{own}"),
        None => format!("{kind} {used}"),
    };
    uses.into_iter().map(beside).collect::<Vec<_>>().join(", ")
}

fn amounts(quota: &Quota) -> String {
    parts(quota).into_iter().map(|(kind, amount)| format!("{kind} {amount}")).collect::<Vec<_>>().join(", ")
}

fn parts(quota: &Quota) -> Vec<(String, String)> {
    let fixed = [
        ("gpus", quota.gpus.map(|gpus| gpus.to_string())),
        ("cpus", quota.cpus.map(cores)),
        ("memory", quota.memory_mb.map(memory)),
        ("vram", quota.vram_mb.map(memory)),
    ];
    let fixed = fixed.into_iter().filter_map(|(kind, amount)| Some((kind.to_owned(), amount?)));
    let named = quota.counters.iter().map(|(name, amount)| (printable(name), amount.to_string()));
    fixed.chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, parent: Option<&str>) -> Queue {
        let own = Quota { gpus: Some(4), ..Quota::default() };
        Queue {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            nominal: Some(own),
            used: Quota { gpus: Some(6), cpus: Some(1.5), ..Quota::default() },
            borrowed: Quota { gpus: Some(2), ..Quota::default() },
            share: Some(0.25),
            ..Queue::default()
        }
    }

    #[test]
    fn queues_are_drawn_below_their_parents() {
        let all =
            [queue("b", Some("lab")), queue("a", Some("lab")), queue("lab", None), queue("x", Some("gone"))];
        let shown: Vec<String> =
            arrange(&all).into_iter().map(|(queue, lines)| format!("{lines}{}", queue.name)).collect();
        assert_eq!(shown, ["lab", "├─ b", "└─ a", "x"]);
    }

    #[test]
    fn what_is_used_stands_beside_what_is_its_own() {
        assert_eq!(used(&queue("a", None)), "cpus 1.5, gpus 6/4");
        let details = queue_details(
            &queue("a", Some("lab")),
            Screen { json: false, colour: false, width: None, zone: crate::zone::Zone::UTC },
        );
        for line in ["below:      lab", "share:      25.0%", "own:        gpus 4", "borrowed:   gpus 2"] {
            assert!(details.contains(line), "{details}");
        }
    }
}
