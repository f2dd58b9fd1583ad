//! The filter line: words that the scheduler understands, and words that are looked for in what was read.

use muster_client::status_name;
use muster_protocol::{Job, JobStatus};

/// What is shown. An empty filter shows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) queue: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) worker: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) pipeline: Option<String>,
    pub(crate) array: Option<String>,
    /// Empty for any.
    pub(crate) statuses: Vec<JobStatus>,
    /// Lower case; each must be found in the id, name, command, queue or worker of a job.
    pub(crate) words: Vec<String>,
}

/// What can stand before a colon.
pub(crate) const KEYS: &str = "queue: name: worker: tag: status: pipeline: array:";

const STATUSES: [JobStatus; 10] = [
    JobStatus::Pending,
    JobStatus::Blocked,
    JobStatus::Reserved,
    JobStatus::Running,
    JobStatus::Preempting,
    JobStatus::Preempted,
    JobStatus::Finished,
    JobStatus::Done,
    JobStatus::Failed,
    JobStatus::Cancelled,
];

impl Filter {
    /// Reads a line such as `queue:night train`. What is unknown before a colon is said.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for word in line.split_whitespace() {
            let Some((key, value)) = word.split_once(':') else {
                filter.words.push(word.to_lowercase());
                continue;
            };
            let value = value.to_owned();
            if value.is_empty() {
                return Err(format!("{key}: needs a value, for example {key}:{}", example(key)));
            }
            match key {
                "queue" | "q" => filter.queue = Some(value),
                "name" | "n" => filter.name = Some(value),
                "worker" | "w" => filter.worker = Some(value),
                "tag" | "t" => filter.tag = Some(value),
                "pipeline" | "p" => filter.pipeline = Some(value),
                "array" | "a" => filter.array = Some(value),
                "status" | "s" => filter.statuses.extend(statuses(&value)?),
                _ => return Err(format!("{key}: is unknown; there are {KEYS}")),
            }
        }
        Ok(filter)
    }

    /// The states of a group that the filter leaves.
    pub(crate) fn statuses_among(&self, group: &[JobStatus]) -> Vec<JobStatus> {
        let wanted = |status: &&JobStatus| self.statuses.is_empty() || self.statuses.contains(status);
        group.iter().filter(wanted).copied().collect()
    }

    pub(crate) fn matches(&self, job: &Job) -> bool {
        let found = |word: &String| {
            let texts = [
                Some(job.id.as_str()),
                job.name.as_deref(),
                Some(job.command.as_str()),
                job.queue_name.as_deref(),
                job.worker_id.as_deref(),
            ];
            let in_text = |text: &str| text.to_lowercase().contains(word.as_str());
            texts.into_iter().flatten().any(in_text) || job.argv.iter().any(|argument| in_text(argument))
        };
        self.words.iter().all(found)
    }
}

fn statuses(text: &str) -> Result<Vec<JobStatus>, String> {
    let known = |name: &str| STATUSES.into_iter().find(|status| status_name(*status) == name);
    text.split(',')
        .map(|name| known(name).ok_or_else(|| format!("{name} is no status; try status:failed")))
        .collect()
}

fn example(key: &str) -> &'static str {
    match key {
        "status" | "s" => "failed",
        "worker" | "w" => "gpu-07",
        _ => "nightly",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_to_the_scheduler_and_words_stay_here() {
        let filter = Filter::parse(" queue:night  Train status:failed,done ").unwrap();
        assert_eq!(filter.queue.as_deref(), Some("night"));
        assert_eq!(filter.words, ["train"]);
        assert_eq!(filter.statuses_among(&STATUSES), [JobStatus::Done, JobStatus::Failed]);
        assert_eq!(filter.statuses_among(&[JobStatus::Running]), []);
        assert_eq!(Filter::parse("").unwrap(), Filter::default());
    }

    #[test]
    fn what_is_wrong_is_said_with_a_way_out() {
        assert!(Filter::parse("status:asleep").unwrap_err().contains("status:failed"));
        assert!(Filter::parse("colour:red").unwrap_err().contains("queue:"));
        assert!(Filter::parse("queue:").unwrap_err().contains("queue:nightly"));
    }

    #[test]
    fn every_word_must_be_found_somewhere() {
        let job: Job = serde_json::from_str(
            r#"{"id":"job-1","command":"","argv":["python","Train.py"],"status":"pending","queue_name":"night",
                "created_at":"2026-05-05T08:00:00Z","max_retries":3,"attempts":0}"#,
        )
        .unwrap();
        assert!(Filter::parse("train NIGHT").unwrap().matches(&job));
        assert!(!Filter::parse("train day").unwrap().matches(&job));
    }
}
