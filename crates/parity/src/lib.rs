//! Encodes parity over chunks of bytes, and rebuilds lost chunks from it: XOR, and Reed-Solomon over GF(2^16). No I/O.
//!
//! One parity chunk is the XOR of the data chunks. Several are a Reed-Solomon code, which needs the feature
//! `reed-solomon`; docs/format/redundancy.md specifies its field and its points. As many chunks may be lost as there
//! are parity chunks.
//!
//! Invariants
//! - all chunks of a call have the same length, and a length that is not a multiple of [`unit`] is refused;
//! - byte ranges of a chunk that begin and end at multiples of [`unit`] are coded independently of the rest.

#![forbid(unsafe_code)]

use std::fmt;

/// Bytes of a block: the length of chunks of a Reed-Solomon code is a multiple of this.
const BLOCK: usize = 64;

/// Why no chunk was encoded or rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The chunks have different lengths, or a length that is not a multiple of [`unit`].
    Lengths,
    /// More chunks are lost than there are parity chunks.
    TooManyLost,
    /// This build has no Reed-Solomon code, or there are too many chunks for it.
    NoCode,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Lengths => "the chunks are not equally long",
            Refused::TooManyLost => "more chunks are lost than there are parity chunks",
            Refused::NoCode => {
                "this build does not support this many parity chunks (see the feature reed-solomon)"
            }
        })
    }
}

impl std::error::Error for Refused {}

/// Whether this build supports this many parity chunks.
pub const fn is_supported(parity: usize) -> bool {
    parity < 2 || cfg!(feature = "reed-solomon")
}

/// The length of a chunk must be a multiple of this if there are this many parity chunks.
pub const fn unit(parity: usize) -> usize {
    if parity < 2 { 1 } else { BLOCK }
}

/// The length of all chunks; an error if they differ.
fn length<'a>(chunks: impl Iterator<Item = &'a [u8]>, parity: usize) -> Result<usize, Refused> {
    let mut common = None;
    for chunk in chunks {
        if *common.get_or_insert(chunk.len()) != chunk.len() {
            return Err(Refused::Lengths);
        }
    }
    common.filter(|len| len % unit(parity) == 0).ok_or(Refused::Lengths)
}

/// The `parity` parity chunks of some data chunks.
pub fn encode(data: &[&[u8]], parity: usize) -> Result<Vec<Vec<u8>>, Refused> {
    let len = length(data.iter().copied(), parity)?;
    match parity {
        0 => Ok(Vec::new()),
        1 => Ok(vec![xor(len, data.iter().copied())]),
        _ if len == 0 => Ok(vec![Vec::new(); parity]),
        _ => reed_solomon::encode(data, parity, len),
    }
}

/// The data chunks that are `None`, in their order, rebuilt from the others and the existing parity chunks.
pub fn rebuild(data: &[Option<&[u8]>], parity: &[Option<&[u8]>]) -> Result<Vec<Vec<u8>>, Refused> {
    let lost = data.iter().filter(|chunk| chunk.is_none()).count();
    let there = parity.iter().flatten().count();
    if lost == 0 {
        return Ok(Vec::new());
    }
    if there < lost {
        return Err(Refused::TooManyLost);
    }
    let len = length(data.iter().chain(parity).flatten().copied(), parity.len())?;
    match parity.len() {
        1 => Ok(vec![xor(len, data.iter().chain(parity).flatten().copied())]),
        _ if len == 0 => Ok(vec![Vec::new(); lost]),
        _ => reed_solomon::rebuild(data, parity, len),
    }
}

/// The XOR of chunks of this length.
fn xor<'a>(len: usize, chunks: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut sum: Vec<u8> = Vec::new();
    for chunk in chunks {
        match sum.is_empty() {
            true => sum.extend_from_slice(chunk),
            false => sum.iter_mut().zip(chunk).for_each(|(sum, byte)| *sum ^= byte),
        }
    }
    sum.resize(len, 0);
    sum
}

#[cfg(feature = "reed-solomon")]
mod reed_solomon {
    use reed_solomon_simd::engine::DefaultEngine;
    use reed_solomon_simd::rate::{HighRateDecoder, HighRateEncoder, RateDecoder, RateEncoder};

    use super::Refused;

    fn refused(_: reed_solomon_simd::Error) -> Refused {
        Refused::NoCode
    }

    pub(super) fn encode(data: &[&[u8]], parity: usize, len: usize) -> Result<Vec<Vec<u8>>, Refused> {
        let engine = DefaultEngine::new();
        let mut encoder = HighRateEncoder::new(data.len(), parity, len, engine, None).map_err(refused)?;
        for chunk in data {
            encoder.add_original_shard(chunk).map_err(refused)?;
        }
        let done = encoder.encode().map_err(refused)?;
        Ok(done.recovery_iter().map(<[u8]>::to_vec).collect())
    }

