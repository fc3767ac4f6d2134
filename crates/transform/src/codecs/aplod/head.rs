//! The head of APLOD bytes: components, how each is stored, and the error of each level
//! (docs/format/encodings.md).

use crate::codecs::section::Method;
use crate::head::Head;
use crate::stats::class::Class;
use crate::{Bound, Precision, Prefix, TransformError};

use super::level::{self, Level};

pub(super) const VERSION: u8 = 1;
pub(super) const MAX_COMPONENTS: usize = 8;
/// Longest head.
pub(super) const MAX_HEAD: usize = 4 + 6 * MAX_COMPONENTS + 17 * (MAX_COMPONENTS - 1);

/// Some bytes of every element; components follow each other from the most significant bytes down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Component {
    pub(super) bytes: usize,
    pub(super) method: Method,
    pub(super) stored: u64,
}

/// The layout of a subchunk, known before its data is read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) class: Class,
    pub(super) components: Vec<Component>,
    /// One level for each component but the last, which is exact.
    pub(super) levels: Vec<Level>,
    /// Bytes of the head.
    pub(super) len: usize,
    /// Number of elements.
    pub(super) count: u64,
}

impl Layout {
    /// Decodes the head of `encoded_len` bytes that decode to `decoded_len`.
    pub(super) fn read(head: &[u8], encoded_len: u64, decoded_len: u64) -> Result<Layout, TransformError> {
        let head = &mut Head::new(head);
        head.version("aplod", VERSION)?;
        let width = usize::from(head.u8()?);
        let class = head.u8()?;
        let number = usize::from(head.u8()?);
        let Some(class) = Class::from_code(class, width).filter(|_| width > 0) else {
            return Err(head.corrupt(&format!("scalars of class {class} in {width} bytes")));
        };
        if number == 0 || number > MAX_COMPONENTS {
            return Err(head.corrupt(&format!("{number} components")));
        }
        let count = decoded_len / width as u64;
        let mut components = Vec::with_capacity(number);
        for _ in 0..number {
            let (bytes, method, stored) = (usize::from(head.u8()?), head.u8()?, u64::from(head.u32()?));
            let method = Method::from_code(method)?;
            method.check(stored, count.saturating_mul(bytes as u64))?;
            components.push(Component { bytes, method, stored });
        }
        if components.iter().map(|c| c.bytes).sum::<usize>() != width
            || components.iter().any(|c| c.bytes == 0)
        {
            return Err(head.corrupt(&format!("components that do not make up {width} bytes")));
        }
        let mut levels = Vec::with_capacity(number);
        for _ in 1..number {
            levels.push(Level::read(head)?);
        }
        let len = head.len();
        let stored: u64 = components.iter().map(|c| c.stored).sum();
        let all = (len as u64).saturating_add(stored).saturating_add(decoded_len % width as u64);
        if all != encoded_len {
            return Err(head.corrupt(&format!("{encoded_len} bytes where the head states {all}")));
        }
        Ok(Layout { width, class, components, levels, len, count })
    }

    /// The bytes of the head.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, self.width as u8, self.class.code(), self.components.len() as u8]);
        for component in &self.components {
            out.extend([component.bytes as u8, component.method.code()]);
            out.extend((component.stored as u32).to_le_bytes());
        }
        self.levels.iter().for_each(|level| level.write(out));
    }

    /// The fewest components that are exact enough, and their error.
    pub(super) fn choose(&self, precision: Precision) -> (usize, Bound) {
        level::choose(&self.levels, self.components.len(), precision)
    }

    /// Bytes of each element that the first `components` hold.
    pub(super) fn kept(&self, components: usize) -> usize {
        self.components.iter().take(components).map(|c| c.bytes).sum()
    }

    /// The head and the components of the first usable level that keeps at least two bytes, or half of a shorter
    /// element.
    pub(super) fn prefix(&self) -> Option<Prefix> {
        let worth = 2.min(self.width / 2).max(1);
        let usable = |(i, level): &(usize, &Level)| self.kept(i + 1) >= worth && level.absolute.is_finite();
        let (i, level) = self.levels.iter().enumerate().find(usable)?;
        let len = usize::try_from(*self.starts().get(i + 1)?).ok()?;
        let bound = Bound { absolute: level.absolute, relative: level.relative };
        Some(Prefix { len, level: (i + 1) as u8, bound })
    }

    /// Where each component begins, and where the bytes after the last whole element begin.
    pub(super) fn starts(&self) -> Vec<u64> {
        let mut at = self.len as u64;
        let mut starts = vec![at];
        starts.extend(self.components.iter().map(|component| {
            at += component.stored;
            at
        }));
        starts
    }
}
