//! Reference pages in Markdown, made from the same definitions that parse a command line.
//!
//! Guarantee: what a page says about an option is what `--help` says about it.

mod markdown;
mod options;
mod page;

pub use markdown::{block, table};
pub use options::{is_listed, option_table};
pub use page::{PageCheck, about, program_page};
