//! What a job learns about its set and from those it depends on, as environment variables.

use std::collections::BTreeMap;

use muster_store::{Claimed, Input};
use serde_json::Value;

/// All variables of inputs together are at most this long, so that a process can still be started.
const MOST_BYTES: usize = 96 * 1024;

/// The variables of a claimed job beyond its own environment.
pub(super) fn environment(claimed: &Claimed) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    if let Some(member) = &claimed.job.member {
        let kind = if member.step.is_some() { "MUSTER_PIPELINE_ID" } else { "MUSTER_ARRAY_ID" };
        env.insert(kind.to_owned(), member.set.to_string());
        if let Some(step) = &member.step {
            env.insert("MUSTER_STEP".to_owned(), step.to_string());
        }
        if let Some(index) = member.index {
            env.insert("MUSTER_ARRAY_INDEX".to_owned(), index.to_string());
        }
    }
    let mut left = MOST_BYTES;
    for input in &claimed.inputs {
        for (name, value) in variables(input) {
            let size = name.len() + value.len() + 2;
            if size > left {
                env.insert("MUSTER_NEEDS_TRUNCATED".to_owned(), "1".to_owned());
                return env;
            }
            left -= size;
            env.insert(name, value);
        }
    }
    env
}

/// `MUSTER_NEEDS_<STEP>_<KEY>`, with the index in between where the step was multiplied.
fn variables(input: &Input) -> Vec<(String, String)> {
    let Ok(Value::Object(outputs)) = serde_json::from_str::<Value>(&input.outputs) else { return Vec::new() };
    let mut prefix = "MUSTER_NEEDS".to_owned();
    for part in input.name.iter().cloned().chain(input.index.map(|index| index.to_string())) {
        prefix.push('_');
        prefix.push_str(&part);
    }
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let one = |(key, value)| {
        let value = text(value);
        (!value.contains('\0')).then(|| (variable(&format!("{prefix}_{key}")), value))
    };
    outputs.into_iter().filter_map(one).collect()
}

/// Upper case, and `_` for everything that a shell does not take in a name.
fn variable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn outputs_become_variables_named_after_their_step() {
        let outputs: Arc<str> = r#"{"row-count":5,"path":"/x y","ok":true}"#.into();
        let input = Input { name: Some("load.data".into()), index: None, outputs: Arc::clone(&outputs) };
        let found: BTreeMap<String, String> = variables(&input).into_iter().collect();
        assert_eq!(found["MUSTER_NEEDS_LOAD_DATA_ROW_COUNT"], "5");
        assert_eq!(found["MUSTER_NEEDS_LOAD_DATA_PATH"], "/x y");
        assert_eq!(found["MUSTER_NEEDS_LOAD_DATA_OK"], "true");
        let input = Input { name: Some("fit".into()), index: Some(3), outputs };
        assert!(variables(&input).iter().any(|(name, _)| name == "MUSTER_NEEDS_FIT_3_PATH"));
    }
}
