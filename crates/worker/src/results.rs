//! What a job leaves for its dependants in the file named by `MUSTER_OUTPUT`: one JSON object, or lines
//! `key=value`.
//!
//! Guarantee: what is accepted here the scheduler keeps as it is; what is not is answered with a sentence
//! that names the place of the mistake.

use std::io::{self, Read as _};
use std::path::Path;

use serde_json::{Map, Value};

use crate::job_user::{JobUser, acting_as, open_plain};

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "MUSTER_OUTPUT";

/// The longest file, and the longest JSON made of it.
const MOST_BYTES: usize = 64 * 1024;
/// Deeper values are mistakes; a decoder somewhere on the way would refuse them with all that travels along.
const MOST_DEPTH: usize = 32;
/// How much of a wrong line is shown.
const SHOWN_CHARS: usize = 40;

/// What the file holds; `None` when it is empty or gone.
pub(crate) fn read(path: &Path, user: Option<&JobUser>) -> Result<Option<Map<String, Value>>, String> {
    let bytes = match acting_as(user, || read_bytes(path)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refusal(&format!("it cannot be read: {error}"))),
    };
    parse(&bytes).map_err(|mistake| refusal(&mistake))
}

fn refusal(mistake: &str) -> String {
    format!("the outputs in {VARIABLE} are ignored: {mistake}")
}

/// The job may have put anything in the place of its file, so nothing is followed and nothing waited for.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Option<Map<String, Value>>, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("the file is longer than {MOST_BYTES} bytes; write less, or the path of a file"));
    }
    let text = as_text(bytes)?;
    let values = if text.trim_start().starts_with('{') { json(text)? } else { lines(text)? };
    if values.is_empty() {
        return Ok(None);
    }
    let length = serde_json::to_string(&values).map_or(usize::MAX, |text| text.len());
    if length > MOST_BYTES {
        return Err(format!("they take {length} bytes as JSON, and {MOST_BYTES} are kept; write less"));
    }
    Ok(Some(values))
}

fn as_text(bytes: &[u8]) -> Result<&str, String> {
    let broken_at = match std::str::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            None => return Ok(text),
            Some(position) => position,
        },
        Err(error) => error.valid_up_to().min(bytes.iter().position(|byte| *byte == 0).unwrap_or(usize::MAX)),
    };
    let line = bytes[..broken_at].split(|byte| *byte == b'\n').count();
    Err(format!("line {line} is not text in UTF-8"))
}

fn json(text: &str) -> Result<Map<String, Value>, String> {
    let values: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("the file begins like JSON, but {error}"))?;
    if values.values().any(|value| depth(value) >= MOST_DEPTH) {
        return Err(format!("the JSON is nested deeper than {MOST_DEPTH} levels"));
    }
    Ok(values)
}

/// The decoder has bounded the depth already, far below what a stack can take.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn lines(text: &str) -> Result<Map<String, Value>, String> {
    let mut values = Map::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| {
            format!("line {number} is {}, which is not key=value; longer values go into JSON", shown(line))
        })?;
        if !is_key(key) {
            return Err(format!(
                "line {number} has the key {}; a key begins with a letter or _ and goes on with letters, digits, _, . and -",
                shown(key)
            ));
        }
        values.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    Ok(values)
}

fn is_key(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Value {
        Value::Object(parse(text.as_bytes()).unwrap().unwrap_or_default())
    }

    fn mistake(bytes: &[u8]) -> String {
        parse(bytes).unwrap_err()
    }

    #[test]
    fn lines_are_keys_and_texts() {
        let text =
            "# made by hand\nrows=5\n\n path \n".replace(" path \n", "path=/a b=c \r\nrows=6\nempty=\n");
        assert_eq!(parsed(&text), json!({"rows": "6", "path": "/a b=c ", "empty": ""}));
        assert_eq!(parsed("a.b-c_1=x"), json!({"a.b-c_1": "x"}));
    }

    #[test]
    fn an_object_keeps_its_types() {
        assert_eq!(
            parsed(" \n{\"rows\": 5, \"ok\": true, \"list\": [1, {\"a\": null}]}\n"),
            json!({"rows": 5, "ok": true, "list": [1, {"a": null}]})
        );
    }

    #[test]
    fn nothing_is_nothing() {
        for text in ["", "\n\n", "# only a comment\n", "{}"] {
            assert_eq!(parse(text.as_bytes()), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let cases: [(&[u8], &str); 8] = [
            (b"a=1\nhello\n", "line 2 is \"hello\", which is not key=value"),
            (b"a=1\n\n1a=2\n", "line 3 has the key \"1a\"; a key begins"),
            (b"=2", "line 1 has the key \"\""),
            (b"a =2", "line 1 has the key \"a \""),
            (b"{\n\"a\": }", "expected value at line 2 column 6"),
            (b"{\"a\": 1} x", "trailing characters at line 1 column 10"),
            (b"a=1\nb=\xff\xfe\n", "line 2 is not text in UTF-8"),
            (b"a=1\nb=\0\n", "line 2 is not text in UTF-8"),
        ];
        for (bytes, expected) in cases {
            let found = mistake(bytes);
            assert!(found.contains(expected), "{found}");
        }
        let long = mistake("x".repeat(500).as_bytes());
        assert!(long.len() < 150 && long.contains("xxx\"..."), "{long}");
    }

    #[test]
    fn what_the_scheduler_would_not_keep_is_refused_here() {
        assert!(mistake(&vec![b'#'; MOST_BYTES + 1]).contains("longer than 65536 bytes"));
        assert_eq!(parse(&vec![b'#'; MOST_BYTES]), Ok(None));
        // As JSON each of these takes two bytes.
        let quotes = format!("a={}", "\"".repeat(40_000));
        assert!(mistake(quotes.as_bytes()).contains("80008 bytes as JSON"), "{}", mistake(quotes.as_bytes()));
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(MOST_DEPTH - 1).as_bytes()).is_ok());
        assert!(mistake(nested(MOST_DEPTH).as_bytes()).contains("nested deeper"));
        assert!(mistake(nested(2_000).as_bytes()).contains("recursion limit"));
    }

    #[test]
    fn only_plain_files_are_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("result");
        assert_eq!(read(&path, None), Ok(None), "a removed file is no mistake");
        std::fs::write(&path, "a=1\n").unwrap();
        assert_eq!(read(&path, None).unwrap().unwrap()["a"], "1");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(read(&path, None).unwrap_err().contains("cannot be read"));
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&path, None).unwrap_err().contains("not a plain file"));
    }
}
