//! Encoded subchunks that can be read in part: what their transform asks for, at check units.

use std::ops::Range;

use drystone_format::entry::{Entry, Piece};
use drystone_transform::{Bound, Chain, Logical, MAX_DECODED_LEN, Precision, Stored, TransformError, Want};

use super::cells::Cells;
use super::piece::Unfit;
use super::{Options, Slot};
use crate::form::Form;
use crate::parts::Part;
use crate::ranges::{at_units, decoded_len};

/// What is read of a piece, and how exact it then is.
pub(super) struct Coded {
    /// Ascending, at check units, merged where they lie at most the gap apart.
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) bound: Bound,
}

/// Whether to ask for less than the piece can pay at all: not where all cells are wanted exactly, nor where the piece costs
/// hardly more than a request.
pub(super) fn pays(piece: &Piece, part: &Part, cells: Option<&Cells>, options: &Options) -> bool {
    let all = options.precision == Precision::Exact && is_all(part, cells);
    !all && piece.length > options.gap
}

fn is_all(part: &Part, cells: Option<&Cells>) -> bool {
    cells.map_or_else(|| part.is_whole(), |cells| cells.count() >= decoded_len(part, 1))
}

/// The decoded bytes that hold the cells of a part, or those listed: what a transform is asked for.
pub(super) fn wanted(part: &Part, cells: Option<&Cells>, form: &Form) -> Vec<Range<u64>> {
    let len = decoded_len(part, form.room);
    match cells {
        None => crate::ranges::wanted(part, form),
        Some(_) if form.curve.is_some() => std::iter::once(0..len).collect(),
        Some(cells) => cells.wanted(form.room, len),
    }
}

/// The chain of the block last looked at: neighbours mostly share it.
#[derive(Default)]
pub(super) struct Chains {
    last: Option<(String, Result<Chain, TransformError>)>,
}

impl Chains {
    fn get(&mut self, text: &str) -> &Result<Chain, TransformError> {
        match self.last.take() {
            Some(kept) if kept.0 == text => &self.last.insert(kept).1,
            _ => &self.last.insert((text.to_owned(), Chain::parse(text))).1,
        }
    }

    /// Asks the transform of an encoded piece which bytes a part needs.
    pub(super) fn ask(
        &mut self,
        entry: &Entry,
        slot: &Slot,
        (part, cells): (&Part, Option<&Cells>),
        piece: &Piece,
        meta: &[u8],
        options: &Options,
    ) -> Result<Coded, Unfit> {
        let whole = || Coded { ranges: std::iter::once(0..piece.length).collect(), bound: Bound::EXACT };
        let ndim = usize::from(entry.ndim);
        let Some(form) = slot.form(entry) else { return Ok(whole()) };
        let len = decoded_len(part, form.room);
        let (Ok(chain), Some(shape)) = (self.get(&entry.encoding.chain), part.chunk_shape.get(..ndim)) else {
            return Ok(whole()); // whoever reads it says what is not known
        };
        if len > MAX_DECODED_LEN as u64 {
            return Err(Unfit::Corrupt(format!("subchunk {}: {len} bytes when decoded", part.subchunk)));
        }
        let logical = form.logical(&Logical {
            item: slot.item as usize,
            scalar: slot.scalar as usize,
            kind: slot.kind,
            shape: shape.to_vec(),
        });
        let stored = Stored { len: piece.length, meta, decoded_len: len as usize };
        let want = Want { ranges: &wanted(part, cells, &form), precision: options.precision };
        let planned = chain.plan_read(&stored, &logical, &want).map_err(|error| match error {
            TransformError::Unsupported { .. } => Unfit::Unsupported(error.to_string()),
            _ => Unfit::Corrupt(format!("subchunk {}: {error}", part.subchunk)),
        })?;
        let ranges = at_units(&planned.ranges, piece.unit(), piece.length, options.gap);
        Ok(Coded { ranges, bound: planned.bound })
    }
}
