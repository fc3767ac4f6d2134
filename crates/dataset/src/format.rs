//! The formatter of texts: `drystone fmt`.
//!
//! It works on tokens, so nothing is lost: comments are kept, and numbers and names are unchanged. The result has one
//! statement per line, an indentation of four spaces per block, and at most one empty line in a row. A block that was
//! written on one line stays there if it fits. Formatting a formatted text changes nothing.

use crate::diagnostic::Diagnostics;
use crate::lexer::{Comment, Lexed, Token, TokenKind, lex};

/// Columns that a block on one line may take.
const WIDTH: usize = 100;

/// Formats a text. A text that cannot be parsed is not formatted.
pub fn format(text: &str) -> Result<String, Diagnostics> {
    let parsed = crate::parse(text);
    if !parsed.diagnostics.is_empty() {
        return Err(parsed.diagnostics);
    }
    let lexed = lex(text, &mut Diagnostics::default());
    let matching = matching_braces(&lexed.tokens);
    let mut printer = Printer::new(text, &lexed, &matching);
    let mut comments = lexed.comments.iter().peekable();
    let mut at = 0;
    while at < lexed.tokens.len() {
        while let Some(comment) = comments.next_if(|c| c.before <= at) {
            printer.comment(comment);
        }
        at = printer.token(at);
    }
    let mut out = printer.out;
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    Ok(out)
}

/// For each `{`, the index of the token that closes it, else 0.
fn matching_braces(tokens: &[Token]) -> Vec<usize> {
    let mut matching = vec![0; tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::LBrace => open.push(at),
            TokenKind::RBrace => {
                if let Some(slot) = open.pop().and_then(|o| matching.get_mut(o)) {
                    *slot = at;
                }
            }
            _ => {}
        }
    }
    matching
}

/// The state of the statement that is being written.
#[derive(Clone, Copy, Default)]
struct Statement {
    first: Option<TokenKind>,
    /// Number of pairs of square brackets so far.
    groups: usize,
    /// Whether the statement is in a `dataset` block.
    in_dataset: bool,
}

#[derive(Clone)]
struct Printer<'t> {
    text: &'t str,
    lexed: &'t Lexed,
    matching: &'t [usize],
    out: String,
    statement: Statement,
    /// The statements to which the open blocks belong.
    outer: Vec<Statement>,
    brackets: usize,
    /// Whether the position is inside `.{ … }`.
    selecting: bool,
    prev: Option<Token>,
    prev_is_sign: bool,
    /// The end of the last token or comment in the text.
    source_end: usize,
    /// Whether a new line precedes the next output.
    line_break: bool,
    /// Whether a space precedes the next output, since a comment is there.
    gap: bool,
    /// Whether the block is written on one line; `separator` then replaces line breaks.
    inline: bool,
    separator: bool,
}

impl<'t> Printer<'t> {
    fn new(text: &'t str, lexed: &'t Lexed, matching: &'t [usize]) -> Self {
        Self {
            text,
            lexed,
            matching,
            out: String::new(),
            statement: Statement::default(),
            outer: Vec::new(),
            brackets: 0,
            selecting: false,
            prev: None,
            prev_is_sign: false,
            source_end: 0,
            line_break: false,
            gap: false,
            inline: false,
            separator: false,
        }
    }

    /// Writes a token; returns the index of the next token to write.
    fn token(&mut self, at: usize) -> usize {
        let Some(&token) = self.lexed.tokens.get(at) else { return at + 1 };
        match token.kind {
            TokenKind::End => {}
            TokenKind::Semi | TokenKind::Newline => self.end_statement(token, at),
            TokenKind::RBrace if !self.selecting => self.close_block(token),
            TokenKind::LBrace if self.prev_kind() != Some(TokenKind::Dot) => {
                return self.open_block(token, at);
            }
            _ => self.plain(token),
        }
        at + 1
    }

    fn prev_kind(&self) -> Option<TokenKind> {
        self.prev.map(|t| t.kind)
    }

