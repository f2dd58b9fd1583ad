//! Lines of the archive: where they go, what is in them, and what a crash leaves.

use std::fs;
use std::sync::Arc;

use muster_domain::{Event, EventKind, Job, JobId, JobSpec, Phase, Timestamp};
use muster_store::JobView;
use serde_json::Value;

use super::*;

const DAY: i64 = 86_400_000_000;

fn finished(number: u8, end: i64) -> FinishedJob {
    let (id, end) = (JobId::from_random([number; 16]), Timestamp::from_micros(end));
    let job = Job::new(id, Arc::new(JobSpec::shell("x")), Phase::Done { at: end }, Timestamp::default());
    let events = vec![Event::of_job(id, end, EventKind::Unblocked)];
    FinishedJob { view: JobView { job, checkpoint: None }, events }
}

fn read(directory: &Path, day: &str) -> Vec<Value> {
    let text = fs::read_to_string(directory.join(format!("jobs-{day}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn each_day_has_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let archive = Archive::open(&directory.path().join("a/b")).unwrap();
    let jobs = [finished(1, DAY - 1), finished(2, DAY), finished(3, DAY + 5)];
    archive.append(&jobs[..2]).await.unwrap();
    archive.append(&jobs[2..]).await.unwrap();
    let (first, second) = (read(&archive.directory, "1970-01-01"), read(&archive.directory, "1970-01-02"));
    assert_eq!(first.len(), 1);
    let ids: Vec<_> = second.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, jobs[1..].iter().map(|job| job.view.job.id.to_string()).collect::<Vec<_>>());
    assert_eq!(first[0]["status"], "done");
    assert_eq!(first[0]["events"][0]["type"], "unblocked");
}

#[tokio::test]
async fn a_torn_line_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let archive = Archive::open(directory.path()).unwrap();
    let path = directory.path().join("jobs-1970-01-01.jsonl");
    for torn in [br#"{"id":"half"#.to_vec(), vec![b'x'; 3 * BLOCK as usize]] {
        fs::remove_file(&path).ok();
        fs::write(&path, &torn).unwrap();
        archive.append(&[finished(1, 5)]).await.unwrap();
        assert_eq!(read(directory.path(), "1970-01-01").len(), 1, "nothing but the torn line was there");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(&torn).unwrap();
        archive.append(&[finished(2, 6)]).await.unwrap();
        assert_eq!(read(directory.path(), "1970-01-01").len(), 2);
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let archive = Archive::open(directory.path()).unwrap();
    fs::create_dir(directory.path().join("jobs-1970-01-01.jsonl")).unwrap();
    assert!(archive.append(&[finished(1, 5)]).await.is_err());
}
