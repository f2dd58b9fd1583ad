//! `muster watch`.

use crate::args::WatchArgs;
use crate::failure::UsageError;
use crate::settings::Settings;
use crate::watch::{self, Arrangement, Order, Session};

pub(crate) async fn run(args: &WatchArgs, settings: &Settings) -> anyhow::Result<u8> {
    if settings.screen.json {
        let instead = "`muster watch` is for people; `muster top --json` prints the same once, and \
                       `muster events --follow --json` goes on";
        return Err(UsageError(instead.to_owned()).into());
    }
    let filter = args.filter.join(" ");
    watch::run(Session { arrangement: Arrangement::Watch, order: Order::Ran, filter }, settings).await
}
