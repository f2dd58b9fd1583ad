//! Placeholder documentation, replaced with the crate's first code.
