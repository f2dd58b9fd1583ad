//! The habits of the tree that the compiler and clippy do not see.

use std::fs;
use std::path::Path;

use muster_tests::tree;

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 600;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "shared"];

/// Words that have no place in the tree; in two halves, so that this list does not find itself.
const FOREIGN_WORDS: [(&str, &str); 8] = [
    ("/wo", "rk/"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
    ("static.crates", ".io"),
    ("index.crates", ".io"),
    ("TO", "DO"),
    ("FIX", "ME"),
    ("#[ign", "ore"),
];

fn is_test_source(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem == "tests" || stem.ends_with("_tests") || path.components().any(|part| part.as_os_str() == "tests")
}

/// The text before the tests that a file carries at its end.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod ").map_or(text, |start| &text[..start])
}

/// The first and last line of each function. Sources are formatted, so that a function ends at the first
/// closing brace with the indentation of its first line.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indentation = &line[..line.len() - line.trim_start().len()];
        if !opens_function(line.trim_start()) || line.ends_with('}') || line.ends_with(';') {
            continue;
        }
        let end = format!("{indentation}}}");
        if let Some(length) = lines[start..].iter().position(|line| *line == end) {
            found.push((start + 1, start + length + 1));
        }
    }
    found
}

fn opens_function(line: &str) -> bool {
    let mut words = line.split_whitespace().map(|word| word.split('(').next().unwrap_or_default());
    words.find(|word| !matches!(*word, "pub" | "async" | "const" | "unsafe")) == Some("fn")
}

fn complain(what: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{what}:\n{}", offences.join("\n"));
}

#[test]
fn functions_fit_on_a_screen() {
    let mut offences = Vec::new();
    for (path, text) in tree::rust_sources().iter().filter(|(path, _)| !is_test_source(path)) {
        for (first, last) in functions(without_tests(text)) {
            if last - first + 1 > FUNCTION_LINES {
                offences.push(format!("{}:{first}: {} lines", path.display(), last - first + 1));
            }
        }
    }
    complain("functions are too long", &offences);
}

#[test]
fn files_stay_short() {
    let mut offences = Vec::new();
    for (path, text) in tree::rust_sources().iter().filter(|(path, _)| !is_test_source(path)) {
        let lines = without_tests(text).lines().count();
        if lines > FILE_LINES {
            offences.push(format!("{}: {lines} lines", path.display()));
        }
    }
    complain("files are too long", &offences);
}

#[test]
fn every_source_opens_with_its_purpose() {
    let sources = tree::rust_sources();
    let silent = sources.iter().filter(|(_, text)| !text.starts_with("//! "));
    let offences: Vec<String> = silent.map(|(path, _)| path.display().to_string()).collect();
    complain("files do not open with `//! `", &offences);
}

#[test]
fn names_say_what_is_inside() {
    let mut offences = Vec::new();
    for path in tree::files() {
        let parts = path.with_extension("");
        if parts.iter().any(|part| EMPTY_NAMES.iter().any(|name| part == *name)) {
            offences.push(path.display().to_string());
        }
    }
    complain("names say nothing", &offences);
}

#[test]
fn no_foreign_words() {
    let mut offences = Vec::new();
    for path in tree::files() {
        let Ok(text) = fs::read_to_string(tree::root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for (head, tail) in FOREIGN_WORDS {
                if line.contains(&format!("{head}{tail}")) {
                    offences.push(format!("{}:{}: {head}{tail}", path.display(), number + 1));
                }
            }
        }
    }
    complain("words that do not belong here", &offences);
}

#[test]
fn long_functions_are_found() {
    let body = "    let _ = 1;\n".repeat(80);
    let text = format!("//! x\npub async fn long() {{\n{body}}}\n\nfn short() {{}}\nfn declared();\n");
    assert_eq!(functions(&text), vec![(2, 83)]);
}
