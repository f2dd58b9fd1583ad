//! The task that sends what jobs write, and says when all of it has arrived.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_client::{Client, ClientError};
use muster_protocol::LogStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::copy_task::CopyTask;
use super::room::Room;
use super::stream::{Step, StreamTail, note};
use super::ticks::Ticks;
use super::watch::{Grown, Watch};
use crate::backoff::Backoff;
use crate::keeper::{Files, Key};
use crate::output_files::{self, OutputFiles};

/// How many attempts send at the same time.
const SENDERS: usize = 16;
/// A running job that writes all the time is sent this often, in larger pieces.
const LIVE_INTERVAL: Duration = Duration::from_millis(50);
/// Beyond the beginning that is always kept, a running job is sent this much at a time, ...
const BURST_BYTES: u64 = 4 * 1024 * 1024;
/// ... and this often: most of it would be dropped in the end.
const BURST_INTERVAL: Duration = Duration::from_millis(250);
/// Those who read along are asked for this often while they come first.
const WAITING_INTERVAL: Duration = Duration::from_millis(20);
/// How long the end of a job waits for those who read its output along: a reader must not hold up what comes
/// after the job for ever.
const END_PATIENCE: Duration = Duration::from_secs(120);
/// How often the kernel is asked at most: a job may write many thousand times a second.
const WATCH_INTERVAL: Duration = Duration::from_millis(20);
/// How much longer than its announcement an end's output is tried: a scheduler may be away for a night.
const ABANDON_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Where the files are, and how long an end waits for them.
#[derive(Debug, Clone)]
pub(crate) struct LogsConfig {
    pub(crate) directory: PathBuf,
    pub(crate) flush: Duration,
}

/// What the shipper says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogEvent {
    /// The output of an ended attempt has arrived, or has waited long enough.
    Delivered(Key),
}

#[derive(Debug)]
enum Command {
    Follow(Attempt),
    Finish(Attempt),
    Discard(Key, Files),
    Limit(u64),
}

/// An attempt whose output is to be sent.
#[derive(Debug)]
struct Attempt {
    key: Key,
    number: u32,
    files: Files,
    /// Where it is written to as well.
    output: Option<OutputFiles>,
}

/// The handle on the shipper.
#[derive(Debug)]
pub(crate) struct Logs {
    commands: mpsc::UnboundedSender<Command>,
    events: mpsc::UnboundedReceiver<LogEvent>,
}

impl Logs {
    /// Starts the shipper on the current runtime.
    pub(crate) fn start(client: Client, config: LogsConfig) -> Self {
        let (commands, incoming) = mpsc::unbounded_channel();
        let (outgoing, events) = mpsc::unbounded_channel();
        tokio::spawn(Shipper::new(client, config, outgoing).run(incoming));
        Self { commands, events }
    }

    /// Sends the output of a running job as it is written.
    pub(crate) fn follow(&self, key: Key, number: u32, files: Files, output: Option<OutputFiles>) {
        self.send(Command::Follow(Attempt { key, number, files, output }));
    }

    /// Sends the rest, says [`LogEvent::Delivered`], and removes the files.
    pub(crate) fn finish(&self, key: Key, number: u32, files: Files, output: Option<OutputFiles>) {
        self.send(Command::Finish(Attempt { key, number, files, output }));
    }

    /// Removes the files of an attempt whose output nobody may send any more.
    pub(crate) fn discard(&self, key: Key, files: Files) {
        self.send(Command::Discard(key, files));
    }

    /// The longest stream that the scheduler keeps.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.send(Command::Limit(bytes));
    }

    /// The next thing to know; never ready once the shipper is gone.
    pub(crate) async fn next(&mut self) -> LogEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    fn send(&self, command: Command) {
        // The shipper lives as long as the runtime; there is nobody to tell when it is gone.
        let _ = self.commands.send(command);
    }
}

/// One attempt.
#[derive(Debug)]
struct Tracked {
    attempt: u32,
    /// Away while a sender has it.
    streams: Option<[StreamTail; 2]>,
    names: [String; 2],
    ticks: [Arc<Mutex<Ticks>>; 2],
    grown: bool,
    not_before: Instant,
    backoff: Backoff,
    finish: Option<Finish>,
}

