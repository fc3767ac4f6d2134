//! Texts to trees: a Pratt parser with its own stack.
//!
//! Each operator has a numeric precedence. A context accepts operators that bind at least as tightly as its own level.
//! Operands, brackets, arguments and prefixes open contexts above it. Contexts are values on a bounded stack, not
//! calls, so a text cannot exhaust the stack of a thread. The printed text of every tree fits within the bound.

use std::ops::Range;

use crate::builder::Builder;
use crate::error::{Error, Kind};
use crate::lexer::{Lexer, Token};
use crate::name::{KEYWORDS, Name};
use crate::tree::{Binary, MAX_DEPTH, NodeId, Reduction, Tree, Unary};
use drystone_suggest::did_you_mean;

/// The most bytes of a text.
pub const MAX_TEXT: usize = 256 * 1024;

/// Binding powers of operators, from loose to tight.
pub(crate) mod binds {
    pub(crate) const OR: u8 = 1;
    pub(crate) const XOR: u8 = 2;
    pub(crate) const AND: u8 = 3;
    pub(crate) const NOT: u8 = 4;
    pub(crate) const COMPARE: u8 = 5;
    pub(crate) const SHIFT: u8 = 6;
    pub(crate) const SUM: u8 = 7;
    pub(crate) const PRODUCT: u8 = 8;
    pub(crate) const NEGATE: u8 = 9;
    pub(crate) const POWER: u8 = 10;
}

/// Binary operators: sign, meaning, binding power.
pub(crate) const OPERATORS: [(&str, Binary, u8); 18] = [
    ("|", Binary::Or, binds::OR),
    ("^", Binary::Xor, binds::XOR),
    ("&", Binary::And, binds::AND),
    ("==", Binary::Eq, binds::COMPARE),
    ("!=", Binary::Ne, binds::COMPARE),
    ("<", Binary::Lt, binds::COMPARE),
    ("<=", Binary::Le, binds::COMPARE),
    (">", Binary::Gt, binds::COMPARE),
    (">=", Binary::Ge, binds::COMPARE),
    ("<<", Binary::Shl, binds::SHIFT),
    (">>", Binary::Shr, binds::SHIFT),
    ("+", Binary::Add, binds::SUM),
    ("-", Binary::Sub, binds::SUM),
    ("*", Binary::Mul, binds::PRODUCT),
    ("/", Binary::Div, binds::PRODUCT),
    ("//", Binary::FloorDiv, binds::PRODUCT),
    ("%", Binary::Mod, binds::PRODUCT),
    ("**", Binary::Pow, binds::POWER),
];

/// Parses a text in which `/` always divides.
pub fn parse(text: &str) -> Result<Tree, Error> {
    parse_with_groups(text, |_| false)
}

/// Parses a text in which `/` after the path of a group descends into the group: `fields/p`.
pub fn parse_with_groups(text: &str, is_group: impl Fn(&str) -> bool) -> Result<Tree, Error> {
    read(text, &is_group, Form::Plain, Builder::new())
}

/// Like [`parse_with_groups`], and allows texts between quotes that are compared with names: `time > '2026-01-31'`.
/// [`Tree::with_words`] resolves them.
pub fn parse_with_words(text: &str, is_group: impl Fn(&str) -> bool) -> Result<Tree, Error> {
    read(text, &is_group, Form::Words, Builder::new())
}

/// Like [`parse_with_groups`], with default dimensions for `grad`, `div`, `curl` and `laplacian` where the text names
/// none. An empty name stands for the number of its axis.
pub fn parse_along(text: &str, is_group: impl Fn(&str) -> bool, dims: Vec<String>) -> Result<Tree, Error> {
    read(text, &is_group, Form::Plain, Builder::new().along(dims))
}

/// Parses a question about containers: `campaign == 'a*' & max(fields/p) > 3`.
///
/// Texts stand between quotes, `min` and `max` of one argument are taken from statistics, and `/` always descends into
/// a group. The caller resolves texts and reductions: [`Tree::check`] refuses them, and no decoder accepts them.
pub fn parse_question(text: &str) -> Result<Tree, Error> {
    read(text, &|_| true, Form::Question, Builder::new())
}

/// What a text may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    /// Texts.
    Words,
    /// Texts, and reductions from statistics.
    Question,
}