    pub(super) fn rebuild(
        data: &[Option<&[u8]>],
        parity: &[Option<&[u8]>],
        len: usize,
    ) -> Result<Vec<Vec<u8>>, Refused> {
        let engine = DefaultEngine::new();
        let mut decoder =
            HighRateDecoder::new(data.len(), parity.len(), len, engine, None).map_err(refused)?;
        for (number, chunk) in data.iter().enumerate() {
            if let Some(chunk) = chunk {
                decoder.add_original_shard(number, chunk).map_err(refused)?;
            }
        }
        for (number, chunk) in parity.iter().enumerate() {
            if let Some(chunk) = chunk {
                decoder.add_recovery_shard(number, chunk).map_err(refused)?;
            }
        }
        let done = decoder.decode().map_err(refused)?;
        let lost = data.iter().enumerate().filter(|(_, chunk)| chunk.is_none());
        lost.map(|(number, _)| done.restored_original(number).map(<[u8]>::to_vec).ok_or(Refused::TooManyLost))
            .collect()
    }
}

#[cfg(not(feature = "reed-solomon"))]
mod reed_solomon {
    use super::Refused;

    pub(super) fn encode(_: &[&[u8]], _: usize, _: usize) -> Result<Vec<Vec<u8>>, Refused> {
        Err(Refused::NoCode)
    }

    pub(super) fn rebuild(
        _: &[Option<&[u8]>],
        _: &[Option<&[u8]>],
        _: usize,
    ) -> Result<Vec<Vec<u8>>, Refused> {
        Err(Refused::NoCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(count: usize, len: usize) -> Vec<Vec<u8>> {
        let byte = |chunk: usize, at: usize| ((chunk + 1) * (at + 3) * 131 % 251) as u8;
        (0..count).map(|chunk| (0..len).map(|at| byte(chunk, at)).collect()).collect()
    }

    /// Tests every way to lose as many data chunks as there are parity chunks, with only as many parity chunks as are
    /// needed.
    fn all_losses(count: usize, parity: usize, len: usize) {
        let data = chunks(count, len);
        let all: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let coded = encode(&all, parity).expect("it is coded");
        assert_eq!(coded.len(), parity);
        for lost in 0u32..1 << (count + parity) {
            if lost.count_ones() as usize != parity {
                continue;
            }
            let left = |at: usize, chunk: &'_ [u8]| (lost >> at & 1 == 0).then(|| chunk.to_vec());
            let there: Vec<Option<Vec<u8>>> = (0..count).map(|at| left(at, &data[at])).collect();
            let parity: Vec<Option<Vec<u8>>> = (0..parity).map(|at| left(count + at, &coded[at])).collect();
            let there: Vec<Option<&[u8]>> = there.iter().map(Option::as_deref).collect();
            let parity: Vec<Option<&[u8]>> = parity.iter().map(Option::as_deref).collect();
            let rebuilt = rebuild(&there, &parity).expect("enough is there");
            let wanted: Vec<&Vec<u8>> =
                (0..count).filter(|at| there[*at].is_none()).map(|at| &data[at]).collect();
            assert_eq!(rebuilt.iter().collect::<Vec<_>>(), wanted, "lost {lost:b}");
        }
    }

    #[test]
    fn one_lost_chunk_is_rebuilt_from_the_xor() {
        all_losses(1, 1, 10);
        all_losses(5, 1, 1001);
    }

    #[cfg(feature = "reed-solomon")]
    #[test]
    fn as_many_chunks_as_there_are_parity_chunks_can_be_rebuilt() {
        all_losses(1, 2, 64);
        all_losses(4, 2, 192);
        all_losses(5, 3, 128);
    }

    #[cfg(feature = "reed-solomon")]
    #[test]
    fn ranges_of_chunks_are_coded_independently() {
        let data = chunks(6, 256);
        let whole: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let range: Vec<&[u8]> = data.iter().map(|chunk| &chunk[64..192]).collect();
        let (whole, range) = (encode(&whole, 2).expect("coded"), encode(&range, 2).expect("coded"));
        assert!(whole.iter().zip(&range).all(|(whole, range)| &whole[64..192] == range.as_slice()));
    }

    #[test]
    fn impossible_codes_are_refused() {
        assert_eq!(encode(&[&[1, 2], &[3]], 1), Err(Refused::Lengths));
        assert_eq!(rebuild(&[None, None], &[Some(&[1])]), Err(Refused::TooManyLost));
        assert_eq!(rebuild(&[None], &[Some(&[1]), None]), Err(Refused::Lengths), "no multiple of 64");
    }
}
