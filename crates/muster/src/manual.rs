//! The man pages, made from the definitions that the program itself uses.

use std::io::{self, Write as _};

use clap::Command;
use clap_mangen::Man;

use crate::args::{explanation, program};
use crate::environment::{self, Variable};
use crate::exit;

/// A page in the language of man.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManPage {
    pub(crate) file: String,
    pub(crate) text: Vec<u8>,
}

/// The page of the program, then one for each command that is listed.
pub(crate) fn pages() -> io::Result<Vec<ManPage>> {
    let mut program = program();
    program.build();
    let mut pages = vec![ManPage { file: "muster.1".to_owned(), text: main_page(&program)? }];
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("muster-{}", command.get_name());
        pages.push(ManPage { file: format!("{name}.1"), text: command_page(command, &name)? });
    }
    Ok(pages)
}

fn man(command: &Command, name: &str) -> Man {
    let version = env!("CARGO_PKG_VERSION");
    let named = command.clone().name(name.to_owned()).display_name(name.to_owned());
    Man::new(named).title(name.to_uppercase()).source(format!("muster {version}")).manual("Muster")
}

fn main_page(program: &Command) -> io::Result<Vec<u8>> {
    let man = man(program, "muster");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    section(&mut text, "COMMANDS")?;
    let visible = || program.get_subcommands().filter(|command| !command.is_hide_set());
    for command in visible() {
        writeln!(text, ".TP\n\\fBmuster\\-{}\\fR(1)\n{}", escape(command.get_name()), line(&about(command)))?;
    }
    man.render_options_section(&mut text)?;
    prose(&mut text, &after(program))?;
    section(&mut text, "EXIT STATUS")?;
    for (code, meaning) in exit::DOCUMENTED {
        writeln!(text, ".TP\n\\fB{}\\fR\n{}", escape(code), line(&meaning.replace('`', "")))?;
    }
    section(&mut text, "ENVIRONMENT")?;
    variables(&mut text, &environment::READ)?;
    section(&mut text, "SEE ALSO")?;
    let others: Vec<String> =
        visible().map(|command| format!("\\fBmuster\\-{}\\fR(1)", escape(command.get_name()))).collect();
    writeln!(text, "{}", others.join(", "))?;
    Ok(text)
}

fn command_page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    let man = man(command, name);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    section(&mut text, "DESCRIPTION")?;
    let long = explanation(command).unwrap_or_else(|| about(command));
    for paragraph in long.split("\n\n") {
        writeln!(text, ".PP\n{}", lines(paragraph))?;
    }
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    prose(&mut text, &after(command))?;
    section(&mut text, "SEE ALSO")?;
    writeln!(text, "\\fBmuster\\fR(1)")?;
    Ok(text)
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn after(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// Examples and what is said after them: indented lines stay as they are, the rest is text.
fn prose(text: &mut Vec<u8>, source: &str) -> io::Result<()> {
    let (title, source) = match source.strip_prefix("Examples:\n") {
        Some(examples) => ("EXAMPLES", examples),
        None => ("NOTES", source),
    };
    section(text, title)?;
    let mut in_example = false;
    for source_line in source.lines() {
        let example = source_line.starts_with("  ");
        match (in_example, example) {
            (false, true) => writeln!(text, ".PP\n.RS 4\n.nf")?,
            (true, false) => writeln!(text, ".fi\n.RE\n.PP")?,
            (true, true) | (false, false) => {}
        }
        in_example = example;
        match source_line.trim() {
            "" if !example => writeln!(text, ".PP")?,
            shown => writeln!(text, "{}", line(shown))?,
        }
    }
    if in_example { writeln!(text, ".fi\n.RE") } else { Ok(()) }
}

fn variables(text: &mut Vec<u8>, list: &[Variable]) -> io::Result<()> {
    for variable in list {
        writeln!(text, ".TP\n\\fB{}\\fR\n{}", escape(variable.name), line(&variable.help.replace('`', "")))?;
    }
    Ok(())
}

fn section(text: &mut Vec<u8>, title: &str) -> io::Result<()> {
    writeln!(text, ".SH \"{title}\"")
}

fn lines(paragraph: &str) -> String {
    paragraph.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A line of text: it must not begin like a request of man's language.
fn line(text: &str) -> String {
    let escaped = escape(text);
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(file: &str) -> String {
        let page = pages().unwrap().into_iter().find(|page| page.file == file).unwrap();
        String::from_utf8(page.text).unwrap()
    }

    #[test]
    fn there_is_a_page_for_every_command_that_is_listed() {
        let files: Vec<String> = pages().unwrap().into_iter().map(|page| page.file).collect();
        assert_eq!(files[0], "muster.1");
        assert!(files.contains(&"muster-ls.1".to_owned()));
        assert!(!files.contains(&"muster-reference.1".to_owned()));
    }

    #[test]
    fn the_page_of_the_program_names_commands_codes_and_variables() {
        let text = text_of("muster.1");
        for part in ["muster\\-watch", "EXIT STATUS", "MUSTER_URL", "EXAMPLES", "SEE ALSO"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn examples_are_not_filled() {
        let text = text_of("muster-ls.1");
        assert!(text.contains(".nf\nmuster ls \\-\\-status failed \\-\\-since 1d\n"), "{text}");
        assert!(text.contains("DESCRIPTION") && text.contains("\\-\\-columns"), "{text}");
    }

    #[test]
    fn no_line_of_text_is_taken_for_a_request() {
        assert_eq!([line(".x"), line("'x"), line("a\\b-c")], ["\\&.x", "\\&'x", "a\\eb\\-c"]);
    }
}
