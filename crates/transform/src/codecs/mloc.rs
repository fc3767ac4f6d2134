//! MLOC: numbers sorted by value, position and precision in a given order, so that numbers which are read together are
//! stored together.
//!
//! The numbers of one bin of values in one box of space are cut into components of leading and following bytes. Each
//! such component of a bin in a box is a *cell*, which is compressed and read by itself. The order `V,S,P` keeps each
//! range of values together (for searches), `S,V,P` each region (for boxes), and `P,...` the leading bytes of all
//! numbers (for previews). A directory in the head locates each cell, so a read fetches only the cells that it needs.
//! Boxes are ordered along a Hilbert curve. Positions in a box are stored like ALACRITY's lists.
//!
//! Method: Gong et al., "MLOC: Multi-level Layout Optimization Framework for Compressed Scientific Data
//! Exploration with Heterogeneous Access Patterns", ICPP 2012; Gong et al., "PARLO", CCGrid 2013.

mod head;
mod order;
mod space;

use std::ops::{Range, RangeInclusive};

use crate::codecs::alacrity::lists;
use crate::codecs::aplod::level;
use crate::codecs::columns::Runs;
use crate::codecs::places::Places;
use crate::codecs::section::{self, Method};
use crate::codecs::shuffle::kernel;
use crate::head::load;
use crate::params::{Params, named_text};
use crate::ranges::join;
use crate::scratch::set_len_reusing;
use crate::stats::class::Class;
use crate::{
    Codec, CodecSpec, Fetched, Indexed, Logical, MAX_META_LEN, Param, Pieces, Planned, Scratch, SearchHits,
    StoredSubchunk, TransformError, Transparent, Want, Whole, Zstd,
};
use head::{Cell, Layout};
use order::Order;
use space::{MAX_AXES, MAX_VOLUME, Space};

/// Approximate least number of values per cell: smaller cells cost more in the directory than they save.
const PER_CELL: u64 = 64;
/// Number of keys from which the bins are chosen.
const SAMPLED: usize = 8192;
/// Number of leading bits of a key that distinguish bins, as in an index.
const BIN_BITS: u32 = 16;

/// The codec of levels: values, space, precision.
#[derive(Clone, Debug)]
pub(crate) struct Mloc {
    order: Order,
    level: i64,
    zstd: Zstd,
}

impl Mloc {
    pub(crate) fn from_params(params: &[Param]) -> Result<Mloc, TransformError> {
        let params = Params::read("mloc", &["order", "level"], params)?;
        let order = Order::parse(params.text("order")?.unwrap_or("V:16,S:32,P:2.1.1.4"))?;
        let level = params.int("level", -7..=22)?.unwrap_or(1);
        Ok(Mloc { order, level, zstd: Zstd::new(level as i32)? })
    }

    /// Boxes of about the given edge; fewer and larger ones if the directory would become too long.
    fn space(&self, logical: &Logical, width: usize, count: u64, bins: &mut u32) -> Space {
        let told = logical.shape.iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
        let scalars = (logical.item / width).max(1) as u64;
        let mut shape = logical.shape.clone();
        if scalars > 1 {
            shape.push(scalars);
        }
        if told.and_then(|n| n.checked_mul(scalars)) != Some(count) || shape.len() > MAX_AXES {
            shape = vec![count];
        }
        let edge = self.order.edge.unwrap_or(u64::MAX);
        let edges = shape.iter().map(|n| edge.min((*n).max(1))).collect();
        let mut space = Space { shape, edges };
        let volume = |space: &Space| space.edges.iter().fold(1u64, |n, edge| n.saturating_mul(*edge));
        // An offset in a box has 16 bits.
        while *bins > 1 && volume(&space) > MAX_VOLUME {
            let Some(longest) = space.edges.iter_mut().max_by_key(|edge| **edge) else { break };
            *longest = longest.div_ceil(2);
        }
        let parts = self.order.cut(width).len() as u64 + 2;
        let fits = |space: &Space, bins: u32| {
            let cells = space.boxes().saturating_mul(bins.into());
            cells <= (count / PER_CELL).max(1)
                && cells.saturating_mul(4 * parts) <= MAX_META_LEN as u64 * 7 / 8
        };
        while !fits(&space, *bins) {
            let counts = space.counts();
            let grown = volume(&space).saturating_mul(2) <= MAX_VOLUME || *bins == 1;
            let widest = (0..counts.len()).filter(|&d| grown && counts[d] > 1).max_by_key(|&d| counts[d]);
            match widest {
                Some(d) => space.edges[d] = (space.edges[d] * 2).min(space.shape[d].max(1)),
                None if *bins > 1 => *bins = bins.div_ceil(2),
                None => break,
            }
        }
        space
    }

