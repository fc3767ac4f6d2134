//! Lists of ascending positions, in batches of 128 gaps packed to few bits with exceptions (PForDelta).
//!
//! A batch is its first position (u32), the bits b of a gap, the number e of exceptions, the gaps (each one less than
//! the difference to the position before) in b bits from the least significant on, and e times slot (u8) and gap (u32).
//! A run of consecutive positions, frequent in smooth fields, takes no bits at all.

use crate::TransformError;
use drystone_vectorised::vectorised;

const BATCH: usize = 128;
/// Bytes of an exception.
const EXCEPTION: usize = 5;
/// The most bytes of a batch, and of what is temporarily written after its gaps.
const MOST: usize = 6 + 4 * BATCH + 2 * size_of::<u64>();

/// Appends a packed list to `out`. `positions` ascend strictly.
pub(crate) fn pack(positions: &[u32], out: &mut Vec<u8>) {
    pack_by(positions, |position| position, out);
}

/// Appends the packed list of the positions in `of` to `out`; they ascend strictly.
pub(crate) fn pack_by<T: Copy>(of: &[T], position: impl Fn(T) -> u32, out: &mut Vec<u8>) {
    let mut packed = [0u8; MOST];
    for batch in of.chunks(BATCH) {
        let Some((&first, rest)) = batch.split_first() else { continue };
        let mut gaps = [0u32; BATCH];
        for (gap, (next, before)) in gaps.iter_mut().zip(rest.iter().zip(batch)) {
            *gap = position(*next).wrapping_sub(position(*before)).wrapping_sub(1);
        }
        let len = pack_batch(position(first), &mut gaps, rest.len(), &mut packed);
        out.extend_from_slice(&packed[..len]);
    }
}

/// Packs a batch whose first `count` gaps are given and whose other gaps are 0; returns its bytes.
fn pack_batch(first: u32, gaps: &mut [u32; BATCH], count: usize, out: &mut [u8; MOST]) -> usize {
    let (bits, exceptions) = cheapest(gaps, count);
    let packed = (count * bits as usize).div_ceil(8);
    out[..4].copy_from_slice(&first.to_le_bytes());
    (out[4], out[5]) = (bits as u8, exceptions as u8);
    let mut special = [0u8; (BATCH + 1) * EXCEPTION];
    if exceptions > 0 {
        let most = ((1u64 << bits) - 1) as u32;
        // Every gap is written as an exception, and kept only if it is too long.
        let (slots, mut long) = (special.as_chunks_mut::<EXCEPTION>().0, 0);
        for (slot, gap) in gaps.iter_mut().enumerate() {
            if let Some([at, to @ ..]) = slots.get_mut(long) {
                (*at, *to) = (slot as u8, gap.to_le_bytes());
            }
            let is_long = *gap > most;
            long += usize::from(is_long);
            *gap &= u32::from(is_long).wrapping_sub(1);
        }
    }
    // Eight bytes are written at a time; later writes overwrite the last ones.
    let (mut held, mut have, mut at) = (0u64, 0u32, 6);
    let mut push = |value: u64, wide: u32| {
        held |= value << have;
        have += wide;
        if let Some(to) = out.get_mut(at..at + 8) {
            to.copy_from_slice(&held.to_le_bytes());
        }
        let whole = have / 8;
        at += whole as usize;
        (held, have) = (held >> (8 * whole), have % 8);
    };
    match bits {
        0 => {}
        1..=14 => {
            for [a, b, c, d] in gaps[..count.next_multiple_of(4)].as_chunks::<4>().0 {
                let (low, high) =
                    (u64::from(*a) | u64::from(*b) << bits, u64::from(*c) | u64::from(*d) << bits);
                push(low | high << (2 * bits), 4 * bits);
            }
        }
        15..=28 => {
            for [a, b] in gaps[..count.next_multiple_of(2)].as_chunks::<2>().0 {
                push(u64::from(*a) | u64::from(*b) << bits, 2 * bits);
            }
        }
        _ => gaps[..count].iter().for_each(|gap| push((*gap).into(), bits)),
    }
    let special = &special[..exceptions * EXCEPTION];
    let end = 6 + packed + special.len();
    out[6 + packed..end].copy_from_slice(special);
    end
}

vectorised! {
    /// The number of bits per gap with which a batch takes the fewest bytes, and how many gaps need more. Gaps after
    /// the first `count` are 0.
    fn cheapest<T: Gap>(gaps: &[T; BATCH], count: usize) -> (u32, usize) {
        let all = gaps.iter().fold(0, |all, gap| all | gap.number());
        let widest = 32 - all.leading_zeros();
        let mut best = ((count * widest as usize).div_ceil(8), widest, 0);
        for bits in (0..widest).rev() {
            let most = ((1u64 << bits) - 1) as u32;
            let exceptions = gaps.iter().map(|gap| u32::from(gap.number() > most)).sum::<u32>() as usize;
            let size = (count * bits as usize).div_ceil(8) + exceptions * EXCEPTION;
            if size <= best.0 {
                best = (size, bits, exceptions);
            }
            // With fewer bits there are more exceptions.
            if exceptions * EXCEPTION > best.0 {
                break;
            }
        }
        (best.1, best.2)
    }
}

