//! Converts any text to tokens, in one pass.
//!
//! A newline ends a statement where it would in Go: after a name, a literal or a closing bracket. Inside `(` and `[` a
//! newline has no meaning, so that lists may be broken anywhere. Comments are kept beside the tokens, for the
//! formatter.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::span::Span;

/// The longest name, in bytes.
const MAX_NAME: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenKind {
    Name,
    Int,
    Float,
    Text,
    LBrace,
    RBrace,
    LParen,
    RParen,
    LBracket,
    RBracket,
    Comma,
    Colon,
    /// A `;` in the text.
    Semi,
    /// A newline that ends a statement; its span is empty.
    Newline,
    Dot,
    DotDot,
    Eq,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Const,
    Param,
    Type,
    Struct,
    Dataset,
    Fragment,
    Var,
    For,
    In,
    Mod,
    Pad,
    Align,
    /// Characters that are no token, which has been reported.
    Bad,
    End,
}

/// The words that cannot be names.
pub(crate) const KEYWORDS: [(&str, TokenKind); 12] = [
    ("const", TokenKind::Const),
    ("param", TokenKind::Param),
    ("type", TokenKind::Type),
    ("struct", TokenKind::Struct),
    ("dataset", TokenKind::Dataset),
    ("fragment", TokenKind::Fragment),
    ("var", TokenKind::Var),
    ("for", TokenKind::For),
    ("in", TokenKind::In),
    ("mod", TokenKind::Mod),
    ("pad", TokenKind::Pad),
    ("align", TokenKind::Align),
];

impl TokenKind {
    /// Whether the word can only begin a statement.
    pub(crate) fn begins_statement(self) -> bool {
        self.begins_declaration() || matches!(self, TokenKind::Var | TokenKind::For)
    }

    /// Whether the word can only begin a declaration of the file.
    pub(crate) fn begins_declaration(self) -> bool {
        matches!(
            self,
            TokenKind::Const | TokenKind::Param | TokenKind::Type | TokenKind::Dataset | TokenKind::Fragment
        )
    }

    pub(crate) fn is_keyword(self) -> bool {
        KEYWORDS.iter().any(|&(_, kind)| kind == self)
    }

