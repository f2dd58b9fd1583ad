//! Webhooks: real deliveries to a receiver on loopback.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_tests::{
    Backing, PortLease, Received, Receiver, Reply, Scheduler, Settings, StoreKind, eventually,
    for_each_store, id_of, lease_of, until,
};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(20);

fn quick() -> Settings {
    let pauses = Settings::default().set("webhook-first-pause", "20ms").set("webhook-longest-pause", "50ms");
    pauses.set("webhook-attempts", "3").set("webhook-timeout", "5s")
}

fn hook(scheduler: &Scheduler, request: &Value) -> Value {
    scheduler.http().post_json("/webhooks", request).expect(201).json()
}

fn shown(scheduler: &Scheduler, id: &str) -> Value {
    scheduler.http().get(&format!("/webhooks/{id}")).expect(200).json()
}

/// Submits, claims and finishes a job; returns its id.
fn finish_job(scheduler: &Scheduler, request: &Value) -> String {
    let id = id_of(&scheduler.submit_job(request));
    let job = scheduler.claim(None);
    assert_eq!(id_of(&job), id, "another job was pending");
    scheduler.report_under(lease_of(&job), &id, "done").expect(200);
    id
}

fn finish(scheduler: &Scheduler) -> String {
    finish_job(scheduler, &json!({ "command": "true" }))
}

fn deliveries(received: &[Received]) -> Vec<String> {
    received.iter().map(|delivery| delivery.header("x-muster-delivery").to_owned()).collect()
}

fn jobs(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::job_id).collect()
}

/// The signature that a receiver computes, by another program than ours.
fn expected_signature(secret: &str, received: &Received) -> String {
    let program = "import hmac, sys; \
                   print('v1=' + hmac.new(sys.argv[1].encode(), sys.stdin.buffer.read(), 'sha256').hexdigest())";
    let mut child = Command::new("python3")
        .args(["-c", program, secret])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("python3 is needed: {error}"));
    let mut input = child.stdin.take().unwrap();
    let timestamp = received.header("x-muster-timestamp");
    input.write_all(&[timestamp.as_bytes(), b".", &received.body].concat()).unwrap();
    drop(input);
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

