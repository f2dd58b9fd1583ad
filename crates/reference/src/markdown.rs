//! Small pieces of Markdown.

/// A table; pipes inside cells are escaped.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header.iter().map(|cell| (*cell).to_owned()).collect());
    text.push('|');
    text.push_str(&"---|".repeat(header.len()));
    text.push('\n');
    for row in rows {
        text.push_str(&line(row.iter().map(|cell| cell.replace('|', "\\|")).collect()));
    }
    text
}

/// Text as it is, without interpretation.
pub fn block(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}").trim_end().to_owned()).collect();
    format!("{}\n", lines.join("\n"))
}
