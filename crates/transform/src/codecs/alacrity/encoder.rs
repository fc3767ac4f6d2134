//! Encoding: the elements of each bin are counted, then elements are moved to where their bins begin. Nothing is
//! sorted.
//!
//! The elements are processed as four quarters side by side, each with its own counters. With one set of counters, an
//! element would often need the counter that the previous one has just changed, and the processor would wait for it.
//! Position and key are moved as one record, so each element is written to one place.

use super::head::{Bin, Layout, MAX_BINS, MAX_BITS};
use super::lists;
use crate::Scratch;
use crate::scratch::set_len_reusing;
use crate::stats::class::Class;

/// Number of parts that are processed side by side.
const PARTS: usize = 4;
/// Number of keys that are computed at a time.
const BLOCK: usize = 256;

/// Evaluates `$body` with `$key`, a function from an element's bytes to its key of type `$t`, and `$n`, the bytes of an
/// element.
macro_rules! for_class {
    ($t:ty, $signed:ty, $class:expr, $key:ident, $n:ident => $body:expr) => {{
        const $n: usize = size_of::<$t>();
        const SIGN: $t = 1 << (<$t>::BITS - 1);
        match $class {
            Class::Unsigned | Class::Opaque => {
                let $key = |bytes: [u8; $n]| <$t>::from_le_bytes(bytes);
                $body
            }
            Class::Signed => {
                let $key = |bytes: [u8; $n]| <$t>::from_le_bytes(bytes) ^ SIGN;
                $body
            }
            Class::Half | Class::BFloat | Class::Single | Class::Double => {
                let $key = |bytes: [u8; $n]| {
                    let bits = <$t>::from_le_bytes(bytes);
                    // For negative numbers all bits are flipped, for others only the sign.
                    bits ^ ((bits as $signed >> (<$t>::BITS - 1)) as $t | SIGN)
                };
                $body
            }
        }
    }};
}

macro_rules! for_elements {
    ($width:expr, $class:expr, $key:ident, $n:ident => $body:expr) => {
        match $width {
            1 => for_class!(u8, i8, $class, $key, $n => $body),
            2 => for_class!(u16, i16, $class, $key, $n => $body),
            4 => for_class!(u32, i32, $class, $key, $n => $body),
            _ => for_class!(u64, i64, $class, $key, $n => $body),
        }
    };
}

/// Appends head, lists and low bytes of the elements and, if `data`, the elements themselves.
pub(super) fn encode(
    elements: &[u8],
    tail: &[u8],
    (width, class, wished, data): (usize, Class, Option<u32>, bool),
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) {
    let whole = 8 * width as u32;
    let [mut next, spare] = std::mem::take(&mut scratch.words);
    let mut records = std::mem::take(&mut scratch.planes);
    let mut bits = wished.unwrap_or(MAX_BITS).min(MAX_BITS).min(whole);
    for_elements!(width, class, key, N => {
        count(elements.as_chunks::<N>().0, key, whole - bits, &mut next);
    });
    let number = elements.len() / width;
    // The most bits that give few enough bins. Few elements get fewer bins, since each bin costs some bytes.
    let most_bins = (number / 8).clamp(16, MAX_BINS);
    let mut sums = sums(&next, 1 << bits);
    while sums.iter().filter(|&&n| n > 0).count() > most_bins {
        (sums, next) = (halved(&sums), halved(&next));
        bits -= 1;
    }
    let bins = sums.iter().zip(0..).filter(|(count, _)| **count > 0);
    let mut layout = Layout {
        width,
        class,
        data,
        bits,
        bins: bins.map(|(&count, number)| Bin { number, count, list: 0 }).collect(),
        count: number as u64,
        tail: tail.len() as u64,
        lists: 0,
    };
    // Where the next element of each bin goes, by part; those of the first part come first.
    let mut begin = 0;
    for bin in &layout.bins {
        for part in next.chunks_mut(1 << bits) {
            let next = &mut part[bin.number as usize];
            (begin, *next) = (begin + *next, begin);
        }
    }
    let (below, low) = (layout.below(), layout.low());
    set_len_reusing(&mut records, number * (4 + width));
    for_elements!(width, class, key, N => {
        const M: usize = 4 + N;
        place::<_, N, M>(elements.as_chunks().0, key, below, &mut next, records.as_chunks_mut().0);
    });
    // The head's length is known before the lengths of the lists in it.
    let head = out.len();
    layout.write(out);
    let mut rest = records.as_slice();
    for bin in &mut layout.bins {
        let (own, after) = rest.split_at(bin.count as usize * (4 + width));
        rest = after;
        let before = out.len();
        match width {
            1 => lists::pack_by(own.as_chunks::<5>().0, |record| position(&record), out),
            2 => lists::pack_by(own.as_chunks::<6>().0, |record| position(&record), out),
            4 => lists::pack_by(own.as_chunks::<8>().0, |record| position(&record), out),
            _ => lists::pack_by(own.as_chunks::<12>().0, |record| position(&record), out),
        }
        bin.list = (out.len() - before) as u32;
    }
    let mut written = Vec::new();
    layout.write(&mut written);
    out[head..head + written.len()].copy_from_slice(&written);
    match (width, low) {
        (_, 0) => {}
        (1, _) => lows::<5, 1>(&records, out),
        (2, 1) => lows::<6, 1>(&records, out),
        (2, _) => lows::<6, 2>(&records, out),
        (4, 2) => lows::<8, 2>(&records, out),
        (4, 3) => lows::<8, 3>(&records, out),
        (4, _) => lows::<8, 4>(&records, out),
        (_, 6) => lows::<12, 6>(&records, out),
        (_, 7) => lows::<12, 7>(&records, out),
        _ => lows::<12, 8>(&records, out),
    }
    if data {
        out.extend_from_slice(elements);
    }
    out.extend_from_slice(tail);
    scratch.words = [next, spare];
    scratch.planes = records;
}

