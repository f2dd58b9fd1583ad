//! The calls that the tests of gangs make.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{id_of, lease_of};
use crate::scheduler::Scheduler;
use crate::wait::{eventually, until};

/// How long anything about a gang may take; nothing should come near.
const BOUND: Duration = Duration::from_secs(60);

/// A gang as its submit was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gang {
    pub id: String,
    /// Ids of the tasks by index.
    pub tasks: Vec<String>,
}

impl Gang {
    /// Reads the answer to a submit.
    pub fn of(answer: &Value) -> Self {
        let tasks = answer["tasks"].as_array().unwrap_or_else(|| panic!("no gang: {answer}"));
        let tasks = tasks.iter().map(|task| task.as_str().unwrap_or_default().to_owned()).collect();
        Self { id: answer["gang_id"].as_str().unwrap_or_default().to_owned(), tasks }
    }
}

impl Scheduler {
    /// Registers workers `w0`, `w1` and so on, each for one job at a time.
    pub fn register_many(&self, count: usize) {
        for number in 0..count {
            self.register(&json!({ "id": format!("w{number}"), "slots": 1 }));
        }
    }

    /// Submits a gang of tasks that do nothing.
    pub fn submit_gang(&self, size: usize) -> Gang {
        self.submit_gang_with(&json!({ "command": "true", "gang_size": size }))
    }

    pub fn submit_gang_with(&self, request: &Value) -> Gang {
        Gang::of(&self.submit_job(request))
    }

    /// The tasks by index.
    pub fn gang(&self, gang: &Gang) -> Vec<Value> {
        let answer = self.http().get(&format!("/gangs/{}", gang.id)).expect(200).json();
        answer.as_array().unwrap_or_else(|| panic!("not an array: {answer}")).clone()
    }

    /// The statuses of the tasks by index.
    pub fn gang_statuses(&self, gang: &Gang) -> Vec<String> {
        self.gang(gang).iter().map(|task| task["status"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// How many attempts each task has used.
    pub fn gang_attempts(&self, gang: &Gang) -> Vec<u64> {
        self.gang(gang).iter().filter_map(|task| task["attempts"].as_u64()).collect()
    }

    /// Waits until all tasks have the status.
    pub fn await_gang(&self, gang: &Gang, status: &str) -> Vec<Value> {
        let what = format!("all of {} are {status}", gang.id);
        let of = |tasks: &Vec<Value>| tasks.iter().all(|task| task["status"] == status);
        eventually(&what, BOUND, || Some(self.gang(gang)).filter(of))
    }

    /// Waits until the gang is placed for the round with this number, or a later one.
    pub fn await_round(&self, gang: &Gang, round: u64) -> Vec<Value> {
        let what = format!("{} is placed for round {round}", gang.id);
        let placed = |task: &Value| {
            task["status"] == "reserved" && task["reservation_epoch"].as_u64().unwrap_or_default() >= round
        };
        eventually(&what, BOUND, || Some(self.gang(gang)).filter(|tasks| tasks.iter().all(placed)))
    }

    /// Waits until the gang is placed and claims every task as the worker that it is placed on; the claims
    /// come back by index.
    pub fn start_gang(&self, gang: &Gang) -> Vec<Value> {
        let placed = self.await_gang(gang, "reserved");
        let claim = |task: &Value| {
            let claimed = self.claim(task["worker_id"].as_str());
            assert_eq!(id_of(&claimed), id_of(task), "a worker gets the task that is placed on it");
            claimed
        };
        placed.iter().map(claim).collect()
    }

    /// Acknowledges the stop of each of these claims under its lease.
    pub fn acknowledge(&self, claims: &[Value], epoch: u64) {
        for claim in claims {
            self.report_under(lease_of(claim), &id_of(claim), &format!("preempted?epoch={epoch}"))
                .expect(200);
        }
    }

    /// The sum of a metric that may have no series yet.
    pub fn count_of(&self, series: &str) -> u64 {
        self.metric(series).unwrap_or(0)
    }

    /// Waits until a metric has at least this value.
    pub fn await_count(&self, series: &str, least: u64) {
        until(&format!("{series} is {least}"), BOUND, || self.count_of(series) >= least);
    }
}
