//! `muster completions`.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::{Shell as Target, generate};

use crate::args::{Cli, CompletionsArgs, Shell};
use crate::exit;

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<u8> {
    let target = match args.shell {
        Shell::Bash => Target::Bash,
        Shell::Elvish => Target::Elvish,
        Shell::Fish => Target::Fish,
        Shell::Powershell => Target::PowerShell,
        Shell::Zsh => Target::Zsh,
    };
    // Generated into memory first: the generator panics when its writer fails.
    let mut script = Vec::new();
    generate(target, &mut Cli::command(), "muster", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(exit::OK)
}
