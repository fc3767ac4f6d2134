//! Parses tokens to a tree: recursive descent, with Pratt's method for operators.
//!
//! A mistake ends its statement but not the parse: the rest of the statement is skipped and the next one is parsed, so
//! that one run finds several mistakes. Every error skips forward and no token is parsed twice, so the time is linear
//! in the text. Nesting is counted, so the stack is bounded.

mod declarations;
mod expressions;
mod fragments;
mod types;

use crate::ast::{File, Item, Name};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::lexer::{Lexed, Token, TokenKind};
use crate::span::Span;
use drystone_suggest::did_you_mean;

/// The statement was abandoned; the reason has been reported.
pub(crate) struct Abandoned;

pub(crate) type Parse<T> = Result<T, Abandoned>;

pub(crate) struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    /// Whether the text ends inside a comment, which has been reported.
    swallowed: bool,
    at: usize,
    depth: usize,
    operators: usize,
    diagnostics: Diagnostics,
}

/// Parses the tokens of `text`; `diagnostics` are those of the lexer.
pub(crate) fn parse(text: &str, lexed: &Lexed, diagnostics: Diagnostics) -> (File, Diagnostics) {
    let mut parser = Parser {
        text,
        tokens: &lexed.tokens,
        swallowed: lexed.swallowed,
        at: 0,
        depth: 0,
        operators: 0,
        diagnostics,
    };
    let file = parser.file();
    parser.diagnostics.sort();
    (file, parser.diagnostics)
}

