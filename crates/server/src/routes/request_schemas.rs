//! Says in the OpenAPI document what is true of bodies: they have no fields beside those that are listed.
//!
//! Guarantee: a schema that is part of a request allows no other properties; what is only answered stays open.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Closes every schema that a request uses, and lists the older names of fields.
pub(super) fn close(document: &mut Value) {
    merge_parts(document);
    add_other_names(document);
    let mut open: Vec<String> = Vec::new();
    let paths = document["paths"].as_object().into_iter().flatten();
    for operation in paths.flat_map(|(_, item)| item.as_object().into_iter().flatten().map(|(_, it)| it)) {
        names(&operation["requestBody"], &mut open);
    }
    let mut closed = BTreeSet::new();
    while let Some(name) = open.pop() {
        if !closed.insert(name.clone()) {
            continue;
        }
        let Some(schema) = document.pointer_mut(&format!("/components/schemas/{name}")) else { continue };
        names(schema, &mut open);
        if let Value::Object(schema) = schema
            && schema.contains_key("properties")
        {
            schema.entry("additionalProperties").or_insert(Value::Bool(false));
        }
    }
}

/// The schemas that a value refers to.
fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let target = fields.get("$ref").and_then(Value::as_str);
            found.extend(target.and_then(|target| target.rsplit('/').next()).map(str::to_owned));
            fields.values().for_each(|value| names(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

/// An object that is made of others lists the fields of all of them itself, so that each of the parts can be closed.
fn merge_parts(document: &mut Value) {
    let Some(Value::Object(schemas)) = document.pointer("/components/schemas").cloned() else { return };
    for (name, schema) in &schemas {
        let Some(parts) = schema["allOf"].as_array() else { continue };
        let mut merged = schema.clone();
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for part in parts {
            let target = part["$ref"].as_str().and_then(|target| target.rsplit('/').next());
            let part = target.and_then(|target| schemas.get(target)).unwrap_or(part);
            properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
        }
        if let Value::Object(merged) = &mut merged {
            merged.remove("allOf");
            merged.insert("type".to_owned(), json!("object"));
            merged.insert("properties".to_owned(), Value::Object(properties));
            if !required.is_empty() {
                merged.insert("required".to_owned(), Value::Array(required));
            }
        }
        document["components"]["schemas"][name] = merged;
    }
}

/// Names that other systems use for fields of a submit.
fn add_other_names(document: &mut Value) {
    for schema in ["SubmitRequest", "BatchItem", "ArrayRequest"] {
        let properties = document.pointer_mut(&format!("/components/schemas/{schema}/properties"));
        let Some(Value::Object(properties)) = properties else { continue };
        let cpu = json!({ "type": "number", "minimum": 0, "maximum": 1_000_000_000,
                          "description": "Cores: another name of `resources.cpus`" });
        let memory = json!({ "type": "integer", "minimum": 0, "maximum": 1_u64 << 50,
                             "description": "MiB: another name of `resources.memory_mb`" });
        properties.insert("required_cpu".to_owned(), cpu);
        properties.insert("required_memory".to_owned(), memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::openapi;
    use crate::submission::SubmitBody;

    fn schema(name: &str) -> Value {
        let document: Value = serde_json::from_str(&openapi::document().unwrap()).unwrap();
        document["components"]["schemas"][name].clone()
    }

    #[test]
    fn requests_are_closed_and_answers_are_not() {
        for name in
            ["SubmitRequest", "BatchItem", "ArrayRequest", "RegisterRequest", "SyncRequest", "Resources"]
        {
            let schema = schema(name);
            assert_eq!(schema["additionalProperties"], Value::Bool(false), "{name}: {schema}");
            assert!(schema["allOf"].is_null(), "{name}");
        }
        assert!(schema("BatchItem")["properties"]["ref"].is_object());
        assert!(schema("BatchItem")["properties"]["command"].is_object());
        assert!(schema("Job")["additionalProperties"].is_null());
        assert!(schema("GpuState")["properties"]["used_mb"].is_object());
    }

    #[test]
    fn what_the_document_lists_is_read() {
        for name in ["SubmitRequest", "BatchItem"] {
            let schema = schema(name);
            for property in schema["properties"].as_object().unwrap().keys() {
                assert!(SubmitBody::KEYS.contains(&property.as_str()), "{name} lists {property}");
            }
        }
    }
}
