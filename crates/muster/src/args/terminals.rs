//! The commands that enter running jobs.

use clap::Args;

use crate::terminal::DetachKeys;

const EXEC_EXAMPLES: &str = "\
Examples:
  muster exec JOB                           a shell beside the job
  muster exec JOB -- nvidia-smi             one program, with its exit code
  muster exec GANG/2 -- py-spy dump -p 1    beside task 2 of a gang
  tar c data | muster exec -i JOB -- tar x  with standard input

The program runs on the worker of the job, as its user, in its directory and with
its variables. It ends when the job ends, and when this command does: it is then
told to hang up. From a terminal it gets a terminal. Standard input goes to it
from a terminal or with -i; otherwise it reads nothing.

The exit code is that of the program; 128+N when signal N ended it, 125 when it
could not be started, 255 when the connection was lost. Whoever may change a job
may enter it; its history and the audit log say who did.";

const ATTACH_EXAMPLES: &str = "\
Examples:
  muster attach JOB                      the terminal of a job of `muster run --pty`
  muster attach --read-only JOB          only look
  muster attach --wait JOB               as soon as it runs

The last screen of output is shown first. Several may be attached; all type into
the same terminal, and its size is that of whoever came or changed last. Ctrl-P
Ctrl-Q leaves and the job goes on. The exit code is that of the attempt when it
ends, 0 after the detach keys, 255 when the connection was lost.";

/// `muster exec`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXEC_EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that people type")]
pub(crate) struct ExecArgs {
    /// The job: its id, or the beginning of it; a task of a gang is GANG/RANK
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// Hand standard input on to the program
    #[arg(long, short)]
    pub(crate) interactive: bool,
    /// Give the program a terminal, although there is none here
    #[arg(long, short, conflicts_with = "no_tty")]
    pub(crate) tty: bool,
    /// Give the program no terminal
    #[arg(long, short = 'T')]
    pub(crate) no_tty: bool,
    /// Wait until the job runs
    #[arg(long)]
    pub(crate) wait: bool,
    /// The keys that leave, or none [default: ctrl-p,ctrl-q]
    #[arg(long, value_name = "KEYS")]
    pub(crate) detach_keys: Option<DetachKeys>,
    /// The program and its arguments [default: a shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

/// `muster attach`.
#[derive(Debug, Clone, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub(crate) struct AttachArgs {
    /// The job: its id, or the beginning of it; a task of a gang is GANG/RANK
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// Only look: what is typed here is ignored
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Leave our terminal as it is: lines instead of keys
    #[arg(long, short = 'T')]
    pub(crate) no_tty: bool,
    /// Wait until the job runs
    #[arg(long)]
    pub(crate) wait: bool,
    /// The keys that leave, or none [default: ctrl-p,ctrl-q]
    #[arg(long, value_name = "KEYS")]
    pub(crate) detach_keys: Option<DetachKeys>,
}
