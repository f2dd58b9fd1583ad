//! A guest of an attempt in a container: a process that has the engine run the program there.
//!
//! Guarantee: the keeper treats it like any guest; what is typed, signals and the end of the session reach the program.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use muster_protocol::TerminalOpen;

use super::super::mark::Mark;
use super::super::message::Key;
use super::super::spawn::{self, Plan};
use super::super::table::Table;
use crate::containers::{GUEST_ARGUMENT, GUEST_ORDER, GuestOrder, container_name, pass_everything};

/// Starts the process that stands for the program.
pub(super) fn start(
    table: &Table,
    key: &Key,
    leader: u32,
    open: &TerminalOpen,
    stdio: [BorrowedFd<'_>; 3],
) -> Result<u32, String> {
    open.argv.first().filter(|name| !name.is_empty()).ok_or("the command is empty")?;
    let directory = table.stragglers.directory();
    let order = GuestOrder {
        directory: directory.to_owned(),
        container: container_name(directory, key),
        argv: open.argv.clone(),
        term: open.term.clone().filter(|_| open.size.is_some()),
        is_terminal: open.size.is_some(),
    };
    let failed = |error: &dyn std::fmt::Display| format!("cannot start the program: {error}");
    if order.is_terminal {
        pass_everything(stdio[0]).map_err(|error| failed(&error))?;
    }
    let order = serde_json::to_string(&order).map_err(|error| failed(&error))?;
    let text = |text: String| CString::new(text).map_err(|error| failed(&error));
    let plan = Plan {
        program: c"/proc/self/exe",
        argv: &[c"muster-guest".to_owned(), text(GUEST_ARGUMENT.to_owned())?],
        env: &[text(format!("{GUEST_ORDER}={order}"))?],
        directory: c"/",
        stdio,
        mark: Mark::of_process(leader.cast_signed()),
        group: None,
        terminal: open.size.is_some(),
        no_new_privileges: true,
        user: None,
        expendable: false,
        view: None,
    };
    spawn::spawn(&plan).map_err(|error| failed(&error))
}
