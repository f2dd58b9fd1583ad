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

pub(super) const EXPLANATIONS: [Explanation; 47] = [
    explain(
        "login",
        "Asks for the password and keeps the session that the scheduler gives, for 24 hours
and for this scheduler only. A certificate that you pin with --tls-fingerprint is
kept with it. One person on one machine needs no login: `muster up` knows its user.",
        "",
    ),
    explain(
        "logout",
        "Ends the session at the scheduler and forgets what was kept for it. A token that was
kept with --token-stdin is revoked as well.",
        "  muster logout
  muster --url https://muster.example logout",
    ),
    explain(
        "whoami",
        "The scheduler tells by what you show: a user with a role, or by the connection: the
local user on this machine, who may do everything.",
        "  muster whoami
  MUSTER_API_TOKEN=$(cat token) muster whoami",
    ),
    explain(
        "token",
        "A token is for a program. It speaks for its user, and may be given less: a lower
role, fewer queues, an end. It is shown once; the scheduler keeps only a digest.
For a new one make it, use it, then revoke the old one: both are good meanwhile.",
        "",
    ),
    explain(
        "user",
        "Admins make users. A viewer looks, a user submits and changes its own jobs, an
operator looks after all jobs, queues and workers, an admin also after users. The
last admin cannot be removed.",
        "",
    ),
    explain(
        "join-token",
        "A machine that shows a join token becomes a worker with a key of its own, which it
keeps in its data directory. Revoking the key takes the jobs of that worker away
from it at once; they start elsewhere.",
        "",
    ),
    explain(
        "audit",
        "For admins: logins, also refused ones, users, tokens, keys and what was revoked,
with who did it, from where and in which request.",
        "  muster audit --since 1d
  muster audit --export > audit.jsonl",
    ),
    explain(
        "secret",
        "A value is sealed on this machine to the public keys of the workers. The scheduler
and its database keep the sealed form and cannot open it. A job that asks for the
secret gets it as a variable or as a file in memory, and its output shows *** where
the value would be. Who may run a job with a secret can read it. The keys of a
scheduler are trusted the first time; later ones need --accept-new-keys.",
        "",
    ),
    explain(
        "webhook",
        "Each event is sent by POST with a signature that the receiver can check. One that
is not accepted is sent again, with growing pauses; in the end it becomes a dead
letter, which is kept until you send it again or remove it. The guide on webhooks
says how to check the signature.",
        "",
    ),
    explain(
        "sim",
        "Plays jobs through the planner of the scheduler, as fast as the machine can, and
says for each policy how long they would have waited. The same input gives the
same figures. Nothing is changed anywhere: with --from-server the scheduler is
only read, so that a change of policy can be tried before it is made.",
        "",
    ),
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
written, and the exit code of this program is the job's own; 124 when the job
took longer than its --timeout.",
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
        "All fields that are set, and what has happened, with the times. A pipeline is
drawn as a tree with the state of each step; a gang with its tasks and with the
rounds in which they started together.",
        "  muster show job-3f0c1a2b
  muster show 3f0c                       the beginning of an id is enough
  muster show job-3f0c1a2b --json | jq .exit_code",
    ),
    explain(
        "logs",
        "Standard output goes to standard output and standard error to standard error.
What is kept outlives the worker and the scheduler that wrote it. Of a gang, each
line has the number of its task before it.",
        "  muster logs job-3f0c1a2b
  muster logs -f job-3f0c1a2b            go on until the job has ended
  muster logs --stderr --attempt 1 job-3f0c1a2b",
    ),
    explain(
        "wait",
        "A line for each as it ends. The exit code is 0 when all are done, otherwise that
of the first on the command line that is not; 124 when --timeout ran out. That of
a gang is that of the task that failed first. On a terminal a line says what is
waited for. Ctrl-C ends the waiting and leaves the jobs alone.",
        "  muster wait job-3f0c1a2b job-77aa0000
  muster wait --timeout 10m set-0b1c2d3e || echo not yet
  muster submit -- ./prepare.sh | xargs muster wait",
    ),
    explain(
        "cancel",
        "A job that waits is cancelled at once. One that runs is told to stop, politely
and then not, and is cancelled when its process is gone. Jobs that depend on it
end with it, unless their rules say otherwise.",
        "",
    ),
    explain(
        "hold",
        "A held job keeps its place in the queue and does not start until it is released.
Jobs that run are left alone.",
        "  muster hold job-3f0c1a2b
  muster hold --queue nightly --yes",
    ),
    explain(
        "release",
        "Released jobs start as soon as there is room for them.",
        "  muster release job-3f0c1a2b
  muster release --queue nightly --yes",
    ),
    explain(
        "retry",
        "What failed or was cancelled is queued again, and what ended because of it waits
for it again. A pipeline can be run again from a step on.",
        "",
    ),
    explain(
        "edit",
        "Only what is named changes, and only while the job waits. The planner looks at
it again at once.",
        "",
    ),
    explain(
        "delete",
        "Only jobs that have ended can be removed; others are refused and stay.",
        "  muster delete job-3f0c1a2b
  muster delete --status done --queue old --dry-run",
    ),
    explain(
        "add",
        "The new steps may need steps that are there. They are checked like a whole
pipeline, and taken all or none.",
        "",
    ),
    explain(
        "pipelines",
        "One line for each: how many of its jobs have ended, how many have failed, and
since when it is there.",
        "  muster pipelines
  muster pipelines --limit 5 --json",
    ),
    explain(
        "arrays",
        "One line for each: how many of its elements have ended, how many have failed,
and since when it is there.",
        "  muster arrays
  muster arrays --limit 5 --json",
    ),
    explain(
        "gangs",
        "One line for each: where it stands, how many of its tasks run, how often they
were started together, and since when it is there.",
        "",
    ),
    explain(
        "preempt",
        "The job is told that it has to leave, gets its grace period to save what it has,
and waits to run again; the attempt is not counted. Of a gang all tasks leave and
come back together. What is said with --message the job can read.",
        "",
    ),
    explain(
        "queue",
        "A queue exists as soon as a job names it. It can be paused, it can have bounds
on the jobs that wait and run in it, and a rate at which its jobs start. It can have
a quota, of which it lends what it does not use, a weight, and a queue above it.",
        "",
    ),
    explain(
        "queues",
        "Every queue that was set or has jobs, below the one that it belongs to: what it
has and uses, what it has borrowed and lent, and its share. Where queues compete
the one with the lower share goes first.",
        "  muster queues
  muster queues --json | jq -r '.[] | select(.borrowed != null).name'",
    ),
    explain(
        "worker",
        "A worker on which job after job failed at once gets no more work; `muster
workers` shows it and why. Here it is put back.",
        "  muster worker release gpu-07
  muster worker release gpu-07 --json",
    ),
    explain(
        "why",
        "Every reason that is true now: a dependency, missing room and how much of it, a
tag that no worker carries, jobs that go first, and so on. Then the workers by
what they have, with who holds them and until when, and what change would let
it start now; each of these was tried.",
        "  muster why job-3f0c1a2b
  muster why gang-3f0c1a2b
  muster why job-3f0c1a2b --json | jq -r '.reasons[].code'",
    ),
    explain(
        "explain",
        "What waits for what, counted by reason; the first in line with their estimated
start; for whom room is kept; what is free and why nobody uses it; and how much
of it is of no use to anybody who waits. Jobs that are alike count as one line.",
        "  muster explain
  muster explain --json | jq '.idle[] | {code, workers, free}'",
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
        "exec",
        "The program runs on the worker as the job does: as its user, in its directory, with
its variables. It ends when you leave, at the latest with the job.",
        "",
    ),
    explain(
        "attach",
        "You see what the job wrote last, and type into it. Leaving does not end the job.
Several people can be attached at the same time.",
        "",
    ),
    explain(
        "usage",
        "What attempts used is measured where they ran and summed up when they end. Without
JOB it tells who used what; with JOB it shows each attempt beside what was
requested.",
        "",
    ),
    explain(
        "artifacts",
        "Whatever a job puts into the directory $MUSTER_ARTIFACTS is kept when the attempt
has ended, also a failed one: plain files in any folders below it. Files that
could not be kept are listed with the reason.",
        "",
    ),
    explain(
        "checkpoint",
        "The scheduler keeps the last checkpoint of each job, as it was sent, and gives it
to the next attempt. `save` works while the job runs, and while it is being
stopped.",
        "",
    ),
    explain(
        "notice",
        "Prints the notice as JSON and exits with 0 when the job must save what it has and
leave; exits with 1 while it may go on, and with 2 when that cannot be told.",
        "",
    ),
    explain(
        "done",
        "A job that was told to stop counts as done when it has declared this, whatever it
exits with; otherwise it comes back. A job that nobody told to stop is judged by
its exit code alone.",
        "  ./train.sh && muster done
  trap './finish.sh && muster done; exit 0' TERM",
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
ids of jobs and gangs where one is wanted, the newest first.",
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