/// A gap between positions.
trait Gap: Copy {
    fn number(self) -> u32;
}

impl Gap for u32 {
    #[inline(always)]
    fn number(self) -> u32 {
        self
    }
}

/// Calls `visit` with every position of a list of `count`. Refuses positions that are not below `limit`, and a list
/// whose bytes are too few or too many.
pub(crate) fn unpack(
    bytes: &[u8],
    count: usize,
    limit: u64,
    mut visit: impl FnMut(u32),
) -> Result<(), TransformError> {
    let damaged = |what: &str| TransformError::corrupt(format!("a list of positions {what}"), 0);
    let mut rest = bytes;
    let mut take = |n: usize| -> Result<&[u8], TransformError> {
        let (taken, after) = rest.split_at_checked(n).ok_or_else(|| damaged("ends early"))?;
        rest = after;
        Ok(taken)
    };
    let word = |b: &[u8]| b.iter().rev().fold(0u32, |w, &byte| w << 8 | u32::from(byte));
    let mut least = 0u64;
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        let head = take(6)?;
        let (first, bits, exceptions) = (word(&head[..4]), u32::from(head[4]), usize::from(head[5]));
        if bits > 32 || exceptions >= batch {
            return Err(damaged(&format!("with {exceptions} exceptions of {batch} in {bits} bits")));
        }
        let packed = take(((batch - 1) * bits as usize).div_ceil(8))?;
        let special = take(exceptions * EXCEPTION)?.as_chunks::<EXCEPTION>().0;
        let mut gaps = [0u32; BATCH];
        unpack_gaps(packed, bits, &mut gaps[..batch - 1]);
        let mut behind = 0;
        for [at, wide @ ..] in special {
            let slot = usize::from(*at);
            match gaps[..batch - 1].get_mut(slot).filter(|_| slot >= behind) {
                Some(gap) => (*gap, behind) = (u32::from_le_bytes(*wide), slot + 1),
                None => return Err(damaged("has exceptions out of place")),
            }
        }
        let gaps = &gaps[..batch - 1];
        let last = gaps.iter().fold(u64::from(first), |at, gap| at + u64::from(*gap) + 1);
        if u64::from(first) < least || last >= limit {
            return Err(damaged(&format!("holds {first} to {last}, not in {least}..{limit}")));
        }
        // All positions of a batch are at most the last one.
        let mut position = first;
        visit(position);
        for gap in gaps {
            position = position.wrapping_add(*gap).wrapping_add(1);
            visit(position);
        }
        least = last + 1;
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged("goes on behind its end")) }
}

/// Unpacks gaps of this many bits, from the least significant bit on.
fn unpack_gaps(packed: &[u8], bits: u32, gaps: &mut [u32]) {
    // Eight bytes are read at a time, also beyond the last ones.
    let mut bytes = [0u8; 4 * BATCH + size_of::<u64>()];
    if let Some(to) = bytes.get_mut(..packed.len()) {
        to.copy_from_slice(packed);
    }
    let mask = (1u64 << bits) - 1;
    let mut at = 0;
    for gap in gaps {
        let word =
            bytes.get(at / 8..).and_then(|bytes| bytes.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
        *gap = (word >> (at % 8) & mask) as u32;
        at += bits as usize;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_shape_come_back() {
        let mut state = 1u64;
        for case in 0..300u32 {
            let mut positions = Vec::new();
            let mut at = case % 3;
            for _ in 0..case * 2 {
                positions.push(at);
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let wide = [0, 0, 3, 900, 70_000][(case % 5) as usize];
                at += 1 + (state >> 40) as u32 % (wide + 1) + if state >> 60 == 0 { 5000 } else { 0 };
            }
            let mut bytes = Vec::new();
            pack(&positions, &mut bytes);
            let limit = u64::from(at) + 1;
            let mut back = Vec::new();
            unpack(&bytes, positions.len(), limit, |p| back.push(p)).unwrap();
            assert_eq!(back, positions, "case {case}");
            if let Some(&last) = positions.last() {
                assert!(unpack(&bytes, positions.len(), last.into(), |_| ()).is_err());
                assert!(unpack(&bytes[..bytes.len() - 1], positions.len(), limit, |_| ()).is_err());
            }
        }
    }

    #[test]
    fn neighbours_take_no_bits() {
        let mut bytes = Vec::new();
        pack(&(500..500 + 1280).collect::<Vec<u32>>(), &mut bytes);
        assert_eq!(bytes.len(), 60);
    }
}
