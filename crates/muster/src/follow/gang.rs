//! One gang from now to its end, through all of its rounds.

use std::time::Duration;

use muster_client::{Client, ClientError, EventReader};
use muster_protocol::{Event, Job};
use tokio::task::JoinSet;

use super::patience::Patience;
use super::ranks::{Part, Rank, RankSink, copy_ranks};
use crate::gang::Narrator;
use crate::output::note;

/// How often it is looked at when nothing rings.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What to follow.
#[derive(Debug)]
pub(crate) struct GangFollower {
    pub(crate) client: Client,
    pub(crate) gang_id: String,
    /// The first task, whose events say when there is something to look at.
    pub(crate) first_task: String,
    /// The tasks whose output is wanted.
    pub(crate) ranks: Vec<Rank>,
    pub(crate) sink: RankSink,
    /// Whether there may be output already; the rounds that it is from are not told then.
    pub(crate) part: Part,
}

/// How a gang ended.
#[derive(Debug)]
pub(crate) struct EndedGang {
    pub(crate) tasks: Vec<Job>,
    pub(crate) events: Vec<Event>,
}

/// A gang that was followed to its end.
#[derive(Debug)]
pub(crate) struct FollowedGang {
    pub(crate) ended: EndedGang,
    /// Something of its output was missing.
    pub(crate) incomplete: bool,
}

/// Prints the output of all wanted tasks and says what happens to the rounds; returns when the output has ended.
pub(crate) async fn follow_gang(follower: GangFollower) -> anyhow::Result<FollowedGang> {
    let GangFollower { client, gang_id, first_task, ranks, mut sink, part } = follower;
    let mut story = Story { narrator: Narrator::default(), after: 0, silent: sink.is_json() };
    if part != Part::Coming {
        story.go_on(&client, &gang_id, false).await;
    }
    let mut bell = Bell { client: client.clone(), first_task, events: None };
    // A set, so that it ends with this.
    let mut copying = JoinSet::new();
    let reader = client.clone();
    copying.spawn(async move {
        copy_ranks(&reader, ranks, part, &mut sink).await?;
        anyhow::Ok(sink.is_incomplete())
    });
    let incomplete = loop {
        tokio::select! {
            copied = copying.join_next() => {
                break copied.transpose()?.transpose()?.unwrap_or_default();
            }
            () = bell.rung(story.after) => story.go_on(&client, &gang_id, true).await,
        }
    };
    story.go_on(&client, &gang_id, true).await;
    Ok(FollowedGang { ended: ended_gang(&client, &gang_id).await?, incomplete })
}

/// The gang as it is, with all that happened to it; a scheduler that restarts is waited for.
pub(crate) async fn ended_gang(client: &Client, gang_id: &str) -> anyhow::Result<EndedGang> {
    let mut patience = Patience::default();
    loop {
        match read(client, gang_id).await {
            Ok(ended) => return Ok(ended),
            Err(error) => patience.bear(error).await?,
        }
    }
}

async fn read(client: &Client, gang_id: &str) -> Result<EndedGang, ClientError> {
    Ok(EndedGang { tasks: client.gang(gang_id).await?, events: all_events(client, gang_id).await? })
}

/// All that has happened to a gang, however much it is.
pub(crate) async fn all_events(client: &Client, gang_id: &str) -> Result<Vec<Event>, ClientError> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let last = events.last().map_or(0, |event| event.id);
        let mut more = client.gang_events(gang_id, last).await?;
        more.retain(|event| event.id > last);
        if more.is_empty() {
            return Ok(events);
        }
        events.extend(more);
    }
}

/// What has been told so far.
struct Story {
    narrator: Narrator,
    after: u64,
    silent: bool,
}

impl Story {
    /// Tells what is new. A scheduler that does not answer is asked again later.
    async fn go_on(&mut self, client: &Client, gang_id: &str, aloud: bool) {
        while let Ok(mut events) = client.gang_events(gang_id, self.after).await {
            events.retain(|event| event.id > self.after);
            if events.is_empty() {
                return;
            }
            for event in &events {
                self.after = event.id;
                let sentence = self.narrator.hear(event);
                if let Some(sentence) = sentence.filter(|_| aloud && !self.silent) {
                    note(&sentence);
                }
            }
        }
    }
}

/// Rings when something happens to the first task, and now and then.
struct Bell {
    client: Client,
    first_task: String,
    events: Option<EventReader>,
}

impl Bell {
    async fn rung(&mut self, after: u64) {
        let ring = async {
            if self.events.is_none() {
                self.events = self.client.follow_events(Some(&self.first_task), Some(after)).await.ok();
            }
            let heard = match &mut self.events {
                Some(events) => matches!(events.next().await, Ok(Some(_))),
                None => false,
            };
            if !heard {
                self.events = None;
                std::future::pending::<()>().await;
            }
        };
        // Looked at now and then as well: the first task may be done while others start again.
        let _ = tokio::time::timeout(LOOK_AGAIN, ring).await;
    }
}
