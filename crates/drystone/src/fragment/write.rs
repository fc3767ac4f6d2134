//! Writing a fragment: each piece is put as blocks.
//!
//! A member is stored whole, so the parts of a fragment that lie in one member are gathered, and together must fill it.

use drystone_dataset::Writable;
use drystone_format::dtype::DType;

use super::piece::{Part, Piece, Places};
use super::{FragmentHandle, Shown, bounded, check_span, piece, resize};
use crate::array::Source;
use crate::{BlockSink, Error, Result};

/// Blocks that one piece of a fragment with steps between its indices may become.
const MAX_BLOCKS: u64 = 4096;

impl FragmentHandle {
    /// Puts the fragment's memory through a writer, into its open step where variables have steps. What lies outside of the
    /// dataset is not written.
    ///
    /// `InvalidArgument` if an element of the dataset is shown twice; `Unsupported` if the fragment holds a part of a member
    /// that is stored whole, or indices so far apart that they would become more than 4096 blocks.
    pub fn write(&self, writer: &impl BlockSink, data: &[u8]) -> Result<()> {
        self.check_memory(data.len())?;
        let pieces = self.to_write()?;
        let mut buffer = Vec::new();
        for piece in pieces {
            let shown = self.column(&piece)?;
            let item = shown.column.item;
            if let [part] = &piece.parts[..]
                && let Some((offset, strides)) = part.direct(item)
            {
                put(writer, shown, &piece, data, offset, strides)?;
                continue;
            }
            for piece in bounded(piece, item) {
                let shape = piece.shape();
                resize(&mut buffer, shape.iter().fold(item, |bytes, n| bytes.saturating_mul(*n)))?;
                for part in &piece.parts {
                    part.gather(&shape, item, data, &mut buffer)?;
                }
                let strides = crate::array::dense_strides(&shape, item)?;
                put(writer, shown, &piece, &buffer, 0, &strides)?;
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
            if !fills(shown, &piece.parts) {
                return Err(Error::unsupported(format!(
                    "the fragment \"{name}\" holds a part of {}, which is stored whole; write all of it",
                    shown.label()
                )));
            }
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

/// Whether the parts together hold every byte of the member that means something.
fn fills(shown: &Shown, parts: &[Part]) -> bool {
    let item = shown.column.item;
    if parts.len() == 1 && parts.iter().all(|part| part.direct(item).is_some()) {
        return true;
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
    let element = u64::from(shown.column.dtype.item_size());
    let meant = match &shown.column.dtype {
        dtype @ DType::Record(_) => {
            dtype.leaves().iter().map(|l| (u64::from(l.offset), u64::from(l.size))).collect()
        }
        _ => vec![(0, element)],
    };
    (0..item / element.max(1)).all(|n| {
        meant.iter().all(|(offset, size)| {
            let first = (n * element + offset) as usize;
            held.get(first..first + *size as usize).is_some_and(|bytes| bytes.iter().all(|byte| *byte))
        })
    })
}

/// Puts a box whose first cell lies at `offset` of `data`: as one block, or as one per index where indices lie apart.
fn put(
    writer: &impl BlockSink,
    shown: &Shown,
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
            put(writer, shown, &one, data, offset + stride * n as i64, strides)?;
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
    writer.put(
        &shown.declared.name,
        &shown.column.dtype,
        &source,
        Some(&first),
        shown.column.field.as_deref(),
    )
}
