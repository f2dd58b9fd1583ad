//! The calls that nearly every test makes, each failing the test unless it is answered as expected.

use std::time::Duration;

use serde_json::{Value, json};

use crate::http::Response;
use crate::scheduler::Scheduler;
use crate::wait::{eventually, until};

impl Scheduler {
    /// Submits a command and returns the job's id.
    pub fn submit(&self, command: &str) -> String {
        id_of(&self.submit_job(&json!({ "command": command })))
    }

    /// Submits and returns the job as it was answered.
    pub fn submit_job(&self, request: &Value) -> Value {
        self.http().post_json("/jobs", request).expect(201).json()
    }

    pub fn job(&self, id: &str) -> Value {
        self.http().get(&format!("/jobs/{id}")).expect(200).json()
    }

    pub fn status(&self, id: &str) -> String {
        self.job(id)["status"].as_str().unwrap_or_default().to_owned()
    }

    /// All jobs, page after page.
    pub fn jobs(&self) -> Vec<Value> {
        let mut jobs = Vec::new();
        let mut target = "/jobs".to_owned();
        loop {
            let response = self.http().get(&target);
            jobs.extend(as_array(&response.expect(200).json()));
            let Some(cursor) = response.header("x-next-cursor") else { return jobs };
            target = format!("/jobs?cursor={cursor}");
        }
    }

    pub fn workers(&self) -> Vec<Value> {
        as_array(&self.http().get("/workers").expect(200).json())
    }

    /// Asks for a job without waiting; `None` when there is none.
    pub fn try_claim(&self, worker: Option<&str>) -> Option<Value> {
        let target =
            worker.map_or_else(|| "/jobs/next".to_owned(), |id| format!("/jobs/next?worker_id={id}"));
        let response = self.http().get(&target);
        if response.status == 204 {
            return None;
        }
        Some(response.expect(200).json())
    }

    /// Claims a job that has to be there.
    pub fn claim(&self, worker: Option<&str>) -> Value {
        self.try_claim(worker).unwrap_or_else(|| panic!("there is nothing to claim among {:#?}", self.jobs()))
    }

    /// Posts a report without a body, such as `done` or `preempted?epoch=1`.
    pub fn report(&self, id: &str, report: &str) -> Response {
        self.http().post(&format!("/jobs/{id}/{report}"), "")
    }

    /// Posts a report under a lease.
    pub fn report_under(&self, lease: u64, id: &str, report: &str) -> Response {
        let separator = if report.contains('?') { '&' } else { '?' };
        self.report(id, &format!("{report}{separator}lease={lease}"))
    }

    pub fn register(&self, request: &Value) -> Value {
        self.http().post_json("/workers/register", request).expect(201).json()
    }

    /// Waits until the job has the status.
    pub fn await_status(&self, id: &str, status: &str, bound: Duration) -> Value {
        eventually(&format!("{id} is {status}"), bound, || {
            Some(self.job(id)).filter(|job| job["status"] == status)
        })
    }

    /// Waits until that many long polls are parked here.
    pub fn await_parked(&self, count: u64) {
        let what = format!("{count} requests are parked");
        until(&what, Duration::from_secs(10), || self.metric("muster_parked_requests") == Some(count));
    }

    /// The value of one series of `/metrics` that counts, such as `muster_jobs_reaped_total{outcome="failed"}`.
    pub fn metric(&self, series: &str) -> Option<u64> {
        let page = self.http().get("/metrics").expect(200).text();
        let value =
            page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse::<f64>().ok());
        value.map(|value| value as u64)
    }
}

/// The id of an object.
pub fn id_of(object: &Value) -> String {
    object["id"].as_str().unwrap_or_else(|| panic!("no id in {object}")).to_owned()
}

/// The lease of a claimed job.
pub fn lease_of(job: &Value) -> u64 {
    job["lease"].as_u64().unwrap_or_else(|| panic!("no lease in {job}"))
}

/// Whether the text is a random UUID in its usual form.
pub fn is_uuid_v4(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let hexadecimal =
        groups.iter().all(|group| group.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
    lengths == [8, 4, 4, 4, 12] && hexadecimal && groups[2].starts_with('4')
}

fn as_array(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not an array: {value}")).clone()
}
