//! Drains of gangs: what starts one, who pays for it, how it ends, and what is kept.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_tests::{Gang, Http, Response, Scheduler, Settings, for_each_store, id_of, lease_of, until};
use serde_json::{Value, json};

const FORCED: &str = "muster_gang_preemptions_force_drained_total";
const DRAINS: &str = "muster_gangs_preempted_total";

/// A gang of three that runs, and its claims.
fn running(scheduler: &Scheduler, extra: &Value) -> (Gang, Vec<Value>) {
    scheduler.register_many(3);
    let mut request = json!({ "command": "true", "gang_size": 3 });
    for (key, value) in extra.as_object().unwrap() {
        request[key] = value.clone();
    }
    let gang = scheduler.submit_gang_with(&request);
    let claims = scheduler.start_gang(&gang);
    assert_eq!(scheduler.gang_attempts(&gang), [1, 1, 1]);
    (gang, claims)
}

fn completed(scheduler: &Scheduler, outcome: &str) -> u64 {
    scheduler.count_of(&format!("muster_gang_preemptions_completed_total{{outcome=\"{outcome}\"}}"))
}

fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

/// Reports without a lease, as the original worker does.
fn acknowledge_anonymously(scheduler: &Scheduler, gang: &Gang, epoch: u64) {
    for task in &gang.tasks {
        scheduler.report(task, &format!("preempted?epoch={epoch}")).expect_empty();
    }
}

fn with_token(http: Http, method: &str, target: &str, claim: &Value, body: &[u8]) -> Response {
    let token = claim["token"].as_str().unwrap_or_else(|| panic!("no token in {claim}"));
    http.request(method, target).header("Authorization", &format!("Bearer {token}")).body(body).send()
}

