//! Lists of ascending positions, in batches of 128 gaps packed to few bits with exceptions (PForDelta).
//!
//! A batch is its first position (u32), the bits b of a gap, the number e of exceptions, the gaps (each one
//! less than the difference to the position before) in b bits from the least significant on, and e times slot
//! (u8) and gap (u32). Runs of neighbours, which smooth fields are full of, take no bits at all.

use crate::TransformError;

const BATCH: usize = 128;
/// Bytes of an exception.
const EXCEPTION: usize = 5;

/// Appends the list to `out`. `positions` ascends strictly.
pub(crate) fn pack(positions: &[u32], out: &mut Vec<u8>) {
    for batch in positions.chunks(BATCH) {
        let Some((&first, rest)) = batch.split_first() else { continue };
        let mut gaps = [0u32; BATCH];
        let gaps = &mut gaps[..rest.len()];
        for (gap, (position, before)) in gaps.iter_mut().zip(rest.iter().zip(batch)) {
            *gap = position.wrapping_sub(*before).wrapping_sub(1);
        }
        let (bits, exceptions) = cheapest(gaps);
        let packed = (gaps.len() * bits as usize).div_ceil(8);
        let begin = out.len();
        // Words are written whole, the last one beyond the final length.
        out.resize(begin + 6 + packed + exceptions * EXCEPTION + 8, 0);
        let (head, body) = out[begin..].split_at_mut(6);
        head[..4].copy_from_slice(&first.to_le_bytes());
        (head[4], head[5]) = (bits as u8, exceptions as u8);
        if exceptions > 0 {
            let most = ((1u64 << bits) - 1) as u32;
            let mut slots = body[packed..].chunks_exact_mut(EXCEPTION);
            for (slot, gap) in gaps.iter_mut().enumerate().filter(|(_, gap)| **gap > most) {
                if let Some(to) = slots.next() {
                    to[0] = slot as u8;
                    to[1..].copy_from_slice(&gap.to_le_bytes());
                }
                *gap = 0;
            }
        }
        let body = &mut body[..packed + exceptions * EXCEPTION + 8];
        let (mut held, mut have, mut at) = (0u64, 0u32, 0usize);
        for &gap in gaps.iter() {
            held |= u64::from(gap) << have;
            have += bits;
            if have >= 32 {
                body[at..at + 4].copy_from_slice(&(held as u32).to_le_bytes());
                (held, have, at) = (held >> 32, have - 32, at + 4);
            }
        }
        let left = have.div_ceil(8) as usize;
        body[at..at + left].copy_from_slice(&held.to_le_bytes()[..left]);
        out.truncate(begin + 6 + packed + exceptions * EXCEPTION);
    }
}

/// The bits of a gap with which a batch takes the fewest bytes, and how many gaps are longer.
fn cheapest(gaps: &[u32]) -> (u32, usize) {
    // How many gaps have each number of bits; neighbours count alternately in two tables.
    let (mut even, mut odd) = ([0u8; 64], [0u8; 64]);
    let wide = |gap: u32| (32 - gap.leading_zeros()) as usize % 64;
    let (pairs, last) = gaps.as_chunks::<2>();
    for [a, b] in pairs {
        even[wide(*a)] += 1;
        odd[wide(*b)] += 1;
    }
    last.iter().for_each(|gap| even[wide(*gap)] += 1);
    let mut exceptions = gaps.len();
    let mut best = (usize::MAX, 0, 0);
    for (bits, (a, b)) in even.iter().zip(&odd).take(33).enumerate() {
        exceptions -= usize::from(*a) + usize::from(*b);
        let size = (gaps.len() * bits).div_ceil(8) + exceptions * EXCEPTION;
        if size < best.0 {
            best = (size, bits as u32, exceptions);
        }
        if exceptions == 0 {
            break;
        }
    }
    (best.1, best.2)
}

/// Passes every position of a list of `count` to `visit`. Refuses one that is not below `limit`, and a list
/// that is longer or shorter than its bytes.
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
        let mut special = take(exceptions * EXCEPTION)?.chunks_exact(EXCEPTION);
        let mut next = special.next();
        let mut position = u64::from(first);
        if position < least || position >= limit {
            return Err(damaged(&format!("holds {position}, not in {least}..{limit}")));
        }
        visit(first);
        let mask = (1u64 << bits) - 1;
        let (mut held, mut have) = (0u64, 0u32);
        let mut packed = packed.iter();
        for slot in 0..batch - 1 {
            while have < bits {
                held |= u64::from(packed.next().copied().unwrap_or(0)) << have;
                have += 8;
            }
            let mut gap = held & mask;
            held >>= bits;
            have -= bits;
            if let Some([at, wide @ ..]) = next
                && usize::from(*at) == slot
            {
                gap = word(wide).into();
                next = special.next();
            }
            position += gap + 1;
            if position >= limit {
                return Err(damaged(&format!("holds {position}, not below {limit}")));
            }
            visit(position as u32);
        }
        if next.is_some() {
            return Err(damaged("has exceptions out of place"));
        }
        least = position + 1;
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged("goes on behind its end")) }
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