fn read(text: &str, is_group: &dyn Fn(&str) -> bool, form: Form, builder: Builder) -> Result<Tree, Error> {
    if text.len() > MAX_TEXT {
        let found = format!("the expression has {} bytes; at most {MAX_TEXT} are allowed", text.len());
        return Err(Error::new(Kind::Limit, found));
    }
    let mut lexer = Lexer::new(text, form != Form::Plain);
    let question = form == Form::Question;
    let next = lexer.next()?;
    let mut parser = Parser { lexer, next, last_end: 0, builder, is_group, question };
    if parser.next.0 == Token::End {
        let error = Error::new(Kind::Syntax, "the expression is empty");
        return Err(error.at(parser.next.1).help("write a condition as `p > 3`"));
    }
    let root = parser.expression()?;
    if parser.next.0 != Token::End {
        return Err(parser.unexpected(true));
    }
    Ok(parser.builder.finish(root))
}

struct Parser<'t, 'g> {
    lexer: Lexer<'t>,
    next: (Token, Range<usize>),
    /// The end of the last token that was consumed.
    last_end: usize,
    builder: Builder,
    is_group: &'g dyn Fn(&str) -> bool,
    question: bool,
}

/// A context: an expression that is being parsed, and where its result goes.
struct Context {
    /// The level: the context ends before an operator that binds looser.
    tightest: u8,
    /// The start of the context in the text.
    start: usize,
    left: Option<NodeId>,
    /// The operator that waits for its right operand.
    pending: Option<Binary>,
    /// The operand that starts the next comparison of a chain.
    chained: Option<NodeId>,
    then: Then,
}

enum Then {
    /// The result is the whole text.
    End,
    /// The result is an operand of the context below.
    Operand,
    /// A closing bracket ends it.
    Close,
    /// The result is the operand of a prefix at this position.
    Prefix(Unary, usize),
    /// The result is an argument.
    Argument(Call),
}

struct Call {
    function: String,
    at: Range<usize>,
    arguments: Vec<NodeId>,
}

enum Operand {
    Value(NodeId),
    Within(Context),
}

