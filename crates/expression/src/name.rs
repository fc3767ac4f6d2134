//! Names in an expression: a variable, perhaps a member of its records, perhaps a neighbouring cell.

use std::fmt;

use crate::error::{Error, Kind};

/// The most distant neighbour along one dimension, in cells.
pub const MAX_OFFSET: i16 = 64;
/// The most parts or offsets of a name.
pub(crate) const MAX_PARTS: usize = 16;
/// The most bytes of one part.
pub(crate) const MAX_PART: usize = 1024;

/// Keywords, which are names only between backticks.
pub(crate) const KEYWORDS: [&str; 10] =
    ["and", "or", "not", "in", "true", "false", "True", "False", "nan", "inf"];

/// An offset to a neighbour: `x+1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offset {
    /// The name of the dimension.
    pub dim: String,
    /// Cells along it; never 0.
    pub by: i16,
}

/// A variable, a member of it, or a neighbour of the cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    parts: Vec<String>,
    offsets: Vec<Offset>,
}

impl Name {
    /// A variable by its path.
    pub fn new(path: impl Into<String>) -> Result<Self, Error> {
        let name = Name { parts: vec![path.into()], offsets: Vec::new() };
        name.check()?;
        Ok(name)
    }

    /// This name with a member added.
    pub fn member(mut self, member: impl Into<String>) -> Result<Self, Error> {
        self.parts.push(member.into());
        self.check()?;
        Ok(self)
    }

    /// The neighbour at these offsets; each dimension may occur once. Zero offsets are dropped, the others
    /// sorted by dimension.
    pub fn neighbour(mut self, offsets: impl IntoIterator<Item = (String, i64)>) -> Result<Self, Error> {
        for (dim, by) in offsets {
            if by.unsigned_abs() > MAX_OFFSET as u64 {
                let found = format!("the neighbour {by:+} along `{dim}` is farther than {MAX_OFFSET} cells");
                return Err(Error::new(Kind::Limit, found));
            }
            self.offsets.push(Offset { dim, by: by as i16 });
        }
        self.offsets.sort();
        if let Some(pair) = self.offsets.windows(2).find(|pair| pair[0].dim == pair[1].dim) {
            let found = format!("the dimension `{}` is named twice", pair[0].dim);
            return Err(Error::new(Kind::Syntax, found));
        }
        self.check()?;
        self.offsets.retain(|o| o.by != 0);
        Ok(self)
    }

    fn check(&self) -> Result<(), Error> {
        if self.parts.len() > MAX_PARTS || self.offsets.len() > MAX_PARTS {
            let found = format!("a name has more than {MAX_PARTS} members or offsets");
            return Err(Error::new(Kind::Limit, found));
        }
        for part in self.texts() {
            if part.is_empty() {
                return Err(Error::new(Kind::Syntax, "a name is empty"));
            }
            if part.len() > MAX_PART {
                let found = format!("a name has {} bytes; at most {MAX_PART} are allowed", part.len());
                return Err(Error::new(Kind::Limit, found));
            }
        }
        Ok(())
    }

    /// The path of the variable.
    pub fn path(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    /// The members, outermost first.
    pub fn members(&self) -> &[String] {
        self.parts.get(1..).unwrap_or_default()
    }

    /// The offset of the neighbour, sorted by dimension; empty for the cell itself.
    pub fn offsets(&self) -> &[Offset] {
        &self.offsets
    }

    pub(crate) fn parts(&self) -> &[String] {
        &self.parts
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        self.parts.iter().chain(self.offsets.iter().map(|o| &o.dim))
    }

    /// The share of an expression's limit that this name uses: 1, or more if it is long.
    pub(crate) fn weight(&self) -> u32 {
        1 + self.texts().map(|t| t.len() as u32 + 4).sum::<u32>() / 16
    }
}

/// True for the first character of an unquoted name.
pub(crate) fn begins_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// True for the other characters of an unquoted name.
pub(crate) fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A part of a name as it is printed: quoted if necessary, with backticks doubled.
fn write_part(f: &mut fmt::Formatter<'_>, part: &str) -> fmt::Result {
    let plain = part.starts_with(begins_name) && part.chars().all(continues_name);
    if plain && !KEYWORDS.contains(&part) {
        f.write_str(part)
    } else {
        write!(f, "`{}`", part.replace('`', "``"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, part) in self.parts.iter().enumerate() {
            if n > 0 {
                f.write_str(".")?;
            }
            write_part(f, part)?;
        }
        for (n, offset) in self.offsets.iter().enumerate() {
            f.write_str(if n > 0 { ", " } else { "[" })?;
            write_part(f, &offset.dim)?;
            write!(f, "{:+}", offset.by)?;
        }
        if self.offsets.is_empty() { Ok(()) } else { f.write_str("]") }
    }
}
