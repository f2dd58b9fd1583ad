//! `muster pipelines` and `muster arrays`.

use jiff::Timestamp;
use muster_protocol::SetKind;

use crate::args::SetListArgs;
use crate::exit;
use crate::output::{json, note, set_list};
use crate::settings::Settings;

pub(crate) async fn run(kind: SetKind, args: &SetListArgs, settings: &Settings) -> anyhow::Result<u8> {
    let page = settings.client()?.sets(kind, Some(args.limit), None).await?;
    if settings.screen.json {
        json::document(&page.sets)?;
        return Ok(exit::OK);
    }
    if page.sets.is_empty() {
        note(match kind {
            SetKind::Pipeline => "no pipelines; `muster submit FILE.yaml` makes one",
            SetKind::Array => "no arrays; `muster submit --array 0-9 -- COMMAND` makes one",
        });
        return Ok(exit::OK);
    }
    settings.screen.line(&set_list(&page.sets, Timestamp::now(), settings.screen))?;
    if page.next.is_some() {
        note(&format!("there are more; -n shows more than {}", args.limit));
    }
    Ok(exit::OK)
}
