//! Gangs: placed whole, drained as one, refunded, and judged when all processes are gone.

use muster_domain::{
    Caller, EndReason, GangMembership, JobSpec, Phase, Rejection, ReportKind, Span, Status, WorkerId,
};

use super::Stage;
use super::band::membership;
use super::stage::{memory, named, needing};
use crate::command::{Command, Content, Outcome};
use crate::store::StoreExt;

const RESERVATION: Span = Span::from_secs(30);

pub async fn a_gang_is_taken_whole_and_waits(stage: &Stage) {
    let spec = JobSpec { priority: 7, ..needing(10) };
    let gang = stage.submit_gang(spec, membership(3)).await;
    let tasks = stage.tasks(gang).await;
    assert_eq!(tasks.len(), 3);
    for (index, task) in tasks.iter().enumerate() {
        let own = task.spec.gang.as_ref().unwrap();
        assert_eq!((own.id, own.size, own.index as usize), (gang, 3, index));
        assert_eq!((task.status(), task.spec.priority, task.attempts), (Status::Blocked, 7, 0));
    }
    assert!(stage.claim().await.is_none(), "a task left through the pending path");
    assert!(stage.tasks(muster_domain::GangId::from_random([9; 16])).await.is_empty());
}

pub async fn a_placed_gang_is_claimed_by_its_workers_only(stage: &Stage) {
    let gang = stage.gang(2).await;
    stage.crew(3).await;
    let single = stage.shell("single").await;
    assert_eq!(stage.plan().await.placed, 1);
    let tasks = stage.tasks(gang).await;
    assert!(tasks.iter().all(|task| task.status() == Status::Reserved && task.reservation_epoch == 1));
    let workers: Vec<&WorkerId> = tasks.iter().filter_map(|task| task.worker()).collect();
    assert_ne!(workers[0], workers[1]);
    let first = workers[0].as_str();
    let claimed = stage.claim_by(first).await.unwrap();
    assert_eq!((claimed.id, claimed.status(), claimed.attempts), (tasks[0].id, Status::Running, 1));
    assert!(stage.claim_by(first).await.is_none(), "one slot, one task");
    let other = ["w0", "w1", "w2"].into_iter().find(|name| !workers.iter().any(|w| w.as_str() == *name));
    assert_eq!(stage.claim_by(other.unwrap()).await.unwrap().id, single.id);
    let peers = &stage.claim_as(Some(workers[1].as_str()), 5).await[0].peers;
    assert_eq!(peers.len(), 2);
}

pub async fn too_few_workers_place_nothing(stage: &Stage) {
    let gang = stage.submit_gang(needing(8000), membership(4)).await;
    for name in ["a", "b", "c"] {
        stage.register(name, memory(8000), None).await;
    }
    let summary = stage.plan().await;
    assert_eq!((summary.placed, summary.waiting), (0, 1));
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 4]);
    let why = stage.why_codes(stage.tasks(gang).await[0].id).await;
    assert!(why.iter().any(|code| code.starts_with("gang_")), "{why:?}");
    stage.register("d", memory(8000), None).await;
    assert_eq!(stage.plan().await.placed, 1);
    // A smaller one finds nothing left.
    stage.submit_gang(needing(8000), membership(3)).await;
    assert_eq!(stage.plan().await.placed, 0);
}

pub async fn running_singles_and_stopping_tasks_take_room(stage: &Stage) {
    stage.register("w0", memory(100), None).await;
    stage.register("w1", memory(100), None).await;
    stage.submit(needing(60)).await;
    let single = stage.claim_by("w0").await.unwrap();
    let gang = stage.submit_gang(needing(60), membership(2)).await;
    assert_eq!(stage.plan().await.placed, 0);
    stage.report(&single, ReportKind::Done).await.unwrap();
    let tasks = stage.start_gang(gang).await;
    stage.cancel(tasks[0].id).await.unwrap();
    let next = stage.submit_gang(needing(60), membership(2)).await;
    assert_eq!(stage.plan().await.placed, 0, "the processes may be alive");
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Cancelled; 2]);
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(stage.statuses(next).await, [Status::Reserved; 2]);
}

