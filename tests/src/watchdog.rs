//! Ends the processes of a test program that was itself killed: a child that waits for our end (its
//! standard input closes) and then kills every process that was announced to it and not taken back.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

const SCRIPT: &str = r#"
pids=" "
while read -r word pid; do
    case "$word" in
        add) pids="$pids$pid " ;;
        remove) pids="${pids%% $pid *} ${pids#* $pid }" ;;
    esac
done
for pid in $pids; do kill -KILL "$pid"; done
"#;

/// Announces a process.
pub(crate) fn add(pid: u32) {
    tell("add", pid);
}

/// Takes a process back, before its number can be reused.
pub(crate) fn remove(pid: u32) {
    tell("remove", pid);
}

fn tell(word: &str, pid: u32) {
    static WATCHDOG: OnceLock<Mutex<Child>> = OnceLock::new();
    let watchdog = WATCHDOG.get_or_init(|| Mutex::new(spawn()));
    let mut child = watchdog.lock().unwrap_or_else(PoisonError::into_inner);
    let input = child.stdin.as_mut().expect("the input is a pipe");
    writeln!(input, "{word} {pid}").expect("the watchdog reads");
}

fn spawn() -> Child {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().expect("/bin/sh starts")
}
