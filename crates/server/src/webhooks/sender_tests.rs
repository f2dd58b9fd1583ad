//! Deliveries to receivers on this machine.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;

/// Answers one request with these bytes and returns what it got.
async fn receiver(answer: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&got).contains("\r\n\r\n{}") {
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the request came to an end: {}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&buffer[..count]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(got).unwrap()
    });
    (url, task)
}

fn config() -> WebhookConfig {
    WebhookConfig { timeout: Duration::from_secs(20), ..WebhookConfig::default() }
}

async fn send(config: &WebhookConfig, url: &str) -> Answered {
    let secret = Secret::new("key");
    let body = Bytes::from_static(b"{}");
    let parcel = Parcel { url, secret: &secret, event: "done", delivery: "hook-1.5".to_owned(), body };
    let server = ServerConfig { webhooks: config.clone(), ..ServerConfig::default() };
    Sender::new(&server, Reach::new(config, None)).send(parcel).await
}

#[tokio::test]
async fn a_delivery_is_signed_and_accepted() {
    let (url, receiver) = receiver("HTTP/1.1 204 No Content\r\n\r\n").await;
    let answered = send(&config(), &url).await;
    assert_eq!(answered.sent(), Sent::Accepted, "{answered:?}");
    let request = receiver.await.unwrap().to_lowercase();
    let header = |name: &str| {
        let line = request.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {request}")).to_owned()
    };
    assert!(request.starts_with("post /hook http/1.1"), "{request}");
    assert_eq!(header("x-muster-event"), "done");
    assert_eq!(header("x-muster-delivery"), "hook-1.5");
    assert_eq!(header("content-type"), "application/json");
    let timestamp: i64 = header("x-muster-timestamp").parse().unwrap();
    assert_eq!(header("x-muster-signature"), sign(&Secret::new("key"), timestamp, b"{}"));
}

#[tokio::test]
async fn refusals_say_what_came_back() {
    let said = async |answer| send(&config(), &receiver(answer).await.0).await.sent();
    let down = said("HTTP/1.1 503 Down\r\nretry-after: 7\r\ncontent-length: 5\r\n\r\nlater").await;
    let retry_after = Some(Span::from_secs(7));
    assert_eq!(down, Sent::Refused { why: "status 503".to_owned(), retry_after });
    let moved =
        said("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
    let why = "status 302 (redirects are not followed)".to_owned();
    assert_eq!(moved, Sent::Refused { why, retry_after: None });
    let gone = said("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(gone, Sent::Gone { why: "status 410".to_owned() });
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_costs_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answered = send(&WebhookConfig { timeout: Duration::from_millis(50), ..config() }, &url).await;
    assert_eq!(answered.refusal().unwrap(), "no answer within 0.05 s");
}

#[tokio::test]
async fn a_closed_port_and_a_forbidden_address_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let refused = send(&config(), &url).await.refusal().unwrap();
    assert!(refused.to_lowercase().contains("refused"), "{refused}");
    let forbidden = WebhookConfig { allow_private: Some(false), ..config() };
    let refused = send(&forbidden, &url).await.refusal().unwrap();
    assert!(refused.contains("forbidden"), "{refused}");
    let port = url.rsplit(':').next().unwrap();
    let refused = send(&forbidden, &format!("http://localhost:{port}")).await.refusal().unwrap();
    assert!(refused.contains("private"), "{refused}");
}

#[tokio::test]
async fn https_is_spoken() {
    // The receiver speaks no TLS: what counts is that the client with its certificates was made and tried.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hello = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        first[0]
    });
    let answered = send(&config(), &format!("https://{address}/")).await;
    let refusal = answered.refusal().unwrap();
    assert!(!refusal.contains("root certificates"), "install ca-certificates: {refusal}");
    assert_eq!(hello.await.unwrap(), 0x16, "a TLS handshake record begins with this byte");
}
