//! `POST /jobs`: what is accepted, and the object that comes back.

use muster_tests::{Scheduler, for_each_store, is_uuid_v4};
use serde_json::{Value, json};

/// Keys that must not appear on a job that was only submitted.
const LATER_KEYS: [&str; 17] = [
    "started_at",
    "done_at",
    "last_heart_beat",
    "depends_on",
    "resources",
    "worker_id",
    "priority",
    "queue_name",
    "gang_id",
    "gang_size",
    "gang_index",
    "checkpoint",
    "outputs",
    "reservation_epoch",
    "reserved_at",
    "preemption_epoch",
    "env",
];

fn is_utc(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() >= 20 && text.contains('T') && text.ends_with('Z'))
}

for_each_store! {
    fn t02_submit_works_under_any_content_type(store) {
        let scheduler = Scheduler::start(store);
        let types = [
            None,
            Some("application/x-www-form-urlencoded"),
            Some("text/plain"),
            Some("application/octet-stream"),
            Some("application/json; charset=utf-8"),
            Some("nonsense"),
        ];
        for content_type in types {
            let mut request = scheduler.http().request("POST", "/jobs").body(r#"{"command":"echo hello","colour":7}"#);
            if let Some(content_type) = content_type {
                request = request.header("Content-Type", content_type);
            }
            let response = request.send();
            let job = response.expect(201).json();
            assert_eq!(response.header("content-type"), Some("application/json"));
            assert_eq!(job["command"], "echo hello");
            assert_eq!(job["status"], "pending");
            assert_eq!(job["attempts"], 0);
            assert_eq!(job["max_retries"], 3);
            let id = job["id"].as_str().and_then(|id| id.strip_prefix("job-")).unwrap_or_default();
            assert!(is_uuid_v4(id), "{job}");
            assert!(is_utc(&job["created_at"]), "{job}");
        }
        assert_eq!(scheduler.jobs().len(), types.len());
    }

    fn t02_json_is_read_leniently(store) {
        let scheduler = Scheduler::start(store);
        let accepted = [
            r#"{"Command":"echo 1"}"#,
            r#"{"COMMAND":"echo 1","Priority":0}"#,
            r#"{"command":"echo 1"} trailing words"#,
            r#"{"command":"echo 1"}{"command":"echo 2"}"#,
            r#"{"command":"echo 0","command":"echo 1"}"#,
            r#"{"command":"echo 1","depends_on":null,"resources":null,"priority":null,"queue_name":null}"#,
            r#"{"command":"echo 1","nested":{"unknown":[1,2,{"x":null}]}}"#,
            " \n\t{\"command\":\"echo 1\"}",
            r#"{"command":"echo 1","gang_size":1}"#,
            r#"{"command":"echo 1","gang_size":0}"#,
            r#"{"command":"echo 1","gang_size":-4}"#,
        ];
        for body in accepted {
            let job = scheduler.http().post("/jobs", body).expect(201).json();
            assert_eq!(job["command"], "echo 1", "{body}");
            assert!(job.get("gang_id").is_none(), "{body}");
        }
    }

    fn t02_wrong_types_are_refused(store) {
        let scheduler = Scheduler::start(store);
        let refused = [
            "[]",
            "7",
            r#""command""#,
            r#"{"command":7}"#,
            r#"{"command":["a"]}"#,
            r#"{"command":"a","priority":"high"}"#,
            r#"{"command":"a","priority":1.5}"#,
            r#"{"command":"a","depends_on":"job-1"}"#,
            r#"{"command":"a","depends_on":[1]}"#,
            r#"{"command":"a","gang_size":"2"}"#,
            r#"{"command":"a","resources":[]}"#,
            r#"{"command":"a","resources":{"memory_mb":"much"}}"#,
            r#"{"command":"a","queue_name":{}}"#,
            r#"{"command":"a""#,
        ];
        for body in refused {
            let response = scheduler.http().post("/jobs", body);
            assert_eq!((response.status, response.text()), (400, "invalid request body\n".to_owned()), "{body}");
        }
        scheduler.http().post("/jobs", "null").expect(400);
        assert!(scheduler.jobs().is_empty());
    }

    fn t03_a_fresh_job_shows_only_what_is_known(store) {
        let scheduler = Scheduler::start(store);
        let submitted = scheduler.submit_job(&json!({ "command": "true" }));
        for job in [&submitted, &scheduler.job(submitted["id"].as_str().unwrap_or_default())] {
            for key in LATER_KEYS {
                assert!(job.get(key).is_none(), "{key} in {job}");
            }
        }
    }

    fn t03_fields_round_trip_and_env_shows_only_on_the_claim(store) {
        let scheduler = Scheduler::start(store);
        let request = json!({
            "command": "true",
            "name": "train",
            "priority": -5,
            "queue_name": "night",
            "max_retries": 7,
            "resources": { "cpus": 1.5, "memory_mb": 64, "vram_mb": 32, "gpus": 1, "counters": { "licence": 2 } },
            "tags": ["gpu"],
            "env": { "COLOUR": "blue" },
            "working_dir": "/tmp",
        });
        let id = scheduler.submit_job(&request)["id"].as_str().unwrap_or_default().to_owned();
        let job = scheduler.job(&id);
        for key in ["name", "priority", "queue_name", "max_retries", "resources", "tags", "working_dir"] {
            assert_eq!(job[key], request[key], "{key}");
        }
        assert!(job.get("env").is_none());
        let claimed = scheduler.claim(None);
        assert_eq!(claimed["id"], id.as_str());
        assert_eq!(claimed["env"]["COLOUR"], "blue");
        assert!(claimed["env"].as_object().is_some_and(|env| env.values().all(Value::is_string)));
        assert!(scheduler.job(&id).get("env").is_none());
        assert!(scheduler.jobs().iter().all(|job| job.get("env").is_none()));
    }

    fn t03_heart_beat_is_spelled_in_two_words_on_a_job(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        let claimed = scheduler.claim(None);
        assert!(claimed.get("last_heart_beat").is_none());
        assert!(is_utc(&claimed["started_at"]), "{claimed}");
        scheduler.report(&id, "heartbeat").expect_empty();
        let job = scheduler.job(&id);
        assert!(is_utc(&job["last_heart_beat"]), "{job}");
        assert!(job.get("last_heartbeat").is_none());
        scheduler.report(&id, "fail").expect_empty();
        let again = scheduler.claim(None);
        assert!(again.get("last_heart_beat").is_none(), "a claim clears the last heartbeat: {again}");
    }

    fn w31_a_blank_command_is_refused(store) {
        let scheduler = Scheduler::start(store);
        for command in [" ", "\t\n"] {
            scheduler.http().post_json("/jobs", &json!({ "command": command })).expect(400);
        }
        assert!(scheduler.jobs().is_empty());
    }

    fn argv_stands_in_for_a_command(store) {
        let scheduler = Scheduler::start(store);
        let job = scheduler.submit_job(&json!({ "argv": ["echo", "two words"] }));
        assert_eq!(job["argv"], json!(["echo", "two words"]));
        assert!(job["command"].is_string(), "old clients decode the command strictly: {job}");
    }

    fn an_idempotency_key_makes_a_submit_repeatable(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit_job(&json!({ "command": "true", "idempotency_key": "once" }));
        let again = scheduler.http().post_json("/jobs", &json!({ "command": "true", "idempotency_key": "once" }));
        assert!(matches!(again.status, 200 | 201), "{}", again.status);
        assert_eq!(again.json()["id"], first["id"]);
        let keyed = || {
            let request = scheduler.http().request("POST", "/jobs").header("Idempotency-Key", "twice");
            request.body(r#"{"command":"true"}"#).send().json()["id"].clone()
        };
        assert_eq!(keyed(), keyed());
        assert_eq!(scheduler.jobs().len(), 2);
    }
}
