//! A value of the file with its place. Scalars keep their spelling, so that `1.10` stays `1.10` as a variable.

use serde_json::{Number, Value};

use crate::mistake::Position;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) content: Content,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// One key of a mapping and what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) value: Node,
}

/// A single value; quoted ones and blocks are always text.
#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) plain: bool,
}

impl Scalar {
    pub(crate) fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.text.as_str() {
            "true" | "True" | "TRUE" if self.plain => Some(true),
            "false" | "False" | "FALSE" if self.plain => Some(false),
            _ => None,
        }
    }

    /// As JSON would hold it; what is no JSON number stays text.
    fn to_json(&self) -> Value {
        if !self.plain {
            return Value::String(self.text.clone());
        }
        if self.is_null() {
            return Value::Null;
        }
        if let Some(truth) = self.as_bool() {
            return Value::Bool(truth);
        }
        if let Ok(number) = self.text.parse::<i64>() {
            return Value::Number(number.into());
        }
        let number =
            self.text.parse::<f64>().ok().filter(|_| self.text.contains(|c: char| c.is_ascii_digit()));
        match number.and_then(Number::from_f64) {
            Some(number) => Value::Number(number),
            None => Value::String(self.text.clone()),
        }
    }
}

impl Node {
    /// What the value is, for messages about the wrong kind.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.content {
            Content::Scalar(scalar) if scalar.is_null() => "nothing",
            Content::Scalar(_) => "a single value",
            Content::List(_) => "a list",
            Content::Mapping(_) => "a mapping",
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(scalar) if scalar.is_null())
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            Content::Scalar(scalar) => scalar.to_json(),
            Content::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Content::Mapping(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect(),
            ),
        }
    }

    /// How large this is, in values of usual length, and how deep its values lie.
    pub(crate) fn measure(&self) -> (usize, usize) {
        const USUAL_LENGTH: usize = 32;
        let size = |text: &str| 1 + text.len() / USUAL_LENGTH;
        let join =
            |(count, depth): (usize, usize), (more, below): (usize, usize)| (count + more, depth.max(below));
        let (count, depth) = match &self.content {
            Content::Scalar(scalar) => (size(&scalar.text), 0),
            Content::List(items) => items.iter().map(Self::measure).fold((0, 0), join),
            Content::Mapping(entries) => entries
                .iter()
                .map(|entry| join(entry.value.measure(), (size(&entry.key), 0)))
                .fold((0, 0), join),
        };
        (count + 1, depth + 1)
    }
}
