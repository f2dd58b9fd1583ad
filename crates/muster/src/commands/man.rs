//! `muster man`.

use std::io::Write as _;

use anyhow::Context as _;

use crate::args::ManArgs;
use crate::exit;
use crate::manual;
use crate::output::{note, status};

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<u8> {
    let pages = manual::pages()?;
    let Some(directory) = &args.directory else {
        status::clear();
        if let Some(first) = pages.first() {
            std::io::stdout().lock().write_all(&first.text)?;
        }
        return Ok(exit::OK);
    };
    let writing = |path: &std::path::Path| format!("cannot write {}", path.display());
    std::fs::create_dir_all(directory).with_context(|| writing(directory))?;
    for page in &pages {
        let path = directory.join(&page.file);
        std::fs::write(&path, &page.text).with_context(|| writing(&path))?;
    }
    note(&format!("wrote {} pages into {}", pages.len(), directory.display()));
    Ok(exit::OK)
}
