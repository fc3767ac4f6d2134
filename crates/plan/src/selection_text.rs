//! The text of a selection, `[3, :, 0:8:2, [1, 5], -1]`, as NumPy writes it; outer brackets may be left out.
//!
//! Every face uses this parser. [`index`](crate::selection::index) and, for lists of cells,
//! [`listing`](crate::listing) apply the items to an array.

use std::fmt::{self, Display, Formatter};

use crate::selection::Index;

/// An item of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Item {
    Index(Index),
    /// Cells along an axis, counted from the end if negative.
    Cells(Vec<i64>),
}

/// An error in a text, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    what: &'static str,
    /// Byte in the text.
    at: usize,
}

impl Display for Mistake {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for Mistake {}

impl Mistake {
    /// Two lines: the text, and a caret below the mistake.
    pub fn shown(&self, text: &str) -> String {
        let shown: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        format!("  {shown}\n  {}^", " ".repeat(self.column(text)))
    }

    /// The number of characters before the error.
    pub fn column(&self, text: &str) -> usize {
        text.get(..self.at).unwrap_or(text).chars().count()
    }
}

/// Parses a selection of integers, slices, `...` and `None`; a list of cells is an error.
pub fn parse(text: &str) -> Result<Vec<Index>, Mistake> {
    let items = parse_items(text)?;
    let index = |(item, at)| match item {
        Item::Index(index) => Ok(index),
        Item::Cells(_) => Err(Mistake { what: "lists of cells are not taken here", at }),
    };
    items.into_iter().map(index).collect()
}

/// Parses a selection, with the byte at which each item begins.
pub fn parse_items(text: &str) -> Result<Vec<(Item, usize)>, Mistake> {
    let mut scan = Scan { text, at: 0 };
    scan.space();
    // `[[1, 5], :]` has outer brackets; `[1, 5], :` begins with a list.
    let bracket = scan.peek() == Some('[') && scan.closes_at_the_end() && scan.take('[');
    let mut out = Vec::new();
    loop {
        scan.space();
        if scan.done() || scan.peek() == Some(']') {
            break;
        }
        let at = scan.at;
        out.push((scan.item()?, at));
        scan.space();
        if !scan.take(',') {
            break;
        }
    }
    scan.space();
    if bracket && !scan.take(']') {
        return Err(scan.bad(if scan.done() { "']' is missing" } else { "expected ',' or ']'" }));
    }
    scan.space();
    if !scan.done() {
        let what = if bracket { "nothing may follow ']'" } else { "expected ','" };
        return Err(scan.bad(what));
    }
    Ok(out)
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }
    fn done(&self) -> bool {
        self.rest().is_empty()
    }
    fn bad(&self, what: &'static str) -> Mistake {
        Mistake { what, at: self.at }
    }
    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += self.peek().map_or(0, char::len_utf8);
        }
    }
    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }
    fn word(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// Whether the bracket that begins here encloses the whole selection: it closes last, or nowhere.
    fn closes_at_the_end(&self) -> bool {
        let mut depth = 0u32;
        for (at, c) in self.rest().char_indices() {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                let rest = self.rest().get(at + c.len_utf8()..).unwrap_or("").trim_start();
                return !rest.starts_with(',');
            }
        }
        true
    }

    fn item(&mut self) -> Result<Item, Mistake> {
        if self.take('[') {
            return self.cells();
        }
        if self.word("...") {
            return Ok(Item::Index(Index::Ellipsis));
        }
        if self.word("None") || self.word("newaxis") {
            return Ok(Item::Index(Index::NewAxis));
        }
        self.integer_or_slice().map(Item::Index)
    }

    fn cells(&mut self) -> Result<Item, Mistake> {
        let mut cells = Vec::new();
        loop {
            self.space();
            if self.take(']') {
                return Ok(Item::Cells(cells));
            }
            cells.push(self.number()?.ok_or_else(|| self.bad("expected a number of a cell, or ']'"))?);
            self.space();
            if !self.take(',') && self.peek() != Some(']') {
                return Err(self.bad("expected ',' or ']'"));
            }
        }
    }

    fn integer_or_slice(&mut self) -> Result<Index, Mistake> {
        let start = self.number()?;
        self.space();
        if !self.take(':') {
            let index = start.ok_or_else(|| self.bad("expected a number, ':' or '...'"))?;
            return Ok(Index::Int(index));
        }
        let stop = self.number()?;
        self.space();
        let mut step = None;
        if self.take(':') {
            self.space();
            let at = self.at;
            step = self.number()?;
            if step == Some(0) {
                return Err(Mistake { what: "the step of a slice cannot be 0", at });
            }
        }
        Ok(Index::Slice { start, stop, step })
    }

    /// Parses a number, if one begins here.
    fn number(&mut self) -> Result<Option<i64>, Mistake> {
        self.space();
        let sign = usize::from(matches!(self.peek(), Some('-' | '+')));
        let digits = self.rest().bytes().skip(sign).take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return if sign == 0 { Ok(None) } else { Err(self.bad("a number must follow the sign")) };
        }
        let text = self.rest().get(..sign + digits).unwrap_or("");
        let number = text.parse().map_err(|_| self.bad("the number is too large"))?;
        self.at += sign + digits;
        Ok(Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(start: Option<i64>, stop: Option<i64>, step: Option<i64>) -> Index {
        Index::Slice { start, stop, step }
    }

    #[test]
    fn selections_that_numpy_accepts_are_accepted() {
        let expected =
            [Index::Int(3), slice(None, None, None), slice(Some(0), Some(8), Some(2)), Index::Int(-1)];
        for text in
            ["[3, :, 0:8:2, -1]", "3,:,0:8:2,-1", " [ 3 , : , 0 : 8 : 2 , -1 , ] ", "[+3,::,0:8:2,-1]"]
        {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
        assert_eq!(parse("[...]").unwrap(), [Index::Ellipsis]);
        assert_eq!(parse("[None, ::-1]").unwrap(), [Index::NewAxis, slice(None, None, Some(-1))]);
        for empty in ["", "[]", " [ ] "] {
            assert_eq!(parse(empty).unwrap(), [], "{empty:?}");
        }
    }

    #[test]
    fn lists_of_cells_are_items_of_their_own() {
        let items = |text: &str| -> Vec<Item> {
            parse_items(text).unwrap().into_iter().map(|(item, _)| item).collect()
        };
        let full = Item::Index(slice(None, None, None));
        let cells = |cells: &[i64]| Item::Cells(cells.to_vec());
        for text in ["[[1, -5], :]", "[1, -5], :", " [ [1,-5,] ,:, ] "] {
            assert_eq!(items(text), [cells(&[1, -5]), full.clone()], "{text}");
        }
        assert_eq!(items("[[1, 5], [2]]"), [cells(&[1, 5]), cells(&[2])]);
        assert_eq!(items("[1, 5], [2]"), [cells(&[1, 5]), cells(&[2])]);
        assert_eq!(items("[:, []]"), [full, cells(&[])]);
        // One pair of brackets is that of NumPy's indexing.
        assert_eq!(items("[1, 5]"), [Item::Index(Index::Int(1)), Item::Index(Index::Int(5))]);
        let mistake = parse("[0, [1, 5]]").unwrap_err();
        assert_eq!((mistake.to_string().as_str(), mistake.at), ("lists of cells are not taken here", 4));
    }

    #[test]
    fn the_caret_stands_below_the_mistake() {
        for (text, at, what) in [
            ("[3, x, :]", 4, "expected a number"),
            ("[3, :", 5, "']' is missing"),
            ("[3 4]", 3, "expected ','"),
            ("[0:8:0]", 5, "cannot be 0"),
            ("[3] 4", 4, "nothing may follow"),
            ("[-]", 1, "must follow the sign"),
            ("[99999999999999999999]", 1, "too large"),
            ("3 4", 2, "expected ','"),
            ("[,]", 1, "expected a number"),
            ("[:, [1, x]]", 8, "expected a number of a cell"),
            ("[:, [1", 6, "expected ',' or ']'"),
            ("[:, [1 2]]", 7, "expected ',' or ']'"),
        ] {
            let bad = parse(text).unwrap_err();
            assert_eq!(bad.at, at, "{text}: {bad:?}");
            assert!(bad.what.contains(what), "{text}: {bad:?}");
        }
        let place = parse("[é, x]").unwrap_err().shown("[é, x]");
        assert_eq!(place, "  [é, x]\n   ^");
    }

    /// Random texts of relevant characters never panic, and an accepted selection is accepted again when it is printed.
    #[test]
    fn any_text_is_parsed_or_refused_with_a_position_in_it() {
        let alphabet: Vec<char> = "[]:,.-+ 0189xNoneé\n\u{1F600}".chars().collect();
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut taken = 0;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..state % 12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state ^= state >> 29;
            match parse(&text) {
                Ok(items) => {
                    taken += 1;
                    assert_eq!(parse(&print(&items)).unwrap(), items, "{text:?}");
                }
                Err(bad) => {
                    assert!(text.is_char_boundary(bad.at), "{text:?} {bad:?}");
                    bad.shown(&text);
                }
            }
        }
        assert!(taken > 5_000, "{taken} texts were selections");
    }

    fn print(items: &[Index]) -> String {
        let part = |n: &Option<i64>| n.map_or(String::new(), |n| n.to_string());
        let items: Vec<String> = items
            .iter()
            .map(|item| match item {
                Index::Int(i) => i.to_string(),
                Index::Slice { start, stop, step } => {
                    format!("{}:{}:{}", part(start), part(stop), part(step))
                }
                Index::Ellipsis => "...".into(),
                Index::NewAxis => "None".into(),
            })
            .collect();
        format!("[{}]", items.join(", "))
    }
}
