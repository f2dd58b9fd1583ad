//! From text to nodes: what YAML says, with the limits that a text from anywhere needs.
//!
//! Guarantee: no recursion over the depth of the text, and no more values than the text pays for, however its
//! aliases are nested.

use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::escapes;
use crate::mistake::{Mistakes, Position, quoted};
use crate::node::{Content, Entry, Node, Scalar};

/// Values inside values; a pipeline needs about six.
const MAX_DEPTH: usize = 64;
/// Values that aliases may add to those that are written out.
const MAX_ALIASED: usize = 100_000;
/// The key under which a mapping takes over the entries of others.
const MERGE: &str = "<<";

/// The one document of the text, or nothing when the mistakes say why.
pub(crate) fn read(text: &str, mistakes: &mut Mistakes) -> Option<Node> {
    // A mark at the very beginning says in which order bytes come; it is no part of the text.
    let text = escapes::joined(text.strip_prefix('\u{feff}').unwrap_or(text));
    let text = text.as_ref();
    let mut builder =
        Builder { mistakes, open: Vec::new(), anchors: BTreeMap::new(), aliased: 0, root: None };
    let mut documents = 0;
    let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        match next {
            Err(error) => {
                builder
                    .mistakes
                    .add(position(error.marker().line(), error.marker().col()), explain(&error, text));
                return None;
            }
            Ok((Event::DocumentStart(_), span)) => {
                documents += 1;
                if documents > 1 {
                    let message = "a second document begins here; a file holds one pipeline, so remove the --- \
                                   or make it a file of its own";
                    builder.mistakes.add(start(&span), message);
                    return None;
                }
            }
            Ok((event, span)) => builder.take(event, &span)?,
        }
    }
    builder.root
}

fn position(line: usize, column: usize) -> Position {
    Position { line: line.max(1), column: column + 1 }
}

fn start(span: &Span) -> Position {
    position(span.start.line(), span.start.col())
}

/// What the parser says, with what people usually did.
fn explain(error: &ScanError, text: &str) -> String {
    let line = text.lines().nth(error.marker().line().saturating_sub(1)).unwrap_or_default();
    let indentation = &line[..line.len() - line.trim_start().len()];
    if indentation.contains('\t') || error.info().contains("tab") {
        return "a tab cannot indent YAML; use blanks".to_owned();
    }
    if error.info().contains("recursion limit") {
        return "values lie in each other too deep".to_owned();
    }
    let hint = if error.info().contains("mapping values") {
        "; a value with `: ` in it needs quotes"
    } else if error.info().contains("quoted scalar") {
        "; close the quote that begins here"
    } else {
        "; check the indentation, and put quotes around text with special characters"
    };
    format!("this is not YAML: {}{hint}", error.info())
}

/// A list or mapping whose end has not come yet.
struct Open {
    at: Position,
    anchor: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    /// `lines` says where each key was first written.
    Mapping {
        entries: Vec<Entry>,
        lines: BTreeMap<String, usize>,
        key: Option<Key>,
    },
}

/// A key that waits for its value; nothing when it cannot be a key.
struct Key {
    at: Position,
    text: Option<String>,
}

struct Builder<'a> {
    mistakes: &'a mut Mistakes,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
    root: Option<Node>,
}

