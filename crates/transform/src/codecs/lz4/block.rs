//! Decoding one LZ4 block (`lz4_Block_format.md` of the lz4 project): sequences of literals and of copies of
//! decoded bytes.
//!
//! Most sequences are shorter than a register or two, so their bytes are moved in whole registers, which write beyond
//! the sequence; the next sequence overwrites that. Near the end of either buffer only the bytes of the sequence are
//! moved. A long copy that ends there, frequent in constant planes of shuffled cells, is moved in registers up to that
//! point.
//!
//! Invariants
//! - every length and distance is compared with the rest of both buffers before a byte is moved;
//! - every byte that is returned as decoded was written by this call.

use std::fmt;
use std::ptr;

/// Bytes that are moved at once.
const WIDTH: usize = 16;
/// The same for copies that repeat after fewer bytes.
const HALF: usize = 8;
/// Whole registers are moved only if this many bytes remain in both buffers after a sequence.
const ROOM: usize = 2 * WIDTH;
/// Up to this many literals are moved in registers; more are moved by the C library.
const FEW: usize = 8 * WIDTH;
/// A sequence whose lengths are in its token is moved without a branch if both buffers have space: `block` for its
/// token, a register and a distance; `out` for a register, and a copy of at most 18 bytes in three half registers.
const SHORT_STORED: usize = 1 + WIDTH + 2;
const SHORT_ROOM: usize = WIDTH + 3 * HALF;
/// The least length of a copy; tokens store the rest.
const MIN_MATCH: usize = 4;
/// A length of four bits with this value continues in further bytes.
const MORE: usize = 15;

/// Why a block is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It ends within a sequence.
    Truncated,
    /// It decodes to more bytes than expected.
    TooLong,
    /// It ends before all bytes were decoded.
    TooShort(usize),
    /// A copy begins before the first byte.
    Distance(usize),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Truncated => write!(f, "ends within a sequence"),
            Damage::TooLong => write!(f, "holds more"),
            Damage::TooShort(len) => write!(f, "ends after {len} bytes"),
            Damage::Distance(distance) => {
                write!(f, "copies from {distance} bytes back, before its beginning")
            }
        }
    }
}

/// Fills `out` from a block that must decode to exactly that many bytes.
pub(super) fn decode(block: &[u8], out: &mut [u8]) -> Result<(), Damage> {
    let (len, room) = (block.len(), out.len());
    let (from, to) = (block.as_ptr(), out.as_mut_ptr());
    // Offsets in `block` and `out`, always at most `len` and `room`.
    let (mut at, mut end) = (0, 0);
    loop {
        // Most sequences have short lengths and a copy that repeats after at least half a register: they need no
        // branch.
        while len - at >= SHORT_STORED && room - end >= SHORT_ROOM {
            // SAFETY: token, a register of literals and a distance are in `block`.
            let (token, literals, distance) = unsafe { short(from.add(at)) };
            let copied = token & MORE;
            let before = end + literals;
            if literals == MORE || copied == MORE || distance < HALF || distance > before {
                break;
            }
            // SAFETY: there is space for two registers and half of one; `block` and `out` do not overlap. The source of
            // the copy is at least half a register before its destination, and was written.
            unsafe {
                put(to.add(end), take(from.add(at + 1)));
                let (place, source) = (to.add(before), to.add(before - distance));
                for half in 0..3 {
                    let bytes = source.add(half * HALF).cast::<[u8; HALF]>().read();
                    place.add(half * HALF).cast::<[u8; HALF]>().write(bytes);
                }
            }
            at += 1 + literals + 2;
            end = before + copied + MIN_MATCH;
        }
        let token = *block.get(at).ok_or(Damage::Truncated)? as usize;
        at += 1;
        let mut literals = token >> 4;
        if literals == MORE {
            literals += more(block, &mut at)?;
        }
        if literals > len - at {
            return Err(Damage::Truncated);
        }
        if literals > room - end {
            return Err(Damage::TooLong);
        }
        let ample = len - at - literals >= WIDTH && room - end - literals >= WIDTH;
        // SAFETY: the lengths were just compared; whole registers move less than one register more. `block` and `out`
        // do not overlap.
        unsafe {
            if literals <= FEW && ample {
                let mut done = 0;
                while done < literals {
                    put(to.add(end + done), take(from.add(at + done)));
                    done += WIDTH;
                }
            } else {
                ptr::copy_nonoverlapping(from.add(at), to.add(end), literals);
            }
        }
        (at, end) = (at + literals, end + literals);
        // The last sequence has literals only.
        if at == len {
            return if end == room { Ok(()) } else { Err(Damage::TooShort(end)) };
        }
        let [low, high] =
            *block.get(at..at + 2).and_then(|bytes| bytes.first_chunk()).ok_or(Damage::Truncated)?;
        at += 2;
        let distance = usize::from(u16::from_le_bytes([low, high]));
        if distance == 0 || distance > end {
            return Err(Damage::Distance(distance));
        }
        let mut copied = (token & MORE) + MIN_MATCH;
        if copied == MORE + MIN_MATCH {
            copied += more(block, &mut at)?;
        }
        if copied > room - end {
            return Err(Damage::TooLong);
        }
        // SAFETY: `distance` bytes before `end` were written, and `copied` bytes remain after it.
        unsafe { repeat(to.add(end), distance, copied, room - end - copied) };
        end += copied;
    }
}

