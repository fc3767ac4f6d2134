//! The head of sorted values: fences, the other columns, and where each column lies (docs/format/encodings.md).

use std::ops::{Range, RangeInclusive};

use super::PLACE;
use crate::head::{Head, load};
use crate::stats::class::Class;
use crate::{Fetched, Logical, StoredSubchunk, TransformError};

const VERSION: u8 = 1;
const FIXED: usize = 8;
/// Bytes of a fence.
const KEY: usize = size_of::<u64>();
/// Bytes that a column takes in the head.
const COLUMN: usize = Companion::NAME + size_of::<u32>();
/// Number of elements from fence to fence.
pub(super) const FENCE: usize = 4096;
/// Most other columns.
pub const MOST_COMPANIONS: usize = 64;
/// Most bytes of one element of all other columns together.
pub const MOST_COMPANION_BYTES: u64 = 1024;

/// Another column, in the order of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Companion {
    /// Its name, chosen by the caller that encoded it.
    pub name: [u8; Companion::NAME],
    /// Bytes of an element.
    pub item: u32,
}

impl Companion {
    /// Bytes of a name.
    pub const NAME: usize = 32;
}

/// Where the parts of an encoded subchunk lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedLayout {
    class: Class,
    width: usize,
    count: u64,
    /// The key of every 4096th element, and of the last one.
    fences: Vec<u64>,
    companions: Vec<Companion>,
    /// Number of bytes before the encoded ones.
    before: u64,
}

fn fences(count: u64) -> u64 {
    if count == 0 { 0 } else { count.div_ceil(FENCE as u64) + 1 }
}

/// The longest head for this many bytes of values.
pub(super) fn most(decoded_len: usize) -> usize {
    FIXED + KEY * (decoded_len / FENCE + 2) + COLUMN * MOST_COMPANIONS
}

/// Bytes of the head of a just encoded subchunk.
pub(super) fn len(encoded: &[u8]) -> usize {
    let columns = encoded.get(3).copied().unwrap_or(0);
    let fences = load(encoded.get(4..FIXED).unwrap_or_default()) as usize;
    FIXED.saturating_add(KEY.saturating_mul(fences)).saturating_add(COLUMN * usize::from(columns))
}