impl Tracked {
    /// Remembers when a file has grown: it may be sent much later.
    fn note(&self, directory: &Path, name: &str) {
        for (own, ticks) in self.names.iter().zip(&self.ticks) {
            if own == name
                && let Ok(file) = std::fs::metadata(directory.join(name))
            {
                note(ticks, &file);
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Finish {
    announce_at: Instant,
    announced: bool,
    /// Readers are waited for until then.
    patient_until: Instant,
}

/// What a sender brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    Level,
    /// Enough for now.
    Burst,
    /// Those who read along come first.
    Waiting,
}

type Sent = (Key, [StreamTail; 2], Result<Reached, ClientError>);

struct Shipper {
    client: Client,
    config: LogsConfig,
    limit: u64,
    jobs: HashMap<Key, Tracked>,
    names: HashMap<String, Key>,
    senders: JoinSet<Sent>,
    events: mpsc::UnboundedSender<LogEvent>,
}

impl Shipper {
    fn new(client: Client, config: LogsConfig, events: mpsc::UnboundedSender<LogEvent>) -> Self {
        let (jobs, names, senders) = (HashMap::new(), HashMap::new(), JoinSet::new());
        Self { client, config, limit: 0, jobs, names, senders, events }
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut watch = Watch::new(&self.config.directory);
        let mut watch_from = Instant::now();
        loop {
            let now = Instant::now();
            let due = self.next_due(now).unwrap_or(now + Duration::from_secs(3600));
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.apply(command),
                    None => return,
                },
                Some(sent) = self.senders.join_next() => match sent {
                    Ok(sent) => self.sent(sent),
                    // Senders do not panic; one that was cancelled goes with the runtime.
                    Err(_) => return,
                },
                grown = async { tokio::time::sleep_until(watch_from).await; watch.grown().await }, if !self.jobs.is_empty() => {
                    watch_from = Instant::now() + WATCH_INTERVAL;
                    self.mark(grown);
                }
                () = tokio::time::sleep_until(due) => {}
            }
            self.pump(Instant::now());
        }
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::Limit(bytes) => self.limit = bytes,
            Command::Follow(attempt) => self.track(attempt),
            Command::Finish(attempt) => {
                let key = attempt.key.clone();
                self.track(attempt);
                let now = Instant::now();
                let (announce_at, patient_until) = (now + self.config.flush, now + END_PATIENCE);
                if let Some(tracked) = self.jobs.get_mut(&key) {
                    tracked.grown = true;
                    tracked.not_before = now;
                    tracked.finish = Some(Finish { announce_at, announced: false, patient_until });
                }
            }
            Command::Discard(key, files) => {
                self.forget(&key);
                for path in [&files.stdout, &files.stderr] {
                    remove(path);
                    output_files::forget(path);
                }
                remove(&files.result);
            }
        }
    }

