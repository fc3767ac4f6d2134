//! Partial reads through a chain: each codec names the bytes of the next one that it needs.
//!
//! Wanted ranges of the data are mapped to ranges of the first codec's output, these to ranges of the second one's, and
//! so on to the stored bytes. Decoding goes back the same way, through buffers in which only these ranges are filled.
//! So a chain can be read in part if every codec of it can, and needs the metadata of each.
//!
//! Invariants
//! - lengths of stages are untrusted: each is bounded by the longest output of its codec for the stage before it;
//! - only a codec whose input still has its values in place is asked for reduced precision, or searched.

use std::ops::{Range, RangeInclusive};

use super::{CODED, Chain, HEADER_LEN, RAW, check_len};
use crate::codecs::sorted::SortedLayout;
use crate::head::Head;
use crate::ranges::join;
use crate::scratch::set_len_reusing;
use crate::{
    Bound, Codec, Fetched, Indexed, Logical, Pieces, Planned, Precision, Scratch, SearchHits, StoredSubchunk,
    TransformError, Transparent, Want, Whole,
};

/// Collects the metadata of a subchunk while it is encoded (docs/format/encodings.md).
pub(super) struct Heads {
    /// Number of codecs before the last one.
    before: usize,
    heads: Vec<u8>,
}

impl Heads {
    pub(super) fn new(before: usize) -> Heads {
        Heads { before, heads: Vec::new() }
    }

    /// Adds the head of the output of a codec before the last one.
    pub(super) fn stage(&mut self, codec: &dyn Codec, encoded: &[u8], meta: &mut Vec<u8>) {
        if meta.is_empty() {
            meta.push(CODED);
        }
        meta.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        self.add(codec, encoded);
    }

    fn add(&mut self, codec: &dyn Codec, encoded: &[u8]) {
        let head = head_of(codec, encoded);
        self.heads.extend_from_slice(&(head.len() as u32).to_le_bytes());
        self.heads.extend_from_slice(head);
    }

    /// Adds the head of the output of the last codec, which is in `out` from `start` on.
    pub(super) fn last(mut self, codec: &dyn Codec, out: &[u8], start: usize, meta: &mut Vec<u8>) {
        let encoded = out.get(start..).unwrap_or_default();
        if self.before == 0 {
            meta.push(CODED);
            meta.extend_from_slice(head_of(codec, encoded));
            return;
        }
        self.add(codec, encoded);
        meta.append(&mut self.heads);
    }
}

/// The codec's metadata at the head of its bytes.
fn head_of<'a>(codec: &dyn Codec, encoded: &'a [u8]) -> &'a [u8] {
    let len = codec.transparent().map_or(0, |parts| parts.meta_len(encoded));
    encoded.get(..len).unwrap_or_default()
}

/// How the parts of a subchunk are read.
enum Reading<'a, 'm> {
    /// The data is stored raw, after this many bytes.
    Raw(u64),
    /// By codecs, in the order of the chain; the output of the last one begins after this many bytes.
    Parts(Vec<Stage<'a, 'm>>, u64),
    /// Only the whole subchunk can be read.
    Whole,
}

/// One codec, its input and its output.
struct Stage<'a, 'm> {
    codec: &'a dyn Transparent,
    stored: StoredSubchunk<'m>,
    /// The precision requested from this codec.
    precision: Precision,
}

impl Stage<'_, '_> {
    fn plan(&self, logical: &Logical, ranges: &[Range<u64>]) -> Result<Planned, TransformError> {
        let want = Want { ranges, precision: self.precision };
        let planned = self.codec.plan_read(&self.stored, logical, &want)?;
        check_ranges(&planned.ranges, self.stored.len)?;
        Ok(planned)
    }
}

/// The wanted ranges of each stage. The last entry has ranges of the encoded bytes of the last stage.
struct Descent {
    wanted: Vec<Vec<Range<u64>>>,
    bound: Bound,
}

