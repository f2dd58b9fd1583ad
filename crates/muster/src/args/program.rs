//! The program as clap knows it: the definitions, completed by what concerns all commands together.
//!
//! Groups of commands, longer texts and hints for completion are added here, so that help, man pages,
//! completions and the reference all have them.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _, ValueHint};

use super::Cli;
use super::explanations::{EXPLANATIONS, Explanation};

/// The commands by what people want to do. A command that is not here comes last, under its own heading.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run jobs", &["run", "submit", "add", "wait", "exec", "attach"]),
    (
        "Look at jobs",
        &[
            "ls",
            "show",
            "logs",
            "artifacts",
            "usage",
            "why",
            "events",
            "pipelines",
            "arrays",
            "gangs",
            "watch",
            "top",
        ],
    ),
    ("Change jobs", &["cancel", "retry", "hold", "release", "preempt", "edit", "delete"]),
    (
        "Look after the cluster",
        &["up", "explain", "workers", "worker", "queues", "queue", "secret", "webhook", "sim"],
    ),
    ("Accounts", &["login", "logout", "whoami", "token", "user", "join-token", "audit"]),
    ("Inside a job", &["checkpoint", "notice", "done"]),
    ("This program", &["version", "completions", "man"]),
];
const OTHERS: &str = "More";
/// The first line of what stands after the options.
const EXAMPLES: &str = "Examples:";

/// Everything that can be typed.
pub(crate) fn program() -> Command {
    let mut program = Cli::command();
    for explanation in &EXPLANATIONS {
        if program.find_subcommand(explanation.command).is_some() {
            program = program.mut_subcommand(explanation.command, |command| explained(command, explanation));
        }
    }
    let names: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        program = program.mut_subcommand(name, |command| command.mut_args(with_hint));
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        groups(&program)
    );
    program.mut_args(with_hint).help_template(template)
}

/// The text goes into the page itself: as a long description it would make clap spread every option over
/// three lines. Examples that stand with the arguments of a command are left as they are.
fn explained(command: Command, explanation: &Explanation) -> Command {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let command = command.help_template(format!(
        "{{about}}.\n\n{}\n\n{{usage-heading}} {{usage}}\n\n{{all-args}}{{after-help}}",
        explanation.text
    ));
    if after.starts_with(EXAMPLES) || explanation.examples.is_empty() {
        return command;
    }
    let examples = format!("{EXAMPLES}\n{}\n\n{after}", explanation.examples);
    command.after_help(examples.trim_end().to_owned())
}

/// What is said about a command beyond one line.
pub(crate) fn explanation(command: &Command) -> Option<String> {
    let known = EXPLANATIONS.iter().find(|explanation| explanation.command == command.get_name());
    match (known, command.get_long_about()) {
        (Some(explanation), _) => Some(format!("{}.\n\n{}", about(command), explanation.text)),
        (None, Some(long)) => Some(long.to_string()),
        (None, None) => None,
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// What shells offer for a value, by what stands for it in the usage.
fn with_hint(arg: Arg) -> Arg {
    if !arg.get_action().takes_values() {
        return arg;
    }
    let Some(name) = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string) else {
        return arg;
    };
    let hint = match name.as_str() {
        "FILE" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        // Only such an argument may take the line of another program.
        "COMMAND" if arg.is_trailing_var_arg_set() => ValueHint::CommandWithArguments,
        "COMMAND" => ValueHint::CommandName,
        "URL" => ValueHint::Url,
        // Ids, names and amounts: files of this directory would only be in the way.
        _ => ValueHint::Other,
    };
    arg.value_hint(hint)
}

/// The list of commands for the help page.
fn groups(program: &Command) -> String {
    let visible: Vec<&Command> = program.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let widest = visible.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut left = visible.clone();
    let mut text = String::new();
    let mut add = |title: &str, commands: &[&Command]| {
        if commands.is_empty() {
            return;
        }
        text.push_str(title);
        text.push_str(":\n");
        for command in commands {
            let name = command.get_name();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<widest$}  {}", about(command));
        }
        text.push('\n');
    };
    for (title, names) in GROUPS {
        let named = |name: &&str| visible.iter().copied().find(|command| command.get_name() == *name);
        let members: Vec<&Command> = names.iter().filter_map(named).collect();
        left.retain(|command| !names.contains(&command.get_name()));
        add(title, &members);
    }
    add(OTHERS, &left);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_listed_once_under_a_heading() {
        let mut program = program();
        let help = program.render_help().to_string();
        for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
            let start = format!("\n  {} ", command.get_name());
            assert_eq!(help.matches(&start).count(), 1, "{start:?} in\n{help}");
        }
        assert!(!help.contains(OTHERS), "give the last commands a group:\n{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        program.debug_assert();
    }

    #[test]
    fn every_command_is_explained_with_examples() {
        for command in program().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let short = about(command);
            assert!(!short.is_empty() && !short.contains('\n') && !short.ends_with('.'), "{name}: {short:?}");
            let long = explanation(command).unwrap_or_default();
            assert!(long.len() > short.len() + 40, "{name} needs a longer text: {long:?}");
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = after.lines().filter(|line| line.starts_with("  ")).count();
            assert!(after.starts_with("Examples:\n") && examples >= 2, "{name} needs examples: {after:?}");
            for line in long.lines().chain(after.lines()) {
                assert!(line.chars().count() <= 84, "{name}: too long for a terminal: {line:?}");
            }
        }
    }
}