pub async fn a_failure_drains_the_gang_and_it_starts_again(stage: &Stage) {
    stage.crew(3).await;
    let gang = stage.gang(3).await;
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[1], ReportKind::Failed).await.unwrap();
    let drained = stage.tasks(gang).await;
    assert_eq!(
        stage.statuses(gang).await,
        [Status::Preempting, Status::Preempted, Status::Preempting],
        "its own process is gone"
    );
    assert_eq!(stage.attempts(gang).await, [0, 1, 0]);
    assert!(drained.iter().all(|task| task.preemption_epoch == 1));
    stage.report(&drained[0], ReportKind::Failed).await.unwrap();
    assert_eq!(stage.statuses(gang).await[0], Status::Preempted, "a report under its lease ends the stop");
    stage.acknowledge(drained[2].id, 1).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 3], "judged with the last acknowledgement");
    assert_eq!(stage.attempts(gang).await, [0, 1, 0]);
    let again = stage.start_gang(gang).await;
    assert!(again.iter().all(|task| task.reservation_epoch == 2));
    for task in &again {
        stage.report(task, ReportKind::Done).await.unwrap();
    }
    assert_eq!(stage.statuses(gang).await, [Status::Done; 3]);
    assert_eq!(stage.attempts(gang).await, [1, 2, 1]);
}

pub async fn failures_of_one_task_exhaust_the_gang(stage: &Stage) {
    stage.crew(3).await;
    let gang = stage.gang(3).await;
    for round in 1..=3_u32 {
        let tasks = stage.start_gang(gang).await;
        assert_eq!(tasks[1].attempts, round);
        stage.report(&tasks[1], ReportKind::Failed).await.unwrap();
        stage.finish_drain(gang).await;
        let expected = if round < 3 { [0, round, 0] } else { [0, 3, 0] };
        assert_eq!(stage.attempts(gang).await, expected);
    }
    let tasks = stage.tasks(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Failed; 3]);
    assert!(matches!(tasks[1].phase, Phase::Failed { reason: EndReason::Attempt { .. }, .. }));
    assert!(matches!(&tasks[0].phase, Phase::Failed { reason: EndReason::Gang { stop, .. }, .. }
        if stop.trigger == Some(tasks[1].id)));
    assert!(tasks.iter().all(|task| task.ran_on.is_some()), "who ran it last is known");
}

pub async fn a_task_is_done_when_all_of_its_gang_are(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[0], ReportKind::Done).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Finished, Status::Running]);
    let finished = stage.tasks(gang).await.remove(0);
    assert_eq!((finished.exit.unwrap().code, finished.finished_at()), (Some(0), Some(stage.now())));
    assert_eq!(stage.why_codes(finished.id).await, ["finished"]);
    assert_eq!(stage.store.counts().await.unwrap().jobs.get(&Status::Finished), Some(&1));
    stage.report(&tasks[0], ReportKind::Done).await.unwrap();
    // Its room is free.
    let single = stage.shell("x").await;
    let claimed = stage.claim_by(tasks[0].worker().unwrap().as_str()).await.unwrap();
    assert_eq!(claimed.id, single.id);
    // What is lost near the end starts all of them again, and only the lost one pays.
    stage.report(&tasks[1], ReportKind::Failed).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    assert_eq!(stage.attempts(gang).await, [0, 1]);
    assert_eq!(stage.plan().await.placed, 0, "it needs all of its room again");
    stage.report(&claimed, ReportKind::Done).await.unwrap();
    for task in stage.start_gang(gang).await {
        assert_ne!(stage.statuses(gang).await[0], Status::Done);
        stage.report(&task, ReportKind::Done).await.unwrap();
    }
    assert_eq!(stage.statuses(gang).await, [Status::Done; 2]);
    assert!(stage.tasks(gang).await.iter().all(|task| task.ran_on.is_some()));
}