/// The token of a sequence, the number of its literals, and its distance if that number is less than [`MORE`].
///
/// # Safety
/// [`SHORT_STORED`] bytes may be read.
#[inline]
unsafe fn short(from: *const u8) -> (usize, usize, usize) {
    // SAFETY: the distance follows at most 15 literals.
    unsafe {
        let token = usize::from(*from);
        let literals = token >> 4;
        let distance = u16::from_le_bytes(from.add(1 + literals).cast::<[u8; 2]>().read());
        (token, literals, usize::from(distance))
    }
}

/// The rest of a length: the sum of bytes up to the first that is not 255.
#[inline]
fn more(block: &[u8], at: &mut usize) -> Result<usize, Damage> {
    let mut sum = 0;
    loop {
        let byte = *block.get(*at).ok_or(Damage::Truncated)?;
        *at += 1;
        sum += usize::from(byte);
        if byte != u8::MAX {
            return Ok(sum);
        }
    }
}

/// Writes `count` bytes that repeat those `distance` bytes before them; the copy itself may have written some of those.
///
/// # Safety
/// At least one byte before `to`, namely `distance` bytes, must be initialised; `count` bytes from `to` on may be
/// written, and `room` bytes after them.
#[inline]
unsafe fn repeat(to: *mut u8, distance: usize, count: usize, room: usize) {
    if room < ROOM {
        let most = (count + room).saturating_sub(ROOM);
        // SAFETY: at least `ROOM` bytes remain after the first `most` bytes; each of the other bytes is read after it
        // was written.
        unsafe {
            if most > 0 {
                repeat_ample(to, distance, most);
            }
            for n in most..count {
                *to.add(n) = *to.add(n).sub(distance);
            }
        }
        return;
    }
    // SAFETY: as the caller guarantees.
    unsafe { repeat_ample(to, distance, count) }
}

/// Like [`repeat`], if at least [`ROOM`] bytes may be written after the `count` bytes.
///
/// # Safety
/// As for [`repeat`].
#[inline]
unsafe fn repeat_ample(to: *mut u8, distance: usize, count: usize) {
    // SAFETY: all bytes read are before those written, and so initialised; at most `ROOM - 1` bytes are written after
    // the `count` bytes.
    unsafe {
        let from = to.sub(distance);
        if distance >= WIDTH {
            put(to, take(from));
            let mut done = WIDTH;
            while done < count {
                put(to.add(done), take(from.add(done)));
                put(to.add(done + WIDTH), take(from.add(done + WIDTH)));
                done += 2 * WIDTH;
            }
        } else {
            match distance {
                1 => fill(to, [*from; WIDTH], count),
                2 => fill(to, periods(from.cast::<[u8; 2]>().read()), count),
                4 => fill(to, periods(from.cast::<[u8; 4]>().read()), count),
                8 => fill(to, periods(from.cast::<[u8; 8]>().read()), count),
                _ => {
                    // From here on, whole periods of at least half a register are copied.
                    let begun = if distance < HALF { HALF } else { 0 };
                    for n in 0..begun {
                        *to.add(n) = *from.add(n);
                    }
                    let period = HALF.div_ceil(distance) * distance;
                    let mut done = begun;
                    while done < count {
                        let bytes = to.add(done).sub(period).cast::<[u8; HALF]>().read();
                        to.add(done).cast::<[u8; HALF]>().write(bytes);
                        done += HALF;
                    }
                }
            }
        }
    }
}

/// A register filled with a repeated period.
#[inline]
fn periods<const N: usize>(period: [u8; N]) -> [u8; WIDTH] {
    let mut all = [0; WIDTH];
    all.as_chunks_mut().0.fill(period);
    all
}

/// Writes `count` bytes by repeating a register, and up to one register more.
///
/// # Safety
/// `count` bytes and the width of a register may be written.
#[inline]
unsafe fn fill(to: *mut u8, bytes: [u8; WIDTH], count: usize) {
    let mut done = 0;
    while done < count {
        // SAFETY: as the caller guarantees.
        unsafe { put(to.add(done), bytes) };
        done += WIDTH;
    }
}

/// # Safety
/// A register's width may be read.
#[inline]
unsafe fn take(from: *const u8) -> [u8; WIDTH] {
    // SAFETY: an array of bytes needs no alignment.
    unsafe { from.cast::<[u8; WIDTH]>().read() }
}

