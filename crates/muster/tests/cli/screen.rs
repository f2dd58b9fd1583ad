//! A real terminal for the program: tmux runs it, sends keys and says what is on the screen.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use muster_tests::eventually;

use crate::harness::{BOUND, Up};

/// A server that ends may still hold its socket, so that each has a new one.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A tmux server of its own with one window.
#[derive(Debug)]
pub(crate) struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs a line of shell in a window of this size, as a client of the scheduler.
    pub(crate) fn start(up: &Up, size: (u16, u16), line: &str) -> Self {
        let directory = up.directory.path();
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { socket: directory.join(format!("tmux-{number}")) };
        let line = line.replace("muster ", &format!("{} ", env!("CARGO_BIN_EXE_muster")));
        let mut command = terminal.command(directory);
        command.args(["-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", &size.0.to_string(), "-y", &size.1.to_string()]);
        command.env("MUSTER_URL", &up.url).arg(line);
        let output = command.output().unwrap_or_else(|error| {
            panic!("tmux cannot be started ({error}); scripts/install-test-deps installs it")
        });
        assert!(output.status.success(), "{output:?}");
        terminal
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).current_dir(directory);
        command.env_remove("TMUX").env_remove("NO_COLOR").env_remove("MUSTER_CONFIG");
        command.env("LC_ALL", "C.UTF-8").env("HOME", directory);
        command
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        self.command(self.socket.parent().unwrap()).args(arguments).output().unwrap()
    }

    /// Presses keys, by tmux's names for them.
    pub(crate) fn press(&self, keys: &[&str]) {
        let output = self.tmux(&[&["send-keys"], keys].concat());
        assert!(output.status.success(), "{output:?}");
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        let output = self.tmux(&["resize-window", "-x", &width, "-y", &height]);
        assert!(output.status.success(), "{output:?}");
    }

    /// What is on the screen.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// The same with the colours.
    pub(crate) fn coloured(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p", "-e"]).stdout).unwrap()
    }

    /// A value that tmux knows of the window, such as `alternate_on`.
    pub(crate) fn value(&self, name: &str) -> String {
        let output = self.tmux(&["display-message", "-p", &format!("#{{{name}}}")]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits until all of the texts are on the screen at once; gives the screen.
    #[track_caller]
    pub(crate) fn shows(&self, texts: &[&str]) -> String {
        let mut last = String::new();
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&format!("the screen shows {texts:?}"), BOUND, || {
                last = self.text();
                texts.iter().all(|text| last.contains(text)).then(|| last.clone())
            })
        }));
        shown.unwrap_or_else(|_| panic!("{texts:?} are not on the screen:\n{last}"))
    }

    /// Waits until the text is gone.
    #[track_caller]
    pub(crate) fn hides(&self, text: &str) {
        muster_tests::until(&format!("{text:?} is gone"), BOUND, || !self.text().contains(text));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