for_each_store! {
    fn ends_of_jobs_are_delivered_signed_and_in_order(store) {
        let (scheduler, receiver) = (Scheduler::start_with(store, quick()), Receiver::start());
        finish(&scheduler);
        let made = hook(&scheduler, &json!({ "url": receiver.url(), "secret": "a secret of the test" }));
        assert_eq!(made["secret"], "a secret of the test");
        assert_eq!(made["events"], json!(["done", "failed", "cancelled"]));
        let ids: Vec<String> = (0..5).map(|_| finish(&scheduler)).collect();
        let received = receiver.await_count(5, BOUND);
        assert_eq!(jobs(&received), ids, "what was before the webhook is not delivered, the rest in order");
        for delivery in &received {
            assert_eq!(delivery.header("x-muster-signature"), expected_signature("a secret of the test", delivery));
            assert_eq!(delivery.header("x-muster-event"), "done");
            assert_eq!(delivery.header("content-type"), "application/json");
            let body = delivery.json();
            assert_eq!(body["event"]["type"], "done");
            assert_eq!(body["job"]["status"], "done");
            let id = format!("{}.{}", id_of(&made), body["event"]["id"]);
            assert_eq!(delivery.header("x-muster-delivery"), id);
        }
        let id = id_of(&made);
        let settled = eventually("the position is written down", BOUND, || {
            Some(shown(&scheduler, &id)).filter(|hook| hook["lag"] == 0 && hook["delivered"] == 5)
        });
        assert!(settled["secret"].is_null() && settled["last_success_at"].is_string(), "{settled}");
        assert_eq!(scheduler.metric("muster_webhook_attempts_total{result=\"delivered\"}"), Some(5));
        assert!(!scheduler.http().get("/webhooks").text().contains("a secret"), "it is shown once");
    }

    fn a_delivery_is_repeated_until_it_is_accepted(store) {
        let (scheduler, receiver) = (Scheduler::start_with(store, quick()), Receiver::start());
        let id = id_of(&hook(&scheduler, &json!({ "url": receiver.url() })));
        receiver.plan([Reply::status(500), Reply::status(302)]);
        let first = finish(&scheduler);
        let second = finish(&scheduler);
        let received = receiver.await_count(4, BOUND);
        assert_eq!(jobs(&received), [first.clone(), first.clone(), first, second], "the order is kept");
        let ids = deliveries(&received);
        assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
        let hook = eventually("the failures are forgotten", BOUND, || {
            Some(shown(&scheduler, &id)).filter(|hook| hook["delivered"] == 2)
        });
        assert_eq!(hook["failures"], 0);
        assert_eq!(hook["last_error"], "status 302 (redirects are not followed)");
        assert_eq!(hook["dead_letters"], 0);
    }

    fn after_the_last_attempt_there_is_a_dead_letter(store) {
        let (scheduler, receiver) = (Scheduler::start_with(store, quick()), Receiver::start());
        let id = id_of(&hook(&scheduler, &json!({ "url": receiver.url() })));
        receiver.plan([Reply::status(500), Reply::status(500), Reply::status(500)]);
        let lost = finish(&scheduler);
        let next = finish(&scheduler);
        let received = receiver.await_count(4, BOUND);
        assert_eq!(jobs(&received)[3], next, "the next one follows");
        let letters = eventually("the dead letter is kept", BOUND, || {
            let letters = scheduler.http().get(&format!("/webhooks/dead-letters?webhook_id={id}")).expect(200).json();
            letters.as_array().cloned().filter(|letters| letters.len() == 1)
        });
        assert_eq!(letters[0]["id"], received[0].header("x-muster-delivery"));
        assert_eq!((&letters[0]["job_id"], &letters[0]["attempts"]), (&json!(lost), &json!(3)));
        assert_eq!(letters[0]["error"], "status 500");
        assert_eq!(letters[0]["payload"], received[0].json());
        assert_eq!(scheduler.metric("muster_webhook_dead_letters"), Some(1));

        let retried = scheduler.http().post("/webhooks/dead-letters/retry", "").expect(200).json();
        assert_eq!(retried["count"], 1);
        let again = receiver.await_count(5, BOUND);
        assert_eq!(deliveries(&again)[4], deliveries(&again)[0], "under the same id");
        assert_eq!(again[4].json(), again[0].json());
        until("it is no dead letter any more", BOUND, || shown(&scheduler, &id)["dead_letters"] == 0);
    }

    fn a_receiver_that_is_gone_pauses_its_webhook(store) {
        let (scheduler, receiver) = (Scheduler::start_with(store, quick()), Receiver::start());
        let id = id_of(&hook(&scheduler, &json!({ "url": receiver.url() })));
        receiver.plan([Reply::status(410)]);
        let first = finish(&scheduler);
        let paused = eventually("it is paused", BOUND, || {
            Some(shown(&scheduler, &id)).filter(|hook| hook["paused"] == true)
        });
        assert_eq!(paused["last_error"], "status 410");
        let second = finish(&scheduler);
        let resume = scheduler.http().request("PATCH", &format!("/webhooks/{id}"));
        let resumed = resume.body(json!({ "paused": false }).to_string()).send().expect(200).json();
        assert_eq!(resumed["paused"], false);
        let received = receiver.await_count(3, BOUND);
        assert_eq!(jobs(&received), [first.clone(), first, second], "nothing is lost by a pause");
    }
}

