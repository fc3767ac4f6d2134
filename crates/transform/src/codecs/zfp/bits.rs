//! The bit stream of zfp: bits in words of 64, the first in the lowest place.

/// Appends bits to bytes.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    word: u64,
    used: u32,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, word: 0, used: 0 }
    }

    /// Appends the lowest `count` bits of `value`, at most 64.
    #[inline(always)]
    pub(super) fn put(&mut self, value: u64, count: u32) {
        if count == 0 {
            return;
        }
        let value = value & (u64::MAX >> (64 - count));
        self.word |= value << self.used;
        self.used += count;
        if self.used >= 64 {
            self.out.extend_from_slice(&self.word.to_le_bytes());
            self.used -= 64;
            self.word = if self.used == 0 { 0 } else { value >> (count - self.used) };
        }
    }

    pub(super) fn zeros(&mut self, mut count: u32) {
        while count > 0 {
            let some = count.min(64);
            self.put(0, some);
            count -= some;
        }
    }

    /// Pads the last word with zeros.
    pub(super) fn finish(self) {
        if self.used > 0 {
            self.out.extend_from_slice(&self.word.to_le_bytes());
        }
    }
}

/// Reads bits from bytes. After the end it reads zeros, and [`Reader::is_past_end`] reports that.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        match self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let rest = self.bytes.get(at..).unwrap_or_default();
                rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
            }
        }
    }

    /// The next bits, at most 57 of them, without consuming them.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        self.word((self.at / 8) as usize) >> (self.at % 8)
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.at = self.at.saturating_add(u64::from(count));
    }

    /// Consumes `count` bits, at most 64.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        if count == 0 {
            return 0;
        }
        let low = self.peek();
        let shift = (self.at % 8) as u32;
        let value = if count + shift > 64 {
            low | self.word((self.at / 8 + 8) as usize) << (64 - shift)
        } else {
            low
        };
        self.skip(count);
        value & (u64::MAX >> (64 - count))
    }

    #[inline(always)]
    pub(super) fn bit(&mut self) -> bool {
        self.take(1) == 1
    }

    pub(super) fn is_past_end(&self) -> bool {
        self.at > self.bytes.len() as u64 * 8
    }

    /// Number of bytes up to the end of the word that holds the last consumed bit.
    pub(super) fn words_taken(&self) -> u64 {
        self.at.div_ceil(64) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_as_written_in_any_widths() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let pieces: Vec<(u64, u32)> = (0..500u64)
            .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (i % 7), (i * 13 % 65) as u32))
            .collect();
        pieces.iter().for_each(|&(value, count)| writer.put(value, count));
        writer.zeros(130);
        writer.finish();
        let mut reader = Reader::new(&out);
        for &(value, count) in &pieces {
            let mask = if count == 0 { 0 } else { u64::MAX >> (64 - count) };
            assert_eq!(reader.take(count), value & mask);
        }
        reader.skip(130);
        assert!(!reader.is_past_end() && reader.words_taken() == out.len() as u64);
        assert_eq!((reader.take(64), reader.is_past_end()), (0, true));
    }
}
