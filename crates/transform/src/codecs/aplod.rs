//! APLOD: numbers cut into components of leading and following bytes, so that a reader fetches only as many as its
//! error bound needs.
//!
//! Each component holds some bytes of every element, the most significant ones first, and is compressed by itself if
//! that makes it smaller: the leading bytes of a field compress, the last ones mostly do not. The head states the
//! largest error of every level, measured on the data. Raw components are byte planes, so a part of the elements is one
//! short range of each plane.
//!
//! Invariants
//! - all components together are lossless; fewer components give values within the errors in the head;
//! - zeros, infinities and NaN read as such at every level that is used;
//! - the bytes are specified in docs/format/encodings.md.

mod head;
pub(crate) mod level;

use std::ops::Range;

use crate::codecs::columns::{Runs, gather};
use crate::codecs::section::{self, Method};
use crate::codecs::shuffle::kernel;
use crate::ranges::join;
use crate::scratch::set_len_reusing;
use crate::stats::class::Class;
use crate::{
    Codec, CodecSpec, Fetched, Logical, Param, Pieces, Planned, Prefix, Scratch, StoredSubchunk,
    TransformError, Transparent, Want, Zstd,
};
use head::{Component, Layout, MAX_COMPONENTS, MAX_HEAD};

/// The level-of-detail codec.
#[derive(Clone, Debug)]
pub struct Aplod {
    /// Bytes of each component, most significant first; if empty, a default for the element's size.
    components: Vec<usize>,
    level: i64,
    zstd: Zstd,
}

impl Aplod {
    /// Components of these many bytes, most significant first, at most 8 of 1 to 8 bytes each; if there are none, the
    /// default of each type: 2,1,1,4 for 8 bytes, 2,1,1 for 4 and 1,1 for 2. Components beyond the element's bytes are
    /// dropped; remaining bytes form one more component.
    pub fn new(components: &[usize]) -> Result<Aplod, TransformError> {
        let params: Vec<Param> = components.iter().map(|&n| Param::Int(n as i64)).collect();
        Aplod::from_params(&params)
    }

    pub(crate) fn from_params(params: &[Param]) -> Result<Aplod, TransformError> {
        let bad = |problem: String| TransformError::bad_parameter("aplod", problem);
        let mut components = Vec::new();
        let mut level = 1;
        for param in params {
            match param.key_and_value() {
                (None, Param::Int(bytes @ 1..=16)) if components.len() < MAX_COMPONENTS => {
                    components.push(*bytes as usize);
                }
                (Some("level"), Param::Int(value)) => level = *value,
                _ => {
                    let problem = format!(
                        "expected at most {MAX_COMPONENTS} numbers of bytes as in aplod:2,1,1,4, found {param}"
                    );
                    return Err(bad(problem));
                }
            }
        }
        let zstd = i32::try_from(level).map_err(|_| bad(format!("level {level}"))).and_then(Zstd::new)?;
        Ok(Aplod { components, level, zstd })
    }

    /// The components of elements of `width` bytes.
    fn cut(&self, width: usize) -> Vec<usize> {
        let given: &[usize] = match (self.components.as_slice(), width) {
            ([], 8) => &[2, 1, 1, 4],
            ([], 4) => &[2, 1, 1],
            ([], 2) => &[1, 1],
            (given, _) => given,
        };
        let mut left = width;
        let mut cut = Vec::new();
        for &bytes in given.iter().take(MAX_COMPONENTS - 1) {
            if left > 0 {
                cut.push(bytes.min(left));
                left -= bytes.min(left);
            }
        }
        cut.extend(Some(left).filter(|&left| left > 0));
        cut
    }
}

