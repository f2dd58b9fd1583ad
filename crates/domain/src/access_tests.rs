//! The table of rights, cell by cell.

use super::*;

/// `+` always, `o` with its own only, `a` also where it administrates the queue, `.` never; in the order of [`callers`].
const EXPECTED: [(Action, &str); 34] = [
    (Action::ReadHealth, "+ + + + + + + + + +"),
    (Action::ReadMetrics, "+ . + + + + . . . ."),
    (Action::ReadCluster, "+ . + + + + . . . ."),
    (Action::ReadJobs, "+ . + + + + o o . ."),
    (Action::ReadEvents, "+ . + + + + . . . ."),
    (Action::ReadOutput, "+ . + + + + o o . ."),
    (Action::ReadArtifacts, "+ . + + + + o o . ."),
    (Action::FollowLink, "+ + + + + + + + + +"),
    (Action::ReadCheckpoint, "+ . . o + + o o . ."),
    (Action::ReadInputs, "+ . . o + + o o . ."),
    (Action::SubmitJobs, "+ . . + + + . . . ."),
    (Action::ChangeJobs, "+ . . a + + . . . ."),
    (Action::ClaimJobs, "+ . . . . . o . . o"),
    (Action::ReportJobs, "+ . . . . . o . . o"),
    (Action::SaveArtifacts, "+ . . . . . o o . o"),
    (Action::SaveCheckpoint, "+ . . . . . o o . o"),
    (Action::ReadNotice, "+ . . . . . . o . ."),
    (Action::OpenTerminal, "+ . . a + + . . . ."),
    (Action::ServeTerminal, "+ . . . . . o o . o"),
    (Action::ReadQueues, "+ . + + + + . . . ."),
    (Action::ChangeQueues, "+ . . a + + . . . ."),
    (Action::RemoveQueues, "+ . . . + + . . . ."),
    (Action::ReadWorkers, "+ . + + + + . . . ."),
    (Action::ChangeWorkers, "+ . . . + + . . . ."),
    (Action::ReadWebhooks, "+ . . . + + . . . ."),
    (Action::ChangeWebhooks, "+ . . . + + . . . ."),
    (Action::UseAccount, "+ + + + + + + . . +"),
    (Action::ManageTokens, "+ . o o o + . . . ."),
    (Action::ManageAccounts, "+ . . . . + . . . ."),
    (Action::ManageKeys, "+ . . . + + . . . ."),
    (Action::Join, "+ . . . . . . . + ."),
    (Action::ReadAudit, "+ . . . . + . . . ."),
    (Action::ReadSecrets, "+ . . + + + . . . ."),
    (Action::ChangeSecrets, "+ . . + + + . . . ."),
];

const OTHER_USER: Unproven = Unproven::OtherUser { caller: 1001, scheduler: 1000 };

fn callers() -> [Principal; COLUMNS] {
    let user = |role| Principal::User { name: "ann".to_owned(), role, queues: None };
    [
        Principal::Local,
        Principal::Stranger(OTHER_USER),
        user(UserRole::Viewer),
        user(UserRole::User),
        user(UserRole::Operator),
        user(UserRole::Admin),
        Principal::Worker { id: WorkerId::new("w1"), tags: None },
        Principal::Job(JobId::from_random([1; 16])),
        Principal::Joiner,
        Principal::Keyless(OTHER_USER),
    ]
}

#[test]
fn every_cell_is_as_stated() {
    let (worker, other_worker) = (WorkerId::new("w1"), WorkerId::new("w2"));
    let (job, other_job) = (JobId::from_random([1; 16]), JobId::from_random([2; 16]));
    let own = Object {
        job: Some(job),
        owner: Some("ann"),
        worker: Some(&worker),
        keyless: true,
        ..Object::UNKNOWN
    };
    let others =
        Object { job: Some(other_job), owner: Some("bob"), worker: Some(&other_worker), ..Object::UNKNOWN };
    let admins = ["ann".to_owned()];
    let administrated = Object { admins: &admins, ..others };
    let mut cells = 0;
    for (action, expected) in EXPECTED {
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(expected.len(), COLUMNS, "{action:?}");
        for (principal, expected) in callers().iter().zip(expected) {
            let allowed = |object| may(principal, action, object).is_ok();
            let found = [&own, &others, &Object::UNKNOWN, &administrated].map(allowed);
            let stated = match expected {
                "+" => [true; 4],
                "o" => [true, false, false, false],
                "a" => [true, false, false, true],
                _ => [false; 4],
            };
            assert_eq!(found, stated, "{principal:?} {action:?}");
            cells += 1;
        }
    }
    // The list above has no gaps and no action twice: it is as long as the enum, in its order.
    assert_eq!(cells, (Action::ChangeSecrets as usize + 1) * COLUMNS);
    for (place, (action, _)) in EXPECTED.iter().enumerate() {
        assert_eq!(*action as usize, place, "{action:?}");
    }
}

#[test]
fn a_refusal_says_why_and_what_to_do() {
    let [_, stranger, viewer, user, ..] = callers();
    let why =
        |principal, action| may(principal, action, &Object::UNKNOWN).map_err(|denied| denied.to_string());
    let refused = why(&stranger, Action::ReadJobs).unwrap_err();
    assert!(refused.contains("uid 1000") && refused.contains("uid 1001"), "{refused}");
    assert!(refused.contains("--loopback any"), "{refused}");
    let keyless = Principal::Keyless(Unproven::NoCredential);
    assert!(why(&keyless, Action::ReadJobs).unwrap_err().contains("log in"));
    let not_own = "a worker without a key may report on jobs only where it is its own";
    assert_eq!(why(&keyless, Action::ReportJobs).unwrap_err(), not_own);
    let unknown = Principal::Stranger(Unproven::OwnerUnknown { scheduler: 1000 });
    assert!(why(&unknown, Action::ReadJobs).unwrap_err().contains("--loopback any"));
    assert_eq!(why(&viewer, Action::SubmitJobs).unwrap_err(), "a viewer may not submit jobs");
    assert_eq!(
        why(&user, Action::ChangeJobs).unwrap_err(),
        "a user may change jobs only where it is its own"
    );
}

#[test]
fn a_worker_that_held_a_job_may_still_report_and_nothing_else() {
    let (worker, now) = (WorkerId::new("w1"), WorkerId::new("w2"));
    let former = [worker.clone()];
    let job = Object { worker: Some(&now), former: &former, ..Object::UNKNOWN };
    let late = Principal::Worker { id: worker, tags: None };
    for (action, _) in EXPECTED {
        let before = may(&late, action, &Object { former: &[], ..job }).is_ok();
        assert_eq!(may(&late, action, &job).is_ok(), before || action == Action::ReportJobs, "{action:?}");
    }
    let other = Principal::Worker { id: WorkerId::new("w3"), tags: None };
    assert!(may(&other, Action::ReportJobs, &job).is_err());
}
