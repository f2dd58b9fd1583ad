//! The children of a thread, as the kernel lists them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The list of one thread, kept open: asking again costs one call.
#[derive(Debug, Default)]
pub(super) struct Children {
    list: Option<File>,
}

impl Children {
    /// Those of the first thread of this process. To that thread the system gives what loses its parents below a
    /// process that takes in orphans; what other threads start is theirs.
    pub(super) fn of_the_first_thread() -> Self {
        let list = File::open(format!("/proc/self/task/{}/children", std::process::id()));
        if let Err(error) = &list {
            eprintln!("keeper: this system does not list children, only process groups are ended: {error}");
        }
        Self { list: list.ok() }
    }

    /// Whether it is certain that there are none.
    pub(super) fn are_none(&self) -> bool {
        self.list.as_ref().is_some_and(|list| matches!(list.read_at(&mut [0; 16], 0), Ok(0)))
    }

    /// Their numbers. One may be missing from a list that is not empty; an empty list is true.
    pub(super) fn list(&self) -> Vec<i32> {
        let Some(list) = &self.list else { return Vec::new() };
        let (mut text, mut part) = (Vec::new(), [0; 1024]);
        while let Ok(length @ 1..) = list.read_at(&mut part, text.len() as u64) {
            text.extend_from_slice(&part[..length]);
        }
        let numbers = text.split(u8::is_ascii_whitespace);
        numbers.filter_map(|number| std::str::from_utf8(number).ok()?.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_what_others_start_is_not_listed() {
        let children = Children::of_the_first_thread();
        let mut child = std::thread::spawn(|| std::process::Command::new("sleep").arg("60").spawn().unwrap())
            .join()
            .unwrap();
        // A thread that has ended leaves its children to the first one.
        assert!(children.list().contains(&(child.id() as i32)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children.list().contains(&(child.id() as i32)));
        assert!(Children::default().list().is_empty());
    }
}
