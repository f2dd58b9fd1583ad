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

/// One array, printed as its elements come; each on a line of its own.
#[derive(Debug, Default)]
pub(crate) struct List {
    printed: usize,
}

impl List {
    pub(crate) fn add(&mut self, elements: &[impl Serialize]) -> io::Result<()> {
        let mut text = Vec::new();
        for element in elements {
            text.extend_from_slice(if self.printed == 0 { b"[\n" } else { b",\n" });
            serde_json::to_writer(&mut text, element)?;
            self.printed += 1;
        }
        write(&text)
    }

    /// Closes the array; returns how many elements it has.
    pub(crate) fn end(self) -> io::Result<usize> {
        write(if self.printed == 0 { b"[]\n" } else { b"\n]\n" })?;
        Ok(self.printed)
    }
}

fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}
