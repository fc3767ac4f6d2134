//! Encodes one LZ4 block (`lz4_Block_format.md` of the lz4 project), greedily and in one pass.
//!
//! A hash table has the last offset of each sequence of bytes. It holds only the lower 16 bits of the offset, so its
//! answer is a distance of less than 64 KiB, which the format can express, to an existing offset. The only test is
//! whether the bytes there are equal, since mispredicted branches are the main cost of finding copies. While no copies
//! are found, steps grow.
//!
//! Invariants
//! - the table never returns an offset before the first byte;
//! - the block ends with at least [`LAST_LITERALS`] literals, and no copy begins within its last [`NO_COPY`] bytes, as
//!   the format demands;
//! - equal data gives equal blocks, whatever was encoded before.

use std::ptr;

/// The least length of a copy; tokens store the rest.
const MIN_MATCH: usize = 4;
/// Number of bytes at the end that are never part of a copy.
const LAST_LITERALS: usize = 5;
/// Number of bytes at the end within which no copy begins.
const NO_COPY: usize = 12;
/// A length of four bits with this value continues in further bytes.
const MORE: usize = 15;
/// A length from this value on takes more than one further byte.
const LONG: usize = MORE + 255;
/// Number of bytes that are looked up: shorter copies are hardly longer than their encoding.
const SOUGHT: u32 = 6;
/// Steps grow by one after each 2^PATIENCE offsets without a copy.
const PATIENCE: u32 = 6;
/// Number of literals that are always copied in registers.
const FEW: usize = 32;
/// The least length of a block besides literals and bytes of 255: a token, a distance, and the last sequence.
const LEAST_BESIDES: usize = 1 + 2 + 1 + LAST_LITERALS;
/// Number of bytes that may be written beyond the longest allowed block.
const ROOM: usize = FEW;
/// Number of bytes that are compared at once, forward and backward.
const WIDTH: usize = 16;
const HALF: usize = 8;
/// Blocks up to this size use a small table, which is cleared faster.
const SMALL: usize = 4 << 10;

/// Longest block for `len` bytes of data.
pub(super) fn bound(len: usize) -> usize {
    len.saturating_add(len / 255).saturating_add(16)
}

/// Appends the block of `data` if it takes at most `most` bytes, and returns whether it does; if not, `out` is
/// unchanged. A larger acceleration looks up fewer offsets; the least is 1.
pub(super) fn encode(data: &[u8], acceleration: u32, most: usize, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let most = most.min(bound(data.len()));
    out.reserve(most + ROOM);
    let to = out.as_mut_ptr();
    // SAFETY: that many bytes were reserved after `start`.
    let written = unsafe {
        let to = to.add(start);
        if data.len() <= SMALL {
            sequences::<{ 1 << 10 }>(data, acceleration, to, most)
        } else {
            sequences::<{ 1 << 13 }>(data, acceleration, to, most)
        }
    };
    let Some(written) = written else { return false };
    // SAFETY: they were written, and are within the reserved memory.
    unsafe { out.set_len(start + written) };
    true
}

/// The lower 16 bits of the last offset of bytes, by their hash.
struct LastSeen<const SLOTS: usize>([u16; SLOTS]);

impl<const SLOTS: usize> LastSeen<SLOTS> {
    /// The distance from `at` back to the last occurrence of the same bytes, according to the table, in which `at` is
    /// then entered. The distance may be wrong, and may be 0, but is at most `at`, since the table holds no later
    /// offset. It is exact if the occurrence is less than 64 KiB back.
    #[inline(always)]
    fn distance(&mut self, here: u64, at: usize) -> usize {
        let sought = here << (64 - 8 * SOUGHT);
        let slot = sought.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.trailing_zeros());
        let place = &mut self.0[slot as usize % SLOTS];
        let distance = usize::from((at as u16).wrapping_sub(*place));
        *place = at as u16;
        debug_assert!(distance <= at);
        distance
    }
}

