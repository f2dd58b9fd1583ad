//! What a command waits for, a job or a gang, said on the terminal while it waits.
//!
//! Guarantee: it never delays or ends what it speaks about; without a terminal it does nothing.

use std::time::Duration;

use jiff::Timestamp;
use muster_client::{Client, gang_state_name, status_name};
use muster_protocol::{GangState, Job, JobStatus};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::gang;
use crate::job_reference::GANG_PREFIX;
use crate::output::quantities::{age, printable};
use crate::output::{pulling, status};

/// What is over sooner needs no words.
const SOON: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_secs(1);
/// How often the scheduler is asked.
const ASK: Duration = Duration::from_secs(3);

/// How long it is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Then the output of the job speaks.
    Started,
    Ended,
}

/// Speaks until it is dropped.
#[derive(Debug)]
pub(crate) struct JobProgress {
    open: watch::Sender<Vec<String>>,
    task: Option<JoinHandle<()>>,
}

impl JobProgress {
    /// About these jobs and gangs, of which none has ended yet.
    pub(crate) fn start(client: &Client, jobs: Vec<String>, until: Until) -> Self {
        let total = jobs.len();
        let (open, receiver) = watch::channel(jobs);
        let speaker = Speaker { client: client.clone(), total, until, open: receiver };
        let task = status::is_possible().then(|| tokio::spawn(speaker.speak()));
        Self { open, task }
    }

    /// One of the jobs has ended.
    pub(crate) fn ended(&self, job_id: &str) {
        self.open.send_modify(|open| open.retain(|id| id != job_id));
    }
}

impl Drop for JobProgress {
    fn drop(&mut self) {
        self.task.take().inspect(JoinHandle::abort);
        status::clear();
    }
}

struct Speaker {
    client: Client,
    total: usize,
    until: Until,
    open: watch::Receiver<Vec<String>>,
}

impl Speaker {
    async fn speak(mut self) {
        let begun = Timestamp::now();
        let mut asked: Option<Instant> = None;
        let mut about = String::new();
        tokio::time::sleep(SOON).await;
        loop {
            let open = self.open.borrow_and_update().clone();
            let Some(first) = open.first() else { return };
            if asked.is_none_or(|asked| asked.elapsed() >= ASK) || !about.starts_with(short(first)) {
                asked = Some(Instant::now());
                match self.ask(first).await {
                    Word::Say(text) => about = text,
                    Word::Silence => about.clear(),
                    Word::Farewell => {
                        status::clear();
                        return;
                    }
                }
            }
            if !about.is_empty() {
                status::show(&line(open.len(), self.total, &age(begun, Timestamp::now()), &about));
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// What the job is doing, as far as that is of interest.
    async fn ask(&self, job_id: &str) -> Word {
        if job_id.starts_with(GANG_PREFIX) {
            return self.ask_gang(job_id).await;
        }
        let Ok(job) = self.client.job(job_id).await else { return no_answer(job_id) };
        let waits = matches!(job.status, JobStatus::Pending | JobStatus::Blocked | JobStatus::Preempted);
        let is_pulled = job.image_pull.is_none();
        if self.until == Until::Started && !waits && job.status != JobStatus::Reserved && is_pulled {
            // The pull of its image may be about to begin. Workers that never name an image are asked about in vain.
            let may_pull =
                job.status == JobStatus::Running && job.image.is_some() && job.image_digest.is_none();
            return if may_pull { Word::Silence } else { Word::Farewell };
        }
        let reasons = if waits { self.client.why(job_id).await.map(|why| why.reasons).ok() } else { None };
        let reason = reasons.unwrap_or_default().into_iter().next().map(|reason| reason.message);
        Word::Say(describe(&job, reason.as_deref(), Timestamp::now()))
    }

    /// The same for a gang, which may wait again after it has started.
    async fn ask_gang(&self, id: &str) -> Word {
        let Ok(tasks) = self.client.gang(id).await else { return no_answer(id) };
        let state = gang::state(&tasks);
        let waits = matches!(state, GangState::Waiting | GangState::Starting);
        if self.until == Until::Started && !waits {
            return if gang::is_final(state) { Word::Farewell } else { Word::Silence };
        }
        let reasons = if waits { self.client.gang_why(id).await.map(|why| why.reasons).ok() } else { None };
        let reason = reasons.unwrap_or_default().into_iter().next().map(|reason| reason.message);
        Word::Say(describe_gang(id, &tasks, reason.as_deref()))
    }
}

/// What there is to say now.
enum Word {
    Say(String),
    Silence,
    /// There will be nothing more.
    Farewell,
}

fn no_answer(id: &str) -> Word {
    Word::Say(format!("{}: no answer from the scheduler, trying again", short(id)))
}

fn short(job_id: &str) -> &str {
    crate::watch::short(job_id)
}

/// The beginning is the id, by which the line is known to be about this job.
fn describe(job: &Job, reason: Option<&str>, now: Timestamp) -> String {
    let name = job.name.as_deref().map(|name| format!(" ({})", printable(name))).unwrap_or_default();
    let state = match (&job.worker_id, job.started_at) {
        (Some(worker), Some(at)) if job.status == JobStatus::Running => {
            format!("running on {} for {}", printable(worker), age(at, now))
        }
        _ => status_name(job.status).to_owned(),
    };
    let pull = job.image_pull.as_ref().map(pulling);
    let reason = reason.map(printable).or(pull);
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{name} {state}{reason}", short(&job.id))
}

fn describe_gang(id: &str, tasks: &[Job], reason: Option<&str>) -> String {
    let name = tasks.first().and_then(|task| task.name.as_deref());
    let name = name.map(|name| format!(" ({})", printable(name))).unwrap_or_default();
    let state = gang_state_name(gang::state(tasks));
    let reason = reason.map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
    format!("{}{name} {state}, {} tasks{reason}", short(id), tasks.len())
}

fn line(open: usize, total: usize, since: &str, about: &str) -> String {
    if total == 1 {
        return format!("waiting {since}: {about}");
    }
    format!("waiting {since}, {} of {total} ended: {about}", total - open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(more: &str) -> Job {
        let text = format!(
            r#"{{"id":"job-3f0c1a2b-0000","command":"x","created_at":"2026-05-05T08:00:00Z","max_retries":1,"attempts":0,{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_line_says_what_is_waited_for_and_since_when() {
        let now = "2026-05-05T08:10:00Z".parse().unwrap();
        let pending = describe(&job(r#""status":"pending","name":"train""#), Some("no worker has room"), now);
        assert_eq!(
            line(1, 1, "12s", &pending),
            "waiting 12s: job-3f0c1a2b (train) pending: no worker has room"
        );
        let tasks = [job(r#""status":"blocked","name":"train""#), job(r#""status":"blocked""#)];
        assert_eq!(
            describe_gang("gang-3f0c1a2b-0000", &tasks, Some("needs 2 workers, has 1")),
            "gang-3f0c1a2b (train) waiting, 2 tasks: needs 2 workers, has 1"
        );
        let running = job(r#""status":"running","worker_id":"w1","started_at":"2026-05-05T08:05:00Z""#);
        assert_eq!(
            line(2, 3, "5m", &describe(&running, None, now)),
            "waiting 5m, 1 of 3 ended: job-3f0c1a2b running on w1 for 5m"
        );
    }
}