pub async fn a_cancelled_gang_takes_those_with_it_that_had_finished(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[0], ReportKind::Done).await.unwrap();
    stage.cancel(tasks[0].id).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Finished, Status::Preempting]);
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Cancelled; 2]);
}

pub async fn keep_done_lets_the_others_start_again(stage: &Stage) {
    stage.crew(2).await;
    let keeping = GangMembership { keep_done: true, ..membership(2) };
    let gang = stage.submit_gang(JobSpec::shell("x"), keeping).await;
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[0], ReportKind::Done).await.unwrap();
    stage.report(&tasks[1], ReportKind::Failed).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Done, Status::Blocked]);
    let tasks = stage.start_gang(gang).await;
    assert_eq!(tasks[1].round.as_ref().unwrap().size, 2, "it keeps its place among all");
    stage.report(&tasks[1], ReportKind::Done).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Done; 2]);
}

pub async fn a_stale_reservation_is_placed_again_in_the_same_pass(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    stage.plan().await;
    let before = stage.tasks(gang).await;
    stage.advance(RESERVATION);
    stage.crew_alive(2).await;
    assert_eq!(stage.plan().await.lapsed, 0, "the bound is strict");
    assert_eq!(stage.plan().await.next_due, Some(stage.now()));
    stage.advance(Span::from_micros(1));
    let summary = stage.plan().await;
    assert_eq!((summary.lapsed, summary.placed), (1, 1));
    let after = stage.tasks(gang).await;
    assert!(after.iter().all(|task| task.status() == Status::Reserved && task.reservation_epoch == 2));
    assert_eq!(stage.attempts(gang).await, [0, 0]);
    assert!(after[0].reservation_epoch > before[0].reservation_epoch);
}

pub async fn a_worker_that_does_not_claim_is_avoided(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    stage.plan().await;
    let lazy = stage.tasks(gang).await[1].worker().unwrap().clone();
    let eager = stage.tasks(gang).await[0].worker().unwrap().as_str().to_owned();
    stage.claim_by(&eager).await.unwrap();
    stage.register("w2", memory(0), Some(1)).await;
    stage.advance(RESERVATION + Span::from_secs(1));
    stage.crew_alive(3).await;
    let summary = stage.plan().await;
    assert_eq!((summary.lapsed, summary.placed), (1, 0), "one process may be alive");
    assert_eq!(stage.statuses(gang).await, [Status::Preempting, Status::Blocked]);
    assert_eq!(stage.attempts(gang).await, [0, 0], "nobody pays");
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    let tasks = stage.start_gang(gang).await;
    assert!(tasks.iter().all(|task| task.worker() != Some(&lazy)), "{tasks:#?}");
}

pub async fn two_silent_tasks_make_one_drain(stage: &Stage) {
    stage.crew(3).await;
    let gang = stage.gang(3).await;
    let tasks = stage.start_gang(gang).await;
    stage.advance(Span::from_secs(20));
    stage.heartbeat(&tasks[2]).await.unwrap();
    stage.advance(Span::from_secs(11));
    stage.sweep().await;
    let after = stage.tasks(gang).await;
    assert_eq!(after.iter().map(|task| task.preemption_epoch).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(after[2].status(), Status::Preempting);
    let mut attempts = stage.attempts(gang).await;
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 0, 1], "one of the two pays");
    stage.report(&after[2], ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 3]);
}

pub async fn silent_workers_are_forced_out_of_a_drain(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.report_as(tasks[0].id, Caller::default(), ReportKind::Failed).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Preempting; 2], "an operator may have said it");
    for task in &tasks {
        stage.heartbeat(task).await.unwrap();
    }
    stage.advance(Span::from_secs(45));
    assert_eq!(stage.sweep().await.stops_forced, 0, "the bound is strict");
    stage.advance(Span::from_micros(1));
    assert_eq!(stage.sweep().await.stops_forced, 2);
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2], "judged in the same pass");
    assert_eq!(stage.attempts(gang).await, [1, 0]);
}

