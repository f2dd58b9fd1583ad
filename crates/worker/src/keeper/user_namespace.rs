//! A user namespace in which the worker's user may mount: one for all attempts of a keeper.
//!
//! It is made by a process of its own. The keeper hides its memory, and a process that does cannot say which user its
//! namespace has.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;

use nix::libc;
use nix::unistd::{getegid, geteuid};

/// The first argument that makes a program such a process.
const ARGUMENT: &str = "__user-namespace";

/// The namespace, made when it is asked for first. It lives as long as somebody has it open.
pub(super) fn own() -> io::Result<&'static File> {
    static MADE: OnceLock<File> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(MADE.get_or_init(|| made))
}

fn make() -> io::Result<File> {
    let mut maker = Command::new("/proc/self/exe")
        .arg(ARGUMENT)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut said = String::new();
    let input = maker.stdin.take();
    if let Some(output) = &mut maker.stdout {
        let mut byte = [0];
        while output.read(&mut byte)? == 1 && byte != *b"\n" {
            said.push(char::from(byte[0]));
        }
    }
    let made = match said.as_str() {
        "made" => File::open(format!("/proc/{}/ns/user", maker.id())),
        "" => Err(io::Error::other("the process that was to make it ended")),
        why => Err(io::Error::other(why.to_owned())),
    };
    // Its input ends, and so does it.
    drop(input);
    maker.wait()?;
    made
}

/// Makes the namespace and stays until the other side has it, if this process was started for that.
pub(super) fn run_from_arguments() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != ARGUMENT {
        return None;
    }
    let said = match enter() {
        Ok(()) => "made".to_owned(),
        Err(error) => error.to_string(),
    };
    let told = writeln!(io::stdout(), "{said}").and_then(|()| io::stdin().read_to_end(&mut Vec::new()));
    Some(if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn enter() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    #[expect(unsafe_code, reason = "there is no safe call for it here")]
    // SAFETY: the call takes a number and changes nothing but the namespace of this process, which has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(io::Error::last_os_error());
    }
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
