//! Leadership: leases, takeovers, and passes under a term that is over.

use muster_domain::limits::Timeouts;
use muster_domain::{Bid, JobSpec, LeaderTerm, Rejection, Role, Span, Status, Timestamp};
use muster_planner::policy::Allowances;

use super::stage::Stage;
use crate::command::{Answer, Command, Outcome, PlanPass, Removal, Sweep};

const LEASE: Span = Span::from_secs(5);

async fn bid(stage: &Stage, holder: &str, roles: &[Role], lease: Span) -> Vec<LeaderTerm> {
    let bid = Bid { holder: holder.into(), roles: roles.to_vec(), lease };
    match stage.one(Command::Lead(bid)).await.unwrap() {
        Outcome::Leads(mut terms) => {
            terms.sort_unstable();
            terms
        }
        other => panic!("{other:?}"),
    }
}

fn terms(roles: &[Role], term: u64) -> Vec<LeaderTerm> {
    roles.iter().map(|role| LeaderTerm { role: *role, term }).collect()
}

fn sweep(retention: Option<Span>) -> Command {
    let timeouts = Timeouts::default();
    Command::Sweep(Sweep { timeouts, listening_since: Timestamp::default(), limit: 100, retention })
}

fn is_lost(answer: &Answer) -> bool {
    matches!(answer, Err(Rejection::LeadershipLost { given: 1, current: 2, .. }))
}

pub async fn one_at_a_time_leads_until_its_lease_ends(stage: &Stage) {
    assert_eq!(bid(stage, "a", &Role::ALL, LEASE).await, terms(&Role::ALL, 1));
    assert_eq!(bid(stage, "b", &Role::ALL, LEASE).await, []);
    stage.advance(Span::from_secs(4));
    // Renewed in part: the rest ends.
    assert_eq!(bid(stage, "a", &[Role::Planner], LEASE).await, terms(&[Role::Planner], 1));
    stage.advance(Span::from_secs(1));
    let ended = [Role::Reaper, Role::Retention, Role::Webhooks];
    assert_eq!(bid(stage, "b", &Role::ALL, LEASE).await, terms(&ended, 2));
    assert_eq!(bid(stage, "a", &Role::ALL, LEASE).await, terms(&[Role::Planner], 1));
}

pub async fn an_expired_lease_that_nobody_took_is_renewed(stage: &Stage) {
    assert_eq!(bid(stage, "a", &[Role::Reaper], LEASE).await, terms(&[Role::Reaper], 1));
    stage.advance(Span::from_secs(3600));
    assert_eq!(bid(stage, "a", &[Role::Reaper], LEASE).await, terms(&[Role::Reaper], 1));
}

pub async fn a_role_that_is_given_up_is_free_at_once(stage: &Stage) {
    bid(stage, "a", &Role::ALL, LEASE).await;
    assert_eq!(bid(stage, "a", &Role::ALL, Span::default()).await, []);
    assert_eq!(bid(stage, "b", &Role::ALL, LEASE).await, terms(&Role::ALL, 2));
    // What another one leads cannot be given up for it.
    assert_eq!(bid(stage, "a", &Role::ALL, Span::default()).await, []);
    assert_eq!(bid(stage, "c", &Role::ALL, LEASE).await, []);
}

/// The old leader has not noticed yet that another one leads.
pub async fn a_pass_under_a_term_that_is_over_changes_nothing(stage: &Stage) {
    let old = bid(stage, "a", &Role::ALL, LEASE).await;
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let until = stage.now() + Span::from_secs(1);
    let delayed = stage.submit(JobSpec { not_before: Some(until), ..JobSpec::shell("later") }).await;
    let ended = stage.shell("ended").await;
    stage.cancel(ended.id).await.unwrap();
    stage.advance(Span::from_secs(60));
    let new = bid(stage, "b", &Role::ALL, LEASE).await;
    assert_eq!(new, terms(&Role::ALL, 2));

    let plan = Command::Plan(PlanPass {
        timeouts: Timeouts::default(),
        listening_since: stage.now(),
        limit: 100,
        look: false,
        allowances: Allowances::default(),
    });
    let before = stage.now();
    let passes = |leaders: &[LeaderTerm]| {
        let remove = Command::Remove(Removal { jobs: vec![ended.id], before });
        vec![
            sweep(None).under(leaders[0]),
            plan.clone().under(leaders[1]),
            Command::Rank { after: 0, limit: 10 }.under(leaders[1]),
            remove.under(leaders[2]),
        ]
    };
    for command in passes(&old) {
        let answer = stage.one(command).await;
        assert!(is_lost(&answer), "{answer:?}");
    }
    assert_eq!(stage.status(delayed.id).await, Status::Delayed);
    assert_eq!(stage.statuses(gang).await, [Status::Blocked, Status::Blocked]);
    assert_eq!(stage.status(ended.id).await, Status::Cancelled);

    stage.crew_alive(2).await;
    for command in passes(&new) {
        stage.one(command).await.unwrap();
    }
    assert_eq!(stage.status(delayed.id).await, Status::Pending);
    assert_eq!(stage.statuses(gang).await, [Status::Reserved, Status::Reserved]);
    assert!(stage.all().await.iter().all(|job| job.id != ended.id));
}

pub async fn others_in_the_batch_are_not_concerned(stage: &Stage) {
    let old = bid(stage, "a", &[Role::Reaper], LEASE).await;
    stage.shell("x").await;
    let job = stage.claim_by("w1").await.unwrap();
    stage.advance(Span::from_secs(31));
    let lead = Bid { holder: "b".into(), roles: vec![Role::Reaper], lease: LEASE };
    let worker = stage.new_worker("late");
    let batch = vec![
        sweep(None).under(old[0]),
        Command::RegisterWorker(worker),
        Command::Lead(lead),
        sweep(None).under(LeaderTerm { role: Role::Reaper, term: 2 }),
    ];
    let answers = stage.store.apply(stage.now(), batch).await.unwrap().answers;
    assert!(is_lost(&answers[0]), "{:?}", answers[0]);
    assert!(matches!(answers[1], Ok(Outcome::Registered(_))), "{:?}", answers[1]);
    assert_eq!(answers[2], Ok(Outcome::Leads(terms(&[Role::Reaper], 2))));
    assert!(matches!(&answers[3], Ok(Outcome::Swept(summary)) if summary.requeued == 1), "{:?}", answers[3]);
    assert_eq!(stage.status(job.id).await, Status::Pending);
}
