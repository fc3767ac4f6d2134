//! The order of the cells in a decoded subchunk (docs/format/block-index.md, Layouts).
//!
//! A cell is `room` bytes: one element of a member, or elements of several members of a record side by side.
//! Each member has an entry of its own that states its offset in the cell; the piece is the same in all these
//! entries.

use std::fmt;

use crate::cbor::{Sink, Source};
use crate::{Corrupt, MAX_NDIM};

/// Most bytes of a cell.
pub const MAX_ROOM: u32 = 1 << 16;

/// The arrangement of a subchunk's elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// Dense row-major.
    #[default]
    Dense,
    /// Cells in another order than row-major, or wider than one element.
    Cells(Cells),
    /// Dense boxes of several steps, one after the other, as in the chunk of a published array. It exists only in
    /// memory; no stored entry has it.
    Stacked {
        /// How many boxes a subchunk decodes to.
        boxes: u32,
        /// The number of the entry's box.
        number: u32,
    },
    /// A layout that this version does not know. The entry cannot be read.
    Unknown(u32),
}

/// Cells of `room` bytes, with the member's element at offset `at`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cells {
    /// Bytes from one cell to the next, 1..=[`MAX_ROOM`].
    pub room: u32,
    /// Bytes from the beginning of the cell to the element.
    pub at: u32,
    /// The order of cells.
    pub order: Order,
}

/// An order of cells.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Order {
    /// The dimensions from the slowest to the contiguous one.
    Dims(Vec<u8>),
    /// Along the Morton curve through the smallest enclosing cube of a power-of-two side, without gaps.
    Morton,
    /// The same along the Hilbert curve.
    Hilbert,
}

impl fmt::Display for Layout {
    /// The layout as text; empty for dense row-major.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Dense => Ok(()),
            Layout::Stacked { boxes, number } => write!(f, "box {number} of {boxes}"),
            Layout::Unknown(number) => write!(f, "layout {number}"),
            Layout::Cells(cells) => {
                match &cells.order {
                    Order::Morton => f.write_str("morton")?,
                    Order::Hilbert => f.write_str("hilbert")?,
                    Order::Dims(dims) if dims.is_sorted() => f.write_str("row")?,
                    Order::Dims(dims) => {
                        let dims: Vec<String> = dims.iter().map(u8::to_string).collect();
                        write!(f, "perm({})", dims.join(", "))?;
                    }
                }
                write!(f, ", cells of {} bytes", cells.room)
            }
        }
    }
}

impl Layout {
    /// The order of cells, if it is not dense row-major.
    pub fn order(&self) -> Option<&Order> {
        if let Layout::Cells(cells) = self { Some(&cells.order) } else { None }
    }

    /// Number of pairs that the layout adds to a dictionary item after key 2.
    pub(crate) fn pairs(&self) -> usize {
        if matches!(self, Layout::Cells(_)) { 3 } else { 0 }
    }

    pub(crate) fn number(&self) -> u32 {
        match self {
            Layout::Dense | Layout::Stacked { .. } => 0,
            Layout::Cells(_) => 1,
            Layout::Unknown(number) => *number,
        }
    }

    /// Writes keys 3 to 6.
    pub(crate) fn encode(&self, out: &mut Sink) {
        let Layout::Cells(cells) = self else { return };
        out.u64(3).u64(cells.room.into()).u64(4).u64(cells.at.into());
        match &cells.order {
            Order::Dims(dims) => {
                out.u64(5).array(dims.len());
                for d in dims {
                    out.u64((*d).into());
                }
            }
            Order::Morton => drop(out.u64(6).u64(1)),
            Order::Hilbert => drop(out.u64(6).u64(2)),
        }
    }

    /// Checks the layout against the entry it is in.
    pub(crate) fn validate(&self, item: u32, ndim: usize) -> Result<(), String> {
        if let Layout::Stacked { boxes, number } = self
            && number >= boxes
        {
            return Err(format!("box {number} of {boxes}"));
        }
        let Layout::Cells(cells) = self else { return Ok(()) };
        if cells.room == 0
            || cells.room > MAX_ROOM
            || cells.at.checked_add(item).is_none_or(|end| end > cells.room)
        {
            return Err(format!("{item} bytes at {} of a cell of {}", cells.at, cells.room));
        }
        if ndim == 0 && !matches!(cells.order, Order::Dims(_)) {
            return Err("a single value along a curve".into());
        }
        if let Order::Dims(dims) = &cells.order {
            let mut seen = [false; MAX_NDIM];
            for d in dims {
                match seen.get_mut(usize::from(*d)) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err(format!("an order of dimensions {dims:?}")),
                }
            }
            if dims.len() != ndim || !seen.iter().take(ndim).all(|seen| *seen) {
                return Err(format!("an order of dimensions {dims:?} for {ndim}"));
            }
        }
        Ok(())
    }
}

/// The parts of a layout that were read so far.
#[derive(Default)]
pub(crate) struct Parts {
    room: Option<u32>,
    at: Option<u32>,
    order: Option<Order>,
}

impl Parts {
    /// Reads the value of key 3, 4, 5 or 6 of layout 1 or 2.
    pub(crate) fn take(&mut self, source: &mut Source<'_>, key: u64) -> Result<(), Corrupt> {
        match key {
            3 => self.room = Some(source.u32()?),
            4 => self.at = Some(source.u32()?),
            5 => {
                let n = source.array()?;
                if n > MAX_NDIM as u64 {
                    return Err(source.corrupt(format!("an order of {n} dimensions")));
                }
                let dims = (0..n).map(|_| source.u8()).collect::<Result<_, _>>()?;
                self.order = Some(Order::Dims(dims));
            }
            _ if self.order.is_some() => return Err(source.corrupt("two orders of cells")),
            _ => {
                self.order = Some(match source.u64()? {
                    1 => Order::Morton,
                    2 => Order::Hilbert,
                    other => return Err(source.corrupt(format!("a curve {other}"))),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self, number: u32, source: &Source<'_>) -> Result<Layout, Corrupt> {
        Ok(match number {
            0 => Layout::Dense,
            2 if self.room.is_none() && self.at.is_none() && self.order.is_none() => Layout::Dense,
            1 | 2 => Layout::Cells(Cells {
                room: source.need(self.room, "room of a cell")?,
                at: source.need(self.at, "place in a cell")?,
                order: source.need(self.order, "order of cells")?,
            }),
            number => Layout::Unknown(number),
        })
    }
}
