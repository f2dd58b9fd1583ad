//! The cluster as a whole, for people.

use muster_protocol::{IdleRoom, InLine, KeptFor, Overview, Pool, Resources, WaitingCause};

use super::human::{id, item};
use super::quantities::{cores, memory, printable};
use super::screen::Screen;
use super::table::{Column, Content, render};

/// What `muster explain` prints.
pub(crate) fn overview(found: &Overview, screen: Screen) -> String {
    let mut parts = vec![summary(found, screen)];
    let mut add = |title: &str, text: String| {
        if !text.is_empty() {
            parts.push(format!("{title}\n{text}"));
        }
    };
    add("what waits, by why", waiting(found, screen));
    add("first in line", line(&found.line, screen));
    add("kept room", kept(&found.kept, screen));
    add("free room, by why nobody uses it", idle(&found.idle, screen));
    add("workers by size", pools(found, screen));
    parts.join("\n\n")
}

fn summary(found: &Overview, screen: Screen) -> String {
    let count = |of: fn(&WaitingCause) -> u64| found.waiting.iter().map(of).sum::<u64>();
    let (jobs, gangs) = (count(|cause| cause.jobs) + found.not_looked_at, count(|cause| cause.gangs));
    let nothing = |text: String| if text.is_empty() { "nothing".to_owned() } else { text };
    let mut lines =
        vec![format!("{jobs} {} and {gangs} {} wait", plural(jobs, "job"), plural(gangs, "gang"))];
    let (free, total) = (nothing(amounts(&found.free)), nothing(amounts(&found.total)));
    lines.push(item(&format!("free: {free} of {total}"), screen));
    let stranded = amounts(&found.stranded);
    if !stranded.is_empty() {
        lines.push(item(&format!("of no use to anybody who waits: {stranded}"), screen));
    }
    lines.join("\n")
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

/// `gpus 3, cpus 8, memory 16G`; nothing for nothing.
fn amounts(resources: &Resources) -> String {
    let fixed = [
        ("gpus", (resources.gpus > 0).then(|| resources.gpus.to_string())),
        ("cpus", (resources.cpus > 0.0).then(|| cores(resources.cpus))),
        ("memory", (resources.memory_mb > 0).then(|| memory(resources.memory_mb))),
        ("vram", (resources.vram_mb > 0).then(|| memory(resources.vram_mb))),
    ];
    let fixed = fixed.into_iter().filter_map(|(kind, amount)| Some(format!("{kind} {}", amount?)));
    let named = resources.counters.iter().filter(|(_, amount)| **amount > 0);
    let named = named.map(|(name, amount)| format!("{} {amount}", printable(name)));
    fixed.chain(named).collect::<Vec<_>>().join(", ")
}

fn waiting(found: &Overview, screen: Screen) -> String {
    let mut lines: Vec<String> =
        found.waiting.iter().map(|cause| item(&screen.zone.in_text(&cause_line(cause)), screen)).collect();
    if found.not_looked_at > 0 {
        lines.push(item(&format!("{} more of other kinds", found.not_looked_at), screen));
    }
    lines.join("\n")
}

fn cause_line(cause: &WaitingCause) -> String {
    let mut counts = Vec::new();
    if cause.jobs > 0 {
        counts.push(format!("{} {}", cause.jobs, plural(cause.jobs, "job")));
    }
    if cause.gangs > 0 {
        counts.push(format!("{} {}", cause.gangs, plural(cause.gangs, "gang")));
    }
    let such_as = match (&cause.example, &cause.reason) {
        (Some(example), Some(reason)) => {
            format!(", such as {}: {}", printable(example), printable(&reason.message))
        }
        _ => String::new(),
    };
    format!("{}: {}{such_as}", printable(&cause.code), counts.join(", "))
}

fn line(line: &[InLine], screen: Screen) -> String {
    const COLUMNS: [Column; 6] = [
        Column::fixed("ID"),
        Column::right("PRIO"),
        Column::elastic("QUEUE", 5),
        Column::elastic("NEEDS", 8),
        Column::fixed("START"),
        Column::elastic("WHY", 8),
    ];
    if line.is_empty() {
        return String::new();
    }
    let row = |one: &InLine| -> Vec<Content> {
        let tasks = if one.tasks > 1 { format!("{} x ", one.tasks) } else { String::new() };
        let needs = amounts(&one.needs);
        let start =
            one.start.as_ref().map_or_else(|| "-".to_owned(), |start| screen.zone.bare_minute(start.at));
        let codes: Vec<String> = one.reasons.iter().map(|reason| printable(&reason.code)).collect();
        let texts = [
            id(&one.id, screen),
            one.priority.to_string(),
            one.queue.as_deref().map_or_else(|| "-".to_owned(), printable),
            format!("{tasks}{}", if needs.is_empty() { "1 slot" } else { &needs }),
            start,
            codes.join(", "),
        ];
        texts.into_iter().map(|text| (text, None)).collect()
    };
    render(&COLUMNS, &line.iter().map(row).collect::<Vec<_>>(), screen)
}

fn kept(kept: &[KeptFor], screen: Screen) -> String {
    let line = |one: &KeptFor| {
        let until = match one.until {
            Some(at) => format!("starts about {}", screen.zone.minute(at)),
            None => "until those who are there have ended".to_owned(),
        };
        let workers = plural(one.workers.into(), "worker");
        let what = amounts(&one.resources);
        let of = if what.is_empty() { String::new() } else { format!(" ({what})") };
        item(&format!("{} on {} {workers}{of}, {until}", printable(&one.id), one.workers), screen)
    };
    kept.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn idle(idle: &[IdleRoom], screen: Screen) -> String {
    let line = |one: &IdleRoom| {
        let workers = plural(one.workers.into(), "worker");
        item(
            &format!("{}: {} on {} {workers}", printable(&one.message), amounts(&one.free), one.workers),
            screen,
        )
    };
    idle.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn pools(found: &Overview, screen: Screen) -> String {
    const COLUMNS: [Column; 5] = [
        Column::right("WORKERS"),
        Column::elastic("EACH", 10),
        Column::elastic("FREE", 8),
        Column::elastic("STRANDED", 8),
        Column::elastic("FREE BY WORKER", 8),
    ];
    if found.pools.is_empty() {
        return String::new();
    }
    let row = |pool: &Pool| -> Vec<Content> {
        let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let workers = if pool.active == pool.workers {
            pool.workers.to_string()
        } else {
            format!("{}/{}", pool.active, pool.workers)
        };
        let by_free: Vec<String> =
            pool.by_free.iter().map(|one| format!("{} on {}", one.free, one.workers)).collect();
        let texts = [
            workers,
            dash(amounts(&pool.has)),
            dash(amounts(&pool.free)),
            dash(amounts(&pool.stranded)),
            dash(by_free.join(", ")),
        ];
        texts.into_iter().map(|text| (text, None)).collect()
    };
    let text = render(&COLUMNS, &found.pools.iter().map(row).collect::<Vec<_>>(), screen);
    match found.more_pools {
        0 => text,
        more => format!("{text}\n{more} more sizes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_fits_eighty_columns() {
        let found: Overview = serde_json::from_str(
            r#"{"total":{"gpus":24,"cpus":96},"free":{"gpus":6,"cpus":40},"stranded":{"gpus":2,"cpus":16},
            "waiting":[{"code":"resources","jobs":1200,"gangs":0,"example":"job-3f0c1a2b",
                        "reason":{"code":"resources","message":"every worker that could run it is busy; the closest is w1: needs 8 gpus, has 4"}},
                       {"code":"held","jobs":1}],
            "line":[{"id":"gang-3f0c1a2b-0000-4000-8000-000000000000","priority":5,"tasks":4,"queue":"research",
                     "needs":{"gpus":8},"reasons":[{"code":"gang_room","message":"x"},{"code":"foreseen","message":"y"}],
                     "start":{"at":"2026-05-05T14:20:00Z","kept":true}}],
            "kept":[{"id":"gang-3f0c1a2b","workers":2,"resources":{"gpus":16},"until":"2026-05-05T14:20:00Z"}],
            "idle":[{"code":"does_not_fit","message":"fits nothing that waits","workers":2,"free":{"gpus":2,"cpus":16}}],
            "pools":[{"has":{"gpus":8,"cpus":32},"workers":3,"active":2,"free":{"gpus":6},"stranded":{"gpus":2},
                      "by_free":[{"free":4,"workers":1},{"free":1,"workers":2}]}]}"#,
        )
        .unwrap();
        let text = overview(
            &found,
            Screen { json: false, colour: false, width: Some(80), zone: crate::zone::Zone::UTC },
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let expected = "\
1201 jobs and 0 gangs wait
  - free: gpus 6, cpus 40 of gpus 24, cpus 96
  - of no use to anybody who waits: gpus 2, cpus 16

what waits, by why
  - resources: 1200 jobs, such as job-3f0c1a2b: every worker that could run it
    is busy; the closest is w1: needs 8 gpus, has 4
  - held: 1 job

first in line
ID             PRIO  QUEUE     NEEDS       START             WHY
gang-3f0c1a2b     5  research  4 x gpus 8  2026-05-05 14:20  gang_room, foreseen

kept room
  - gang-3f0c1a2b on 2 workers (gpus 16), starts about 2026-05-05 14:20 UTC

free room, by why nobody uses it
  - fits nothing that waits: gpus 2, cpus 16 on 2 workers

workers by size
WORKERS  EACH             FREE    STRANDED  FREE BY WORKER
    2/3  gpus 8, cpus 32  gpus 6  gpus 2    4 on 1, 1 on 2";
        assert_eq!(text, expected);
    }
}
