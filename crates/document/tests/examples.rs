//! The examples of the project are what they claim to be.

use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn the_examples_have_no_mistakes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut read = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let document = muster_document::parse(&text, &BTreeMap::new());
            assert!(document.is_ok(), "{}: {document:?}", path.display());
            read += 1;
        }
    }
    assert!(read >= 2);
}
