//! The head of ALACRITY bytes: the bins, and where their lists and low bytes lie (docs/format/encodings.md).

use std::ops::{Range, RangeInclusive};

use crate::TransformError;
use crate::head::{Head, load};
use crate::stats::class::Class;

pub(super) const VERSION: u8 = 1;
/// Most bins, so that the head fits in the metadata.
pub(super) const MAX_BINS: usize = 4096;
/// Most leading bits of a key that number its bin.
pub(super) const MAX_BITS: u32 = 16;
pub(super) const FIXED: usize = 12;
pub(super) const PER_BIN: usize = 12;

/// A bin: the elements whose keys begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bin {
    pub(super) number: u32,
    pub(super) count: u32,
    /// Bytes of its list.
    pub(super) list: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) class: Class,
    /// Whether the data itself is stored after the index.
    pub(super) data: bool,
    pub(super) bits: u32,
    pub(super) bins: Vec<Bin>,
    /// Number of elements.
    pub(super) count: u64,
    /// Bytes after the last whole element.
    pub(super) tail: u64,
    /// Offset of the lists.
    pub(super) lists: u64,
}

impl Layout {
    pub(super) fn read(bytes: &[u8], encoded_len: u64, decoded_len: u64) -> Result<Layout, TransformError> {
        let head = &mut Head::new(bytes);
        head.version("alacrity", VERSION)?;
        let width = usize::from(head.u8()?);
        let class = head.u8()?;
        let (bits, data) = (u32::from(head.u8()?), head.u8()?);
        let reserved = head.take(3)?;
        let number = head.u32()? as usize;
        let class =
            Class::from_code(class, width).filter(|c| *c != Class::Opaque || matches!(width, 1 | 2 | 4 | 8));
        let Some(class) = class else {
            return Err(head.corrupt(&format!("scalars of an impossible class in {width} bytes")));
        };
        if bits == 0 || bits > MAX_BITS.min(8 * width as u32) || data > 1 || reserved != [0; 3] {
            return Err(head.corrupt(&format!("{bits} bits, data {data}")));
        }
        if number > MAX_BINS {
            return Err(head.corrupt(&format!("{number} bins")));
        }
        let table = head.take(number * PER_BIN)?;
        let word = |bytes: &[u8]| load(bytes) as u32;
        let bins: Vec<Bin> = table
            .chunks_exact(PER_BIN)
            .map(|b| Bin { number: word(&b[..4]), count: word(&b[4..8]), list: word(&b[8..]) })
            .collect();
        let ascending = bins.windows(2).all(|pair| pair[0].number < pair[1].number);
        let sound = bins.iter().all(|bin| bin.count > 0 && u64::from(bin.number) >> bits == 0);
        let count = decoded_len / width as u64;
        if !ascending || !sound || bins.iter().map(|bin| u64::from(bin.count)).sum::<u64>() != count {
            return Err(head.corrupt("bins that are not a partition of the elements"));
        }
        let lists = head.len() as u64;
        let tail = decoded_len % width as u64;
        let layout = Layout { width, class, data: data == 1, bits, bins, count, tail, lists };
        if layout.end() != encoded_len {
            let what = format!("{encoded_len} bytes where the head states {}", layout.end());
            return Err(head.corrupt(&what));
        }
        Ok(layout)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend([
            VERSION,
            self.width as u8,
            self.class.code(),
            self.bits as u8,
            u8::from(self.data),
            0,
            0,
            0,
        ]);
        out.extend((self.bins.len() as u32).to_le_bytes());
        for bin in &self.bins {
            [bin.number, bin.count, bin.list].iter().for_each(|n| out.extend(n.to_le_bytes()));
        }
    }

    /// Bytes of a key that its bin does not determine.
    pub(super) fn low(&self) -> usize {
        (8 * self.width - self.bits as usize).div_ceil(8)
    }

    /// Bits of a key below those of its bin.
    pub(super) fn below(&self) -> u32 {
        8 * self.width as u32 - self.bits
    }

    /// The bits of a key that its low bytes hold.
    pub(super) fn mask(&self) -> u64 {
        (1u64 << self.below()).wrapping_sub(1)
    }

    /// The first and the last key that a bin may hold.
    #[inline(always)]
    pub(super) fn keys_of(&self, bin: &Bin) -> (u64, u64) {
        let first = u64::from(bin.number) << self.below();
        (first, first | self.mask())
    }

    /// Offset of the low bytes.
    pub(super) fn lows(&self) -> u64 {
        self.lists + self.bins.iter().map(|bin| u64::from(bin.list)).sum::<u64>()
    }

    /// Offset of the data, or else of the bytes after the last element.
    pub(super) fn rest(&self) -> u64 {
        self.lows() + self.count * self.low() as u64
    }

    fn end(&self) -> u64 {
        self.rest() + if self.data { self.count * self.width as u64 } else { 0 } + self.tail
    }

    /// The bins that may hold keys of a range, and where their lists and low bytes lie.
    pub(super) fn meeting(&self, keys: &RangeInclusive<u64>) -> Meeting<'_> {
        let (from, to) = (*keys.start() >> self.below(), *keys.end() >> self.below());
        let begin = self.bins.partition_point(|bin| u64::from(bin.number) < from);
        let end = self.bins.partition_point(|bin| u64::from(bin.number) <= to).max(begin);
        let (before, bins) = (self.bins.get(..begin), self.bins.get(begin..end));
        let (before, bins) = (before.unwrap_or_default(), bins.unwrap_or_default());
        let sum = |bins: &[Bin]| {
            bins.iter().fold((0u64, 0u64), |(l, c), b| (l + u64::from(b.list), c + u64::from(b.count)))
        };
        let ((list, count), (lists, counts)) = (sum(before), sum(bins));
        let low = self.low() as u64;
        let (list, lows) = (self.lists + list, self.lows() + count * low);
        Meeting { bins, lists: list..list + lists, lows: lows..lows + counts * low }
    }
}

/// Adjacent bins.
pub(super) struct Meeting<'a> {
    pub(super) bins: &'a [Bin],
    pub(super) lists: Range<u64>,
    pub(super) lows: Range<u64>,
}
