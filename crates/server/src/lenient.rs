//! JSON as the original API reads it: any content type, the first value of the body, keys in any case,
//! the last of duplicate keys, `null` as absence. Unknown keys are refused, unless the caller asks for the old way.
//!
//! Guarantees: one pass over the bytes and no intermediate tree; nesting is bounded by the decoder; a refusal names the
//! field by its place in the body. Keys of maps that belong to the caller (environment, counters) are taken as they are.

use std::cell::RefCell;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::error::ApiError;

/// What a refusal repeats of the body, at most.
const SHOWN: usize = 200;

/// How deep values may lie in each other: the bound of the decoder.
const MAX_DEPTH: usize = 127;

/// What becomes of keys that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Strict,
    /// They are ignored, as the original API does.
    Lenient,
}

/// One step from the outermost value down to the present one.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Key(&'static str),
    Element(usize),
}

/// Where in the body the decoder is. Decoding never waits, so that one place for each thread is enough.
struct Place {
    reading: Reading,
    /// Keys that another part of the program reads from the same object.
    beside: &'static [&'static str],
    path: Vec<Part>,
    refused: Option<ApiError>,
}

thread_local! {
    static PLACE: RefCell<Place> =
        const { RefCell::new(Place { reading: Reading::Lenient, beside: &[], path: Vec::new(), refused: None }) };
}

/// Decodes the first JSON value of `body`.
pub(crate) fn decode<T>(body: &[u8], reading: Reading) -> Result<T, ApiError>
where
    T: for<'de> Deserialize<'de>,
{
    decode_beside(body, reading, &[])
}

/// The same, where the outermost object has further keys that are read apart.
pub(crate) fn decode_beside<T>(
    body: &[u8],
    reading: Reading,
    beside: &'static [&'static str],
) -> Result<T, ApiError>
where
    T: for<'de> Deserialize<'de>,
{
    read(body, reading, beside, |decoder| T::deserialize(decoder))
}

type JsonDecoder<'de> = serde_json::Deserializer<serde_json::de::StrRead<'de>>;

/// Runs a decoder over `body` and tells a refused key and a wrong type from a body that is no JSON.
pub(crate) fn read<'de, T>(
    body: &'de [u8],
    reading: Reading,
    beside: &'static [&'static str],
    run: impl FnOnce(&mut JsonDecoder<'de>) -> Result<T, serde_json::Error>,
) -> Result<T, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::invalid_body())?;
    PLACE.replace(Place { reading, beside, path: Vec::new(), refused: None });
    let mut decoder = serde_json::Deserializer::from_str(text);
    run(&mut decoder).map_err(|error| {
        let (path, refused) = PLACE.with_borrow_mut(|place| (spelled(&place.path), place.refused.take()));
        if is_too_deep(&error) {
            return ApiError::nested_too_deep(MAX_DEPTH);
        }
        refused.unwrap_or_else(|| wrong_type(&path, &error))
    })
}

/// The decoder goes down into the value of a key, or into an element.
pub(crate) fn enter(part: Part) {
    PLACE.with_borrow_mut(|place| place.path.push(part));
}

/// It came back. After an error it does not, so that the path leads to the fault.
pub(crate) fn leave() {
    PLACE.with_borrow_mut(|place| place.path.pop());
}

/// An object has a key that is none of `known`.
pub(crate) fn unknown_key<E: Error>(key: &str, known: &[&str]) -> Result<(), E> {
    PLACE.with_borrow_mut(|place| {
        let is_read_apart =
            place.path.is_empty() && place.beside.iter().any(|known| known.eq_ignore_ascii_case(key));
        if place.reading == Reading::Lenient || is_read_apart {
            return Ok(());
        }
        let beside = if place.path.is_empty() { place.beside } else { &[] };
        let known: Vec<&str> = known.iter().chain(beside).copied().collect();
        place.refused = Some(ApiError::unknown_field(&spelled(&place.path), &shortened(key), &known));
        Err(E::custom("unknown field"))
    })
}

/// The decoder tells it by its words only.
fn is_too_deep(error: &serde_json::Error) -> bool {
    error.is_syntax() && error.to_string().starts_with("recursion limit exceeded")
}