impl Codec for Aplod {
    fn spec(&self) -> CodecSpec {
        let mut params: Vec<Param> = self.components.iter().map(|&n| Param::Int(n as i64)).collect();
        if self.level != 1 {
            params.push(Param::Named("level".into(), Box::new(Param::Int(self.level))));
        }
        CodecSpec { name: "aplod".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_add(MAX_HEAD)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let width = if (1..=255).contains(&logical.scalar) { logical.scalar } else { 1 };
        let count = data.len() / width;
        let class = Class::of(logical.kind, width);
        let (elements, tail) = data.split_at(count * width);
        let mut planes = std::mem::take(&mut scratch.planes);
        planes.clear();
        kernel::shuffle(elements, width, &mut planes);
        let mut layout =
            Layout { width, class, components: Vec::new(), levels: Vec::new(), len: 0, count: count as u64 };
        let mut body = std::mem::take(&mut scratch.body);
        body.clear();
        let mut left = width;
        for bytes in self.cut(width) {
            let start = body.len();
            let run = planes.get((left - bytes) * count..left * count).unwrap_or_default();
            let packed = section::pack(run, &self.zstd, &mut body, scratch);
            let method = packed?;
            layout.components.push(Component { bytes, method, stored: (body.len() - start) as u64 });
            left -= bytes;
            if left > 0 {
                layout.levels.push(class.measure(elements, width, width - left));
            }
        }
        layout.write(out);
        out.extend_from_slice(&body);
        out.extend_from_slice(tail);
        (scratch.planes, scratch.body) = (planes, body);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = Layout::read(encoded, encoded.len() as u64, out.len() as u64)?;
        let count = layout.count as usize;
        let mut planes = std::mem::take(&mut scratch.planes);
        set_len_reusing(&mut planes, count * layout.width);
        let mut rest = encoded.get(layout.len..).unwrap_or_default();
        let mut left = layout.width;
        for component in &layout.components {
            let (stored, after) = rest.split_at_checked(component.stored as usize).unwrap_or((rest, &[]));
            rest = after;
            if let Some(run) = planes.get_mut((left - component.bytes) * count..left * count) {
                component.method.unpack(stored, run, scratch)?;
            }
            left -= component.bytes;
        }
        let (elements, tail) = out.split_at_mut(count * layout.width);
        kernel::unshuffle(&planes, layout.width, elements);
        tail.copy_from_slice(rest);
        scratch.planes = planes;
        Ok(())
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// A partial read of a subchunk, in terms of its layout.
struct PartialRead {
    layout: Layout,
    /// Number of components that are exact enough.
    level: usize,
    bound: crate::Bound,
    runs: Runs,
}

impl PartialRead {
    fn of(stored: &StoredSubchunk<'_>, want: &Want<'_>) -> Result<PartialRead, TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        let (level, bound) = layout.choose(want.precision);
        let runs = Runs::of(want.ranges, layout.width as u64, layout.count);
        Ok(PartialRead { layout, level, bound, runs })
    }
}

impl Transparent for Aplod {
    fn meta_len(&self, encoded: &[u8]) -> usize {
        let number = usize::from(encoded.get(3).copied().unwrap_or(0));
        4 + 6 * number + 17 * number.saturating_sub(1)
    }

    fn may_grow(&self) -> bool {
        true
    }

    fn prefix(&self, encoded: &[u8], decoded_len: usize) -> Option<Prefix> {
        let layout = Layout::read(encoded, encoded.len() as u64, decoded_len as u64).ok()?;
        // Bytes after the last whole scalar are at the end.
        layout.prefix().filter(|_| decoded_len.is_multiple_of(layout.width))
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let PartialRead { layout, level, bound, runs } = PartialRead::of(stored, want)?;
        let starts = layout.starts();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut add = |range: Range<u64>| join(&mut ranges, range, 0);
        for (component, &start) in layout.components.iter().zip(&starts).take(level) {
            match component.method {
                Method::Zstd if runs.elements.is_empty() => {}
                Method::Zstd => add(start..start + component.stored),
                Method::Raw => {
                    for plane in 0..component.bytes as u64 {
                        let at = start + plane * layout.count;
                        runs.elements.iter().for_each(|run| add(at + run.start..at + run.end));
                    }
                }
            }
        }
        if let Some(&start) = starts.last() {
            add(start..start + runs.tail);
        }
        Ok(Planned { ranges, bound })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        _logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let PartialRead { layout, level, mut runs, .. } = PartialRead::of(stored, want)?;
        let (width, count) = (layout.width, layout.count);
        let starts = layout.starts();
        runs.close(|all| {
            let raw = |component: &Component| component.method == Method::Raw;
            let mut used = layout.components.iter().zip(&starts).take(level).filter(|(c, _)| raw(c));
            let plane =
                |start: u64, plane: u64| start + plane * count + all.start..start + plane * count + all.end;
            used.all(|(c, &start)| (0..c.bytes as u64).all(|n| fetched.get(plane(start, n)).is_ok()))
        });
        let total = runs.count() as usize;
        let kept = layout.kept(level);
        let middle = layout.levels.get(level.wrapping_sub(1)).is_some_and(|level| level.middle);
        // The planes of only the wanted elements, least significant first. Unknown bytes are set to the middle of their
        // range, or to 0.
        let mut planes = std::mem::take(&mut scratch.planes);
        set_len_reusing(&mut planes, total * width);
        let unknown = width - kept;
        planes.get_mut(..unknown * total).unwrap_or_default().fill(0);
        if middle && unknown > 0 {
            planes.get_mut((unknown - 1) * total..unknown * total).unwrap_or_default().fill(0x80);
        }
        let mut section = std::mem::take(&mut scratch.body);
        let mut left = width;
        for (component, &start) in layout.components.iter().zip(&starts).take(level) {
            let len = component.bytes * count as usize;
            if component.method == Method::Zstd && total > 0 {
                let bytes = fetched.get(start..start + component.stored)?;
                section::unpack_into(component.method, bytes, len, &mut section, scratch)?;
            }
            for plane in 0..component.bytes {
                let to = (left - component.bytes + plane) * total;
                let Some(own) = planes.get_mut(to..to + total) else { continue };
                let from = plane as u64 * count;
                gather(&runs, own, |run| match component.method {
                    Method::Zstd => {
                        let bytes = section.get((from + run.start) as usize..(from + run.end) as usize);
                        Ok(bytes.unwrap_or_default())
                    }
                    Method::Raw => fetched.get(start + from + run.start..start + from + run.end),
                })?;
            }
            left -= component.bytes;
        }
        runs.place(&planes, width, pieces, &mut section, |elements| {
            if kept < width {
                layout.class.mend(elements, width, kept, middle);
            }
        })?;
        if let Some(&start) = starts.last() {
            let body = count * width as u64;
            let bytes = fetched.get(start..start + runs.tail)?;
            pieces.place(body..body + runs.tail)?.copy_from_slice(bytes);
        }
        (scratch.planes, scratch.body) = (planes, section);
        Ok(())
    }
}
