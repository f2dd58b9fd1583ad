//! `muster wait`.

use std::collections::{BTreeMap, BTreeSet};

use muster_client::{Client, EventReader};
use muster_protocol::Job;

use crate::args::WaitArgs;
use crate::exit;
use crate::follow::Patience;
use crate::job_reference::{named, resolve};
use crate::output::{Screen, human, json, note};
use crate::settings::Settings;

pub(crate) async fn run(args: &WaitArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let mut ids = Vec::new();
    for job in &args.jobs {
        ids.push(resolve(&client, job).await?);
    }
    let open = ids.iter().cloned().collect();
    let mut waiting = Waiting { client, screen: settings.screen, ids, open, ended: BTreeMap::new() };
    let all_ended = match args.timeout {
        Some(limit) => match tokio::time::timeout(limit, waiting.until_all_ended()).await {
            Ok(ended) => ended.map(|()| true)?,
            Err(_) => false,
        },
        None => waiting.until_all_ended().await.map(|()| true)?,
    };
    if settings.screen.json {
        json::document(&waiting.in_order())?;
    }
    if !all_ended {
        note(&format!("the time is up, {} of {} jobs have not ended", waiting.open.len(), waiting.ids.len()));
        return Ok(exit::TIMED_OUT);
    }
    Ok(first_failure(&waiting.in_order()))
}

/// The code of the first job that did not succeed, in the order of the command line.
fn first_failure(jobs: &[&Job]) -> u8 {
    jobs.iter().map(|job| exit::of_job(job)).find(|code| *code != exit::OK).unwrap_or(exit::OK)
}

struct Waiting {
    client: Client,
    screen: Screen,
    ids: Vec<String>,
    /// Those that have not ended yet.
    open: BTreeSet<String>,
    ended: BTreeMap<String, Job>,
}

impl Waiting {
    fn in_order(&self) -> Vec<&Job> {
        self.ids.iter().filter_map(|id| self.ended.get(id)).collect()
    }

    /// Listens first and looks second, so that no end falls between the two.
    async fn until_all_ended(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        loop {
            let only = if let [only] = self.ids.as_slice() { Some(only.as_str()) } else { None };
            match self.client.follow_events(only, None).await {
                Ok(mut events) => {
                    patience.restore();
                    self.look().await?;
                    self.listen(&mut events).await?;
                }
                Err(error) => patience.bear(error).await?,
            }
            if self.open.is_empty() {
                return Ok(());
            }
        }
    }

    async fn look(&mut self) -> anyhow::Result<()> {
        for id in self.open.clone() {
            self.check(&id).await?;
        }
        Ok(())
    }

    /// Goes on until all jobs have ended or the stream has.
    async fn listen(&mut self, events: &mut EventReader) -> anyhow::Result<()> {
        while !self.open.is_empty() {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if !matches!(event.kind.as_str(), "done" | "failed" | "cancelled") {
                continue;
            }
            if let Some(id) = event.job_id.filter(|id| self.open.contains(id)) {
                self.check(&id).await?;
            }
        }
        Ok(())
    }

    async fn check(&mut self, id: &str) -> anyhow::Result<()> {
        let job = named(self.client.job(id).await, id, &self.client)?;
        if exit::is_final(job.status) {
            if !self.screen.json {
                self.screen.line(&human::ended(&job, self.screen))?;
            }
            self.open.remove(id);
            self.ended.insert(id.to_owned(), job);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(status: &str, more: &str) -> Job {
        let text = format!(
            r#"{{"id":"job-1","command":"x","status":"{status}","created_at":"2026-05-05T08:33:00Z","max_retries":1,"attempts":1{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_first_failure_on_the_line_decides() {
        let done = job("done", r#","exit_code":0"#);
        let three = job("failed", r#","exit_code":3"#);
        let killed = job("failed", r#","signal":9"#);
        let cancelled = job("cancelled", r#","signal":15"#);
        assert_eq!(first_failure(&[]), 0);
        assert_eq!(first_failure(&[&done, &done]), 0);
        assert_eq!(first_failure(&[&done, &three, &killed]), 3);
        assert_eq!(first_failure(&[&killed, &three]), 137);
        assert_eq!(first_failure(&[&cancelled]), 130);
    }
}
