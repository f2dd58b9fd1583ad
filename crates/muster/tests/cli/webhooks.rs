//! `webhook`: from the first to the dead letter, with a real receiver.

use muster_tests::{Receiver, Reply, eventually, until};

use crate::harness::{BOUND, Up};

#[test]
fn a_webhook_is_made_tried_and_removed() {
    let (up, receiver) = (Up::start(), Receiver::start());
    let none = up.run(&["webhook", "ls"]).ok();
    assert!(none.stdout.is_empty() && none.stderr.contains("muster webhook add"), "{none:?}");
    let made = up.run(&["webhook", "add", &receiver.url(), "--event", "done,failed"]).ok();
    assert!(made.stdout.contains("secret:") && made.stderr.contains("not shown again"), "{made:?}");
    let listed = up.run(&["webhook", "ls", "--json"]).ok().json();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert!(listed[0]["secret"].is_null(), "{listed}");
    let tested = up.run(&["webhook", "test", &id[..13]]).ok();
    assert!(tested.stdout.starts_with("accepted with status 200"), "{tested:?}");
    receiver.plan([Reply::status(500)]);
    let refused = up.run(&["webhook", "test", &id]);
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("status 500"), "{refused:?}");

    up.run(&["webhook", "pause", &id]).ok();
    let job = up.submit(&["--", "true"]);
    up.run(&["wait", &job]).ok();
    assert_eq!(receiver.received().len(), 2, "only the tests came");
    let resumed = up.run(&["webhook", "resume", &id, "--json"]).ok().json();
    assert_eq!(resumed["paused"], false);
    let received = receiver.await_count(3, BOUND);
    assert_eq!(received[2].job_id(), job);
    until("the delivery is counted", BOUND, || {
        up.run(&["webhook", "show", &id, "--json"]).ok().json()["delivered"] == 1
    });
    let shown = up.run(&["webhook", "show", &id]).ok();
    assert!(shown.stdout.contains("delivered:    1"), "{shown:?}");
    up.run(&["webhook", "rm", &id]).ok();
    let gone = up.run(&["webhook", "show", &id]);
    assert_eq!(gone.code(), 1);
    assert!(gone.stderr.contains("muster webhook ls"), "{gone:?}");
}

#[test]
fn dead_letters_are_listed_sent_again_and_removed() {
    let settings = "webhook-attempts = 1\nwebhook-first-pause = \"20ms\"";
    let (up, receiver) = (Up::start_configured(settings), Receiver::start());
    receiver.plan([Reply::status(503), Reply::status(503)]);
    let made = up.run(&["webhook", "add", &receiver.url(), "--json"]).ok().json();
    let hook = made["id"].as_str().unwrap();
    for _ in 0..2 {
        let job = up.submit(&["--", "true"]);
        up.run(&["wait", &job]).ok();
    }
    let list = || up.run(&["webhook", "dead-letters", "--webhook", hook, "--json"]).ok().json();
    let letters = eventually("both are dead letters", BOUND, || {
        list().as_array().cloned().filter(|letters| letters.len() == 2)
    });
    let (first, second) = (letters[0]["id"].as_str().unwrap(), letters[1]["id"].as_str().unwrap());
    let table = up.run(&["webhook", "dead-letters"]).ok();
    assert!(table.stdout.contains(first) && table.stdout.contains("status 503"), "{table:?}");
    let retried = up.run(&["webhook", "dead-letters", "retry", first]).ok();
    assert!(retried.stderr.contains("1 dead letter to be sent once more"), "{retried:?}");
    let received = receiver.await_count(3, BOUND);
    assert_eq!(received[2].header("x-muster-delivery"), first);
    until("one is left", BOUND, || list().as_array().is_some_and(|letters| letters.len() == 1));
    let unclear = up.run(&["webhook", "dead-letters", "rm"]);
    assert_eq!(unclear.code(), 2);
    assert!(unclear.stderr.contains("--all"), "{unclear:?}");
    let removed = up.run(&["webhook", "dead-letters", "rm", second, "--json"]).ok();
    assert_eq!(removed.json()["count"], 1);
    assert_eq!(up.run(&["webhook", "dead-letters", "rm", second]).code(), 1, "it is gone already");
}

#[test]
fn wrong_webhooks_are_explained() {
    let up = Up::start();
    let refused = up.run(&["webhook", "add", "example.org/hook"]);
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("https://example.org/hook"), "{refused:?}");
    let refused = up.run(&["webhook", "add", "http://example.org/", "--event", "ended"]);
    assert!(refused.stderr.contains("\"ended\"") && refused.stderr.contains("cancelled"), "{refused:?}");
}
