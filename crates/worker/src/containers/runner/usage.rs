//! What a container uses, read from its control group while it is there.
//!
//! The engine removes the group soon after the end. So it is looked for while the container starts, read now and then, and once more
//! at the moment at which the first process ends: with that one all others of the container have ended, and the group is still there.
//!
//! Guarantee: what is told was read from the group of this container; where that was never seen, nothing is told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_protocol::Usage;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::containers::process_end::watch_end;
use crate::keeper::ContainerGroup;

/// Between two looks for the group of a container that is being started.
const LOOK: Duration = Duration::from_millis(3);
/// How long it is looked for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two readings: a part of the time since the first one, within bounds.
const LEAST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_secs(1);
const PART: u32 = 10;
/// How long the end of the first process may be behind what the engine says.
const LAST: Duration = Duration::from_millis(100);

/// Reads what a container uses until it has ended.
#[derive(Debug)]
pub(super) struct Meter {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// What was seen last.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    usage: Option<Usage>,
    first_process: Option<i32>,
    lacked_memory: bool,
}

impl Meter {
    /// Begins to look for the group of a container. Call it before the container is started.
    pub(super) fn begin(container: &str) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let task = tokio::spawn(measure(container.to_owned(), Arc::clone(&seen)));
        Self { seen, task }
    }

    fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the first process, once it was seen.
    pub(super) fn first_process(&self) -> Option<i32> {
        self.seen().first_process
    }

    /// The same as somebody else has learnt it.
    pub(super) fn tell_first_process(&self, pid: i32) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).first_process = Some(pid);
    }

    /// Whether a process was seen to be killed for want of memory.
    pub(super) fn lacked_memory(&self) -> bool {
        self.seen().lacked_memory
    }

    /// What was used up to the last reading.
    pub(super) fn so_far(&self) -> Option<Usage> {
        self.seen().usage
    }

    /// What was used in all. The container has ended.
    pub(super) async fn in_all(&mut self) -> Option<Usage> {
        if self.seen().usage.is_some() {
            // The last reading may be under way.
            let _ = timeout(LAST, &mut self.task).await;
        }
        self.seen().usage
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn measure(container: String, seen: Arc<Mutex<Seen>>) {
    let known = || *seen.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = Instant::now();
    let group = loop {
        let found = ContainerGroup::named_after(&container);
        let found = found.or_else(|| ContainerGroup::of_process(known().first_process?, &container));
        match found {
            Some(group) => break group,
            None if begun.elapsed() > PATIENCE => return,
            None => sleep(LOOK.max(begun.elapsed() / PART).min(MOST)).await,
        }
    };
    let (begun, mut first) = (Instant::now(), None);
    loop {
        let Some(usage) = group.read() else { return };
        let lacked = group.lacked_memory();
        let pid = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.usage = Some(usage);
            seen.lacked_memory |= lacked;
            if seen.first_process.is_none() {
                seen.first_process = group.first_process();
            }
            seen.first_process
        };
        if first.is_none() {
            first = pid.and_then(|pid| watch_end(pid).ok());
        }
        let pause = (begun.elapsed() / PART).clamp(LEAST, MOST);
        let Some(first) = &first else {
            sleep(pause).await;
            continue;
        };
        if timeout(pause, first.readable()).await.is_ok() {
            if let Some(usage) = group.read() {
                let lacked = group.lacked_memory();
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.usage = Some(usage);
                seen.lacked_memory |= lacked;
            }
            return;
        }
    }
}