impl Descent {
    fn through(
        stages: &[Stage<'_, '_>],
        logical: &Logical,
        ranges: &[Range<u64>],
    ) -> Result<Descent, TransformError> {
        let mut descent = Descent { wanted: vec![ranges.to_vec()], bound: Bound::EXACT };
        for stage in stages {
            let above = descent.wanted.last().map_or(&[][..], Vec::as_slice);
            let planned = stage.plan(logical, above)?;
            descent.bound = descent.bound.max(planned.bound);
            let mut ranges = Vec::with_capacity(planned.ranges.len());
            planned.ranges.into_iter().for_each(|range| join(&mut ranges, range, 0));
            descent.wanted.push(ranges);
        }
        Ok(descent)
    }

    /// Ranges of the encoded bytes of the last stage.
    fn lowest(&self) -> &[Range<u64>] {
        self.wanted.last().map_or(&[], Vec::as_slice)
    }

    /// Decodes from the last stage to the first, whose pieces are written to `out`.
    fn ascend(
        &self,
        stages: &[Stage<'_, '_>],
        fetched: &Fetched<'_>,
        logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let mut buffers = std::mem::take(&mut scratch.stages);
        let result = self.decode(stages, fetched, logical, out, &mut buffers, scratch);
        scratch.stages = buffers;
        result
    }

    fn decode(
        &self,
        stages: &[Stage<'_, '_>],
        fetched: &Fetched<'_>,
        logical: &Logical,
        out: &mut [u8],
        [from, to]: &mut [Vec<u8>; 2],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let last = stages.len().saturating_sub(1);
        for (i, (stage, ranges)) in stages.iter().zip(&self.wanted).enumerate().rev() {
            let below: Fetched<'_>;
            let source = if i == last {
                fetched
            } else {
                below = held(from, self.wanted.get(i + 1).map_or(&[], Vec::as_slice));
                &below
            };
            let place: &mut [u8] = if i == 0 {
                &mut *out
            } else {
                set_len_reusing(to, stage.stored.decoded_len);
                to
            };
            let mut pieces = Pieces::new(place);
            let want = Want { ranges, precision: stage.precision };
            stage.codec.decode_part(&stage.stored, source, logical, &want, &mut pieces, scratch)?;
            pieces.hold(ranges)?;
            std::mem::swap(from, to);
        }
        Ok(())
    }
}

/// A view of a buffer in which only these ranges are filled.
fn held<'a>(buffer: &'a [u8], ranges: &[Range<u64>]) -> Fetched<'a> {
    let run = |range: &Range<u64>| {
        let bytes = buffer.get(range.start as usize..range.end as usize).unwrap_or_default();
        (range.start, bytes)
    };
    Fetched::new(ranges.iter().map(run).collect())
}

fn check_ranges(ranges: &[Range<u64>], len: u64) -> Result<(), TransformError> {
    let mut last = 0;
    for range in ranges {
        if range.start < last || range.end < range.start || range.end > len {
            let what = format!("bytes {}..{} of {len} are to be read", range.start, range.end);
            return Err(TransformError::corrupt(what, 0));
        }
        last = range.end;
    }
    Ok(())
}

fn moved(by: u64, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let one = |r: &Range<u64>| r.start.saturating_add(by)..r.end.saturating_add(by);
    ranges.iter().filter(|r| !r.is_empty()).map(one).collect()
}

