//! The values of one key in a page, each with the containers that have it.
//!
//! Invariants
//! - values ascend strictly in the order of `value.rs`, and each belongs to at least one container;
//! - texts are concatenated in one string, so that a column of many texts is a few allocations.

use drystone_format::Corrupt;
use drystone_format::cursor::Reader;

use crate::bytes::{ascending, count, push, push_ascending, varint};
use crate::value::{Borrowed, Class, MAX_TEXT, Value};

mod tag {
    pub(super) const FALSE: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const INTEGER: u8 = 2;
    /// Encoding of a negative integer, as `-1 - n`.
    pub(super) const NEGATIVE: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const TEXT: u8 = 5;
}

#[derive(Debug, Clone, Copy)]
enum Cell {
    Bool(bool),
    Integer(i128),
    Float(f64),
    /// A range of bytes in the column's texts.
    Text(u32, u32),
}

/// A decoded column.
#[derive(Debug, Clone, Default)]
pub struct Column {
    cells: Vec<Cell>,
    texts: String,
    /// Where the containers of each value begin in `lists`, and the end.
    starts: Vec<u32>,
    lists: Vec<u32>,
}

impl Column {
    /// Encodes values, ascending, with their containers, ascending.
    pub fn encode<'v>(values: impl ExactSizeIterator<Item = (&'v Value, &'v [u32])>) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, values.len() as u64);
        let mut before: &[u8] = &[];
        for (value, containers) in values {
            match value {
                Value::Bool(b) => out.push(if *b { tag::TRUE } else { tag::FALSE }),
                Value::Integer(n) if *n < 0 => {
                    out.push(tag::NEGATIVE);
                    push(&mut out, (-1 - *n) as u64);
                }
                Value::Integer(n) => {
                    out.push(tag::INTEGER);
                    push(&mut out, *n as u64);
                }
                Value::Float(x) => {
                    out.push(tag::FLOAT);
                    out.extend_from_slice(&x.to_le_bytes());
                }
                Value::Text(text) => {
                    let text = text.as_bytes();
                    let shared = text.iter().zip(before).take_while(|(a, b)| a == b).count();
                    let rest = text.get(shared..).unwrap_or_default();
                    out.push(tag::TEXT);
                    push(&mut out, shared as u64);
                    push(&mut out, rest.len() as u64);
                    out.extend_from_slice(rest);
                    before = text;
                }
            }
            push_ascending(&mut out, containers);
        }
        out
    }

    /// Decodes a column of a page with this many containers.
    pub fn decode(bytes: &[u8], containers: u32) -> Result<Column, Corrupt> {
        let mut r = Reader::new(bytes);
        let n = count(&mut r, 2)?;
        let mut column = Column { cells: Vec::with_capacity(n), ..Column::default() };
        column.starts.reserve(n + 1);
        let mut before = Vec::new();
        for _ in 0..n {
            let cell = column.cell(&mut r, &mut before)?;
            if let Some(&last) = column.cells.last()
                && column.borrow(last).order(column.borrow(cell)).is_ge()
            {
                return Err(r.corrupt("values do not ascend"));
            }
            column.cells.push(cell);
            column.starts.push(column.lists.len() as u32);
            ascending(&mut r, containers, &mut column.lists)?;
            if column.starts.last() == Some(&(column.lists.len() as u32)) {
                return Err(r.corrupt("a value that no container has"));
            }
        }
        column.starts.push(column.lists.len() as u32);
        r.end()?;
        Ok(column)
    }

    fn cell(&mut self, r: &mut Reader<'_>, before: &mut Vec<u8>) -> Result<Cell, Corrupt> {
        Ok(match r.u8()? {
            tag::FALSE => Cell::Bool(false),
            tag::TRUE => Cell::Bool(true),
            tag::INTEGER => Cell::Integer(varint(r)?.into()),
            tag::NEGATIVE => match i64::try_from(varint(r)?) {
                Ok(n) => Cell::Integer(-1 - i128::from(n)),
                Err(_) => return Err(r.corrupt("an integer below -2^63")),
            },
            tag::FLOAT => {
                let x = f64::from_le_bytes(r.array()?);
                if x.to_bits() != (x + 0.0).to_bits() || x.is_nan() && x.to_bits() != f64::NAN.to_bits() {
                    return Err(r.corrupt("a float that is not in its canonical form"));
                }
                Cell::Float(x)
            }
            tag::TEXT => {
                let shared = varint(r)?;
                let rest = count(r, 1)?;
                let kept = usize::try_from(shared).ok().filter(|n| *n <= before.len());
                let Some(kept) = kept.filter(|kept| kept + rest <= MAX_TEXT) else {
                    return Err(r.corrupt(format!("a text that shares {shared} bytes and has {rest} more")));
                };
                before.truncate(kept);
                before.extend_from_slice(r.take(rest)?);
                let Ok(text) = std::str::from_utf8(before) else {
                    return Err(r.corrupt("a text is not UTF-8"));
                };
                let start = self.texts.len();
                self.texts.push_str(text);
                let Ok(end) = u32::try_from(self.texts.len()) else {
                    return Err(r.corrupt("texts of more than 4 GiB"));
                };
                Cell::Text(start as u32, end)
            }
            other => return Err(r.corrupt(format!("a value of the unknown type {other}"))),
        })
    }

    fn borrow(&self, cell: Cell) -> Borrowed<'_> {
        match cell {
            Cell::Bool(b) => Borrowed::Bool(b),
            Cell::Integer(n) => Borrowed::Integer(n),
            Cell::Float(x) => Borrowed::Float(x),
            Cell::Text(from, to) => {
                Borrowed::Text(self.texts.get(from as usize..to as usize).unwrap_or_default())
            }
        }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// One value.
    pub(crate) fn value(&self, n: usize) -> Option<Borrowed<'_>> {
        self.cells.get(n).map(|&cell| self.borrow(cell))
    }

    /// The containers of a range of values.
    pub(crate) fn containers(&self, values: std::ops::Range<usize>) -> &[u32] {
        let at = |n: usize| self.starts.get(n).map_or(self.lists.len(), |&start| start as usize);
        self.lists.get(at(values.start)..at(values.end)).unwrap_or_default()
    }

    /// The index of the first value for which the test is false; it must hold for all values before it.
    pub(crate) fn partition(&self, holds: impl Fn(Borrowed<'_>) -> bool) -> usize {
        self.cells.partition_point(|&cell| holds(self.borrow(cell)))
    }

    /// The values of a class.
    pub(crate) fn class(&self, class: Class) -> std::ops::Range<usize> {
        self.partition(|v| v.class() < class)..self.partition(|v| v.class() <= class)
    }

    /// Approximate bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.texts.len() + 4 * (self.starts.len() + self.lists.len())
    }
}
