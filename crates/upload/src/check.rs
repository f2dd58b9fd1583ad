//! What a manifest may say.
//!
//! Guarantee: the entries of a manifest that was accepted can be made in an empty directory in their order, none of them lies
//! outside of it, and no link leads out of it.

use std::collections::HashMap;

use muster_protocol::{EntryKind, UploadEntry, UploadManifest};

use crate::cutter::LONGEST_CHUNK;
use crate::digest::Digest;
use crate::error::UploadError;

/// Bytes of the longest path, and of the longest part of one.
const LONGEST_PATH: usize = 4_000;
const LONGEST_NAME: usize = 255;
const PERMISSIONS: u32 = 0o777;

/// What one upload may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub bytes: u64,
    pub entries: u64,
}

/// What an upload comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub files: u64,
    pub bytes: u64,
}

/// Accepts a manifest within the limits, and says what it comes to.
pub fn check(manifest: &UploadManifest, limits: &Limits) -> Result<Totals, UploadError> {
    let over = |what, given: u64, limit| {
        if given > limit { Err(UploadError::TooMuch { what, given, limit }) } else { Ok(()) }
    };
    over("entries", manifest.entries.len() as u64, limits.entries)?;
    let mut totals = Totals::default();
    let mut before: Option<&UploadEntry> = None;
    for entry in &manifest.entries {
        check_entry(entry)?;
        if let Some(before) = before {
            follows(before, entry)?;
        }
        totals.files += u64::from(entry.kind == EntryKind::File);
        totals.bytes = totals.bytes.saturating_add(entry.size);
        over("bytes", totals.bytes, limits.bytes)?;
        before = Some(entry);
    }
    let chunks = check_chunks(manifest)?;
    if chunks != totals.bytes {
        return Err(UploadError::Sums { files: totals.bytes, chunks });
    }
    Ok(totals)
}

/// Paths are compared part by part, so that what lies in a directory comes right after it.
fn follows(before: &UploadEntry, entry: &UploadEntry) -> Result<(), UploadError> {
    if before.path.split('/').ge(entry.path.split('/')) {
        return Err(UploadError::Order { path: entry.path.clone(), before: before.path.clone() });
    }
    // A directory that has entries is not listed, so that nothing that is listed has anything below it.
    let below = entry.path.strip_prefix(before.path.as_str()).is_some_and(|rest| rest.starts_with('/'));
    if below {
        return Err(UploadError::Below { path: entry.path.clone(), parent: before.path.clone() });
    }
    Ok(())
}

fn check_entry(entry: &UploadEntry) -> Result<(), UploadError> {
    let path = &entry.path;
    check_path(path)?;
    let wrong = |reason| Err(UploadError::Entry { path: path.clone(), reason });
    if entry.mode.is_some_and(|mode| mode & !PERMISSIONS != 0) {
        return wrong("its mode has more than the nine permission bits");
    }
    if entry.kind != EntryKind::File && entry.size > 0 {
        return wrong("only files have a size");
    }
    match (entry.kind, &entry.target) {
        (EntryKind::Link, Some(target)) => check_link(path, target),
        (EntryKind::Link, None) => wrong("it is a link without a target"),
        (_, Some(_)) => wrong("only links have a target"),
        (_, None) => Ok(()),
    }
}

/// Accepts a relative path that stays inside.
pub fn check_path(path: &str) -> Result<(), UploadError> {
    let wrong = |reason| Err(UploadError::Path { path: path.chars().take(200).collect(), reason });
    if path.is_empty() {
        return wrong("it is empty");
    }
    if path.len() > LONGEST_PATH {
        return wrong("it is longer than 4000 bytes");
    }
    for part in path.split('/') {
        match part {
            "" => return wrong("it begins or ends with a slash, or has two of them in a row"),
            "." | ".." => return wrong("a part of it is . or .."),
            part if part.len() > LONGEST_NAME => return wrong("a part of it is longer than 255 bytes"),
            part if part.contains('\0') => return wrong("it has a zero byte in it"),
            _ => {}
        }
    }
    Ok(())
}

/// Accepts the target of a link that stays inside: first up, as far as the directory of the upload at most, then down. What
/// goes up again after a name could leave through another link.
pub fn check_link(path: &str, target: &str) -> Result<(), UploadError> {
    let wrong = |reason| {
        let target = target.chars().take(200).collect();
        Err(UploadError::Link { path: path.to_owned(), target, reason })
    };
    if target.is_empty() || target.len() > LONGEST_PATH || target.contains('\0') {
        return wrong("is empty, too long, or has a zero byte in it");
    }
    if target.starts_with('/') {
        return wrong("is absolute");
    }
    let mut height = path.split('/').count() - 1;
    let mut descended = false;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if descended => return wrong("goes up again after a name"),
            ".." if height == 0 => return wrong("leads out of the directory"),
            ".." => height -= 1,
            _ => descended = true,
        }
    }
    Ok(())
}