impl Chain {
    /// The stored bytes that the want needs, and the precision of the result. For a subchunk without metadata, or with
    /// opaque codecs, these are all bytes and an exact result.
    pub fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        self.check(stored)?;
        let (len, mut last) = (stored.decoded_len as u64, 0);
        for range in want.ranges {
            if range.start < last || range.end < range.start || range.end > len {
                let problem = format!("bytes {}..{} of {len}, after {last}", range.start, range.end);
                return Err(TransformError::InvalidArgument(problem));
            }
            last = range.end;
        }
        let mut planned = match self.reading(stored, want.precision)? {
            Reading::Raw(header) => Planned { ranges: moved(header, want.ranges), bound: Bound::EXACT },
            Reading::Parts(stages, header) => {
                let descent = Descent::through(&stages, logical, want.ranges)?;
                Planned { ranges: moved(header, descent.lowest()), bound: descent.bound }
            }
            Reading::Whole => {
                Planned { ranges: moved(0, std::slice::from_ref(&(0..stored.len))), bound: Bound::EXACT }
            }
        };
        if want.ranges.iter().all(Range::is_empty) {
            planned.ranges.clear();
        }
        check_ranges(&planned.ranges, stored.len)?;
        Ok(planned)
    }

    /// Decodes the bytes of a planned read: on return `out`, as long as the whole decoded subchunk, holds the
    /// wanted bytes at their offsets. Its other bytes are unspecified; on an error all are.
    pub fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        want: &Want<'_>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        self.check(stored)?;
        if out.len() != stored.decoded_len {
            let problem = format!("room for {} of {} decoded bytes", out.len(), stored.decoded_len);
            return Err(TransformError::InvalidArgument(problem));
        }
        if want.ranges.iter().all(Range::is_empty) {
            return Ok(());
        }
        match self.reading(stored, want.precision)? {
            Reading::Whole => self.decode(fetched.get(0..stored.len)?, logical, out, scratch),
            Reading::Raw(header) => {
                let mut pieces = Pieces::new(out);
                for range in want.ranges {
                    let bytes = fetched.get(range.start + header..range.end + header)?;
                    pieces.place(range.clone())?.copy_from_slice(bytes);
                }
                pieces.hold(want.ranges)
            }
            Reading::Parts(stages, header) => {
                // The bytes that the last codec needs were fetched. Only the codecs before it still have to name
                // theirs.
                let before = stages.get(..stages.len().saturating_sub(1)).unwrap_or_default();
                let descent = Descent::through(before, logical, want.ranges)?;
                descent.ascend(&stages, &fetched.after(header), logical, out, scratch)
            }
        }
    }

    /// Whether subchunks of this chain may have an index of their values.
    pub fn has_index(&self) -> bool {
        self.reads_parts() && self.index_at().is_some()
    }

    /// The first codec with an index, if the codecs before it keep values in place.
    fn index_at(&self) -> Option<usize> {
        for (i, codec) in self.codecs.iter().enumerate() {
            let parts = codec.transparent()?;
            if parts.indexed().is_some() {
                return Some(i);
            }
            if !parts.keeps_values() {
                return None;
            }
        }
        None
    }

    /// The stored bytes needed to search for the elements between two keys; `None` if there is no index.
    pub fn plan_search(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Option<Vec<Range<u64>>>, TransformError> {
        self.check(stored)?;
        let Some((index, stages, header)) = self.index(stored)? else { return Ok(None) };
        let Some((at, below)) = stages.split_first() else { return Ok(None) };
        let ranges = index.plan_search(&at.stored, logical, keys)?;
        check_ranges(&ranges, at.stored.len)?;
        Ok(Some(moved(header, Descent::through(below, logical, &ranges)?.lowest())))
    }

    /// Counts the elements between two keys that lie in whole bins, from the metadata alone; `None` if there is no
    /// index.
    pub fn whole_bins(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Option<Whole>, TransformError> {
        self.check(stored)?;
        let Some((index, stages, _)) = self.index(stored)? else { return Ok(None) };
        let Some(at) = stages.first() else { return Ok(None) };
        index.whole_bins(&at.stored, logical, keys).map(Some)
    }

    /// Adds the elements between two keys to `found`, from the bytes that `plan_search` named. Positions are below the
    /// number of elements; each has the bytes of a scalar.
    pub fn search(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
        found: &mut SearchHits,
    ) -> Result<(), TransformError> {
        self.check(stored)?;
        let none = || TransformError::InvalidArgument("there is no index to search".into());
        let (index, stages, header) = self.index(stored)?.ok_or_else(none)?;
        let (at, below) = stages.split_first().ok_or_else(none)?;
        let fetched = fetched.after(header);
        if below.is_empty() {
            return index.search(&at.stored, &fetched, logical, keys, found);
        }
        let ranges = index.plan_search(&at.stored, logical, keys)?;
        check_ranges(&ranges, at.stored.len)?;
        let descent = Descent::through(below, logical, &ranges)?;
        let mut encoded = vec![0; usize::try_from(at.stored.len).unwrap_or(0)];
        descent.ascend(below, &fetched, logical, &mut encoded, &mut Scratch::new())?;
        let view = held(&encoded, descent.wanted.first().map_or(&[], Vec::as_slice));
        index.search(&at.stored, &view, logical, keys, found)
    }

    /// The layout of a stored subchunk of a chain that is only `sorted`; `None` if the values were stored raw.
    pub fn sorted(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
    ) -> Result<Option<SortedLayout>, TransformError> {
        self.check(stored)?;
        let is_sorted = matches!(self.codecs.as_slice(), [only] if only.spec().name == "sorted");
        let Some((&CODED, meta)) = stored.meta.split_first().filter(|_| is_sorted) else { return Ok(None) };
        let own = StoredSubchunk { len: stored.len.saturating_sub(HEADER_LEN), meta, ..*stored };
        Ok(Some(SortedLayout::of(&own, logical)?.behind(HEADER_LEN)))
    }

    /// The index, as the stages from its own on, and where the stored bytes of the last one begin.
    #[expect(clippy::type_complexity, reason = "used twice, a few lines above")]
    fn index<'a, 'm>(
        &'a self,
        stored: &StoredSubchunk<'m>,
    ) -> Result<Option<(&'a dyn Indexed, Vec<Stage<'a, 'm>>, u64)>, TransformError> {
        let Some(at) = self.index_at() else { return Ok(None) };
        let Reading::Parts(mut stages, header) = self.reading(stored, Precision::Exact)? else {
            return Ok(None);
        };
        let stages = stages.split_off(at.min(stages.len()));
        let index = stages.first().and_then(|stage| stage.codec.indexed());
        Ok(index.map(|index| (index, stages, header)))
    }

    /// How a subchunk is read.
    fn reading<'a, 'm>(
        &'a self,
        stored: &StoredSubchunk<'m>,
        precision: Precision,
    ) -> Result<Reading<'a, 'm>, TransformError> {
        match (self.is_identity(), stored.meta.split_first()) {
            (true, _) => Ok(Reading::Raw(0)),
            (_, Some((&RAW, _))) => Ok(Reading::Raw(HEADER_LEN)),
            (_, Some((&CODED, meta))) if self.all_read_parts() => self.stages(stored, meta, precision),
            _ => Ok(Reading::Whole),
        }
    }

    fn stages<'a, 'm>(
        &'a self,
        stored: &StoredSubchunk<'m>,
        meta: &'m [u8],
        precision: Precision,
    ) -> Result<Reading<'a, 'm>, TransformError> {
        let before = self.codecs.len().saturating_sub(1);
        let header = HEADER_LEN + 4 * before as u64;
        let head = &mut Head::new(meta);
        let mut lens = Vec::with_capacity(before + 1);
        for _ in 0..before {
            lens.push(u64::from(head.u32()?));
        }
        let short =
            || TransformError::corrupt(format!("{} bytes are too few for the lengths", stored.len), 0);
        lens.push(stored.len.checked_sub(header).ok_or_else(short)?);
        let mut stages = Vec::with_capacity(lens.len());
        let (mut decoded_len, mut precision) = (stored.decoded_len, precision);
        for (i, (codec, len)) in self.codecs.iter().zip(lens).enumerate() {
            let most = codec.max_encoded_len(decoded_len);
            if len > most as u64 {
                let what = format!("{len} bytes after codec {i}, at most {most} are possible");
                return Err(TransformError::corrupt(what, 0));
            }
            let Some(parts) = codec.transparent() else { return Ok(Reading::Whole) };
            let own = match before {
                0 => meta,
                _ => {
                    let len = head.u32()? as usize;
                    head.take(len)?
                }
            };
            let stage = StoredSubchunk { len, meta: own, decoded_len };
            stages.push(Stage { codec: parts, stored: stage, precision });
            if !parts.keeps_values() {
                precision = Precision::Exact;
            }
            decoded_len = len as usize;
        }
        Ok(Reading::Parts(stages, header))
    }

    fn check(&self, stored: &StoredSubchunk<'_>) -> Result<(), TransformError> {
        check_len(stored.decoded_len)?;
        if stored.len > self.max_encoded_len(stored.decoded_len) as u64 {
            let what = format!("{} bytes stored for {} decoded ones", stored.len, stored.decoded_len);
            return Err(TransformError::corrupt(what, 0));
        }
        Ok(())
    }
}
