//! Input that no client should send: a clear error, no effect, and the next client is served.

use std::io::{Read, Write};

use muster_tests::{Scheduler, for_each_store, lease_of};
use serde_json::json;

/// Everything that the tests compare before and after.
fn state(scheduler: &Scheduler) -> String {
    let mut jobs: Vec<String> = scheduler.jobs().iter().map(ToString::to_string).collect();
    jobs.sort();
    format!("{jobs:?}")
}

for_each_store! {
    fn broken_bodies_change_nothing(store) {
        let scheduler = Scheduler::start(store);
        scheduler.submit("waiting");
        let before = state(&scheduler);
        let bodies: [&[u8]; 9] = [
            b"",
            b"{",
            b"\xff\xfe\x00",
            b"{\"command\":\"\xc3\x28\"}",
            b"{\"command\":\"\\ud800\"}",
            b"{\"command\":\"a\",\"priority\":99999999999999999999}",
            b"{\"command\":\"a\",\"resources\":{\"memory_mb\":-1}}",
            b"{\"command\":\"a\",\"env\":{\"A\":1}}",
            b"\x00\x00\x00\x00",
        ];
        for body in bodies {
            let shown = String::from_utf8_lossy(body).into_owned();
            for target in ["/jobs", "/jobs/batch", "/workers/register"] {
                let response = scheduler.http().post(target, body);
                assert_eq!(response.status, 400, "{target} {shown}: {}", response.text());
            }
        }
        assert_eq!(state(&scheduler), before);
        assert!(scheduler.workers().is_empty());
    }

    fn deeply_nested_json_is_harmless(store) {
        let scheduler = Scheduler::start(store);
        let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for field in ["command", "depends_on", "resources", "env"] {
            let body = format!("{{\"command\":\"a\",\"{field}\":{nested}}}");
            scheduler.http().post("/jobs", body).expect(400);
        }
        scheduler.http().post("/jobs/batch", &nested).expect(400);
        assert!(scheduler.jobs().is_empty());
        // An unknown field is refused, whatever it holds, also where the others are ignored.
        let body = format!("{{\"command\":\"a\",\"x\":{nested}}}");
        scheduler.http().post("/jobs", &body).expect(400);
        scheduler.http().request("POST", "/jobs").header("Muster-Lenient", "true").body(&body).send().expect(400);
    }

    fn a_nul_byte_in_a_text_is_refused(store) {
        let scheduler = Scheduler::start(store);
        for body in [
            json!({ "command": "echo \0" }),
            json!({ "command": "a", "name": "x\0y" }),
            json!({ "command": "a", "queue_name": "\0" }),
            json!({ "command": "a", "env": { "A": "\0" } }),
            json!({ "command": "a", "tags": ["\0"] }),
            json!({ "command": "a", "idempotency_key": "\0" }),
        ] {
            scheduler.http().post_json("/jobs", &body).expect(400);
        }
        scheduler.http().post_json("/workers/register", &json!({ "id": "w\0" })).expect(400);
        assert!(scheduler.jobs().is_empty());
    }

    fn bodies_over_the_limit_are_413_with_the_limit(store) {
        let scheduler = Scheduler::start(store);
        let huge = format!("{{\"command\":\"{}\"}}", "x".repeat(9 * 1024 * 1024));
        for target in ["/jobs", "/workers/register"] {
            let response = scheduler.http().post(target, &huge);
            response.expect(413);
            assert!(response.text().chars().any(|letter| letter.is_ascii_digit()), "no limit in: {}", response.text());
        }
        assert!(scheduler.jobs().is_empty());
        let long = scheduler.http().post_json("/jobs", &json!({ "command": "x".repeat(4 * 1024 * 1024) }));
        assert!(matches!(long.status, 400 | 413), "{}", long.status);
        assert!(scheduler.jobs().is_empty());
        // The scheduler is as well as before.
        scheduler.submit("true");
    }

    fn a_declared_length_over_the_limit_is_refused_before_the_body_comes(store) {
        let scheduler = Scheduler::start(store);
        let head = "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{";
        let response = scheduler.http().raw(head.as_bytes()).unwrap();
        response.expect(413);
    }

    fn unknown_ids_of_every_shape_are_404(store) {
        let scheduler = Scheduler::start(store);
        let ids = [
            "x", "job-", "job-00000000-0000-4000-8000-000000000000", "%00", "%ff%fe", "..%2f..", "%27%20or%201=1--",
            "next-but-not-quite", &"y".repeat(2000),
        ];
        for id in ids {
            for (method, tail) in [("GET", ""), ("POST", "/done"), ("POST", "/heartbeat"), ("POST", "/cancel"), ("GET", "/events"), ("GET", "/why")] {
                let response = scheduler.http().request(method, &format!("/jobs/{id}{tail}")).send();
                assert!(matches!(response.status, 400 | 404), "{method} {id}{tail}: {}", response.status);
            }
        }
    }

    fn strange_queries_are_refused_or_ignored(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        let lease = lease_of(&scheduler.claim(Some("w")));
        let before = state(&scheduler);
        for target in [
            "/jobs?limit=-1", "/jobs?limit=abc", "/jobs?cursor=nonsense", "/jobs?status=nonsense", "/jobs?since=yesterday",
            "/jobs/next?wait=abc", "/jobs/next?max=0", "/jobs/next?max=-1", "/jobs/next?wait=-5s", "/jobs?%ff=%fe",
        ] {
            let status = scheduler.http().get(target).status;
            assert!(matches!(status, 200 | 204 | 400), "{target}: {status}");
        }
        for target in [format!("/jobs/{id}/done?lease=-1"), format!("/jobs/{id}/done?lease=1e3"), format!("/jobs/{id}/done?lease={lease}0")] {
            let status = scheduler.http().post(&target, "").status;
            assert!(matches!(status, 400 | 409), "{target}: {status}");
        }
        assert_eq!(state(&scheduler), before);
    }

    fn broken_http_gets_an_answer_or_a_closed_connection(store) {
        let scheduler = Scheduler::start(store);
        let attempts: [&[u8]; 6] = [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: abc\r\n\r\n{}",
            b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET /jobs HTTP/1.1\r\nHost x\r\n\r\n",
        ];
        for bytes in attempts {
            if let Ok(response) = scheduler.http().raw(bytes) {
                assert!(response.status >= 400 && response.status < 600, "{}", response.status);
            }
        }
        assert!(scheduler.jobs().is_empty());
    }

    fn slow_clients_hold_up_nobody(store) {
        let scheduler = Scheduler::start(store);
        let mut slow = Vec::new();
        for number in 0..100 {
            let mut stream = scheduler.http().connect().unwrap();
            let start: &[u8] = if number % 2 == 0 {
                b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\n\r\n{\"comm"
            } else {
                b"GET /jobs HTTP/1.1\r\nHo"
            };
            stream.write_all(start).unwrap();
            slow.push(stream);
        }
        scheduler.submit("quick");
        // None of the slow ones has been answered or dropped: they were passed, not waited for.
        assert_eq!(scheduler.jobs().len(), 1);
        // A slow client that does finish is served.
        let mut last = slow.swap_remove(0);
        last.write_all(b"and\":\"slow\"}").unwrap();
        let mut answer = [0_u8; 12];
        last.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 201");
    }

    fn a_body_that_is_cut_off_has_no_effect(store) {
        let scheduler = Scheduler::start(store);
        let mut stream = scheduler.http().connect().unwrap();
        stream.write_all(b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"command\":\"half\"}").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&rest));
        assert!(scheduler.jobs().is_empty());
    }
}
