//! The reference pages say what the program does: they are what `make docs` would write.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn pages(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn the_pages_are_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_muster")).arg("reference").arg(directory.path()).status();
    assert!(status.unwrap().success());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, text) in pages(directory.path()) {
        let kept = std::fs::read_to_string(root.join(&name)).unwrap_or_default();
        assert!(kept == text, "docs/reference/{name} is not up to date; run `make docs`");
    }
}

#[test]
fn without_a_directory_they_are_printed() {
    let output = Command::new(env!("CARGO_BIN_EXE_muster")).arg("reference").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["# muster", "muster up", "MUSTER_URL", "Exit codes", "--drain-timeout"] {
        assert!(text.contains(word), "{word}");
    }
}
