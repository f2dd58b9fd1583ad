//! The pipeline file: plain YAML or JSON, read into the request that the API takes, with every mistake
//! named by line and column.
