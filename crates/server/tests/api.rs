//! The API through the router that callers in the same process use, on the store in memory.
#![expect(clippy::unwrap_used, reason = "the scenarios are test code, also outside of the test functions")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use muster_server::{Limits, Listen, RunningServer, Server, ServerConfig};
use muster_store::MemoryStore;
use muster_store::engine::Policy;
use serde_json::{Value, json};
use tower::ServiceExt as _;

struct Bench {
    server: RunningServer,
    _directory: tempfile::TempDir,
}

async fn bench() -> Bench {
    bench_with(Listen::InProcess, Limits::default()).await
}

async fn bench_with(listen: Listen, limits: Limits) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let config = ServerConfig { data_dir: directory.path().to_owned(), limits, ..ServerConfig::default() };
    let store = Arc::new(MemoryStore::new(Policy::default()));
    Bench { server: Server::start(config, store, listen).await.unwrap(), _directory: directory }
}

impl Bench {
    async fn send(&self, method: &str, target: &str, body: impl Into<Body>) -> Response<Body> {
        let request = Request::builder().method(method).uri(target).body(body.into()).unwrap();
        self.server.router().oneshot(request).await.unwrap()
    }

    async fn get(&self, target: &str) -> (StatusCode, String) {
        text(self.send("GET", target, Body::empty()).await).await
    }

    async fn post(&self, target: &str, body: impl Into<Body>) -> (StatusCode, String) {
        text(self.send("POST", target, body).await).await
    }

