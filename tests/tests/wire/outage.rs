//! The store goes away and comes back; the scheduler stays.

use std::time::Duration;

use muster_tests::{Backing, Postgres, Scheduler, Settings, until};

/// For what is not judged by its speed.
const BOUND: Duration = Duration::from_secs(60);

fn ride_out(stop: fn(&Postgres)) {
    let cluster = Postgres::start();
    let backing = Backing::on(&cluster);
    let mut scheduler = Scheduler::start_on(&backing, Settings::default().set("reaper-interval", "200ms"));
    let http = scheduler.http();
    let before = scheduler.submit("before");
    stop(&cluster);
    until("readyz is 503", Duration::from_secs(3), || http.get("/readyz").status == 503);
    let refused = http.post("/jobs", r#"{"command":"during"}"#);
    refused.expect(503);
    assert!(refused.header("content-type").is_some_and(|value| value.starts_with("text/plain")));
    assert!(refused.header("x-request-id").is_some());
    http.get(&format!("/jobs/{before}")).expect(503);
    http.get("/jobs/next?worker_id=w").expect(503);
    http.get("/healthz").expect(200);
    http.get("/metrics").expect(200);
    assert!(scheduler.process().is_alive());
    cluster.restart();
    until("readyz is 200 again", Duration::from_secs(15), || http.get("/readyz").status == 200);
    assert_eq!(scheduler.status(&before), "pending");
    assert_eq!(scheduler.jobs().len(), 1, "what was refused has left nothing behind");
    let after = scheduler.submit("after");
    assert_eq!(scheduler.claim(None)["id"], before.as_str());
    assert_eq!(scheduler.claim(None)["id"], after.as_str());
    assert!(scheduler.terminate().success());
}

#[test]
fn t26_postgres_stopped_and_started_again() {
    ride_out(Postgres::stop);
}

#[test]
fn t26_postgres_killed_and_started_again() {
    ride_out(Postgres::kill9);
}

#[test]
fn t26_parked_claims_survive_the_outage() {
    let cluster = Postgres::start();
    let scheduler = Scheduler::start_on(&Backing::on(&cluster), Settings::default());
    let http = scheduler.http();
    let parked =
        std::thread::spawn(move || http.request("GET", "/jobs/next?worker_id=w&wait=20s").try_send());
    cluster.stop_immediate();
    cluster.restart();
    until("readyz is 200 again", Duration::from_secs(15), || http.get("/readyz").status == 200);
    let id = scheduler.submit("after");
    let answer = parked.join().unwrap().unwrap();
    // The poll either lived through the outage or was told of it; a told client asks again.
    let claimed = if answer.status == 200 {
        answer
    } else {
        assert_eq!(answer.status, 503);
        http.get("/jobs/next?worker_id=w&wait=10s")
    };
    assert_eq!(claimed.expect(200).json()["id"], id.as_str());
}

#[test]
fn a_scheduler_that_starts_before_its_database_waits_for_it() {
    let cluster = Postgres::start();
    let backing = Backing::on(&cluster);
    cluster.stop();
    let mut scheduler = Scheduler::start_unready(&backing, Settings::default());
    let http = scheduler.http();
    let healthz = || http.request("GET", "/healthz").try_send().is_ok_and(|answer| answer.status == 200);
    until("it is alive", BOUND, healthz);
    until("it says what it waits for", BOUND, || {
        let ready = http.get("/readyz");
        assert_eq!(ready.status, 503);
        ready.text().contains("the store is out of reach")
    });
    http.post("/jobs", r#"{"command":"during"}"#).expect(503);
    assert!(scheduler.process().is_alive());
    assert!(scheduler.process().output().contains("out of reach"), "{}", scheduler.process().output());
    cluster.restart();
    scheduler.await_ready();
    let id = scheduler.submit("after");
    assert_eq!(scheduler.claim(None)["id"], id.as_str());
    assert!(scheduler.terminate().success());
}
