//! Integer arithmetic and index positions.

use super::{Abandoned, Parse, Parser};
use crate::ast::{Expr, ExprKind, IndexExpr, Op};
use crate::diagnostic::Diagnostic;
use crate::lexer::{TokenKind, integer};

/// The precedence of an operator, and the operator.
fn operator(kind: TokenKind) -> Option<(u8, Op)> {
    Some(match kind {
        TokenKind::Plus => (1, Op::Add),
        TokenKind::Minus => (1, Op::Sub),
        TokenKind::Star => (2, Op::Mul),
        TokenKind::Slash => (2, Op::Div),
        TokenKind::Percent => (2, Op::Rem),
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parse<Expr> {
        self.operators = 0;
        self.binary(1)
    }

    fn binary(&mut self, least: u8) -> Parse<Expr> {
        let mut left = self.unary()?;
        while let Some((strength, op)) = operator(self.peek())
            && strength >= least
        {
            self.count_operator()?;
            self.bump();
            let right = self.binary(strength + 1)?;
            let span = left.span.to(right.span);
            left = Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span };
        }
        Ok(left)
    }

    /// Counts operators. Chains such as `1+1+1+…` are left-associative, and would make a deep tree without nesting in
    /// the text.
    fn count_operator(&mut self) -> Parse<()> {
        self.operators += 1;
        if self.operators <= crate::MAX_OPERATORS {
            return Ok(());
        }
        Err(self.fail(
            Diagnostic::new(self.span(), "this expression is too long")
                .label(format!("at most {} operators are allowed", crate::MAX_OPERATORS))
                .help("give a part of it a name with `const`"),
        ))
    }

    fn unary(&mut self) -> Parse<Expr> {
        let start = self.span();
        match self.peek() {
            TokenKind::Minus | TokenKind::Plus => {
                let negative = self.peek() == TokenKind::Minus;
                self.bump();
                let inner = Box::new(self.nested(Self::unary)?);
                let span = start.to(inner.span);
                let kind = if negative { ExprKind::Neg(inner) } else { ExprKind::Group(inner) };
                Ok(Expr { kind, span })
            }
            TokenKind::LParen => {
                self.bump();
                let inner = self.nested(Self::inner_expression)?;
                if self.peek() == TokenKind::Mod {
                    return Err(self.fail(
                        Diagnostic::new(self.span(), "`mod` stands inside parentheses")
                            .label("expected `)`")
                            .help("`mod` ends a whole index: `u[(i + 1) mod n]`; for numbers there is `%`"),
                    ));
                }
                let end = self.close(TokenKind::RParen, start)?;
                Ok(Expr { kind: ExprKind::Group(Box::new(inner)), span: start.to(end) })
            }
            TokenKind::Int => {
                let span = self.bump();
                let value = integer(span.of(self.text)).and_then(|v| i64::try_from(v).ok());
                let Some(value) = value else {
                    return Err(self.fail(
                        Diagnostic::new(span, "this number is too large").help("integers end at 2^63 - 1"),
                    ));
                };
                Ok(Expr { kind: ExprKind::Int(value), span })
            }
            TokenKind::Name => self.name_or_call(),
            TokenKind::Float => {
                let message = format!("{} is not an integer", self.shown());
                Err(self.fail(
                    Diagnostic::new(self.span(), message)
                        .label("expected an integer")
                        .help("extents, indices, constants and parameters are integers"),
                ))
            }
            TokenKind::Star => {
                let help = "`*` alone is only an extent of a dataset variable: `var T[*, 100] float32`";
                Err(self.unexpected_with("a number or a name", Some(help.into())))
            }
            // Parsing continues with the next statement: the missing part is missing at the end of this line.
            kind if kind.is_keyword() && self.begins_line() => Err(self.fail(
                Diagnostic::new(self.last_span(), "the line ends too early")
                    .label("expected a number or a name after this"),
            )),
            _ => Err(self.unexpected("a number or a name")),
        }
    }

    /// Parses an expression inside another one: the operators of both count together.
    fn inner_expression(&mut self) -> Parse<Expr> {
        self.binary(1)
    }

    fn name_or_call(&mut self) -> Parse<Expr> {
        let start = self.bump();
        let word = start.of(self.text);
        if self.peek() != TokenKind::LParen {
            return Ok(Expr { kind: ExprKind::Name(word.into()), span: start });
        }
        let make = match word {
            "min" => ExprKind::Min,
            "max" => ExprKind::Max,
            _ => {
                let message = format!("there is no function `{word}`");
                let help = drystone_suggest::did_you_mean(word, ["min", "max"])
                    .unwrap_or_else(|| "the functions are `min(…)` and `max(…)`".into());
                return Err(self.fail(Diagnostic::new(start, message).help(help)));
            }
        };
        let open = self.bump();
        let mut arguments = vec![self.nested(Self::inner_expression)?];
        while self.eat(TokenKind::Comma) {
            self.count_operator()?;
            arguments.push(self.nested(Self::inner_expression)?);
        }
        let end = self.close(TokenKind::RParen, open)?;
        Ok(Expr { kind: make(arguments), span: start.to(end) })
    }

    /// Parses the bracket that closes the one at `open`.
    pub(super) fn close(&mut self, kind: TokenKind, open: crate::Span) -> Parse<crate::Span> {
        if self.peek() == kind {
            return Ok(self.bump());
        }
        if self.is_reported() {
            return Err(Abandoned);
        }
        let bracket = if kind == TokenKind::RParen { ")" } else { "]" };
        let mut diagnostic =
            Diagnostic::new(self.span(), self.misplaced()).label(format!("expected `,` or `{bracket}`"));
        if kind == TokenKind::RParen {
            diagnostic = diagnostic.label("expected an operator or `)`");
        }
        Err(self.fail(diagnostic.note(open, "to close this bracket")))
    }

    /// Parses `( expression )`, as after `align`, `bytes` and `replica`.
    pub(super) fn in_parentheses(&mut self, after: &str) -> Parse<Expr> {
        let open = self.expect(TokenKind::LParen, &format!("`(` after `{after}`"))?;
        let value = self.expression()?;
        self.close(TokenKind::RParen, open)?;
        Ok(value)
    }

    /// Parses `[ index, … ]` if it is there.
    pub(super) fn index_list(&mut self) -> Parse<Vec<IndexExpr>> {
        let mut list = Vec::new();
        if self.peek() != TokenKind::LBracket {
            return Ok(list);
        }
        let open = self.bump();
        loop {
            if self.peek() == TokenKind::Colon
                || (self.peek() == TokenKind::Name && self.nth(1).kind == TokenKind::Colon)
            {
                let help = "an index gets its extent on the left of `=`: `var t[i:10] = data[i]`";
                self.at += usize::from(self.peek() == TokenKind::Name);
                return Err(self.unexpected_with("an index without an extent", Some(help.into())));
            }
            let value = self.expression()?;
            let modulus = if self.eat(TokenKind::Mod) { Some(self.expression()?) } else { None };
            let span = modulus.as_ref().map_or(value.span, |m| value.span.to(m.span));
            list.push(IndexExpr { value, modulus, span });
            if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RBracket {
                break;
            }
        }
        self.close(TokenKind::RBracket, open)?;
        Ok(list)
    }
}
