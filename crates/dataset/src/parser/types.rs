//! Types and element orders.

use super::{Abandoned, Parse, Parser};
use crate::ast::{ExprKind, Member, OrderExpr, OrderKind, StructExpr, TypeExpr, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn type_expression(&mut self) -> Parse<TypeExpr> {
        let start = self.span();
        let kind = match self.peek() {
            TokenKind::Name if self.at_word("bytes") => {
                self.bump();
                if self.peek() != TokenKind::LParen {
                    let help = "say how many: `bytes(16)` holds a text or a blob of 16 bytes";
                    return Err(self.unexpected_with("`(` after `bytes`", Some(help.into())));
                }
                let length = self.in_parentheses("bytes")?;
                TypeKind::Bytes(Box::new(length))
            }
            TokenKind::Name => TypeKind::Named(self.name("a type")?),
            TokenKind::LBracket => {
                let open = self.bump();
                let mut extents = Vec::new();
                loop {
                    if self.peek() == TokenKind::Star
                        && matches!(self.nth(1).kind, TokenKind::Comma | TokenKind::RBracket)
                    {
                        return Err(self.fail(
                            Diagnostic::new(self.span(), "an array inside an element cannot grow")
                                .label("expected a number")
                                .help("only the extents of a dataset variable may be `*`"),
                        ));
                    }
                    extents.push(self.expression()?);
                    if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RBracket {
                        break;
                    }
                }
                self.close(TokenKind::RBracket, open)?;
                let element = Box::new(self.nested(Self::type_expression)?);
                let order = self.order()?;
                TypeKind::Array { extents, element, order }
            }
            TokenKind::Struct => {
                self.bump();
                TypeKind::Struct(self.nested(Self::structure)?)
            }
            _ => return Err(self.unexpected("a type: a name, `[n]type` or `struct { … }`")),
        };
        Ok(TypeExpr { kind, span: start.to(self.last_span()) })
    }

    /// Parses what follows the word `struct`.
    fn structure(&mut self) -> Parse<StructExpr> {
        let packed = self.eat_word("packed");
        let open = self.open_block("the members of the struct")?;
        let mut members = Vec::new();
        self.block(open, |p| {
            members.push(p.member()?);
            Ok(())
        })?;
        let align = self.alignment()?;
        Ok(StructExpr { packed, members, align })
    }

    fn member(&mut self) -> Parse<Member> {
        if self.eat(TokenKind::Pad) {
            return Ok(Member::Pad(self.expression()?));
        }
        if self.peek() == TokenKind::Align {
            return Err(self.fail(
                Diagnostic::new(self.span(), "`align` stands alone in a struct")
                    .label("expected a field or `pad`")
                    .help("write the alignment after the type of a field: `x float64 align(16)`"),
            ));
        }
        if self.peek() == TokenKind::Var {
            return Err(self.fail(
                Diagnostic::new(self.span(), "a field is written without `var`")
                    .label("expected the name of a field")
                    .help("write `x float64`"),
            ));
        }
        let names = self.names("a field")?;
        if self.peek() == TokenKind::Colon {
            return Err(
                self.unexpected_with("the type of the field", Some("write `x float64`, without `:`".into()))
            );
        }
        let ty = self.nested(Self::type_expression)?;
        let align = self.alignment()?;
        Ok(Member::Fields { names, ty, align })
    }

    /// Parses `align(n)` if it is there.
    pub(super) fn alignment(&mut self) -> Parse<Option<crate::ast::Expr>> {
        if self.eat(TokenKind::Align) { self.in_parentheses("align").map(Some) } else { Ok(None) }
    }

    /// Parses an element order if it is there.
    pub(super) fn order(&mut self) -> Parse<Option<OrderExpr>> {
        if self.peek() != TokenKind::Name {
            return Ok(None);
        }
        let start = self.span();
        let kind = match start.of(self.text) {
            "row" => OrderKind::Row,
            "col" => OrderKind::Col,
            "hilbert" => OrderKind::Hilbert,
            "morton" => OrderKind::Morton,
            "perm" => {
                self.bump();
                let kind = OrderKind::Perm(self.permutation()?);
                return Ok(Some(OrderExpr { kind, span: start.to(self.last_span()) }));
            }
            _ => return Ok(None),
        };
        self.bump();
        Ok(Some(OrderExpr { kind, span: start }))
    }

    fn permutation(&mut self) -> Parse<Vec<i64>> {
        let open = self.expect(TokenKind::LParen, "`(` after `perm`")?;
        let mut axes = Vec::new();
        loop {
            let axis = self.expression()?;
            let ExprKind::Int(value) = axis.kind else {
                self.fail(
                    Diagnostic::new(axis.span, "a permutation is written in numbers")
                        .label("expected the number of a dimension, the first being 0"),
                );
                return Err(Abandoned);
            };
            axes.push(value);
            if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RParen {
                break;
            }
        }
        self.close(TokenKind::RParen, open)?;
        Ok(axes)
    }
}
