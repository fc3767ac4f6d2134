//! The text and list forms of a transform: `"shuffle,zstd:1"`, and Zarr codec objects.
//!
//! A comma ends a codec if a name follows, and continues its parameters if a number, a quoted text or `key=value`
//! follows; so `"aplod:2,1,1,4"` is one codec and `"shuffle,zstd:1"` two. A colon always introduces a parameter. The
//! text is recorded with the data, so it may be untrusted. Its length and its numbers of codecs and parameters are
//! bounded.

use std::fmt;

use crate::TransformError;

const MAX_TEXT_LEN: usize = 1024;
pub(crate) const MAX_PARAMS: usize = 64;

/// One codec as written: its name and parameters, not yet checked.
#[derive(Clone, Debug, PartialEq)]
pub struct CodecSpec {
    /// Lower-case name.
    pub name: String,
    /// Parameters in the order given.
    pub params: Vec<Param>,
}

/// One parameter of a codec.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// A whole number.
    Int(i64),
    /// A finite number with a fraction or an exponent.
    Float(f64),
    /// A word or a quoted text, which cannot contain a double quote.
    Text(String),
    /// `key=value`; the value itself is not named.
    Named(String, Box<Param>),
}

/// One element of a transform given as a list.
#[derive(Clone, Debug, PartialEq)]
pub enum ListItem {
    /// Transform text, possibly of several codecs.
    Text(String),
    /// A Zarr codec object: `{"name": …, "configuration": {…}}`.
    Object {
        /// The Zarr name.
        name: String,
        /// The configuration's members; empty if there is none.
        configuration: Vec<(String, ConfigValue)>,
    },
}

/// A value in a Zarr codec configuration, converted from JSON by the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without a fraction.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// An array or object; no known codec accepts one.
    Nested,
}

impl CodecSpec {
    /// A codec without parameters.
    pub fn named(name: &str) -> CodecSpec {
        CodecSpec { name: name.into(), params: Vec::new() }
    }

    /// Parses transform text into codecs, without checking that they exist. Empty text is no codec.
    pub fn parse_all(text: &str) -> Result<Vec<CodecSpec>, TransformError> {
        let fail = |at: usize, problem: String| {
            let shown = text.chars().take(80).collect();
            Err(TransformError::Syntax { text: shown, at, problem })
        };
        if text.len() > MAX_TEXT_LEN {
            return fail(MAX_TEXT_LEN, format!("longer than {MAX_TEXT_LEN} bytes"));
        }
        let mut specs: Vec<CodecSpec> = Vec::new();
        if text.trim().is_empty() {
            return Ok(specs);
        }
        for piece in Lexemes::of(text) {
            let (at, token) = (piece.at, piece.token);
            if token.is_empty() {
                return fail(at, "expected a codec name or a parameter, found nothing".into());
            }
            if token.contains('"') && !quotes_are_whole(token) {
                return fail(at, format!("quotes do not match in {token}"));
            }
            let starts_codec = match piece.before {
                Before::Start => true,
                Before::Colon => false,
                Before::Comma => is_name(token),
            };
            if starts_codec {
                if !is_name(token) {
                    return fail(at, format!("expected a codec name, found {token:?}"));
                }
                specs.push(CodecSpec::named(&token.to_ascii_lowercase()));
                continue;
            }
            let Some(last) = specs.last_mut() else {
                return fail(at, format!("expected a codec name, found {token:?}"));
            };
            if piece.before == Before::Comma && last.params.is_empty() {
                let name = &last.name;
                return fail(
                    at,
                    format!("expected a codec name, found {token:?}; for a parameter write {name}:{token}"),
                );
            }
            if last.params.len() == MAX_PARAMS {
                return fail(at, format!("more than {MAX_PARAMS} parameters"));
            }
            match Param::parse(token) {
                Some(param) => last.params.push(param),
                None => return fail(at, format!("expected a number, a word or key=value, found {token:?}")),
            }
        }
        Ok(specs)
    }
}

impl Param {
    fn parse(token: &str) -> Option<Param> {
        match token.split_once('=') {
            Some((key, value)) if is_name(key.trim_end()) => {
                Some(Param::Named(key.trim_end().into(), Box::new(Param::parse_value(value.trim_start())?)))
            }
            _ => Param::parse_value(token),
        }
    }

    fn parse_value(token: &str) -> Option<Param> {
        if let Some(inner) = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            return Some(Param::Text(inner.into()));
        }
        if let Ok(int) = token.parse::<i64>() {
            return Some(Param::Int(int));
        }
        if is_name(token) {
            return Some(Param::Text(token.into()));
        }
        token.parse::<f64>().ok().filter(|f| f.is_finite()).map(Param::Float)
    }

    /// The key, if there is one, and the value.
    pub fn key_and_value(&self) -> (Option<&str>, &Param) {
        match self {
            Param::Named(key, value) => (Some(key), value),
            value => (None, value),
        }
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::Int(i) => write!(f, "{i}"),
            Param::Float(x) => write!(f, "{x:?}"),
            Param::Text(t) => write!(f, "\"{t}\""),
            Param::Named(key, value) => write!(f, "{key}={value}"),
        }
    }
}

