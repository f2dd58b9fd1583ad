//! Makes requests: one of a route of the document, with a body that fits, changed in a few places.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};
use serde_json::{Value, json};

use super::client::Answer;
use super::credentials::{Shown, some};
use super::values::{NAMES, any, mutate, of_schema, pick, text};

/// What is found of objects that requests have made, for those that follow.
const REMEMBERED: usize = 64;
const DEPTH: u32 = 6;

/// Bodies that the scheduler takes, where the schema alone says too little.
fn fitting(route: &str) -> Option<Value> {
    Some(match route {
        "POST /jobs" => json!({ "command": "true", "queue_name": "fuzz", "tags": ["fuzz"], "priority": 1 }),
        "POST /jobs/batch" => json!([{ "command": "true" }, { "command": "false", "tags": ["fuzz"] }]),
        "POST /arrays" => json!({ "command": "true", "indices": "0-3", "max_parallel": 2 }),
        "POST /workers/register" => {
            json!({ "id": "fuzz-worker", "slots": 4, "tags": ["fuzz"], "resources": { "cpus": 4 } })
        }
        "POST /workers/{id}/sync" => {
            json!({ "max": 1, "wait_ms": 1, "heartbeats": [], "reports": [], "orders": true })
        }
        "PUT /queues/{name}" => json!({ "max_running": 5, "weight": 2 }),
        "POST /webhooks" => json!({ "url": "http://127.0.0.1:9/hook", "events": ["done"] }),
        "POST /users" => json!({ "name": "fuzz_user", "role": "user" }),
        "POST /tokens" => json!({ "name": "fuzz" }),
        "POST /join-tokens" => json!({ "name": "fuzz", "uses": 2 }),
        "POST /workers/join" => json!({ "worker_id": "fuzz-worker" }),
        "POST /auth/login" => json!({ "user": "fuzz_user", "password": "a long password" }),
        "POST /jobs/bulk/{verb}" => json!({ "queue": "fuzz" }),
        _ => return None,
    })
}

const PIPELINES: [&str; 4] = [
    "steps:\n  - name: a\n    run: \"true\"\n  - name: b\n    run: \"true\"\n    after: [a]\n",
    "name: fuzz\ndefaults: &d\n  retries: 1\nsteps:\n  - {name: a, run: x, <<: *d}\n",
    "steps:\n  - name: a\n    run: echo {{n}}\n    matrix:\n      n: [1, 2]\n",
    "a: &a [x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\nsteps: []\n",
];

/// A request as it goes over the wire.
#[derive(Debug, Clone)]
pub struct Made {
    pub route: String,
    pub bytes: Vec<u8>,
    /// Its bytes are broken on purpose, so that it may never end.
    pub(super) is_broken: bool,
    pub(super) is_head: bool,
}

impl Made {
    /// The request for people.
    pub fn shown(&self) -> String {
        let text: String = self
            .bytes
            .iter()
            .take(3_000)
            .flat_map(|byte| std::ascii::escape_default(*byte))
            .map(char::from)
            .collect();
        text.replace("\\r\\n", "\n    ")
    }
}

/// Ids of objects that there are, by the first part of their paths.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<String, Vec<String>>>);

