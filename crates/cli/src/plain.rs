//! Makes text from containers safe to print on a terminal.

use std::fmt::Write as _;

/// True for characters that control a terminal, or change the order or position in which text is shown.
fn commands(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// The text with such characters escaped.
pub(crate) fn plain(text: &str) -> String {
    if !text.contains(commands) {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if commands(c) => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_a_terminal() {
        assert_eq!(plain("a\x1b[31mb\nc\u{9b}"), "a\\u{1b}[31mb\\nc\\u{9b}");
        assert_eq!(plain("Größe"), "Größe");
        assert_eq!(plain("a\u{202e}b\u{2069}"), "a\\u{202e}b\\u{2069}");
    }
}
