//! Options as rows of a table.

use clap::{Arg, ArgAction};

use crate::markdown::table;

/// Whether people are told about it.
pub fn is_listed(arg: &Arg) -> bool {
    !arg.is_hide_set()
        && !matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        )
}

/// One row for each option: its name, its variable, its meaning with its default.
pub fn option_table(args: &[&Arg]) -> String {
    let rows: Vec<Vec<String>> = args.iter().map(|arg| vec![name(arg), variable(arg), help(arg)]).collect();
    table(&["option", "variable", "meaning"], &rows)
}

fn name(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let long = arg.get_long().map(|long| match (&value, arg.get_action().takes_values()) {
        (Some(value), true) => format!("`--{long} {value}`"),
        _ => format!("`--{long}`"),
    });
    let short = arg.get_short().map(|short| format!("`-{short}`"));
    let parts: Vec<String> = short.into_iter().chain(long).collect();
    if parts.is_empty() { format!("`{}`", value.unwrap_or_default()) } else { parts.join(", ") }
}

fn variable(arg: &Arg) -> String {
    arg.get_env().map(|name| format!("`{}`", name.display())).unwrap_or_default()
}

fn help(arg: &Arg) -> String {
    let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let takes_values = arg.get_action().takes_values();
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.display().to_string()).collect();
    let values: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let mut parts = vec![text];
    if !defaults.is_empty() && takes_values {
        parts.push(format!("[default: {}]", defaults.join(", ")));
    }
    if !values.is_empty() && takes_values {
        parts.push(format!("[one of: {}]", values.join(", ")));
    }
    parts.join(" ").trim().to_owned()
}
