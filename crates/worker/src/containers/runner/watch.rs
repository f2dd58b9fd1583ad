//! The life of one container: made, started, followed, removed.

use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerStateStatusEnum, ContainerWaitResponse};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions, WaitContainerOptions,
};
use futures::StreamExt as _;
use tokio::time::{Instant, interval, sleep, timeout};

use super::attach::attach;
use super::forward::Target;
use super::input::{self, Input};
use super::output::{Passed, Pieces, pump};
use super::usage::Meter;
use super::{Board, Order, create};
use crate::containers::errors::{is_answer, is_shutdown, status, words};
use crate::containers::note::{Note, Verdict};
use crate::containers::own_terminal::OwnTerminal;
use crate::containers::removal::end_first_process;
use crate::containers::signals::Signals;
use crate::keeper::OutOfMemory;

/// How long the rest of the output may take once the container has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(10);
/// How long one small request may take.
pub(super) const REQUEST: Duration = Duration::from_secs(20);
/// How long an engine that went away is waited for.
const ABSENCE: Duration = Duration::from_secs(60);
/// What Podman says of a name, with a status that means anything.
const NAME_TAKEN: &str = "is already in use";
/// What Podman says where it has no init; the container does without.
const NO_INIT: &str = "container-init binary not found";
/// How long a container may still come that was asked for before the keeper was gone.
const MAKING: Duration = Duration::from_secs(5);
/// Between two notes on what was used.
const NOTES: Duration = Duration::from_secs(1);
/// Between two looks at whether it is back.
const ROUND: Duration = Duration::from_millis(100);
/// The exit code of what was told to stop before it began.
const STOPPED: i32 = 143;
/// The exit code of what was killed.
const KILLED: i32 = 137;

/// A container that was started.
struct Running<'a> {
    client: Docker,
    order: &'a Order,
    passed: Passed,
    input: Input,
    meter: Meter,
}

/// What the engine said about the end.
enum Waited {
    Ended(i32),
    /// Nothing: the connection is gone.
    Broken,
}

/// What became of the container while the engine was away.
enum Found {
    Running,
    Ended(i32),
    Gone(String),
}

/// Runs the container of an attempt and says how it ended. It is removed, unless the engine is gone.
pub(super) async fn run(order: &Order, mut signals: Signals, board: &mut Board) -> Verdict {
    let terminal = match order.terminal.then(OwnTerminal::take).transpose() {
        Ok(terminal) => terminal.map(Arc::new),
        Err(error) => return Verdict::NotStarted(format!("cannot make a terminal for the job: {error}")),
    };
    let client = match order.spec.reach.client() {
        Ok(client) => client,
        Err(reason) => return Verdict::Vanished(reason),
    };
    let Made { id, has_init } = match make(&client, order).await {
        Ok(made) => made,
        Err(error) => return unstarted(order, &error),
    };
    board.note.container = Some(id.clone());
    board.write();
    let stdin = match input::open(order.stdin.as_deref()) {
        Ok(stdin) => stdin,
        Err(error) => {
            remove(&client, &order.name).await;
            return Verdict::Vanished(format!("the standard input of the job cannot be read: {error}"));
        }
    };
    let (mut pieces, mut input) = match attach(&client, order, &id, stdin, terminal.as_ref()).await {
        Ok(attached) => (attached.pieces, attached.input),
        Err(error) => return give_up(&client, order, &error).await,
    };
    if signals.end_is_asked_for() {
        remove(&client, &order.name).await;
        return Verdict::Exited { code: STOPPED, out_of_memory: None };
    }
    let meter = Meter::begin(&id);
    if let Err(error) = client.start_container(&id, None::<StartContainerOptions>).await {
        return give_up(&client, order, &error).await;
    }
    input.begin();
    let groups_from_here = order.spec.reach.is_podman && has_init && !order.spec.leader_only;
    let target = Target { client: client.clone(), id, terminal, groups_from_here };
    let forwarding = tokio::spawn(target.forward(signals));
    let mut running = Running { client, order, passed: Passed::default(), input, meter };
    let verdict = running.follow(&mut pieces, board).await;
    forwarding.abort();
    verdict
}

/// A container that was made and not started.
struct Made {
    id: String,
    has_init: bool,
}

/// Makes the container. One with its name is what an earlier start of the same attempt has left.
async fn make(client: &Docker, order: &Order) -> Result<Made, Error> {
    let mut has_init = order.spec.init;
    let options = || CreateContainerOptionsBuilder::new().name(&order.name).build();
    let made = match client.create_container(Some(options()), create::body(order)).await {
        Err(error) if status(&error) == Some(409) || words(&error).contains(NAME_TAKEN) => {
            remove(client, &order.name).await;
            client.create_container(Some(options()), create::body(order)).await
        }
        Err(error) if order.spec.init && words(&error).contains(NO_INIT) => {
            let mut body = create::body(order);
            has_init = false;
            if let Some(host) = &mut body.host_config {
                host.init = None;
            }
            client.create_container(Some(options()), body).await
        }
        made => made,
    };
    made.map(|made| Made { id: made.id, has_init })
}