impl Builder<'_> {
    /// Nothing when reading on makes no sense.
    fn take(&mut self, event: Event<'_>, span: &Span) -> Option<()> {
        let at = start(span);
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Some(()),
            Event::Scalar(text, style, anchor, tag) => {
                let forced = tag.is_some_and(|tag| self.forces_text(at, &tag));
                let plain = style == ScalarStyle::Plain && !forced;
                let scalar = Scalar { text: text.into_owned(), plain };
                self.complete(Node { at, content: Content::Scalar(scalar) }, anchor);
                Some(())
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(at, anchor, tag.as_deref(), Inside::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                let inside = Inside::Mapping { entries: Vec::new(), lines: BTreeMap::new(), key: None };
                self.open(at, anchor, tag.as_deref(), inside)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(at, anchor),
        }
    }

    /// `!!str` makes text of anything. Other kinds of the standard are found by the fields themselves; those of
    /// other programs mean nothing here.
    fn forces_text(&mut self, at: Position, tag: &Tag) -> bool {
        if !tag.is_yaml_core_schema() {
            self.mistakes
                .add(at, format!("the tag {} means nothing here; remove it", quoted(&tag.to_string())));
        }
        tag.is_yaml_core_schema() && tag.suffix == "str"
    }

    fn open(&mut self, at: Position, anchor: usize, tag: Option<&Tag>, inside: Inside) -> Option<()> {
        if let Some(tag) = tag {
            self.forces_text(at, tag);
        }
        if self.open.len() >= MAX_DEPTH {
            self.mistakes.add(at, format!("values lie in each other more than {MAX_DEPTH} deep"));
            return None;
        }
        self.open.push(Open { at, anchor, inside });
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        let Open { at, anchor, inside } = self.open.pop()?;
        let content = match inside {
            Inside::List(items) => Content::List(items),
            Inside::Mapping { entries, .. } => Content::Mapping(self.merged(entries)),
        };
        self.complete(Node { at, content }, anchor);
        Some(())
    }

    fn alias(&mut self, at: Position, anchor: usize) -> Option<()> {
        let Some(named) = self.anchors.get(&anchor) else {
            self.mistakes.add(at, "this alias names a value that contains it; write the value out");
            return None;
        };
        let (count, depth) = named.measure();
        self.aliased += count;
        if self.aliased > MAX_ALIASED || self.open.len() + depth > MAX_DEPTH {
            self.mistakes
                .add(at, format!("aliases stand for more than {MAX_ALIASED} values, or too deep ones"));
            return None;
        }
        let node = Node { at, content: named.content.clone() };
        self.complete(node, 0);
        Some(())
    }

    fn complete(&mut self, node: Node, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut parent.inside {
            Inside::List(items) => items.push(node),
            Inside::Mapping { entries, lines, key } => match key.take() {
                None => *key = Some(as_key(node, self.mistakes)),
                Some(key) => entries.extend(entry(lines, key, node, self.mistakes)),
            },
        }
    }

    /// The entries with those of `<<` behind them, where they are not written out.
    fn merged(&mut self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let Some(index) = entries.iter().position(|entry| entry.key == MERGE) else { return entries };
        let merge = entries.remove(index);
        let sources = match merge.value.content {
            Content::List(items) => items,
            Content::Scalar(_) | Content::Mapping(_) => vec![merge.value],
        };
        let mut present: BTreeSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
        for source in sources {
            let Content::Mapping(others) = source.content else {
                self.mistakes.add(source.at, "<< takes over a mapping, or a list of mappings");
                continue;
            };
            entries.extend(others.into_iter().filter(|other| present.insert(other.key.clone())));
        }
        entries
    }
}

fn as_key(node: Node, mistakes: &mut Mistakes) -> Key {
    let text = match node.content {
        Content::Scalar(scalar) => Some(scalar.text),
        Content::List(_) | Content::Mapping(_) => {
            mistakes.add(node.at, "a key is a single word; put quotes around text with brackets");
            None
        }
    };
    Key { at: node.at, text }
}

/// The entry, unless its key stands there already.
fn entry(
    lines: &mut BTreeMap<String, usize>,
    key: Key,
    mut value: Node,
    mistakes: &mut Mistakes,
) -> Option<Entry> {
    let text = key.text?;
    // Nothing has no place of its own: what is said about it is said about its key.
    if value.is_null() {
        value.at = key.at;
    }
    if let Some(line) = lines.get(&text) {
        mistakes
            .add(key.at, format!("{} stands here twice, first in line {line}; remove one", quoted(&text)));
        return None;
    }
    lines.insert(text.clone(), key.at.line);
    Some(Entry { key: text, at: key.at, value })
}