    /// Takes an attempt up, if it is not known yet. It may have written before anybody watched.
    fn track(&mut self, attempt: Attempt) {
        let Attempt { key, number, files, output } = attempt;
        if self.jobs.contains_key(&key) {
            return;
        }
        let names = [file_name(&files.stdout), file_name(&files.stderr)];
        for name in &names {
            self.names.insert(name.clone(), key.clone());
        }
        let output = output.unwrap_or_default();
        let copies = [
            CopyTask::new(&key, &files.stdout, output.stdout, output.user.clone()),
            CopyTask::new(&key, &files.stderr, output.stderr, output.user),
        ];
        let [stdout, stderr] = copies;
        let streams = [
            StreamTail::new(LogStream::Stdout, files.stdout).copied(stdout),
            StreamTail::new(LogStream::Stderr, files.stderr).copied(stderr),
        ];
        let ticks = [Arc::clone(&streams[0].ticks), Arc::clone(&streams[1].ticks)];
        let tracked = Tracked {
            attempt: number,
            streams: Some(streams),
            names,
            ticks,
            grown: true,
            not_before: Instant::now(),
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(2)),
            finish: None,
        };
        self.jobs.insert(key, tracked);
    }

    fn forget(&mut self, key: &Key) -> Option<Tracked> {
        let tracked = self.jobs.remove(key)?;
        for name in &tracked.names {
            self.names.remove(name);
        }
        Some(tracked)
    }

    fn mark(&mut self, grown: Grown) {
        match grown {
            Grown::Any => {
                for tracked in self.jobs.values_mut() {
                    tracked.grown = true;
                    tracked.names.iter().for_each(|name| tracked.note(&self.config.directory, name));
                }
            }
            Grown::Names(names) => {
                for name in names {
                    if let Some(tracked) = self.names.get(&name).and_then(|key| self.jobs.get_mut(key)) {
                        tracked.grown = true;
                        tracked.note(&self.config.directory, &name);
                    }
                }
            }
        }
    }

    fn sent(&mut self, (key, streams, result): Sent) {
        let Some(tracked) = self.jobs.get_mut(&key) else { return };
        let followed = streams.iter().any(StreamTail::is_followed);
        tracked.streams = Some(streams);
        match result {
            Ok(reached) => {
                tracked.backoff.succeed();
                tracked.grown |= reached != Reached::Level;
                let pause = match reached {
                    Reached::Waiting => WAITING_INTERVAL,
                    Reached::Level | Reached::Burst if tracked.finish.is_some() => Duration::ZERO,
                    Reached::Level => LIVE_INTERVAL,
                    Reached::Burst if followed => LIVE_INTERVAL,
                    Reached::Burst => BURST_INTERVAL,
                };
                let now = Instant::now();
                tracked.not_before = now + pause;
                // Whoever follows the job leaves when its end is told, so that the output goes first.
                if let Some(finish) = &mut tracked.finish
                    && followed
                    && now < finish.patient_until
                {
                    finish.announce_at = now + self.config.flush;
                }
            }
            Err(error) => {
                tracing::debug!(job_id = %key.job_id, error = %error, "cannot send output, trying again");
                let now = Instant::now();
                tracked.grown = true;
                tracked.not_before = now + tracked.backoff.fail();
                // Where nothing answers, nobody could hear of the end either: its output goes first still.
                if let Some(finish) = &mut tracked.finish
                    && error.status().is_none()
                {
                    finish.announce_at = now + self.config.flush;
                }
            }
        }
        // An end that came while this was under way has marked the files as grown once more.
        if tracked.finish.is_some() && !tracked.grown {
            self.complete(&key);
        }
    }

    fn complete(&mut self, key: &Key) {
        let Some(tracked) = self.forget(key) else { return };
        for stream in tracked.streams.iter().flatten() {
            remove(&stream.path);
            output_files::forget(&stream.path);
        }
        self.announce(key, tracked.finish);
    }

    fn announce(&self, key: &Key, finish: Option<Finish>) {
        if finish.is_some_and(|finish| !finish.announced) {
            // Nobody listens any more only when the worker is about to end.
            let _ = self.events.send(LogEvent::Delivered(key.clone()));
        }
    }

    /// Starts what can be sent now, announces what has waited long enough, gives up what is hopeless.
    fn pump(&mut self, now: Instant) {
        let mut overdue = Vec::new();
        for (key, tracked) in &mut self.jobs {
            if let Some(finish) = tracked.finish
                && now >= finish.announce_at
            {
                overdue.push(key.clone());
            }
            if self.senders.len() >= SENDERS || !tracked.grown || now < tracked.not_before {
                continue;
            }
            if let Some(streams) = tracked.streams.take() {
                tracked.grown = false;
                let followed = streams.iter().any(StreamTail::may_be_followed);
                let patient = tracked.finish.is_none_or(|finish| now < finish.patient_until);
                let errand = Errand {
                    key: key.clone(),
                    attempt: tracked.attempt,
                    room: Room { limit: self.limit, patient },
                    ended: tracked.finish.is_some(),
                    // In parts while somebody follows, so that the end is not told in the middle of it.
                    burst: if tracked.finish.is_some() && !followed { u64::MAX } else { BURST_BYTES },
                };
                let client = self.client.clone();
                self.senders.spawn(async move { errand.run(&client, streams).await });
            }
        }
        for key in overdue {
            self.overdue(&key, now);
        }
    }

    fn overdue(&mut self, key: &Key, now: Instant) {
        let Some(tracked) = self.jobs.get_mut(key) else { return };
        let Some(finish) = &mut tracked.finish else { return };
        if !finish.announced {
            tracing::warn!(job_id = %key.job_id, "reporting the end before its output has arrived");
            let _ = self.events.send(LogEvent::Delivered(key.clone()));
            finish.announced = true;
        }
        if now >= finish.announce_at + ABANDON_AFTER {
            tracing::warn!(job_id = %key.job_id, "giving up on output that the scheduler did not take");
            self.complete(key);
        }
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = |tracked: &Tracked| {
            let send = (tracked.grown && tracked.streams.is_some()).then_some(tracked.not_before);
            let finish = tracked.finish.map(|finish| {
                if finish.announced { finish.announce_at + ABANDON_AFTER } else { finish.announce_at }
            });
            [send, finish].into_iter().flatten().min()
        };
        // A sender that comes back wakes the loop, so what waits only for one must not.
        let busy = self.senders.len() >= SENDERS;
        self.jobs.values().filter_map(due).min().map(|at| if busy { at.max(now + LIVE_INTERVAL) } else { at })
    }
}