/// A path as people write it: `retry.factor`, `[3].name`.
fn spelled(path: &[Part]) -> String {
    let mut text = String::new();
    for part in path {
        match part {
            Part::Key(key) if text.is_empty() => text.push_str(key),
            Part::Key(key) => text.extend([".", key]),
            Part::Element(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text
}

/// Names the field whose value has another type; a body that is no JSON object at all has none.
fn wrong_type(path: &str, error: &serde_json::Error) -> ApiError {
    if path.is_empty() || !error.is_data() {
        return ApiError::invalid_body();
    }
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let types = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let said = match types.and_then(|types| types.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            format!("{path} must be {}, but is {}", type_name(expected), shortened(found))
        }
        None => format!("{path}: {}", shortened(message)),
    };
    ApiError::wrong_field(path, said)
}

/// A type in the words of JSON.
fn type_name(expected: &str) -> &str {
    match expected {
        "i64" | "i32" | "u64" | "u32" | "u16" | "usize" => "an integer",
        "f64" => "a number",
        "a sequence" => "an array",
        "a map" => "an object",
        other => other,
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect()
}

/// A value of no interest. Unlike serde's own it goes down through the decoder's bound on nesting.
pub(crate) struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_any(SkippedVisitor)
    }
}

struct SkippedVisitor;

impl<'de> Visitor<'de> for SkippedVisitor {
    type Value = Skipped;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_str<E>(self, _: &str) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Skipped, A::Error> {
        while elements.next_element::<Skipped>()?.is_some() {}
        Ok(Skipped)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Skipped, A::Error> {
        while entries.next_entry::<Skipped, Skipped>()?.is_some() {}
        Ok(Skipped)
    }
}

/// Declares an object of optional fields, each with the keys it is found under, whatever their case.
macro_rules! lenient_object {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $field:ident : $type:ty = $($key:literal)|+ ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        $vis struct $name { $( pub $field: Option<$type> ),* }

        impl $name {
            /// Every key that the object may have.
            pub(crate) const KEYS: &'static [&'static str] = &[ $( $($key),+ ),* ];
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
                #[expect(non_camel_case_types, reason = "named after the fields")]
                enum Key { $( $field, )* Unknown }

                struct KeyVisitor;
                impl ::serde::de::Visitor<'_> for KeyVisitor {
                    type Value = Key;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("a key")
                    }

                    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<Key, E> {
                        $( if $( text.eq_ignore_ascii_case($key) )||+ { return Ok(Key::$field); } )*
                        $crate::lenient::unknown_key(text, $name::KEYS)?;
                        Ok(Key::Unknown)
                    }
                }
                impl<'de> ::serde::Deserialize<'de> for Key {
                    fn deserialize<D: ::serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
                        decoder.deserialize_identifier(KeyVisitor)
                    }
                }

                struct ObjectVisitor;
                impl<'de> ::serde::de::Visitor<'de> for ObjectVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A>(self, mut map: A) -> Result<$name, A::Error>
                    where
                        A: ::serde::de::MapAccess<'de>,
                    {
                        let mut object = $name::default();
                        while let Some(found) = map.next_key::<Key>()? {
                            match found {
                                $( Key::$field => {
                                    $crate::lenient::enter($crate::lenient::Part::Key([$($key),+][0]));
                                    if let Some(value) = map.next_value::<Option<$type>>()? {
                                        object.$field = Some(value);
                                    }
                                    $crate::lenient::leave();
                                } )*
                                Key::Unknown => {
                                    map.next_value::<$crate::lenient::Skipped>()?;
                                }
                            }
                        }
                        Ok(object)
                    }
                }
                decoder.deserialize_map(ObjectVisitor)
            }
        }
    };
}

