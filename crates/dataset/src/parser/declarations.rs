//! Constants, parameters, named types and datasets.

use super::{Abandoned, Parse, Parser};
use crate::ast::{ConstDecl, DatasetDecl, Extent, FillExpr, FillKind, ParamDecl, Text, TypeDecl, VarDecl};
use crate::diagnostic::Diagnostic;
use crate::lexer::{TokenKind, integer};
use crate::span::Span;
use drystone_suggest::did_you_mean;

/// The words that may follow the type of a variable.
const ATTRIBUTES: [&str; 10] =
    ["row", "col", "perm", "hilbert", "morton", "steps", "dims", "fill", "transform", "access"];

impl Parser<'_> {
    pub(super) fn constant(&mut self) -> Parse<ConstDecl> {
        self.bump();
        let name = self.name("a constant")?;
        self.expect(TokenKind::Eq, "`=` and the value of the constant")?;
        let value = self.expression()?;
        Ok(ConstDecl { name, value })
    }

    pub(super) fn parameter(&mut self) -> Parse<ParamDecl> {
        self.bump();
        let names = self.names("a parameter")?;
        let default = if self.eat(TokenKind::Eq) { Some(self.expression()?) } else { None };
        Ok(ParamDecl { names, default })
    }

    pub(super) fn type_declaration(&mut self) -> Parse<TypeDecl> {
        self.bump();
        let name = self.name("a type")?;
        if self.peek() == TokenKind::Eq {
            let help = format!("write `type {} …`, without `=`", name.text);
            return Err(self.unexpected_with("a type", Some(help)));
        }
        let ty = self.type_expression()?;
        Ok(TypeDecl { name, ty })
    }

    pub(super) fn dataset(&mut self) -> Parse<DatasetDecl> {
        let start = self.bump();
        let name = if self.peek() == TokenKind::Name { Some(self.name("a dataset")?) } else { None };
        let span = start.to(self.last_span());
        let open = self.open_block("the variables of the dataset")?;
        let mut vars = Vec::new();
        self.block(open, |p| {
            vars.push(p.variable()?);
            Ok(())
        })?;
        Ok(DatasetDecl { name, span, vars })
    }

    fn variable(&mut self) -> Parse<VarDecl> {
        if !self.eat(TokenKind::Var) {
            let help = did_you_mean(self.span().of(self.text), ["var"])
                .or_else(|| Some("write `var NAME[extents] type`".into()));
            return Err(self.unexpected_with("`var`", help));
        }
        let name = self.name("a variable")?;
        let extents = self.extents()?;
        if self.peek() == TokenKind::Eq {
            let help = "a dataset declares types; `= path` belongs in a fragment";
            return Err(self.unexpected_with("the type of the variable", Some(help.into())));
        }
        let ty = self.type_expression()?;
        let order = self.order()?;
        let mut var = VarDecl {
            name,
            extents,
            ty,
            order,
            steps: None,
            dims: None,
            fill: None,
            transform: None,
            access: None,
        };
        while self.peek() == TokenKind::Name {
            self.attribute(&mut var)?;
        }
        Ok(var)
    }

    /// Parses `[n, *]` if it is there.
    fn extents(&mut self) -> Parse<Vec<Extent>> {
        let mut extents = Vec::new();
        if self.peek() != TokenKind::LBracket {
            return Ok(extents);
        }
        let open = self.bump();
        loop {
            if self.peek() == TokenKind::Star {
                extents.push(Extent::Growable(self.bump()));
            } else if self.peek() == TokenKind::Name && self.nth(1).kind == TokenKind::Colon {
                self.bump();
                let help = "name the dimensions with `dims (…)`; indices such as `i:10` belong in a fragment";
                return Err(self.unexpected_with("`,` or `]`", Some(help.into())));
            } else {
                extents.push(Extent::Fixed(self.expression()?));
            }
            if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RBracket {
                break;
            }
        }
        self.close(TokenKind::RBracket, open)?;
        Ok(extents)
    }

    fn attribute(&mut self, var: &mut VarDecl) -> Parse<()> {
        let word = self.span();
        let text = word.of(self.text);
        let written = match text {
            "steps" => var.steps,
            "dims" => var.dims.as_ref().map(|&(_, span)| span),
            "fill" => var.fill.as_ref().map(|f| f.span),
            "transform" => var.transform.as_ref().map(|t| t.span),
            "access" => var.access.as_ref().map(|t| t.span),
            "row" | "col" | "perm" | "hilbert" | "morton" => match (&var.order, self.order()?) {
                (None, order) => {
                    var.order = order;
                    return Ok(());
                }
                (Some(order), _) => Some(order.span),
            },
            _ => {
                let message = format!("a variable has no property `{text}`");
                let help = did_you_mean(text, ATTRIBUTES);
                return Err(self.fail(
                    Diagnostic::new(word, message)
                        .label(
                            "expected an order, `steps`, `dims`, `fill`, `transform`, `access` or a new line",
                        )
                        .maybe_help(help),
                ));
            }
        };
        if let Some(first) = written {
            return Err(self.fail(
                Diagnostic::new(word, format!("`{text}` is given twice"))
                    .note(first, "it is given here already"),
            ));
        }
        self.bump();
        match text {
            "steps" => var.steps = Some(word),
            "dims" => {
                let open = self.expect(TokenKind::LParen, "`(` and the names of the dimensions")?;
                let names = self.names("a dimension")?;
                let end = self.close(TokenKind::RParen, open)?;
                var.dims = Some((names, word.to(end)));
            }
            "fill" => var.fill = Some(self.fill()?),
            "transform" => var.transform = Some(self.quoted("transform", "zstd:3")?),
            _ => var.access = Some(self.quoted("access", "plane:z")?),
        }
        Ok(())
    }

    fn quoted(&mut self, after: &str, example: &str) -> Parse<Text> {
        if self.peek() != TokenKind::Text {
            let help = format!("for example `{after} \"{example}\"`");
            return Err(self.unexpected_with("a text in double quotes", Some(help)));
        }
        let span = self.bump();
        let text: Box<str> = inside_quotes(span, self.text).into();
        if text.trim().is_empty() {
            let help = format!("leave `{after}` away, or write for example `{after} \"{example}\"`");
            return Err(self.fail(Diagnostic::new(span, format!("`{after}` says nothing")).help(help)));
        }
        Ok(Text { text, span })
    }

    fn fill(&mut self) -> Parse<FillExpr> {
        let start = self.span();
        let negative = self.eat(TokenKind::Minus);
        if !negative {
            self.eat(TokenKind::Plus);
        }
        let signed = self.span() != start;
        let text = self.span().of(self.text);
        let value = match self.peek() {
            TokenKind::Int => {
                let value = i128::from(integer(text).ok_or(Abandoned)?);
                FillKind::Int(if negative { -value } else { value })
            }
            TokenKind::Float => {
                let value: f64 = text.replace('_', "").parse().map_err(|_| Abandoned)?;
                FillKind::Float(if negative { -value } else { value })
            }
            TokenKind::Name if text == "inf" => {
                FillKind::Float(if negative { f64::NEG_INFINITY } else { f64::INFINITY })
            }
            TokenKind::Name if text == "nan" && !signed => FillKind::Float(f64::NAN),
            TokenKind::Name if (text == "true" || text == "false") && !signed => {
                FillKind::Bool(text == "true")
            }
            TokenKind::Text if !signed => FillKind::Text(inside_quotes(self.span(), self.text).into()),
            _ => {
                let expected = "a fill value: a number, `nan`, `inf`, `true`, `false` or a text";
                let help = did_you_mean(text, ["nan", "inf", "true", "false"]);
                return Err(self.unexpected_with(expected, help));
            }
        };
        let end = self.bump();
        Ok(FillExpr { value, span: start.to(end) })
    }
}

fn inside_quotes(span: Span, text: &str) -> &str {
    let quoted = span.of(text);
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or("")
}
