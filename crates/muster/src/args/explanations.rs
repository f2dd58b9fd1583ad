//! The longer texts of the commands, and examples for those whose arguments bring none.

/// What `--help` says beyond one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explanation {
    pub(super) command: &'static str,
    /// Lines of at most 80 columns.
    pub(super) text: &'static str,
    /// Lines that begin with two blanks; empty where the arguments bring their own.
    pub(super) examples: &'static str,
}

const fn explain(command: &'static str, text: &'static str, examples: &'static str) -> Explanation {
    Explanation { command, text, examples }
}

pub(super) const EXPLANATIONS: [Explanation; 16] = [
    explain(
        "up",
        "Everything in one process, for a laptop, a test or a small machine: the API, the
scheduling, a worker, and a database in a directory. What was acknowledged is on
disk; after a restart everything goes on where it was.",
        "",
    ),
    explain(
        "run",
        "The job goes through the queue like any other; its output comes here as it is
written, and the exit code of this program is the job's own.",
        "",
    ),
    explain(
        "submit",
        "The ids are printed as soon as the jobs are on disk; the jobs run by themselves,
whether anybody watches or not.",
        "",
    ),
    explain(
        "ls",
        "One line for each job, with the columns and in the order that you ask for. All
filters hold together and are applied by the scheduler.",
        "",
    ),
    explain(
        "watch",
        "A live view for a terminal: running, waiting and ended jobs, pipelines and
arrays with how much of them is done, workers with what is used of them, queues.",
        "",
    ),
    explain(
        "top",
        "Workers with how much of them is taken, and running jobs by time or by what
they hold, refreshed as things change.",
        "",
    ),
    explain(
        "show",
        "All fields of a job that are set, and what has happened to it, with the times.",
        "  muster show job-3f0c1a2b
  muster show 3f0c                       the beginning of an id is enough
  muster show job-3f0c1a2b --json | jq .exit_code",
    ),
    explain(
        "logs",
        "Standard output goes to standard output and standard error to standard error.
What is kept outlives the worker and the scheduler that wrote it.",
        "  muster logs job-3f0c1a2b
  muster logs -f job-3f0c1a2b            go on until the job has ended
  muster logs --stderr --attempt 1 job-3f0c1a2b",
    ),
    explain(
        "wait",
        "A line for each job as it ends. The exit code is 0 when all are done, otherwise
that of the first on the command line that is not; 124 when --timeout ran out.
On a terminal a line says what is waited for. Ctrl-C ends the waiting and leaves
the jobs alone.",
        "  muster wait job-3f0c1a2b job-77aa0000
  muster wait --timeout 10m job-3f0c1a2b || echo not yet
  muster submit -- ./prepare.sh | xargs muster wait",
    ),
    explain(
        "cancel",
        "A job that waits is cancelled at once. One that runs is told to stop, politely
and then not, and is cancelled when its process is gone. Jobs that depend on it
end with it.",
        "  muster cancel job-3f0c1a2b
  muster cancel 3f0c 77aa                several, by the beginnings of their ids
  muster ls --status waiting --queue old --quiet | xargs muster cancel",
    ),
    explain(
        "why",
        "Every reason that is true now: a dependency, missing room and how much of it, a
tag that no worker carries, jobs that go first, and so on.",
        "  muster why job-3f0c1a2b
  muster why job-3f0c1a2b --json | jq -r '.reasons[].code'",
    ),
    explain(
        "workers",
        "Every worker that is known, whether it answers, what it offers and how much of
that its jobs hold.",
        "  muster workers
  muster workers --json | jq -r '.[] | select(.status == \"offline\").id'",
    ),
    explain(
        "events",
        "Events are written in the same transaction as the change that they tell of, so
that none is missing. The stream goes on through restarts of the scheduler.",
        "  muster events job-3f0c1a2b
  muster events --follow                 everything, as it happens
  muster events --follow --json | jq -c 'select(.type == \"failed\")'",
    ),
    explain(
        "version",
        "The version of the scheduler is asked for; without one, only this program
speaks.",
        "  muster version
  muster version --json",
    ),
    explain(
        "completions",
        "The script offers commands, options and values; in bash, zsh and fish also the
ids of jobs where a job is wanted, the newest first.",
        "",
    ),
    explain(
        "man",
        "One page for the program and one for each command, made from the same
definitions as the help. Without a directory the page of the program is printed.",
        "  muster man | man -l -
  muster man ~/.local/share/man/man1 && man muster-ls",
    ),
];
