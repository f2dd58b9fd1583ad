//! Any text gives a document or mistakes with places, and a valid document comes back as it was written.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{parse, parse_array, parse_indices};

/// Pieces that YAML and the format give a meaning to, so that random texts get past the first character.
const PIECES: [&str; 66] = [
    "steps:",
    "\n",
    "  ",
    "- ",
    "name: a",
    "run: x",
    "needs: ",
    "[",
    "]",
    "{",
    "}",
    ",",
    ": ",
    "a",
    "b",
    "\"",
    "'",
    "|\n",
    ">\n",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "!x ",
    "---\n",
    "...\n",
    "#",
    "\t",
    "%",
    "? ",
    "matrix: ",
    "each: ",
    "array: 0-9",
    "gang: ",
    "size: 4",
    "env:",
    "params:",
    "defaults:",
    "timeout: 1h",
    "rule: always",
    "\\",
    "\u{0}",
    "\u{feff}",
    "é",
    "~",
    "null",
    "true",
    "1e999",
    "-1",
    "0-9%5",
    "\r\n",
    "\r",
    "\u{85}",
    "@",
    "`",
    "\n    ",
    "\n  - ",
    "{name: a, run: x}",
    "backoff: ",
    "unique: ",
    "\"\\u12\"",
    "\"\\x",
    "*",
    "&",
    "!",
    "%YAML 1.2\n",
];

fn pieces() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..60)
        .prop_map(|parts| parts.concat())
}

fn check(text: &str) {
    match parse(text, &BTreeMap::new()) {
        Ok(document) => assert!(!document.steps.is_empty(), "{text}"),
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "{text}");
            assert!(mistakes.iter().all(|mistake| mistake.line > 0 && mistake.column > 0), "{text}");
            assert!(mistakes.is_sorted(), "{text}");
        }
    }
}

#[derive(Debug, Clone)]
struct Sample {
    command: String,
    needs: Vec<prop::sample::Index>,
    variable: String,
    priority: Option<i32>,
    timeout: Option<u32>,
}

fn sample() -> impl Strategy<Value = Sample> {
    let needs = proptest::collection::vec(any::<prop::sample::Index>(), 0..3);
    let text = "[ -~äß€\n\t]{0,12}";
    ("[!-~äß€][ -~äß€\n\t]{0,20}", needs, text, any::<Option<i32>>(), any::<Option<u32>>()).prop_map(
        |(command, needs, variable, priority, timeout)| Sample {
            command,
            needs,
            variable,
            priority,
            timeout: timeout.map(|seconds| seconds.max(1)),
        },
    )
}

/// Each step needs only earlier ones, so that there is no cycle.
fn document(samples: &[Sample]) -> serde_json::Value {
    let steps: Vec<serde_json::Value> = samples
        .iter()
        .enumerate()
        .map(|(index, sample)| {
            let mut needs: Vec<String> = match index {
                0 => Vec::new(),
                _ => sample.needs.iter().map(|need| format!("s{}", need.index(index))).collect(),
            };
            needs.sort();
            needs.dedup();
            let mut step = serde_json::json!({
                "name": format!("s{index}"), "run": sample.command, "needs": needs, "env": {"V": sample.variable},
            });
            if let Some(priority) = sample.priority {
                step["priority"] = priority.into();
            }
            if let Some(timeout) = sample.timeout {
                step["timeout"] = timeout.into();
            }
            step
        })
        .collect();
    serde_json::json!({"name": "sample", "steps": steps})
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn no_text_panics(text in any::<String>()) {
        check(&text);
        let _ = parse_indices(&text);
        let _ = parse_array(&text);
    }

    #[test]
    fn no_text_of_meaningful_pieces_panics(text in pieces()) {
        check(&text);
    }

    #[test]
    fn a_valid_document_survives(samples in proptest::collection::vec(sample(), 1..6)) {
        let written = document(&samples);
        let read = parse(&written.to_string(), &BTreeMap::new()).map_err(|mistakes| {
            TestCaseError::fail(format!("{mistakes:?}\n{written}"))
        })?;
        prop_assert_eq!(read.steps.len(), samples.len());
        for (index, (step, sample)) in read.steps.iter().zip(&samples).enumerate() {
            prop_assert_eq!(&step.name, &format!("s{index}"));
            prop_assert_eq!(&step.job.command, &sample.command);
            prop_assert_eq!(&step.job.env["V"], &sample.variable);
            prop_assert_eq!(step.job.priority, sample.priority);
            prop_assert_eq!(step.job.timeout_seconds, sample.timeout.map(f64::from));
            let needs: Vec<String> = step.needs.iter().map(|need| need.step.clone()).collect();
            let expected: Vec<String> = serde_json::from_value(written["steps"][index]["needs"].clone()).unwrap();
            prop_assert_eq!(needs, expected);
        }
    }
}
