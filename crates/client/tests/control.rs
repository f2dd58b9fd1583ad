//! Each call on sets, gangs, queues, jobs and workers goes where the API says, with the body that it says.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use muster_client::{BulkVerb, Client, GangFilter, PipelineFile, ServiceTransport};
use muster_protocol::{
    ArrayRequest, BulkFilter, GangState, HEADER_NEXT_CURSOR, JobEdit, QueueUpdate, SetKind, SubmitRequest,
};

const SET: &str = r#"{"id":"set-1","kind":"pipeline","status":"pending","created_at":"2026-05-05T08:33:00Z","size":1,"counts":{"pending":1},"steps":[]}"#;
const JOB: &str = r#"{"id":"job-1","command":"x","status":"pending","created_at":"2026-05-05T08:33:00Z","max_retries":1,"attempts":0}"#;
const GANG: &str = r#"{"id":"gang-1","state":"running","size":2,"command":"x","priority":0,"rounds":1,"preemption_epoch":0,"created_at":"2026-05-05T08:33:00Z","tasks":{"running":2}}"#;
const SUBMITTED: &str = r#"{"gang_id":"gang-1","tasks":["job-1","job-2"]}"#;
const QUEUE: &str = r#"{"name":"q","paused":true,"queued":1,"running":0}"#;

/// A client of a service that answers what the path asks for, and what the service saw.
fn client() -> (Client, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let router = Router::new().fallback(move |request: Request| {
        let kept = Arc::clone(&kept);
        async move {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
            kept.lock().unwrap().push(format!("{method} {uri} {}", String::from_utf8_lossy(&body)));
            let path = uri.path();
            if method == "DELETE" {
                return StatusCode::NO_CONTENT.into_response();
            }
            let answer = if path.starts_with("/gangs") {
                of_gangs(path)
            } else if path.ends_with("/cancel") && path.starts_with("/jobs/job") {
                r#"{"cancelled":["job-1"],"stopping":[]}"#.to_owned()
            } else if path.contains("/bulk/") || path.ends_with("/cancel") || path.ends_with("set-1/retry") {
                r#"{"changed":["job-1"],"dry_run":false}"#.to_owned()
            } else if path.starts_with("/queues") {
                if path == "/queues" { format!("[{QUEUE}]") } else { QUEUE.to_owned() }
            } else if path == "/jobs" {
                SUBMITTED.to_owned()
            } else if path.starts_with("/jobs") {
                JOB.to_owned()
            } else if method == "GET" && matches!(path, "/pipelines" | "/arrays") {
                format!("[{SET}]")
            } else {
                SET.to_owned()
            };
            ([(HEADER_NEXT_CURSOR, "7")], answer).into_response()
        }
    });
    (Client::new(ServiceTransport::new(router, "http://localhost:8080")), seen)
}

fn of_gangs(path: &str) -> String {
    match path.strip_prefix("/gangs").unwrap_or_default() {
        "" => format!("[{GANG}]"),
        "/gang-1/cancel" => r#"{"cancelled":["job-1"],"stopping":[]}"#.to_owned(),
        "/gang-1/why" => r#"{"id":"gang-1","status":"blocked","reasons":[]}"#.to_owned(),
        "/gang-1/events" => "[]".to_owned(),
        _ => format!("[{JOB},{JOB}]"),
    }
}

#[tokio::test]
async fn pipelines_and_arrays() {
    let (client, seen) = client();
    let file = PipelineFile {
        text: "steps: []".into(),
        params: [("A".into(), "b c".into())].into(),
        ..PipelineFile::default()
    };
    assert_eq!(client.submit_pipeline(&file).await.unwrap().set.id, "set-1");
    client.add_steps("set-1", &file).await.unwrap();
    client.pipeline("set-1").await.unwrap();
    let job = SubmitRequest { command: "x".into(), ..SubmitRequest::default() };
    let request =
        ArrayRequest { job, indices: Some("0-9".into()), max_parallel: Some(2), ..ArrayRequest::default() };
    client.submit_array(&request).await.unwrap();
    client.array("set-1").await.unwrap();
    let page = client.sets(SetKind::Array, Some(5), Some("3")).await.unwrap();
    assert_eq!((page.sets.len(), page.next.as_deref()), (1, Some("7")));
    client.cancel_set(SetKind::Pipeline, "set-1", true).await.unwrap();
    client.cancel_set(SetKind::Array, "set-1", false).await.unwrap();
    client.retry_set(SetKind::Pipeline, "set-1", Some("a b"), true).await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "POST /pipelines?param=A%3Db%20c steps: []",
            "POST /pipelines/set-1/steps?param=A%3Db%20c steps: []",
            "GET /pipelines/set-1 ",
            r#"POST /arrays {"command":"x","indices":"0-9","max_parallel":2}"#,
            "GET /arrays/set-1 ",
            "GET /arrays?limit=5&cursor=3 ",
            "POST /pipelines/set-1/cancel?dry_run=true ",
            "POST /arrays/set-1/cancel ",
            "POST /pipelines/set-1/retry?from=a%20b&dry_run=true ",
        ]
    );
}