impl fmt::Display for CodecSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, param) in self.params.iter().enumerate() {
            write!(f, "{}{param}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// A transform as users type it: without quotes around words that need none. The stored text is unchanged. A text that
/// is no transform is returned as it is.
pub fn readable(text: &str) -> String {
    let Ok(specs) = CodecSpec::parse_all(text) else { return text.to_owned() };
    let typed = specs.iter().map(CodecSpec::typed).collect::<Vec<_>>().join(",");
    match CodecSpec::parse_all(&typed) {
        Ok(again) if again == specs => typed,
        _ => text.to_owned(),
    }
}

impl CodecSpec {
    fn typed(&self) -> String {
        let mut out = self.name.clone();
        for (i, param) in self.params.iter().enumerate() {
            // After a comma, a word would be the next codec.
            out.push(if i == 0 || matches!(param, Param::Text(_)) { ':' } else { ',' });
            out.push_str(&param.typed());
        }
        out
    }
}

impl Param {
    fn typed(&self) -> String {
        let is_word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        };
        match self {
            Param::Text(text) if is_word(text) => text.clone(),
            Param::Named(key, value) => format!("{key}={}", value.typed()),
            other => other.to_string(),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Before {
    Start,
    Comma,
    Colon,
}

struct Lexeme<'a> {
    before: Before,
    at: usize,
    token: &'a str,
}

/// The text, cut at commas and colons outside quotes; white space around a piece is dropped.
struct Lexemes<'a> {
    text: &'a str,
    next: Option<(Before, usize)>,
}

impl<'a> Lexemes<'a> {
    fn of(text: &'a str) -> Lexemes<'a> {
        Lexemes { text, next: Some((Before::Start, 0)) }
    }
}

impl<'a> Iterator for Lexemes<'a> {
    type Item = Lexeme<'a>;

    fn next(&mut self) -> Option<Lexeme<'a>> {
        let (before, start) = self.next.take()?;
        let rest = self.text.get(start..)?;
        let mut quoted = false;
        let mut end = self.text.len();
        for (i, byte) in rest.bytes().enumerate() {
            match byte {
                b'"' => quoted = !quoted,
                b',' | b':' if !quoted => {
                    end = start + i;
                    let before = if byte == b',' { Before::Comma } else { Before::Colon };
                    self.next = Some((before, end + 1));
                    break;
                }
                _ => {}
            }
        }
        let raw = self.text.get(start..end)?;
        let token = raw.trim();
        Some(Lexeme { before, at: start + (raw.len() - raw.trim_start().len()), token })
    }
}

pub(crate) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic())
        && token.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// Whether a token is a valid name of a codec: without capitals.
pub(crate) fn is_codec_name(token: &str) -> bool {
    is_name(token) && token.len() <= 64 && !token.contains(|c: char| c.is_ascii_uppercase())
}

/// Whether quotes appear only as one pair around a whole value.
fn quotes_are_whole(token: &str) -> bool {
    let value =
        token.split_once('=').map_or(token, |(key, value)| if key.contains('"') { token } else { value });
    value.len() >= 2
        && value.trim_start().starts_with('"')
        && value.ends_with('"')
        && token.matches('"').count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_continues_parameters_unless_a_name_follows() {
        let specs = CodecSpec::parse_all("aplod:2,1,1,4, shuffle ,zstd:level=-3,x=0.5").unwrap();
        assert_eq!(specs.len(), 3);
        assert_eq!(specs[0].params, [2, 1, 1, 4].map(Param::Int));
        assert!(specs[1].params.is_empty());
        assert_eq!(specs[2].to_string(), "zstd:level=-3,x=0.5");
    }

    #[test]
    fn printed_specs_parse_back_to_themselves() {
        for text in
            ["a:1,2.5,\"V:x,S:y\"", "mloc:order=\"V:1,S:2\",n=3", "blosc:lz4:5", "x:1e300,-1e-7", "x:\"\""]
        {
            let specs = CodecSpec::parse_all(text).unwrap();
            let printed = specs.iter().map(CodecSpec::to_string).collect::<Vec<_>>().join(",");
            assert_eq!(CodecSpec::parse_all(&printed).unwrap(), specs, "{text} -> {printed}");
        }
    }

    #[test]
    fn a_mistake_is_reported_where_it_is() {
        for (text, at, part) in [
            ("zstd:", 5, "found nothing"),
            ("zstd,,shuffle", 5, "found nothing"),
            ("3", 0, "expected a codec name"),
            ("zstd,3", 5, "write zstd:3"),
            ("zstd:inf?", 5, "expected a number"),
            ("a:\"x", 2, "quotes do not match"),
            ("a:x\"y\"", 2, "quotes do not match"),
            ("é", 0, "expected a codec name"),
        ] {
            match CodecSpec::parse_all(text) {
                Err(TransformError::Syntax { at: found, problem, .. }) => {
                    assert!(found == at && problem.contains(part), "{text}: at {found}: {problem}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(CodecSpec::parse_all(&"a,".repeat(1000)).is_err());
        assert!(CodecSpec::parse_all(&format!("a:1{}", ",1".repeat(64))).is_err());
    }
}
