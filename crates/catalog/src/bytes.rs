//! Integers of variable length, and decoding of untrusted bytes.

use drystone_format::Corrupt;
use drystone_format::cursor::Reader;

/// Appends an integer: seven bits per byte, the low ones first.
pub(crate) fn push(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Decodes an integer that [`push`] wrote.
pub(crate) fn varint(r: &mut Reader<'_>) -> Result<u64, Corrupt> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = r.u8()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        n |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(n);
        }
    }
    Err(r.corrupt("an integer of more than 64 bits"))
}

/// An integer of at most 32 bits.
pub(crate) fn small(r: &mut Reader<'_>) -> Result<u32, Corrupt> {
    let n = varint(r)?;
    u32::try_from(n).map_err(|_| r.corrupt(format!("{n} is too large")))
}

/// A number of items, each of which takes at least `least` of the remaining bytes.
pub(crate) fn count(r: &mut Reader<'_>, least: usize) -> Result<usize, Corrupt> {
    let n = varint(r)?;
    match usize::try_from(n) {
        Ok(n) if n <= r.remaining() / least.max(1) => Ok(n),
        _ => Err(r.corrupt(format!("{n} items in {} bytes", r.remaining()))),
    }
}

/// Appends a text with its length.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    push(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A text with its length.
pub(crate) fn text<'a>(r: &mut Reader<'a>) -> Result<&'a str, Corrupt> {
    let len = count(r, 1)?;
    let at = r.position();
    std::str::from_utf8(r.take(len)?).map_err(|_| Corrupt::new("a text is not UTF-8", at))
}

/// Appends strictly ascending numbers: their count, the first, and the gaps less one.
pub(crate) fn push_ascending(out: &mut Vec<u8>, numbers: &[u32]) {
    push(out, numbers.len() as u64);
    let mut next = 0;
    for &n in numbers {
        push(out, u64::from(n - next));
        next = n + 1;
    }
}

/// Strictly ascending numbers below `end`.
pub(crate) fn ascending(r: &mut Reader<'_>, end: u32, out: &mut Vec<u32>) -> Result<(), Corrupt> {
    let mut next = 0u64;
    for _ in 0..count(r, 1)? {
        let n = next.saturating_add(varint(r)?);
        if n >= u64::from(end) {
            return Err(r.corrupt(format!("number {n} of {end}")));
        }
        out.push(n as u32);
        next = n + 1;
    }
    Ok(())
}