/// Writes the sequences of a block to `to` and returns their length; `None` if that exceeds `most`.
///
/// # Safety
/// `most` bytes and [`ROOM`] more may be written.
unsafe fn sequences<const SLOTS: usize>(
    data: &[u8],
    acceleration: u32,
    to: *mut u8,
    most: usize,
) -> Option<usize> {
    let (from, len) = (data.as_ptr(), data.len());
    let mut seen = LastSeen([0; SLOTS]);
    let first_step = (acceleration.max(1) as usize) << PATIENCE;
    // The number of encoded bytes of `data`, and the length of the result; always at most `len` and `most`.
    let (mut done, mut end) = (0, 0);
    if let Some(last) = len.checked_sub(NO_COPY) {
        let copied_to = len - LAST_LITERALS;
        let mut at = 1;
        'search: while at <= last {
            let (mut steps, mut distance) = (first_step, 0);
            // SAFETY: at least eight bytes follow `last`, and `distance` is at most `at`.
            while unsafe { !repeats(&mut seen, from, at, &mut distance) } {
                at += steps >> PATIENCE;
                steps += 1;
                if at > last {
                    break 'search;
                }
            }
            // SAFETY: that many bytes exist before both places.
            at -= unsafe { same_before(from.add(at), distance, at - done, at - distance) };
            loop {
                let (literals, behind) = (at - done, at + MIN_MATCH);
                // SAFETY: that many bytes remain after the least copy, which ends before the last literals.
                let copied = unsafe { same_from(from.add(behind), distance, copied_to - behind) };
                if end + literals + literals / 255 + copied / 255 + LEAST_BESIDES > most {
                    return None;
                }
                // SAFETY: the literals are in `data`. The bytes for them and for the lengths were compared with `most`;
                // everything else is less than `ROOM`.
                end +=
                    unsafe { sequence(from.add(done), literals, len - done, distance, copied, to.add(end)) };
                at = behind + copied;
                done = at;
                if at > last {
                    break 'search;
                }
                // Where one copy ends, the next often begins. SAFETY: as above; a copy lies before `at`.
                unsafe {
                    seen.distance(word(from.add(at - 2)), at - 2);
                    if !repeats(&mut seen, from, at, &mut distance) {
                        at += 1;
                        break;
                    }
                }
            }
        }
    }
    let literals = len - done;
    let further = if literals < MORE { 0 } else { 1 + (literals - MORE) / 255 };
    if end + 1 + further + literals > most {
        return None;
    }
    // SAFETY: the length was just compared.
    unsafe {
        *to.add(end) = (literals.min(MORE) << 4) as u8;
        let place = length(literals, to.add(end + 1));
        ptr::copy_nonoverlapping(from.add(done), place, literals);
    }
    Some(end + 1 + further + literals)
}

/// Sets `distance` to that of an earlier occurrence of the bytes at `at`; returns whether there is one.
///
/// # Safety
/// Eight bytes from `at` on may be read, and all bytes before it.
#[inline(always)]
unsafe fn repeats<const SLOTS: usize>(
    seen: &mut LastSeen<SLOTS>,
    from: *const u8,
    at: usize,
    distance: &mut usize,
) -> bool {
    // SAFETY: as the caller guarantees; a distance is at most `at`.
    unsafe {
        let here = word(from.add(at));
        *distance = seen.distance(here, at);
        // A distance of 0 always compares equal. Since it is rare, only one branch has to be predicted.
        word(from.add(at - *distance)) as u32 == here as u32 && *distance != 0
    }
}

/// Writes one sequence and returns its length: literals, and a copy whose length is given without [`MIN_MATCH`].
///
/// # Safety
/// `left` bytes may be read, at least the literals. Besides the literals and a 255th of both lengths, [`ROOM`] bytes
/// may be written.
#[inline(always)]
unsafe fn sequence(
    from: *const u8,
    literals: usize,
    left: usize,
    distance: usize,
    copied: usize,
    to: *mut u8,
) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe {
        *to = (literals.min(MORE) << 4 | copied.min(MORE)) as u8;
        let mut place = length(literals, to.add(1));
        if literals <= FEW && left >= FEW {
            place.cast::<[u8; FEW]>().write(from.cast::<[u8; FEW]>().read());
        } else {
            ptr::copy_nonoverlapping(from, place, literals);
        }
        place = place.add(literals);
        place.cast::<[u8; 2]>().write((distance as u16).to_le_bytes());
        length(copied, place.add(2)).offset_from_unsigned(to)
    }
}

/// Writes the part of a length beyond its four bits in the token, and returns the end. At least one byte is written.
///
/// # Safety
/// The bytes of the length, and at least one, may be written.
#[inline(always)]
unsafe fn length(length: usize, mut to: *mut u8) -> *mut u8 {
    let mut rest = length.wrapping_sub(MORE);
    // SAFETY: as the caller guarantees.
    unsafe {
        if length >= LONG {
            ptr::write_bytes(to, u8::MAX, rest / 255);
            to = to.add(rest / 255);
            rest %= 255;
        }
        *to = rest as u8;
        to.add(usize::from(length >= MORE))
    }
}