#[test]
fn a_receiver_that_is_down_delays_no_other() {
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, quick().set("webhook-timeout", "60s"));
    let (silent, lively) = (Receiver::start(), Receiver::start());
    silent.answer(Reply::Silence);
    let stuck = id_of(&hook(&scheduler, &json!({ "url": silent.url() })));
    hook(&scheduler, &json!({ "url": lively.url() }));
    let ids: Vec<String> = (0..20).map(|_| finish(&scheduler)).collect();
    silent.await_count(1, BOUND);
    assert_eq!(jobs(&lively.await_count(20, BOUND)), ids);
    assert_eq!(silent.received().len(), 1, "the first one is still waited for");
    assert_eq!(shown(&scheduler, &stuck)["delivered"], 0);
}

/// The delivery has arrived, its acceptance has not: after a crash it comes again, under the same id.
#[test]
fn a_scheduler_that_is_killed_loses_no_delivery() {
    for store in [StoreKind::Sqlite, StoreKind::Postgres] {
        let mut scheduler = Scheduler::start_with(store, quick().set("webhook-timeout", "60s"));
        let receiver = Receiver::start();
        let id = id_of(&hook(&scheduler, &json!({ "url": receiver.url() })));
        let first = finish(&scheduler);
        receiver.await_count(1, BOUND);
        until("the first is written down", BOUND, || shown(&scheduler, &id)["delivered"] == 1);
        receiver.plan([Reply::Silence]);
        let (second, third) = (finish(&scheduler), finish(&scheduler));
        receiver.await_count(2, BOUND);
        scheduler.kill9();
        scheduler.restart();
        let received = receiver.await_count(4, BOUND);
        assert_eq!(jobs(&received), [first, second.clone(), second, third]);
        let ids = deliveries(&received);
        assert_eq!(ids[1], ids[2], "the receiver can tell the repetition");
        until("all are written down", BOUND, || {
            let hook = shown(&scheduler, &id);
            hook["delivered"] == 3 && hook["dead_letters"] == 0
        });
    }
}

/// One of two schedulers delivers; when it is killed the other goes on.
#[test]
fn two_schedulers_deliver_once_and_stand_in_for_each_other() {
    let backing = Backing::new(StoreKind::Postgres);
    let mut schedulers = [(); 2].map(|()| Scheduler::start_on(&backing, quick()));
    let receiver = Receiver::start();
    let id = id_of(&hook(&schedulers[0], &json!({ "url": receiver.url() })));
    let mut ids: Vec<String> = (0..10).map(|number| finish(&schedulers[number % 2])).collect();
    assert_eq!(jobs(&receiver.await_count(10, BOUND)), ids);
    until("all are written down", BOUND, || shown(&schedulers[1], &id)["delivered"] == 10);
    let leads = |scheduler: &Scheduler| scheduler.metric("muster_webhooks_leader") == Some(1);
    let leader = eventually("one of them leads", BOUND, || schedulers.iter().position(leads));
    schedulers[leader].kill9();
    ids.extend((0..3).map(|_| finish(&schedulers[1 - leader])));
    assert_eq!(jobs(&receiver.await_count(13, BOUND)), ids);
    assert_eq!(receiver.received().len(), 13, "each was delivered once");
}

#[test]
fn a_webhook_hears_only_what_it_asked_for() {
    let (scheduler, receiver) = (Scheduler::start_with(StoreKind::Memory, quick()), Receiver::start());
    let request = json!({
        "url": receiver.url(), "events": ["claimed", "done"], "queue_name": "night", "job_name": "backup",
    });
    hook(&scheduler, &request);
    finish(&scheduler);
    finish_job(&scheduler, &json!({ "command": "true", "queue_name": "night", "name": "other" }));
    let wanted =
        finish_job(&scheduler, &json!({ "command": "true", "queue_name": "night", "name": "backup" }));
    let received = receiver.await_count(2, BOUND);
    let kinds: Vec<&str> = received.iter().map(|delivery| delivery.header("x-muster-event")).collect();
    assert_eq!((kinds, jobs(&received)), (vec!["claimed", "done"], vec![wanted.clone(), wanted]));
}