pub async fn an_exit_without_proof_is_believed_after_a_while(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.report_as(tasks[0].id, Caller::default(), ReportKind::Failed).await.unwrap();
    let refused = stage.report_as(tasks[1].id, Caller::default(), ReportKind::Failed).await;
    assert!(matches!(refused, Err(Rejection::NotRunning { .. })), "{refused:?}");
    stage.advance(Span::from_secs(5));
    stage.heartbeat(&tasks[0]).await.unwrap();
    stage.advance(Span::from_secs(7));
    stage.sweep().await;
    assert_eq!(stage.statuses(gang).await, [Status::Preempting, Status::Preempted], "the first one spoke");
    stage.acknowledge(tasks[0].id, 1).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    assert_eq!(stage.attempts(gang).await, [1, 0]);
}

pub async fn an_acknowledgement_counts_once_and_by_its_epoch(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.report_as(tasks[0].id, Caller::default(), ReportKind::Failed).await.unwrap();
    assert!(stage.acknowledge(tasks[1].id, 0).await.is_err());
    assert!(stage.acknowledge(tasks[1].id, 2).await.is_err());
    stage.acknowledge(tasks[1].id, 1).await.unwrap();
    assert!(stage.acknowledge(tasks[1].id, 1).await.is_err());
}

pub async fn a_cancelled_gang_ends_as_one(stage: &Stage) {
    stage.crew(2).await;
    let waiting = stage.gang(2).await;
    let first = stage.tasks(waiting).await[0].id;
    let (cancelled, stopping) = stage.cancel(first).await.unwrap();
    assert_eq!((cancelled.len(), stopping.len()), (2, 0));
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    let (cancelled, stopping) = stage.cancel(tasks[1].id).await.unwrap();
    assert_eq!((cancelled.len(), stopping.len()), (0, 2));
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Cancelled; 2]);
    assert!(matches!(stage.cancel(tasks[0].id).await, Ok(_) | Err(Rejection::AlreadyEnded { .. })));
}

pub async fn a_preempted_gang_comes_back_at_no_cost(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.control(Command::Preempt { job: tasks[0].id, message: None }).await.unwrap();
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    assert_eq!(stage.attempts(gang).await, [0, 0]);
    let tasks = stage.start_gang(gang).await;
    stage.control(Command::Preempt { job: tasks[1].id, message: None }).await.unwrap();
    for task in stage.tasks(gang).await {
        stage.report(&task, ReportKind::Finished).await.unwrap();
    }
    assert_eq!(stage.statuses(gang).await, [Status::Done; 2], "all said that they are done");
}

pub async fn a_task_handed_back_costs_nobody(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[0], ReportKind::Released).await.unwrap();
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    assert_eq!(stage.attempts(gang).await, [0, 0]);
}

pub async fn a_gang_counts_once_where_others_depend_on_it(stage: &Stage) {
    stage.crew(2).await;
    let once = JobSpec { max_attempts: 1, ..JobSpec::shell("x") };
    let gang = stage.submit_gang(once, membership(2)).await;
    let job = crate::command::NewJob {
        depends_on: vec![gang.to_string()],
        ..stage.new_job(JobSpec::shell("after"))
    };
    let after = stage.try_submit(vec![job], true).await.unwrap().pop().unwrap().unwrap().job;
    assert_eq!(after.spec.gangs.values().copied().collect::<Vec<_>>(), [gang]);
    let by_task = stage.after(&[stage.tasks(gang).await[1].id]).await;
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[0], ReportKind::Done).await.unwrap();
    assert_eq!(stage.status(after.id).await, Status::Blocked, "a task that has finished is not done");
    stage.report(&tasks[1], ReportKind::Failed).await.unwrap();
    for id in [after.id, by_task.id] {
        assert_eq!(stage.status(id).await, Status::Failed);
    }
    // Run again as a whole, it releases those that wait for it.
    stage.control(Command::Retry { job: tasks[1].id }).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    assert_eq!(stage.status(after.id).await, Status::Blocked);
    for task in stage.start_gang(gang).await {
        assert_eq!(stage.status(after.id).await, Status::Blocked);
        stage.report(&task, ReportKind::Done).await.unwrap();
    }
    assert_eq!(stage.status(after.id).await, Status::Pending);
    assert_eq!(stage.after(&[tasks[0].id]).await.status(), Status::Pending, "a gang that is done");
}

