//! `muster audit`.

use jiff::Timestamp;
use muster_protocol::AuditEntry;

use crate::args::AuditArgs;
use crate::exit;
use crate::output::{audit_line, json, note};
use crate::settings::Settings;

const PAGE: usize = 1_000;

pub(crate) async fn run(args: &AuditArgs, settings: &Settings) -> anyhow::Result<u8> {
    let since = settings.since(args.since.as_ref(), Timestamp::now())?;
    let most = if args.export { usize::MAX } else { args.limit };
    let lines = newest(settings, since, most).await?;
    if lines.is_empty() && !settings.screen.json && !args.export {
        note("nothing was noted");
    }
    for line in &lines {
        if settings.screen.json || args.export {
            json::line(line)?;
        } else {
            settings.screen.line(&audit_line(line, settings.screen))?;
        }
    }
    Ok(exit::OK)
}

/// The newest lines, oldest first.
async fn newest(
    settings: &Settings,
    since: Option<Timestamp>,
    most: usize,
) -> anyhow::Result<Vec<AuditEntry>> {
    let client = settings.client()?;
    let mut lines: Vec<AuditEntry> = Vec::new();
    while lines.len() < most {
        let wanted = (most - lines.len()).min(PAGE);
        let page = client.audit(since, lines.last().map(|line| line.id), wanted).await?;
        let last = page.len() < wanted;
        lines.extend(page);
        if last {
            break;
        }
    }
    lines.reverse();
    Ok(lines)
}
