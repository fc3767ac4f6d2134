//! Byte shuffle: all first bytes of the elements, then all second bytes, and so on.
//!
//! The length does not change; bytes after the last whole element stay at the end. A part of the elements is one short
//! range of every byte plane, so shuffle by itself is transparent.

pub(crate) mod kernel;

pub(crate) use kernel::{shuffle as byte_shuffle, unshuffle as byte_unshuffle};

use std::ops::Range;

use crate::codecs::same_length::{self, SameLength};
use crate::params::Params;
use crate::ranges::join;
use crate::{
    Bound, CodecSpec, Fetched, Logical, Param, Pieces, Planned, Scratch, StoredSubchunk, TransformError,
    Transparent, Want,
};

/// The byte shuffle codec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shuffle {
    item: Option<usize>,
}

impl Shuffle {
    /// Shuffles elements of the size that [`Logical::item`] gives.
    pub fn new() -> Shuffle {
        Shuffle::default()
    }

    pub(crate) fn from_params(params: &[Param]) -> Result<Shuffle, TransformError> {
        Ok(Shuffle { item: Params::read("shuffle", &["elementsize"], params)?.element_size()? })
    }

    fn item(&self, logical: &Logical) -> usize {
        self.item.unwrap_or(logical.item).max(1)
    }
}

impl SameLength for Shuffle {
    fn spec(&self) -> CodecSpec {
        let params = self.item.iter().map(|&size| Param::Int(size as i64)).collect();
        CodecSpec { name: "shuffle".into(), params }
    }

    fn apply(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        kernel::shuffle(data, self.item(logical), out);
        Ok(())
    }

    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], _scratch: &mut Scratch) {
        kernel::unshuffle(encoded, self.item(logical), out);
    }

    fn alike(&self, len: usize, logical: &Logical) -> Option<usize> {
        len.checked_div(self.item(logical))
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// Where a wanted part lies: whole elements in every plane, and bytes of the unshuffled tail.
struct Window {
    /// The elements that are touched.
    elements: Range<u64>,
    /// The wanted part of the tail; its encoded and decoded offsets are the same.
    tail: Range<u64>,
    /// Number of elements in the whole.
    count: u64,
}

fn window(len: u64, item: u64, wanted: &Range<u64>) -> Window {
    let count = len / item;
    let body = count * item;
    let (start, end) = (wanted.start.min(len), wanted.end.min(len));
    Window {
        elements: start.min(body) / item..end.min(body).div_ceil(item),
        tail: start.max(body)..end.max(body),
        count,
    }
}

impl Transparent for Shuffle {
    fn meta_len(&self, _encoded: &[u8]) -> usize {
        0
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let item = self.item(logical) as u64;
        same_length::check(stored.len, stored.decoded_len as u64, "shuffle")?;
        let windows: Vec<Window> =
            want.ranges.iter().map(|wanted| window(stored.len, item, wanted)).collect();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut add = |range: Range<u64>| join(&mut ranges, range, 0);
        for plane in 0..item {
            for Window { elements, count, .. } in &windows {
                add(plane * count + elements.start..plane * count + elements.end);
            }
        }
        windows.iter().for_each(|window| add(window.tail.clone()));
        Ok(Planned { ranges, bound: Bound::EXACT })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let item = self.item(logical) as u64;
        for wanted in want.ranges {
            // The planes of only the touched elements are the shuffled form of these elements.
            let Window { elements, tail, count } = window(stored.len, item, wanted);
            let planes = &mut scratch.whole;
            planes.clear();
            for plane in 0..item {
                let range = plane * count + elements.start..plane * count + elements.end;
                planes.extend_from_slice(fetched.get(range)?);
            }
            let place = pieces.place(elements.start * item..elements.end * item)?;
            kernel::unshuffle(planes, item as usize, place);
            let bytes = fetched.get(tail.clone())?;
            pieces.place(tail)?.copy_from_slice(bytes);
        }
        Ok(())
    }
}