impl SortedLayout {
    pub(super) fn new(
        class: Class,
        width: usize,
        count: u64,
        fences: Vec<u64>,
        companions: Vec<Companion>,
    ) -> SortedLayout {
        SortedLayout { class, width, count, fences, companions, before: 0 }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, self.width as u8, self.class.code(), self.companions.len() as u8]);
        out.extend((self.fences.len() as u32).to_le_bytes());
        self.fences.iter().for_each(|key| out.extend(key.to_le_bytes()));
        for one in &self.companions {
            out.extend(one.name);
            out.extend(one.item.to_le_bytes());
        }
    }

    pub(super) fn read(
        bytes: &[u8],
        encoded_len: u64,
        decoded_len: u64,
    ) -> Result<SortedLayout, TransformError> {
        let head = &mut Head::new(bytes);
        head.version("sorted", VERSION)?;
        let width = usize::from(head.u8()?);
        let code = head.u8()?;
        let columns = usize::from(head.u8()?);
        let number = u64::from(head.u32()?);
        let class = Class::from_code(code, width).filter(|class| *class != Class::Opaque);
        let Some(class) = class else {
            return Err(head.corrupt(&format!("scalars of class {code} in {width} bytes")));
        };
        let count = decoded_len / width as u64;
        if !decoded_len.is_multiple_of(width as u64) || number != fences(count) || columns > MOST_COMPANIONS {
            let what = format!("{number} fences and {columns} columns of {decoded_len} bytes");
            return Err(head.corrupt(&what));
        }
        let keys = head.take(KEY * number as usize)?.chunks_exact(KEY).map(load).collect::<Vec<u64>>();
        let mut companions = Vec::with_capacity(columns);
        for _ in 0..columns {
            let name = head.take(Companion::NAME)?;
            let name = name.first_chunk().copied().unwrap_or_default();
            companions.push(Companion { name, item: head.u32()? });
        }
        let sizes = companions.iter().map(|one| u64::from(one.item));
        let ascending = keys.is_sorted() && keys.iter().all(|key| width == KEY || *key >> (8 * width) == 0);
        if !ascending
            || companions.iter().any(|one| one.item == 0)
            || sizes.sum::<u64>() > MOST_COMPANION_BYTES
        {
            return Err(head.corrupt("fences that do not ascend, or columns that are too wide"));
        }
        let layout = SortedLayout { class, width, count, fences: keys, companions, before: 0 };
        if layout.end() != encoded_len {
            let what = format!("{encoded_len} bytes where the head states {}", layout.end());
            return Err(head.corrupt(&what));
        }
        Ok(layout)
    }

    /// The layout, if it holds values of the wanted kind.
    pub(crate) fn of(stored: &StoredSubchunk<'_>, logical: &Logical) -> Result<SortedLayout, TransformError> {
        let layout = SortedLayout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        logical.must_hold(layout.class, layout.width, "sorted values of another kind of number")?;
        Ok(layout)
    }

    /// The same layout if this many bytes precede the encoded ones.
    pub(crate) fn behind(self, before: u64) -> SortedLayout {
        SortedLayout { before, ..self }
    }

    /// Number of elements.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of a value.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The other columns.
    pub fn companions(&self) -> &[Companion] {
        &self.companions
    }

    fn head(&self) -> u64 {
        self.before + (FIXED + KEY * self.fences.len() + COLUMN * self.companions.len()) as u64
    }

    fn end(&self) -> u64 {
        let each = self.companions.iter().map(|one| u64::from(one.item)).sum::<u64>();
        self.head() + self.count * ((self.width + PLACE) as u64 + each)
    }

    /// The byte range of the values of some elements, which are numbered in ascending order of values.
    pub fn values(&self, some: &Range<u64>) -> Range<u64> {
        let (begin, width) = (self.head(), self.width as u64);
        begin + some.start * width..begin + some.end * width
    }

    /// The byte range of their positions, four bytes each.
    pub fn places(&self, some: &Range<u64>) -> Range<u64> {
        let (begin, width) = (self.head() + self.count * self.width as u64, PLACE as u64);
        begin + some.start * width..begin + some.end * width
    }

    /// The byte range of their elements in another column.
    pub fn companion(&self, number: usize, some: &Range<u64>) -> Range<u64> {
        let before = self.companions.iter().take(number).map(|one| u64::from(one.item)).sum::<u64>();
        let item = self.companions.get(number).map_or(0, |one| u64::from(one.item));
        let begin = self.head() + self.count * ((self.width + PLACE) as u64 + before);
        begin + some.start * item..begin + some.end * item
    }

    /// Whether the keys of all elements lie in a range.
    pub(super) fn lies_within(&self, keys: &RangeInclusive<u64>) -> bool {
        self.fences.first().is_none_or(|first| keys.contains(first))
            && self.fences.last().is_none_or(|last| keys.contains(last))
    }

    pub(super) fn key(&self, value: &[u8]) -> u64 {
        self.class.key(load(value), self.width)
    }

    /// A range of elements, from fence to fence, that holds all elements whose keys lie in a range.
    pub fn meeting(&self, keys: &RangeInclusive<u64>) -> Range<u64> {
        let Some((last, firsts)) = self.fences.split_last().filter(|_| !keys.is_empty()) else { return 0..0 };
        if last < keys.start() {
            return 0..0;
        }
        let fence = FENCE as u64;
        let begin = firsts.partition_point(|key| key < keys.start()).saturating_sub(1) as u64;
        let end = firsts.partition_point(|key| key <= keys.end()) as u64;
        let end = (end * fence).min(self.count);
        (begin * fence).min(end)..end
    }

    /// The elements whose keys lie in the range, found in the values of some elements that contain them all.
    pub fn within(
        &self,
        some: &Range<u64>,
        keys: &RangeInclusive<u64>,
        fetched: &Fetched<'_>,
    ) -> Result<Range<u64>, TransformError> {
        let values = fetched.get(self.values(some))?;
        let key = |n: u64| {
            let at = n as usize * self.width;
            self.key(values.get(at..at + self.width).unwrap_or_default())
        };
        let point = |is_before: &dyn Fn(u64) -> bool| {
            let (mut from, mut to) = (0, some.end - some.start);
            while from < to {
                let middle = from + (to - from) / 2;
                if is_before(key(middle)) { from = middle + 1 } else { to = middle }
            }
            from
        };
        let begin = point(&|key| key < *keys.start());
        let end = point(&|key| key <= *keys.end()).max(begin);
        Ok(some.start + begin..some.start + end)
    }
}
