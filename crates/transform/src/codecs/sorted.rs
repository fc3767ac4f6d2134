//! Values in ascending order with their positions, and with the values of other variables at the same positions.
//!
//! A range of values is one run, and so are the other variables' values at its positions: each column is read in one
//! piece. The head has the key of every 4096th element as a fence, so a search reads at most 4096 elements too many at
//! either end. The names of the other columns mean something only to the caller. Decoding restores the values at their
//! positions, so that every reader can check them.

mod head;

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::codecs::places::Places;
use crate::head::load;
use crate::stats::class::Class;
use crate::{
    Bound, Codec, CodecSpec, Fetched, Indexed, Logical, Param, Pieces, Planned, Scratch, SearchHits,
    StoredSubchunk, TransformError, Transparent, Want, Whole,
};
use head::FENCE;
pub use head::{Companion, MOST_COMPANION_BYTES, MOST_COMPANIONS, SortedLayout};

/// Bytes of a position.
pub(crate) const PLACE: usize = size_of::<u32>();

/// The codec; if there are companions, with those of the one subchunk that it encodes.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    companions: Arc<Vec<(Companion, Vec<u8>)>>,
}

impl Sorted {
    pub(crate) fn from_params(params: &[Param]) -> Result<Sorted, TransformError> {
        match params.first() {
            None => Ok(Sorted::default()),
            Some(param) => {
                Err(TransformError::bad_parameter("sorted", format!("takes no parameters, found {param}")))
            }
        }
    }

    /// A codec for one subchunk, with these elements of other variables, which are in the order of the subchunk's
    /// cells.
    ///
    /// Errors: `InvalidArgument` for too many companions, or too many bytes of them.
    pub fn with(companions: Vec<(Companion, Vec<u8>)>) -> Result<Sorted, TransformError> {
        let bytes = companions.iter().map(|(one, _)| u64::from(one.item)).sum::<u64>();
        if companions.len() > MOST_COMPANIONS
            || bytes > MOST_COMPANION_BYTES
            || companions.iter().any(|(one, _)| one.item == 0)
        {
            let problem = format!(
                "{} columns of {bytes} bytes are sorted together, at most {MOST_COMPANIONS} of \
                 {MOST_COMPANION_BYTES} can be",
                companions.len()
            );
            return Err(TransformError::InvalidArgument(problem));
        }
        Ok(Sorted { companions: Arc::new(companions) })
    }
}

/// Key and position of each element, ascending by key.
fn order(data: &[u8], class: Class, width: usize) -> Vec<(u64, u32)> {
    let mut order: Vec<(u64, u32)> = data
        .chunks_exact(width)
        .zip(0..)
        .map(|(value, place)| (class.key(load(value), width), place))
        .collect();
    order.sort_unstable();
    order
}

impl Codec for Sorted {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: "sorted".into(), params: Vec::new() }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        let each = 1 + PLACE + MOST_COMPANION_BYTES as usize + 1;
        decoded_len.saturating_mul(each).saturating_add(head::most(decoded_len))
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let width = logical.scalar;
        let class = Class::of(logical.kind, width);
        if class == Class::Opaque || logical.item != width {
            let problem = "sorted takes numbers that have an order: integers and floats".into();
            return Err(TransformError::InvalidArgument(problem));
        }
        let count = data.len() / width;
        let fits = |(one, values): &(Companion, Vec<u8>)| values.len() == count * one.item as usize;
        if !data.len().is_multiple_of(width) || !self.companions.iter().all(fits) {
            let problem = format!("columns of other lengths are sorted with {count} elements");
            return Err(TransformError::InvalidArgument(problem));
        }
        let order = order(data, class, width);
        let fences = order.iter().step_by(FENCE).chain(order.last()).map(|(key, _)| *key).collect();
        let companions = self.companions.iter().map(|(one, _)| *one).collect();
        SortedLayout::new(class, width, count as u64, fences, companions).write(out);
        for (key, _) in &order {
            out.extend_from_slice(&class.bits(*key, width).to_le_bytes()[..width]);
        }
        order.iter().for_each(|(_, place)| out.extend_from_slice(&place.to_le_bytes()));
        for (one, values) in self.companions.iter() {
            let item = one.item as usize;
            for (_, place) in &order {
                let at = *place as usize * item;
                out.extend_from_slice(values.get(at..at + item).unwrap_or_default());
            }
        }
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = SortedLayout::read(encoded, encoded.len() as u64, out.len() as u64)?;
        restore(&layout, &Fetched::new(vec![(0, encoded)]), out)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// Restores the values at their positions.
fn restore(layout: &SortedLayout, fetched: &Fetched<'_>, out: &mut [u8]) -> Result<(), TransformError> {
    let (all, width) = (0..layout.count(), layout.width());
    let values = fetched.get(layout.values(&all))?.chunks_exact(width);
    let places = fetched.get(layout.places(&all))?.chunks_exact(PLACE);
    let at = layout.places(&all).start;
    let mut filled = Places::new(layout.count() as usize);
    for (value, place) in values.zip(places) {
        let place = load(place) as usize;
        let Some(to) = out.get_mut(place * width..(place + 1) * width) else {
            return Err(TransformError::corrupt("a place behind the last element", at));
        };
        to.copy_from_slice(value);
        filled.mark(place);
    }
    filled.must_be(layout.count(), "a place that occurs twice", at)
}

impl Transparent for Sorted {
    fn meta_len(&self, encoded: &[u8]) -> usize {
        head::len(encoded)
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
        _want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let layout = SortedLayout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        let all = 0..layout.count();
        let ranges = vec![layout.values(&all), layout.places(&all)];
        Ok(Planned {
            ranges: ranges.into_iter().filter(|range| !range.is_empty()).collect(),
            bound: Bound::EXACT,
        })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        _logical: &Logical,
        _want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = SortedLayout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        restore(&layout, fetched, pieces.place(0..stored.decoded_len as u64)?)
    }
}

impl Indexed for Sorted {
    fn plan_search(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Vec<Range<u64>>, TransformError> {
        let layout = SortedLayout::of(stored, logical)?;
        let some = layout.meeting(keys);
        let ranges = [layout.values(&some), layout.places(&some)];
        Ok(ranges.into_iter().filter(|range| !range.is_empty()).collect())
    }

    fn whole_bins(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Whole, TransformError> {
        // Equal values may lie on both sides of a fence, so the elements between two fences are no range of keys.
        let layout = SortedLayout::of(stored, logical)?;
        if layout.lies_within(keys) {
            return Ok(Whole { count: layout.count(), rest: Vec::new() });
        }
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
        let layout = SortedLayout::of(stored, logical)?;
        let some = layout.within(&layout.meeting(keys), keys, fetched)?;
        let values = fetched.get(layout.values(&some))?.chunks_exact(layout.width());
        let places = fetched.get(layout.places(&some))?.chunks_exact(PLACE);
        for (value, place) in values.zip(places) {
            let place = load(place);
            if place >= layout.count() || !keys.contains(&layout.key(value)) {
                return Err(TransformError::corrupt(
                    "values that do not ascend, or a place behind the last",
                    0,
                ));
            }
            found.push(place as u32, value);
        }
        Ok(())
    }
}