for_each_store! {
    fn t17_one_failure_stops_all_under_one_epoch_and_one_pays(store) {
        let scheduler = Scheduler::start(store);
        let (gang, _) = running(&scheduler, &json!({}));
        scheduler.report(&gang.tasks[1], "fail").expect_empty();
        let tasks = scheduler.gang(&gang);
        for task in &tasks {
            assert_eq!((&task["status"], &task["preemption_epoch"]), (&json!("preempting"), &json!(1)));
            assert!(task["drain_started_at"].is_string());
        }
        assert_eq!(scheduler.gang_attempts(&gang), [0, 1, 0]);
        for task in &gang.tasks {
            let action = scheduler.report(task, "heartbeat").expect(200).json();
            assert_eq!(action, json!({ "action": "preempt", "preemption_epoch": 1, "preemptionEpoch": 1 }));
        }
        acknowledge_anonymously(&scheduler, &gang, 1);
        let tasks = scheduler.await_round(&gang, 2);
        assert_eq!(scheduler.gang_attempts(&gang), [0, 1, 0]);
        for task in &tasks {
            assert!(task.get("drain_started_at").is_none(), "gone after the verdict: {task}");
            assert_eq!(task["preemption_epoch"], 1, "stays for ever");
        }
        scheduler.start_gang(&gang);
        assert_eq!(scheduler.gang_attempts(&gang), [1, 2, 1]);
        scheduler.report(&gang.tasks[0], "fail").expect_empty();
        assert!(scheduler.gang(&gang).iter().all(|task| task["preemption_epoch"] == 2), "the epoch grows");
        assert_eq!((scheduler.count_of(DRAINS), completed(&scheduler, "blocked")), (2, 1));
        assert_eq!(scheduler.metric("muster_jobs_retried_total"), Some(2), "each drain by a failure");
    }

    fn t18_a_failure_under_a_lease_needs_no_force(store) {
        let scheduler = Scheduler::start(store);
        let (gang, claims) = running(&scheduler, &json!({}));
        scheduler.report_under(lease_of(&claims[0]), &gang.tasks[0], "fail").expect_empty();
        assert_eq!(scheduler.gang_statuses(&gang), ["preempted", "preempting", "preempting"]);
        scheduler.report_under(lease_of(&claims[0]), &gang.tasks[0], "fail").expect_empty();
        scheduler.report_under(lease_of(&claims[1]), &gang.tasks[1], "fail").expect_empty();
        assert_eq!(scheduler.gang_statuses(&gang), ["preempted", "preempted", "preempting"]);
        scheduler.acknowledge(&claims[2..], 1);
        scheduler.await_round(&gang, 2);
        assert_eq!(scheduler.gang_attempts(&gang), [1, 0, 0]);
        assert_eq!((scheduler.count_of(FORCED), scheduler.count_of(DRAINS)), (0, 1));
    }

    fn t19_silent_workers_are_not_waited_for_for_ever(store) {
        let settings = Settings::default().set("preempt-timeout", "700ms").set("reaper-interval", "100ms");
        let scheduler = Scheduler::start_with(store, settings);
        let (gang, claims) = running(&scheduler, &json!({}));
        scheduler.report(&gang.tasks[2], "fail").expect_empty();
        scheduler.await_round(&gang, 2);
        assert_eq!(scheduler.gang_attempts(&gang), [0, 0, 1]);
        assert_eq!(scheduler.count_of(FORCED), 3);
        assert_eq!(completed(&scheduler, "blocked"), 1);
        let late = scheduler.report_under(lease_of(&claims[0]), &gang.tasks[0], "done");
        assert_eq!(late.status, 409, "too late: {}", late.text());
    }

    fn t20_the_last_attempt_of_one_fails_all(store) {
        let scheduler = Scheduler::start(store);
        let (gang, mut claims) = running(&scheduler, &json!({ "max_retries": 2 }));
        for round in 1..=2 {
            scheduler.report_under(lease_of(&claims[1]), &gang.tasks[1], "fail?exit_code=3").expect_empty();
            scheduler.acknowledge(&[claims[0].clone(), claims[2].clone()], round);
            if round == 1 {
                claims = scheduler.start_gang(&gang);
            }
        }
        let tasks = scheduler.await_gang(&gang, "failed");
        assert_eq!(scheduler.gang_attempts(&gang), [0, 2, 0]);
        assert!(tasks.iter().all(|task| task["done_at"].is_string() && task["reason"].is_string()));
        assert_eq!(completed(&scheduler, "failed"), 1);
        assert_eq!(scheduler.metric("muster_jobs_failed_total"), Some(3), "failures of gangs count");
    }

    fn t20_a_task_is_done_only_with_the_others(store) {
        let scheduler = Scheduler::start(store);
        let (gang, claims) = running(&scheduler, &json!({}));
        scheduler.report_under(lease_of(&claims[0]), &gang.tasks[0], "done").expect_empty();
        assert_eq!(scheduler.gang_statuses(&gang), ["finished", "running", "running"]);
        scheduler.report_under(lease_of(&claims[1]), &gang.tasks[1], "fail").expect_empty();
        scheduler.acknowledge(&claims[2..], 1);
        let claims = scheduler.start_gang(&gang);
        assert_eq!(scheduler.gang_attempts(&gang), [1, 2, 1], "only the one that failed pays");
        for (task, claim) in gang.tasks.iter().zip(&claims) {
            scheduler.report_under(lease_of(claim), task, "done").expect_empty();
        }
        assert_eq!(scheduler.gang_statuses(&gang), ["done", "done", "done"]);
        assert_eq!(scheduler.metric("muster_jobs_completed_total"), Some(3), "each counts once");
    }

    fn t20_unless_the_gang_keeps_what_is_done(store) {
        let scheduler = Scheduler::start(store);
        let (gang, claims) = running(&scheduler, &json!({ "gang_policy": "keep_done" }));
        scheduler.report_under(lease_of(&claims[0]), &gang.tasks[0], "done").expect_empty();
        scheduler.report_under(lease_of(&claims[1]), &gang.tasks[1], "fail").expect_empty();
        scheduler.acknowledge(&claims[2..], 1);
        until("the others are placed again", Duration::from_secs(60), || {
            scheduler.gang_statuses(&gang) == ["done", "reserved", "reserved"]
        });
        for task in &scheduler.gang(&gang)[1..] {
            let claim = scheduler.claim(task["worker_id"].as_str());
            assert_eq!(claim["env"]["GANG_SIZE"], "3", "indices keep their meaning");
            scheduler.report_under(lease_of(&claim), &id_of(&claim), "done").expect_empty();
        }
        assert_eq!(scheduler.gang_statuses(&gang), ["done", "done", "done"]);
        assert_eq!(scheduler.gang_attempts(&gang), [1, 2, 1]);
    }

    fn t21_a_checkpoint_comes_back_byte_for_byte(store) {
        let scheduler = Scheduler::start(store);
        let (gang, claims) = running(&scheduler, &json!({}));
        scheduler.report(&gang.tasks[0], "fail").expect_empty();
        let target = |task: &str| format!("/jobs/{task}/checkpoint");
        for task in &gang.tasks {
            scheduler.http().post(&format!("{}?epoch=1", target(task)), every_byte()).expect_empty();
        }
        let read = scheduler.http().get(&target(&gang.tasks[1]));
        assert_eq!(read.expect(200).header("content-type"), Some("application/octet-stream"));
        assert_eq!(read.body, every_byte());
        assert_eq!(scheduler.job(&gang.tasks[1])["checkpoint"], STANDARD.encode(every_byte()));
        scheduler.http().post(&format!("{}?epoch=1", target(&gang.tasks[2])), r#"{"step": 1}"#).expect_empty();
        scheduler.acknowledge(&claims, 1);
        let claims = scheduler.start_gang(&gang);
        let given = |claim: &Value| {
            STANDARD.decode(claim["env"]["CHECKPOINT_DATA"].as_str().unwrap_or_default()).unwrap()
        };
        let expected = [every_byte(), every_byte(), br#"{"step": 1}"#.to_vec()];
        assert_eq!(claims.iter().map(given).collect::<Vec<_>>(), expected);
        assert_eq!(claims[2]["checkpoint"], json!({ "step": 1 }));
        for claim in &claims {
            assert_eq!(claim["env"]["GANG_SIZE"], "3");
            assert_eq!(claim["env"]["GANG_ID"], gang.id.as_str());
        }
    }

    fn t24_two_that_fall_silent_together_are_one_drain(store) {
        let settings = Settings::default()
            .set("job-heartbeat-timeout", "700ms")
            .set("preempt-timeout", "1s")
            .set("reaper-interval", "100ms");
        let scheduler = Scheduler::start_with(store, settings);
        let gang = scheduler.submit_gang(3);
        scheduler.register_many(3);
        scheduler.start_gang(&gang);
        scheduler.await_round(&gang, 2);
        let mut attempts = scheduler.gang_attempts(&gang);
        attempts.sort_unstable();
        assert_eq!(attempts, [0, 0, 1], "one pays");
        assert_eq!((scheduler.count_of(DRAINS), completed(&scheduler, "blocked")), (1, 1));
        assert_eq!(scheduler.count_of(r#"muster_jobs_reaped_total{outcome="requeued"}"#), 1);
    }

    fn a4_7_codes_of_an_acknowledgement(store) {
        let scheduler = Scheduler::start(store);
        let (gang, _) = running(&scheduler, &json!({}));
        let task = &gang.tasks[0];
        let nobody = "job-00000000-0000-4000-8000-000000000000";
        scheduler.report(task, "preempted?epoch=0").expect(409);
        scheduler.report(task, "fail").expect_empty();
        scheduler.report(nobody, "preempted").expect_error(404, "job not found");
        scheduler.report(task, "preempted").expect_error(400, "epoch query parameter is required");
        scheduler.report(task, "preempted?epoch=abc").expect_error(400, "epoch must be an integer");
        scheduler.report(task, "preempted?epoch=2").expect(409);
        scheduler.report(task, "preempted?epoch=0").expect(409);
        scheduler.report(task, "preempted?epoch=1").expect_empty();
        assert_eq!(scheduler.gang_statuses(&gang), ["preempted", "preempting", "preempting"]);
        scheduler.report(task, "preempted?epoch=1").expect(409);
        for report in ["done", "fail", "heartbeat"] {
            scheduler.report(task, report).expect(409);
        }
        for task in &gang.tasks[1..] {
            scheduler.report(task, "done").expect(409);
        }
    }

    fn a4_8_codes_of_a_checkpoint(store) {
        let scheduler = Scheduler::start(store);
        let (gang, _) = running(&scheduler, &json!({}));
        let target = format!("/jobs/{}/checkpoint", gang.tasks[0]);
        let save = |query: &str, body: &str| scheduler.http().post(&format!("{target}{query}"), body);
        save("?epoch=0", "x").expect(409);
        scheduler.http().get(&target).expect(204);
        scheduler.report(&gang.tasks[1], "fail").expect_empty();
        let nobody = "/jobs/job-00000000-0000-4000-8000-000000000000/checkpoint";
        scheduler.http().post(nobody, "x").expect_error(404, "job not found");
        scheduler.http().get(nobody).expect_error(404, "job not found");
        save("", "x").expect_error(400, "epoch query parameter is required");
        save("?epoch=abc", "x").expect_error(400, "epoch must be an integer");
        save("?epoch=1", "").expect_error(400, "checkpoint body is empty");
        save("?epoch=2", "x").expect(409);
        scheduler.http().get(&target).expect(204);
        save("?epoch=1", "first").expect_empty();
        save("?epoch=1", "second").expect_empty();
        assert_eq!(scheduler.http().get(&target).expect(200).text(), "second", "one slot");
        scheduler.report(&gang.tasks[0], "preempted?epoch=1").expect_empty();
        save("?epoch=1", "late").expect(409);
    }

    fn a_job_speaks_for_itself_with_its_token(store) {
        let scheduler = Scheduler::start(store);
        let (gang, claims) = running(&scheduler, &json!({ "grace_seconds": 20 }));
        let http = scheduler.http();
        http.get("/notice").expect(401);
        http.request("GET", "/notice").header("Authorization", "Bearer mj1.x.1.y").send().expect(401);
        with_token(http, "GET", "/notice", &claims[0], b"").expect(204);
        let target = format!("/jobs/{}/checkpoint", gang.tasks[0]);
        with_token(http, "POST", &target, &claims[1], b"of another").expect(401);
        with_token(http, "POST", &target, &claims[0], b"while it runs").expect_empty();
        assert_eq!(http.get(&target).expect(200).text(), "while it runs");
        http.post(&format!("/gangs/{}/preempt?message=maintenance", gang.id), "").expect(200);
        let notice = with_token(http, "GET", "/notice", &claims[0], b"").expect(200).json();
        assert_eq!((&notice["comes_back"], &notice["preemption_epoch"]), (&json!(true), &json!(1)));
        assert!(notice["reason"].as_str().unwrap().contains("maintenance"), "{notice}");
        assert!(notice["deadline"].is_string());
        scheduler.acknowledge(&claims, 1);
        let again = scheduler.start_gang(&gang);
        assert_eq!(again[0]["env"]["CHECKPOINT_DATA"], STANDARD.encode("while it runs"));
        assert_eq!(scheduler.gang_attempts(&gang), [1, 1, 1], "making room costs nothing");
        with_token(http, "GET", "/notice", &claims[0], b"").expect(409);
        with_token(http, "POST", &target, &claims[0], b"late").expect(409);
        http.post(&format!("/gangs/{}/cancel", gang.id), "").expect(200);
        let notice = with_token(http, "GET", "/notice", &again[0], b"").expect(200).json();
        assert_eq!(notice["comes_back"], false);
    }
}

#[test]
fn a_large_checkpoint_survives_a_restart() {
    use muster_tests::StoreKind::{Postgres, Sqlite};
    for store in [Sqlite, Postgres] {
        let mut scheduler = Scheduler::start(store);
        let (gang, claims) = running(&scheduler, &json!({}));
        let bytes: Vec<u8> = every_byte().into_iter().cycle().take(300 * 1024).collect();
        let target = format!("/jobs/{}/checkpoint", gang.tasks[0]);
        let save = format!("{target}?lease={}", lease_of(&claims[0]));
        scheduler.http().post(&save, &bytes).expect_empty();
        scheduler.kill9();
        scheduler.restart();
        assert_eq!(scheduler.http().get(&target).expect(200).body, bytes);
        scheduler.report_under(lease_of(&claims[0]), &gang.tasks[0], "fail").expect_empty();
        scheduler.acknowledge(&claims[1..], 1);
        let again = scheduler.start_gang(&gang);
        assert!(again[0]["env"].get("CHECKPOINT_DATA").is_none(), "too large for an environment");
        assert_eq!(again[0]["checkpoint_bytes"], 300 * 1024);
        assert_eq!(scheduler.http().get(&target).expect(200).body, bytes);
    }
}