    async fn submit(&self, request: Value) -> Value {
        let (status, body) = self.post("/jobs", request.to_string()).await;
        assert_eq!(status, 201, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn claim(&self) -> Value {
        let (status, body) = self.get("/jobs/next?worker_id=w").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

async fn text(response: Response<Body>) -> (StatusCode, String) {
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

fn id(job: &Value) -> &str {
    job["id"].as_str().unwrap()
}

#[tokio::test]
async fn a_long_list_is_streamed_whole_and_in_order() {
    let bench = bench().await;
    let jobs: Vec<Value> = (0..1_700).map(|number| json!({ "command": format!("echo {number}") })).collect();
    let (status, _) = bench.post("/jobs/batch", json!(jobs).to_string()).await;
    assert_eq!(status, 201);
    let (status, body) = bench.get("/jobs").await;
    assert_eq!(status, 200);
    let listed: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(listed.len(), 1_700);
    assert_eq!(listed[0]["command"], "echo 1699", "newest first");
    assert_eq!(listed[1_699]["command"], "echo 0");
    assert!(body.ends_with("]\n"));
}

#[tokio::test]
async fn a_batch_over_its_limit_is_refused_with_the_limit() {
    let bench = bench_with(Listen::InProcess, Limits { batch_items: 2, ..Limits::default() }).await;
    let three = json!([{ "command": "a" }, { "command": "b" }, { "command": "c" }]);
    let (status, body) = bench.post("/jobs/batch", three.to_string()).await;
    assert_eq!((status, body.as_str()), (StatusCode::BAD_REQUEST, "batch exceeds the limit of 2 jobs\n"));
    let small = Limits { body: 10, ..Limits::default() };
    let bench = bench_with(Listen::InProcess, small).await;
    let (status, body) = bench.post("/jobs", json!({ "command": "echo" }).to_string()).await;
    assert_eq!(status, 413);
    assert_eq!(body, "request body exceeds the limit of 10 bytes\n");
}

#[tokio::test]
async fn output_is_kept_by_attempt_and_read_back() {
    let bench = bench().await;
    let job = bench.submit(json!({ "command": "x" })).await;
    let claimed = bench.claim().await;
    let lease = claimed["lease"].as_u64().unwrap();
    let upload = |stream: &str, offset: u64| {
        format!("/jobs/{}/logs?lease={lease}&attempt=1&stream={stream}&offset={offset}", id(&job))
    };
    let (status, body) = bench.post(&upload("stdout", 0), "hello ").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "{\"length\":6}\n"));
    let (status, body) = bench.post(&upload("stdout", 9), "gap").await;
    assert_eq!((status, body.as_str()), (StatusCode::CONFLICT, "{\"length\":6}\n"));
    bench.post(&upload("stderr", 0), "oops").await;
    bench.post(&format!("/jobs/{}/done?lease={lease}", id(&job)), "").await;
    let (status, _) = bench.post(&upload("stdout", 6), "world").await;
    assert_eq!(status, 200, "a late flush is kept");
    let stale = upload("stdout", 0).replace(&format!("lease={lease}"), "lease=99");
    assert_eq!(bench.post(&stale, "x").await.0, 409);
    let logs = format!("/jobs/{}/logs", id(&job));
    assert_eq!(bench.get(&logs).await, (StatusCode::OK, "hello worldoops".to_owned()));
    assert_eq!(bench.get(&format!("{logs}?stream=stderr&attempt=1")).await.1, "oops");
    assert_eq!(bench.get(&format!("{logs}?attempt=2")).await.1, "");
    assert_eq!(bench.get(&format!("{logs}?follow=true")).await.1, "hello worldoops", "the job has ended");
    assert_eq!(bench.get(&format!("{logs}?stream=both&attempt=0")).await.0, 400);
}

#[tokio::test]
async fn a_follower_sees_output_as_it_comes_and_leaves_at_the_end() {
    let bench = bench().await;
    let job = bench.submit(json!({ "command": "x" })).await;
    let followed = bench.send("GET", &format!("/jobs/{}/logs?follow=true", id(&job)), Body::empty()).await;
    let mut body = followed.into_body();
    for (attempt, words) in [(1, ["one ", "two "]), (2, ["three ", "four"])] {
        let lease = bench.claim().await["lease"].as_u64().unwrap();
        let mut offset = 0;
        for word in words {
            let target = format!(
                "/jobs/{}/logs?lease={lease}&attempt={attempt}&stream=stdout&offset={offset}",
                id(&job)
            );
            bench.post(&target, word).await;
            offset += word.len();
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(piece, word.as_bytes());
        }
        let report = if attempt == 1 { "fail" } else { "done" };
        bench.post(&format!("/jobs/{}/{report}?lease={lease}", id(&job)), "").await;
    }
    assert!(body.frame().await.is_none(), "the job has ended");
}

#[tokio::test]
async fn the_event_stream_resumes_after_a_position() {
    let bench = bench().await;
    let first = bench.submit(json!({ "command": "a" })).await;
    let second = bench.submit(json!({ "command": "b" })).await;
    let stream = bench.send("GET", "/events?after=0", Body::empty()).await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut body = stream.into_body();
    let mut seen = String::new();
    while !seen.contains(id(&second)) {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        seen.push_str(std::str::from_utf8(&frame).unwrap());
    }
    assert!(seen.contains(id(&first)) && seen.contains("event: submitted\n"), "{seen}");
    let last = seen.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let mut resumed = bench.send("GET", &format!("/events?after={last}"), Body::empty()).await.into_body();
    resumed.frame().await.unwrap().unwrap();
    let third = bench.submit(json!({ "command": "c" })).await;
    let frame = resumed.frame().await.unwrap().unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&frame).unwrap();
    assert!(text.contains(id(&third)) && !text.contains(id(&second)), "{text}");
}

#[tokio::test]
async fn a_shutdown_answers_parked_requests_and_ends_streams() {
    let bench = bench_with(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), Limits::default()).await;
    let router = bench.server.router();
    let ask = |target: &str| {
        let request = Request::builder().uri(target).body(Body::empty()).unwrap();
        tokio::spawn(router.clone().oneshot(request))
    };
    let parked = ask("/jobs/next?worker_id=w&wait=60s");
    let mut stream = ask("/events").await.unwrap().unwrap().into_body();
    while !bench.get("/metrics").await.1.contains("muster_parked_requests 1") {
        tokio::task::yield_now().await;
    }
    let bound = Duration::from_secs(5);
    assert!(tokio::time::timeout(bound, bench.server.shutdown()).await.unwrap());
    assert_eq!(parked.await.unwrap().unwrap().status(), 204);
    let drained = async { while let Some(Ok(_)) = stream.frame().await {} };
    tokio::time::timeout(bound, drained).await.unwrap();
}

#[tokio::test]
async fn errors_take_the_form_that_the_client_accepts() {
    let bench = bench().await;
    let response = bench.send("GET", "/jobs/nobody", Body::empty()).await;
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let request =
        Request::get("/jobs/nobody").header("accept", "application/json").body(Body::empty()).unwrap();
    let response = bench.server.router().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let problem: Value = serde_json::from_str(&text(response).await.1).unwrap();
    assert_eq!((&problem["code"], &problem["request_id"]), (&json!("job_not_found"), &json!(id)));
}

/// Paths as the table of routes writes them, each with every method.
fn routes() -> Vec<(Method, String)> {
    let sources = [include_str!("../src/routes/table.rs")];
    let literals = sources.into_iter().flat_map(|source| source.split('"').skip(1).step_by(2));
    let paths: Vec<String> = literals.filter(|text| text.starts_with('/')).map(filled).collect();
    assert!(paths.len() > 50, "{paths:?}");
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    paths.iter().flat_map(|path| methods.clone().map(|method| (method, path.clone()))).collect()
}

fn filled(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_route_is_behind_the_gate() {
    let bench = bench().await;
    let router = bench.server.router();
    let ask = async |method: &Method, path: &str, name: &'static str, value: &str| {
        let request = Request::builder().method(method).uri(path).header(name, value);
        let request = request.body(Body::from("{}")).unwrap();
        router.clone().oneshot(request).await.unwrap().status()
    };
    for (method, path) in routes() {
        let status = ask(&method, &path, "origin", "http://evil.example").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
        let status = ask(&method, &path, "sec-fetch-site", "cross-site").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
        let status = ask(&method, &path, "host", "evil.example").await;
        assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{method} {path}");
    }
    assert_eq!(ask(&Method::GET, "/nowhere", "host", "evil.example").await, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(ask(&Method::GET, "/healthz", "host", "localhost").await, StatusCode::OK);
}