impl Parser<'_, '_> {
    fn take(&mut self) -> Result<Token, Error> {
        self.last_end = self.next.1.end;
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next).0)
    }

    fn take_sign(&mut self, sign: &str) -> Result<bool, Error> {
        let found = matches!(self.next.0, Token::Sign(found) if found == sign);
        if found {
            self.take()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: &'static str, what: &str) -> Result<(), Error> {
        if self.take_sign(sign)? {
            return Ok(());
        }
        let found = format!("`{sign}` expected {what}, {} found", self.next.0.describe());
        let help = match &self.next.0 {
            Token::Word(word) => did_you_mean(word, ["and", "or", "not"]),
            _ => None,
        };
        Err(Error::new(Kind::Syntax, found).at(self.next.1.clone()).maybe_help(help))
    }

    /// Records the position of a node, or adds the position to an error.
    fn made(&mut self, start: usize, node: Result<NodeId, Error>) -> Result<NodeId, Error> {
        let at = start..self.last_end;
        let id = node.map_err(|error| if error.at.is_some() { error } else { error.at(at.clone()) })?;
        self.builder.place(id, at);
        Ok(id)
    }

    /// The next token, if it is an operator.
    fn operator(&self) -> Option<(Binary, u8)> {
        let sign = match &self.next.0 {
            Token::Sign(sign) => sign,
            Token::Word(word) if word == "and" => "&",
            Token::Word(word) if word == "or" => "|",
            _ => return None,
        };
        OPERATORS.iter().find(|(s, ..)| *s == sign).map(|&(_, op, binds)| (op, binds))
    }

    /// Parses a whole expression.
    fn expression(&mut self) -> Result<NodeId, Error> {
        let mut open = vec![self.context(0, Then::End)];
        let mut operand: Option<NodeId> = None;
        while let Some(context) = open.last_mut() {
            let Some(value) = operand.take() else {
                let tightest = context.tightest;
                match self.operand(tightest)? {
                    Operand::Value(value) => operand = Some(value),
                    Operand::Within(context) => open.push(context),
                }
                if open.len() > 2 * MAX_DEPTH as usize + 8 {
                    let found = "the expression has too many brackets in brackets";
                    return Err(Error::new(Kind::Limit, found).at(self.next.1.clone()));
                }
                continue;
            };
            self.join(context, value)?;
            if let Some((op, binds)) = self.operator()
                && binds >= context.tightest
            {
                self.take()?;
                context.pending = Some(op);
                // The exponent of a power may have a sign, and `**` is right-associative.
                let right = if op == Binary::Pow { binds::NEGATE } else { binds + 1 };
                open.push(self.context(right, Then::Operand));
                continue;
            }
            let Some(done) = open.pop() else { break };
            let value = done.left.unwrap_or(value);
            match done.then {
                Then::End => return Ok(value),
                Then::Operand => operand = Some(value),
                Then::Close => {
                    self.expect(")", "to close the bracket")?;
                    operand = Some(value);
                }
                Then::Prefix(op, start) => {
                    let node = self.builder.unary(op, value);
                    operand = Some(self.made(start, node)?);
                }
                Then::Argument(mut call) => {
                    call.arguments.push(value);
                    if self.take_sign(",")? {
                        open.push(self.context(0, Then::Argument(call)));
                    } else {
                        self.expect(")", "after the arguments")?;
                        operand = Some(self.called(call)?);
                    }
                }
            }
        }
        Err(self.unexpected(false))
    }

    fn context(&self, tightest: u8, then: Then) -> Context {
        Context { tightest, start: self.next.1.start, left: None, pending: None, chained: None, then }
    }

    /// Gives an operand to the pending operator.
    fn join(&mut self, context: &mut Context, right: NodeId) -> Result<(), Error> {
        let (Some(left), Some(op)) = (context.left, context.pending.take()) else {
            context.left = Some(right);
            return Ok(());
        };
        let node = match (op.is_comparison(), context.chained) {
            (true, Some(middle)) => {
                let more = self.builder.binary(op, middle, right);
                let more = self.made(context.start, more)?;
                self.builder.binary(Binary::And, left, more)
            }
            _ => self.builder.binary(op, left, right),
        };
        context.left = Some(self.made(context.start, node)?);
        context.chained = op.is_comparison().then_some(right);
        Ok(())
    }

    /// Parses a primary expression, or opens the context of a prefix or a bracket.
    fn operand(&mut self, tightest: u8) -> Result<Operand, Error> {
        let start = self.next.1.start;
        let node = match &self.next.0 {
            Token::Sign("-") => {
                self.take()?;
                return Ok(Operand::Within(self.context(binds::NEGATE, Then::Prefix(Unary::Neg, start))));
            }
            Token::Sign("+") => {
                self.take()?;
                return Ok(Operand::Within(self.context(binds::NEGATE, Then::Operand)));
            }
            Token::Sign("~") => return self.not(tightest),
            Token::Word(word) if word == "not" => return self.not(tightest),
            Token::Sign("(") => {
                self.take()?;
                return Ok(Operand::Within(self.context(0, Then::Close)));
            }
            Token::Text(text) => {
                let text = text.clone();
                self.builder.text(&text)
            }
            &Token::Integer(n) => self.builder.integer(n.into()),
            &Token::Float(x) => self.builder.float(x),
            Token::Word(word) => {
                let word = word.clone();
                return self.word(word);
            }
            Token::Quoted(path) => {
                let path = path.clone();
                self.take()?;
                return self.named(path, start).map(Operand::Value);
            }
            _ => return Err(self.unexpected(false)),
        };
        self.take()?;
        self.made(start, node).map(Operand::Value)
    }

    fn not(&mut self, tightest: u8) -> Result<Operand, Error> {
        let at = self.next.1.clone();
        if tightest > binds::NOT {
            let error = Error::new(Kind::Syntax, "`~` binds looser than the operator before it");
            return Err(error.at(at).help("put it in brackets: `(~a)`"));
        }
        self.take()?;
        Ok(Operand::Within(self.context(binds::NOT, Then::Prefix(Unary::Not, at.start))))
    }

    /// A constant, a call or a name.
    fn word(&mut self, word: String) -> Result<Operand, Error> {
        let at = self.next.1.clone();
        let node = match word.as_str() {
            "true" | "True" => self.builder.boolean(true),
            "false" | "False" => self.builder.boolean(false),
            "nan" => self.builder.float(f64::NAN),
            "inf" => self.builder.float(f64::INFINITY),
            _ if KEYWORDS.contains(&word.as_str()) => return Err(self.unexpected(false)),
            _ => {
                self.take()?;
                if !self.take_sign("(")? {
                    return self.named(word, at.start).map(Operand::Value);
                }
                let call = Call { function: word, at, arguments: Vec::new() };
                return if self.take_sign(")")? {
                    self.called(call).map(Operand::Value)
                } else {
                    Ok(Operand::Within(self.context(0, Then::Argument(call))))
                };
            }
        };
        self.take()?;
        self.made(at.start, node).map(Operand::Value)
    }

    fn called(&mut self, call: Call) -> Result<NodeId, Error> {
        let reduction = match call.function.as_str() {
            "min" => Some(Reduction::Min),
            "max" => Some(Reduction::Max),
            _ => None,
        };
        let node = match (reduction, &call.arguments[..]) {
            (Some(reduction), &[of]) if self.question => self.builder.reduce(reduction, of),
            _ => self.builder.call(&call.function, &call.arguments),
        };
        let node = node.map_err(|error| match error.kind {
            Kind::Unknown => error.at(call.at.clone()),
            _ => error,
        });
        self.made(call.at.start, node)
    }

    /// The rest of a name after its first part: path through groups, members, neighbours.
    fn named(&mut self, first: String, start: usize) -> Result<NodeId, Error> {
        let mut path = first;
        while self.next.0 == Token::Sign("/") && (self.is_group)(&path) {
            self.take()?;
            path.push('/');
            path.push_str(&self.part("a name in the group")?);
        }
        let mut name = Name::new(path);
        while self.take_sign(".")? {
            let member = self.part("a member")?;
            name = name.and_then(|name| name.member(member));
        }
        if self.take_sign("[")? {
            let offsets = self.offsets()?;
            name = name.and_then(|name| name.neighbour(offsets));
        }
        let node = name.and_then(|name| self.builder.name(name));
        self.made(start, node)
    }

    fn part(&mut self, what: &str) -> Result<String, Error> {
        match self.next.0.clone() {
            Token::Word(part) | Token::Quoted(part) => {
                self.take()?;
                Ok(part)
            }
            token => {
                let error = Error::new(Kind::Syntax, format!("{what} expected, {} found", token.describe()));
                Err(error.at(self.next.1.clone()))
            }
        }
    }

    /// `x+1, y-2]`
    fn offsets(&mut self) -> Result<Vec<(String, i64)>, Error> {
        let mut out = Vec::new();
        loop {
            let help = "neighbours are written `u[x+1, y-2]`, by the names of dimensions";
            let dim = self.part("a dimension").map_err(|error| error.help(help))?;
            let sign = match self.next.0 {
                Token::Sign("+") => 1,
                Token::Sign("-") => -1,
                _ => 0,
            };
            let mut by = 0;
            if sign != 0 {
                self.take()?;
                let Token::Integer(cells) = self.next.0 else {
                    let found = format!("a number of cells expected, {} found", self.next.0.describe());
                    return Err(Error::new(Kind::Syntax, found).at(self.next.1.clone()).help(help));
                };
                self.take()?;
                by = sign * i64::try_from(cells).unwrap_or(i64::MAX);
            }
            out.push((dim, by));
            if !self.take_sign(",")? {
                self.expect("]", "after the offsets").map_err(|error| error.help(help))?;
                return Ok(out);
            }
        }
    }

    /// The error for a token that is not allowed here: after a complete operand, or where an operand should begin.
    fn unexpected(&self, complete: bool) -> Error {
        let (token, at) = &self.next;
        let expected = if complete { "an operator" } else { "a name, a number, a function or `(`" };
        let error = Error::new(Kind::Syntax, format!("{expected} expected, {} found", token.describe()))
            .at(at.clone());
        match token {
            Token::Sign(")") if complete => error.help("there is no `(` for it"),
            Token::Sign("(") if complete => error.help("`*` multiplies; only functions are called"),
            Token::Sign("[") if complete => error.help("only names have neighbours: `u[x+1]`"),
            Token::Word(word) if complete && word == "in" => error.help("write `x == 1 | x == 2`"),
            Token::Word(word) if complete => error.maybe_help(did_you_mean(word, ["and", "or", "not"])),
            Token::Word(word) => {
                error.help(format!("a variable named `{word}` is written between backticks"))
            }
            Token::Sign("*") if !complete => error.help("`**` raises to a power, `*` multiplies"),
            _ => error,
        }
    }
}