pub async fn a_gang_waits_for_what_it_depends_on(stage: &Stage) {
    stage.crew(2).await;
    let parent = stage.shell("parent").await;
    let tasks = stage.gang_of(&JobSpec::shell("x"), &membership(2));
    let tasks = tasks
        .into_iter()
        .map(|task| crate::command::NewJob { depends_on: vec![parent.id.to_string()], ..task });
    let taken = stage.try_submit(tasks.collect(), true).await.unwrap();
    let gang = taken[0].as_ref().unwrap().job.spec.gang.as_ref().unwrap().id;
    assert_eq!(stage.plan().await.placed, 0);
    let parent = stage.claim().await.unwrap();
    stage.report(&parent, ReportKind::Done).await.unwrap();
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(stage.statuses(gang).await, [Status::Reserved; 2]);
}

pub async fn a_gang_may_start_with_fewer(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.submit_gang(JobSpec::shell("x"), GangMembership { min: Some(2), ..membership(4) }).await;
    let tasks = {
        stage.plan().await;
        stage.claim_gang(gang).await
    };
    let statuses = [Status::Running, Status::Running, Status::Blocked, Status::Blocked];
    assert_eq!(stage.statuses(gang).await, statuses);
    assert_eq!(tasks[0].round.as_ref().unwrap().size, 2);
    assert_eq!(stage.why_codes(tasks[3].id).await, ["spared"]);
    stage.report(&tasks[0], ReportKind::Done).await.unwrap();
    assert_eq!(stage.statuses(gang).await[2], Status::Blocked);
    let after = stage.after(&[tasks[0].id]).await;
    stage.report(&tasks[1], ReportKind::Done).await.unwrap();
    assert_eq!(stage.statuses(gang).await[2..], [Status::Cancelled; 2]);
    assert_eq!(stage.status(after.id).await, Status::Pending, "the gang is done");
}

pub async fn tasks_may_share_a_worker(stage: &Stage) {
    stage.register("big", memory(100), Some(4)).await;
    let sharing = GangMembership { per_worker: 2, ..membership(4) };
    let gang = stage.submit_gang(needing(10), sharing).await;
    assert_eq!(stage.plan().await.placed, 0, "two at the most on one worker");
    stage.register("other", memory(100), Some(4)).await;
    assert_eq!(stage.plan().await.placed, 1);
    let workers: Vec<String> =
        stage.tasks(gang).await.iter().map(|task| task.worker().unwrap().as_str().to_owned()).collect();
    assert_eq!(workers[0], workers[1]);
    assert_ne!(workers[1], workers[2]);
}

pub async fn ports_are_given_once(stage: &Stage) {
    for (name, port) in [("w0", 4000), ("w1", 5000)] {
        let mut worker = stage.register(name, memory(0), Some(2)).await;
        worker.exec_addr = format!("{name}.example");
        worker.ports.kept = vec![port, port + 1];
        stage.register_worker(worker).await;
    }
    let first = stage.gang(2).await;
    let second = stage.gang(2).await;
    assert_eq!(stage.plan().await.placed, 2);
    let address = |job: &muster_domain::Job| job.round.as_ref().unwrap().address.clone();
    let mut all: Vec<String> = stage.tasks(first).await.iter().map(address).collect();
    all.extend(stage.tasks(second).await.iter().map(address));
    all.sort_unstable();
    assert_eq!(all, ["w0.example:4000", "w0.example:4001", "w1.example:5000", "w1.example:5001"]);
}

