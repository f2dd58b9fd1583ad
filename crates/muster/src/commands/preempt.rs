//! `muster preempt`: running jobs and gangs make room and come back.

use muster_client::Client;
use muster_protocol::{Job, JobStatus};

use super::change::is_connection;
use crate::args::PreemptArgs;
use crate::exit;
use crate::job_reference::named;
use crate::output::{json, note};
use crate::set_reference::{JobOrGang, resolve_job_or_gang};
use crate::settings::Settings;

pub(crate) async fn run(args: &PreemptArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let mut changed = Vec::new();
    let mut code = exit::OK;
    for text in &args.ids {
        match ask(&client, text, args.message.as_deref()).await {
            Ok(jobs) => {
                if !settings.screen.json {
                    tell(&jobs, settings)?;
                }
                changed.extend(jobs);
            }
            // Nobody to answer means nobody to answer for the others either.
            Err(error) if is_connection(&error) => return Err(error),
            Err(error) => {
                note(&format!("{error:#}"));
                code = exit::FAILURE;
            }
        }
    }
    if settings.screen.json {
        json::document(&changed)?;
    }
    Ok(code)
}

async fn ask(client: &Client, text: &str, message: Option<&str>) -> anyhow::Result<Vec<Job>> {
    match resolve_job_or_gang(client, text).await? {
        JobOrGang::Gang(id) => named(client.preempt_gang(&id, message).await, &id, client),
        JobOrGang::Job(id) => Ok(vec![named(client.preempt(&id, message).await, &id, client)?]),
    }
}

fn tell(jobs: &[Job], settings: &Settings) -> std::io::Result<()> {
    for job in jobs {
        let what = match job.status {
            JobStatus::Preempting => "is asked to make room",
            _ => "has made room and waits",
        };
        settings.screen.line(&format!("{} {what}", job.id))?;
    }
    Ok(())
}
