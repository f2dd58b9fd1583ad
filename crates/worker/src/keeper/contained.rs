//! An attempt that runs in a container, as the keeper sees it: a runner that it starts like any process, a folder that both see,
//! and what is left when the runner has ended.
//!
//! Guarantee: when an attempt counts as ended, its container has ended too, or its first process was killed.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io::{Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_protocol::Usage;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::hostfile;
use super::launch::{self, Surroundings};
use super::message::{AttemptPaths, OutOfMemory, Outcome, StartSpec};
use super::spawn::{self, Plan};
use crate::attempt_files;
use crate::attempt_room::AttemptRoom;
use crate::containers::{
    ContainerSpec, FileMount, Note, Order, RUNNER_ARGUMENT, Verdict, container_name, end_first_process,
    mark_in_use, pass_everything, remove_in_process,
};
use crate::{environment, results};

/// Where a container finds the files of its attempt.
const INSIDE: &str = "/run/muster";
/// Where a container puts the files that are kept.
const ARTIFACTS_INSIDE: &str = "/output";
/// Where launchers look for a hostfile that nobody names to them.
const HOSTFILE_INSIDE: &str = "/job/hostfile";
/// Names of files in the folder that both see.
const DONE: &str = "done";
const CHECKPOINT_OUT: &str = "checkpoint-out";
/// Anybody may write there: whoever the container runs as. The directory above is closed to others.
const OPEN_DIRECTORY: u32 = 0o777;
const OPEN_FILE: u32 = 0o666;
const READABLE: u32 = 0o444;

/// What the keeper remembers of a runner.
#[derive(Debug)]
pub(super) struct Contained {
    directory: PathBuf,
    name: String,
    folder: PathBuf,
    memory: File,
    /// What it reads, which its runner removes when it has opened it.
    stdin: Option<String>,
    paths: AttemptPaths,
    /// What it leaves lies where it is looked for already, and is removed with its room.
    is_users: bool,
}

/// How a container ended.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) outcome: Outcome,
    pub(super) usage: Option<Usage>,
    pub(super) out_of_memory: Option<OutOfMemory>,
}

/// Starts a runner and returns its number with what is to be remembered.
pub(super) fn spawn(
    spec: &StartSpec,
    container: &ContainerSpec,
    around: &Surroundings<'_>,
    directory: &Path,
) -> Result<(u32, Contained), String> {
    // A user of its own has it in its room, which Personal has made.
    let folder = match &spec.user {
        Some(_) => AttemptRoom::of(directory, &spec.key).path().to_owned(),
        None => attempt_files::room(&attempt_files::attempt_directory(directory), &spec.key),
    };
    let failed =
        |what: &str, error: &dyn std::fmt::Display| format!("cannot start the container: {what}: {error}");
    if spec.user.is_none() {
        open_to_all(spec, around, &folder).map_err(|error| failed("its files", &error))?;
    }
    mark_in_use(directory, &container.reach).map_err(|error| failed("the data directory", &error))?;
    let name = container_name(directory, &spec.key);
    let mut files = Vec::new();
    let env = environment(spec, around, &folder, &mut files)?;
    let order = Order {
        key: spec.key.clone(),
        directory: directory.to_string_lossy().into_owned(),
        name: name.clone(),
        spec: container.clone(),
        command: spec.argv.clone(),
        env: env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
        files,
        stdin: spec.stdin.clone(),
        terminal: around.terminal.is_some(),
    };
    around.terminal.map_or(Ok(()), pass_everything).map_err(|error| failed("its terminal", &error))?;
    let memory = in_memory(&order).map_err(|error| failed("its order", &error))?;
    let text = |text: String| CString::new(text).map_err(|error| failed("its order", &error));
    let variables = [
        (environment::WORKER_DIR, order.directory.clone()),
        (environment::JOB_ID, spec.key.job_id.to_string()),
        (environment::LEASE, spec.key.lease.to_string()),
    ];
    let env = variables
        .map(|(name, value)| text(format!("{name}={value}")))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let plan = Plan {
        program: c"/proc/self/exe",
        argv: &[c"muster-container".to_owned(), text(RUNNER_ARGUMENT.to_owned())?],
        env: &env,
        directory: c"/",
        stdio: [memory.as_fd(), around.handles.stdout.as_fd(), around.handles.stderr.as_fd()],
        mark: around.mark,
        group: around.group,
        terminal: false,
        no_new_privileges: around.no_new_privileges,
        // It speaks to the engine, which is the worker's; what runs in the container is the user's.
        user: None,
        expendable: false,
        view: None,
    };
    let pid = spawn::spawn(&plan).map_err(|error| failed("the runner", &error))?;
    let contained = Contained {
        directory: directory.to_owned(),
        name,
        folder,
        memory,
        stdin: spec.stdin.clone(),
        paths: spec.paths.clone(),
        is_users: spec.user.is_some(),
    };
    Ok((pid, contained))
}

/// Whoever the container runs as can use its files.
fn open_to_all(spec: &StartSpec, around: &Surroundings<'_>, folder: &Path) -> std::io::Result<()> {
    let open = |path: &Path, mode: u32| fs::set_permissions(path, Permissions::from_mode(mode));
    fs::create_dir_all(folder)?;
    open(folder, OPEN_DIRECTORY)?;
    open(around.result, OPEN_FILE)?;
    open(around.artifacts, OPEN_DIRECTORY)?;
    if let Some(file) = around.hostfile {
        open(file.path(), READABLE)?;
    }
    for path in [&spec.paths.checkpoint].into_iter().filter(|path| !path.is_empty()) {
        open(Path::new(path), READABLE)?;
    }
    if !spec.paths.checkpoint_dir.is_empty() {
        open(Path::new(&spec.paths.checkpoint_dir), OPEN_DIRECTORY)?;
    }
    for (name, value) in around.secrets {
        let is_file = spec.secrets.iter().any(|grant| grant.file && grant.variable == *name);
        if let (true, Ok(path)) = (is_file, std::str::from_utf8(value.bytes())) {
            open(Path::new(path), READABLE)?;
        }
    }
    Ok(())
}

