//! The order of cells along a curve, by tables that are made once per shape.

use std::sync::{Arc, Mutex};

use drystone_curve::{self as curve, ranks};
use drystone_plan::form::{Curve, Form};

use crate::base::sync::lock;
use crate::{Error, Result};

/// The most cells of a subchunk along a curve (docs/format/block-index.md).
pub(crate) const MOST_CELLS: u64 = 1 << 20;
/// The most tables that are kept. The blocks of one variable have few shapes.
const KEPT: usize = 4;

type Key = (Curve, Vec<u64>);

static RECENT: Mutex<Vec<(Key, Arc<Vec<u32>>)>> = Mutex::new(Vec::new());

/// For every cell of a shape, in row-major order, its position along the curve.
pub(crate) struct Table(Arc<Vec<u32>>);

impl Table {
    pub(crate) fn new(curve: Curve, shape: &[u64]) -> Result<Table> {
        let cells = shape.iter().try_fold(1u64, |cells, n| cells.checked_mul(*n));
        if cells.is_none_or(|cells| cells > MOST_CELLS) {
            return Err(Error::unsupported(format!(
                "a subchunk of shape {shape:?} along a curve: at most {MOST_CELLS} cells are possible"
            )));
        }
        let key = (curve, shape.to_vec());
        {
            let mut recent = lock(&RECENT);
            if let Some(at) = recent.iter().position(|(k, _)| *k == key) {
                let found = recent.remove(at);
                let table = found.1.clone();
                recent.push(found);
                return Ok(Table(table));
            }
        }
        let which = match curve {
            Curve::Morton => curve::Curve::Morton,
            Curve::Hilbert => curve::Curve::Hilbert,
        };
        let made = ranks(which, shape).map_err(|e| Error::unsupported(format!("shape {shape:?}: {e}")))?;
        let made = Arc::new(made);
        let mut recent = lock(&RECENT);
        if recent.len() >= KEPT {
            recent.remove(0);
        }
        recent.push((key, made.clone()));
        Ok(Table(made))
    }

    /// Moves cells of `room` bytes from row-major order to their positions along the curve. `None` if a length does
    /// not fit.
    pub(crate) fn roll(&self, rows: &[u8], room: usize, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        out.resize(rows.len(), 0);
        for (cell, rank) in rows.chunks_exact(room).zip(self.0.iter()) {
            let at = *rank as usize * room;
            out.get_mut(at..at + room)?.copy_from_slice(cell);
        }
        (rows.len() == self.0.len() * room).then_some(())
    }

    /// Moves the elements of one member from cells along the curve to dense row-major order. `None` if a length does
    /// not fit.
    pub(crate) fn unroll(&self, stored: &[u8], form: &Form, out: &mut Vec<u8>) -> Option<()> {
        let (room, at, item) = (form.room as usize, form.at as usize, form.item as usize);
        out.clear();
        out.resize(self.0.len() * item, 0);
        for (cell, rank) in out.chunks_exact_mut(item).zip(self.0.iter()) {
            let from = *rank as usize * room + at;
            cell.copy_from_slice(stored.get(from..from + item)?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_format::layout::Order;

    #[test]
    fn rolled_cells_unroll_to_their_members() {
        let shape = [5, 3, 4];
        let rows: Vec<u8> = (0..60 * 3).map(|n| n as u8).collect();
        for curve in [Curve::Morton, Curve::Hilbert] {
            let table = Table::new(curve, &shape).unwrap();
            let (mut stored, mut out) = (Vec::new(), Vec::new());
            table.roll(&rows, 3, &mut stored).unwrap();
            assert_ne!(stored, rows);
            let order = if curve == Curve::Morton { Order::Morton } else { Order::Hilbert };
            let form = Form::dense(3, 2).arranged(3, 1, Some(&order));
            table.unroll(&stored, &form, &mut out).unwrap();
            let expected: Vec<u8> = rows.chunks(3).flat_map(|cell| cell[1..].to_vec()).collect();
            assert_eq!(out, expected);
            assert!(table.roll(&rows[3..], 3, &mut stored).is_none());
            assert!(table.unroll(&stored[..3], &form, &mut out).is_none());
        }
        assert!(Table::new(Curve::Hilbert, &[1 << 11, 1 << 11]).is_err());
    }
}
