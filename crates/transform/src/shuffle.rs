//! Byte shuffle: all first bytes of the elements, then all second bytes, and so on.
//!
//! The length does not change; bytes after the last whole element stay at the
//! end. A part of the data is one short range of every byte plane, so shuffle
//! alone is transparent.

mod kernel;

pub(crate) use kernel::{shuffle as byte_shuffle, unshuffle as byte_unshuffle};

use std::ops::Range;

use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

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
        let mut item = None;
        for param in params {
            match param.key_and_value() {
                (None | Some("elementsize"), Param::Int(size @ 1..=65_535)) if item.is_none() => {
                    item = Some(*size as usize);
                }
                _ => {
                    let problem =
                        format!("expected one element size, 1 to 65535, as in shuffle:8, found {param}");
                    return Err(TransformError::bad_parameter("shuffle", problem));
                }
            }
        }
        Ok(Shuffle { item })
    }

    fn item(&self, logical: &Logical) -> usize {
        self.item.unwrap_or(logical.item).max(1)
    }
}

impl Codec for Shuffle {
    fn spec(&self) -> CodecSpec {
        let params = self.item.iter().map(|&size| Param::Int(size as i64)).collect();
        CodecSpec { name: "shuffle".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        kernel::shuffle(data, self.item(logical), out);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        if encoded.len() != out.len() {
            let what = format!("{} shuffled bytes, expected {}", encoded.len(), out.len());
            return Err(TransformError::corrupt(what, 0));
        }
        kernel::unshuffle(encoded, self.item(logical), out);
        Ok(())
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// Where a wanted part lies: whole elements in every plane, then bytes of the unshuffled tail.
struct Window {
    /// Elements touched.
    elements: Range<u64>,
    /// Encoded bytes of the tail touched; for them encoded and decoded places are the same.
    tail: Range<u64>,
    /// Elements in the whole.
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
    fn plan_read(&self, encoded_len: u64, logical: &Logical, wanted: Range<u64>) -> Vec<Range<u64>> {
        let item = self.item(logical) as u64;
        let Window { elements, tail, count } = window(encoded_len, item, &wanted);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let planes = (0..item).map(|j| j * count + elements.start..j * count + elements.end);
        for range in planes.chain([tail]).filter(|range| !range.is_empty()) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }

    fn decode_part(
        &self,
        encoded_len: u64,
        fetched: &[u8],
        logical: &Logical,
        wanted: Range<u64>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        // The fetched planes are the shuffled form of just the elements touched.
        let item = self.item(logical) as u64;
        let Window { elements, tail, .. } = window(encoded_len, item, &wanted);
        let whole = &mut scratch.whole;
        crate::scratch::set_len_reusing(whole, fetched.len());
        let split = fetched.len().checked_sub((tail.end - tail.start) as usize);
        let parts =
            split.and_then(|at| Some((fetched.split_at_checked(at)?, whole.split_at_mut_checked(at)?)));
        let Some(((planes, end), (body, rest))) = parts else {
            return Err(TransformError::corrupt("fewer bytes than planned", 0));
        };
        kernel::unshuffle(planes, item as usize, body);
        rest.copy_from_slice(end);
        let from =
            if elements.is_empty() { 0 } else { wanted.start.saturating_sub(elements.start * item) as usize };
        match whole.get(from..from.saturating_add(out.len())) {
            Some(cut) => out.copy_from_slice(cut),
            None => return Err(TransformError::corrupt("fewer bytes than planned", 0)),
        }
        Ok(())
    }
}