    fn end_statement(&mut self, token: Token, at: usize) {
        let next = self.lexed.tokens.get(at + 1).map(|t| t.kind);
        let continues = self.selecting
            || next == Some(TokenKind::LBrace)
            || (self.statement.first == Some(TokenKind::For) && next == Some(TokenKind::Var));
        if token.kind == TokenKind::Newline && continues {
            return;
        }
        self.statement = Statement { in_dataset: self.statement.in_dataset, ..Statement::default() };
        self.source_end = self.source_end.max(token.span.end as usize);
        if self.inline {
            self.separator = true;
        } else {
            self.line_break = true;
        }
    }

    fn plain(&mut self, token: Token) {
        let sign = matches!(token.kind, TokenKind::Plus | TokenKind::Minus) && self.expects_operand();
        self.lead(token, sign);
        self.statement.first = self.statement.first.or(Some(token.kind));
        match token.kind {
            TokenKind::LBracket | TokenKind::LParen => self.brackets += 1,
            TokenKind::RBracket | TokenKind::RParen => {
                self.brackets = self.brackets.saturating_sub(1);
                self.statement.groups += usize::from(token.kind == TokenKind::RBracket);
            }
            TokenKind::LBrace => self.selecting = true,
            TokenKind::RBrace => self.selecting = false,
            _ => {}
        }
        self.write(token);
        self.prev_is_sign = sign;
    }

    fn write(&mut self, token: Token) {
        self.out.push_str(token.span.of(self.text));
        self.prev = Some(token);
        self.prev_is_sign = false;
        self.source_end = token.span.end as usize;
    }

    /// Writes the text between the previous output and this token.
    fn lead(&mut self, token: Token, sign: bool) {
        if std::mem::take(&mut self.line_break) {
            self.new_line(token.span.start as usize, self.statement.first.is_some());
        } else if std::mem::take(&mut self.separator) {
            self.out.push_str(if self.prev_kind() == Some(TokenKind::LBrace) { " " } else { "; " });
        } else if self.gap || self.space_before(token, sign) {
            self.out.push(' ');
        }
        self.gap = false;
    }

    fn new_line(&mut self, start: usize, continues: bool) {
        if self.out.is_empty() {
            return;
        }
        let gap = self.text.get(self.source_end..start).unwrap_or("");
        let blank = gap.bytes().filter(|&b| b == b'\n').count() > 1 && !self.out.ends_with('{');
        self.out.push_str(if blank { "\n\n" } else { "\n" });
        for _ in 0..self.outer.len() + usize::from(continues) {
            self.out.push_str("    ");
        }
    }

    fn open_block(&mut self, token: Token, at: usize) -> usize {
        self.lead(token, false);
        let close = self.matching.get(at).copied().unwrap_or(0);
        if !self.inline
            && let Some(end) = self.on_one_line(at, close)
        {
            return end;
        }
        self.enter_block(token);
        self.line_break = !self.inline;
        at + 1
    }

    fn enter_block(&mut self, token: Token) {
        self.write(token);
        let in_dataset = self.statement.first == Some(TokenKind::Dataset);
        self.outer.push(self.statement);
        self.statement = Statement { in_dataset, ..Statement::default() };
    }

    fn close_block(&mut self, token: Token) {
        let empty = self.prev_kind() == Some(TokenKind::LBrace) && !self.gap;
        self.statement = self.outer.pop().unwrap_or_default();
        if self.inline {
            self.separator = false;
            self.out.push_str(if empty { "" } else { " " });
        } else if !empty || !self.out.ends_with('{') {
            self.source_end = self.text.len();
            self.new_line(token.span.start as usize, false);
        }
        (self.line_break, self.gap) = (false, false);
        self.write(token);
    }

