//! Arrays over HTTP: one submit, one id, bounded at once, cancelled and listed as a whole.

use muster_tests::{Scheduler, for_each_store, id_of, lease_of};
use serde_json::{Value, json};

fn submit(scheduler: &Scheduler, body: &Value) -> Value {
    scheduler.http().post_json("/arrays", body).expect(201).json()
}

for_each_store! {
    fn elements_know_their_index_and_run_so_many_at_once(store) {
        let scheduler = Scheduler::start(store);
        let array = submit(&scheduler, &json!({
            "command": "x", "name": "sweep", "indices": "0-9:3,20", "max_parallel": 2, "env": {"A": "b"},
        }));
        let id = id_of(&array);
        assert_eq!((&array["size"], &array["counts"]), (&json!(5), &json!({"pending": 5})));
        let first = scheduler.claim(None);
        assert_eq!(first["env"]["MUSTER_ARRAY_INDEX"], "0");
        assert_eq!((&first["env"]["MUSTER_ARRAY_SIZE"], &first["env"]["MUSTER_ARRAY_ID"]), (&json!("5"), &json!(id)));
        assert_eq!(first["env"]["A"], "b");
        let second = scheduler.claim(None);
        assert_eq!(second["array_index"], 3);
        assert!(scheduler.try_claim(None).is_none(), "two at once");
        let why = scheduler.http().get(&format!("/jobs?array={id}&status=pending")).expect(200).json();
        let waiting = id_of(&why[0]);
        let reasons = scheduler.http().get(&format!("/jobs/{waiting}/why")).expect(200).json();
        let codes: Vec<&str> = reasons["reasons"].as_array().unwrap().iter().filter_map(|r| r["code"].as_str()).collect();
        assert!(codes.contains(&"concurrency"), "{reasons}");
        scheduler.report_under(lease_of(&first), &id_of(&first), "done").expect(200);
        assert_eq!(scheduler.claim(None)["array_index"], 6);
        let shown = scheduler.http().get(&format!("/arrays/{id}")).expect(200).json();
        assert_eq!(shown["counts"], json!({"pending": 2, "running": 2, "done": 1}));
        assert_eq!(shown["status"], "running");
        let listed = scheduler.http().get("/arrays").expect(200).json();
        assert_eq!(listed[0]["name"], "sweep");
    }

    fn items_become_variables(store) {
        let scheduler = Scheduler::start(store);
        submit(&scheduler, &json!({"command": "x", "items": ["plain", {"LR": 0.1, "NAME": "a b"}]}));
        let first = scheduler.claim(None);
        assert_eq!(first["env"]["MUSTER_ARRAY_ITEM"], "plain");
        let second = scheduler.claim(None);
        assert_eq!((&second["env"]["LR"], &second["env"]["NAME"]), (&json!("0.1"), &json!("a b")));
    }

    fn an_array_is_cancelled_and_retried_as_one(store) {
        let scheduler = Scheduler::start(store);
        let id = id_of(&submit(&scheduler, &json!({"command": "x", "indices": "0-299"})));
        let cancelled = scheduler.http().post(&format!("/arrays/{id}/cancel"), "").expect(200).json();
        assert_eq!(cancelled["changed"].as_array().unwrap().len(), 300);
        let shown = scheduler.http().get(&format!("/arrays/{id}")).expect(200).json();
        assert_eq!((&shown["status"], &shown["counts"]), (&json!("cancelled"), &json!({"cancelled": 300})));
        scheduler.http().post(&format!("/arrays/{id}/retry"), "").expect(200);
        let shown = scheduler.http().get(&format!("/arrays/{id}")).expect(200).json();
        assert_eq!(shown["counts"], json!({"pending": 300}));
    }

    fn bad_arrays_are_refused_whole(store) {
        let scheduler = Scheduler::start(store);
        for (body, word) in [
            (json!({"command": "x"}), "indices"),
            (json!({"command": "x", "indices": "9-0"}), "9-0"),
            (json!({"command": "x", "indices": "a"}), "a"),
            (json!({"indices": "0-1"}), "command"),
            (json!({"command": "x", "indices": "0-1", "items": ["a"]}), "not both"),
            (json!({"command": "x", "indices": "0-1", "max_parallel": 0}), "max_parallel"),
            (json!({"command": "x", "indices": "0-1", "max_parallel": 2, "concurrency": {"key": "k"}}), "concurrency"),
            (json!({"command": "x", "indices": "0-200000"}), "100000"),
        ] {
            let refused = scheduler.http().post_json("/arrays", &body);
            assert!(refused.expect(400).text().contains(word), "{body}: {}", refused.text());
        }
        assert!(scheduler.jobs().is_empty());
        scheduler.http().get("/arrays/set-67e55044-10b1-426f-9247-bb680e5fe0c8").expect(404);
    }
}
