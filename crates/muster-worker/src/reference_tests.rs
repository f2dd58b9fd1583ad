//! The reference page of the worker is made from its flags.

use std::path::Path;

use clap::CommandFactory as _;
use muster_reference::{PageCheck, program_page};

use crate::args::Args;
use crate::config_file;

const INTRODUCTION: &str = "\
A setting is taken from its flag, else from its environment variable, else from the section `[worker]` of
`muster.toml`, else it has its default. In the file it has the long name of its flag; `tags`, `pass-env` are
lists, `counters` is a table. Exit codes: 0 after an orderly end, 1 when the worker could not run or had to
stop jobs, 2 for a wrong configuration.

`muster-worker keys new [--file FILE]` makes a private key that opens the secrets of jobs and prints its id and the public key;
`muster-worker keys ls` lists the keys of the worker (`docs/guides/secrets.md`).";

#[test]
fn the_reference_page_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let check = PageCheck { root: &root, file: "docs/reference/muster-worker.md" };
    assert_eq!(check.compare(&program_page(Args::command(), INTRODUCTION)), Ok(()));
}

#[test]
fn every_flag_may_stand_in_the_file() {
    let command = Args::command();
    let shown = command.get_arguments().filter(|arg| muster_reference::is_listed(arg));
    for flag in shown.filter_map(clap::Arg::get_long).filter(|flag| *flag != "config") {
        let keys = [flag.to_owned(), format!("{flag}s")];
        let values = ["1", "true", "\"1\"", "[]", "{}"];
        let accepted = keys.iter().any(|key| {
            values.iter().any(|value| config_file::parse(&format!("[worker]\n{key} = {value}")).is_ok())
        });
        assert!(accepted, "{flag} is not a key of [worker]");
    }
}
