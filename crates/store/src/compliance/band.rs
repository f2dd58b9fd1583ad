//! Gangs as scenarios use them: submitted, placed, claimed and reported on in a line each.

use std::sync::Arc;

use muster_domain::limits::Timeouts;
use muster_domain::{
    Caller, GangId, GangMembership, Job, JobId, JobSpec, ReportKind, Resources, Status, Timestamp,
};

use muster_planner::policy::Allowances;

use super::Stage;
use crate::command::{Command, NewJob, Outcome, PlanPass, PlanSummary};
use crate::store::StoreExt as _;

/// What scenarios vary about a gang.
pub fn membership(size: u32) -> GangMembership {
    let id = GangId::from_random([0; 16]);
    GangMembership { id, size, index: 0, min: None, per_worker: 1, keep_done: false, topology: None }
}

impl Stage {
    /// The tasks of a gang that is to be submitted.
    pub fn gang_of(&self, spec: &JobSpec, gang: &GangMembership) -> Vec<NewJob> {
        let id = GangId::from_uuid(self.new_id().as_uuid());
        let task = |index| {
            let own = JobSpec { gang: Some(GangMembership { id, index, ..gang.clone() }), ..spec.clone() };
            NewJob { spec: Arc::new(own), first_task: (index > 0).then_some(0), ..self.new_job(spec.clone()) }
        };
        (0..gang.size).map(task).collect()
    }

    pub async fn submit_gang(&self, spec: JobSpec, gang: GangMembership) -> GangId {
        let taken = self.try_submit(self.gang_of(&spec, &gang), true).await.unwrap();
        let tasks: Vec<Job> = taken.into_iter().map(|task| task.unwrap().job).collect();
        tasks[0].spec.gang.as_ref().unwrap().id
    }

    /// A gang of plain tasks.
    pub async fn gang(&self, size: u32) -> GangId {
        self.submit_gang(JobSpec::shell("train"), membership(size)).await
    }

    pub async fn plan(&self) -> PlanSummary {
        self.plan_since(Timestamp::default()).await
    }

    pub async fn plan_since(&self, listening_since: Timestamp) -> PlanSummary {
        self.plan_pass(listening_since, false, Allowances::default()).await
    }

    /// A pass that looks ahead for what does not fit.
    pub async fn look(&self) -> PlanSummary {
        self.look_with(Allowances::default()).await
    }

    /// The same with what is left for stops.
    pub async fn look_with(&self, allowances: Allowances) -> PlanSummary {
        self.plan_pass(Timestamp::default(), true, allowances).await
    }

    async fn plan_pass(&self, listening_since: Timestamp, look: bool, allowances: Allowances) -> PlanSummary {
        let pass = PlanPass { timeouts: Timeouts::default(), listening_since, limit: 100, look, allowances };
        match self.one(Command::Plan(pass)).await.unwrap() {
            Outcome::Planned(summary) => summary,
            other => panic!("{other:?}"),
        }
    }

    /// By index.
    pub async fn tasks(&self, gang: GangId) -> Vec<Job> {
        self.store.gang(gang).await.unwrap().into_iter().map(|view| view.job).collect()
    }

    pub async fn statuses(&self, gang: GangId) -> Vec<Status> {
        self.tasks(gang).await.iter().map(Job::status).collect()
    }

    pub async fn attempts(&self, gang: GangId) -> Vec<u32> {
        self.tasks(gang).await.iter().map(|task| task.attempts).collect()
    }

    /// Workers `w0` to `w(count-1)`, each with one slot.
    pub async fn crew(&self, count: usize) {
        for number in 0..count {
            self.register(&format!("w{number}"), Resources::default(), Some(1)).await;
        }
    }

    /// Lets every worker show that it is alive, as its polls do.
    pub async fn crew_alive(&self, count: usize) {
        for number in 0..count {
            let worker = muster_domain::WorkerId::new(format!("w{number}"));
            self.one(Command::WorkerHeartbeat { worker, ports: None }).await.unwrap();
        }
    }

    /// Every worker of a placed gang claims its task; by index.
    pub async fn claim_gang(&self, gang: GangId) -> Vec<Job> {
        for task in self.tasks(gang).await.iter().filter(|task| task.status() == Status::Reserved) {
            let worker = task.worker().unwrap().as_str().to_owned();
            assert!(self.claim_by(&worker).await.is_some(), "{worker} got nothing");
        }
        self.tasks(gang).await
    }

    /// Places a gang and lets it run; by index.
    pub async fn start_gang(&self, gang: GangId) -> Vec<Job> {
        self.plan().await;
        let tasks = self.claim_gang(gang).await;
        let running = tasks.iter().filter(|task| !task.is_terminal());
        assert!(running.clone().all(|task| task.status() == Status::Running), "{tasks:#?}");
        tasks
    }

    /// Acknowledges the stop of a task as an old worker does.
    pub async fn acknowledge(&self, task: JobId, epoch: i64) -> Result<(), muster_domain::Rejection> {
        let caller = Caller::default();
        self.one(Command::AcknowledgeStop { job: task, caller, epoch }).await.map(|_| ())
    }

    /// Ends what is left of a drain politely.
    pub async fn finish_drain(&self, gang: GangId) {
        for task in self.tasks(gang).await {
            if task.status() == Status::Preempting {
                self.report(&task, ReportKind::Preempted).await.unwrap();
            }
        }
    }
}