fn check_chunks(manifest: &UploadManifest) -> Result<u64, UploadError> {
    let mut sizes: HashMap<Digest, u32> = HashMap::with_capacity(manifest.chunks.len());
    let mut sum = 0_u64;
    for (number, chunk) in manifest.chunks.iter().enumerate() {
        let digest: Digest = chunk.sha256.parse()?;
        if chunk.size == 0 || chunk.size as usize > LONGEST_CHUNK {
            return Err(UploadError::Chunk { number, reason: "it has no bytes, or more than 2 MiB" });
        }
        if *sizes.entry(digest).or_insert(chunk.size) != chunk.size {
            return Err(UploadError::Chunk { number, reason: "it was named before with another size" });
        }
        sum += u64::from(chunk.size);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use muster_protocol::UploadChunk;

    use super::*;

    const LIMITS: Limits = Limits { bytes: 1_000, entries: 5 };

    fn file(path: &str, size: u64) -> UploadEntry {
        UploadEntry { path: path.into(), size, ..UploadEntry::default() }
    }

    fn link(path: &str, target: &str) -> UploadEntry {
        UploadEntry { kind: EntryKind::Link, target: Some(target.into()), ..file(path, 0) }
    }

    fn manifest(entries: Vec<UploadEntry>) -> UploadManifest {
        let bytes: u64 = entries.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.size));
        let chunk = |bytes| UploadChunk { sha256: Digest::of(b"x").to_string(), size: bytes as u32 };
        UploadManifest { entries, chunks: (bytes > 0).then(|| chunk(bytes)).into_iter().collect() }
    }

    fn refused(entries: Vec<UploadEntry>) -> String {
        check(&manifest(entries), &LIMITS).unwrap_err().to_string()
    }

    #[test]
    fn a_sound_manifest_is_summed_up() {
        let directory = UploadEntry { kind: EntryKind::Directory, ..file("z", 0) };
        let entries = vec![file("a/b", 3), file("a/c/d", 4), file("a.txt", 0), link("l", "a/b"), directory];
        assert_eq!(check(&manifest(entries), &LIMITS).unwrap(), Totals { files: 3, bytes: 7 });
        assert_eq!(check(&UploadManifest::default(), &LIMITS).unwrap(), Totals::default());
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in
            ["", "/etc/passwd", "../x", "a/../x", "a//b", "a/", "./a", "a/.", "a\0b", &"x".repeat(256)]
        {
            assert!(check_path(path).is_err(), "{path:?}");
            assert!(refused(vec![file(path, 1)]).contains("refused"), "{path:?}");
        }
        assert!(check_path("a/..b/c..").is_ok());
    }

    #[test]
    fn entries_are_in_order_and_none_lies_in_another() {
        assert!(refused(vec![file("b", 0), file("a", 0)]).contains("sorted"));
        assert!(refused(vec![file("a", 0), file("a", 0)]).contains("sorted"));
        assert!(refused(vec![link("a", "b"), file("a/b", 0)]).contains("below \"a\""));
        // Between a directory and what is in it lies nothing, whatever its name.
        assert!(refused(vec![file("a", 0), file("a-b", 0), file("a/b", 0)]).contains("sorted"));
        assert!(check(&manifest(vec![file("a/b", 0), file("a-b", 0)]), &LIMITS).is_ok());
    }

    #[test]
    fn links_stay_inside() {
        for (path, target) in
            [("l", "a"), ("a/l", "../b/c"), ("a/b/l", "../../c"), ("l", "./a/./b"), ("l", ".")]
        {
            assert!(check_link(path, target).is_ok(), "{path} {target}");
        }
        for (path, target, reason) in [
            ("l", "/etc", "absolute"),
            ("l", "..", "leads out"),
            ("a/l", "../../x", "leads out"),
            ("l", "a/../../x", "up again"),
            ("l", "", "empty"),
        ] {
            assert!(check_link(path, target).unwrap_err().to_string().contains(reason), "{path} {target}");
        }
        assert!(refused(vec![link("l", "/etc")]).contains("absolute"));
    }

    #[test]
    fn sums_and_limits_are_kept() {
        assert!(refused(vec![file("a", 1_001)]).contains("at most 1000"));
        assert!(refused((0..6).map(|n| file(&format!("f{n}"), 0)).collect()).contains("6 entries"));
        let mut wrong = manifest(vec![file("a", 5)]);
        wrong.chunks[0].size = 4;
        assert!(check(&wrong, &LIMITS).unwrap_err().to_string().contains("5 bytes and the chunks 4"));
        wrong.chunks[0].size = u32::MAX;
        assert!(check(&wrong, &LIMITS).is_err());
        let mode = UploadEntry { mode: Some(0o4755), ..file("a", 0) };
        assert!(refused(vec![mode]).contains("permission bits"));
        assert!(refused(vec![file("a", u64::MAX), file("b", u64::MAX)]).contains("bytes"));
    }
}
