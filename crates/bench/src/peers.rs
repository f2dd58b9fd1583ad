//! Other schedulers, measured the same way when they are installed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, Process};

const BOUND: Duration = Duration::from_secs(120);
const START_BOUND: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
const SLURM_JOBS: usize = 60;

/// Jobs per second of an array of `/bin/true` on HyperQueue with its output discarded; `None` when it is not
/// installed.
pub(crate) fn hyperqueue(directory: &Path, slots: usize, jobs: usize) -> Result<Option<f64>> {
    let Some(program) = process::on_path("hq") else { return Ok(None) };
    let directory = tempfile::Builder::new().prefix("muster-bench-hq-").tempdir_in(directory)?;
    let hq = HyperQueue { program, directory: directory.path() };
    let mut server = Process::start("hq server", hq.command(&["server", "start"]), &hq.log("server"))?;
    hq.await_answer(&["server", "info"], &mut server)?;
    let worker = ["worker", "start", "--cpus", &slots.to_string()];
    let _worker = Process::start("hq worker", hq.command(&worker), &hq.log("worker"))?;
    // A first job that has run shows that the worker is there.
    hq.submit(1)?;
    let begin = Instant::now();
    hq.submit(jobs)?;
    Ok(Some(jobs as f64 / begin.elapsed().as_secs_f64()))
}

struct HyperQueue<'a> {
    program: PathBuf,
    directory: &'a Path,
}

impl HyperQueue<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--server-dir").arg(self.directory).args(arguments).current_dir(self.directory);
        command
    }

    fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    fn await_answer(&self, arguments: &[&str], server: &mut Process) -> Result<()> {
        let deadline = Instant::now() + START_BOUND;
        while !finish(self.command(arguments), START_BOUND)?.success() {
            server.check_alive()?;
            ensure!(Instant::now() < deadline, "HyperQueue did not answer within {START_BOUND:?}");
            thread::sleep(POLL * 10);
        }
        Ok(())
    }

    fn submit(&self, jobs: usize) -> Result<()> {
        let array = format!("1-{jobs}");
        let arguments = [
            "submit",
            "--array",
            &array,
            "--stdout",
            "none",
            "--stderr",
            "none",
            "--wait",
            "--",
            "/bin/true",
        ];
        let status = finish(self.command(&arguments), BOUND)?;
        ensure!(status.success(), "`hq submit` ended with {status}");
        Ok(())
    }
}

/// Jobs per second of an array on the Slurm cluster that is already configured; `None` when it is not installed.
pub(crate) fn slurm() -> Result<Option<f64>> {
    let Some(program) = process::on_path("sbatch") else { return Ok(None) };
    let mut command = Command::new(program);
    let array = format!("--array=1-{SLURM_JOBS}");
    command.args([
        "--wait",
        "--quiet",
        &array,
        "--output=/dev/null",
        "--error=/dev/null",
        "--wrap=/bin/true",
    ]);
    let begin = Instant::now();
    let status = finish(command, BOUND)?;
    ensure!(status.success(), "`sbatch` ended with {status}");
    Ok(Some(SLURM_JOBS as f64 / begin.elapsed().as_secs_f64()))
}

/// Runs a command to its end, which must come within the bound.
fn finish(mut command: Command, bound: Duration) -> Result<ExitStatus> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let name = command.get_program().to_owned();
    let mut child = command.spawn().with_context(|| format!("starting {}", name.display()))?;
    let deadline = Instant::now() + bound;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            bail!("{} was not finished within {bound:?}", name.display());
        }
        thread::sleep(POLL);
    }
}
