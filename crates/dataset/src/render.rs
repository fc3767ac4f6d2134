//! Renders diagnostics as text for a terminal: the source line, a line of carets, the label, and help.
//!
//! The text is untrusted: control characters are replaced, tabs become four columns, and only the part of a long line
//! around the position is shown.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::span::Span;

/// Most columns of source that are shown.
const WIDTH: usize = 120;

struct Palette {
    error: &'static str,
    note: &'static str,
    help: &'static str,
    frame: &'static str,
    bold: &'static str,
    reset: &'static str,
}

const PLAIN: Palette = Palette { error: "", note: "", help: "", frame: "", bold: "", reset: "" };
const COLOUR: Palette = Palette {
    error: "\x1b[1;31m",
    note: "\x1b[1;36m",
    help: "\x1b[1;32m",
    frame: "\x1b[1;34m",
    bold: "\x1b[1m",
    reset: "\x1b[0m",
};

impl Diagnostics {
    /// The diagnostics of `text` as lines. `file` is only shown, and no file is opened. With `colour` the lines contain
    /// ANSI escapes; otherwise they are plain.
    pub fn render(&self, file: &str, text: &str, colour: bool) -> String {
        let palette = if colour { &COLOUR } else { &PLAIN };
        let mut out = String::new();
        for (n, diagnostic) in self.iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            one(&mut out, diagnostic, file, text, palette);
        }
        if self.is_truncated() {
            let Palette { note, reset, .. } = palette;
            out.push_str(&format!("\n{note}note{reset}: stopped after {} errors\n", self.iter().len()));
        }
        out
    }
}

fn one(out: &mut String, d: &Diagnostic, file: &str, text: &str, p: &Palette) {
    let places = || std::iter::once(d.span).chain(d.notes.iter().map(|n| n.span));
    let gutter = places().map(|s| Line::at(text, s).number.to_string().len()).max().unwrap_or(1);
    let (bold, reset) = (p.bold, p.reset);
    out.push_str(&format!("{}error{reset}{bold}: {}{reset}\n", p.error, printable(&d.message)));
    snippet(out, file, text, d.span, &d.label, gutter, p, (p.error, '^'));
    for note in &d.notes {
        out.push_str(&format!("{}note{reset}: {}\n", p.note, printable(&note.message)));
        snippet(out, file, text, note.span, "", gutter, p, (p.note, '-'));
    }
    if let Some(help) = &d.help {
        out.push_str(&format!("{}help{reset}: {}\n", p.help, printable(help)));
    }
}

#[expect(clippy::too_many_arguments, reason = "one private call shape, used twice")]
fn snippet(
    out: &mut String,
    file: &str,
    text: &str,
    span: Span,
    label: &str,
    gutter: usize,
    p: &Palette,
    (paint, mark): (&str, char),
) {
    let line = Line::at(text, span);
    let (frame, reset) = (p.frame, p.reset);
    let blank = " ".repeat(gutter);
    let file = printable(file);
    out.push_str(&format!("{blank}{frame}-->{reset} {file}:{}:{}\n", line.number, line.column));
    let (shown, before, width) = line.window();
    out.push_str(&format!("{blank} {frame}|{reset}\n"));
    out.push_str(format!("{frame}{:>gutter$} |{reset} {shown}", line.number).trim_end());
    out.push('\n');
    let carets: String = std::iter::repeat_n(mark, width).collect();
    let label = if label.is_empty() { String::new() } else { format!(" {}", printable(label)) };
    out.push_str(&format!("{blank} {frame}|{reset} {}{paint}{carets}{label}{reset}\n", " ".repeat(before)));
}

/// The line on which a span begins.
struct Line<'t> {
    /// Line number, from 1.
    number: usize,
    /// Column, from 1, in characters.
    column: usize,
    /// The parts of the line before, inside, and after the span.
    parts: (&'t str, &'t str, &'t str),
}

impl<'t> Line<'t> {
    fn at(text: &'t str, span: Span) -> Self {
        let floor = |at: usize| {
            let mut at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(span.start as usize), floor(span.end as usize));
        let before = text.get(..start).unwrap_or("");
        let number = before.bytes().filter(|&b| b == b'\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = text.get(line_start..).unwrap_or("");
        let line = rest.split('\n').next().unwrap_or("");
        let line = line.strip_suffix('\r').unwrap_or(line);
        let from = (start - line_start).min(line.len());
        let to = (end.max(start) - line_start).min(line.len()).max(from);
        let part = |range: std::ops::Range<usize>| line.get(range).unwrap_or("");
        let parts = (part(0..from), part(from..to), part(to..line.len()));
        Self { number, column: parts.0.chars().count() + 1, parts }
    }

    /// The shown part of the line, the columns before the carets, and the number of carets.
    fn window(&self) -> (String, usize, usize) {
        let (before, inside, after) = self.parts;
        let inside = clip_end(&printable(inside), WIDTH / 2);
        let inside_width = inside.chars().count();
        let mut before = printable(before);
        let excess = before.chars().count().saturating_sub(WIDTH / 2);
        if excess > 0 {
            before = format!("…{}", before.chars().skip(excess + 1).collect::<String>());
        }
        let before_width = before.chars().count();
        let after = clip_end(&printable(after), WIDTH.saturating_sub(before_width + inside_width));
        (format!("{before}{inside}{after}"), before_width, inside_width.max(1))
    }
}

fn clip_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `text` with tabs widened, and everything that could control a terminal replaced.
fn printable(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if c.is_control() || is_invisible(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Characters that reorder or hide the text around them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