/// What one sender has to do.
struct Errand {
    key: Key,
    attempt: u32,
    room: Room,
    /// The process writes nothing more.
    ended: bool,
    /// Bytes of each stream, beyond the beginning that is always kept, after which it is enough for now.
    burst: u64,
}

impl Errand {
    async fn run(self, client: &Client, mut streams: [StreamTail; 2]) -> Sent {
        let result = self.send(client, &mut streams).await;
        (self.key, streams, result)
    }

    /// Sends both streams until they are level with what is written, or enough has gone for now.
    async fn send(&self, client: &Client, streams: &mut [StreamTail; 2]) -> Result<Reached, ClientError> {
        let mut reached = Reached::Level;
        for stream in streams.iter_mut() {
            let mut gone = 0;
            if !stream.copy().await {
                reached = Reached::Waiting;
            }
            loop {
                match stream.step(client, &self.key, self.attempt, self.room).await? {
                    Step::Sent { beyond_head } => gone += beyond_head,
                    Step::Level => break,
                    Step::Waiting => {
                        reached = Reached::Waiting;
                        break;
                    }
                }
                if gone >= self.burst {
                    reached = Reached::Burst;
                    break;
                }
            }
        }
        if self.ended && reached == Reached::Level {
            self.complain(client, streams).await?;
        }
        Ok(reached)
    }
}

impl Errand {
    /// Ends the error output with what went wrong with files of the submitter.
    async fn complain(&self, client: &Client, streams: &mut [StreamTail; 2]) -> Result<(), ClientError> {
        let complaints: String = streams.iter_mut().filter_map(StreamTail::take_complaint).collect();
        if complaints.is_empty() {
            return Ok(());
        }
        streams[1].append(client, &self.key, self.attempt, complaints.into()).await
    }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn remove(path: &str) {
    if !path.is_empty() {
        // Gone already is as good.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shipper with one attempt that has ended long ago, which a sender has at the moment.
    fn finishing() -> (Shipper, Key, [StreamTail; 2], mpsc::UnboundedReceiver<LogEvent>) {
        let client = Client::http("http://127.0.0.1:1").unwrap();
        let config = LogsConfig { directory: PathBuf::from("/nowhere"), flush: Duration::from_secs(3600) };
        let (events, heard) = mpsc::unbounded_channel();
        let mut shipper = Shipper::new(client, config, events);
        let key = Key { job_id: "job-1".into(), lease: 1 };
        let attempt = Attempt { key: key.clone(), number: 1, files: Files::default(), output: None };
        shipper.apply(Command::Finish(attempt));
        let tracked = shipper.jobs.get_mut(&key).unwrap();
        tracked.grown = false;
        let now = Instant::now();
        tracked.finish = Some(Finish { announce_at: now, announced: false, patient_until: now });
        let streams = tracked.streams.take().unwrap();
        (shipper, key, streams, heard)
    }

    #[tokio::test]
    async fn an_end_waits_for_its_output_while_nothing_answers() {
        let (mut shipper, key, streams, mut heard) = finishing();
        let unreachable = ClientError::Unreachable { url: "u".into(), source: "refused".into() };
        shipper.sent((key, streams, Err(unreachable)));
        shipper.pump(Instant::now());
        assert!(heard.try_recv().is_err(), "the end is not told before its output");
    }

    #[tokio::test]
    async fn an_end_does_not_wait_for_an_answer_that_does_not_come() {
        let (mut shipper, key, _streams, mut heard) = finishing();
        shipper.pump(Instant::now());
        assert_eq!(heard.try_recv().unwrap(), LogEvent::Delivered(key));
    }
}
