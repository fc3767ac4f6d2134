//! ALACRITY: elements sorted into bins by their leading bits, so that the elements in a range of values are found
//! without a scan.
//!
//! A bin holds the elements whose keys begin with the same bits; keys are integers in the order of the values. Each bin
//! has the list of its elements' positions, and the rest of each key (its low bytes) in the same order. The elements
//! between two values lie in adjacent bins, so a search reads one range of lists and one of low bytes. Lists and low
//! bytes together are the data, so nothing is stored twice. With `data=1` the elements are also stored as they are, so
//! that boxes are read directly.
//!
//! Method: Jenkins et al., "Analytics-driven lossless data compression for rapid in-situ indexing, storing,
//! and querying", DEXA 2012.

mod encoder;
mod head;
pub(crate) mod lists;

use std::ops::{Range, RangeInclusive};

use crate::codecs::places::Places;
use crate::head::load;
use crate::stats::class::Class;
use crate::{
    Bound, Codec, CodecSpec, Fetched, Indexed, Logical, Param, Pieces, Planned, Scratch, SearchHits,
    StoredSubchunk, TransformError, Transparent, Want, Whole,
};
use head::{Bin, FIXED, Layout, MAX_BITS, PER_BIN};

/// The indexing codec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alacrity {
    bits: Option<u32>,
    data: bool,
}

impl Alacrity {
    pub(crate) fn from_params(params: &[Param]) -> Result<Alacrity, TransformError> {
        let mut codec = Alacrity::default();
        for param in params {
            match param.key_and_value() {
                (None | Some("bits"), Param::Int(bits @ 1..=16)) if codec.bits.is_none() => {
                    codec.bits = Some(*bits as u32);
                }
                (Some("data"), Param::Int(data @ 0..=1)) => codec.data = *data == 1,
                _ => {
                    let problem = format!("expected bits, 1 to {MAX_BITS}, and data=0 or 1, found {param}");
                    return Err(TransformError::bad_parameter("alacrity", problem));
                }
            }
        }
        Ok(codec)
    }
}

