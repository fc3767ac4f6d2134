//! Characters to tokens.
//!
//! Operators of other languages (`&&`, `=`, `≤`) are recognised, so that the message can tell what to write.

use std::ops::Range;

use crate::error::{Error, Kind};
use crate::name::{begins_name, continues_name};

/// A token of the language.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A name without quotes, or a keyword.
    Word(String),
    /// A name between backticks.
    Quoted(String),
    /// A text between quotes.
    Text(String),
    Integer(u64),
    Float(f64),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

impl Token {
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(word) if word.len() > 40 => "a name".to_owned(),
            Token::Word(word) => format!("`{word}`"),
            Token::Quoted(_) => "a quoted name".to_owned(),
            Token::Text(_) => "a text".to_owned(),
            Token::Integer(n) => format!("`{n}`"),
            Token::Float(x) => format!("`{x:?}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Longer signs stand first.
const SIGNS: [&str; 26] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">",
    "(", ")", "[", "]", ",", ".", "@",
];

/// Signs of other languages, and their equivalents.
const FOREIGN: [(&str, &str); 18] = [
    ("&&", "&"),
    ("||", "|"),
    ("<>", "!="),
    ("=<", "<="),
    ("=>", ">="),
    ("=", "=="),
    ("!", "~"),
    ("\u{2212}", "-"),
    ("\u{2013}", "-"),
    ("×", "*"),
    ("·", "*"),
    ("÷", "/"),
    ("≤", "<="),
    ("≥", ">="),
    ("≠", "!="),
    ("∧", "&"),
    ("∨", "|"),
    ("¬", "~"),
];

/// Splits a text into tokens, one at a time.
#[derive(Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Whether texts between quotes are tokens.
    texts: bool,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str, texts: bool) -> Self {
        Lexer { text, at: 0, texts }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next token and its byte range.
    pub(crate) fn next(&mut self) -> Result<(Token, Range<usize>), Error> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        let (start, rest) = (self.at, self.rest());
        let Some(first) = rest.chars().next() else { return Ok((Token::End, start..start)) };
        let second = rest.chars().nth(1);
        let token = if begins_name(first) {
            Token::Word(self.word())
        } else if first.is_ascii_digit() || first == '.' && second.is_some_and(|c| c.is_ascii_digit()) {
            self.number()?
        } else if first == '`' {
            Token::Quoted(self.quoted('`', "the quoted name has no end", "add a backtick")?)
        } else if self.texts && (first == '"' || first == '\'') {
            Token::Text(self.quoted(first, "the text has no end", "add the quote that it begins with")?)
        } else {
            self.sign(first)?
        };
        Ok((token, start..self.at))
    }

    fn word(&mut self) -> String {
        let rest = self.rest();
        let len = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
        self.at += len;
        rest[..len].to_owned()
    }

    /// The content between two `quote`s. A doubled quote stands for one.
    fn quoted(&mut self, quote: char, endless: &str, help: &str) -> Result<String, Error> {
        let start = self.at;
        let mut out = String::new();
        let mut rest = &self.rest()[1..];
        loop {
            let Some(end) = rest.find(quote) else {
                return Err(Error::new(Kind::Syntax, endless).at(start..self.text.len()).help(help));
            };
            out.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix(quote) {
                Some(more) => rest = more,
                None => break,
            }
            out.push(quote);
        }
        self.at = self.text.len() - rest.len();
        Ok(out)
    }

    fn sign(&mut self, first: char) -> Result<Token, Error> {
        let (start, rest) = (self.at, self.rest());
        if first == '"' || first == '\'' {
            let len = rest[1..].find(first).map_or(rest.len(), |n| n + 2);
            let found = "texts between quotes stand in queries only";
            let help = "a name with unusual characters stands between backticks: `my name`";
            return Err(Error::new(Kind::Syntax, found).at(start..start + len).help(help));
        }
        let foreign = FOREIGN.iter().find(|(sign, _)| rest.starts_with(sign));
        if let (Some(&(sign, own)), false) = (foreign, ["==", "!="].iter().any(|own| rest.starts_with(own))) {
            let error = Error::new(Kind::Syntax, format!("`{sign}` is not an operator"));
            return Err(error.at(start..start + sign.len()).help(format!("write `{own}`")));
        }
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(&"@") | None => {
                let shown = if first.is_control() { format!("{first:?}") } else { format!("`{first}`") };
                let error = Error::new(Kind::Syntax, format!("{shown} has no meaning here"));
                Err(error.at(start..start + first.len_utf8()))
            }
            Some(sign) => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
        }
    }

    fn digits(&mut self, radix: u32) -> &'t str {
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_digit(radix)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn number(&mut self) -> Result<Token, Error> {
        let start = self.at;
        let radix = match self.rest().as_bytes() {
            [b'0', b'x' | b'X', ..] => 16,
            [b'0', b'o' | b'O', ..] => 8,
            [b'0', b'b' | b'B', ..] => 2,
            _ => 10,
        };
        let token = if radix == 10 { self.decimal(start)? } else { self.with_radix(start, radix)? };
        if self.rest().starts_with(continues_name) {
            self.word();
            let found = format!("`{}` is neither a number nor a name", cut(&self.text[start..self.at]));
            let help =
                "numbers have no suffix and no `_`; `*` multiplies; types are chosen by casts as `f4(x)`";
            return Err(Error::new(Kind::Syntax, found).at(start..self.at).help(help));
        }
        Ok(token)
    }

    fn with_radix(&mut self, start: usize, radix: u32) -> Result<Token, Error> {
        self.at += 2;
        let digits = self.digits(radix);
        if digits.is_empty() {
            let found = format!("digits of base {radix} expected");
            return Err(Error::new(Kind::Syntax, found).at(start..self.at));
        }
        match u64::from_str_radix(digits, radix) {
            Ok(n) => Ok(Token::Integer(n)),
            Err(_) => Err(self.too_long(start)),
        }
    }

    fn decimal(&mut self, start: usize) -> Result<Token, Error> {
        let whole = self.digits(10);
        let mut float = false;
        if self.rest().starts_with('.') {
            float = true;
            self.at += 1;
            self.digits(10);
        }
        if self.rest().starts_with(['e', 'E']) {
            let before = self.at;
            self.at += 1;
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            if self.digits(10).is_empty() {
                self.at = before;
            } else {
                float = true;
            }
        }
        let text = &self.text[start..self.at];
        if !float {
            if whole.len() > 1 && whole.starts_with('0') && whole.contains(|c| c != '0') {
                let found = format!("`{}` begins with 0", cut(whole));
                let help = "leave the zeros out, or write 0o for base 8";
                return Err(Error::new(Kind::Syntax, found).at(start..self.at).help(help));
            }
            return whole.parse().map(Token::Integer).map_err(|_| self.too_long(start));
        }
        let lost = match text.parse::<f64>() {
            Ok(x) if x.is_infinite() => "too large for a float of 64 bits; write `inf`",
            Ok(0.0)
                if text.split(['e', 'E']).next().is_some_and(|m| m.contains(|c| matches!(c, '1'..='9'))) =>
            {
                "too small for a float of 64 bits; write `0.0`"
            }
            Ok(x) => return Ok(Token::Float(x)),
            Err(_) => "not a number",
        };
        Err(Error::new(Kind::Constant, format!("`{}` is {lost}", cut(text))).at(start..self.at))
    }

    fn too_long(&self, start: usize) -> Error {
        let found = format!("the constant {} has more than 64 bits", cut(&self.text[start..self.at]));
        Error::new(Kind::Constant, found).at(start..self.at).help("add `.0` for a float")
    }
}

/// The start of a text that may be long.
fn cut(text: &str) -> String {
    if text.chars().count() <= 40 {
        text.to_owned()
    } else {
        text.chars().take(37).chain("...".chars()).collect()
    }
}