impl Known {
    /// Takes ids from the answer to a request that has made something.
    pub(super) fn learn(&self, made: &Made, answer: &Answer) {
        if answer.status != 201 && !made.route.ends_with("/jobs/next") {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(&answer.body) else { return };
        let kind = made.route.split('/').nth(1).unwrap_or_default();
        let first = value.as_array().and_then(|all| all.first()).unwrap_or(&value);
        if first["tags"].as_array().is_some_and(|tags| tags.contains(&json!(super::world::STEADY))) {
            // A claim without a name may get it; nothing more is to happen to it.
            return;
        }
        for (field, kind) in [("id", kind), ("gang_id", "gangs")] {
            if let Some(id) = first[field].as_str() {
                let mut known = self.0.lock().expect("no client has panicked");
                let ids = known.entry(kind.to_owned()).or_default();
                if ids.len() >= REMEMBERED {
                    ids.remove(0);
                }
                ids.push(id.to_owned());
            }
        }
    }

    fn some(&self, random: &mut StdRng, kind: &str) -> Option<String> {
        let known = self.0.lock().expect("no client has panicked");
        let ids = known.get(kind).filter(|ids| !ids.is_empty())?;
        Some(pick(random, ids).clone())
    }
}

struct Operation {
    method: String,
    path: String,
    query: Vec<String>,
    body: Option<Value>,
}

/// Knows the routes.
pub(super) struct Maker {
    operations: Vec<Operation>,
    schemas: Value,
}

impl Maker {
    pub(super) fn new(document: &Value) -> Self {
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let query = parameters.filter(|parameter| parameter["in"] == "query");
                let content = operation["requestBody"]["content"].as_object();
                operations.push(Operation {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    query: query
                        .filter_map(|parameter| Some(parameter["name"].as_str()?.to_owned()))
                        .collect(),
                    body: content.and_then(|content| Some(content.values().next()?["schema"].clone())),
                });
            }
        }
        assert!(operations.len() > 70, "the document has {} operations", operations.len());
        Self { operations, schemas: document["components"]["schemas"].clone() }
    }

    /// The next request.
    pub(super) fn make(&self, random: &mut StdRng, good: &Shown, known: &Known) -> Made {
        let operation = pick(random, &self.operations);
        let route = format!("{} {}", operation.method, operation.path);
        let method = match random.random_range(0..40) {
            0 => (*pick(
                random,
                &["HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get", "CONNECT"],
            ))
            .to_owned(),
            _ => operation.method.clone(),
        };
        let target = target(random, operation, known);
        let body = self.body(random, operation, &route);
        let mut headers = some(random, good);
        headers.extend(odd_headers(random));
        let is_head = method == "HEAD";
        let mut bytes =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n")
                .into_bytes();
        for (name, value) in headers {
            bytes.extend([name.as_bytes(), b": ", &value, b"\r\n"].concat());
        }
        if let Some(body) = &body {
            bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            bytes.extend(body);
        } else {
            bytes.extend(b"\r\n");
        }
        let is_broken = random.random_bool(0.03) && !route.contains("bulk");
        if is_broken {
            break_bytes(random, &mut bytes);
        }
        Made { route, bytes, is_broken, is_head }
    }

    fn body(&self, random: &mut StdRng, operation: &Operation, route: &str) -> Option<Vec<u8>> {
        let schema = match &operation.body {
            Some(schema) => schema,
            None if random.random_bool(0.05) => &Value::Null,
            None => return (operation.method == "POST").then(Vec::new),
        };
        if operation.path.starts_with("/pipelines") {
            return Some(pipeline(random));
        }
        if route.ends_with("/logs") || route.ends_with("/checkpoint") || random.random_bool(0.02) {
            return Some((0..random.random_range(0..300)).map(|_| random.random()).collect());
        }
        let seed = fitting(route).filter(|_| random.random_bool(0.7));
        let mut value = seed.unwrap_or_else(|| of_schema(random, schema, &self.schemas, DEPTH));
        for _ in 0..*pick(random, &[0, 0, 1, 1, 1, 2, 4]) {
            mutate(random, &mut value);
        }
        if route == "POST /jobs/bulk/{verb}" {
            // The jobs of others are not to be changed: the run asks for them afterwards.
            value = if value.is_object() { value } else { json!({}) };
            value["queue"] = json!("fuzz");
        }
        let mut text = value.to_string().into_bytes();
        match random.random_range(0..60) {
            0 => text.truncate(random.random_range(0..=text.len())),
            1 if !text.is_empty() && !route.contains("bulk") => {
                let at = random.random_range(0..text.len());
                text[at] = random.random();
            }
            2 if !route.contains("bulk") => text = b"[".repeat(*pick(random, &[100, 127, 128, 100_000])),
            3 => text.extend(b" trailing"),
            4 if !route.contains("bulk") => {
                text = [b"{\"command\":\"true\",", text.get(1..).unwrap_or_default()].concat();
            }
            _ => {}
        }
        Some(text)
    }
}

fn pipeline(random: &mut StdRng) -> Vec<u8> {
    let mut text = (*pick(random, &PIPELINES)).as_bytes().to_vec();
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..text.len().max(1));
        match random.random_range(0..5) {
            0 => text.truncate(at),
            1 => text.insert(at.min(text.len()), *pick(random, b":-[]{}&*!|>'\"\n\t #%@`,")),
            2 => text.extend(b"  - ".repeat(random.random_range(1..200))),
            3 => text
                .splice(at.min(text.len())..at.min(text.len()), self::text(random).into_bytes())
                .for_each(drop),
            _ => text.extend(any(random, 3).to_string().into_bytes()),
        }
    }
    text
}

