//! Bit shuffle: the first bits of eight or more elements together, then all second bits, and so on.
//!
//! Bit plane p has bit p % 8 of byte p / 8 of each element. Element i is at bit i of the plane, least significant
//! first, as in the bitshuffle library and in Blosc. Only a multiple of eight elements is shuffled; the bytes after
//! them stay at the end. The length does not change.

mod kernel;

use std::ops::Range;

use crate::codecs::same_length::{self, SameLength};
use crate::codecs::shuffle;
use crate::params::Params;
use crate::ranges::join;
use crate::scratch::set_len_reusing;
use crate::{
    Bound, CodecSpec, Fetched, Logical, Param, Pieces, Planned, Scratch, StoredSubchunk, TransformError,
    Transparent, Want,
};

/// The bit shuffle codec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BitShuffle {
    item: Option<usize>,
}

impl BitShuffle {
    pub(crate) fn from_params(params: &[Param]) -> Result<BitShuffle, TransformError> {
        Ok(BitShuffle { item: Params::read("bitshuffle", &["elementsize"], params)?.element_size()? })
    }

    fn item(&self, logical: &Logical) -> usize {
        self.item.unwrap_or(logical.item).max(1)
    }
}

impl SameLength for BitShuffle {
    fn spec(&self) -> CodecSpec {
        let params = self.item.iter().map(|&size| Param::Int(size as i64)).collect();
        CodecSpec { name: "bitshuffle".into(), params }
    }

    fn apply(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let start = out.len();
        out.resize(start + data.len(), 0);
        bit_shuffle(data, self.item(logical), &mut out[start..], &mut scratch.planes);
        Ok(())
    }

    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], scratch: &mut Scratch) {
        bit_unshuffle(encoded, self.item(logical), out, &mut scratch.planes);
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// Where a wanted part lies: groups of eight elements in every bit plane, then bytes after the last group.
struct Window {
    groups: Range<u64>,
    tail: Range<u64>,
    /// Number of groups in the whole, which is the length of a plane.
    count: u64,
}

impl Window {
    fn of(wanted: &Range<u64>, len: u64, item: u64) -> Window {
        let count = len / item / 8;
        let body = count * 8 * item;
        let (start, end) = (wanted.start.min(len), wanted.end.min(len));
        Window {
            groups: start.min(body) / (8 * item)..end.min(body).div_ceil(8 * item),
            tail: start.max(body)..end.max(body),
            count,
        }
    }

    fn in_plane(&self, plane: u64) -> Range<u64> {
        plane * self.count + self.groups.start..plane * self.count + self.groups.end
    }
}

impl Transparent for BitShuffle {
    fn meta_len(&self, _encoded: &[u8]) -> usize {
        0
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        same_length::check(stored.len, stored.decoded_len as u64, "bitshuffle")?;
        let item = self.item(logical) as u64;
        let windows: Vec<Window> = want.ranges.iter().map(|r| Window::of(r, stored.len, item)).collect();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for plane in 0..8 * item {
            windows.iter().for_each(|window| join(&mut ranges, window.in_plane(plane), 0));
        }
        windows.iter().for_each(|window| join(&mut ranges, window.tail.clone(), 0));
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
        let item = self.item(logical);
        for wanted in want.ranges {
            // The planes of only the touched groups are the bit-shuffled form of the elements in these groups.
            let window = Window::of(wanted, stored.len, item as u64);
            let mut own = std::mem::take(&mut scratch.whole);
            own.clear();
            for plane in 0..8 * item as u64 {
                own.extend_from_slice(fetched.get(window.in_plane(plane))?);
            }
            let group = 8 * item as u64;
            let place = pieces.place(window.groups.start * group..window.groups.end * group)?;
            bit_unshuffle(&own, item, place, &mut scratch.planes);
            scratch.whole = own;
            let bytes = fetched.get(window.tail.clone())?;
            pieces.place(window.tail)?.copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// The number of bytes of `len` that are shuffled: a multiple of eight elements.
fn body_len(len: usize, item: usize) -> usize {
    len / item / 8 * 8 * item
}

/// Fills `out`, which is as long as `data`, with the bit-shuffled form of `data`. `planes` is working memory.
pub(crate) fn bit_shuffle(data: &[u8], item: usize, out: &mut [u8], planes: &mut Vec<u8>) {
    let at = body_len(data.len().min(out.len()), item);
    let (body, tail) = data.split_at(at);
    let (target, rest) = out.split_at_mut(at);
    planes.clear();
    shuffle::byte_shuffle(body, item, planes);
    let bytes = (at / item).max(1);
    for (from, to) in planes.chunks_exact(bytes).zip(target.chunks_exact_mut(bytes)) {
        kernel::scatter(from, to);
    }
    rest.copy_from_slice(tail);
}

/// Undoes [`bit_shuffle`]; both slices have the same length.
pub(crate) fn bit_unshuffle(shuffled: &[u8], item: usize, out: &mut [u8], planes: &mut Vec<u8>) {
    let at = body_len(shuffled.len().min(out.len()), item);
    let (body, tail) = shuffled.split_at(at);
    let (target, rest) = out.split_at_mut(at);
    set_len_reusing(planes, at);
    let bytes = (at / item).max(1);
    for (from, to) in body.chunks_exact(bytes).zip(planes[..at].chunks_exact_mut(bytes)) {
        kernel::gather(from, to);
    }
    shuffle::byte_unshuffle(&planes[..at], item, target);
    rest.copy_from_slice(tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_stands_where_the_definition_says() {
        let data: Vec<u8> = (0..9000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for item in [1, 2, 3, 4, 7, 8, 12, 16, 100] {
            for len in [0, 1, 7 * item, 8 * item, 8 * item + 3, 300 * item + 5, 9000] {
                let data = &data[..len.min(9000)];
                let count = data.len() / item / 8 * 8;
                let mut expected = data.to_vec();
                expected[..count * item].fill(0);
                for element in 0..count {
                    for bit in 0..8 * item {
                        let set = data[element * item + bit / 8] >> (bit % 8) & 1;
                        expected[bit * count / 8 + element / 8] |= set << (element % 8);
                    }
                }
                let (mut shuffled, mut planes) = (vec![9; data.len()], Vec::new());
                bit_shuffle(data, item, &mut shuffled, &mut planes);
                assert!(shuffled == expected, "item {item}, length {len}");
                let mut back = vec![0; data.len()];
                bit_unshuffle(&shuffled, item, &mut back, &mut planes);
                assert!(back == data, "item {item}, length {len}");
            }
        }
    }
}