    fn ends_statement(self) -> bool {
        use TokenKind::{Float, Int, Name, RBrace, RBracket, RParen, Text};
        matches!(self, Name | Int | Float | Text | RParen | RBracket | RBrace)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment {
    pub(crate) span: Span,
    /// The index of the token after it.
    pub(crate) before: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Lexed {
    /// Never empty; the last token is [`TokenKind::End`].
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Comment>,
    /// Whether a comment is never closed, so that the end of the text is not the real end.
    pub(crate) swallowed: bool,
}

pub(crate) fn lex(text: &str, diagnostics: &mut Diagnostics) -> Lexed {
    let mut lexer = Lexer { text, at: 0, brackets: 0, out: Lexed::default(), diagnostics };
    lexer.run();
    lexer.out
}

struct Lexer<'t, 'd> {
    text: &'t str,
    at: usize,
    /// Number of open `(` and `[` since the last brace or statement.
    brackets: usize,
    out: Lexed,
    diagnostics: &'d mut Diagnostics,
}

impl Lexer<'_, '_> {
    fn run(&mut self) {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
        }
        while let Some(c) = self.peek() {
            if self.diagnostics.full() {
                break;
            }
            self.next(c);
        }
        self.newline();
        let end = Span::new(self.text.len(), self.text.len());
        self.out.tokens.push(Token { kind: TokenKind::End, span: end });
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self, c: char) {
        match c {
            '\n' => {
                self.newline();
                self.at += 1;
            }
            ' ' | '\t' | '\r' => self.at += 1,
            '/' if self.rest().starts_with("//") => {
                let length = self.rest().find('\n').unwrap_or(self.rest().len());
                self.comment(length);
            }
            '/' if self.rest().starts_with("/*") => self.block_comment(),
            '"' => self.string(),
            '\'' | '`' => self.wrong_quotes(c),
            'a'..='z' | 'A'..='Z' | '_' => self.word(),
            '0'..='9' => self.number(),
            _ => self.punctuation(c),
        }
    }

    fn push(&mut self, kind: TokenKind, length: usize) {
        self.out.tokens.push(Token { kind, span: Span::new(self.at, self.at + length) });
        self.at += length;
    }

    /// Ends the statement if the last token can end one.
    fn newline(&mut self) {
        if self.brackets == 0 {
            self.end_statement();
        }
    }

    fn end_statement(&mut self) {
        if let Some(last) = self.out.tokens.last()
            && last.kind.ends_statement()
        {
            let end = last.span.end as usize;
            self.out.tokens.push(Token { kind: TokenKind::Newline, span: Span::new(end, end) });
        }
    }

    fn comment(&mut self, length: usize) {
        let length_of_text = self.rest().get(..length).map_or(length, |c| c.trim_end().len());
        let span = Span::new(self.at, self.at + length_of_text);
        self.out.comments.push(Comment { span, before: self.out.tokens.len() });
        self.at += length;
    }

    fn block_comment(&mut self) {
        match self.rest().get(2..).and_then(|r| r.find("*/")) {
            Some(end) => {
                let length = end + 4;
                let broken = self.rest().get(..length).is_some_and(|c| c.contains('\n'));
                self.comment(length);
                if broken {
                    self.newline();
                }
            }
            None => {
                let open = Span::new(self.at, self.at + 2);
                self.diagnostics.push(
                    Diagnostic::new(open, "this comment is never closed")
                        .label("expected `*/` somewhere after this")
                        .help("comments do not nest: the first `*/` closes"),
                );
                self.at = self.text.len();
                self.out.swallowed = true;
            }
        }
    }

    fn string(&mut self) {
        let body = self.rest().get(1..).unwrap_or("");
        match body.find(['"', '\n']) {
            Some(end) if body.as_bytes().get(end) == Some(&b'"') => self.push(TokenKind::Text, end + 2),
            other => {
                let length = 1 + other.unwrap_or(body.len());
                self.diagnostics.push(
                    Diagnostic::new(Span::new(self.at, self.at + length), "this text is never closed")
                        .label("expected `\"` before the end of the line"),
                );
                self.push(TokenKind::Bad, length);
            }
        }
    }

    /// Reports a text in other quotation marks, as one mistake.
    fn wrong_quotes(&mut self, quote: char) {
        let body = self.rest().get(1..).unwrap_or("");
        let line = body.split('\n').next().unwrap_or("");
        let Some(length) = line.find(quote) else { return self.unknown(quote) };
        let short: String = line.get(..length).unwrap_or("").chars().take(40).collect();
        let span = Span::new(self.at, self.at + length + 2);
        let message = "texts stand in double quotes";
        self.diagnostics.push(Diagnostic::new(span, message).help(format!("write `\"{short}\"`")));
        self.push(TokenKind::Bad, length + 2);
    }

    fn word(&mut self) {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or("");
        let kind = KEYWORDS.iter().find(|(text, _)| *text == word).map_or(TokenKind::Name, |&(_, kind)| kind);
        if kind.begins_statement() && self.brackets > 0 {
            self.brackets = 0;
            self.end_statement();
        }
        if length > MAX_NAME {
            self.diagnostics.push(
                Diagnostic::new(Span::new(self.at, self.at + length), "this name is too long")
                    .label(format!("{length} characters; at most {MAX_NAME} are allowed")),
            );
            return self.push(TokenKind::Bad, length);
        }
        self.push(kind, length);
    }

    fn number(&mut self) {
        let bytes = self.rest().as_bytes();
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let run = |from: usize| bytes.iter().skip(from).take_while(|b| word(b)).count();
        let based = bytes.first() == Some(&b'0') && bytes.get(1).is_some_and(u8::is_ascii_alphabetic);
        let mut length = run(0);
        if !based {
            let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
            if bytes.get(length) == Some(&b'.') && digit(length + 1) {
                length += 1 + run(length + 1);
            }
            let exponent = matches!(bytes.get(length - 1), Some(b'e' | b'E'));
            if exponent && matches!(bytes.get(length), Some(b'+' | b'-')) && digit(length + 1) {
                length += 1 + run(length + 1);
            }
        }
        let text = self.rest().get(..length).unwrap_or("");
        let kind = if integer(text).is_some() {
            TokenKind::Int
        } else if !based
            && text.replace('_', "").parse::<f64>().is_ok_and(f64::is_finite)
            && !all_digits(text)
        {
            TokenKind::Float
        } else {
            let (message, help) = if all_digits(text) || based && text.get(2..).is_some_and(all_hex) {
                ("this number is too large", "integers end at 2^63 - 1")
            } else {
                ("this is not a number", "a name cannot begin with a digit")
            };
            self.diagnostics.push(Diagnostic::new(Span::new(self.at, self.at + length), message).help(help));
            TokenKind::Bad
        };
        self.push(kind, length);
    }

    fn punctuation(&mut self, c: char) {
        let kind = match c {
            '{' => TokenKind::LBrace,
            '}' => TokenKind::RBrace,
            '(' => TokenKind::LParen,
            ')' => TokenKind::RParen,
            '[' => TokenKind::LBracket,
            ']' => TokenKind::RBracket,
            ',' => TokenKind::Comma,
            ':' => TokenKind::Colon,
            ';' => TokenKind::Semi,
            '.' if self.rest().starts_with("..") => return self.push(TokenKind::DotDot, 2),
            '.' => TokenKind::Dot,
            '=' => TokenKind::Eq,
            '+' => TokenKind::Plus,
            '-' => TokenKind::Minus,
            '*' => TokenKind::Star,
            '/' => TokenKind::Slash,
            '%' => TokenKind::Percent,
            _ => return self.unknown(c),
        };
        match kind {
            TokenKind::LParen | TokenKind::LBracket => self.brackets += 1,
            TokenKind::RParen | TokenKind::RBracket => self.brackets = self.brackets.saturating_sub(1),
            TokenKind::LBrace | TokenKind::RBrace | TokenKind::Semi => self.brackets = 0,
            _ => {}
        }
        self.push(kind, 1);
    }

    fn unknown(&mut self, c: char) {
        let length = c.len_utf8();
        let help = match c {
            '\u{2212}' | '\u{2013}' | '\u{2014}' => Some("write the minus sign as `-`"),
            '\u{201c}' | '\u{201d}' => Some("texts stand in straight double quotes: \"…\""),
            '\u{d7}' | '\u{b7}' => Some("write multiplication as `*`"),
            '\u{a0}' => Some("this looks like a blank but is not one; type it again"),
            '#' => Some("comments begin with `//`"),
            '<' | '>' | '!' | '&' | '|' | '^' | '~' => Some("the operators are + - * / % min max"),
            c if c.is_alphabetic() => Some("names are made of the letters a-z, A-Z, digits and `_`"),
            _ => None,
        };
        let shown = if c.is_control() { format!("U+{:04X}", u32::from(c)) } else { c.to_string() };
        self.diagnostics.push(
            Diagnostic::new(Span::new(self.at, self.at + length), format!("`{shown}` means nothing here"))
                .label("no token begins like this")
                .maybe_help(help.map(str::to_owned)),
        );
        self.push(TokenKind::Bad, length);
    }
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

fn all_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'_')
}

/// The value of an integer literal: decimal, `0x`, `0o` or `0b`, with `_` between digits. At most 2^64 - 1,
/// which a fill value may be; the numbers of expressions are smaller.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let (base, digits) = match text.get(..2) {
        Some("0x" | "0X") => (16, text.get(2..)?),
        Some("0o" | "0O") => (8, text.get(2..)?),
        Some("0b" | "0B") => (2, text.get(2..)?),
        _ => (10, text),
    };
    if !digits.contains('_') {
        return u64::from_str_radix(digits, base).ok();
    }
    if digits.starts_with('_') || digits.ends_with('_') || digits.len() > 160 {
        return None;
    }
    u64::from_str_radix(&digits.replace('_', ""), base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let mut diagnostics = Diagnostics::default();
        let lexed = lex(text, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{diagnostics}");
        lexed.tokens.iter().map(|t| t.kind).collect()
    }

    #[test]
    fn a_newline_ends_a_statement_after_a_name_but_not_after_an_operator() {
        use TokenKind::{Const, End, Eq, Int, Name, Newline, Plus};
        assert_eq!(kinds("const a = 1 +\n2\n"), [Const, Name, Eq, Int, Plus, Int, Newline, End]);
        assert_eq!(kinds("const a = b /* one\ntwo */"), [Const, Name, Eq, Name, Newline, End]);
    }

    #[test]
    fn a_newline_inside_brackets_means_nothing() {
        use TokenKind::{Comma, End, LBracket, Name, Newline, RBracket};
        assert_eq!(kinds("a[i\n,\nj\n]"), [Name, LBracket, Name, Comma, Name, RBracket, Newline, End]);
    }

    #[test]
    fn a_range_is_not_a_fraction() {
        assert_eq!(
            kinds("0..9"),
            [TokenKind::Int, TokenKind::DotDot, TokenKind::Int, TokenKind::Newline, TokenKind::End]
        );
        assert_eq!(kinds("1.5e-3"), [TokenKind::Float, TokenKind::Newline, TokenKind::End]);
    }

    #[test]
    fn integers_have_bases_and_separators() {
        assert_eq!(integer("1_000"), Some(1000));
        assert_eq!(integer("0xff"), Some(255));
        assert_eq!(integer("0b101"), Some(5));
        assert_eq!(integer("18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer("18446744073709551616"), None);
        assert_eq!(integer("1__"), None);
    }
}
