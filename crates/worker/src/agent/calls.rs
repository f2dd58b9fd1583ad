//! The requests that are under way.
//!
//! At most one of each kind: a poll that waits for jobs and orders, a batch of reports, a heartbeat for all jobs, and a
//! wait for the word to start prepared tasks. Guarantee: a poll that may claim something is never abandoned, because nobody
//! would ever hear of what it claimed.

use std::time::Duration;

use muster_client::{Client, ClientError};
use muster_protocol::{JobReport, LeaseRef, RegisterRequest, SyncRequest, SyncResponse, Worker};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::claim_keys::{ClaimKey, ClaimKeys, is_unanswered};
use super::registration;
use crate::keeper::boottime_ns;

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Poll,
    Report,
    Beat,
    Recall,
    /// Waits for the word to start prepared tasks.
    Go,
}

/// A request that came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) kind: Kind,
    number: u64,
    /// When it was sent: no lease in it is younger than that. For a claim, when it was sent first.
    pub(super) sent_ns: u64,
    claim: Option<ClaimKey>,
    pub(super) reports: Vec<JobReport>,
    pub(super) result: Result<SyncResponse, ClientError>,
}

/// What comes back.
#[derive(Debug)]
pub(super) enum Returned {
    Synced(Box<Answer>),
    Registered(Box<Result<Worker, ClientError>>),
}

#[derive(Debug)]
struct Poll {
    number: u64,
    max: u32,
    abort: AbortHandle,
}

/// The wait for the start of these tasks.
#[derive(Debug)]
struct GoCall {
    number: u64,
    tasks: Vec<LeaseRef>,
    abort: AbortHandle,
}

/// The requests under way and the way they come back.
#[derive(Debug)]
pub(super) struct Calls {
    client: Client,
    worker_id: String,
    beat_timeout: Duration,
    sender: mpsc::UnboundedSender<Returned>,
    receiver: mpsc::UnboundedReceiver<Returned>,
    numbers: u64,
    claims: ClaimKeys,
    poll: Option<Poll>,
    report_max: Option<u32>,
    beating: bool,
    recalling: bool,
    go: Option<GoCall>,
}

impl Calls {
    /// Whether they show a key of the worker's own.
    pub(super) fn show_key(&self) -> bool {
        self.client.shows_token()
    }

