//! Encoding: bins are counted, then positions and low bytes are written to where their bins begin. Nothing is
//! sorted.
//!
//! Two passes over the elements, each a loop of its own per width and class, and one over the positions,
//! which packs the lists.

use super::head::{Bin, Layout, MAX_BINS, MAX_BITS};
use super::lists;
use crate::Scratch;
use crate::scratch::set_len_reusing;
use crate::stats::class::Class;

/// Evaluates `$body` with `$key` a function from an element's bytes to its key, and `$n` the bytes of an element.
macro_rules! for_class {
    ($t:ty, $class:expr, $key:ident, $n:ident => $body:expr) => {{
        const $n: usize = size_of::<$t>();
        match $class {
            Class::Unsigned | Class::Opaque => {
                let $key = |bytes: [u8; $n]| -> u64 { <$t>::from_le_bytes(bytes).into() };
                $body
            }
            Class::Signed => {
                let $key =
                    |bytes: [u8; $n]| -> u64 { Class::Signed.key(<$t>::from_le_bytes(bytes).into(), $n) };
                $body
            }
            Class::Half | Class::BFloat | Class::Single | Class::Double => {
                let $key =
                    |bytes: [u8; $n]| -> u64 { Class::Double.key(<$t>::from_le_bytes(bytes).into(), $n) };
                $body
            }
        }
    }};
}

macro_rules! for_elements {
    ($width:expr, $class:expr, $key:ident, $n:ident => $body:expr) => {
        match $width {
            1 => for_class!(u8, $class, $key, $n => $body),
            2 => for_class!(u16, $class, $key, $n => $body),
            4 => for_class!(u32, $class, $key, $n => $body),
            _ => for_class!(u64, $class, $key, $n => $body),
        }
    };
}

/// Appends head, lists and low bytes of the elements, and the elements themselves where `data`.
pub(super) fn encode(
    elements: &[u8],
    tail: &[u8],
    (width, class, wished, data): (usize, Class, Option<u32>, bool),
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) {
    let count = elements.len() / width;
    let whole = 8 * width as u32;
    let [mut counts, mut starts, mut positions] = std::mem::take(&mut scratch.words);
    let mut lows = std::mem::take(&mut scratch.planes);
    let mut bits = wished.unwrap_or(MAX_BITS).min(MAX_BITS).min(whole);
    for_elements!(width, class, key, N => {
        count_bins(elements.as_chunks::<N>().0, key, whole - bits, &mut counts, &mut starts);
    });
    // The most bits that make few enough bins; for few elements fewer, since each bin costs some bytes.
    let most_bins = (count / 8).clamp(16, MAX_BINS);
    while counts.iter().filter(|&&n| n > 0).count() > most_bins {
        let half = counts.len() / 2;
        (0..half).for_each(|bin| counts[bin] = counts[2 * bin] + counts[2 * bin + 1]);
        counts.truncate(half);
        bits -= 1;
    }
    let mut layout = Layout {
        width,
        class,
        data,
        bits,
        bins: Vec::new(),
        count: count as u64,
        tail: tail.len() as u64,
        lists: 0,
    };
    // Where each bin's elements begin among all, in the order of bins.
    starts.clear();
    let mut at = 0;
    for (number, &n) in counts.iter().enumerate() {
        starts.push(at);
        at += n;
        if n > 0 {
            layout.bins.push(Bin { number: number as u32, count: n, list: 0 });
        }
    }
    if positions.len() < count {
        positions.resize(count, 0);
    }
    let low = layout.low();
    set_len_reusing(&mut lows, count * low);
    let (below, to) = (layout.below(), (positions.as_mut_slice(), starts.as_mut_slice()));
    for_elements!(width, class, key, N => {
        let elements = elements.as_chunks::<N>().0;
        match low {
            0 => place::<0, N>(elements, key, below, to, &mut []),
            1 => place::<1, N>(elements, key, below, to, lows.as_chunks_mut().0),
            2 => place::<2, N>(elements, key, below, to, lows.as_chunks_mut().0),
            3 => place::<3, N>(elements, key, below, to, lows.as_chunks_mut().0),
            4 => place::<4, N>(elements, key, below, to, lows.as_chunks_mut().0),
            6 => place::<6, N>(elements, key, below, to, lows.as_chunks_mut().0),
            7 => place::<7, N>(elements, key, below, to, lows.as_chunks_mut().0),
            _ => place::<8, N>(elements, key, below, to, lows.as_chunks_mut().0),
        }
    });
    // The head's length is known before the lengths of the lists that it holds.
    let head = out.len();
    layout.write(out);
    let mut rest = positions.get(..count).unwrap_or_default();
    for bin in &mut layout.bins {
        let (own, after) = rest.split_at(bin.count as usize);
        let before = out.len();
        lists::pack(own, out);
        bin.list = (out.len() - before) as u32;
        rest = after;
    }
    let mut written = Vec::new();
    layout.write(&mut written);
    out[head..head + written.len()].copy_from_slice(&written);
    out.extend_from_slice(&lows);
    if data {
        out.extend_from_slice(elements);
    }
    out.extend_from_slice(tail);
    scratch.words = [counts, starts, positions];
    scratch.planes = lows;
}

/// Counts the elements of each bin. Neighbours count alternately in two tables: they often have the same bin.
fn count_bins<const N: usize>(
    elements: &[[u8; N]],
    key: impl Fn([u8; N]) -> u64,
    below: u32,
    even: &mut Vec<u32>,
    odd: &mut Vec<u32>,
) {
    let bins = 1usize << (8 * N as u32 - below);
    for table in [&mut *even, &mut *odd] {
        table.clear();
        table.resize(bins, 0);
    }
    let (a, b) = (even.as_mut_slice(), odd.as_mut_slice());
    let (pairs, last) = elements.as_chunks::<2>();
    for [first, second] in pairs {
        a[(key(*first) >> below) as usize] += 1;
        b[(key(*second) >> below) as usize] += 1;
    }
    for one in last {
        a[(key(*one) >> below) as usize] += 1;
    }
    a.iter_mut().zip(b).for_each(|(a, b)| *a += *b);
}

/// Writes each element's position, and the low bytes of its key, behind those of its bin. `starts` has the
/// next offset of each bin.
fn place<const L: usize, const N: usize>(
    elements: &[[u8; N]],
    key: impl Fn([u8; N]) -> u64,
    below: u32,
    (positions, starts): (&mut [u32], &mut [u32]),
    lows: &mut [[u8; L]],
) {
    for (i, bytes) in elements.iter().enumerate() {
        let key = key(*bytes);
        let next = &mut starts[(key >> below) as usize];
        let to = *next as usize;
        *next += 1;
        positions[to] = i as u32;
        if L > 0 {
            let bytes = key.to_le_bytes();
            lows[to] = std::array::from_fn(|n| bytes[n]);
        }
    }
}
