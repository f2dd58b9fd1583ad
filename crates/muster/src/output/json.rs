//! Data for programs: the objects of the API, in the API's own spelling.

use std::io::{self, Write as _};

use serde::Serialize;

/// Prints one document, indented.
pub(crate) fn document(value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write(&text)
}

/// Prints one object of a stream, on a line of its own.
pub(crate) fn line(value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    write(&text)
}

fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}
