//! The boxes are the standard ones: libsodium opens ours, and we open libsodium's.
#![expect(clippy::unwrap_used, reason = "test code, outside of the test function that runs it")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use muster_protocol::SealedBox;
use muster_seal::{Context, KeyPair, SecretValue, open, seal};
use serde_json::{Value, json};

fn pynacl(given: &Value) -> Value {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("../../.venv/bin/python");
    assert!(python.exists(), "run scripts/install-test-deps first");
    let mut child = Command::new(python)
        .arg(here.join("tests/pynacl.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "PyNaCl could not open the box");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn libsodium_opens_our_boxes_and_we_open_its() {
    let pair = KeyPair::from_private([9; 32]);
    let context = Context { name: "token".into(), queue: None, owner: Some("ada".into()), version: 4 };
    let boxes = seal(&SecretValue::new(b"ours".to_vec()), &context, &[pair.public().clone()]).unwrap();
    let frame = |value: &str| format!("{}\n{value}", json!({"name": "token", "owner": "ada", "version": 4}));
    let answer = pynacl(&json!({
        "private": *pair.private_text(),
        "public": pair.public().to_string(),
        "sealed": boxes[0].sealed,
        "frame": frame("theirs"),
    }));
    assert_eq!(answer["opened"], frame("ours"));
    assert_eq!(answer["public"], pair.public().to_string(), "the public half is the same");
    let sealed = answer["sealed"].as_str().unwrap().to_owned();
    let value = open(&[SealedBox { key: pair.public().id(), sealed }], &context, &[pair]).unwrap();
    assert_eq!(value.bytes(), b"theirs");
}
