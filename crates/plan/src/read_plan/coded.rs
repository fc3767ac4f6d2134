//! Encoded subchunks that can be read in part: which bytes their transform needs, at check units.

use std::ops::Range;

use drystone_format::entry::{Entry, Stats, StoredPiece};
use drystone_transform::stats::Magnitudes;
use drystone_transform::{
    Bound, Chain, Logical, MAX_DECODED_LEN, Precision, StoredSubchunk, TransformError, Want,
};

use super::cells::Cells;
use super::piece::{SubchunkLocation, Unfit};
use super::{Options, PUBLISHED, Slot};
use crate::form::Form;
use crate::parts::SubchunkPart;
use crate::ranges::{at_units, decoded_len};

/// What is read of a piece, and how exact the result is.
pub(super) struct Coded {
    /// Ascending, at check units, merged where they lie at most the gap apart.
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) bound: Bound,
}

/// Whether a partial read can be cheaper than a whole one. It takes two requests: one for the trailer, and one that
/// depends on it. It is not cheaper if the piece's bytes cost hardly more than a request. For exact values it is not
/// cheaper either if all cells are wanted, or if most of the piece is wanted and costs no more than both requests,
/// unless it is `alone` in the read (whole neighbours share a request).
pub(super) fn pays(
    place: &SubchunkLocation,
    part: &SubchunkPart,
    cells: Option<&Cells>,
    alone: bool,
    (options, precision): (&Options, Precision),
) -> bool {
    match precision {
        Precision::Exact if is_all(part, cells) => false,
        Precision::Exact if !alone => place.payload_len() > options.gap.saturating_mul(2),
        _ => place.payload_len() > options.gap,
    }
}

fn is_all(part: &SubchunkPart, cells: Option<&Cells>) -> bool {
    cells.map_or_else(|| part.is_whole(), |cells| cells.count() >= decoded_len(part, 1))
}

/// The decoded bytes that hold the cells of a part, or the listed cells: the ranges that the transform decodes.
pub(super) fn wanted(part: &SubchunkPart, cells: Option<&Cells>, form: &Form) -> Vec<Range<u64>> {
    let len = decoded_len(part, form.room);
    match cells {
        None => crate::ranges::wanted(part, form),
        Some(_) if form.curve.is_some() => std::iter::once(0..len).collect(),
        Some(cells) => cells.wanted(form.room, len),
    }
}

/// The decoded chain of the last block: neighbours mostly share it.
#[derive(Default)]
pub(super) struct Chains {
    last: Option<(String, Result<Chain, TransformError>)>,
    /// The error bound of the blocks of the last slot, from which the published replica was made.
    published: Option<(usize, Bound)>,
}

impl Chains {
    fn get(&mut self, text: &str) -> &Result<Chain, TransformError> {
        match self.last.take() {
            Some(kept) if kept.0 == text => &self.last.insert(kept).1,
            _ => &self.last.insert((text.to_owned(), Chain::parse(text))).1,
        }
    }

    /// The largest error of the values of a block, or of one of its subchunks, against the values that were put.
    /// `shape` is that of the cells decoded at once, if known.
    pub(super) fn loss(
        &mut self,
        entry: &Entry,
        (number, slot): (usize, &Slot),
        shape: &[u64],
        stats: &Stats,
    ) -> Bound {
        if entry.encoding.replica == PUBLISHED {
            return self.published_loss(number, slot);
        }
        if entry.encoding.chain.is_empty() {
            return Bound::EXACT;
        }
        let Ok(chain) = self.get(&entry.encoding.chain) else { return Bound::UNKNOWN };
        if !chain.is_lossy() {
            return Bound::EXACT;
        }
        let Some(form) = slot.form(entry) else { return Bound::UNKNOWN };
        let logical = form.logical(&slot.logical(shape));
        let magnitudes = Magnitudes::between(slot.kind, stats.min_max, stats.nans);
        let shape = if shape.is_empty() { Vec::new() } else { logical.shape };
        chain.loss(&Logical { shape, ..logical }, magnitudes)
    }

    /// The error bound of a published replica: that of the blocks that were put and published.
    fn published_loss(&mut self, number: usize, slot: &Slot) -> Bound {
        if let Some((_, bound)) = self.published.filter(|(known, _)| *known == number) {
            return bound;
        }
        let put = slot.candidates.iter().map(|c| &c.entry).filter(|e| e.encoding.replica == 0);
        let lost = |all: Bound, entry: &Entry| all.max(self.loss(entry, (number, slot), &[], &entry.stats));
        let bound = put.fold(Bound::EXACT, lost);
        self.published = Some((number, bound));
        bound
    }

    /// Determines which bytes of an encoded piece its transform needs for a part.
    pub(super) fn ask(
        &mut self,
        entry: &Entry,
        slot: &Slot,
        (part, cells): (&SubchunkPart, Option<&Cells>),
        place: &SubchunkLocation,
        meta: &[u8],
        (options, precision): (&Options, Precision),
    ) -> Result<Coded, Unfit> {
        let (piece, before, payload_len) = (&place.piece, place.prefix_len(), place.payload_len());
        let apart = |ranges: &[Range<u64>]| in_two(ranges, before, piece, options.gap);
        let whole = || Coded { ranges: apart(&[0..payload_len]), bound: Bound::EXACT };
        let ndim = usize::from(entry.ndim);
        let Some(form) = slot.form(entry) else { return Ok(whole()) };
        let len = decoded_len(part, form.room);
        let (Ok(chain), Some(shape)) = (self.get(&entry.encoding.chain), part.chunk_shape.get(..ndim)) else {
            return Ok(whole()); // the read reports what is unknown
        };
        if len > MAX_DECODED_LEN as u64 {
            return Err(Unfit::Corrupt(format!("subchunk {}: {len} bytes when decoded", part.subchunk)));
        }
        let logical = form.logical(&slot.logical(shape));
        let stored = StoredSubchunk { len: payload_len, meta, decoded_len: len as usize };
        let want = Want { ranges: &wanted(part, cells, &form), precision };
        let planned = chain.plan_read(&stored, &logical, &want).map_err(|error| match error {
            TransformError::Unsupported { .. } => Unfit::Unsupported(error.to_string()),
            _ => Unfit::Corrupt(format!("subchunk {}: {error}", part.subchunk)),
        })?;
        Ok(Coded { ranges: apart(&planned.ranges), bound: planned.bound })
    }
}

/// Ranges of a payload whose prefix of `before` bytes is stored apart. The prefix is read whole or not at all; the rest
/// is read at check units.
fn in_two(ranges: &[Range<u64>], before: u64, piece: &StoredPiece, gap: u64) -> Vec<Range<u64>> {
    let behind = |at: u64| at.saturating_sub(before);
    let rest: Vec<Range<u64>> =
        ranges.iter().map(|r| behind(r.start)..behind(r.end)).filter(|r| !r.is_empty()).collect();
    let mut out = Vec::with_capacity(rest.len() + 1);
    if ranges.first().is_some_and(|first| first.start < before) {
        out.push(0..before);
    }
    let rest = at_units(&rest, piece.unit(), piece.length, gap);
    out.extend(rest.iter().map(|r| before.saturating_add(r.start)..before.saturating_add(r.end)));
    out
}
