//! What people's calls send and how they read pages and streams, against a small router in process.

use axum::Router;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::{HeaderMap, HeaderValue};
use axum::routing::{get, post};
use muster_client::{Client, JobFilter, LogItem, LogQuery, OutputQuery, ServiceTransport};
use muster_protocol::{BatchItem, EventGap, LogStream};

const EVENTS: &str = concat!(
    ": keep-alive\n\nid: 3\nevent: gap\ndata: {\"after\":1,\"first\":4}\n\n",
    "id: 4\nevent: done\n",
    "data: {\"id\":4,\"at\":\"2026-05-05T08:33:00Z\",\"type\":\"done\",\"job_id\":\"job-1\",\"data\":{\"exit_code\":0}}\n\n"
);

const OUTPUT: &str = concat!(
    ": muster output\n\n",
    "id: 1.1.2.0\nevent: output\ndata: {\"attempt\":1,\"lease\":1,\"stream\":\"stdout\",\"offset\":0,\"text\":\"a\\n\"}\n\n",
    "id: 1.1.5.0\nevent: gap\ndata: {\"attempt\":1,\"lease\":1,\"stream\":\"stdout\",\"offset\":2,\"bytes\":3,\"cause\":\"dropped\"}\n\n",
    "id: 1.1.7.0\nevent: output\ndata: {\"attempt\":1,\"lease\":1,\"stream\":\"stdout\",\"offset\":5,\"base64\":\"/wA=\"}\n\n",
    "event: dropped\ndata: {}\n\n",
);

fn router() -> Router {
    let page = |RawQuery(query): RawQuery| async move {
        let mut headers = HeaderMap::new();
        if !query.unwrap_or_default().contains("cursor=next") {
            headers.insert("X-Next-Cursor", HeaderValue::from_static("next"));
        }
        (headers, "[]\n")
    };
    let batch = |RawQuery(query): RawQuery, body: String| async move {
        format!("[{{\"error\":{}}}]", serde_json::json!(format!("{query:?} {body}")))
    };
    Router::new()
        .route("/jobs", get(page))
        .route("/jobs/batch", post(batch))
        .route("/jobs/{id}/logs", get(|RawQuery(query): RawQuery| async move { query.unwrap_or_default() }))
        .route(
            "/jobs/{id}/logs/stream",
            get(|RawQuery(query): RawQuery| async move {
                let query = query.unwrap_or_default();
                if query.contains("cursor=1.1.7.0") {
                    return Body::from("id: 1.1.7.0\nevent: end\ndata: {}\n\n");
                }
                assert_eq!(query, "stream=stdout&from_lease=2&tail=5&timestamps=true&follow=true");
                Body::from(OUTPUT)
            }),
        )
        .route("/events", get(|| async { Body::from(EVENTS) }))
}

fn client() -> Client {
    Client::new(ServiceTransport::new(router(), "http://here"))
}

#[tokio::test]
async fn pages_continue_until_there_is_no_cursor() {
    let first = client().jobs(&JobFilter::default()).await.unwrap();
    assert_eq!(first.next.as_deref(), Some("next"));
    let last = client().jobs(&JobFilter { cursor: first.next, ..JobFilter::default() }).await.unwrap();
    assert_eq!(last.next, None);
}

#[tokio::test]
async fn a_batch_is_a_bare_array_and_says_whether_it_is_atomic() {
    let item = BatchItem { reference: Some("a".into()), ..BatchItem::default() };
    let seen = client().submit_batch(&[item], true).await.unwrap();
    assert_eq!(seen[0].error.as_deref(), Some(r#"Some("atomic=true") [{"ref":"a"}]"#));
}

#[tokio::test]
async fn output_names_the_stream_and_ends() {
    let query =
        OutputQuery { job_id: "job-1".into(), stream: LogStream::Stderr, attempt: Some(2), follow: true };
    let mut reader = client().output(&query).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), "stream=stderr&attempt=2&follow=true");
    assert_eq!(reader.next().await.unwrap(), None);
}

#[tokio::test]
async fn events_are_decoded_and_comments_passed_over() {
    let mut reader = client().follow_events(Some("job-1"), Some(3)).await.unwrap();
    let event = reader.next().await.unwrap().unwrap();
    assert_eq!((event.id, event.kind.as_str(), event.job_id.as_deref()), (4, "done", Some("job-1")));
    assert_eq!(event.data["exit_code"], 0);
    assert_eq!(reader.take_gaps(), [EventGap { after: 1, first: 4 }]);
    assert!(reader.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_refused_stream_is_an_error_with_its_text() {
    let error = client().job_events("job-1", 0).await.unwrap_err();
    assert_eq!(error.status().unwrap(), 404);
}

#[tokio::test]
async fn a_stream_of_output_breaks_off_and_goes_on() {
    let mut query = LogQuery {
        job_id: "job-1".into(),
        stream: Some(LogStream::Stdout),
        from_lease: Some(2),
        tail: Some(5),
        timestamps: true,
        follow: true,
        ..LogQuery::default()
    };
    let mut reader = client().log_stream(&query).await.unwrap();
    let Some(LogItem::Output { bytes, .. }) = reader.next().await.unwrap() else { panic!() };
    assert_eq!(bytes, "a\n");
    let Some(LogItem::Gap(gap)) = reader.next().await.unwrap() else { panic!() };
    assert_eq!((gap.offset, gap.bytes), (2, 3));
    let Some(LogItem::Output { bytes, offset, .. }) = reader.next().await.unwrap() else { panic!() };
    assert_eq!((bytes.as_ref(), offset), (&[0xff, 0][..], 5));
    assert_eq!(reader.next().await.unwrap(), None, "dropped");
    query.cursor = reader.cursor().map(str::to_owned);
    let mut again = client().log_stream(&query).await.unwrap();
    assert_eq!(again.next().await.unwrap(), Some(LogItem::End));
}