pub(crate) use lenient_object;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    lenient_object! {
        struct Inner { memory_mb: u64 = "memory_mb" }
    }

    lenient_object! {
        struct Sample {
            command: String = "command",
            priority: i64 = "priority" | "prio",
            inner: Inner = "resources",
            env: BTreeMap<String, String> = "env",
            list: Vec<String> = "list",
        }
    }

    fn sample(body: &str) -> Sample {
        decode(body.as_bytes(), Reading::Strict).unwrap_or_else(|error| panic!("{body}: {error:?}"))
    }

    fn refused(body: &str) -> String {
        let error = decode::<Sample>(body.as_bytes(), Reading::Strict).unwrap_err();
        assert_eq!(error.status, 400);
        error.message.into_owned()
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place_and_what_was_meant() {
        assert_eq!(
            refused(r#"{"command":"a","prioritty":5}"#),
            "unknown field \"prioritty\"; did you mean priority?"
        );
        assert_eq!(
            refused(r#"{"resources":{"ram":5}}"#),
            "unknown field \"ram\" in resources; it may have memory_mb"
        );
        let error = decode::<Sample>(br#"{"Resources":{"x":5}}"#, Reading::Strict).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), ("unknown_field", Some("resources.x")));
        let beside =
            decode_beside::<Sample>(br#"{"command":"a","INDICES":1}"#, Reading::Strict, &["indices"]);
        assert!(beside.is_ok());
    }

    #[test]
    fn a_wrong_type_names_its_field() {
        assert_eq!(
            refused(r#"{"priority":"1"}"#),
            "invalid request body: priority must be an integer, but is string \"1\""
        );
        assert_eq!(
            refused(r#"{"resources":{"memory_mb":-1}}"#),
            "invalid request body: resources.memory_mb must be an integer, but is integer `-1`"
        );
        assert!(refused(&format!(r#"{{"priority":"{}"}}"#, "x".repeat(10_000))).len() < 400);
    }

    #[test]
    fn keys_match_in_any_case_also_in_nested_objects() {
        let value = sample(r#"{"COMMAND":"x","Resources":{"MEMORY_mb":5},"PRIO":2}"#);
        assert_eq!(value.command.as_deref(), Some("x"));
        assert_eq!(value.inner.and_then(|inner| inner.memory_mb), Some(5));
        assert_eq!(value.priority, Some(2));
    }

    #[test]
    fn the_callers_own_keys_keep_their_case() {
        let env = sample(r#"{"env":{"Path":"a","PATH":"b"}}"#).env.unwrap();
        assert_eq!(env.keys().collect::<Vec<_>>(), ["PATH", "Path"]);
    }

    #[test]
    fn the_last_duplicate_wins_and_null_is_absence() {
        assert_eq!(sample(r#"{"command":"a","Command":"b"}"#).command.as_deref(), Some("b"));
        assert_eq!(sample(r#"{"command":"a","command":null}"#).command.as_deref(), Some("a"));
        assert!(sample(r#"{"command":null}"#).command.is_none());
    }

    #[test]
    fn only_the_first_value_is_read_and_unknown_keys_can_be_ignored() {
        assert_eq!(sample(r#"{"command":"a"} trailing }{"#).command.as_deref(), Some("a"));
        let old = decode::<Sample>(br#"{"x":{"y":[1,{}]},"command":"a"}"#, Reading::Lenient).unwrap();
        assert_eq!(old.command.as_deref(), Some("a"));
    }

    #[test]
    fn what_does_not_decode_is_one_error() {
        let deep = format!("{}{}", r#"{"list":"#, "[".repeat(100_000));
        let cases: [&[u8]; 15] = [
            b"null",
            b"",
            b"  ",
            b"{",
            b"[]",
            b"3",
            b"\"x\"",
            br#"{"command":5}"#,
            br#"{"priority":1.5}"#,
            br#"{"priority":1.0}"#,
            br#"{"priority":"1"}"#,
            br#"{"list":"a"}"#,
            br#"{"list":[1]}"#,
            b"{\"command\":\"\xff\"}",
            deep.as_bytes(),
        ];
        for body in cases {
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            let error = decode::<Sample>(body, Reading::Lenient).unwrap_err();
            assert_eq!((error.status.as_u16(), error.code), (400, "invalid_body"), "{shown}");
            assert!(error.message.starts_with("invalid request body"), "{shown}: {}", error.message);
        }
    }

    #[test]
    fn deep_values_under_unknown_keys_do_not_exhaust_the_stack() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(decode::<Sample>(deep.as_bytes(), Reading::Lenient).is_err());
    }
}