/// The number of bytes at `at`, up to `most`, that equal those `distance` bytes before them.
///
/// # Safety
/// `most` bytes may be read at both places.
#[inline(always)]
unsafe fn same_from(at: *const u8, distance: usize, most: usize) -> usize {
    let mut same = 0;
    // SAFETY: as the caller guarantees.
    unsafe {
        while most - same >= WIDTH {
            let here = at.add(same);
            let differ = register(here) ^ register(here.sub(distance));
            if differ != 0 {
                return same + (differ.trailing_zeros() / 8) as usize;
            }
            same += WIDTH;
        }
        while same < most && *at.add(same) == *at.add(same).sub(distance) {
            same += 1;
        }
    }
    same
}

/// The number of bytes right before `at` that equal those `distance` bytes before them: up to `literals`, and up to the
/// `before` that exist.
///
/// # Safety
/// These numbers of bytes may be read before both places.
#[inline(always)]
unsafe fn same_before(at: *const u8, distance: usize, literals: usize, before: usize) -> usize {
    let most = literals.min(before);
    let mut same = 0;
    // SAFETY: as the caller guarantees; at least as many bytes exist before `at` as before the compared place.
    unsafe {
        if most == 0 || *at.sub(1) != *at.sub(1 + distance) {
            return 0;
        }
        if before >= HALF {
            let differ = word(at.sub(HALF)) ^ word(at.sub(HALF + distance));
            same = most.min((differ.leading_zeros() / 8) as usize);
            if same < HALF {
                return same;
            }
        }
        while same < most && *at.sub(same + 1) == *at.sub(same + 1 + distance) {
            same += 1;
        }
    }
    same
}

/// # Safety
/// Eight bytes may be read.
#[inline(always)]
unsafe fn word(at: *const u8) -> u64 {
    // SAFETY: an array of bytes needs no alignment.
    u64::from_le_bytes(unsafe { at.cast::<[u8; HALF]>().read() })
}

/// # Safety
/// Sixteen bytes may be read.
#[inline(always)]
unsafe fn register(at: *const u8) -> u128 {
    // SAFETY: an array of bytes needs no alignment.
    u128::from_le_bytes(unsafe { at.cast::<[u8; WIDTH]>().read() })
}

#[cfg(test)]
mod tests {
    use super::super::block;
    use super::*;

    /// Encodes, and decodes with our decoder and with another one; returns the block without the bytes before it.
    fn round(data: &[u8], acceleration: u32) -> Vec<u8> {
        let mut out = vec![0x77; 3];
        assert!(encode(data, acceleration, bound(data.len()), &mut out));
        assert_eq!(out[..3], [0x77; 3]);
        let block = out.split_off(3);
        let (mut ours, mut theirs) = (vec![0xaa; data.len()], vec![0x55; data.len()]);
        block::decode(&block, &mut ours).unwrap();
        assert!(ours == data, "{acceleration} {data:?}");
        assert_eq!(lz4_flex::block::decompress_into(&block, &mut theirs).unwrap(), data.len());
        assert!(theirs == data);
        ends_as_the_format_demands(&block, data.len());
        block
    }

    /// Checks that the last sequence has only literals, at least five, and that the last copy begins at least twelve
    /// bytes before the end.
    fn ends_as_the_format_demands(block: &[u8], len: usize) {
        let (mut at, mut decoded, mut copy) = (0, 0, None);
        let more = |length: usize, at: &mut usize| {
            let goes_on = if length == MORE { &block[*at..] } else { &[] };
            let full = goes_on.iter().take_while(|byte| **byte == u8::MAX).count();
            *at += goes_on.get(full).map_or(0, |_| full + 1);
            length + 255 * full + goes_on.get(full).map_or(0, |byte| usize::from(*byte))
        };
        loop {
            let token = usize::from(block[at]);
            at += 1;
            let literals = more(token >> 4, &mut at);
            (at, decoded) = (at + literals, decoded + literals);
            if at == block.len() {
                assert!(copy.is_none_or(|begin| literals >= LAST_LITERALS && begin + NO_COPY <= len));
                assert_eq!(decoded, len);
                return;
            }
            let distance = usize::from(u16::from_le_bytes([block[at], block[at + 1]]));
            assert!((1..=decoded).contains(&distance));
            at += 2;
            copy = Some(decoded);
            decoded += more(token & MORE, &mut at) + MIN_MATCH;
        }
    }

