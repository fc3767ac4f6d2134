//! How much is made for one read of a file.
//!
//! Making a little costs the decoding of whole subchunks, so a program that reads on gets a large piece made once, which
//! answers its next reads. A program that reads here and there gets what it asks for.

use std::ops::Range;

/// Made at once for a program that reads on. Subchunks have at most 16 MiB; most have less than 2.
const AHEAD: u64 = 8 << 20;

/// The bytes to make for a read of `asked`, of a file of `size` bytes. `before` is the end of the read before it.
pub(crate) fn made(asked: Range<u64>, before: Option<u64>, size: u64) -> Range<u64> {
    let end = asked.end.min(size);
    match before == Some(asked.start) {
        true => asked.start..asked.start.saturating_add(AHEAD).clamp(end, size.max(end)),
        false => asked.start..end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_reads_on_gets_more_than_it_asked_for() {
        assert_eq!(made(0..100, None, 1 << 30), 0..100);
        assert_eq!(made(100..200, Some(100), 1 << 30), 100..100 + AHEAD);
        assert_eq!(made(500..600, Some(200), 1 << 30), 500..600);
        assert_eq!(made(100..200, Some(100), 150), 100..150);
        assert_eq!(made(100..100 + 2 * AHEAD, Some(100), 1 << 30), 100..100 + 2 * AHEAD);
    }
}
