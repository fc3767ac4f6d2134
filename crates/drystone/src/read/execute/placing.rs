//! Takes the bytes of a request to their places in the target: verifies them, decodes encoded ones, scatters cells.

use std::ops::Range;

use drystone_copy::{Dim, StridedCopy};
use drystone_format::entry::Encoding;
use drystone_format::layout::Order;
use drystone_plan::clip::within;
use drystone_plan::form::Form;
use drystone_plan::parts::SubchunkPart;
use drystone_plan::read_plan::Work;
use drystone_store::StoreExt;
use drystone_transform::Chain;
use drystone_transform::checks::crc_units;

use super::apart;
use super::buffers::Buffers;
use super::{Asked, Job};
use crate::base::error::{must_exist, rule_error};
use crate::layout::Table;
use crate::read::segment_key;
use crate::schema::element_type::MAX_SUBCHUNK;
use crate::{Error, Result};

/// Check units up to this size divide the parts in which a store passes bytes on while it reads.
const PARTS_LOG2: u8 = drystone_store::SEEN_LOG2;

impl Job<'_> {
    /// Whether two items of a request are the same cells of adjacent members.
    pub(super) fn is_beside(
        &self,
        a: &(Range<u64>, (usize, Range<u64>)),
        b: &(Range<u64>, (usize, Range<u64>)),
    ) -> bool {
        let ((range, (n, payload)), (other, (m, also))) = (a, b);
        let (a, b) = (&self.prepared.plan.works[*n], &self.prepared.plan.works[*m]);
        let leaves = self.prepared.columns.len();
        let (first, second) = (&self.entry(a).encoding, &self.entry(b).encoding);
        fn shared(e: &Encoding) -> Option<(u32, &Order)> {
            e.layout.order().map(|order| (e.room(), order)).filter(|(room, _)| *room > e.item)
        }
        (range, payload, a.piece, a.part, a.whole) == (other, also, b.piece, b.part, b.whole)
            && a.prefix.is_none()
            && (a.slot / leaves, &first.chain) == (b.slot / leaves, &second.chain)
            && shared(first).is_some_and(|one| Some(one) == shared(second))
            && (a.whole || first.chain.is_empty())
    }

    /// Executes requests to one source.
    pub(super) fn fetch(&self, group: &[&Asked], buffers: &mut Buffers) -> Result<()> {
        let Some(&first) = group.first() else { return Ok(()) };
        if let ([_], [(range, (number, payload))]) = (group, first.items.as_slice())
            && self.direct(&self.prepared.plan.works[*number], range, payload, buffers)?
        {
            return Ok(());
        }
        if let [fetch] = group
            && self.apart(fetch, buffers)?
        {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut buffers.read);
        self.reading.read_group(self.sources, group, &mut bytes)?;
        let mut at = 0;
        for fetch in group {
            let end = at + fetch.len() as usize;
            self.place_all(fetch, bytes.get(at..end).unwrap_or_default(), buffers)?;
            at = end;
        }
        buffers.read = bytes;
        Ok(())
    }

    /// Verifies and places the bytes of a request.
    pub(super) fn place_all(&self, fetch: &Asked, bytes: &[u8], buffers: &mut Buffers) -> Result<()> {
        for items in fetch.items.chunk_by(|a, b| self.is_beside(a, b)) {
            let Some((range, (number, payload))) = items.first() else { continue };
            let work = &self.prepared.plan.works[*number];
            let (alone, beside);
            let works: &[&Work] = if items.len() == 1 {
                alone = [work];
                &alone
            } else {
                beside = items.iter().map(|(_, (n, _))| &self.prepared.plan.works[*n]).collect::<Vec<_>>();
                &beside
            };
            let from = (range.start - fetch.range.start) as usize;
            let item = &bytes[from..from + (range.end - range.start) as usize];
            if work.whole && work.prefix.is_some() {
                self.whole_in_two(work, *number, item, payload, buffers)?;
            } else if work.whole {
                self.whole(works, item, buffers)?;
            } else if self.entry(work).encoding.chain.is_empty() {
                self.part(works, item, payload)?;
            } else {
                match &work.prefix {
                    Some(prefix) if payload.end <= prefix.length => self.verify_prefix(work, prefix, item)?,
                    _ => self.verify_units(work, item, payload)?,
                }
                let arrived = self.waiting.arrived(*number, work.ranges.len(), payload.start, item);
                if let Some(runs) = arrived {
                    self.coded_part(work, &runs.view(item, payload.start), buffers)?;
                }
            }
        }
        Ok(())
    }

    /// Reads many raw bytes directly into the target, if their cells are contiguous there. Returns `false` if they
    /// are not.
    pub(super) fn direct(
        &self,
        work: &Work,
        range: &Range<u64>,
        payload: &Range<u64>,
        buffers: &mut Buffers,
    ) -> Result<bool> {
        // Bytes are checksummed as they arrive, in parts of whole units.
        let len = payload.end - payload.start;
        let checked = (1..=PARTS_LOG2).contains(&work.piece.unit_log2) && work.piece.trailer > 0;
        let Some(place) = (len > apart::CALL && checked)
            .then(|| self.contiguous_place(work, payload))
            .transpose()?
            .flatten()
        else {
            return Ok(false);
        };
        let (out, _) = self.out.raw();
        // SAFETY: `contiguous_place` checked that the range is inside the target. Visible boxes are disjoint, so no
        // other thread uses these bytes.
        let place = unsafe { std::slice::from_raw_parts_mut(out.add(place.start), place.len()) };
        let source = self.sources.get(self.entry(work).source)?;
        let (store, key) = (&self.reading.inner.store, segment_key(&source));
        let failed = |e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.reading.path));
        buffers.sums.clear();
        let mut check = |part: &[u8]| crc_units(part, 1 << work.piece.unit_log2, &mut buffers.sums);
        store.read_seen(&key, range.start, place, &mut check).map_err(failed)?;
        if work.whole {
            buffers.read.resize((range.end - range.start - len) as usize, 0);
            store.read(&key, range.start + len, &mut buffers.read).map_err(failed)?;
            self.compare_whole(work, &buffers.read, &buffers.sums)?;
        } else {
            let (first, stored) = self.checks(work, payload.start, buffers.sums.len());
            self.compare(work, first, &buffers.sums, stored)?;
        }
        Ok(true)
    }

    /// Places a whole stored piece, with its trailer, for the works that are adjacent in it.
    pub(super) fn whole(&self, works: &[&Work], item: &[u8], buffers: &mut Buffers) -> Result<()> {
        let Some(&work) = works.first() else { return Ok(()) };
        let entry = self.entry(work);
        let piece = work.piece;
        let raw = entry.encoding.chain.is_empty();
        let fresh = buffers.holds != Some((entry.source, piece)) || raw;
        let payload = item
            .get(..piece.length as usize)
            .ok_or_else(|| self.damaged(work, piece.position, "a subchunk is longer than the bytes read"))?;
        let shard = self.sources.shard(entry.source);
        if fresh && shard.is_none() {
            self.verify_whole(work, &item[payload.len()..], payload, &mut buffers.sums)?;
        }
        if raw {
            return self.place_whole(works, payload, &mut buffers.unrolled);
        }
        if fresh {
            self.decode_whole(work, payload, buffers)?;
        }
        self.place_whole(works, &buffers.decoded, &mut buffers.unrolled)
    }

    /// Decodes a whole verified payload into `buffers`.
    pub(super) fn decode_whole(&self, work: &Work, payload: &[u8], buffers: &mut Buffers) -> Result<()> {
        let (entry, piece) = (self.entry(work), work.piece);
        buffers.holds = None;
        let len = self.chunk_bytes(work);
        if len > MAX_SUBCHUNK {
            return Err(self.damaged(work, piece.position, "a subchunk claims more than 16 MiB"));
        }
        buffers.decoded.resize(len as usize, 0);
        if let Some(shard) = self.sources.shard(entry.source) {
            shard
                .decode(payload, &mut buffers.decoded, &mut buffers.scratch)
                .map_err(|what| self.damaged(work, piece.position, &what))?;
        } else {
            let logical = self.logical(work)?;
            let chain = self.chain(work, buffers)?;
            chain
                .decode(payload, &logical, &mut buffers.decoded, &mut buffers.scratch)
                .map_err(|e| self.undecodable(work, &e))?;
            buffers.keep_chain(&entry.encoding.chain, chain);
        }
        buffers.holds = Some((entry.source, piece));
        Ok(())
    }

    /// Takes one of the two items of a whole subchunk with a separate prefix: the prefix, or the rest with its
    /// trailer.
    pub(super) fn whole_in_two(
        &self,
        work: &Work,
        number: usize,
        item: &[u8],
        payload: &Range<u64>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let len = (payload.end - payload.start) as usize;
        let (bytes, rest) = item.split_at_checked(len).ok_or_else(|| {
            self.damaged(work, work.piece.position, "a subchunk is longer than the bytes read")
        })?;
        match &work.prefix {
            Some(prefix) if payload.end <= prefix.length => self.verify_prefix(work, prefix, bytes)?,
            _ => self.verify_whole(work, rest, bytes, &mut buffers.sums)?,
        }
        let Some(runs) = self.waiting.arrived(number, work.ranges.len(), payload.start, bytes) else {
            return Ok(());
        };
        let mut all = std::mem::take(&mut buffers.joined);
        runs.join(bytes, payload.start, &mut all);
        let decoded = self.decode_whole(work, &all, buffers);
        buffers.joined = all;
        decoded?;
        self.place_whole(&[work], &buffers.decoded, &mut buffers.unrolled)
    }

    /// Places a part of a subchunk that is completely in memory. A subchunk along a curve is first put in row-major
    /// order.
    pub(super) fn place_whole(&self, works: &[&Work], cells: &[u8], unrolled: &mut Vec<u8>) -> Result<()> {
        let Some(&first) = works.first() else { return Ok(()) };
        let Some(curve) = self.form(first)?.curve else {
            return self.scatter_all(works, &first.part, cells, 0);
        };
        let shape = &first.part.chunk_shape[..usize::from(self.entry(first).ndim)];
        let table = Table::new(curve, shape)?;
        works.iter().try_for_each(|work| {
            let form = self.form(work)?;
            table.unroll(cells, &form, unrolled).ok_or_else(|| {
                self.damaged(work, work.piece.position, "a subchunk does not fit its curve")
            })?;
            self.scatter(work, &work.part, &form.unrolled(), unrolled, 0)
        })
    }

    /// Copies a part's cells for each of the works that are adjacent in them. Members that are adjacent in the cells
    /// and in the target are copied as one.
    pub(super) fn scatter_all(
        &self,
        works: &[&Work],
        part: &SubchunkPart,
        bytes: &[u8],
        base: u64,
    ) -> Result<()> {
        if let [work] = works {
            return self.scatter(work, part, &self.form(work)?, bytes, base);
        }
        let mut runs = works.iter().map(|work| Ok((*work, self.form(work)?))).collect::<Result<Vec<_>>>()?;
        runs.sort_by_key(|(_, form)| form.at);
        let place = |work: &Work, form: &Form| u64::from(self.leaf(work.slot).offset) + form.item;
        runs.dedup_by(|(next, form), (work, run)| {
            let inner = u64::from(self.leaf(next.slot).offset);
            let touches = form.at == run.at + run.item && inner == place(work, run);
            if touches {
                run.item += form.item;
            }
            touches
        });
        runs.iter().try_for_each(|(work, form)| self.scatter(work, part, form, bytes, base))
    }

    /// The chain of a work's block. The caller gives it back to `buffers`.
    pub(super) fn chain(&self, work: &Work, buffers: &mut Buffers) -> Result<Chain> {
        let text = &self.entry(work).encoding.chain;
        match buffers.chain.take() {
            Some((known, chain)) if known == *text => Ok(chain),
            _ => Chain::parse(text).map_err(|e| {
                Error::unsupported(format!(
                    "variable \"{}\" was encoded with \"{text}\", which this program cannot decode: {e}",
                    self.reading.path
                ))
            }),
        }
    }

    /// Places the cells of a range of a raw piece; the range consists of whole check units.
    pub(super) fn part(&self, works: &[&Work], item: &[u8], payload: &Range<u64>) -> Result<()> {
        let Some(&work) = works.first() else { return Ok(()) };
        self.verify_units(work, item, payload)?;
        if work.ranges.len() == 1 && works.iter().all(|work| work.ranges.len() == 1) {
            return self.scatter_all(works, &work.part, item, payload.start);
        }
        works.iter().try_for_each(|work| {
            let form = self.form(work)?;
            within(&work.part, &form, payload)
                .iter()
                .try_for_each(|part| self.scatter(work, part, &form, item, payload.start))
        })
    }

    /// Copies a part's cells from decoded bytes to their places in the target. `base` is the number of the first
    /// byte.
    pub(super) fn scatter(
        &self,
        work: &Work,
        part: &SubchunkPart,
        form: &Form,
        bytes: &[u8],
        base: u64,
    ) -> Result<()> {
        if let Some(cells) = &work.cells {
            return self.scatter_listed(work, cells, form, bytes, base);
        }
        let copy = self.copy(work, part, form, base)?;
        let (out, len) = self.out.raw();
        // SAFETY: visible boxes are disjoint, so no other thread writes these cells; the copy checks its bounds.
        unsafe { copy.run_raw(bytes.as_ptr(), bytes.len(), out, len) }.map_err(rule_error)
    }

    /// The copy of a part's cells to the target, from decoded bytes that begin at `base` and are arranged as `form`
    /// says.
    pub(super) fn copy(
        &self,
        work: &Work,
        part: &SubchunkPart,
        form: &Form,
        base: u64,
    ) -> Result<StridedCopy> {
        let item = form.item;
        let (mut dst, strides) = self.place(work.slot);
        let ndim = strides.len();
        let mut src = form.at as i64;
        let mut dims = Vec::with_capacity(ndim);
        let stored = form.strides(&part.chunk_shape);
        for d in 0..ndim {
            let (first, step, count) = part.chunk[d];
            let apart = stored[d] as i64;
            src += first as i64 * apart;
            dst = (dst as i64 + strides[d] * part.dest[d] as i64) as u64;
            dims.push(Dim::new(count, step * apart, strides[d]));
        }
        let src = u64::try_from(src - base as i64)
            .map_err(|_| Error::corrupt("a plan reaches before its bytes"))?;
        StridedCopy::new(src, dst, item as usize, dims).map_err(rule_error)
    }
}
