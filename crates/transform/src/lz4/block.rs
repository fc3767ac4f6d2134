//! Decoding one LZ4 block (`lz4_Block_format.md` of the lz4 project): sequences of literals and of copies of what was decoded before.
//!
//! Most sequences are shorter than a register or two, so their bytes are moved by whole registers, which write beyond the end what
//! the next sequence writes again. Near the ends of either buffer exactly the bytes of a sequence are moved.
//!
//! Invariants
//! - every length and distance is compared with what is left of both buffers before a byte moves;
//! - what is returned as decoded was all written by this call.

use std::fmt;
use std::ptr;

/// Bytes that are moved at once.
const WIDTH: usize = 16;
/// And where they repeat sooner.
const HALF: usize = 8;
/// What must be left behind a sequence of both buffers so that whole registers may be moved.
const ROOM: usize = 2 * WIDTH;
/// A copy's least length, which its token leaves out.
const MIN_MATCH: usize = 4;
/// A length of four bits that goes on in further bytes.
const MORE: usize = 15;

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It ends within a sequence.
    Truncated,
    /// It holds more than was expected.
    TooLong,
    /// It ends before all was decoded.
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
                write!(f, "copies from {distance} bytes back, which is no place in it")
            }
        }
    }
}

/// Fills `out` from a block that holds as many bytes.
pub(super) fn decode(block: &[u8], out: &mut [u8]) -> Result<(), Damage> {
    let (len, room) = (block.len(), out.len());
    let (from, to) = (block.as_ptr(), out.as_mut_ptr());
    // Places in `block` and `out`: at most `len` and `room` all the time.
    let (mut at, mut end) = (0, 0);
    loop {
        let token = *block.get(at).ok_or(Damage::Truncated)? as usize;
        at += 1;
        let mut literals = token >> 4;
        let ample = len - at >= ROOM && room - end >= ROOM;
        if literals == MORE {
            literals += more(block, &mut at)?;
        }
        if literals < MORE && ample {
            // SAFETY: there is room for more; `block` and `out` do not overlap.
            unsafe { put(to.add(end), take(from.add(at))) };
        } else {
            if literals > len - at {
                return Err(Damage::Truncated);
            }
            if literals > room - end {
                return Err(Damage::TooLong);
            }
            // SAFETY: as was just compared; beyond them nothing is touched, and `block` and `out` do not overlap.
            unsafe { ptr::copy_nonoverlapping(from.add(at), to.add(end), literals) };
        }
        (at, end) = (at + literals, end + literals);
        // The last sequence is literals only.
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
        // SAFETY: `distance` bytes before `end` were written, and `copied` are left behind it.
        unsafe { repeat(to.add(end), distance, copied, room - end - copied) };
        end += copied;
    }
}

/// The rest of a length: bytes that are added up, until one is not 255.
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

/// Writes `count` bytes that are those `distance` before them, of which the copy itself may make some.
///
/// # Safety
/// `distance` bytes before `to` are initialised, at least one; `count` bytes from `to` on may be written, and `room` behind them.
#[inline]
unsafe fn repeat(to: *mut u8, distance: usize, count: usize, room: usize) {
    // SAFETY: all bytes read are before those written, and so initialised; at most `ROOM - 1` bytes are written behind `count`.
    unsafe {
        let from = to.sub(distance);
        if room < ROOM {
            for n in 0..count {
                *to.add(n) = *from.add(n);
            }
        } else if distance >= WIDTH {
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
                    // Whole periods of half a register and more, once there is one.
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

/// A register full of a period.
#[inline]
fn periods<const N: usize>(period: [u8; N]) -> [u8; WIDTH] {
    let mut all = [0; WIDTH];
    all.as_chunks_mut().0.fill(period);
    all
}

/// Writes `count` bytes of a register again and again, and less than one more.
///
/// # Safety
/// So many bytes may be written.
#[inline]
unsafe fn fill(to: *mut u8, bytes: [u8; WIDTH], count: usize) {
    let mut done = 0;
    while done < count {
        // SAFETY: as the caller promises.
        unsafe { put(to.add(done), bytes) };
        done += WIDTH;
    }
}

/// # Safety
/// A register's width may be read.
#[inline]
unsafe fn take(from: *const u8) -> [u8; WIDTH] {
    // SAFETY: an array of bytes may stand anywhere.
    unsafe { from.cast::<[u8; WIDTH]>().read() }
}

/// # Safety
/// A register's width may be written.
#[inline]
unsafe fn put(to: *mut u8, bytes: [u8; WIDTH]) {
    // SAFETY: an array of bytes may stand anywhere.
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

    /// One sequence of `literals` and a copy, and four literals to end with.
    fn sequence(literals: usize, distance: u16, copied: usize) -> Vec<u8> {
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
        out.extend([4 << 4, 1, 2, 3, 4]);
        out
    }

    #[test]
    fn copies_of_every_distance_and_length_repeat_what_is_before_them() {
        for literals in [1, 2, 7, 14, 15, 16, 40, 300] {
            for distance in (1..=40).chain([100, 299, 300]).filter(|d| *d <= literals) {
                for copied in (4..40).chain([255, 269, 270, 600]) {
                    let block = sequence(literals, distance as u16, copied);
                    let (found, expected) = both(&block, literals + copied + 4);
                    assert_eq!(found.ok(), expected, "{literals} {distance} {copied}");
                    assert!(expected.is_some());
                }
            }
        }
    }

    #[test]
    fn what_another_program_made_is_decoded() {
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
    fn damage_is_told_and_never_read_beyond() {
        let block = sequence(20, 3, 30);
        let len = 20 + 30 + 4;
        assert!(both(&block, len).0.is_ok());
        for end in 0..block.len() {
            assert!(both(&block[..end], len).0.is_err(), "cut to {end}");
        }
        assert_eq!(both(&block, len - 1).0, Err(Damage::TooLong));
        assert_eq!(both(&block, len + 1).0, Err(Damage::TooShort(len)));
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
