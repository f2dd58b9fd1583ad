//! Users, credentials and the audit log for people.

use std::fmt::Write as _;

use comfy_table::Color;
use jiff::Timestamp;
use muster_protocol::{AuditEntry, Credential, User};

use super::quantities::{age, printable};
use super::screen::Screen;
use super::table::{Column, Content, render};

fn ago(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "-".to_owned(), |at| age(at, now))
}

fn list(names: Option<&Vec<String>>) -> String {
    names.map_or_else(|| "all".to_owned(), |names| printable(&names.join(",")))
}

/// The table of `muster user ls`.
pub(crate) fn users(all: &[User], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 5] = [
        Column::elastic("NAME", 8),
        Column::fixed("ROLE"),
        Column::fixed("LOGIN"),
        Column::right("AGE"),
        Column::elastic("QUEUES", 8),
    ];
    let row = |user: &User| -> Vec<Content> {
        let login = match (user.disabled, user.has_password, user.oidc_subject.is_some()) {
            (true, _, _) => ("disabled".to_owned(), Some(Color::DarkRed)),
            (false, true, true) => ("password, oidc".to_owned(), None),
            (false, true, false) => ("password".to_owned(), None),
            (false, false, true) => ("oidc".to_owned(), None),
            (false, false, false) => ("tokens".to_owned(), None),
        };
        vec![
            (printable(&user.name), None),
            (user.role.clone(), None),
            login,
            (age(user.created_at, now), None),
            (list(user.queues.as_ref()), None),
        ]
    };
    render(&COLUMNS, &all.iter().map(row).collect::<Vec<_>>(), screen)
}

/// The table of `muster token ls` and `muster join-token ls`.
pub(crate) fn credentials(all: &[Credential], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 7] = [
        Column::elastic("ID", 13),
        Column::fixed("KIND"),
        Column::elastic("NAME", 6),
        Column::elastic("OF", 6),
        Column::elastic("MAY", 6),
        Column::right("USED"),
        Column::right("ENDS"),
    ];
    let row = |one: &Credential| -> Vec<Content> {
        let of = one.user.as_ref().or(one.worker.as_ref());
        let over = one.expires_at.is_some_and(|at| at <= now) || one.uses == Some(0);
        let ends = match one.expires_at {
            Some(at) if at > now => format!("in {}", age(now, at)),
            Some(_) => "over".to_owned(),
            None => "-".to_owned(),
        };
        vec![
            (printable(&one.id), None),
            (one.kind.clone(), None),
            (printable(&one.name), None),
            (of.map_or_else(|| "-".to_owned(), |of| printable(of)), None),
            (rights(one), None),
            (ago(one.used_at, now), None),
            (ends, over.then_some(Color::DarkRed)),
        ]
    };
    render(&COLUMNS, &all.iter().map(row).collect::<Vec<_>>(), screen)
}

/// What a credential may do beyond or below its holder.
fn rights(one: &Credential) -> String {
    let mut parts = Vec::new();
    parts.extend(one.role.clone());
    if let Some(queues) = &one.queues {
        parts.push(format!("queues {}", printable(&queues.join(","))));
    }
    if let Some(uses) = one.uses {
        parts.push(format!("join {uses}x"));
    }
    if let Some(tags) = &one.tags {
        parts.push(format!("tags {}", printable(&tags.join(","))));
    }
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}

/// One line of `muster audit`.
pub(crate) fn audit_line(line: &AuditEntry, screen: Screen) -> String {
    let mut text =
        format!("{}  {:<18} {:<18}", screen.zone.bare(line.at), printable(&line.by), printable(&line.action));
    if let Some(object) = &line.object {
        // Writing to a string cannot fail.
        let _ = write!(text, " {}", printable(object));
    }
    if let Some(credential) = line.credential.as_ref().filter(|name| **name != line.by) {
        // Writing to a string cannot fail.
        let _ = write!(text, "  with {}", printable(credential));
    }
    if let Some(address) = &line.address {
        // Writing to a string cannot fail.
        let _ = write!(text, "  from {}", printable(address));
    }
    if let Some(request) = &line.request_id {
        // Writing to a string cannot fail.
        let _ = write!(text, "  request {}", printable(request));
    }
    text.trim_end().to_owned()
}