/// The sums of the counts of all parts.
fn sums(counts: &[u32], bins: usize) -> Vec<u32> {
    let mut sums = vec![0; bins];
    for part in counts.chunks(bins) {
        sums.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
    }
    sums
}

/// The counts of bins that are twice as wide.
fn halved(counts: &[u32]) -> Vec<u32> {
    counts.as_chunks::<2>().0.iter().map(|[a, b]| a + b).collect()
}

/// The parts, and the remaining elements, which belong to the last part.
fn parts<T>(elements: &[T]) -> ([&[T]; PARTS], &[T]) {
    let each = elements.len() / PARTS;
    let (whole, rest) = elements.split_at(each * PARTS);
    let mut parts = whole.chunks_exact(each.max(1));
    (std::array::from_fn(|_| parts.next().unwrap_or_default()), rest)
}

/// The counters of each part.
fn counters(of: &mut [u32], bins: usize) -> [&mut [u32]; PARTS] {
    let mut parts = of.chunks_exact_mut(bins.max(1));
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// Calls `act` with part, position and key of every element, alternating between parts.
#[inline(always)]
fn each_key<T: Copy + Default + Into<u64>, const N: usize>(
    elements: &[[u8; N]],
    key: impl Fn([u8; N]) -> T,
    mut act: impl FnMut(usize, usize, u64),
) {
    let (parts, rest) = parts(elements);
    let each = elements.len() / PARTS;
    // Several keys are computed at a time, in vectors.
    let mut keys = [[T::default(); BLOCK]; PARTS];
    for first in (0..each).step_by(BLOCK) {
        let count = BLOCK.min(each - first);
        for (keys, part) in keys.iter_mut().zip(parts) {
            let some = part.get(first..first + count).unwrap_or_default();
            keys.iter_mut().zip(some).for_each(|(to, element)| *to = key(*element));
        }
        for n in 0..count {
            for (part, keys) in keys.iter().enumerate() {
                act(part, part * each + first + n, keys[n].into());
            }
        }
    }
    rest.iter().enumerate().for_each(|(n, one)| act(PARTS - 1, PARTS * each + n, key(*one).into()));
}

/// Counts the elements of each bin, part by part.
fn count<T: Copy + Default + Into<u64>, const N: usize>(
    elements: &[[u8; N]],
    key: impl Fn([u8; N]) -> T,
    below: u32,
    counts: &mut Vec<u32>,
) {
    let bins = 1usize << (8 * N as u32 - below);
    counts.clear();
    counts.resize(PARTS * bins, 0);
    let counts = counters(counts, bins);
    each_key(elements, key, |part, _, key| counts[part][(key >> below) as usize] += 1);
}

/// Writes each element's position and key to the next free record of its bin. `next` has the next record of each bin,
/// part by part.
fn place<T: Copy + Default + Into<u64>, const N: usize, const M: usize>(
    elements: &[[u8; N]],
    key: impl Fn([u8; N]) -> T,
    below: u32,
    next: &mut [u32],
    records: &mut [[u8; M]],
) {
    let next = counters(next, 1 << (8 * N as u32 - below));
    each_key(elements, key, |part, position, key| {
        let next = &mut next[part][(key >> below) as usize];
        let to = *next as usize;
        *next += 1;
        let Some(to) = records.get_mut(to) else { return };
        if M == 8 {
            // One store instead of two.
            to.copy_from_slice(&(position as u64 | key << 32).to_le_bytes());
        } else if let Some((first, last)) = to.split_first_chunk_mut() {
            *first = (position as u32).to_le_bytes();
            last.copy_from_slice(&key.to_le_bytes()[..N]);
        }
    });
}

/// The position of an element in its record.
fn position<const M: usize>(record: &[u8; M]) -> u32 {
    record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Appends the low bytes of keys.
fn lows<const M: usize, const L: usize>(records: &[u8], out: &mut Vec<u8>) {
    let (records, before) = (records.as_chunks::<M>().0, out.len());
    out.resize(before + records.len() * L, 0);
    let mut records = records;
    let mut to = &mut out[before..];
    if (M, L) == (8, 3) {
        // Four records give twelve bytes: two stores instead of eight.
        let (fours, rest) = records.as_chunks::<4>();
        let (twelves, last) = to.split_at_mut(fours.len() * 12);
        for (to, four) in twelves.as_chunks_mut::<12>().0.iter_mut().zip(fours) {
            let [a, b, c, d] = four.each_ref().map(|record| {
                record.last_chunk::<4>().map_or(0, |key| u64::from(u32::from_le_bytes(*key))) & 0xff_ffff
            });
            to[..8].copy_from_slice(&(a | b << 24 | c << 48).to_le_bytes());
            to[8..].copy_from_slice(&((c >> 16 | d << 8) as u32).to_le_bytes());
        }
        (records, to) = (rest, last);
    }
    for (to, record) in to.as_chunks_mut::<L>().0.iter_mut().zip(records) {
        to.copy_from_slice(&record[4..4 + L]);
    }
}
