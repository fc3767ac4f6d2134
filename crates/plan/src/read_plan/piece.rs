//! Validates an entry and its stored pieces before their numbers are used, since all of them come from disk.

use std::ops::Range;

use drystone_format::entry::{Entry, StoredPiece};
use drystone_format::table::{Prefix, Subchunk};
use drystone_transform::{Bound, Precision};

use super::{PlanError, Slot};
use crate::form::Form;
use crate::parts::SubchunkPart;

/// How a block is stored, validated.
pub(super) struct StoredForm {
    raw: bool,
    pub(super) form: Form,
}

/// Where a subchunk is stored.
#[derive(Clone, Copy)]
pub(super) struct SubchunkLocation {
    /// The whole piece, or the rest after the prefix.
    pub(super) piece: StoredPiece,
    pub(super) prefix: Option<Prefix>,
}

impl SubchunkLocation {
    pub(super) fn whole(piece: StoredPiece) -> SubchunkLocation {
        SubchunkLocation { piece, prefix: None }
    }

    pub(super) fn of(subchunk: &Subchunk) -> SubchunkLocation {
        SubchunkLocation { piece: subchunk.piece, prefix: subchunk.prefix }
    }

    /// Bytes of the payload's prefix if that is stored apart. All lengths of a table were checked when it was decoded.
    pub(super) fn prefix_len(&self) -> u64 {
        self.prefix.map_or(0, |prefix| prefix.length)
    }

    /// Bytes of the payload.
    pub(super) fn payload_len(&self) -> u64 {
        self.prefix_len().saturating_add(self.piece.length)
    }

    /// Where in the file a range of the payload lies. The range must not begin in the prefix and end behind
    /// it.
    pub(super) fn bytes(&self, range: &Range<u64>) -> Range<u64> {
        let (from, before) = match self.prefix {
            Some(prefix) if range.end <= prefix.length => (prefix.position, 0),
            prefix => (self.piece.position, prefix.map_or(0, |prefix| prefix.length)),
        };
        let at = |place: u64| from.saturating_add(place.saturating_sub(before));
        at(range.start)..at(range.end)
    }

    /// The prefix, if it is exact enough.
    pub(super) fn enough(&self, precision: Precision) -> Option<Prefix> {
        self.prefix.filter(|prefix| match precision {
            Precision::Exact => false,
            Precision::Level(least) => u32::from(prefix.level) >= least,
            other => other.allows(&bound(prefix)),
        })
    }
}

/// The guaranteed error bound of the values in a prefix.
pub(super) fn bound(prefix: &Prefix) -> Bound {
    Bound { absolute: prefix.absolute(), relative: prefix.relative() }
}

/// Why a block cannot be read, without the block's number.
pub(super) enum Unfit {
    Corrupt(String),
    Unsupported(String),
}

impl Unfit {
    pub(super) fn at(self, slot: usize, candidate: usize) -> PlanError {
        match self {
            Unfit::Corrupt(what) => PlanError::Corrupt { slot, candidate, what },
            Unfit::Unsupported(what) => PlanError::Unsupported { slot, candidate, what },
        }
    }
}

impl StoredForm {
    /// Checks that a visible entry is consistent.
    pub(super) fn check(entry: &Entry, slot: &Slot) -> Result<StoredForm, Unfit> {
        let corrupt = |what: String| Err(Unfit::Corrupt(what));
        let ndim = usize::from(entry.ndim);
        if ndim != slot.selection.axes.len() {
            return corrupt(format!(
                "it has {ndim} dimensions where {} are selected",
                slot.selection.axes.len()
            ));
        }
        if Form::of(entry).is_none() {
            return Err(Unfit::Unsupported(format!("layout {:?}", entry.encoding.layout)));
        }
        let item = u64::from(entry.encoding.item);
        let whole = match entry.encoding.part {
            None => item == slot.whole,
            Some(from) => u64::from(from).checked_add(item).is_some_and(|end| end <= slot.whole),
        };
        let Some(form) = slot.form(entry).filter(|_| whole) else {
            return corrupt(format!("its elements have {item} bytes where {} are wanted", slot.whole));
        };
        entry.validate().map_err(Unfit::Corrupt)?;
        Ok(StoredForm { raw: entry.encoding.chain.is_empty(), form })
    }

    /// Checks that the table of a cut block lists its subchunks. An uncut block has none.
    pub(super) fn check_table(&self, entry: &Entry, table: &[Subchunk]) -> Result<(), Unfit> {
        let listed = table.len() as u64;
        if entry.subchunks > 1 && listed != entry.subchunks {
            let what = format!("its table has {listed} subchunks where {} are announced", entry.subchunks);
            return Err(Unfit::Corrupt(what));
        }
        Ok(())
    }

    /// Checks the stored lengths against the subchunk that the index says they hold.
    pub(super) fn check_place(&self, place: &SubchunkLocation, part: &SubchunkPart) -> Result<(), Unfit> {
        let piece = &place.piece;
        let corrupt = |what: String| Err(Unfit::Corrupt(format!("subchunk {}: {what}", part.subchunk)));
        if let Err(what) = piece.validate() {
            return corrupt(what);
        }
        if self.raw && place.prefix.is_some() {
            return corrupt("a prefix of a raw subchunk".into());
        }
        let cells = part.chunk_shape.iter().try_fold(1u64, |cells, &edge| cells.checked_mul(edge));
        let decoded = cells.and_then(|cells| cells.checked_mul(self.form.room));
        if piece.length == 0 || (self.raw && decoded != Some(piece.length)) {
            let cells = cells.map_or("2^64 or more".into(), |cells| cells.to_string());
            return corrupt(format!("{cells} cells stored in {} bytes", piece.length));
        }
        Ok(())
    }

    /// Bytes of a raw piece that can be read and verified alone; 0 if the piece must be read whole.
    pub(super) fn unit(&self, piece: &StoredPiece) -> u64 {
        if self.raw && self.form.curve.is_none() { StoredForm::any_unit(piece) } else { 0 }
    }

    /// The same for an encoded piece; 0 unless its transform can decode parts.
    pub(super) fn coded_unit(&self, piece: &StoredPiece) -> u64 {
        if self.raw { 0 } else { StoredForm::any_unit(piece) }
    }

    fn any_unit(piece: &StoredPiece) -> u64 {
        if piece.trailer > 0 && piece.unit_log2 > 0 { piece.unit() } else { 0 }
    }
}
