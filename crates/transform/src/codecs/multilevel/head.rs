//! The head of multilevel bytes (docs/format/encodings.md).

use crate::codecs::section::Method;
use crate::head::Head;
use crate::stats::class::Class;
use crate::{Bound, Precision, TransformError};

use super::planes::plane_len;

pub(super) const VERSION: u8 = 1;
/// Number of digits in each component but the last.
pub(super) const DIGITS: u32 = 2;
const MAX_DIGITS: u32 = 62;
const MAX_COMPONENTS: usize = 1 + (MAX_DIGITS / DIGITS) as usize;
/// Longest head.
pub(super) const MAX_HEAD: usize = 20 + 5 + 21 * MAX_COMPONENTS;

/// A run of stored bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Section {
    pub(super) method: Method,
    pub(super) stored: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) class: Class,
    /// Number of scalars of an element; each has a grid of its own.
    pub(super) parts: u32,
    /// Integers are values times 2^scale, rounded.
    pub(super) scale: i32,
    /// Number of digits of the largest integer.
    pub(super) digits: u32,
    /// Values that are not finite: their number, the length of the list of their positions, and the length of their
    /// bits.
    pub(super) special: u32,
    pub(super) places: u32,
    pub(super) bits: Section,
    /// Components of digits, most significant first, and last the remaining differences of the values.
    pub(super) components: Vec<Section>,
    /// The error bound for each number of components but all.
    pub(super) levels: Vec<Bound>,
    pub(super) len: usize,
    pub(super) count: u64,
    pub(super) tail: u64,
}

/// Number of components of digits.
pub(super) fn groups(digits: u32) -> usize {
    digits.div_ceil(DIGITS) as usize
}

impl Layout {
    /// The range of a component's digits, counted from the most significant one.
    pub(super) fn digits_of(&self, component: usize) -> std::ops::Range<u32> {
        let above = (component as u32).saturating_mul(DIGITS);
        let high = self.digits.saturating_sub(above);
        high.saturating_sub(DIGITS)..high
    }

    /// Bytes of an unpacked component.
    pub(super) fn unpacked(&self, component: usize) -> usize {
        if component + 1 == self.components.len() {
            return self.count as usize * self.width;
        }
        let digits = self.digits_of(component);
        (digits.end - digits.start) as usize * plane_len(self.count as usize)
    }

    pub(super) fn read(bytes: &[u8], encoded_len: u64, decoded_len: u64) -> Result<Layout, TransformError> {
        let head = &mut Head::new(bytes);
        head.version("multilevel", VERSION)?;
        let width = usize::from(head.u8()?);
        let (class, digits) = (head.u8()?, u32::from(head.u8()?));
        let parts = head.u32()?;
        let scale = head.u32()?.cast_signed();
        let (special, places) = (head.u32()?, head.u32()?);
        let class = Class::from_code(class, width).filter(|_| matches!(width, 1 | 2 | 4 | 8));
        let Some(class) = class else {
            return Err(head.corrupt(&format!("impossible scalars of {width} bytes")));
        };
        let count = decoded_len / width as u64;
        let scaled = matches!(class, Class::Single | Class::Double) || digits == 0;
        if digits > MAX_DIGITS || !scaled || !(-1000..=1000).contains(&scale) || u64::from(special) > count {
            return Err(head.corrupt(&format!("{digits} digits of scale {scale}, {special} special values")));
        }
        if parts == 0 || !count.is_multiple_of(u64::from(parts)) || (count == 0 && parts > 1) {
            return Err(head.corrupt(&format!("{count} scalars in elements of {parts}")));
        }
        let mut section = |len: u64| -> Result<Section, TransformError> {
            let (method, stored) = (Method::from_code(head.u8()?)?, u64::from(head.u32()?));
            method.check(stored, len)?;
            Ok(Section { method, stored })
        };
        let bits = section(u64::from(special) * width as u64)?;
        let raw = Section { method: Method::Raw, stored: 0 };
        let number = groups(digits) + 1;
        let mut layout = Layout {
            width,
            class,
            parts,
            scale,
            digits,
            special,
            places,
            bits,
            components: vec![raw; number],
            levels: Vec::with_capacity(number),
            len: 0,
            count,
            tail: decoded_len % width as u64,
        };
        for component in 0..number {
            let read = section(layout.unpacked(component) as u64)?;
            if let Some(place) = layout.components.get_mut(component) {
                *place = read;
            }
        }
        for _ in 1..number {
            layout.levels.push(Bound { absolute: head.bound()?, relative: head.bound()? });
        }
        layout.len = head.len();
        let all = layout.starts().last().copied().unwrap_or(0).saturating_add(layout.tail);
        if all != encoded_len {
            return Err(head.corrupt(&format!("{encoded_len} bytes where the head states {all}")));
        }
        Ok(layout)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, self.width as u8, self.class.code(), self.digits as u8]);
        for word in [self.parts, self.scale.cast_unsigned(), self.special, self.places] {
            out.extend(word.to_le_bytes());
        }
        for section in std::iter::once(&self.bits).chain(&self.components) {
            out.push(section.method.code());
            out.extend((section.stored as u32).to_le_bytes());
        }
        for level in &self.levels {
            out.extend(level.absolute.to_le_bytes());
            out.extend(level.relative.to_le_bytes());
        }
    }

    /// Length of a head with this many digits.
    pub(super) fn head_len(digits: u8) -> usize {
        let components = groups(digits.into()) + 1;
        20 + 5 * (1 + components) + 16 * (components - 1)
    }

    /// Where the positions of special values, their bits, each component, and the bytes after the last whole element
    /// begin.
    pub(super) fn starts(&self) -> Vec<u64> {
        let mut at = self.len as u64;
        let mut starts = vec![at];
        for len in [u64::from(self.places), self.bits.stored]
            .into_iter()
            .chain(self.components.iter().map(|c| c.stored))
        {
            at = at.saturating_add(len);
            starts.push(at);
        }
        starts
    }

    /// The fewest components that are exact enough, and their error.
    pub(super) fn choose(&self, precision: Precision) -> (usize, Bound) {
        for (i, bound) in self.levels.iter().enumerate() {
            let enough = match precision {
                Precision::Exact => false,
                Precision::Level(least) => i + 1 >= least as usize,
                precision => precision.allows(bound),
            };
            if enough && bound.absolute.is_finite() {
                return (i + 1, *bound);
            }
        }
        (self.components.len(), Bound::EXACT)
    }
}
