//! A receiver of webhooks on loopback that answers as the test says and remembers everything it got.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const READ_BOUND: Duration = Duration::from_secs(120);

/// One delivery as it came in.
#[derive(Debug, Clone)]
pub struct Received {
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or_else(|| panic!("no {name} among {:?}", self.headers), |(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a delivery is JSON")
    }

    /// The id of the job that the event is about.
    pub fn job_id(&self) -> String {
        self.json()["event"]["job_id"].as_str().unwrap_or_default().to_owned()
    }
}

/// What to do with a delivery.
#[derive(Debug, Clone)]
pub enum Reply {
    /// An answer with this status and these header lines.
    Status(u16, String),
    /// No answer, while the connection stays open.
    Silence,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self::Status(status, String::new())
    }
}

#[derive(Debug, Default)]
struct State {
    received: Vec<Received>,
    /// Replies to the next deliveries, before the usual one.
    planned: VecDeque<Reply>,
    usual: Option<Reply>,
}

/// A receiver; it ends with the value that holds it.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
    closed: Arc<AtomicBool>,
}

impl Receiver {
    /// Accepts every delivery with 200.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let receiver = Self { address, state: Arc::default(), closed: Arc::default() };
        let (state, closed) = (Arc::clone(&receiver.state), Arc::clone(&receiver.closed));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), state) = (stream, Arc::clone(&state)) else { continue };
                thread::spawn(move || serve(stream, &state));
            }
        });
        receiver
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Answers the next deliveries so, one each.
    pub fn plan(&self, replies: impl IntoIterator<Item = Reply>) {
        self.lock().planned.extend(replies);
    }

    /// Answers so whatever was not planned.
    pub fn answer(&self, reply: Reply) {
        self.lock().usual = Some(reply);
    }

    pub fn received(&self) -> Vec<Received> {
        self.lock().received.clone()
    }

    /// Waits for that many deliveries in all.
    pub fn await_count(&self, count: usize, bound: Duration) -> Vec<Received> {
        let deadline = Instant::now() + bound;
        let mut state = self.lock();
        while state.received.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} of {count} deliveries came within {bound:?}", state.received.len());
            state = self.state.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.received.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; when it is gone already there is nobody to wake.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, state: &(Mutex<State>, Condvar)) {
    let _ = stream.set_read_timeout(Some(READ_BOUND));
    let mut buffer = Vec::new();
    while let Some(received) = read(&mut stream, &mut buffer) {
        let reply = {
            let mut state = state.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.received.push(received);
            let planned = state.planned.pop_front();
            planned.or_else(|| state.usual.clone()).unwrap_or_else(|| Reply::status(200))
        };
        state.1.notify_all();
        match reply {
            Reply::Status(status, lines) => {
                let answer = format!("HTTP/1.1 {status} X\r\n{lines}Content-Length: 2\r\n\r\nok");
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            Reply::Silence => {}
        }
    }
}

/// One request; what follows it stays in the buffer. `None` when the connection is at its end.
fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    let mut chunk = [0_u8; 16 * 1024];
    loop {
        if let Some((received, length)) = parse(buffer) {
            buffer.drain(..length);
            return Some(received);
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

fn parse(buffer: &[u8]) -> Option<(Received, usize)> {
    let head_end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    let headers: Vec<(String, String)> =
        lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    let received = Received { headers, body: Vec::new() };
    let length: usize = received.header("content-length").parse().ok()?;
    let body = buffer.get(head_end + 4..head_end + 4 + length)?.to_vec();
    Some((Received { body, ..received }, head_end + 4 + length))
}
