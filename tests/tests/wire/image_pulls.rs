//! The pull of an image as people see it: how far it is, what it took, and which image ran.

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use muster_tests::{
    ContainerEngine, ImageRegistry, Scheduler, StoreKind, Valve, Worker, WorkerSettings, binary, id_of, until,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(90);
/// Much more than passes a closed valve.
const LAYER: usize = 6 << 20;

fn muster(scheduler: &Scheduler, home: &TempDir, words: &[&str]) -> Child {
    let mut command = Command::new(binary("muster"));
    command.args(words).env("MUSTER_URL", scheduler.url()).env("XDG_CONFIG_HOME", home.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ask(scheduler: &Scheduler, home: &TempDir, words: &[&str]) -> String {
    said(&muster(scheduler, home, words).wait_with_output().unwrap())
}

fn pulls(scheduler: &Scheduler, id: &str) -> Vec<Value> {
    let events = scheduler.http().get(&format!("/jobs/{id}/events")).expect(200).json();
    let events = events.as_array().unwrap().iter();
    events.filter(|event| event["type"].as_str().unwrap().starts_with("image_")).cloned().collect()
}

#[test]
fn a_pull_is_seen_while_it_lasts_and_the_image_that_ran_is_known() {
    let (scheduler, home) = (Scheduler::start(StoreKind::Sqlite), TempDir::new().unwrap());
    let (engine, registry) = (ContainerEngine::shared(), ImageRegistry::start());
    let valve = Valve::to(registry.port());
    registry.push_with_layer(engine, "team/large:1", LAYER);
    let image = format!("{}/team/large:1", valve.url().trim_start_matches("http://"));
    let socket = engine.socket().to_string_lossy().into_owned();
    let settings = WorkerSettings::new("w", 2).set("containers", "docker").set("container-socket", &socket);
    let _worker = Worker::start(&scheduler, settings);
    let mut secret = muster(&scheduler, &home, &["secret", "set", "hub"]);
    secret.stdin.take().unwrap().write_all(registry.credentials().as_bytes()).unwrap();
    said(&secret.wait_with_output().unwrap());

    let words = ["run", "--image", &image, "--registry-secret", "hub", "--", "echo", "ran"];
    let running = muster(&scheduler, &home, &words);
    valve.await_stops(1);
    let http = scheduler.http();
    let first = || http.get("/jobs").expect(200).json()[0].clone();
    until("it is known how far the pull is", BOUND, || first()["image_pull"]["bytes"].as_u64() > Some(0));
    let job = first();
    let wish = json!({"command": "true", "image": image, "container": {"credentials": "hub"}});
    let second = id_of(&scheduler.submit_job(&wish));
    let (id, pull) = (job["id"].as_str().unwrap().to_owned(), &job["image_pull"]);
    assert!(pull["total_bytes"].as_u64() > pull["bytes"].as_u64(), "{job}");
    assert_eq!(job["image_digest"], Value::Null);
    let why = ask(&scheduler, &home, &["why", &id]);
    assert!(why.contains(&format!("its worker pulls the image {image}: ")) && why.contains(" MB"), "{why}");
    let shown = ask(&scheduler, &home, &["show", &id]);
    assert!(shown.contains(&format!("{image} (pulling, ")), "{shown}");
    until("the other job waits for the same pull", BOUND, || pulls(&scheduler, &second).len() == 1);
    assert_eq!(pulls(&scheduler, &id).len(), 1, "it has only begun");
    valve.open();

    let ran = running.wait_with_output().unwrap();
    assert_eq!(said(&ran), "ran\n");
    let told = String::from_utf8(ran.stderr).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    let [begun, ended] = lines[..] else { panic!("{told}") };
    assert_eq!(begun, format!("muster: pulling {image}"));
    assert!(ended.starts_with(&format!("muster: pulled {image}, 6.0M in ")), "{ended}");

    let inspected = engine.docker_says(&["inspect", "--format", "{{index .RepoDigests 0}}", &image]);
    let digest = inspected.split_once('@').unwrap().1;
    scheduler.await_status(&second, "done", BOUND);
    for id in [&id, &second] {
        let pulls = pulls(&scheduler, id);
        let kinds: Vec<&str> = pulls.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["image_pulling", "image_pulled"], "{pulls:?}");
        assert!(pulls.iter().all(|event| event["data"]["image"] == *image && event["by"] == "worker w"));
        let end = &pulls[1]["data"];
        assert!(end["digest"] == digest && end["seconds"].as_f64() > Some(0.0), "{end}");
        assert!(end["bytes"].as_u64() >= Some(LAYER as u64), "{end}");
    }
    assert_eq!(registry.manifests_given("team/large"), 1, "one pull for both");

    // It is there now: nothing is pulled, and it is known all the same.
    let third = id_of(&scheduler.submit_job(&json!({"command": "true", "image": image})));
    scheduler.await_status(&third, "done", BOUND);
    assert!(pulls(&scheduler, &third).is_empty());
    for id in [&id, &third] {
        let job = http.get(&format!("/jobs/{id}")).expect(200).json();
        assert_eq!((&job["image_digest"], &job["image_pull"]), (&json!(digest), &Value::Null));
        let attempts = http.get(&format!("/jobs/{id}/attempts")).expect(200).json();
        assert_eq!(attempts[0]["image_digest"], digest, "{attempts}");
        let shown = ask(&scheduler, &home, &["show", id]);
        assert!(shown.contains(&format!("{image} ({digest})")), "{shown}");
    }
}
