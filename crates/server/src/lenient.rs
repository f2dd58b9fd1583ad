//! JSON as the original API reads it: any content type, the first value of the body, keys in any case,
//! the last of duplicate keys, `null` as absence, unknown keys ignored.
//!
//! Guarantees: one pass over the bytes and no intermediate tree; nesting is bounded by the decoder; every
//! body that does not decode is the same 400. Keys of maps that belong to the caller (environment,
//! counters) are taken as they are.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::error::ApiError;

/// Decodes the first JSON value of `body`.
pub(crate) fn decode<T>(body: &[u8]) -> Result<T, ApiError>
where
    T: for<'de> Deserialize<'de>,
{
    let text = std::str::from_utf8(body).map_err(|_| ApiError::invalid_body())?;
    let mut decoder = serde_json::Deserializer::from_str(text);
    T::deserialize(&mut decoder).map_err(|_| ApiError::invalid_body())
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

                    fn visit_str<E>(self, text: &str) -> Result<Key, E> {
                        $( if $( text.eq_ignore_ascii_case($key) )||+ { return Ok(Key::$field); } )*
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
                                    if let Some(value) = map.next_value::<Option<$type>>()? {
                                        object.$field = Some(value);
                                    }
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
        decode(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error:?}"))
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
    fn only_the_first_value_is_read_and_unknown_keys_are_ignored() {
        assert_eq!(sample(r#"{"command":"a"} trailing }{"#).command.as_deref(), Some("a"));
        assert_eq!(sample(r#"{"x":{"y":[1,{}]},"command":"a"}"#).command.as_deref(), Some("a"));
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
            assert_eq!(decode::<Sample>(body).err(), Some(ApiError::invalid_body()), "{shown}");
        }
    }

    #[test]
    fn deep_values_under_unknown_keys_do_not_exhaust_the_stack() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(decode::<Sample>(deep.as_bytes()).is_err());
    }
}