fn target(random: &mut StdRng, operation: &Operation, known: &Known) -> String {
    let kind = operation.path.split('/').nth(1).unwrap_or_default();
    let id = match random.random_range(0..20) {
        0 => escaped(&text(random)),
        1 => format!("{kind}-00000000-0000-4000-8000-{:012x}", random.next_u32()),
        _ => match known.some(random, kind) {
            Some(id) if random.random_bool(0.1) => format!("{id}~{}", random.random_range(0..4)),
            Some(id) => id,
            None => (*pick(random, &NAMES)).to_owned(),
        },
    };
    let id = if kind == "workers" && random.random_bool(0.5) { "fuzz-worker".to_owned() } else { id };
    let name = *pick(random, &NAMES);
    let verb = *pick(random, &["hold", "unhold", "cancel", "retry", "delete", "x"]);
    let path = operation.path.replace("{id}", &id).replace("{name}", name).replace("{verb}", verb);
    let mut pairs = Vec::new();
    for name in &operation.query {
        if random.random_bool(0.3) {
            pairs.push(format!("{name}={}", escaped(&parameter(random, name))));
        }
    }
    if random.random_bool(0.03) {
        pairs.push(format!("{}={}", escaped(&text(random)), escaped(&text(random))));
    }
    if pairs.is_empty() { path } else { format!("{path}?{}", pairs.join("&")) }
}

fn parameter(random: &mut StdRng, name: &str) -> String {
    if random.random_bool(0.2) {
        return text(random);
    }
    match name {
        "wait" => "1ms".to_owned(),
        "stream" => (*pick(random, &["stdout", "stderr", "both"])).to_owned(),
        "worker_id" => "fuzz-worker".to_owned(),
        "since" => "2026-05-05T08:33:00Z".to_owned(),
        "status" => (*pick(random, &["pending", "running", "done"])).to_owned(),
        _ => random.random_range(0..6).to_string(),
    }
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn odd_headers(random: &mut StdRng) -> Vec<(String, Vec<u8>)> {
    let one = |name: &str, value: &[u8]| vec![(name.to_owned(), value.to_vec())];
    match random.random_range(0..60) {
        0 => one("Content-Type", b"text/html; charset=\xff"),
        1 => one("Content-Type", b"application/x-www-form-urlencoded"),
        2 => one("Content-Encoding", b"gzip"),
        3 => one("Expect", b"100-continue"),
        4 => one("Muster-Lenient", b"true"),
        5 => one("X-Muster-Lease", text(random).replace(|letter: char| letter.is_control(), "").as_bytes()),
        6 => one("Range", b"bytes=0-18446744073709551615,-1"),
        7 => one("Last-Event-ID", b"18446744073709551616"),
        8 => one("Origin", b"null"),
        9 => one("Sec-Fetch-Site", b"same-origin"),
        10 => (0..90).map(|number| (format!("X-{number}"), b"y".to_vec())).collect(),
        11 => one("X-Long", "z".repeat(*pick(random, &[1_000, 60_000, 70_000])).as_bytes()),
        12 => one("X-Muster-Log-Times", b"5@99999999999999999999,x,@,1@-1"),
        13 => one("Upgrade", b"h2c"),
        14 => one("Connection", b"close, upgrade"),
        _ => Vec::new(),
    }
}

/// Changes that no HTTP library makes.
fn break_bytes(random: &mut StdRng, bytes: &mut Vec<u8>) {
    let at = random.random_range(0..bytes.len());
    match random.random_range(0..8) {
        0 => bytes.truncate(at),
        1 => bytes[at] = random.random(),
        2 => bytes.insert(at, 0),
        3 => drop(bytes.splice(at..at, b"\r\n".iter().copied())),
        4 => drop(bytes.splice(0..0, b"\r\n\r\n".iter().copied())),
        5 => {
            let text = String::from_utf8_lossy(bytes).replacen(
                "Accept:",
                "Transfer-Encoding: chunked\r\nAccept:",
                1,
            );
            *bytes = text.into_bytes();
        }
        6 => {
            let text = String::from_utf8_lossy(bytes).replacen("Content-Length: ", "Content-Length: 9", 1);
            *bytes = text.into_bytes();
        }
        _ => {
            let version = *pick(random, &["HTTP/1.0", "HTTP/2.0", "HTTP/9.9"]);
            let text = String::from_utf8_lossy(bytes).replacen("HTTP/1.1", version, 1);
            *bytes = text.into_bytes();
        }
    }
}
