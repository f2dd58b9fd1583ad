//! Messages between workers and schedulers: requests to the server's own routes, without sockets, and what a
//! network does to them.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::oneshot;
use tower::ServiceExt as _;

use super::stage::{Stage, World};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// How long its sender waits for the answer.
    pub(crate) patience: Duration,
    /// It is not to arrive twice, nor late.
    pub(crate) once: bool,
}

impl Message {
    /// A request that takes no time to answer.
    pub(crate) fn new(method: &'static str, path: String, body: impl Into<Bytes>) -> Self {
        Self { method, path, body: body.into(), patience: Duration::from_secs(8), once: false }
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, http::Error> {
        Request::builder().method(self.method).uri(&self.path).body(Full::new(self.body.clone()))
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// No answer came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost;

/// What becomes of a message.
struct Journey {
    lost: bool,
    answer_lost: bool,
    copies: u32,
    takes: [Duration; 2],
    back: Duration,
    /// When its sender gives up, whether the other side notices.
    hangs_up: bool,
}

fn millis(n: u32) -> Duration {
    Duration::from_millis(u64::from(n))
}

impl World {
    fn journey(&mut self, from: usize, once: bool) -> Journey {
        let network = self.mischief.network;
        let random = &mut self.lines[from];
        let lost = random.chance(network.lost);
        let answer_lost = random.chance(network.answers_lost);
        let doubled = random.chance(network.doubled) && !once;
        let late = random.chance(network.late) && !once;
        let mut takes = || if late { random.within(100, 60_000) } else { random.within(1, 20) };
        let takes = [millis(takes()), millis(takes())];
        let back = millis(random.within(1, 10));
        let hangs_up = random.chance(500);
        for (happened, name) in [
            (lost, "message lost"),
            (answer_lost, "answer lost"),
            (doubled, "message doubled"),
            (late, "message late"),
        ] {
            if happened {
                self.fault(name);
            }
        }
        Journey { lost, answer_lost, copies: if doubled { 2 } else { 1 }, takes, back, hangs_up }
    }
}

impl Stage {
    /// Sends a message from a worker to a scheduler and waits for the answer.
    pub(crate) async fn call(&self, from: usize, to: usize, message: &Message) -> Result<Reply, Lost> {
        let journey = self.world().journey(from, message.once);
        let cut = self.world().is_cut(from, to);
        if cut || journey.lost {
            let waits = self.world().pause(500, 3_000);
            tokio::time::sleep(waits.min(message.patience)).await;
            return Err(Lost);
        }
        let mut answers = Vec::new();
        for copy in 0..journey.copies {
            answers.push(self.carry(to, message, journey.takes[copy as usize])?);
        }
        let Some((answer, handle)) = answers.pop() else { return Err(Lost) };
        let reply = match tokio::time::timeout(message.patience, answer).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => return Err(Lost),
            Err(_) => {
                if journey.hangs_up {
                    handle.abort();
                }
                return Err(Lost);
            }
        };
        tokio::time::sleep(journey.back).await;
        if journey.answer_lost || self.world().is_cut(from, to) {
            return Err(Lost);
        }
        Ok(reply)
    }

    /// Brings a message to a scheduler, whether or not anybody waits for the answer.
    fn carry(
        &self,
        to: usize,
        message: &Message,
        takes: Duration,
    ) -> Result<(oneshot::Receiver<Reply>, tokio::task::AbortHandle), Lost> {
        let mut world = self.world();
        let instance = &mut world.instances[to];
        let router = instance.server.as_ref().ok_or(Lost)?.router();
        let request = message.request().map_err(|_| Lost)?;
        let (sender, receiver) = oneshot::channel();
        let task = tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            // The error of a router is that it has none.
            let Ok(response) = router.oneshot(request).await;
            let status = response.status().as_u16();
            if let Ok(body) = response.into_body().collect().await {
                let _ = sender.send(Reply { status, body: body.to_bytes() });
            }
        });
        instance.calls.retain(|call| !call.is_finished());
        instance.calls.push(task.abort_handle());
        Ok((receiver, task.abort_handle()))
    }

    /// A message that somebody who does not wait sends past the network.
    pub(crate) fn slip(&self, to: usize, message: &Message) {
        let _ = self.carry(to, message, Duration::ZERO);
    }
}
