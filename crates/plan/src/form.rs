//! Where the cells of a decoded subchunk lie, as its entry's layout says.
//!
//! Code that asks for byte ranges or strides of a part visits the dimensions in stored order, from the slowest on.
//! Along the contiguous dimension, cells are `room` bytes apart; the element is the `item` bytes at offset `at` of each
//! cell.

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_format::layout::{Layout, Order};
use drystone_transform::Logical;
use drystone_transform::stats::ScalarKind;

/// A curve that orders the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Curve {
    Morton,
    Hilbert,
}

/// The arrangement of the cells of one entry's subchunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Bytes of an element.
    pub item: u64,
    /// Bytes from one cell to the next.
    pub room: u64,
    /// Bytes from the beginning of a cell to the element.
    pub at: u64,
    /// Bytes of an entry's element in a cell: several scalars if a member is an array. `item` may be a part of them.
    pub element: u64,
    /// The curve, if cells follow one; strides then mean nothing.
    pub curve: Option<Curve>,
    ndim: u8,
    order: [u8; MAX_NDIM],
}

impl Form {
    /// Dense row-major elements of `item` bytes.
    pub fn dense(ndim: usize, item: u64) -> Form {
        let order = std::array::from_fn(|d| d as u8);
        Form { item, room: item, at: 0, element: item, curve: None, ndim: ndim.min(MAX_NDIM) as u8, order }
    }

    /// The form of an entry, which was validated; `None` if its layout is unknown.
    pub fn of(entry: &Entry) -> Option<Form> {
        let dense = Form::dense(entry.ndim.into(), entry.encoding.item.into());
        let cells = match &entry.encoding.layout {
            Layout::Dense => return Some(dense),
            // Such an entry is one subchunk, its box.
            Layout::Stacked { number, .. } => {
                let slab = entry.cells().and_then(|n| n.checked_mul(dense.item))?;
                return Some(Form { at: slab.checked_mul(u64::from(*number))?, ..dense });
            }
            Layout::Cells(cells) => cells,
            Layout::Unknown(_) => return None,
        };
        Some(dense.arranged(cells.room.into(), cells.at.into(), Some(&cells.order)))
    }

    /// The bytes from `from` on of each element; `None` if they are not inside it.
    pub fn within(mut self, from: u64, item: u64) -> Option<Form> {
        from.checked_add(item).filter(|end| *end <= self.element)?;
        self.at = self.at.checked_add(from)?;
        self.item = item;
        Some(self)
    }

    /// The same elements at `at` of cells of `room` bytes, in another order (`None`: row-major).
    pub fn arranged(mut self, room: u64, at: u64, order: Option<&Order>) -> Form {
        (self.room, self.at) = (room, at);
        match order {
            None => {}
            Some(Order::Dims(dims)) => self.order.iter_mut().zip(dims).for_each(|(to, d)| *to = *d),
            Some(Order::Morton) => self.curve = Some(Curve::Morton),
            Some(Order::Hilbert) => self.curve = Some(Curve::Hilbert),
        }
        self
    }

    /// The same cells row by row, this element alone: the result of unrolling a curve.
    pub fn unrolled(&self) -> Form {
        Form::dense(self.ndim.into(), self.item)
    }

    /// The description of a subchunk that transforms get, from its row-major description: its cells in stored order,
    /// extents from the slowest; along a curve it has one axis. Cells with more than one element are described as
    /// bytes.
    pub fn logical(&self, rows: &Logical) -> Logical {
        let shape = match self.curve {
            Some(_) => vec![rows.shape.iter().fold(1u64, |cells, n| cells.saturating_mul(*n))],
            None => self.dims().filter_map(|d| rows.shape.get(d)).copied().collect(),
        };
        if self.room == self.element {
            return Logical { shape, item: self.element as usize, ..rows.clone() };
        }
        Logical { item: self.room as usize, scalar: 1, kind: ScalarKind::Other, shape }
    }

    /// Dimensions from the slowest to the contiguous one.
    pub fn dims(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.order.iter().take(self.ndim.into()).map(|d| usize::from(*d).min(MAX_NDIM - 1))
    }

    /// Bytes between neighbours along each dimension of a subchunk of this shape; saturating.
    pub fn strides(&self, shape: &[u64; MAX_NDIM]) -> [u64; MAX_NDIM] {
        let mut strides = [0; MAX_NDIM];
        let mut row = self.room;
        for d in self.dims().rev() {
            strides[d] = row;
            row = row.saturating_mul(shape[d]);
        }
        strides
    }
}
