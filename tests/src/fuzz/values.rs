//! Values that fit, and values that do not.

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};
use serde_json::{Map, Number, Value, json};

/// Texts with a meaning somewhere, and texts that cause trouble in some programs.
const TEXTS: [&str; 34] = [
    "",
    " ",
    "a",
    "fuzz",
    "true",
    "null",
    "0",
    "-1",
    "1.5",
    "1e400",
    "NaN",
    "9223372036854775808",
    "\0",
    "a\0b",
    "\u{202e}",
    "😀",
    "é",
    "\u{feff}",
    "../../etc/passwd",
    "%00",
    "%ff",
    "'; drop table jobs; --",
    "\"",
    "\\",
    "{}",
    "[]",
    "${x}",
    "{{x}}",
    "a,b",
    "a=b",
    "30s",
    "-5s",
    "2026-05-05T08:33:00Z",
    "99999-01-01T00:00:00Z",
];
/// Names that objects of a run have.
pub(super) const NAMES: [&str; 6] = ["fuzz", "fuzz-a", "fuzz-b", "fuzz-worker", "fuzz_user", "nobody"];
const NUMBERS: [i64; 16] =
    [0, 1, -1, 2, 7, 64, 127, 128, 255, 256, 1_000, 65_535, 65_536, 2_147_483_648, i64::MAX, i64::MIN];

pub(super) fn pick<'a, T>(random: &mut StdRng, of: &'a [T]) -> &'a T {
    &of[random.random_range(0..of.len())]
}

pub(super) fn text(random: &mut StdRng) -> String {
    match random.random_range(0..20) {
        0 => "x".repeat(*pick(random, &[255, 256, 257, 4_096, 70_000])),
        1 => (0..random.random_range(1..20)).map(|_| random.random::<char>()).collect(),
        2..=7 => (*pick(random, &NAMES)).to_owned(),
        _ => (*pick(random, &TEXTS)).to_owned(),
    }
}

/// Any value at all.
pub(super) fn any(random: &mut StdRng, depth: u32) -> Value {
    match random.random_range(0..if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => Value::Bool(random.random()),
        2 | 3 => json!(*pick(random, &NUMBERS)),
        4 => json!(*pick(random, &[0.0, -0.5, 1e300, 5e-324, 0.1])),
        5 => json!(u64::MAX - u64::from(random.next_u32() % 2)),
        6 => Value::String(text(random)),
        7 => (0..random.random_range(0..4)).map(|_| any(random, depth - 1)).collect(),
        _ => {
            let entry = |random: &mut StdRng| (text(random), any(random, depth - 1));
            Value::Object((0..random.random_range(0..4)).map(|_| entry(random)).collect())
        }
    }
}

/// A value that a schema of the document describes.
pub(super) fn of_schema(random: &mut StdRng, schema: &Value, all: &Value, depth: u32) -> Value {
    if depth == 0 {
        return any(random, 0);
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return of_schema(random, &all[name], all, depth - 1);
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[choice].as_array().filter(|choices| !choices.is_empty()) {
            let choice = pick(random, choices);
            return of_schema(random, choice, all, depth - 1);
        }
    }
    if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
        return pick(random, values).clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) if !kinds.is_empty() => pick(random, kinds).as_str().unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "object" => object(random, schema, all, depth),
        "array" => (0..random.random_range(0..3))
            .map(|_| of_schema(random, &schema["items"], all, depth - 1))
            .collect(),
        "integer" => json!(*pick(random, &[0, 1, 2, 5, 60, 1_000])),
        "number" => json!(*pick(random, &[0.0, 0.5, 1.0, 2.0])),
        "boolean" => Value::Bool(random.random()),
        "string" => Value::String((*pick(random, &NAMES)).to_owned()),
        "null" => Value::Null,
        _ => any(random, 1),
    }
}

fn object(random: &mut StdRng, schema: &Value, all: &Value, depth: u32) -> Value {
    let mut made = Map::new();
    let required = schema["required"].as_array();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.is_some_and(|required| required.iter().any(|other| other == name));
        if is_required || random.random_bool(0.25) {
            made.insert(name.clone(), of_schema(random, property, all, depth - 1));
        }
    }
    Value::Object(made)
}

/// Changes one thing somewhere in a value.
pub(super) fn mutate(random: &mut StdRng, value: &mut Value) {
    match value {
        Value::Object(entries) if !entries.is_empty() && random.random_bool(0.85) => {
            let at = random.random_range(0..entries.len());
            let key = entries.keys().nth(at).cloned().unwrap_or_default();
            match random.random_range(0..8) {
                0 => drop(entries.remove(&key)),
                1 => drop(entries.insert(text(random), any(random, 2))),
                2 => {
                    let moved = entries.remove(&key).unwrap_or_default();
                    entries.insert(key.to_uppercase(), moved);
                }
                3 => drop(entries.insert(key, any(random, 2))),
                _ => entries.get_mut(&key).into_iter().for_each(|value| mutate(random, value)),
            }
        }
        Value::Array(elements) if !elements.is_empty() && random.random_bool(0.7) => {
            let at = random.random_range(0..elements.len());
            match random.random_range(0..4) {
                0 => drop(elements.remove(at)),
                1 => elements.push(elements[at].clone()),
                _ => mutate(random, &mut elements[at]),
            }
        }
        Value::Number(number) if random.random_bool(0.6) => {
            let near =
                number.as_i64().unwrap_or(0).wrapping_add(*pick(random, &[-1, 1, -1_000_000, 1 << 40]));
            *number = Number::from(near);
        }
        Value::String(written) if random.random_bool(0.3) => written.push_str(&text(random)),
        value => *value = any(random, 2),
    }
}
