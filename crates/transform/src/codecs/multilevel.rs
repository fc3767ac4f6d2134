//! Floats as a hierarchy of corrections to linear interpolation, in bit planes: a coarse view of a smooth field needs
//! few bytes.
//!
//! Values are scaled to integers. Each is predicted as the mean of two neighbours on a coarser grid, and the difference
//! is stored; in a smooth field most differences are near zero. The components are the digits of all differences, from
//! the most significant on; the last component holds the remaining bits. An interpolated value has no larger error than
//! its neighbours, so the error at a cell is at most the sum of the largest errors of the differences on the path to it
//! (the constant is 1). The head states the errors measured by decoding every level.
//!
//! Invariants
//! - all components together are lossless. Fewer give values within the errors in the head, with NaN and infinities
//!   unchanged;
//! - encoder and decoder compute with integers and single IEEE operations only, so results are the same on every
//!   machine.

mod grid;
mod head;
mod planes;

use std::ops::Range;

use crate::codecs::alacrity::lists;
use crate::codecs::section::{self, Method};
use crate::codecs::shuffle::kernel;
use crate::head::load;
use crate::ranges::join;
use crate::stats::class::Class;
use crate::{
    Bound, Codec, CodecSpec, Fetched, Logical, Param, Pieces, Planned, Scratch, StoredSubchunk,
    TransformError, Transparent, Want, Zstd,
};
use head::{Layout, MAX_HEAD, Section, groups};
use planes::{digits, number};

const DEFAULT_LEVEL: i64 = 3;

/// The progressive codec.
#[derive(Clone, Debug)]
pub struct Multilevel {
    level: i64,
    zstd: Zstd,
}

impl Multilevel {
    pub(crate) fn from_params(params: &[Param]) -> Result<Multilevel, TransformError> {
        let bad = |problem: String| TransformError::bad_parameter("multilevel", problem);
        let level = match params {
            [] => DEFAULT_LEVEL,
            [one] => match one.key_and_value() {
                (None | Some("level"), Param::Int(level)) => *level,
                _ => return Err(bad(format!("expected a level of zstd as in multilevel:3, found {one}"))),
            },
            [_, more, ..] => return Err(bad(format!("takes one level, found {more} besides"))),
        };
        let zstd = i32::try_from(level).map_err(|_| bad(format!("level {level}"))).and_then(Zstd::new)?;
        Ok(Multilevel { level, zstd })
    }
}

/// The shape of the grids of scalars: the shape of the data, unless it does not match the bytes.
fn shape_of(logical: &Logical, count: usize, parts: usize) -> Vec<usize> {
    let shape: Option<Vec<usize>> = logical.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let shape = shape.filter(|shape| !shape.is_empty());
    let fits = |shape: &Vec<usize>| shape.iter().try_fold(parts, |n, &e| n.checked_mul(e)) == Some(count);
    shape.filter(fits).unwrap_or_else(|| vec![count / parts.max(1)])
}

fn value(class: Class, bits: u64) -> f64 {
    match class {
        Class::Single => f64::from(f32::from_bits(bits as u32)),
        Class::Double => f64::from_bits(bits),
        _ => 0.0,
    }
}

/// 2^exponent, which must be within -1022..=1023.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent.clamp(-1022, 1023)) as u64) << 52)
}

/// The bits of the float nearest to an integer over 2^scale.
#[inline(always)]
fn unscale(class: Class, whole: i64, unit: f64) -> u64 {
    let value = whole as f64 * unit;
    match class {
        Class::Single => u64::from((value as f32).to_bits()),
        Class::Double => value.to_bits(),
        _ => 0,
    }
}

/// The scale exponent of the values; `None` if they cannot be scaled.
fn scale_of(class: Class, elements: &[u8], width: usize) -> Option<i32> {
    let precision = match class {
        Class::Single => 30,
        Class::Double => 46,
        _ => return None,
    };
    let finite = elements.chunks_exact(width).map(|e| value(class, load(e)).abs()).filter(|x| x.is_finite());
    let most = finite.fold(0.0, f64::max);
    let exponent = (most.to_bits() >> 52) as i32 - 1023;
    let scale = precision - exponent;
    ((-900..=900).contains(&exponent) && (-900..=900).contains(&scale)).then_some(scale)
}

/// Differences of the integers from their predictions, grid by grid.
fn differences(whole: &[i64], shape: &[usize], parts: usize) -> Vec<u64> {
    let mut out = vec![0; whole.len()];
    let mut next = 0;
    for part in 0..parts {
        let Some(first) = whole.get(part) else { continue };
        let mut put = |difference: i64| {
            if let Some(place) = out.get_mut(next) {
                *place = digits(difference);
            }
            next += 1;
        };
        put(*first);
        grid::visit(shape, |cell, before, behind| {
            let at = |cell: usize| whole.get(cell * parts + part).copied().unwrap_or(0);
            put(at(cell) - ((at(before) + at(behind)) >> 1));
        });
    }
    out
}

