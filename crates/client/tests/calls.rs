//! The calls against a small server on a real socket, and against the same router in process.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, RawQuery, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use muster_client::{Client, ClientError, LogAppend, LogChunk, LogTick, ServiceTransport};
use muster_protocol::{LogAppended, LogStream, RegisterRequest, SyncRequest, SyncResponse};

/// What the server saw, oldest first.
type Seen = Arc<Mutex<Vec<String>>>;

fn router(seen: &Seen) -> Router {
    let log_seen = Arc::clone(seen);
    let sync_seen = Arc::clone(seen);
    Router::new()
        .route(
            "/workers/{id}/sync",
            post(move |Path(id): Path<String>, headers: HeaderMap, body: String| async move {
                let authorization =
                    headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
                sync_seen.lock().unwrap().push(format!("sync {id} {authorization:?} {body}"));
                if id == "gone" {
                    return (StatusCode::NOT_FOUND, "worker not found\n".to_owned());
                }
                let answer = SyncResponse { lease_ttl_ms: 30_000, ..SyncResponse::default() };
                (StatusCode::OK, serde_json::to_string(&answer).unwrap())
            }),
        )
        .route(
            "/jobs/{id}/logs",
            post(move |Path(id): Path<String>, RawQuery(query): RawQuery, request: Request| async move {
                let times = request.headers()["x-muster-log-times"].to_str().unwrap().to_owned();
                let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
                log_seen.lock().unwrap().push(format!("log {id} {} {times} {body:?}", query.unwrap()));
                match id.as_str() {
                    "ahead" => (StatusCode::CONFLICT, r#"{"length":7}"#),
                    "lost" => (StatusCode::CONFLICT, "lease is not current\n"),
                    _ => (StatusCode::OK, r#"{"length":5}"#),
                }
            }),
        )
        .route("/workers/register", post(|| async { (StatusCode::CREATED, "not json") }))
}

async fn listen(seen: Seen) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router(&seen)).await });
    address
}

fn chunk(job_id: &str) -> LogChunk {
    LogChunk {
        job_id: job_id.into(),
        lease: 4,
        attempt: 2,
        stream: LogStream::Stderr,
        offset: 9,
        bytes: "hello".into(),
        skip: job_id == "ahead",
        ticks: vec![LogTick { end: 11, micros: 5 }, LogTick { end: 14, micros: 7 }],
    }
}

#[tokio::test]
async fn sync_carries_credentials_and_tolerates_a_trailing_slash() {
    let seen = Seen::default();
    let address = listen(Arc::clone(&seen)).await;
    let client = Client::http(&format!("http://me:secret@{address}/")).unwrap();
    let request = SyncRequest { max: 3, ..SyncRequest::default() };
    let answer = client.sync_worker("worker 1", &request).await.unwrap();
    assert_eq!(answer.lease_ttl_ms, 30_000);
    let lines = seen.lock().unwrap().clone();
    assert!(lines[0].starts_with(r#"sync worker 1 Some("Basic bWU6c2VjcmV0")"#), "{lines:?}");
    assert!(lines[0].contains(r#""max":3"#));
}

#[tokio::test]
async fn errors_carry_the_words_of_the_scheduler() {
    let address = listen(Seen::default()).await;
    let client = Client::http(&format!("http://{address}")).unwrap();
    let error = client.sync_worker("gone", &SyncRequest::default()).await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status, message }
        if *status == StatusCode::NOT_FOUND && message == "worker not found"));
    assert!(!error.is_transient());
    let error = client.register_worker(&RegisterRequest::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Decode { .. }));
}

#[tokio::test]
async fn log_chunks_say_where_they_belong() {
    let seen = Seen::default();
    let address = listen(Arc::clone(&seen)).await;
    let client = Client::http(&format!("http://{address}")).unwrap();
    let kept = client.append_log(chunk("job-1")).await.unwrap();
    assert_eq!(kept, LogAppend::Kept(LogAppended { length: 5, followed: None }));
    let misplaced = client.append_log(chunk("ahead")).await.unwrap();
    assert_eq!(misplaced, LogAppend::Misplaced(LogAppended { length: 7, followed: None }));
    let lost = client.append_log(chunk("lost")).await.unwrap_err();
    assert_eq!(lost.status(), Some(StatusCode::CONFLICT));
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], r#"log job-1 lease=4&attempt=2&stream=stderr&offset=9 11@5,14@7 b"hello""#);
    assert!(seen[1].contains("offset=9&skip=true"), "{seen:?}");
}

#[tokio::test]
async fn nobody_there_is_a_transient_error_that_names_the_url() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::http(&format!("http://{address}")).unwrap();
    let error = client.heartbeat_worker("w").await.unwrap_err();
    assert!(error.is_transient());
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn the_same_calls_work_in_process() {
    let seen = Seen::default();
    let client = Client::new(ServiceTransport::new(router(&seen), "http://localhost:8080"));
    let answer = client.sync_worker("w", &SyncRequest::default()).await.unwrap();
    assert_eq!(answer.lease_ttl_ms, 30_000);
    assert_eq!(client.url(), "http://localhost:8080");
}