    pub(super) fn new(client: Client, worker_id: String, beat_timeout: Duration) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            client,
            worker_id,
            beat_timeout,
            sender,
            receiver,
            numbers: 0,
            claims: ClaimKeys::default(),
            poll: None,
            report_max: None,
            beating: false,
            recalling: false,
            go: None,
        }
    }

    /// How many jobs the requests under way may bring.
    pub(super) fn asked_for(&self) -> u32 {
        self.poll.as_ref().map_or(0, |poll| poll.max) + self.report_max.unwrap_or(0)
    }

    /// What the open poll asks for, if there is one.
    pub(super) fn poll_max(&self) -> Option<u32> {
        self.poll.as_ref().map(|poll| poll.max)
    }

    pub(super) fn is_reporting(&self) -> bool {
        self.report_max.is_some()
    }

    pub(super) fn is_beating(&self) -> bool {
        self.beating
    }

    pub(super) fn is_recalling(&self) -> bool {
        self.recalling
    }

    /// Opens the poll.
    pub(super) fn poll(&mut self, max: u32, ahead: u32, wait: Duration) {
        let wait_ms = wait.as_millis() as u64;
        let request =
            SyncRequest { max, ahead, wait_ms, orders: true, own_leases: true, ..SyncRequest::default() };
        let (number, abort) = self.send(Kind::Poll, request, None);
        self.poll = Some(Poll { number, max, abort });
    }

    /// Sends reports, and asks for as many jobs as there is room for now.
    pub(super) fn report(&mut self, reports: Vec<JobReport>, max: u32, ahead: u32) {
        let request = SyncRequest { reports, max, ahead, own_leases: true, ..SyncRequest::default() };
        self.send(Kind::Report, request, None);
        self.report_max = Some(max);
    }

    /// Renews leases, and tells which ports are kept if that is news.
    pub(super) fn beat(&mut self, heartbeats: Vec<LeaseRef>, ports: Option<Vec<u16>>) {
        let timeout = Some(self.beat_timeout);
        self.send(Kind::Beat, SyncRequest { heartbeats, ports, ..SyncRequest::default() }, timeout);
        self.beating = true;
    }

    /// Tells the scheduler that no more jobs are wanted for now; it then answers the poll.
    pub(super) fn recall(&mut self) {
        let timeout = Some(self.beat_timeout);
        self.send(Kind::Recall, SyncRequest { leaving: true, ..SyncRequest::default() }, timeout);
        self.recalling = true;
    }

    /// Whether the word to start is waited for, for these tasks and no others.
    pub(super) fn awaits_go(&self, tasks: &[LeaseRef]) -> bool {
        self.go.as_ref().is_some_and(|call| call.tasks == tasks)
    }

    /// Says that these tasks are prepared, and waits for what becomes of them. Takes the place of such a wait for other
    /// tasks, which has nothing to lose.
    pub(super) fn await_go(&mut self, tasks: Vec<LeaseRef>, wait: Duration) {
        self.forget_go();
        let wait_ms = wait.as_millis() as u64;
        let request = SyncRequest { prepared: tasks.clone(), wait_ms, ..SyncRequest::default() };
        let (number, abort) = self.send(Kind::Go, request, Some(wait + self.beat_timeout));
        self.go = Some(GoCall { number, tasks, abort });
    }

    /// Waits for no start any more.
    pub(super) fn forget_go(&mut self) {
        if let Some(call) = self.go.take() {
            call.abort.abort();
        }
    }

    /// Gives the poll up. Only for polls that ask for no jobs, or when the worker cannot wait any longer.
    pub(super) fn abandon_poll(&mut self) {
        if let Some(poll) = self.poll.take() {
            poll.abort.abort();
        }
    }

    /// Registers; the answer comes back like all others.
    pub(super) fn register(&self, request: RegisterRequest) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        tokio::spawn(async move {
            let result = registration::register(&client, &request).await;
            let result = Box::new(result.map(|(worker, _)| worker));
            // The loop is gone only when the worker ends.
            let _ = sender.send(Returned::Registered(result));
        });
    }

    /// The next request that comes back.
    pub(super) async fn next(&mut self) -> Option<Returned> {
        self.receiver.recv().await
    }

    /// Notes that a request is no longer under way.
    pub(super) fn settle(&mut self, answer: &Answer) {
        if let (Some(claim), Err(error)) = (&answer.claim, &answer.result)
            && is_unanswered(error)
        {
            self.claims.unanswered(claim.clone());
        }
        match answer.kind {
            Kind::Poll => {
                if self.poll.as_ref().is_some_and(|poll| poll.number == answer.number) {
                    self.poll = None;
                }
            }
            Kind::Report => self.report_max = None,
            Kind::Beat => self.beating = false,
            Kind::Recall => self.recalling = false,
            Kind::Go => {
                if self.go.as_ref().is_some_and(|call| call.number == answer.number) {
                    self.go = None;
                }
            }
        }
    }

    fn send(
        &mut self,
        kind: Kind,
        mut request: SyncRequest,
        timeout: Option<Duration>,
    ) -> (u64, AbortHandle) {
        self.numbers += 1;
        let number = self.numbers;
        let claim = (request.max > 0).then(|| self.claims.next(boottime_ns()));
        if let Some(claim) = &claim {
            (request.claim_key, request.claim_again) = (Some(claim.key.clone()), claim.again);
            (request.prepares, request.takes_inputs, request.takes_all_inputs) = (true, true, true);
        }
        let (client, worker_id, sender) = (self.client.clone(), self.worker_id.clone(), self.sender.clone());
        let task = tokio::spawn(async move {
            let sent_ns = claim.as_ref().map_or_else(boottime_ns, |claim| claim.since_ns);
            let call = client.sync_worker(&worker_id, &request);
            let result = match timeout {
                None => call.await,
                Some(after) => tokio::time::timeout(after, call)
                    .await
                    .unwrap_or_else(|_| Err(ClientError::TimedOut { url: client.url().to_owned(), after })),
            };
            let answer = Answer { kind, number, sent_ns, claim, reports: request.reports, result };
            // The loop is gone only when the worker ends.
            let _ = sender.send(Returned::Synced(Box::new(answer)));
        });
        (number, task.abort_handle())
    }
}