fn restore(all: &[u64], shape: &[usize], parts: usize) -> Vec<i64> {
    let mut whole = vec![0i64; all.len()];
    let mut rest = all.iter();
    for part in 0..parts {
        let mut take = || rest.next().map_or(0, |&d| number(d));
        if let Some(first) = whole.get_mut(part) {
            *first = take();
            grid::visit(shape, |cell, before, behind| {
                let at = |cell: usize| whole.get(cell * parts + part).copied().unwrap_or(0);
                // Damaged values may be any numbers. They wrap around, and only a checksum can detect them.
                let made = take().wrapping_add(at(before).wrapping_add(at(behind)) >> 1);
                if let Some(place) = whole.get_mut(cell * parts + part) {
                    *place = made;
                }
            });
        }
    }
    whole
}

/// The difference between a value and its reconstruction, as a small unsigned number.
fn missing(class: Class, width: usize, bits: u64, made: u64) -> u64 {
    let shift = 64 - 8 * width as u32;
    let difference = class.key(bits, width).wrapping_sub(class.key(made, width)) << shift;
    let signed = difference.cast_signed() >> shift;
    ((signed << 1) ^ (signed >> 63)).cast_unsigned() & (u64::MAX >> shift)
}

fn complete(class: Class, width: usize, missing: u64, made: u64) -> u64 {
    let signed = (missing >> 1) ^ (missing & 1).wrapping_neg();
    let key = class.key(made, width).wrapping_add(signed) & (u64::MAX >> (64 - 8 * width));
    class.bits(key, width)
}

impl Codec for Multilevel {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: "multilevel".into(), params: vec![Param::Int(self.level)] }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_add(decoded_len / 2).saturating_add(MAX_HEAD)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let width = if matches!(logical.scalar, 1 | 2 | 4 | 8) { logical.scalar } else { 1 };
        let class = Class::of(logical.kind, width);
        let count = data.len() / width;
        let (elements, tail) = data.split_at(count * width);
        let parts = (logical.item / width).max(1);
        let parts = if count > 0 && count.is_multiple_of(parts) { parts } else { 1 };
        let shape = shape_of(logical, count, parts);
        let scale = scale_of(class, elements, width);
        let bits: Vec<u64> = elements.chunks_exact(width).map(load).collect();
        let (mut all, mut top) = (Vec::new(), 0);
        let mut places = Vec::new();
        let mut special = Vec::new();
        if let Some(scale) = scale {
            let factor = power(scale);
            let mut whole = Vec::with_capacity(count);
            for (i, &bits) in bits.iter().enumerate() {
                let value = value(class, bits);
                whole.push(if value.is_finite() { (value * factor).round_ties_even() as i64 } else { 0 });
                if !value.is_finite() {
                    places.push(i as u32);
                    special.extend_from_slice(&bits.to_le_bytes()[..width]);
                }
            }
            all = differences(&whole, &shape, parts);
            top = all.iter().map(|d| 64 - d.leading_zeros()).max().unwrap_or(0);
        }
        let mut layout = Layout {
            width,
            class,
            parts: parts as u32,
            scale: scale.unwrap_or(0),
            digits: top,
            special: places.len() as u32,
            places: 0,
            bits: Section { method: Method::Raw, stored: 0 },
            components: vec![Section { method: Method::Raw, stored: 0 }; groups(top) + 1],
            levels: Vec::new(),
            len: 0,
            count: count as u64,
            tail: tail.len() as u64,
        };
        let mut body = Vec::new();
        lists::pack(&places, &mut body);
        layout.places = body.len() as u32;
        layout.bits = packed(&special, &self.zstd, &mut body, scratch)?;
        let unit = power(-layout.scale);
        let mut known = vec![0u64; all.len()];
        let mut made = vec![unscale(class, 0, unit); count];
        for component in 0..groups(top) {
            let mut planes = Vec::new();
            for digit in layout.digits_of(component).rev() {
                planes::cut(&all, digit, &mut planes);
            }
            layout.components[component] = packed(&planes, &self.zstd, &mut body, scratch)?;
            let mask = u64::MAX << layout.digits_of(component).start;
            known.iter_mut().zip(&all).for_each(|(known, all)| *known = all & mask);
            let whole = restore(&known, &shape, parts);
            made.iter_mut().zip(&whole).for_each(|(made, whole)| *made = unscale(class, *whole, unit));
            layout.levels.push(measured(class, &bits, &made));
        }
        let mut rest = Vec::with_capacity(elements.len());
        for (&bits, &made) in bits.iter().zip(&made) {
            rest.extend_from_slice(&missing(class, width, bits, made).to_le_bytes()[..width]);
        }
        let mut shuffled = Vec::new();
        kernel::shuffle(&rest, width, &mut shuffled);
        let last = packed(&shuffled, &self.zstd, &mut body, scratch)?;
        if let Some(place) = layout.components.last_mut() {
            *place = last;
        }
        layout.write(out);
        out.extend_from_slice(&body);
        out.extend_from_slice(tail);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = Layout::read(encoded, encoded.len() as u64, out.len() as u64)?;
        let level = layout.components.len();
        decode(&layout, &Fetched::new(vec![(0, encoded)]), logical, level, out, scratch)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