    /// The first key of each bin but the first. Bins hold about equally many numbers.
    fn edges(elements: &[u8], width: usize, class: Class, bins: u32) -> Vec<u64> {
        let count = elements.len() / width;
        let below = (8 * width as u32).saturating_sub(BIN_BITS);
        let step = count.div_ceil(SAMPLED).max(1);
        let mut keys: Vec<u64> =
            elements.chunks_exact(width).step_by(step).map(|e| class.key(load(e), width) >> below).collect();
        keys.sort_unstable();
        let mut edges: Vec<u64> = (1..bins as usize)
            .filter_map(|i| keys.get(i * keys.len() / bins as usize))
            .map(|key| key << below)
            .collect();
        edges.dedup();
        if edges.first() == keys.first().map(|key| key << below).as_ref() && !edges.is_empty() {
            edges.remove(0);
        }
        edges
    }
}

impl Codec for Mloc {
    fn spec(&self) -> CodecSpec {
        let mut params = vec![named_text("order", self.order.text())];
        if self.level != 1 {
            params.push(Param::Named("level".into(), Box::new(Param::Int(self.level))));
        }
        CodecSpec { name: "mloc".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_mul(2).saturating_add(decoded_len / 2).saturating_add(1024)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let width = if matches!(logical.scalar, 1 | 2 | 4 | 8) { logical.scalar } else { 1 };
        let class = Class::of(logical.kind, width);
        let count = data.len() / width;
        let (elements, tail) = data.split_at(count * width);
        let mut bins = if width == 1 || count == 0 { 1 } else { self.order.bins };
        let space = self.space(logical, width, count as u64, &mut bins);
        let edges = Mloc::edges(elements, width, class, bins);
        let components = self.order.cut(width);
        let mut kept = 0;
        let levels = components.iter().take(components.len().saturating_sub(1)).map(|bytes| {
            kept += bytes;
            class.measure(elements, width, kept)
        });
        let levels = levels.collect();
        let order = self.order.levels;
        let (counts, cells) = (Vec::new(), Vec::new());
        let mut layout =
            Layout { width, class, order, space, components, levels, edges, counts, cells, tail: 0 };
        let (bins, parts) = (layout.bins(), layout.parts());
        let boxes = if count == 0 { 0 } else { layout.space.boxes() as usize };
        // The bytes of every cell, by box, bin and component.
        let mut packed: Vec<(Range<usize>, Method)> = Vec::with_capacity(boxes * bins * parts);
        let mut body = std::mem::take(&mut scratch.body);
        let mut planes = std::mem::take(&mut scratch.planes);
        body.clear();
        let mut sorted: Vec<(Vec<u32>, Vec<u8>)> = vec![Default::default(); bins];
        for number in 0..boxes {
            sorted.iter_mut().for_each(|(places, numbers)| (places.clear(), numbers.clear()).0);
            layout.space.cut(number as u64).rows(&layout.space.shape, |from, at, row| {
                let bytes =
                    elements.get(from as usize * width..(from + row) as usize * width).unwrap_or_default();
                for (place, element) in (at as u32..).zip(bytes.chunks_exact(width)) {
                    let bin = match bins {
                        1 => 0,
                        _ => {
                            let key = class.key(load(element), width);
                            layout.edges.partition_point(|edge| *edge <= key)
                        }
                    };
                    if let Some((places, numbers)) = sorted.get_mut(bin) {
                        places.push(place);
                        numbers.extend_from_slice(element);
                    }
                }
                Ok(())
            })?;
            for (places, numbers) in &sorted {
                layout.counts.push(places.len() as u32);
                let start = body.len();
                if bins > 1 {
                    lists::pack(places, &mut body);
                }
                packed.push((start..body.len(), Method::Raw));
                planes.clear();
                kernel::shuffle(numbers, width, &mut planes);
                let mut left = width;
                for &bytes in &layout.components {
                    let run =
                        planes.get((left - bytes) * places.len()..left * places.len()).unwrap_or_default();
                    let start = body.len();
                    let method = section::pack(run, &self.zstd, &mut body, scratch)?;
                    packed.push((start..body.len(), method));
                    left -= bytes;
                }
            }
        }
        layout.cells = vec![None; packed.len()];
        let head = out.len();
        layout.write(out);
        let stored = if boxes == 0 { Vec::new() } else { layout.stored_order()? };
        let of = |(space, bin, part): &(usize, usize, usize)| packed.get((space * bins + bin) * parts + part);
        for (range, method) in stored.iter().filter_map(of) {
            Layout::write_entry(range.len(), *method, out);
        }
        let len = (out.len() - head) as u32;
        if let Some(place) = out.get_mut(head + 4..head + 8) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        for (range, _) in stored.iter().filter_map(of) {
            out.extend_from_slice(body.get(range.clone()).unwrap_or_default());
        }
        out.extend_from_slice(tail);
        (scratch.planes, scratch.body) = (planes, body);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let stored = StoredSubchunk { len: encoded.len() as u64, meta: encoded, decoded_len: out.len() };
        let ranges = [0..out.len() as u64; 1];
        let want = Want { ranges: &ranges, precision: crate::Precision::Exact };
        let fetched = Fetched::new(vec![(0, encoded)]);
        let mut pieces = Pieces::new(out);
        self.decode_part(&stored, &fetched, logical, &want, &mut pieces, scratch)?;
        pieces.hold(&ranges)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// The numbers of the boxes that hold some wanted scalars.
fn touched(layout: &Layout, runs: &Runs) -> Vec<usize> {
    let mut marks = vec![false; layout.boxes()];
    runs.elements.iter().for_each(|run| layout.space.touched(run, &mut marks));
    (0..marks.len()).filter(|&number| marks[number]).collect()
}

/// Byte ranges of cells, ascending.
fn ranges_of(cells: impl Iterator<Item = Cell>) -> Vec<Range<u64>> {
    let mut cells: Vec<Range<u64>> = cells.map(|cell| cell.start..cell.start + cell.stored).collect();
    cells.sort_unstable_by_key(|range| range.start);
    let mut ranges = Vec::new();
    cells.into_iter().for_each(|range| join(&mut ranges, range, 0));
    ranges
}

/// Working memory for decoding cells.
#[derive(Default)]
struct Work {
    places: Vec<u32>,
    planes: Vec<u8>,
    numbers: Vec<u8>,
}

impl Layout {
    /// Decodes positions and numbers of a bin in a box, from the first `level` components.
    fn decode_bin(
        &self,
        (space, bin): (usize, usize),
        level: usize,
        fetched: &Fetched<'_>,
        work: &mut Work,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let (count, width) = (self.count(space, bin) as usize, self.width);
        let volume = self.space.cut(space as u64).volume();
        let bytes = |part: usize| match self.cell(space, bin, part) {
            Some(cell) => Ok((fetched.get(cell.start..cell.start + cell.stored)?, cell.method)),
            None => Err(TransformError::corrupt("a cell that is not in the directory", 0)),
        };
        work.places.clear();
        match self.bins() {
            1 => work.places.extend(0..count as u32),
            _ => lists::unpack(bytes(0)?.0, count, volume, |place| work.places.push(place))?,
        }
        set_len_reusing(&mut work.planes, count * width);
        let kept: usize = self.components.iter().take(level).sum();
        let middle = self.levels.get(level.wrapping_sub(1)).is_some_and(|level| level.middle);
        let unknown = width.saturating_sub(kept);
        work.planes.get_mut(..unknown * count).unwrap_or_default().fill(0);
        if middle && unknown > 0 {
            work.planes.get_mut((unknown - 1) * count..unknown * count).unwrap_or_default().fill(0x80);
        }
        let mut left = width;
        for (part, size) in self.components.iter().take(level).enumerate() {
            let (stored, method) = bytes(part + 1)?;
            let own = work.planes.get_mut((left - size) * count..left * count).unwrap_or_default();
            method.unpack(stored, own, scratch)?;
            left -= size;
        }
        set_len_reusing(&mut work.numbers, count * width);
        kernel::unshuffle(&work.planes, width, &mut work.numbers);
        if unknown > 0 {
            self.class.mend(&mut work.numbers, width, kept, middle);
        }
        Ok(())
    }
}

/// A partial read of a subchunk, in terms of its layout.
struct PartialRead {
    layout: Layout,
    /// Number of components that are exact enough.
    level: usize,
    bound: crate::Bound,
    runs: Runs,
}

impl PartialRead {
    fn of(stored: &StoredSubchunk<'_>, want: &Want<'_>) -> Result<PartialRead, TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        let (width, all) = (layout.width as u64, stored.decoded_len as u64);
        let runs = Runs::of(want.ranges, width, all / width);
        let (level, bound) = level::choose(&layout.levels, layout.components.len(), want.precision);
        Ok(PartialRead { layout, level, bound, runs })
    }
}

impl Transparent for Mloc {
    fn meta_len(&self, encoded: &[u8]) -> usize {
        encoded.get(4..8).map_or(0, load) as usize
    }

    fn may_grow(&self) -> bool {
        true
    }

    fn indexed(&self) -> Option<&dyn Indexed> {
        (self.order.bins > 1).then_some(self as &dyn Indexed)
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let PartialRead { layout, level, bound, runs } = PartialRead::of(stored, want)?;
        let cells = touched(&layout, &runs).into_iter().flat_map(|space| {
            let layout = &layout;
            (0..layout.bins())
                .flat_map(move |bin| (0..=level).filter_map(move |part| layout.cell(space, bin, part)))
        });
        let mut ranges = ranges_of(cells);
        join(&mut ranges, layout.tail..layout.tail + runs.tail, 0);
        Ok(Planned { ranges, bound })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        _logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let PartialRead { layout, level, runs, .. } = PartialRead::of(stored, want)?;
        let (width, count) = (layout.width, stored.decoded_len as u64 / layout.width as u64);
        let mut work = Work::default();
        let mut dense = std::mem::take(&mut scratch.block);
        let mut filled = Places::default();
        for space in touched(&layout, &runs) {
            let cut = layout.space.cut(space as u64);
            let volume = cut.volume() as usize;
            set_len_reusing(&mut dense, volume * width);
            filled.reset(volume);
            for bin in (0..layout.bins()).filter(|&bin| layout.count(space, bin) > 0) {
                layout.decode_bin((space, bin), level, fetched, &mut work, scratch)?;
                for (&place, number) in work.places.iter().zip(work.numbers.chunks_exact(width)) {
                    let at = place as usize;
                    let Some(own) = dense.get_mut(at * width..(at + 1) * width) else {
                        return Err(TransformError::corrupt("a place outside of its box", 0));
                    };
                    filled.mark(at);
                    own.copy_from_slice(number);
                }
            }
            filled.must_be(volume as u64, "bins with a place that occurs twice", 0)?;
            cut.rows(&layout.space.shape, |to, at, row| {
                let own = dense.get(at as usize * width..(at + row) as usize * width).unwrap_or_default();
                pieces.place(to * width as u64..(to + row) * width as u64)?.copy_from_slice(own);
                Ok(())
            })?;
        }
        scratch.block = dense;
        let body = count * width as u64;
        let tail = fetched.get(layout.tail..layout.tail + runs.tail)?;
        pieces.place(body..body + runs.tail)?.copy_from_slice(tail);
        Ok(())
    }
}

impl Mloc {
    /// The layout, if its bins hold values of the wanted kind, and the bins that may hold the keys.
    fn meeting(
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<(Layout, Range<usize>), TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        logical.must_hold(layout.class, layout.width, "bins of another kind of number")?;
        let first = layout.edges.partition_point(|edge| edge <= keys.start());
        let last = layout.edges.partition_point(|edge| edge <= keys.end());
        Ok((layout, first..if keys.is_empty() { first } else { last + 1 }))
    }
}

impl Indexed for Mloc {
    fn plan_search(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Vec<Range<u64>>, TransformError> {
        let (layout, bins) = Mloc::meeting(stored, logical, keys)?;
        let cells = (0..layout.boxes()).flat_map(|space| {
            let layout = &layout;
            bins.clone().flat_map(move |bin| {
                (0..layout.parts()).filter_map(move |part| layout.cell(space, bin, part))
            })
        });
        Ok(ranges_of(cells))
    }

    /// Every bin is divided among boxes of space, so nothing is known before the cells are read.
    fn whole_bins(
        &self,
        _stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Whole, TransformError> {
        Ok(Whole { count: 0, rest: vec![keys.clone()] })
    }

    fn search(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
        found: &mut SearchHits,
    ) -> Result<(), TransformError> {
        let (layout, bins) = Mloc::meeting(stored, logical, keys)?;
        let (mut work, mut scratch) = (Work::default(), Scratch::new());
        for space in 0..layout.boxes() {
            let cut = layout.space.cut(space as u64);
            for bin in bins.clone().filter(|&bin| layout.count(space, bin) > 0) {
                layout.decode_bin((space, bin), layout.components.len(), fetched, &mut work, &mut scratch)?;
                for (&place, number) in work.places.iter().zip(work.numbers.chunks_exact(layout.width)) {
                    if keys.contains(&layout.class.key(load(number), layout.width)) {
                        found.push(cut.global(place.into(), &layout.space.shape) as u32, number);
                    }
                }
            }
        }
        Ok(())
    }
}
