//! The pipeline file: plain YAML or JSON, read into the request that the API takes, with every mistake
//! named by line and column.
//!
//! Guarantee: reading is pure, bounded in time and memory whatever the text is, and either gives a document
//! whose steps form a graph without cycles, or at least one mistake.

pub mod amounts;
mod container;
mod document;
mod elements;
mod escapes;
mod fields;
mod gang;
mod graph;
mod indices;
mod inputs;
mod mistake;
mod nested;
mod node;
#[cfg(test)]
mod property_tests;
mod step;
#[cfg(test)]
mod tests;
mod tree;
mod values;

pub use document::{Document, MAX_JOBS, MAX_STEPS, Need, Step, parse, parse_addition};
pub use indices::{MAX_INDICES, parse_array, parse_indices};
pub use mistake::{Mistake, closest};
