//! Server-sent events as text, cut into events.
//!
//! Guarantee: pieces may be cut anywhere, also inside a character or a line break.

/// One event of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// Collects bytes until they make whole events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    after_return: bool,
    message: Message,
    has_data: bool,
}

impl Parser {
    /// Takes the next bytes and returns the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut complete = Vec::new();
        for byte in bytes {
            match byte {
                // The second half of a line break that already counted.
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    complete.extend(self.end_line());
                }
                other => {
                    self.after_return = false;
                    self.line.push(*other);
                }
            }
        }
        complete
    }

    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return std::mem::take(&mut self.has_data).then_some(message);
        }
        let text = String::from_utf8_lossy(&line);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut self.message.id),
            "event" => value.clone_into(&mut self.message.kind),
            "data" => {
                if self.has_data {
                    self.message.data.push('\n');
                }
                self.has_data = true;
                self.message.data.push_str(value);
            }
            // Comments (an empty field) keep the connection alive; other fields are not ours.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        ": hello\r\n\r\nid: 7\nevent: done\ndata: {\"a\":\ndata:\"ä\"}\n\nevent: empty\n\ndata: x\r\r";

    fn expected() -> Vec<Message> {
        vec![
            Message { id: "7".into(), kind: "done".into(), data: "{\"a\":\n\"ä\"}".into() },
            Message { data: "x".into(), ..Message::default() },
        ]
    }

    #[test]
    fn fields_comments_and_line_breaks() {
        assert_eq!(Parser::default().feed(TEXT.as_bytes()), expected());
    }

    #[test]
    fn the_cuts_make_no_difference() {
        for size in 1..TEXT.len() {
            let mut parser = Parser::default();
            let found: Vec<Message> =
                TEXT.as_bytes().chunks(size).flat_map(|piece| parser.feed(piece)).collect();
            assert_eq!(found, expected(), "pieces of {size}");
        }
    }
}