/// The container cannot be started; what was made of it goes.
async fn give_up(client: &Docker, order: &Order, error: &Error) -> Verdict {
    remove(client, &order.name).await;
    unstarted(order, error)
}

/// Why there is no container: because of the job, or because of the engine.
fn unstarted(order: &Order, error: &Error) -> Verdict {
    let said = words(error);
    if !is_answer(error) || is_shutdown(error) {
        return Verdict::Vanished(format!("the container engine is gone: {said}"));
    }
    if status(error) == Some(404) && said.to_lowercase().contains("no such image") {
        return Verdict::Vanished(format!(
            "the image {} was removed from the worker: {said}",
            order.spec.image
        ));
    }
    Verdict::NotStarted(format!("cannot start the container of {}: {said}", order.spec.image))
}

/// Removes a container with all that belongs to it. Says whether it is gone.
async fn remove(client: &Docker, name: &str) -> bool {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    let removed = timeout(REQUEST, client.remove_container(name, Some(options))).await;
    match removed {
        Ok(Ok(())) => true,
        Ok(Err(error)) => status(&error) == Some(404),
        Err(_) => false,
    }
}

/// The keeper is gone: nobody looks after the job any more. Ends the container, also one that was just being made.
pub(super) async fn abandon(order: &Order, note: &Note) -> Verdict {
    end_first_process(note);
    let said = "the keeper was killed";
    let Ok(client) = order.spec.reach.client() else { return Verdict::Vanished(said.into()) };
    let since = Instant::now();
    loop {
        let is_gone = remove(&client, &order.name).await;
        let may_come = note.container.is_none() && since.elapsed() < MAKING;
        if (is_gone && !may_come) || since.elapsed() > ABSENCE {
            return Verdict::Vanished(said.into());
        }
        sleep(ROUND).await;
    }
}