/// # Safety
/// A register's width may be written.
#[inline]
unsafe fn put(to: *mut u8, bytes: [u8; WIDTH]) {
    // SAFETY: an array of bytes needs no alignment.
    unsafe { to.cast::<[u8; WIDTH]>().write(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(block: &[u8], len: usize) -> (Result<Vec<u8>, Damage>, Option<Vec<u8>>) {
        let (mut ours, mut theirs) = (vec![0xaa; len], vec![0x55; len]);
        let found = decode(block, &mut ours).map(|()| ours);
        let expected = lz4_flex::block::decompress_into(block, &mut theirs);
        (found, (expected.ok() == Some(len)).then_some(theirs))
    }

    /// One sequence of `literals` and a copy, and final literals.
    fn sequence(literals: usize, distance: u16, copied: usize, last: usize) -> Vec<u8> {
        let length = |mut rest: usize, out: &mut Vec<u8>| {
            while rest >= 255 {
                out.push(255);
                rest -= 255;
            }
            out.push(rest as u8);
        };
        let copied = copied - MIN_MATCH;
        let mut out = vec![(literals.min(MORE) << 4 | copied.min(MORE)) as u8];
        if literals >= MORE {
            length(literals - MORE, &mut out);
        }
        out.extend((0..literals).map(|n| (n * 37 + n / 7) as u8));
        out.extend(distance.to_le_bytes());
        if copied >= MORE {
            length(copied - MORE, &mut out);
        }
        out.push((last.min(MORE) << 4) as u8);
        if last >= MORE {
            length(last - MORE, &mut out);
        }
        out.extend((0..last).map(|n| (n * 11) as u8));
        out
    }

    #[test]
    fn copies_of_every_distance_and_length_repeat_what_is_before_them() {
        // The copy is near the end of the block, near the end of the output, or near neither.
        for last in [4, 20, 70, 200] {
            for literals in [1, 2, 7, 14, 15, 16, 40, 128, 129, 300] {
                for distance in (1..=40).chain([100, 299, 300]).filter(|d| *d <= literals) {
                    for copied in (4..40).chain([255, 269, 270, 600]) {
                        let block = sequence(literals, distance as u16, copied, last);
                        let (found, expected) = both(&block, literals + copied + last);
                        assert_eq!(found.ok(), expected, "{literals} {distance} {copied} {last}");
                        assert!(expected.is_some());
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_of_another_program_are_decoded() {
        let fields: [Vec<u8>; 4] = [
            vec![],
            vec![7; 100_000],
            (0..70_000u32).map(|n| (n.wrapping_mul(n) >> 9) as u8).collect(),
            (0..50_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect(),
        ];
        for data in fields {
            let block = lz4_flex::block::compress(&data);
            let (found, _) = both(&block, data.len());
            assert_eq!(found, Ok(data));
        }
    }

    #[test]
    fn damage_is_reported_and_nothing_is_read_beyond_the_block() {
        for (literals, copied, last) in [(20, 30, 4), (12, 17, 90), (100, 4, 300)] {
            let block = sequence(literals, 9, copied, last);
            let len = literals + copied + last;
            assert!(both(&block, len).0.is_ok());
            for end in 0..block.len() {
                assert!(both(&block[..end], len).0.is_err(), "cut to {end}");
            }
            assert_eq!(both(&block, len - 1).0, Err(Damage::TooLong));
            assert_eq!(both(&block, len + 1).0, Err(Damage::TooShort(len)));
            let mut far = block.clone();
            let at = far.iter().position(|byte| *byte == 9).unwrap();
            (far[at], far[at + 1]) = (literals as u8 + 1, 0);
            assert_eq!(both(&far, len).0, Err(Damage::Distance(literals + 1)));
        }
        assert_eq!(both(&[], 0).0, Err(Damage::Truncated));
        assert_eq!(both(&[0], 0).0, Ok(vec![]));
        assert_eq!(both(&[0x10, 1, 0, 0], 8).0, Err(Damage::Distance(0)));
        assert_eq!(both(&[0x10, 1, 2, 0], 8).0, Err(Damage::Distance(2)));
        assert_eq!(both(&[0xf0, 255, 255], 8).0, Err(Damage::Truncated));
    }

    #[test]
    fn mutated_blocks_are_refused_or_read_as_by_another_decoder() {
        let data: Vec<u8> = (0..600u32).flat_map(|n| (n / 5 * 3).to_le_bytes()).collect();
        let block = lz4_flex::block::compress(&data);
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut sound = 0;
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let mut changed = block.clone();
            for _ in 0..=random(3) {
                let at = random(changed.len());
                changed[at] = random(256) as u8;
            }
            let (found, expected) = both(&changed, data.len());
            sound += usize::from(found.is_ok());
            assert_eq!(found.ok(), expected, "{changed:?}");
        }
        assert!(cfg!(miri) || sound > 100, "{sound}");
    }
}
