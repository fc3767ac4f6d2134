//! Vectored reads: requests for raw pieces whose cells are contiguous in the caller's memory. One call reads each
//! piece directly into the target, and the bytes between pieces into a scratch buffer. Nothing is copied, and bytes
//! are verified while they are in the processor's cache.

use std::ops::Range;

use drystone_plan::read_plan::Work;
use drystone_store::StoreExt;

use super::{Asked, Buffers, Job};
use crate::Result;
use crate::base::error::must_exist;
use crate::base::error::rule_error;

/// The shortest piece that is worth a buffer of its own.
const SHORTEST: u64 = 4 << 10;
/// A call ends with the piece that makes it longer than this, so that its bytes are verified before they leave the
/// second-level cache.
pub(super) const CALL: u64 = 256 << 10;
/// The most pieces in one call. With the buffers between them that is at most 61; the store passes 64 to the kernel
/// at a time.
const PIECES: usize = 30;

/// An item of a request: its range of the request and, unless it is copied, the place of its payload in the target.
struct Piece<'p> {
    range: Range<u64>,
    work: &'p Work,
    payload: Range<u64>,
    place: Option<Range<usize>>,
}

impl Job<'_> {
    /// Executes a request with vectored reads. Returns `false` if too few of its pieces qualify.
    pub(super) fn apart(&self, fetch: &Asked, buffers: &mut Buffers) -> Result<bool> {
        let mut pieces = Vec::with_capacity(fetch.items.len());
        let (mut at, mut direct) = (fetch.range.start, 0u64);
        for (range, (number, payload)) in &fetch.items {
            let work = &self.prepared.plan.works[*number];
            if range.start < at {
                return Ok(false);
            }
            at = range.end;
            let place = self.contiguous_place(work, payload)?;
            direct += if place.is_some() { payload.end - payload.start } else { 0 };
            pieces.push(Piece { range: range.clone(), work, payload: payload.clone(), place });
        }
        if direct < fetch.len() / 2 || direct < SHORTEST * pieces.len() as u64 {
            return Ok(false);
        }
        let key = self.sources.key(fetch.source)?;
        let mut from = 0;
        while let Some(first) = pieces.get(from) {
            let long = |piece: &Piece<'_>| piece.range.end - first.range.start > CALL;
            let rest = &pieces[from..];
            let many = rest.iter().position(long).map_or(rest.len(), |n| n + 1).min(PIECES);
            self.call(&key, &rest[..many], buffers)?;
            from += many;
        }
        Ok(true)
    }

    /// Reads neighbouring pieces in one call, verifies them, and copies those that have no place in the target.
    fn call(&self, key: &str, pieces: &[Piece<'_>], buffers: &mut Buffers) -> Result<()> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let len = |range: &Range<u64>| (range.end - range.start) as usize;
        let direct = pieces.iter().filter_map(|piece| piece.place.as_ref()).map(|place| place.len());
        let beside = len(&(first.range.start..last.range.end)) - direct.sum::<usize>();
        let mut bytes = std::mem::take(&mut buffers.read);
        bytes.resize(beside, 0);
        let (out, _) = self.out.raw();
        {
            let mut parts: Vec<&mut [u8]> = Vec::with_capacity(2 * pieces.len());
            let (mut rest, mut at) = (bytes.as_mut_slice(), first.range.start);
            for piece in pieces {
                if let Some(place) = &piece.place {
                    let (before, behind) =
                        std::mem::take(&mut rest).split_at_mut(len(&(at..piece.range.start)));
                    rest = behind;
                    // SAFETY: `contiguous_place` checked that the range is inside the target. Visible boxes are
                    // disjoint, so no other thread and no other piece uses these bytes.
                    let place = unsafe { std::slice::from_raw_parts_mut(out.add(place.start), place.len()) };
                    at = piece.range.start + place.len() as u64;
                    parts.extend([before, place]);
                }
            }
            parts.push(rest);
            let failed = |e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.reading.path));
            self.reading.inner.store.read_parts(key, first.range.start, &mut parts).map_err(failed)?;
        }
        let (mut at, mut used) = (first.range.start, 0);
        for piece in pieces {
            used += len(&(at..piece.range.start));
            at = piece.range.end;
            let direct = piece.place.as_ref().map_or(0, |place| place.len());
            let item = &bytes[used..used + len(&piece.range) - direct];
            used += item.len();
            match &piece.place {
                Some(place) => {
                    // SAFETY: as above; the mutable reference to these bytes is gone.
                    let payload = unsafe { std::slice::from_raw_parts(out.add(place.start), place.len()) };
                    self.verify_raw(piece.work, item, payload, &piece.payload, &mut buffers.sums)?;
                }
                None if piece.work.whole => self.whole(&[piece.work], item, buffers)?,
                None => self.part(&[piece.work], item, &piece.payload)?,
            }
        }
        buffers.read = bytes;
        Ok(())
    }

    /// Checks the payload of a raw work. A whole payload is checked against the trailer at the end of `rest`.
    fn verify_raw(
        &self,
        work: &Work,
        rest: &[u8],
        bytes: &[u8],
        payload: &Range<u64>,
        sums: &mut Vec<u32>,
    ) -> Result<()> {
        if work.whole {
            self.verify_whole(work, rest, bytes, sums)
        } else {
            self.verify_units(work, bytes, payload)
        }
    }

    /// The range of the target that equals, byte for byte, the only raw range of a work.
    pub(super) fn contiguous_place(&self, work: &Work, payload: &Range<u64>) -> Result<Option<Range<usize>>> {
        let (entry, form, len) = (self.entry(work), self.form(work)?, payload.end - payload.start);
        let dense = form.curve.is_none() && form.room == form.item && work.cells.is_none();
        let raw = entry.encoding.chain.is_empty() && self.sources.shard(entry.source).is_none();
        let all = work.part.cells().checked_mul(form.item) == Some(len);
        if !dense || !raw || !all || len == 0 || work.ranges.len() != 1 {
            return Ok(None);
        }
        let copy = self.copy(work, &work.part, &form, payload.start)?;
        if !copy.dims().is_empty() || copy.src_offset() != 0 || copy.bytes() != len {
            return Ok(None);
        }
        copy.check(len, self.out.raw().1 as u64).map_err(rule_error)?;
        let at = copy.dst_offset() as usize;
        Ok(Some(at..at + len as usize))
    }
}
