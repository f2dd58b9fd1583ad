//! Names that stand for themselves once, and for their position everywhere else.

use std::collections::HashMap;

/// Names in the order in which they were seen first.
#[derive(Debug, Default)]
pub(crate) struct Names {
    seen: HashMap<String, u32>,
    list: Vec<String>,
}

impl Names {
    pub(crate) fn position(&mut self, name: &str) -> u32 {
        if let Some(position) = self.seen.get(name) {
            return *position;
        }
        let position = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.seen.insert(name.to_owned(), position);
        self.list.push(name.to_owned());
        position
    }

    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}
