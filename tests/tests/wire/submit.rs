//! `POST /jobs`: what is accepted, and the object that comes back.

use muster_tests::{Scheduler, Settings, for_each_store, is_uuid_v4};
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
            let mut request = scheduler.http().request("POST", "/jobs").body(r#"{"command":"echo hello"}"#);
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
            let text = response.expect(400).text();
            assert!(text.starts_with("invalid request body"), "{body}: {text}");
            for field in ["priority", "depends_on", "gang_size", "resources", "memory_mb", "queue_name"] {
                assert_eq!(body.contains(field), text.contains(field), "{body}: {text}");
            }
        }
        scheduler.http().post("/jobs", "null").expect(400);
        assert!(scheduler.jobs().is_empty());
    }

    fn d17_unknown_fields_are_refused_with_what_was_meant(store) {
        let scheduler = Scheduler::start(store);
        let refused = [
            ("/jobs", r#"{"command":"a","prioritty":5}"#, "unknown field \"prioritty\"; did you mean priority?"),
            ("/jobs", r#"{"command":"a","retry":{"initial_second":1}}"#, "\"initial_second\" in retry; did you mean initial_seconds?"),
            ("/jobs", r#"{"command":"a","retry":{"delay_seconds":1}}"#, "unknown field \"delay_seconds\" in retry"),
            ("/jobs", r#"{"command":"a","backoff":1}"#, "unknown field \"backoff\""),
            ("/jobs", r#"{"command":"a","resources":{"gpu":1}}"#, "in resources; did you mean gpus?"),
            ("/jobs/batch", r#"[{"command":"a"},{"command":"b","topology":{"lable":"rack"}}]"#, "\"lable\" in [1].topology; did you mean label?"),
            ("/arrays", r#"{"command":"a","indices":"0-3","max_paralel":2}"#, "did you mean max_parallel?"),
            ("/jobs/bulk/cancel", r#"{"queu":"a"}"#, "did you mean queue?"),
            ("/workers/register", r#"{"id":"w","slot":2}"#, "did you mean slots?"),
            ("/workers/w/sync", r#"{"heartbeats":[{"job":"x"}]}"#, "unknown field \"job\" in heartbeats"),
            ("/webhooks", r#"{"url":"http://127.0.0.1:1/","event":[]}"#, "did you mean events?"),
        ];
        for (target, body, message) in refused {
            let text = scheduler.http().post(target, body).expect(400).text();
            assert!(text.contains(message), "{target} {body}: {text}");
        }
        let queue = scheduler.http().request("PUT", "/queues/q").body(r#"{"pause":true}"#).send();
        assert!(queue.expect(400).text().contains("did you mean paused?"));
        let listed = scheduler.http().get("/jobs?worker_id=w").expect(400).text();
        assert!(listed.contains("did you mean worker?"), "{listed}");
        scheduler.http().get("/jobs?offset=3").expect(400);
        assert!(scheduler.jobs().is_empty() && scheduler.workers().is_empty());
        let problem = scheduler.http().request("POST", "/jobs").header("Accept", "application/json");
        let problem = problem.body(r#"{"command":"a","retry":{"x":1}}"#).send().json();
        assert_eq!((&problem["code"], &problem["field"]), (&json!("unknown_field"), &json!("retry.x")));
    }

    fn d17_the_old_way_can_be_asked_for(store) {
        let scheduler = Scheduler::start(store);
        let lenient = |method: &str, target: &str, body: &str| {
            scheduler.http().request(method, target).header("Muster-Lenient", "true").body(body).send()
        };
        lenient("POST", "/jobs", r#"{"command":"a","nested":{"unknown":[1,2,{"x":null}]}}"#).expect(201);
        lenient("POST", "/jobs/batch", r#"[{"command":"a","x":1}]"#).expect(201);
        lenient("PUT", "/queues/q", r#"{"pause":true}"#).expect(200);
        lenient("GET", "/jobs?offset=3", "").expect(200);
    }

    fn d4_a_job_for_a_container_does_not_run_on_the_host(store) {
        let scheduler = Scheduler::start(store);
        let register = |id: &str, extra: serde_json::Value| {
            let mut body = json!({ "id": id, "exec_addr": "h", "tags": ["a"] });
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            scheduler.http().post_json("/workers/register", &body)
        };
        register("plain", json!({})).expect(201);
        let claim = |query: &str| scheduler.http().get(&format!("/jobs/next{query}"));
        for field in ["image", "image_name"] {
            let job = scheduler.submit_job(&json!({ "command": "true", field: "alpine:3" }));
            assert_eq!((&job["image"], &job["tags"]), (&json!("alpine:3"), &serde_json::Value::Null));
            let id = job["id"].as_str().unwrap();
            // Nobody gets it who has not said what runs its containers: also nobody who is not known.
            for query in ["?worker_id=plain", "?worker_id=stranger", ""] {
                assert_ne!(claim(query).status, 200, "{query}");
            }
            let why = scheduler.http().get(&format!("/jobs/{id}/why")).expect(200).json();
            let reason = why["reasons"][0]["message"].as_str().unwrap();
            assert_eq!(reason, "no active worker runs containers, and the job names an image");
            scheduler.http().post(&format!("/jobs/{id}/cancel"), "").expect(200);
        }
        register("plain", json!({ "tags": ["muster:containers"] })).expect(400);
        scheduler.http().post_json("/jobs", &json!({ "command": "x", "tags": ["muster:containers"] })).expect(400);
        let known = register("boxed", json!({ "containers": { "name": "docker", "version": "28.2" } })).expect(201).json();
        assert_eq!((&known["tags"], &known["containers"]["version"]), (&json!(["a"]), &json!("28.2")));
        let container = json!({ "network": "bridge", "mounts": ["/data:/in:ro"], "read_only": true });
        let job = scheduler.submit_job(&json!({ "command": "true", "image": "alpine:3", "container": container }));
        assert_eq!(job["container"], container);
        let claimed = claim("?worker_id=boxed").expect(200).json();
        assert_eq!((&claimed["id"], &claimed["image"]), (&job["id"], &json!("alpine:3")));
    }

    fn d4_what_no_container_can_be_is_refused(store) {
        let scheduler = Scheduler::start(store);
        let cases = [
            (json!({ "image": "Not An Image" }), "image"),
            (json!({ "container": {} }), "container"),
            (json!({ "image": "a", "working_dir": "sub" }), "working_dir"),
            (json!({ "image": "a", "container": { "mounts": ["x:/y"] } }), "container.mounts"),
            (json!({ "image": "a", "gang_size": 2, "container": { "network": "none" } }), "container.network"),
            (json!({ "image": "a", "container": { "credentials": "nobody-knows" } }), "secrets"),
        ];
        for (extra, field) in cases {
            let mut body = json!({ "command": "true" });
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let request = scheduler.http().request("POST", "/jobs").header("Accept", "application/json");
            let problem = request.body(body.to_string()).send().expect(400).json();
            assert_eq!(problem["field"], field, "{problem}");
        }
        let steps = "steps: [{name: a, run: 'true', image: alpine, container: {netwerk: host}}]";
        let text = scheduler.http().post("/pipelines", steps).expect(400).text();
        assert!(text.contains("did you mean network?"), "{text}");
        let steps = "defaults: {image: alpine, container: {network: host, shm: 1G}}\nsteps: [{name: a, run: 'true'}]";
        scheduler.http().post("/pipelines", steps).expect(201);
        let job = &scheduler.jobs()[0];
        assert_eq!((&job["image"], &job["container"]["shm_mb"]), (&json!("alpine"), &json!(1024)));
        assert!(job.get("working_dir").is_none(), "{job}");
    }

    fn d4_older_names_of_amounts_are_taken(store) {
        let scheduler = Scheduler::start(store);
        let job = scheduler.submit_job(&json!({ "command": "true", "required_cpu": 2, "required_memory": 512 }));
        assert_eq!(job["resources"], json!({ "cpus": 2.0, "memory_mb": 512 }));
        let both = json!({ "command": "true", "required_cpu": 2, "resources": { "cpus": 1 } });
        let text = scheduler.http().post_json("/jobs", &both).expect(400).text();
        assert!(text.contains("give one of them"), "{text}");
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

    fn an_idempotency_key_names_one_job_only(store) {
        let scheduler = Scheduler::start(store);
        let keyed = |command: &str, priority: i64| json!({ "command": command, "priority": priority, "idempotency_key": "k" });
        let first = scheduler.submit_job(&keyed("a", 0));
        let other = scheduler.http().post_json("/jobs", &keyed("b", 5)).expect(409).text();
        assert!(other.contains(first["id"].as_str().unwrap()), "{other}");
        assert!(other.contains("differs in command, priority"), "{other}");
        let gang = json!({ "command": "a", "gang_size": 2, "idempotency_key": "k" });
        assert!(scheduler.http().post_json("/jobs", &gang).expect(409).text().contains("differs in gang_size"));
        let delayed = |seconds: u32| json!({ "command": "a", "delay_seconds": seconds, "idempotency_key": "d" });
        scheduler.http().post_json("/jobs", &delayed(60)).expect(201);
        scheduler.http().post_json("/jobs", &delayed(60)).expect(200);
        assert_eq!(scheduler.jobs().len(), 2);
    }

    fn a_mistyped_queue_is_remarked_on_or_refused(store) {
        let scheduler = Scheduler::start(store);
        let into = |scheduler: &Scheduler, queue: &str| {
            scheduler.http().post_json("/jobs", &json!({ "command": "a", "queue_name": queue }))
        };
        assert!(into(&scheduler, "label").expect(201).json().get("warnings").is_none(), "names are only labels");
        let put = |scheduler: &Scheduler, name: &str| {
            let request = scheduler.http().request("PUT", &format!("/queues/{name}"));
            request.body(r#"{"max_running":5}"#).send().expect(200);
        };
        put(&scheduler, "training");
        assert!(into(&scheduler, "training").expect(201).json().get("warnings").is_none());
        let warned = into(&scheduler, "trainign").expect(201).json();
        assert_eq!(warned["warnings"], json!(["queue \"trainign\" is new: it has no quota and no limits; did you mean training?"]));
        let remove = |name: &str| scheduler.http().request("DELETE", &format!("/queues/{name}")).send();
        assert!(remove("training").expect(409).text().contains("it has jobs that have not ended"));
        remove("nobody").expect(404);
        put(&scheduler, "spare");
        remove("spare").expect(204);
    }

    fn a_closed_set_of_queues_takes_no_others(store) {
        let scheduler = Scheduler::start_with(store, Settings::default().set("queues", "closed"));
        let into = |queue: &str| scheduler.http().post_json("/jobs", &json!({ "command": "a", "queue_name": queue }));
        assert!(into("training").expect(400).text().contains("--queues closed"));
        scheduler.http().request("PUT", "/queues/training").body("{}").send().expect(200);
        into("training").expect(201);
        assert!(into("trainign").expect(400).text().contains("did you mean training?"));
        scheduler.submit("without a queue");
        assert_eq!(scheduler.jobs().len(), 2);
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