pub async fn ports_come_back_when_nobody_came_for_them(stage: &Stage) {
    let mut worker = stage.register("w0", memory(0), Some(1)).await;
    "w0.example".clone_into(&mut worker.exec_addr);
    worker.ports.kept = vec![4000, 4001];
    stage.register_worker(worker).await;
    let gang = stage.gang(1).await;
    for round in 1..=5 {
        stage.plan().await;
        let task = stage.tasks(gang).await.remove(0);
        let address = task.round.as_ref().unwrap().address.clone();
        assert!(
            ["w0.example:4000", "w0.example:4001"].contains(&address.as_str()),
            "round {round}: {address:?}"
        );
        stage.advance(RESERVATION + Span::from_secs(1));
        stage.crew_alive(1).await;
    }
}

pub async fn ports_of_tasks_that_were_taken_back_are_free(stage: &Stage) {
    let mut worker = stage.register("w0", memory(0), None).await;
    worker.exec_addr = String::from("w0.example");
    worker.ports.kept = vec![4000, 4001];
    stage.register_worker(worker).await;
    let address = |job: &muster_domain::Job| job.round.as_ref().unwrap().address.clone();
    let first = stage.gang(1).await;
    stage.plan().await;
    let kept = address(&stage.tasks(first).await[0]);
    // The others come and go while the first one still waits for its worker.
    for _ in 0..3 {
        let other = stage.gang(1).await;
        stage.plan().await;
        let task = stage.tasks(other).await.remove(0);
        assert_ne!(address(&task), kept);
        stage.cancel(task.id).await.unwrap();
    }
}

pub async fn a_task_that_was_quick_is_still_a_peer(stage: &Stage) {
    let gang = stage.gang(2).await;
    stage.crew(2).await;
    stage.plan().await;
    let tasks = stage.tasks(gang).await;
    let quick = stage.claim_by(tasks[0].worker().unwrap().as_str()).await.unwrap();
    stage.report(&quick, ReportKind::Done).await.unwrap();
    let slow = stage.claim_as(Some(tasks[1].worker().unwrap().as_str()), 1).await;
    let peers: Vec<_> = slow[0].peers.iter().map(|peer| peer.id).collect();
    assert_eq!(peers, [tasks[0].id, tasks[1].id]);
}

pub async fn a_lost_answer_is_given_again(stage: &Stage) {
    stage.crew(1).await;
    let job = stage.shell("x").await;
    let ask = |again| {
        Command::Claim(crate::command::Ask {
            worker: Some(WorkerId::new("w0")),
            max: 1,
            key: Some("k1".into()),
            again,
            ..crate::command::Ask::default()
        })
    };
    let Ok(Outcome::Claimed(first)) = stage.one(ask(false)).await else { panic!("no claim") };
    let Ok(Outcome::Claimed(second)) = stage.one(ask(true)).await else { panic!("no claim") };
    assert_eq!((first[0].job.id, second.len()), (job.id, 1));
    assert_eq!((second[0].job.id, second[0].job.lease), (job.id, first[0].job.lease));
    assert_eq!(second[0].job.attempts, 1);
}

pub async fn a_checkpoint_is_saved_while_it_runs(stage: &Stage) {
    stage.crew(1).await;
    let bytes: Vec<u8> = (0..=255).collect();
    stage.shell("x").await;
    let job = stage.claim_by("w0").await.unwrap();
    let save = |caller: Caller, bytes: Vec<u8>| Command::SaveCheckpoint {
        job: job.id,
        caller,
        epoch: None,
        content: Content::Bytes(bytes),
    };
    assert!(stage.one(save(Caller::default(), bytes.clone())).await.is_err(), "anybody could");
    assert!(stage.one(save(named("w9"), bytes.clone())).await.is_err());
    let own = Caller { lease: Some(job.lease), worker: None };
    stage.one(save(own.clone(), vec![1])).await.unwrap();
    stage.advance(Span::from_secs(1));
    stage.one(save(own, bytes.clone())).await.unwrap();
    let kept = stage.get(job.id).await;
    assert_eq!((kept.checkpoint_bytes, kept.checkpoint_at), (Some(256), Some(stage.now())));
    stage.report(&job, ReportKind::Failed).await.unwrap();
    let again = stage.claim_as(Some("w0"), 1).await.pop().unwrap();
    assert_eq!(again.checkpoint.as_deref(), Some(bytes.as_slice()), "the last one wins");
}