fn packed(
    bytes: &[u8],
    zstd: &Zstd,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Section, TransformError> {
    let before = out.len();
    let method = section::pack(bytes, zstd, out, scratch)?;
    Ok(Section { method, stored: (out.len() - before) as u64 })
}

/// The errors of reconstructed values against the originals.
fn measured(class: Class, bits: &[u64], made: &[u64]) -> Bound {
    // The error is 0 only if every bit is right: a wrong sign of zero does not show in the differences below.
    let least = if bits == made { 0.0 } else { f64::from_bits(1) };
    let (mut absolute, mut relative) = (least, least);
    for (&bits, &made) in bits.iter().zip(made) {
        let (was, is) = (value(class, bits), value(class, made));
        if was.is_finite() {
            let error = (was - is).abs();
            // A value that overflowed has an infinite error.
            absolute = if error.is_nan() { f64::INFINITY } else { absolute.max(error) };
            relative = if error > 0.0 { relative.max(error / was.abs()) } else { relative };
        }
    }
    let up = |error: f64| if error > 0.0 && error.is_finite() { error.next_up() } else { error };
    Bound { absolute: up(absolute), relative: up(relative) }
}

/// Decodes all values of a level.
fn decode(
    layout: &Layout,
    fetched: &Fetched<'_>,
    logical: &Logical,
    level: usize,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), TransformError> {
    let (width, class, count) = (layout.width, layout.class, layout.count as usize);
    let (elements, tail) = out.split_at_mut(count * width);
    let starts = layout.starts();
    let start = |i: usize| starts.get(i).copied().unwrap_or(u64::MAX);
    let unpacked = |i: usize, section: &Section, len: usize, out: &mut Vec<u8>, scratch: &mut Scratch| {
        let bytes = fetched.get(start(i)..start(i) + section.stored)?;
        section::unpack_into(section.method, bytes, len, out, scratch)
    };
    let mut buffer = Vec::new();
    let mut all = vec![0u64; if layout.digits > 0 { count } else { 0 }];
    let exact = level == layout.components.len();
    let number = layout.components.len() - 1;
    for (i, section) in layout.components.iter().enumerate().take(level.min(number)) {
        unpacked(2 + i, section, layout.unpacked(i), &mut buffer, scratch)?;
        let planes = buffer.chunks_exact(planes::plane_len(count).max(1));
        for (digit, plane) in layout.digits_of(i).rev().zip(planes) {
            planes::join(plane, digit, &mut all);
        }
    }
    let parts = layout.parts as usize;
    let whole = restore(&all, &shape_of(logical, count, parts), parts);
    let unit = power(-layout.scale);
    if exact {
        if let Some(section) = layout.components.last() {
            unpacked(2 + number, section, count * width, &mut buffer, scratch)?;
        }
        kernel::unshuffle(&buffer, width, elements);
        for (i, element) in elements.chunks_exact_mut(width).enumerate() {
            let made = unscale(class, whole.get(i).copied().unwrap_or(0), unit);
            let bits = complete(class, width, load(element), made);
            element.copy_from_slice(&bits.to_le_bytes()[..width]);
        }
    } else {
        for (element, &whole) in elements.chunks_exact_mut(width).zip(&whole) {
            element.copy_from_slice(&unscale(class, whole, unit).to_le_bytes()[..width]);
        }
        unpacked(1, &layout.bits, layout.special as usize * width, &mut buffer, scratch)?;
        let places = fetched.get(start(0)..start(1))?;
        let mut bits = buffer.chunks_exact(width);
        lists::unpack(places, layout.special as usize, layout.count, |place| {
            let to = place as usize * width;
            if let (Some(bits), Some(element)) = (bits.next(), elements.get_mut(to..to + width)) {
                element.copy_from_slice(bits);
            }
        })?;
    }
    tail.copy_from_slice(
        fetched.get(start(2 + layout.components.len())..start(2 + layout.components.len()) + layout.tail)?,
    );
    Ok(())
}

/// The layout of a subchunk, the fewest components that are exact enough, and their error.
fn asked(stored: &StoredSubchunk<'_>, want: &Want<'_>) -> Result<(Layout, usize, Bound), TransformError> {
    let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
    let (level, bound) = layout.choose(want.precision);
    Ok((layout, level, bound))
}

impl Transparent for Multilevel {
    fn meta_len(&self, encoded: &[u8]) -> usize {
        Layout::head_len(encoded.get(3).copied().unwrap_or(0))
    }

    fn may_grow(&self) -> bool {
        true
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let (layout, level, bound) = asked(stored, want)?;
        let starts = layout.starts();
        let components = layout.components.len();
        let (from, to) = if level == components { (2, 2 + components) } else { (0, 2 + level) };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        if let (Some(&from), Some(&to), Some(&tail)) = (starts.get(from), starts.get(to), starts.last()) {
            for range in [from..to, tail..tail + layout.tail] {
                join(&mut ranges, range, 0);
            }
        }
        Ok(Planned { ranges, bound })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let (layout, level, _) = asked(stored, want)?;
        decode(&layout, fetched, logical, level, pieces.place(0..stored.decoded_len as u64)?, scratch)
    }
}
