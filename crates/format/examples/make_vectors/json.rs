//! JSON text, as far as vectors need it.

use std::fmt;

/// A JSON value.
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn list<T>(items: impl IntoIterator<Item = T>, item: impl Fn(T) -> Json) -> Json {
        Json::List(items.into_iter().map(item).collect())
    }

    pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub(crate) fn hex(bytes: &[u8]) -> Json {
        Json::Text(bytes.iter().map(|b| format!("{b:02x}")).collect())
    }

    /// Whether the value fits on a line.
    fn is_short(&self) -> bool {
        self.to_string().len() <= 80
    }

    /// Indented text that ends with a newline.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = |out: &mut String, depth: usize| {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        };
        match self {
            Json::List(items) if depth == 0 || !self.is_short() => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    indent(out, depth + 1);
                    item.write(out, depth + 1);
                }
                indent(out, depth);
                out.push(']');
            }
            Json::Object(members) if depth == 0 || !self.is_short() => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    indent(out, depth + 1);
                    out.push_str(&format!("{}: ", Json::Text(name.clone())));
                    value.write(out, depth + 1);
                }
                indent(out, depth);
                out.push('}');
            }
            short => out.push_str(&short.to_string()),
        }
    }
}

impl<T: Into<i128>> From<T> for Json {
    fn from(value: T) -> Json {
        Json::Int(value.into())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Int(i) => write!(f, "{i}"),
            Json::Text(text) => {
                f.write_str("\"")?;
                for c in text.chars() {
                    match c {
                        '"' | '\\' => write!(f, "\\{c}")?,
                        c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
                        c => write!(f, "{c}")?,
                    }
                }
                f.write_str("\"")
            }
            Json::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (i, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{}: {value}", if i > 0 { ", " } else { "" }, Json::Text(name.clone()))?;
                }
                f.write_str("}")
            }
        }
    }
}
