//! `muster gangs`.

use jiff::Timestamp;
use muster_client::GangFilter;

use crate::args::GangListArgs;
use crate::exit;
use crate::output::{gang_list, json, note};
use crate::settings::Settings;

pub(crate) async fn run(args: &GangListArgs, settings: &Settings) -> anyhow::Result<u8> {
    let filter = GangFilter { state: args.state, limit: Some(args.limit), cursor: None };
    let page = settings.client()?.gangs(&filter).await?;
    if settings.screen.json {
        json::document(&page.gangs)?;
        return Ok(exit::OK);
    }
    if args.quiet {
        let ids: Vec<&str> = page.gangs.iter().map(|gang| gang.id.as_str()).collect();
        if !ids.is_empty() {
            settings.screen.line(&ids.join("\n"))?;
        }
        return Ok(exit::OK);
    }
    if page.gangs.is_empty() {
        note(match args.state {
            Some(_) => "no gangs in this state",
            None => "no gangs; `muster submit --gang 4 -- COMMAND` makes one",
        });
        return Ok(exit::OK);
    }
    settings.screen.line(&gang_list(&page.gangs, Timestamp::now(), settings.screen))?;
    if page.next.is_some() {
        note(&format!("there are more; -n shows more than {}", args.limit));
    }
    Ok(exit::OK)
}