impl Running<'_> {
    /// Follows the container to its end, over absences of the engine.
    async fn follow(&mut self, pieces: &mut Pieces, board: &mut Board) -> Verdict {
        let mut waited = self.until_end(pieces, board).await;
        loop {
            if let Waited::Ended(code) = waited
                && let Some(verdict) = self.conclude(code, board).await
            {
                return verdict;
            }
            // The connection that is gone took what was still to be read with it.
            let had_read = self.input.is_over();
            match self.await_engine().await {
                Found::Running if !had_read => {
                    remove(&self.client, &self.order.name).await;
                    let what = if self.order.terminal { "was in a terminal" } else { "read its input" };
                    return Verdict::Vanished(format!("the container engine went away while the job {what}"));
                }
                Found::Running => {
                    *pieces = self.all_output(true);
                    waited = self.until_end(pieces, board).await;
                }
                Found::Ended(code) => {
                    let _ = timeout(LAST_OUTPUT, pump(&mut self.all_output(false), &mut self.passed)).await;
                    waited = Waited::Ended(code);
                }
                Found::Gone(why) => {
                    remove(&self.client, &self.order.name).await;
                    return Verdict::Vanished(why);
                }
            }
        }
    }

    /// Passes output on until the container has ended, or the engine is gone.
    async fn until_end(&mut self, pieces: &mut Pieces, board: &mut Board) -> Waited {
        let (client, name) = (self.client.clone(), self.order.name.clone());
        let mut ends = Box::pin(client.wait_container(&name, None::<WaitContainerOptions>));
        let mut first = Box::pin(first_process(self.client.clone(), name.clone()));
        let (mut looked, mut drained) = (board.note.first_process.is_some(), false);
        let mut notes = interval(NOTES);
        let end = loop {
            tokio::select! {
                end = ends.next() => break end,
                _ = pump(pieces, &mut self.passed), if !drained => drained = true,
                pid = &mut first, if !looked => {
                    looked = true;
                    if let Some(pid) = pid {
                        self.meter.tell_first_process(pid);
                    }
                    self.take_note(board);
                }
                _ = notes.tick() => self.take_note(board),
            }
        };
        let waited = ended(end);
        if matches!(waited, Waited::Ended(_)) && !drained {
            let _ = timeout(LAST_OUTPUT, pump(pieces, &mut self.passed)).await;
        }
        waited
    }

    /// What is known of the container, for whoever outlives this process.
    fn take_note(&self, board: &mut Board) {
        let (first, usage) = (self.meter.first_process(), self.meter.so_far());
        if (board.note.first_process, board.note.usage) != (first, usage) {
            (board.note.first_process, board.note.usage) = (first, usage);
            board.write();
        }
    }

    /// What a known exit code means, once the container is gone. `None` when the engine is gone just now: then it may have been
    /// the engine that ended the container.
    async fn conclude(&mut self, code: i32, board: &mut Board) -> Option<Verdict> {
        board.note.usage = self.meter.in_all().await;
        let mut out_of_memory = None;
        if code != 0 {
            let inspected = self.inspect().await.ok()?;
            let killed = inspected.state.and_then(|state| state.oom_killed).unwrap_or(false);
            // Podman 4.3 looks for the note on it where its monitor does not leave it.
            let killed = killed || (self.order.spec.reach.is_podman && self.meter.lacked_memory());
            out_of_memory = killed.then(|| self.limits(board)).flatten();
        }
        if remove(&self.client, &self.order.name).await {
            return Some(Verdict::Exited { code, out_of_memory });
        }
        // One that answers cannot be ending it; what is left is removed later.
        let answers = matches!(timeout(REQUEST, self.client.ping()).await, Ok(Ok(_)));
        answers.then_some(Verdict::Exited { code, out_of_memory })
    }

    /// Where it was killed for more memory, it had all that it may have.
    fn limits(&self, board: &Board) -> Option<OutOfMemory> {
        let limit_bytes = u64::try_from(self.order.spec.memory_bytes?).ok()?;
        let seen = board.note.usage.and_then(|usage| usage.peak_memory_bytes).unwrap_or(0);
        Some(OutOfMemory { limit_bytes: Some(limit_bytes), peak_bytes: seen.max(limit_bytes) })
    }

    async fn inspect(&self) -> Result<bollard::models::ContainerInspectResponse, Error> {
        let call = self.client.inspect_container(&self.order.name, None::<InspectContainerOptions>);
        timeout(REQUEST, call).await.unwrap_or(Err(Error::RequestTimeoutError))
    }

    /// Waits for an engine that went away and asks what became of the container.
    async fn await_engine(&self) -> Found {
        let since = Instant::now();
        loop {
            match self.inspect().await {
                Ok(found) => return self.judge(found.state.unwrap_or_default()).await,
                Err(error) if status(&error) == Some(404) => {
                    return Found::Gone(
                        "the container engine was restarted and has lost the container".to_owned(),
                    );
                }
                Err(error) if since.elapsed() > ABSENCE => {
                    let said = words(&error);
                    let seconds = ABSENCE.as_secs();
                    return Found::Gone(format!("the container engine was gone for {seconds} s: {said}"));
                }
                Err(_) => sleep(ROUND).await,
            }
        }
    }

    /// An engine that keeps containers alive while it is away tells how they ended. Any other has ended them itself.
    async fn judge(&self, state: bollard::models::ContainerState) -> Found {
        if state.status == Some(ContainerStateStatusEnum::RUNNING) {
            return Found::Running;
        }
        // The containers of Podman are nobody's children.
        let keeps_alive = self.order.spec.reach.is_podman
            || matches!(timeout(REQUEST, self.client.info()).await, Ok(Ok(info)) if info.live_restore_enabled == Some(true));
        let code = state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(KILLED);
        if keeps_alive {
            return Found::Ended(code);
        }
        Found::Gone(format!(
            "the container engine was stopped or restarted, and with it the container (exit {code})"
        ))
    }

    /// All output from the beginning, of which what was passed on is left out.
    fn all_output(&mut self, follow: bool) -> Pieces {
        self.passed.again();
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).follow(follow).build();
        Box::pin(self.client.clone().logs(&self.order.name, Some(options)))
    }
}

fn ended(end: Option<Result<ContainerWaitResponse, Error>>) -> Waited {
    match end {
        Some(Ok(response)) => Waited::Ended(i32::try_from(response.status_code).unwrap_or(KILLED)),
        // The library makes an error of every exit code but 0.
        Some(Err(Error::DockerContainerWaitError { code, .. })) => {
            Waited::Ended(i32::try_from(code).unwrap_or(KILLED))
        }
        Some(Err(_)) | None => Waited::Broken,
    }
}

/// The number of the container's first process on the host.
pub(super) async fn first_process(client: Docker, name: String) -> Option<i32> {
    let call = client.inspect_container(&name, None::<InspectContainerOptions>);
    let found = timeout(REQUEST, call).await.ok()?.ok()?;
    let pid = i32::try_from(found.state?.pid?).ok()?;
    (pid > 0).then_some(pid)
}
