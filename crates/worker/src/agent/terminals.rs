//! Sessions of people with the jobs of this worker: joins each at the scheduler and passes its frames on to the keeper, which
//! has the processes.
//!
//! Guarantees: who may not come in is told why; a session holds up nothing else; when one side is gone the other hears of
//! it; at most [`MOST_SESSIONS`] are open.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_client::{Client, TERMINAL_PING, Terminal, TerminalReader, TerminalWriter};
use muster_protocol::{TerminalEnd, TerminalFrame, TerminalKind, TerminalOrder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::agent_loop::Agent;
use super::held::Stage;
use super::reports;
use crate::executor::KeeperOptions;
use crate::keeper::{self, MAX_TERMINAL_MESSAGE, TerminalGreeting};

/// Sessions of one worker at the same time.
const MOST_SESSIONS: usize = 64;
/// How long the client may take to hear the last word and to close its side.
const FAREWELL: Duration = Duration::from_secs(10);

/// What sessions need.
#[derive(Debug, Clone)]
pub(super) struct Terminals {
    client: Client,
    /// Of the keeper; `None` where jobs are no processes.
    directory: Option<PathBuf>,
    /// Whether programs may be run beside jobs.
    lets_exec: bool,
    places: Arc<Semaphore>,
}

impl Terminals {
    pub(super) fn new(client: Client, keeper: Option<&KeeperOptions>, lets_exec: bool) -> Self {
        let directory = keeper.map(|options| options.directory.clone());
        Self { client, directory, lets_exec, places: Arc::new(Semaphore::new(MOST_SESSIONS)) }
    }

    /// Serves a session in a task of its own. `refusal` is why the job cannot be entered.
    fn open(&self, order: TerminalOrder, refusal: Option<String>) {
        let terminals = self.clone();
        tokio::spawn(async move {
            if let Err(error) = terminals.serve(&order, refusal).await {
                tracing::warn!(job_id = %order.job_id, error, "a terminal broke off");
            }
        });
    }

    async fn serve(&self, order: &TerminalOrder, refusal: Option<String>) -> Result<(), String> {
        let place = self.places.clone().try_acquire_owned();
        let joined = self.client.serve_terminal(order).await.map_err(|error| error.to_string())?;
        let refusal = refusal.or_else(|| match (&place, order.kind) {
            (Err(_), _) => Some(format!("this worker has {MOST_SESSIONS} terminals open, which is the most")),
            (Ok(_), TerminalKind::Exec) if !self.lets_exec => {
                Some("this worker lets nobody run programs beside jobs (--no-exec)".to_owned())
            }
            (Ok(_), _) => None,
        });
        let keeper = match refusal {
            Some(reason) => Err(reason),
            None => self.reach_keeper(order).await,
        };
        match keeper {
            Ok(keeper) => {
                tracing::info!(job_id = %order.job_id, kind = ?order.kind, "somebody enters a job");
                Session::new(joined, order.idle_ms).serve(keeper).await;
            }
            Err(reason) => {
                tracing::info!(job_id = %order.job_id, kind = ?order.kind, reason, "a terminal was refused");
                farewell(joined, &TerminalFrame::Refused(reason)).await;
            }
        }
        Ok(())
    }

    /// A connection to the keeper that has heard what the session is about.
    async fn reach_keeper(&self, order: &TerminalOrder) -> Result<UnixStream, String> {
        let directory = self.directory.as_deref().ok_or("the jobs of this worker have no processes")?;
        let mut keeper = connect(directory).map_err(|error| {
            format!("the keeper of this worker cannot be reached, or is of an older version: {error}")
        })?;
        let key = reports::key_of(&order.job_id, order.lease);
        let greeting = TerminalGreeting { key, kind: order.kind };
        let greeting = serde_json::to_vec(&greeting).map_err(|error| error.to_string())?;
        write_message(&mut keeper, &greeting).await.map_err(|error| error.to_string())?;
        Ok(keeper)
    }
}

impl Agent {
    /// Lets people in who want to enter jobs that run here.
    pub(super) fn open_terminals(&mut self, orders: Vec<TerminalOrder>) {
        for order in orders {
            let key = reports::key_of(&order.job_id, order.lease);
            let refusal = match self.held.get(&key).map(|held| &held.stage) {
                Some(Stage::Running | Stage::Queued) => None,
                Some(_) => Some("the job has no process at this moment".to_owned()),
                None => Some("the job does not run here any more".to_owned()),
            };
            self.terminals.open(order, refusal);
        }
    }
}

fn connect(directory: &Path) -> std::io::Result<UnixStream> {
    let stream = keeper::connect_terminals(directory)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn write_message(
    stream: &mut (impl tokio::io::AsyncWrite + Unpin),
    message: &[u8],
) -> std::io::Result<()> {
    let length = u32::try_from(message.len()).map_err(std::io::Error::other)?;
    let mut bytes = Vec::with_capacity(message.len() + 4);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(message);
    stream.write_all(&bytes).await
}

/// The next message of the keeper; `None` when it has ended the session.
async fn read_message(stream: &mut OwnedReadHalf) -> std::io::Result<Option<Vec<u8>>> {
    let length = match stream.read_u32_le().await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other? as usize,
    };
    if length > MAX_TERMINAL_MESSAGE {
        return Err(std::io::Error::other("the keeper sent a message that is too long"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}

/// Says the last word and waits until the client has heard it.
async fn farewell(terminal: Terminal, last: &TerminalFrame) {
    let Terminal { mut reader, mut writer } = terminal;
    let said = async {
        if writer.send(last).await.is_ok() {
            writer.close().await;
            while let Ok(Some(_)) = reader.message().await {}
        }
    };
    // A client that does not listen goes without.
    let _ = timeout(FAREWELL, said).await;
}

/// When something was last typed or written.
#[derive(Debug, Clone)]
struct Activity {
    begun: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Activity {
    fn now() -> Self {
        Self { begun: Instant::now(), last_ms: Arc::default() }
    }

    fn note(&self) {
        self.last_ms.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Resolves when there was nothing for so long; never for 0.
    async fn ceases(&self, idle_ms: u64) {
        if idle_ms == 0 {
            return std::future::pending().await;
        }
        loop {
            let last = self.begun + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let due = last + Duration::from_millis(idle_ms);
            if Instant::now() >= due {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

/// One session under way.
struct Session {
    reader: TerminalReader,
    writer: TerminalWriter,
    idle_ms: u64,
    activity: Activity,
}

/// How the frames of the keeper came to their end.
enum Ended {
    /// It has said so, or is gone.
    ByKeeper,
    /// Nothing can be sent to the client.
    ByClient,
}

impl Session {
    fn new(terminal: Terminal, idle_ms: u64) -> Self {
        let Terminal { reader, writer } = terminal;
        Self { reader, writer, idle_ms, activity: Activity::now() }
    }

    /// Passes frames on both ways until one side ends the session or nothing happens for too long.
    async fn serve(self, keeper: UnixStream) {
        let Self { mut reader, mut writer, idle_ms, activity } = self;
        let (mut from_keeper, mut to_keeper) = keeper.into_split();
        let idle = activity.clone();
        let ended = tokio::select! {
            () = listen(&mut reader, &mut to_keeper, &activity) => Ended::ByClient,
            ended = tell(&mut from_keeper, &mut writer, &activity) => ended,
            () = idle.ceases(idle_ms) => {
                let reason = Some(format!("nothing was typed or written for {} s", idle_ms / 1000));
                let end = TerminalEnd { reason, ..TerminalEnd::default() };
                let _ = timeout(FAREWELL, writer.send(&TerminalFrame::Ended(end))).await;
                Ended::ByKeeper
            }
        };
        // The keeper hangs up on the program when its side of the session goes.
        drop((from_keeper, to_keeper));
        if matches!(ended, Ended::ByKeeper) {
            let said = async {
                writer.close().await;
                while let Ok(Some(_)) = reader.message().await {}
            };
            let _ = timeout(FAREWELL, said).await;
        }
    }
}

/// Everything that the client says goes to the keeper, until the client is gone.
async fn listen(reader: &mut TerminalReader, to_keeper: &mut OwnedWriteHalf, activity: &Activity) {
    while let Ok(Some(message)) = reader.message().await {
        activity.note();
        if write_message(to_keeper, &message).await.is_err() {
            // The keeper has ended the session: what it said last is on the way to the client.
            return std::future::pending().await;
        }
    }
}

/// Everything that the keeper says goes to the client, and signs of life in between.
async fn tell(from_keeper: &mut OwnedReadHalf, writer: &mut TerminalWriter, activity: &Activity) -> Ended {
    let mut alive = tokio::time::interval_at(Instant::now() + TERMINAL_PING, TERMINAL_PING);
    let (sender, mut messages) = tokio::sync::mpsc::channel(1);
    let read = async {
        // Read as a whole: a message that was read in part must not be dropped for a sign of life.
        while let Ok(Some(message)) = read_message(from_keeper).await {
            if sender.send(message).await.is_err() {
                return;
            }
        }
        drop(sender);
    };
    let write = async {
        loop {
            let sent = tokio::select! {
                message = messages.recv() => match message {
                    None => return Ended::ByKeeper,
                    Some(message) => {
                        activity.note();
                        writer.send_message(message).await
                    }
                },
                _ = alive.tick() => writer.ping().await,
            };
            if sent.is_err() {
                return Ended::ByClient;
            }
        }
    };
    let mut write = std::pin::pin!(write);
    let mut read = std::pin::pin!(read);
    tokio::select! {
        ended = &mut write => ended,
        () = &mut read => write.await,
    }
}
