//! Events as text: what happened, and beside it what the attempt used that ended with it.
//!
//! Guarantee: an event of which nothing was measured is written as it always was, and one that was written before
//! anything was measured is read.

use muster_domain::{EventKind, Measured, Resources, Spent};
use serde::Deserialize;
use serde::ser::Error as _;

/// What stands before the measurements in the text. It cannot be part of another text: quotes are escaped there.
const MARK: &str = ",\"spent\":";

/// Enough for most events.
const ROOM: usize = 192;

/// The measurements, as the text has them beside the fields of the event itself.
#[derive(Deserialize)]
struct Beside {
    spent: Spent,
    #[serde(default)]
    requested: Option<Resources>,
}

/// The text of an event.
pub fn write(kind: &EventKind, measured: Option<&Measured>) -> serde_json::Result<String> {
    let Some(measured) = measured else { return serde_json::to_string(kind) };
    // One text for all, without others in between.
    let mut text = Vec::with_capacity(ROOM);
    serde_json::to_writer(&mut text, kind)?;
    text.pop();
    text.extend_from_slice(MARK.as_bytes());
    serde_json::to_writer(&mut text, &measured.spent)?;
    if let Some(requested) = &measured.requested {
        text.extend_from_slice(b",\"requested\":");
        serde_json::to_writer(&mut text, requested)?;
    }
    text.push(b'}');
    String::from_utf8(text).map_err(serde_json::Error::custom)
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
    fn what_an_older_version_wrote_is_read() {
        let kind = EventKind::Done { lease: Lease(3), exit: Exit::default(), ran: Span::from_secs(1) };
        let mut text = serde_json::to_string(&kind).unwrap();
        text.pop();
        text.push_str(r#","spent":{"u":5,"m":9},"requested":{"c":500}}"#);
        let (read, measured) = read(&text).unwrap();
        let spent = Spent { cpu_user_ms: Some(5), peak_memory_bytes: Some(9), ..Spent::default() };
        assert_eq!((read, measured.unwrap().spent), (kind, spent));
        assert_eq!(serde_json::to_string(&spent).unwrap(), "[5,null,9]", "shorter by now");
        assert_eq!(serde_json::from_str::<Spent>("[5,null,9,null,null,null]").unwrap(), spent);
        assert_eq!(serde_json::to_string(&Spent::default()).unwrap(), "[]");
    }

    #[test]
    fn words_of_people_are_no_measurements() {
        let what = r#"x","spent":{"u":7}"#.to_owned();
        let kind = EventKind::Edited { what };
        let text = write(&kind, None).unwrap();
        assert_eq!(read(&text).unwrap(), (kind, None));
    }
}