#[test]
fn a_test_delivery_says_what_came_back() {
    let (scheduler, receiver) = (Scheduler::start_with(StoreKind::Memory, quick()), Receiver::start());
    let id = id_of(&hook(&scheduler, &json!({ "url": receiver.url() })));
    receiver.plan([Reply::status(201), Reply::status(404)]);
    let test = || scheduler.http().post(&format!("/webhooks/{id}/test"), "").expect(200).json();
    let good = test();
    assert_eq!((&good["accepted"], &good["status"], &good["bytes"]), (&json!(true), &json!(201), &json!(2)));
    assert!(good.get("body").is_none(), "what the receiver says is not for callers: {good}");
    let bad = test();
    assert_eq!((&bad["accepted"], &bad["error"]), (&json!(false), &json!("status 404")));
    assert_eq!(receiver.received()[0].header("x-muster-event"), "test");
    let nobody = PortLease::take();
    let url = format!("http://127.0.0.1:{}/", nobody.port());
    let deaf = id_of(&hook(&scheduler, &json!({ "url": url })));
    let nothing = scheduler.http().post(&format!("/webhooks/{deaf}/test"), "").expect(200).json();
    assert!(
        nothing["status"].is_null() && nothing["error"].as_str().unwrap().contains("refused"),
        "{nothing}"
    );
    assert_eq!(shown(&scheduler, &id)["failures"], 0, "tests do not count");
}

#[test]
fn wrong_requests_are_refused_with_the_field() {
    let scheduler = Scheduler::start_with(StoreKind::Memory, quick().set("webhook-allow-private", "false"));
    let refusal = |request: Value| scheduler.http().post_json("/webhooks", &request).expect(400).text();
    assert!(refusal(json!({})).contains("url is required"));
    assert!(refusal(json!({ "url": "ftp://example.org" })).contains("must begin with http"));
    assert!(refusal(json!({ "url": "http://127.0.0.1:1/" })).contains("private network"));
    let public = "https://example.org/";
    assert!(refusal(json!({ "url": public, "events": ["completed"] })).contains("no event \"completed\""));
    assert!(refusal(json!({ "url": public, "secret": "short" })).contains("8 to 256 bytes"));
    let unknown = "hook-67e55044-10b1-426f-9247-bb680e5fe0c8";
    for target in [unknown, "nonsense"] {
        scheduler.http().get(&format!("/webhooks/{target}")).expect(404);
        scheduler.http().request("DELETE", &format!("/webhooks/{target}")).send().expect(404);
        scheduler.http().post(&format!("/webhooks/{target}/test"), "").expect(404);
    }
    scheduler.http().request("DELETE", "/webhooks/dead-letters").send().expect(400);
    let made = hook(&scheduler, &json!({ "url": public }));
    assert_eq!(made["secret"].as_str().map(str::len), Some(64), "a secret is made up");
    scheduler.http().request("DELETE", &format!("/webhooks/{}", id_of(&made))).send().expect(204);
    assert_eq!(scheduler.http().get("/webhooks").expect(200).json(), json!([]));
}

#[test]
fn private_targets_are_refused_unless_they_are_allowed() {
    let make =
        |scheduler: &Scheduler, url: &str| scheduler.http().post_json("/webhooks", &json!({ "url": url }));
    let usual = Scheduler::start(StoreKind::Memory);
    for url in
        ["http://10.0.0.1/", "http://169.254.169.254/latest", "http://[fd00::1]/", "http://192.168.1.1:80/"]
    {
        let text = make(&usual, url).expect(400).text();
        assert!(text.contains("--webhook-allow"), "{url}: {text}");
    }
    make(&usual, "http://127.0.0.1:9/").expect(201);
    let settings =
        Settings::default().set("webhook-allow", "10.0.0.0/8").set("webhook-allow-private", "false");
    let strict = Scheduler::start_with(StoreKind::Memory, settings);
    make(&strict, "http://10.0.0.1/").expect(201);
    make(&strict, "http://127.0.0.1:9/").expect(400);
}
