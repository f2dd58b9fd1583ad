//! `muster completions`.
//!
//! What clap makes of the definitions, and for three shells the ids of jobs and gangs where one is wanted: those
//! are asked of the scheduler when the key is pressed.

use std::io::Write as _;

use clap::Command;
use clap_complete::{Shell as Target, generate};

use crate::args::{CompletionsArgs, Shell, program};
use crate::exit;

/// What gives the ids; a scheduler that does not answer gives none.
const IDS: &str = "muster ls --quiet --limit 200 2>/dev/null; muster gangs --quiet --limit 50 2>/dev/null";

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<u8> {
    std::io::stdout().lock().write_all(script(args.shell).as_bytes())?;
    Ok(exit::OK)
}

fn script(shell: Shell) -> String {
    let target = match shell {
        Shell::Bash => Target::Bash,
        Shell::Elvish => Target::Elvish,
        Shell::Fish => Target::Fish,
        Shell::Powershell => Target::PowerShell,
        Shell::Zsh => Target::Zsh,
    };
    let mut program = program();
    // Generated into memory first: the generator panics when its writer fails.
    let mut script = Vec::new();
    generate(target, &mut program, "muster", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &bash(&takers(&program)),
        Shell::Fish => script + &fish(&takers(&program)),
        Shell::Zsh => zsh(&script),
        Shell::Elvish | Shell::Powershell => script,
    }
}

/// The commands that take jobs as arguments.
fn takers(program: &Command) -> Vec<&str> {
    let takes_jobs = |command: &&Command| {
        // Where only a pipeline or an array fits, jobs are no help.
        let positionals = command.get_positionals().filter(|arg| arg.get_id() != "set");
        let names = positionals.filter_map(|arg| arg.get_value_names());
        names.flatten().any(|name| matches!(name.as_str(), "JOB" | "ID"))
    };
    program.get_subcommands().filter(takes_jobs).map(Command::get_name).collect()
}

fn bash(takers: &[&str]) -> String {
    let names = takers.join("|");
    format!(
        r#"
# Where a job or a gang is wanted, the ids of the newest ones.
_muster_with_jobs() {{
    _muster "$@"
    local typed="${{COMP_WORDS[COMP_CWORD]}}" index
    [[ "$typed" == -* ]] && return
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${{COMP_WORDS[index]}}" in
            {names})
                COMPREPLY=($(compgen -W "$({IDS})" -- "$typed"))
                return
                ;;
        esac
    done
}}
complete -F _muster_with_jobs -o bashdefault -o default muster
"#
    )
}

fn fish(takers: &[&str]) -> String {
    let names = takers.join(" ");
    format!(
        "\n# Where a job or a gang is wanted, the ids of the newest ones.\n\
         complete -c muster -n \"__fish_seen_subcommand_from {names}\" -f -k -a \"({IDS})\"\n"
    )
}

/// The generated script leaves the place after the description of an argument empty.
fn zsh(script: &str) -> String {
    let function = format!(
        "\n_muster_jobs() {{\n    local -a ids\n    ids=(${{(f)\"$({IDS})\"}})\n    \
         compadd -V jobs -a ids\n}}\n"
    );
    let mut text = String::with_capacity(script.len() + function.len());
    for line in script.lines() {
        let is_job = [":job -- ", ":jobs -- ", ":id -- ", ":ids -- "].iter().any(|name| line.contains(name));
        if line.starts_with("if [ \"$funcstack[1]\"") {
            text.push_str(&function);
            text.push('\n');
        }
        match line.strip_suffix(":' \\").filter(|_| is_job) {
            Some(start) => text.extend([start, ":_muster_jobs' \\\n"]),
            None => text.extend([line, "\n"]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_take_jobs_offer_ids() {
        let program = program();
        let takers = takers(&program);
        for name in ["show", "logs", "wait", "cancel", "preempt", "why", "events"] {
            assert!(takers.contains(&name), "{name} is not among {takers:?}");
        }
        assert!(!takers.contains(&"submit"));
        for shell in [Shell::Bash, Shell::Fish] {
            assert!(script(shell).contains(IDS));
        }
        let zsh = script(Shell::Zsh);
        assert!(zsh.matches(":_muster_jobs'").count() >= 6, "{zsh}");
        assert_eq!(zsh.matches("_muster_jobs()").count(), 1);
    }

    #[test]
    fn other_shells_have_what_is_generated() {
        for shell in [Shell::Elvish, Shell::Powershell] {
            assert!(script(shell).contains("muster"));
        }
    }
}