impl Codec for Alacrity {
    fn spec(&self) -> CodecSpec {
        let named = |key: &str, value: i64| Param::Named(key.into(), Box::new(Param::Int(value)));
        let mut params: Vec<Param> = self.bits.iter().map(|&bits| named("bits", bits.into())).collect();
        params.extend(self.data.then(|| named("data", 1)));
        CodecSpec { name: "alacrity".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_mul(3).saturating_sub(1)
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
        let (elements, tail) = data.split_at(data.len() / width * width);
        encoder::encode(elements, tail, (width, class, self.bits, self.data), out, scratch);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = Layout::read(encoded, encoded.len() as u64, out.len() as u64)?;
        let fetched = Fetched::new(vec![(0, encoded)]);
        if layout.data {
            out.copy_from_slice(fetched.get(layout.rest()..encoded.len() as u64)?);
            return Ok(());
        }
        rebuild(&layout, &fetched, out)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// Restores the data from lists and low bytes.
fn rebuild(layout: &Layout, fetched: &Fetched<'_>, out: &mut [u8]) -> Result<(), TransformError> {
    let (elements, tail) = out.split_at_mut(layout.count as usize * layout.width);
    match layout.width {
        1 => scatter::<1>(layout, fetched, elements),
        2 => scatter::<2>(layout, fetched, elements),
        4 => scatter::<4>(layout, fetched, elements),
        _ => scatter::<8>(layout, fetched, elements),
    }?;
    tail.copy_from_slice(fetched.get(layout.rest()..layout.rest() + layout.tail)?);
    Ok(())
}

/// Writes every element to its place. Fails if a place occurs twice.
fn scatter<const N: usize>(
    layout: &Layout,
    fetched: &Fetched<'_>,
    out: &mut [u8],
) -> Result<(), TransformError> {
    let elements = out.as_chunks_mut::<N>().0;
    let mut places = Places::new(elements.len());
    visit(layout, fetched, &(0..=u64::MAX >> (64 - 8 * N)), |position, key, _| {
        let (at, bits) = (position as usize, layout.class.bits(key, N).to_le_bytes());
        if let Some(to) = elements.get_mut(at) {
            *to = std::array::from_fn(|n| bits[n]);
            places.mark(at);
        }
    })?;
    places.must_be(layout.count, "lists with a position that occurs twice", layout.lists)
}

/// Visits every bin that may hold the keys, with the bytes of its list, its low bytes, and whether all of its keys are
/// in the range.
fn each_bin<'a>(
    layout: &'a Layout,
    fetched: &Fetched<'a>,
    keys: &RangeInclusive<u64>,
    mut give: impl FnMut(&Bin, &'a [u8], &'a [u8], bool) -> Result<(), TransformError>,
) -> Result<(), TransformError> {
    let meeting = layout.meeting(keys);
    let (mut lists, mut lows) = (fetched.get(meeting.lists)?, fetched.get(meeting.lows)?);
    let low = layout.low();
    for bin in meeting.bins {
        let short = || TransformError::corrupt("a bin is longer than its bytes", 0);
        let (list, after) = lists.split_at_checked(bin.list as usize).ok_or_else(short)?;
        let (own, rest) = lows.split_at_checked(bin.count as usize * low).ok_or_else(short)?;
        (lists, lows) = (after, rest);
        let (first, last) = layout.keys_of(bin);
        give(bin, list, own, keys.contains(&first) && keys.contains(&last))?;
    }
    Ok(())
}

/// Visits position and key of every element in the bins that may hold the keys, and whether its bin is inside the
/// range.
fn visit(
    layout: &Layout,
    fetched: &Fetched<'_>,
    keys: &RangeInclusive<u64>,
    mut give: impl FnMut(u32, u64, bool),
) -> Result<(), TransformError> {
    let (low, mask) = (layout.low(), layout.mask());
    each_bin(layout, fetched, keys, |bin, list, own, inside| {
        let (first, _) = layout.keys_of(bin);
        let mut at = 0;
        lists::unpack(list, bin.count as usize, layout.count, |position| {
            let rest = own.get(at..at + low).map_or(0, load) & mask;
            at += low;
            give(position, first | rest, inside);
        })
    })
}

/// Adds the positions of the elements whose keys lie in a range. Low bytes of bins that lie completely in the range are
/// not read.
fn positions(
    layout: &Layout,
    fetched: &Fetched<'_>,
    keys: &RangeInclusive<u64>,
    out: &mut Vec<u32>,
) -> Result<(), TransformError> {
    let (low, mask) = (layout.low(), layout.mask());
    each_bin(layout, fetched, keys, |bin, list, own, inside| {
        let (count, limit) = (bin.count as usize, layout.count);
        if inside {
            return lists::unpack(list, count, limit, |position| out.push(position));
        }
        let (first, _) = layout.keys_of(bin);
        let mut values = own.chunks_exact(low.max(1));
        lists::unpack(list, count, limit, |position| {
            let rest = if low == 0 { 0 } else { values.next().map_or(0, load) & mask };
            if keys.contains(&(first | rest)) {
                out.push(position);
            }
        })
    })
}

impl Transparent for Alacrity {
    fn meta_len(&self, encoded: &[u8]) -> usize {
        let bins = encoded.get(8..FIXED).map_or(0, load) as usize;
        FIXED.saturating_add(bins.saturating_mul(PER_BIN))
    }

    fn may_grow(&self) -> bool {
        true
    }

    fn indexed(&self) -> Option<&dyn Indexed> {
        Some(self)
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        let ranges = if layout.data {
            let at = layout.rest();
            want.ranges.iter().filter(|r| !r.is_empty()).map(|r| at + r.start..at + r.end).collect()
        } else {
            vec![layout.lists..stored.len]
        };
        Ok(Planned { ranges, bound: Bound::EXACT })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        _logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        if !layout.data {
            return rebuild(&layout, fetched, pieces.place(0..stored.decoded_len as u64)?);
        }
        for range in want.ranges {
            let bytes = fetched.get(layout.rest() + range.start..layout.rest() + range.end)?;
            pieces.place(range.clone())?.copy_from_slice(bytes);
        }
        Ok(())
    }
}

impl Indexed for Alacrity {
    fn plan_search(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Vec<Range<u64>>, TransformError> {
        let layout = self.layout_for(stored, logical)?;
        let meeting = layout.meeting(keys);
        Ok([meeting.lists, meeting.lows].into_iter().filter(|range| !range.is_empty()).collect())
    }

    fn whole_bins(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Whole, TransformError> {
        let layout = self.layout_for(stored, logical)?;
        // All bins between the one in which the range begins and the one in which it ends are whole.
        let inside = |bin: &&Bin| {
            let (first, last) = layout.keys_of(bin);
            keys.contains(&first) && keys.contains(&last)
        };
        let meeting = layout.meeting(keys);
        let count = meeting.bins.iter().filter(inside).map(|bin| u64::from(bin.count)).sum();
        let mut whole = meeting.bins.iter().filter(inside).map(|bin| layout.keys_of(bin));
        let Some((first, last)) = whole.next() else {
            return Ok(Whole { count: 0, rest: vec![keys.clone()] });
        };
        let end = whole.next_back().map_or(last, |(_, last)| last);
        let mut rest = Vec::new();
        if *keys.start() < first {
            rest.push(*keys.start()..=first - 1);
        }
        if end < *keys.end() {
            rest.push(end + 1..=*keys.end());
        }
        Ok(Whole { count, rest })
    }

    fn search(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
        found: &mut SearchHits,
    ) -> Result<(), TransformError> {
        let layout = self.layout_for(stored, logical)?;
        if found.only_positions {
            return positions(&layout, fetched, keys, &mut found.positions);
        }
        visit(&layout, fetched, keys, |position, key, inside| {
            if inside || keys.contains(&key) {
                let bits = layout.class.bits(key, layout.width);
                found.push(position, &bits.to_le_bytes()[..layout.width]);
            }
        })
    }
}

impl Alacrity {
    /// The layout, if the index holds values of the wanted kind.
    fn layout_for(&self, stored: &StoredSubchunk<'_>, logical: &Logical) -> Result<Layout, TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        logical.must_hold(layout.class, layout.width, "an index of another kind of number")?;
        Ok(layout)
    }
}
