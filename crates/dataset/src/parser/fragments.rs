//! Fragments and paths.

use super::{Parse, Parser};
use crate::ast::{Binder, FragmentDecl, FragmentItem, FragmentVarDecl, Name, Path, Repeat, RoleExpr, Step};
use crate::diagnostic::Diagnostic;
use crate::lexer::TokenKind;
use drystone_suggest::did_you_mean;

impl Parser<'_> {
    pub(super) fn fragment(&mut self) -> Parse<FragmentDecl> {
        self.bump();
        let name = self.name("a fragment")?;
        let mut params = Vec::new();
        if self.peek() == TokenKind::LParen {
            let open = self.bump();
            if self.peek() != TokenKind::RParen {
                params = self.names("a parameter")?;
            }
            self.close(TokenKind::RParen, open)?;
        }
        let mut roles = Vec::new();
        while self.peek() == TokenKind::Name {
            roles.push(self.role()?);
        }
        let open = self.open_block("the variables of the fragment")?;
        let mut items = Vec::new();
        self.block(open, |p| {
            items.push(p.fragment_item()?);
            Ok(())
        })?;
        Ok(FragmentDecl { name, params, roles, items })
    }

    fn role(&mut self) -> Parse<RoleExpr> {
        let start = self.span();
        if self.eat_word("default") {
            return Ok(RoleExpr { replica: None, span: start });
        }
        if self.eat_word("replica") {
            let number = self.in_parentheses("replica")?;
            return Ok(RoleExpr { replica: Some(number), span: start.to(self.last_span()) });
        }
        let help = did_you_mean(start.of(self.text), ["default", "replica"]);
        Err(self.unexpected_with("`default`, `replica(k)` or `{`", help))
    }

    fn fragment_item(&mut self) -> Parse<FragmentItem> {
        match self.peek() {
            TokenKind::Pad => {
                self.bump();
                self.expression().map(FragmentItem::Pad)
            }
            TokenKind::Align => {
                self.bump();
                self.expression().map(FragmentItem::Align)
            }
            TokenKind::For => {
                self.bump();
                let repeat = self.repeat()?;
                if self.peek() == TokenKind::Newline && self.nth(1).kind == TokenKind::Var {
                    self.bump();
                }
                if self.peek() != TokenKind::Var {
                    let help = "`for` repeats one variable: `for k in 0..3 var v[i:n] = cell[i].vel[k]`";
                    return Err(self.unexpected_with("`var` after the range", Some(help.into())));
                }
                self.fragment_var(Some(repeat)).map(|var| FragmentItem::Var(Box::new(var)))
            }
            TokenKind::Var => self.fragment_var(None).map(|var| FragmentItem::Var(Box::new(var))),
            _ => {
                let help = did_you_mean(self.span().of(self.text), ["var", "for", "pad", "align"]);
                Err(self.unexpected_with("`var`, `for`, `pad` or `align`", help))
            }
        }
    }

    fn repeat(&mut self) -> Parse<Repeat> {
        let name = self.name("the counter")?;
        self.expect(TokenKind::In, "`in` and a range such as `0..3`")?;
        let from = self.expression()?;
        self.expect(TokenKind::DotDot, "`..` and the end of the range")?;
        let to = self.expression()?;
        Ok(Repeat { name, from, to })
    }

    fn fragment_var(&mut self, repeat: Option<Repeat>) -> Parse<FragmentVarDecl> {
        self.bump();
        let name = self.name("a variable")?;
        let mut binders = Vec::new();
        if self.peek() == TokenKind::LBracket {
            let open = self.bump();
            loop {
                binders.push(self.binder()?);
                if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RBracket {
                    break;
                }
            }
            self.close(TokenKind::RBracket, open)?;
        }
        let order = self.order()?;
        let align = self.alignment()?;
        if self.peek() != TokenKind::Eq {
            let help = match self.peek() {
                TokenKind::Name | TokenKind::Struct => {
                    let words = ["row", "col", "perm", "hilbert", "morton"];
                    did_you_mean(self.span().of(self.text), words).or_else(|| {
                        Some("a fragment's variable takes its type from the dataset: write `= path`".into())
                    })
                }
                _ => Some("say which part of the dataset this is: `var t[i:10] = data[i]`".into()),
            };
            return Err(self.unexpected_with("`=` and a path into the dataset", help));
        }
        self.bump();
        let path = self.path()?;
        Ok(FragmentVarDecl { repeat, name, binders, order, align, path })
    }

    fn binder(&mut self) -> Parse<Binder> {
        if self.peek() == TokenKind::Int {
            let help = format!("give the index a name: `i:{}`", self.span().of(self.text));
            return Err(self.unexpected_with("an index and its extent", Some(help)));
        }
        let name = self.name("an index")?;
        if self.peek() != TokenKind::Colon {
            let help = format!("write `{}:EXTENT`; the index runs from 0 to EXTENT - 1", name.text);
            return Err(self.unexpected_with("`:` and the extent of the index", Some(help)));
        }
        self.bump();
        let extent = self.expression()?;
        Ok(Binder { name, extent })
    }

    fn path(&mut self) -> Parse<Path> {
        let start = self.span();
        let mut steps = vec![self.step("a dataset variable")?];
        let mut select = None;
        while self.eat(TokenKind::Dot) {
            if self.peek() == TokenKind::LBrace {
                let names = self.selection();
                if names.is_err() {
                    self.skip_selection();
                }
                select = Some(names?);
                break;
            }
            steps.push(self.step("a field")?);
        }
        Ok(Path { steps, select, span: start.to(self.last_span()) })
    }

    /// Parses `{ name, … }`.
    fn selection(&mut self) -> Parse<Vec<Name>> {
        let open = self.bump();
        self.skip_newline();
        let mut names = vec![self.name("a field")?];
        self.skip_newline();
        while self.eat(TokenKind::Comma) {
            self.skip_newline();
            names.push(self.name("a field")?);
            self.skip_newline();
        }
        if self.peek() != TokenKind::RBrace {
            return Err(self.fail(
                Diagnostic::new(self.span(), self.misplaced())
                    .label("expected `,` or `}`")
                    .note(open, "to close this list of fields"),
            ));
        }
        self.bump();
        Ok(names)
    }

    /// After a mistake in a selection: skips past its `}`, which would otherwise be mistaken for the end of the block.
    fn skip_selection(&mut self) {
        while !matches!(
            self.peek(),
            TokenKind::RBrace | TokenKind::Semi | TokenKind::Newline | TokenKind::LBrace | TokenKind::End
        ) {
            self.bump();
        }
        self.eat(TokenKind::RBrace);
    }

    fn skip_newline(&mut self) {
        self.eat(TokenKind::Newline);
    }

    fn step(&mut self, what: &str) -> Parse<Step> {
        let name = self.name(what)?;
        let index = self.index_list()?;
        if self.peek() == TokenKind::LBracket {
            return Err(self.fail(
                Diagnostic::new(self.span(), "a second pair of brackets")
                    .label("expected `.` or the end of the statement")
                    .help("write all indices in one pair of brackets: `a[i, j]`"),
            ));
        }
        let span = name.span.to(self.last_span());
        Ok(Step { name, index, span })
    }
}
