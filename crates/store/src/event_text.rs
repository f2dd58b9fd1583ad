//! Events as text: what happened, and beside it what the attempt used that ended with it.
//!
//! Guarantee: an event of which nothing was measured is written as it always was, and one that was written before
//! anything was measured is read.

use muster_domain::{EventKind, Measured, Resources, Spent};
use serde::Deserialize;

/// What stands before the measurements in the text. It cannot be part of another text: quotes are escaped there.
const MARK: &str = ",\"spent\":{";

/// The measurements, as the text has them beside the fields of the event itself.
#[derive(Deserialize)]
struct Beside {
    spent: Spent,
    #[serde(default)]
    requested: Option<Resources>,
}

/// The text of an event.
pub fn write(kind: &EventKind, measured: Option<&Measured>) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(kind)?;
    let Some(measured) = measured else { return Ok(text) };
    text.pop();
    text.push_str(",\"spent\":");
    text.push_str(&serde_json::to_string(&measured.spent)?);
    if let Some(requested) = &measured.requested {
        text.push_str(",\"requested\":");
        text.push_str(&serde_json::to_string(requested)?);
    }
    text.push('}');
    Ok(text)
}

/// What a text stands for.
pub fn read(text: &str) -> serde_json::Result<(EventKind, Option<Box<Measured>>)> {
    let kind = serde_json::from_str(text)?;
    if !text.contains(MARK) {
        return Ok((kind, None));
    }
    let Beside { spent, requested } = serde_json::from_str(text)?;
    Ok((kind, Some(Box::new(Measured { spent, requested }))))
}

#[cfg(test)]
mod tests {
    use muster_domain::{Exit, Lease, Span};

    use super::*;

    #[test]
    fn what_is_written_is_read_with_and_without_measurements() {
        let kind = EventKind::Done { lease: Lease(3), exit: Exit::default(), ran: Span::from_secs(1) };
        let spent = Spent { cpu_user_ms: Some(5), ..Spent::default() };
        let resources = Resources { cpu_millis: 500, ..Resources::default() };
        for requested in [None, Some(resources)] {
            let measured = Measured { spent, requested };
            let text = write(&kind, Some(&measured)).unwrap();
            assert_eq!(read(&text).unwrap(), (kind.clone(), Some(Box::new(measured))), "{text}");
        }
        let plain = write(&kind, None).unwrap();
        assert_eq!(plain, serde_json::to_string(&kind).unwrap());
        assert_eq!(read(&plain).unwrap(), (kind, None));
    }

    #[test]
    fn words_of_people_are_no_measurements() {
        let what = r#"x","spent":{"u":7}"#.to_owned();
        let kind = EventKind::Edited { what };
        let text = write(&kind, None).unwrap();
        assert_eq!(read(&text).unwrap(), (kind, None));
    }
}