impl Parser<'_> {
    fn file(&mut self) -> File {
        let mut file = File::default();
        loop {
            self.skip_separators();
            if self.peek() == TokenKind::End || self.diagnostics.full() {
                return file;
            }
            let before = self.at;
            match self.item().and_then(|item| self.end_of_statement(TokenKind::End).map(|()| item)) {
                Ok(item) => file.items.push(item),
                Err(Abandoned) => {
                    if self.at == before {
                        self.bump();
                    }
                    self.skip_to_declaration();
                }
            }
        }
    }

    fn item(&mut self) -> Parse<Item> {
        match self.peek() {
            TokenKind::Const => self.constant().map(Item::Const),
            TokenKind::Param => self.parameter().map(Item::Param),
            TokenKind::Type => self.type_declaration().map(Item::Type),
            TokenKind::Dataset => self.dataset().map(Item::Dataset),
            TokenKind::Fragment => self.fragment().map(Item::Fragment),
            TokenKind::Var | TokenKind::For => Err(self.fail(
                Diagnostic::new(self.span(), format!("{} stands outside of a block", self.shown()))
                    .label("expected a declaration")
                    .help("variables stand inside `dataset { … }` or `fragment NAME { … }`"),
            )),
            TokenKind::RBrace => Err(self.fail(
                Diagnostic::new(self.span(), "`}` without a `{` before it")
                    .label("expected a declaration or the end of the text"),
            )),
            _ => {
                let words = ["const", "param", "type", "dataset", "fragment"];
                let help = did_you_mean(self.span().of(self.text), words);
                Err(self.fail(
                    Diagnostic::new(self.span(), format!("{} does not begin a declaration", self.shown()))
                        .label("expected `const`, `param`, `type`, `dataset` or `fragment`")
                        .maybe_help(help),
                ))
            }
        }
    }

    // Access to the tokens.

    fn token(&self) -> Token {
        self.nth(0)
    }

    fn nth(&self, ahead: usize) -> Token {
        let last = self.tokens.len().saturating_sub(1);
        self.tokens
            .get((self.at + ahead).min(last))
            .copied()
            .unwrap_or(Token { kind: TokenKind::End, span: Span::default() })
    }

    fn peek(&self) -> TokenKind {
        self.token().kind
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The position of the last consumed token.
    fn last_span(&self) -> Span {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(Span::default(), |t| t.span)
    }

    fn bump(&mut self) -> Span {
        let span = self.span();
        if self.peek() != TokenKind::End {
            self.at += 1;
        }
        span
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.bump();
        }
        found
    }

    /// Whether the next token is the name `word`, which is a keyword only in certain places.
    fn at_word(&self, word: &str) -> bool {
        self.peek() == TokenKind::Name && self.span().of(self.text) == word
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    /// The next token, as messages name it.
    fn shown(&self) -> String {
        let text = self.span().of(self.text);
        let short: String = text.chars().take(40).collect();
        let dots = if short.len() < text.len() { "…" } else { "" };
        if self.peek().is_keyword() { format!("the keyword `{short}`") } else { format!("`{short}{dots}`") }
    }

    /// The message that the next token is wrong here.
    fn misplaced(&self) -> String {
        match self.peek() {
            TokenKind::End => "the text ends too early".into(),
            TokenKind::Newline => "the line ends too early".into(),
            _ => format!("{} does not belong here", self.shown()),
        }
    }

    // Reporting mistakes.

    fn fail(&mut self, diagnostic: Diagnostic) -> Abandoned {
        self.diagnostics.push(diagnostic);
        Abandoned
    }

    /// Reports that the next token is wrong here, unless the lexer has reported it.
    fn unexpected(&mut self, expected: &str) -> Abandoned {
        self.unexpected_with(expected, None)
    }

    fn unexpected_with(&mut self, expected: &str, help: Option<String>) -> Abandoned {
        if self.is_reported() {
            return Abandoned;
        }
        let message = self.misplaced();
        self.fail(
            Diagnostic::new(self.span(), message).label(format!("expected {expected}")).maybe_help(help),
        )
    }

    /// Whether the lexer has already reported the next token.
    fn is_reported(&self) -> bool {
        self.peek() == TokenKind::Bad || (self.peek() == TokenKind::End && self.swallowed)
    }

    fn expect(&mut self, kind: TokenKind, expected: &str) -> Parse<Span> {
        if self.peek() == kind { Ok(self.bump()) } else { Err(self.unexpected(expected)) }
    }

    /// Parses a `{` on this line or at the beginning of the next one.
    fn open_block(&mut self, what: &str) -> Parse<Span> {
        if self.peek() == TokenKind::Newline && self.nth(1).kind == TokenKind::LBrace {
            self.bump();
        }
        self.expect(TokenKind::LBrace, &format!("`{{` to begin {what}"))
    }

    /// Parses a block's statements up to its `}`. A statement that fails is skipped.
    fn block(&mut self, open: Span, mut statement: impl FnMut(&mut Self) -> Parse<()>) -> Parse<Span> {
        loop {
            self.skip_separators();
            match self.peek() {
                TokenKind::RBrace => return Ok(self.bump()),
                TokenKind::End if self.swallowed => return Err(Abandoned),
                TokenKind::End => {
                    let message = "the text ends inside a block";
                    return Err(self.fail(
                        Diagnostic::new(self.span(), message)
                            .label("expected `}`")
                            .note(open, "the block begins here"),
                    ));
                }
                kind if kind.begins_declaration() => {
                    let message = format!("{} does not belong inside a block", self.shown());
                    return Err(self.fail(
                        Diagnostic::new(self.span(), message)
                            .label("expected `}` before the next declaration")
                            .note(open, "the block begins here"),
                    ));
                }
                _ if self.diagnostics.full() => return Err(Abandoned),
                _ => {}
            }
            let before = self.at;
            let read = statement(self).and_then(|()| self.end_of_statement(TokenKind::RBrace));
            if read.is_err() {
                if self.at == before {
                    self.bump();
                }
                self.skip_statement();
            }
        }
    }

    fn end_of_statement(&mut self, closing: TokenKind) -> Parse<()> {
        match self.peek() {
            TokenKind::Semi | TokenKind::Newline => {
                self.bump();
                Ok(())
            }
            TokenKind::End => Ok(()),
            kind if kind == closing => Ok(()),
            _ => Err(self.unexpected_with("the end of the statement: `;` or a new line", None)),
        }
    }

    fn skip_separators(&mut self) {
        while matches!(self.peek(), TokenKind::Semi | TokenKind::Newline) {
            self.bump();
        }
    }

    /// After a mistake inside a block: skips to the next statement of the same block.
    fn skip_statement(&mut self) {
        let mut open = 0_usize;
        loop {
            match self.peek() {
                TokenKind::End => return,
                TokenKind::RBrace if open == 0 => return,
                TokenKind::RBrace => open -= 1,
                TokenKind::LBrace => open += 1,
                TokenKind::Semi | TokenKind::Newline if open == 0 => return,
                kind if kind.begins_declaration() && self.begins_line() => return,
                TokenKind::Var | TokenKind::For if open == 0 && self.begins_line() => return,
                _ => {}
            }
            self.bump();
        }
    }

    /// After a mistake outside blocks: skips to the next declaration that begins a line.
    fn skip_to_declaration(&mut self) {
        while self.peek() != TokenKind::End && !(self.peek().begins_declaration() && self.begins_line()) {
            self.bump();
        }
    }

    /// Whether the next token is the first of its line.
    fn begins_line(&self) -> bool {
        let before = self.last_span().end as usize;
        let gap = self.text.get(before..self.span().start as usize).unwrap_or("");
        self.at == 0 || gap.contains('\n')
    }

    // Names and nesting.

    fn name(&mut self, what: &str) -> Parse<Name> {
        match self.peek() {
            TokenKind::Name => {
                let span = self.bump();
                Ok(Name { text: span.of(self.text).into(), span })
            }
            kind if kind.is_keyword() => {
                let word = self.span().of(self.text);
                let help = format!("`{word}` is a keyword; choose another name, for example `{word}_`");
                Err(self.unexpected_with(&format!("the name of {what}"), Some(help)))
            }
            _ => Err(self.unexpected(&format!("the name of {what}"))),
        }
    }

    /// Parses at least one name, separated by commas.
    fn names(&mut self, what: &str) -> Parse<Vec<Name>> {
        let mut names = vec![self.name(what)?];
        while self.eat(TokenKind::Comma) {
            names.push(self.name(what)?);
        }
        Ok(names)
    }

    /// Parses one level deeper, unless that is too deep.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= crate::MAX_DEPTH {
            return Err(self.fail(
                Diagnostic::new(self.span(), "this is nested too deeply")
                    .label(format!("at most {} levels are allowed", crate::MAX_DEPTH))
                    .help("give the inner part a name with `const` or `type`"),
            ));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }
}
