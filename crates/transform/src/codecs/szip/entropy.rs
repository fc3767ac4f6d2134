//! The decoder of the CCSDS 121.0-B adaptive entropy code, for samples of 8 and 16 bits.
//!
//! The library used for encoding decodes only its own output. Streams of libaec use one more form (pairs in a block
//! with a reference), and this decoder also finds the end of a stream. Every count is bounded by the number of expected
//! samples.

use crate::TransformError;

/// The parameters of a stream: intervals of `interval` blocks of `block` samples.
pub(super) struct Coding {
    pub(super) bits: u32,
    pub(super) block: usize,
    pub(super) interval: usize,
    /// Whether samples are folded differences to the previous sample.
    pub(super) predicted: bool,
}

/// The largest code of a pair.
const MAX_PAIR: u32 = 90;
/// The length code of a run of zero blocks that extends to the end of its segment.
const REST_OF_SEGMENT: usize = 5;
const SEGMENT: usize = 64;

struct Bits<'a> {
    bytes: &'a [u8],
    /// Number of consumed bits.
    at: usize,
}

impl Bits<'_> {
    /// The next 57 or more bits, the first one highest; zeros after the end.
    fn peek(&self) -> u64 {
        let from = self.at / 8;
        let word = match self.bytes.get(from..from + 8).and_then(|b| b.first_chunk()) {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => {
                let rest = self.bytes.get(from..).unwrap_or_default();
                rest.iter().enumerate().fold(0, |word, (i, byte)| word | u64::from(*byte) << (56 - 8 * i))
            }
        };
        word << (self.at % 8)
    }

    fn skip(&mut self, count: usize) -> Result<(), TransformError> {
        self.at += count;
        if self.at > self.bytes.len() * 8 {
            return Err(TransformError::corrupt("the szip stream is cut short", self.bytes.len() as u64));
        }
        Ok(())
    }

    /// An integer of `count` bits, at most 32.
    fn read(&mut self, count: u32) -> Result<u32, TransformError> {
        let value = if count == 0 { 0 } else { self.peek() >> (64 - count) };
        self.skip(count as usize)?;
        Ok(value as u32)
    }

    /// The number of zeros before the next one; the one is consumed too.
    fn unary(&mut self) -> Result<u32, TransformError> {
        let mut zeros = 0;
        loop {
            let here = self.peek().leading_zeros();
            // 57 bits are valid; the others may be zeros that were shifted in.
            if here < 57 {
                self.skip(here as usize + 1)?;
                return Ok(zeros + here);
            }
            self.skip(57)?;
            zeros += 57;
        }
    }
}

/// Decodes `count` samples, a multiple of the samples of a block.
pub(super) fn decode(coding: &Coding, bytes: &[u8], count: usize) -> Result<Vec<u16>, TransformError> {
    let mut bits = Bits { bytes, at: 0 };
    let per_interval = coding.interval * coding.block;
    let mut out = Vec::with_capacity(count);
    let mut codes = Vec::with_capacity(per_interval);
    while out.len() < count {
        codes.clear();
        let wanted = per_interval.min(count - out.len());
        while codes.len() < wanted {
            block(coding, &mut bits, &mut codes)?;
        }
        let at = bits.at as u64 / 8;
        let largest = (1u32 << coding.bits) - 1;
        if codes.iter().any(|code| *code > largest) {
            return Err(TransformError::corrupt("an szip sample of too many bits", at));
        }
        codes.truncate(wanted);
        if coding.predicted {
            follow(&codes, largest, &mut out);
        } else {
            out.extend(codes.iter().map(|code| *code as u16));
        }
    }
    if bits.at.div_ceil(8) != bytes.len() {
        let what = format!("the szip stream ends after {} of {} bytes", bits.at.div_ceil(8), bytes.len());
        return Err(TransformError::corrupt(what, bits.at as u64 / 8));
    }
    Ok(out)
}

/// One coded block, or a run of zero blocks.
fn block(coding: &Coding, bits: &mut Bits<'_>, codes: &mut Vec<u32>) -> Result<(), TransformError> {
    let id_bits = if coding.bits > 8 { 4 } else { 3 };
    let id = bits.read(id_bits)?;
    // The first sample of an interval is stored plainly, before the codes of its block.
    let reference = usize::from(coding.predicted && codes.is_empty());
    if id == (1 << id_bits) - 1 {
        for _ in 0..coding.block {
            codes.push(bits.read(coding.bits)?);
        }
        return Ok(());
    }
    let low_entropy = if id == 0 { Some(bits.read(1)?) } else { None };
    if reference == 1 {
        codes.push(bits.read(coding.bits)?);
    }
    match low_entropy {
        Some(0) => {
            let used = codes.len() / coding.block;
            let run = match bits.unary()? as usize + 1 {
                REST_OF_SEGMENT => (coding.interval - used).min(SEGMENT - used % SEGMENT),
                run if run > REST_OF_SEGMENT => run - 1,
                run => run,
            };
            if run > coding.interval - used {
                let what = format!("{run} zero blocks, {} are left", coding.interval - used);
                return Err(TransformError::corrupt(what, bits.at as u64 / 8));
            }
            codes.resize(codes.len() + run * coding.block - reference, 0);
        }
        Some(_) => {
            let mut i = reference;
            while i < coding.block {
                let code = bits.unary()?;
                if code > MAX_PAIR {
                    return Err(TransformError::corrupt(format!("szip pair {code}"), bits.at as u64 / 8));
                }
                // Pairs with sum s have the codes from s (s + 1) / 2 on.
                let mut sum = 0;
                while (sum + 1) * (sum + 2) / 2 <= code {
                    sum += 1;
                }
                let second = code - sum * (sum + 1) / 2;
                if i % 2 == 0 {
                    codes.push(sum - second);
                    i += 1;
                }
                codes.push(second);
                i += 1;
            }
        }
        None => {
            let low = id - 1;
            let from = codes.len();
            for _ in reference..coding.block {
                let high = bits.unary()?;
                // Surplus samples are refused when the interval is complete; here they must not overflow.
                codes.push(high.min(1 << 16) << low);
            }
            for code in codes.iter_mut().skip(from) {
                *code |= bits.read(low)?;
            }
        }
    }
    Ok(())
}

/// Restores samples from folded differences; the first is the reference.
fn follow(codes: &[u32], largest: u32, out: &mut Vec<u16>) {
    let mut x = codes.first().copied().unwrap_or(0);
    out.push(x as u16);
    for &d in codes.iter().skip(1) {
        let upper = x > largest / 2;
        let room = if upper { largest - x } else { x };
        x = if d.div_ceil(2) <= room {
            if d % 2 == 0 { x + d / 2 } else { x - d.div_ceil(2) }
        } else if upper {
            largest - d
        } else {
            d
        };
        out.push(x as u16);
    }
}