    /// Pseudo-random numbers that are the same in every run.
    fn noise(count: usize, mut state: u64) -> Vec<u64> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        (0..count).map(|_| next()).collect()
    }

    const ACCELERATIONS: [u32; 8] = [0, 1, 2, 3, 5, 9, 64, 65_537];

    #[test]
    fn short_blocks_of_every_length_and_period_come_back() {
        let most = if cfg!(miri) { 34 } else { 70 };
        for len in 0..=most {
            for period in (1..=len.max(1)).filter(|period| !cfg!(miri) || period % 5 == 1) {
                for acceleration in [1, 2, 9] {
                    let data: Vec<u8> = (0..len).map(|n| (n % period * 37) as u8).collect();
                    round(&data, acceleration);
                }
            }
        }
    }

    #[test]
    fn data_between_runs_and_noise_round_trips() {
        let (cases, longest) = if cfg!(miri) { (4, 300) } else { (400, 9000) };
        for case in 0..cases {
            let numbers = noise(longest, case);
            let mut data: Vec<u8> = Vec::new();
            let mut at = 0;
            while data.len() < longest / (1 + case as usize % 7) {
                let (what, count) = (numbers[at] % 4, 1 + numbers[at + 1] as usize % (1 << (case % 10)));
                at += 2;
                match what {
                    0 => data.resize(data.len() + count, numbers[at] as u8),
                    1 => data.extend(numbers.iter().cycle().skip(at).take(count).map(|n| *n as u8)),
                    2 => data.extend(numbers.iter().cycle().skip(at).take(count).map(|n| (*n % 3) as u8)),
                    _ => {
                        let from = numbers[at] as usize % (data.len() + 1);
                        data.extend_from_within(from..data.len().min(from + count));
                    }
                }
                at += 1;
                if at + 3 > numbers.len() {
                    break;
                }
            }
            round(&data, ACCELERATIONS[case as usize % ACCELERATIONS.len()]);
        }
    }

    #[test]
    fn copies_reach_back_as_far_as_the_format_can_say_and_no_farther() {
        let noise: Vec<u8> = noise(200_000, 5).iter().map(|n| *n as u8).collect();
        let distances = [65_000, 65_534, 65_535, 65_536, 65_537, 70_000, 131_072];
        for distance in distances.into_iter().skip(if cfg!(miri) { 5 } else { 0 }) {
            // Noise while steps are small, then a long way, then the same noise again.
            let mut data = noise[..256].to_vec();
            data.resize(distance, 0);
            data.extend_from_slice(&noise[..256]);
            data.extend_from_slice(&[1; 40]);
            let block = round(&data, 1);
            let found = block.len() < 256 + distance / 255 + 100;
            assert_eq!(found, distance <= 65_535, "{distance}: {} bytes", block.len());
        }
        for acceleration in if cfg!(miri) { &[1][..] } else { &ACCELERATIONS } {
            // The data as a whole, and with the repetition further away than the table can distinguish.
            for len in
                [65_535, 65_536, 65_537, 131_072, 200_000].into_iter().skip(if cfg!(miri) { 4 } else { 0 })
            {
                round(&noise[..len], *acceleration);
                round(&vec![0; len], *acceleration);
            }
        }
    }

    #[test]
    fn a_block_is_as_long_as_allowed_or_nothing() {
        let numbers = noise(3000, 9);
        let mixed: Vec<u8> =
            numbers.iter().enumerate().map(|(i, n)| (n % (1 + i as u64 / 300)) as u8).collect();
        let pure: Vec<u8> = numbers.iter().map(|n| *n as u8).collect();
        for data in [&mixed[..], &pure, &[0; 3000], &mixed[..11], &[]] {
            let len = round(data, 1).len();
            for most in (0..=bound(data.len())).filter(|most| !cfg!(miri) || most.abs_diff(len) < 3) {
                let mut out = vec![5; 7];
                assert_eq!(encode(data, 1, most, &mut out), len <= most, "{len} {most}");
                assert_eq!(out.len(), if len <= most { 7 + len } else { 7 });
            }
        }
        assert_eq!(round(&pure, 1).len(), pure.len() + 1 + 12);
    }

    #[test]
    fn a_larger_acceleration_finds_no_more() {
        let data: Vec<u8> = (0..60_000u32).flat_map(|n| ((n / 3 * n) >> 11).to_le_bytes()).collect();
        let lens: Vec<usize> =
            [1, 5, 64].iter().map(|acceleration| round(&data, *acceleration).len()).collect();
        assert!(lens[0] < lens[1] && lens[1] < lens[2] && lens[2] <= data.len() * 21 / 20, "{lens:?}");
        assert_eq!(round(&data, 0), round(&data, 1));
    }
}
