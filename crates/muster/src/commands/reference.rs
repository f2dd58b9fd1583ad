//! `muster reference`: the pages of docs/reference.

use anyhow::Context as _;

use crate::args::ReferenceArgs;
use crate::exit;
use crate::reference::pages;

pub(crate) fn run(args: &ReferenceArgs) -> anyhow::Result<u8> {
    for page in pages() {
        match &args.directory {
            Some(directory) => {
                let path = directory.join(page.file);
                let written =
                    std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, &page.text));
                written.with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => crate::output::text(&page.text)?,
        }
    }
    Ok(exit::OK)
}