/// The order as a file in memory, which no disk ever sees: there may be secrets in it.
fn in_memory(order: &Order) -> std::io::Result<File> {
    let mut memory = File::from(memfd_create(c"muster-container", MFdFlags::MFD_CLOEXEC)?);
    memory.write_all(&serde_json::to_vec(order)?)?;
    memory.rewind()?;
    Ok(memory)
}

/// The variables of the container, and the files that they name. Of two variables with one name the later counts.
fn environment(
    spec: &StartSpec,
    around: &Surroundings<'_>,
    folder: &Path,
    files: &mut Vec<FileMount>,
) -> Result<BTreeMap<String, String>, String> {
    let of_the_host =
        |name: &str| environment::is_of_the_host(name) || spec.unset.iter().any(|gone| gone == name);
    let base = around.base_env.iter().filter(|(name, _)| !of_the_host(name));
    let mut env: BTreeMap<String, String> = base.chain(&spec.env).cloned().collect();
    let mut mount = |source: &str, inside: &str, read_only: bool| {
        let target = format!("{INSIDE}{inside}");
        files.push(FileMount { source: source.to_owned(), target: target.clone(), read_only });
        target
    };
    let room = mount(&folder.to_string_lossy(), "", false);
    let paths = &spec.paths;
    let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
    set(attempt_files::NOTICE_VARIABLE, format!("{room}/{}", attempt_files::CONTAINED_NOTICE));
    set(attempt_files::DONE_VARIABLE, format!("{room}/{DONE}"));
    set(attempt_files::CHECKPOINT_OUT_VARIABLE, format!("{room}/{CHECKPOINT_OUT}"));
    if !paths.checkpoint.is_empty() {
        set(attempt_files::CHECKPOINT_VARIABLE, mount(&paths.checkpoint, "/checkpoint", true));
    }
    if !paths.checkpoint_dir.is_empty() {
        set(attempt_files::CHECKPOINT_DIR_VARIABLE, mount(&paths.checkpoint_dir, "/checkpoints", false));
    }
    set(results::VARIABLE, mount(&around.result.to_string_lossy(), "/output", false));
    set(launch::ARTIFACTS_VARIABLE, ARTIFACTS_INSIDE.to_owned());
    if let Some(file) = around.hostfile {
        set(hostfile::VARIABLE, mount(&file.path().to_string_lossy(), "/hostfile", true));
    }
    let hostfile = around.hostfile.map(|file| file.path().to_string_lossy().into_owned());
    for (number, (name, value)) in around.secrets.iter().enumerate() {
        let text = std::str::from_utf8(value.bytes());
        let text = text.map_err(|_| format!("the secret of {name} is no text; ask for it as a file"))?;
        let is_file = spec.secrets.iter().any(|grant| grant.file && grant.variable == *name);
        let value = if is_file { mount(text, &format!("/secrets/{number}"), true) } else { text.to_owned() };
        set(name, value);
    }
    if let Some(file) = env.get(environment::CA_FILE).cloned() {
        env.insert(environment::CA_FILE.to_owned(), mount(&file, "/ca.pem", true));
    }
    let source = around.artifacts.to_string_lossy().into_owned();
    files.push(FileMount { source, target: ARTIFACTS_INSIDE.to_owned(), read_only: false });
    if let Some(source) = hostfile {
        files.push(FileMount { source, target: HOSTFILE_INSIDE.to_owned(), read_only: true });
    }
    Ok(env)
}

impl Contained {
    /// After the end of the runner: sees to it that the container is gone, and says how it ended. `stopped` says whether
    /// the attempt was told to stop.
    pub(super) fn settle(self, reaped: Outcome, stopped: bool) -> Settled {
        let note = Note::read(&self.memory);
        let finished = matches!(note.verdict, Some(Verdict::Exited { .. } | Verdict::NotStarted(_)));
        if !finished {
            end_first_process(&note);
            remove_in_process(&self.directory, Some(&self.name));
        }
        self.take_files();
        let (outcome, out_of_memory) = match note.verdict {
            Some(Verdict::Exited { code, out_of_memory }) => (Outcome::Exited(code), out_of_memory),
            Some(Verdict::NotStarted(reason)) => (Outcome::NotStarted(reason), None),
            Some(Verdict::Vanished(reason)) => (Outcome::Vanished(reason.into()), None),
            None if stopped || matches!(reaped, Outcome::NotStarted(_)) => (reaped, None),
            None => (Outcome::Vanished("what looked after the container was killed".into()), None),
        };
        Settled { outcome, usage: note.usage, out_of_memory }
    }

    /// What the attempt left goes to where it would lie without a container.
    fn take_files(&self) {
        if let Some(stdin) = &self.stdin {
            // What cannot be removed now is removed with the other leftovers.
            let _ = fs::remove_file(stdin);
        }
        if self.is_users {
            return;
        }
        for (name, path) in [(DONE, &self.paths.done), (CHECKPOINT_OUT, &self.paths.checkpoint_out)] {
            let left = self.folder.join(name);
            if !path.is_empty() && fs::symlink_metadata(&left).is_ok_and(|found| found.is_file()) {
                // What cannot be moved is removed with the folder.
                let _ = fs::rename(left, path);
            }
        }
        // What cannot be removed now is removed with the other leftovers.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