    /// Writes the block from `open` to `close` on one line, if it was on one line and fits there.
    fn on_one_line(&mut self, open: usize, close: usize) -> Option<usize> {
        let (first, last) = (self.lexed.tokens.get(open)?, self.lexed.tokens.get(close)?);
        let source = self.text.get(first.span.start as usize..last.span.end as usize)?;
        let from = self.lexed.comments.partition_point(|c| c.before <= open);
        let commented = self.lexed.comments.get(from).is_some_and(|c| c.before <= close);
        if commented || source.len() > 8 * WIDTH || source.contains('\n') {
            return None;
        }
        let line_start = self.out.rfind('\n').map_or(0, |at| at + 1);
        let used = self.out.get(line_start..).map_or(0, |line| line.chars().count());
        let mut trial = Printer { inline: true, out: String::new(), ..self.state() };
        trial.enter_block(*first);
        let mut at = open + 1;
        while at <= close {
            at = trial.token(at);
        }
        if used + trial.out.chars().count() > WIDTH {
            return None;
        }
        self.out.push_str(&trial.out);
        trial.out = std::mem::take(&mut self.out);
        trial.inline = false;
        *self = trial;
        Some(close + 1)
    }

    /// A copy without the output so far.
    fn state(&mut self) -> Self {
        let out = std::mem::take(&mut self.out);
        let copy = self.clone();
        self.out = out;
        copy
    }

    fn comment(&mut self, comment: &Comment) {
        let (start, end) = (comment.span.start as usize, comment.span.end as usize);
        let text = comment.span.of(self.text);
        let line_comment = text.starts_with("//");
        let before = self.text.get(self.source_end..start).unwrap_or("");
        let own_line = before.contains('\n');
        if own_line && !self.out.is_empty() {
            self.new_line(start, self.statement.first.is_some());
            self.line_break = false;
        } else if !self.out.is_empty() {
            self.out.push_str(if line_comment { "  " } else { " " });
        }
        self.out.push_str(text);
        self.source_end = end;
        let rest = self.text.get(end..).unwrap_or("");
        let alone = rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        self.line_break |= line_comment || ((own_line || self.prev.is_none()) && alone);
        self.gap = true;
    }

    /// Whether a number or a name comes next, so that `-` is a sign.
    fn expects_operand(&self) -> bool {
        use TokenKind::{Float, Int, Name, RBrace, RBracket, RParen, Text};
        let Some(prev) = self.prev else { return true };
        let fill = prev.kind == Name
            && prev.span.of(self.text) == "fill"
            && self.statement.in_dataset
            && self.statement.first == Some(TokenKind::Var)
            && self.brackets == 0;
        fill || !matches!(prev.kind, Name | Int | Float | Text | RParen | RBracket | RBrace)
    }

    fn space_before(&self, token: Token, sign: bool) -> bool {
        use TokenKind::{
            Align, Colon, Comma, Dot, DotDot, LBrace, LBracket, LParen, Minus, Name, Percent, Plus, RBrace,
        };
        use TokenKind::{RBracket, RParen, Slash, Star, Struct, Type, Var};
        let Some(prev) = self.prev else { return false };
        let in_type = matches!(self.statement.first, Some(Type | Name));
        match (prev.kind, token.kind) {
            _ if self.prev_is_sign => false,
            (_, Comma | RParen | RBracket | Dot | DotDot | Colon) => false,
            (LParen | LBracket | Dot | DotDot | Colon, _) => false,
            (Comma, _) => true,
            (Star | Slash | Percent, _) | (_, Star | Slash | Percent) => false,
            (_, Plus | Minus) if !sign => true,
            (LBrace, _) | (_, RBrace) => !self.selecting,
            (Name | Align, LParen) => false,
            (Name, LBracket) => in_type,
            (RBracket, LBracket) => self.statement.first == Some(Var) && self.statement.groups == 1,
            (RBracket, Name | Struct) => {
                let in_extents = self.statement.first == Some(Var) && self.statement.groups == 1;
                !in_type && (in_extents || !self.statement.in_dataset)
            }
            _ => true,
        }
    }
}