#[tokio::test]
async fn jobs_queues_and_workers() {
    let (client, seen) = client();
    client.hold("job-1").await.unwrap();
    client.release("job-1").await.unwrap();
    client.retry("job-1").await.unwrap();
    client.cancel_dry_run("job-1").await.unwrap();
    client.edit("job-1", &JobEdit { priority: Some(3), ..JobEdit::default() }).await.unwrap();
    client.delete("job-1").await.unwrap();
    let filter = BulkFilter { queue: Some("q".into()), dry_run: true, ..BulkFilter::default() };
    assert_eq!(client.bulk(BulkVerb::Release, &filter).await.unwrap().changed, ["job-1"]);
    assert_eq!(client.queues().await.unwrap().len(), 1);
    assert!(client.queue("a/b").await.unwrap().paused);
    let update = QueueUpdate { max_queued: Some(None), ..QueueUpdate::default() };
    client.update_queue("q", &update).await.unwrap();
    // The answer is no worker here; where the call goes is what counts.
    assert!(client.release_worker("w 1").await.is_err());
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "POST /jobs/job-1/hold ",
            "POST /jobs/job-1/unhold ",
            "POST /jobs/job-1/retry ",
            "POST /jobs/job-1/cancel?dry_run=true ",
            r#"PATCH /jobs/job-1 {"priority":3}"#,
            "DELETE /jobs/job-1 ",
            r#"POST /jobs/bulk/release {"queue":"q","dry_run":true}"#,
            "GET /queues ",
            "GET /queues/a%2Fb ",
            r#"PUT /queues/q {"max_queued":null}"#,
            "POST /workers/w%201/release ",
        ]
    );
}

#[tokio::test]
async fn gangs() {
    let (client, seen) = client();
    let job = SubmitRequest { command: "x".into(), gang_size: Some(2), ..SubmitRequest::default() };
    assert_eq!(client.submit_gang(&job).await.unwrap().tasks, ["job-1", "job-2"]);
    assert_eq!(client.gang("gang-1").await.unwrap().len(), 2);
    let filter = GangFilter { state: Some(GangState::Draining), limit: Some(5), cursor: Some("3".into()) };
    let page = client.gangs(&filter).await.unwrap();
    assert_eq!((page.gangs[0].id.as_str(), page.next.as_deref()), ("gang-1", Some("7")));
    assert_eq!(client.cancel_gang("gang-1").await.unwrap().cancelled, ["job-1"]);
    client.retry_gang("gang-1").await.unwrap();
    client.hold_gang("gang-1").await.unwrap();
    client.release_gang("gang-1").await.unwrap();
    client.preempt_gang("gang-1", Some("room for others")).await.unwrap();
    client.preempt("job-1", None).await.unwrap();
    assert_eq!(client.gang_why("gang-1").await.unwrap().id, "gang-1");
    client.gang_events("gang-1", 9).await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        [
            r#"POST /jobs {"command":"x","gang_size":2}"#,
            "GET /gangs/gang-1 ",
            "GET /gangs?state=draining&limit=5&cursor=3 ",
            "POST /gangs/gang-1/cancel ",
            "POST /gangs/gang-1/retry ",
            "POST /gangs/gang-1/hold ",
            "POST /gangs/gang-1/unhold ",
            "POST /gangs/gang-1/preempt?message=room%20for%20others ",
            "POST /jobs/job-1/preempt ",
            "GET /gangs/gang-1/why ",
            "GET /gangs/gang-1/events?after=9 ",
        ]
    );
}
