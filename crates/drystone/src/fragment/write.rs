//! Writes a fragment: each piece is put as blocks.
//!
//! The parts of a fragment in one member are gathered. The bytes of the member that they contain are put, and the
//! other bytes stay unchanged.

use drystone_dataset::Writable;

use super::piece::{Part, Piece, Places};
use super::{FragmentHandle, Shown, bounded, check_span, piece, resize};
use crate::base::array::Source;
use crate::schema::member::Column;
use crate::{BlockSink, Error, Result};

/// The most blocks for one piece, if a fragment has steps between its indices.
const MAX_BLOCKS: u64 = 4096;

impl FragmentHandle {
    /// Puts the fragment's memory through a writer, into its open step if variables have steps. Values outside the
    /// dataset are not written.
    ///
    /// Errors: `InvalidArgument` if an element of the dataset is shown twice; `Unsupported` for indices so far apart
    /// that they would need more than 4096 blocks.
    pub fn write(&self, writer: &impl BlockSink, data: &[u8]) -> Result<()> {
        self.check_memory(data.len())?;
        let pieces = self.to_write()?;
        let mut buffer = Vec::new();
        for piece in pieces {
            let shown = self.column(&piece)?;
            let item = shown.column.item;
            let columns = columns(shown, &held(shown, &piece.parts));
            if let [part] = &piece.parts[..]
                && let Some((offset, strides)) = part.direct(item)
            {
                put(writer, shown, &columns, &piece, data, offset, strides)?;
                continue;
            }
            for piece in bounded(piece, item) {
                let shape = piece.shape();
                resize(&mut buffer, shape.iter().fold(item, |bytes, n| bytes.saturating_mul(*n)))?;
                for part in &piece.parts {
                    part.gather(&shape, item, data, &mut buffer)?;
                }
                let strides = crate::base::array::dense_strides(&shape, item)?;
                put(writer, shown, &columns, &piece, &buffer, 0, &strides)?;
            }
        }
        Ok(())
    }

    /// The pieces, if they can be written exactly.
    fn to_write(&self) -> Result<Vec<Piece>> {
        let name = &self.layout.name;
        match self.layout.writable().map_err(|e| Error::unsupported(e.to_string()))? {
            Writable::Yes => {}
            Writable::No { column, .. } => {
                return Err(Error::invalid(format!(
                    "the fragment \"{name}\" shows an element of {column} twice: it can only be read"
                )));
            }
            Writable::NotProven { column, .. } => {
                return Err(Error::unsupported(format!(
                    "the fragment \"{name}\" may show an element of {column} twice: it can only be read"
                )));
            }
        }
        let mut bounds = Vec::with_capacity(self.columns.len());
        for shown in &self.columns {
            let variable = self.stored(shown)?;
            let grows = |(n, grows): (&u64, &bool)| if *grows { u64::MAX } else { *n };
            bounds.push(variable.shape.iter().zip(&variable.growable).map(grows).collect());
        }
        let pieces = piece::pieces(&self.layout, &self.leaves, &self.columns, &bounds)?;
        for piece in &pieces {
            let shown = self.column(piece)?;
            let apart = piece.axes.iter().filter(|axis| axis.step.unsigned_abs() > 1);
            let blocks = apart.fold(1u64, |blocks, axis| blocks.saturating_mul(axis.count));
            if blocks > MAX_BLOCKS {
                return Err(Error::unsupported(format!(
                    "the fragment \"{name}\" would become {blocks} blocks of {}, at most {MAX_BLOCKS} are written; \
                     write a fragment without steps between its indices",
                    shown.label()
                )));
            }
        }
        Ok(pieces)
    }
}

/// For each byte of the member, whether the parts contain it.
pub(super) fn held(shown: &Shown, parts: &[Part]) -> Vec<bool> {
    let item = shown.column.item;
    if parts.len() == 1 && parts.iter().all(|part| part.direct(item).is_some()) {
        return vec![true; item as usize];
    }
    let mut held = vec![false; item as usize];
    for part in parts {
        let inner = match &part.places {
            Places::Strided { inner, .. } => &inner[..],
            Places::Curve { .. } => &[],
        };
        let mut places = vec![part.at as i64];
        for (n, stride, _) in inner {
            let along = |at: &i64| (0..*n).map(|i| at + stride * i as i64).collect::<Vec<_>>();
            places = places.iter().flat_map(along).collect();
        }
        for at in places {
            let range = at as usize..(at as u64 + part.size) as usize;
            held.get_mut(range).into_iter().flatten().for_each(|byte| *byte = true);
        }
    }
    held
}

/// The parts of the member's leaves that are contained, as columns in an element of the member.
fn columns(shown: &Shown, held: &[bool]) -> Vec<Column> {
    let mut out = Vec::new();
    for column in &shown.stored {
        let leaf = &column.leaf;
        let bytes = held.get(leaf.offset as usize..(leaf.offset + leaf.size) as usize).unwrap_or_default();
        let mut from = 0;
        for run in bytes.chunk_by(|a, b| a == b) {
            let to = from + run.len() as u32;
            if run.first() == Some(&true) {
                out.push(column.narrowed(from..to));
            }
            from = to;
        }
    }
    out
}

/// Puts a box whose first cell is at `offset` of `data`: as one block, or as one block per index if indices are not
/// adjacent.
fn put(
    writer: &impl BlockSink,
    shown: &Shown,
    columns: &[Column],
    piece: &Piece,
    data: &[u8],
    offset: i64,
    strides: &[i64],
) -> Result<()> {
    if let Some(axis) = piece.axes.iter().position(|axis| axis.step.unsigned_abs() > 1 && axis.count > 1) {
        let (count, stride) =
            (piece.axes.get(axis).map_or(0, |a| a.count), strides.get(axis).copied().unwrap_or(0));
        for n in 0..count {
            let mut one = piece.cut(axis, n, 1);
            if let Some(a) = one.axes.get_mut(axis) {
                a.step = 1;
            }
            put(writer, shown, columns, &one, data, offset + stride * n as i64, strides)?;
        }
        return Ok(());
    }
    let (shape, mut strides, mut offset) = (piece.shape(), strides.to_vec(), offset);
    let mut first = Vec::with_capacity(shape.len());
    for (axis, stride) in piece.axes.iter().zip(&mut strides) {
        let steps = axis.count.saturating_sub(1);
        if axis.step < 0 {
            first.push(axis.cell(steps));
            offset += *stride * steps as i64;
            *stride = -*stride;
        } else {
            first.push(axis.start);
        }
    }
    let item = shown.column.item;
    check_span(offset, &shape, &strides, item, data.len())?;
    // SAFETY: every element lies inside `data` (checked above), which is borrowed for the call.
    let source =
        unsafe { Source::new(data.as_ptr().offset(offset as isize), &shape, &strides, item as usize)? };
    writer.put_columns(&shown.declared.name, columns, &source, Some(&first))
}
