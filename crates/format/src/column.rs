//! Columns of 64-bit numbers whose size follows their structure (docs/format/columns.md).
//!
//! A regular decomposition is affine or an odometer and takes a few bytes; anything else is packed to the
//! smallest width.

use crate::Corrupt;
use crate::MAX_NDIM;
use crate::cursor::Reader;

const CONSTANT: u8 = 0;
const AFFINE: u8 = 1;
const ODOMETER: u8 = 2;
const PACKED: u8 = 3;

/// Appends `values` in the smallest of the four encodings.
pub fn encode(values: &[u64], out: &mut Vec<u8>) {
    let Some(&first) = values.first() else {
        out.push(CONSTANT);
        out.extend_from_slice(&0u64.to_le_bytes());
        return;
    };
    if values.iter().all(|&v| v == first) {
        out.push(CONSTANT);
        out.extend_from_slice(&first.to_le_bytes());
        return;
    }
    let wheels = odometer(values);
    // A packed column is shorter than an affine one only below 18 bytes, and no packed column is that short.
    if let Some([(_, stride)]) = wheels.as_deref() {
        out.push(AFFINE);
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&stride.to_le_bytes());
        return;
    }
    let packing = Packing::of(values);
    let packed_len = 18 + packing.width.saturating_mul(values.len());
    if let Some(wheels) = wheels.filter(|wheels| 10 + 16 * wheels.len() < packed_len) {
        out.push(ODOMETER);
        out.push(wheels.len() as u8);
        out.extend_from_slice(&first.to_le_bytes());
        for (count, stride) in wheels {
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(&stride.to_le_bytes());
        }
        return;
    }
    packing.write(values, out);
}

/// Decodes a column of `n` values; the caller has bounded `n` by the bytes at hand.
pub fn decode(input: &mut Reader<'_>, n: usize) -> Result<Vec<u64>, Corrupt> {
    let at = input.position();
    let tag = input.u8()?;
    let a = if tag == ODOMETER { 0 } else { input.u64()? };
    match tag {
        CONSTANT if n == 0 && a != 0 => Err(Corrupt::new("an empty column is not 0", at)),
        CONSTANT => Ok(vec![a; n]),
        _ if n == 0 => Err(Corrupt::new("an empty column is not constant", at)),
        AFFINE => {
            let d = input.u64()?;
            Ok((0..n as u64).map(|i| a.wrapping_add(d.wrapping_mul(i))).collect())
        }
        ODOMETER => {
            let k = input.u8()?;
            if k == 0 || usize::from(k) > MAX_NDIM {
                return Err(Corrupt::new(format!("odometer of {k} digits"), at));
            }
            let a = input.u64()?;
            let mut wheels = Vec::with_capacity(usize::from(k));
            for _ in 0..k {
                wheels.push((input.u64()?, input.u64()?));
            }
            let product = wheels.iter().fold(1u64, |p, &(count, _)| p.saturating_mul(count));
            if product < n as u64 || wheels.iter().any(|&(count, _)| count == 0) {
                return Err(Corrupt::new(format!("odometer of {product} values, {n} expected"), at));
            }
            Ok(turned(a, &wheels, n))
        }
        PACKED => {
            let scale = input.u64()?;
            let width = input.u8()?;
            if !matches!(width, 1 | 2 | 4 | 8) {
                return Err(Corrupt::new(format!("packed column of width {width}"), at));
            }
            let width = usize::from(width);
            let len = n.checked_mul(width).ok_or_else(|| Corrupt::new("column too long", at))?;
            let value = |x: u64| a.wrapping_add(scale.wrapping_mul(x));
            let bytes = input.take(len)?;
            Ok(match width {
                1 => bytes.iter().map(|x| value(u64::from(*x))).collect(),
                2 => words(bytes).map(|x| value(u16::from_le_bytes(x).into())).collect(),
                4 => words(bytes).map(|x| value(u32::from_le_bytes(x).into())).collect(),
                _ => words(bytes).map(|x| value(u64::from_le_bytes(x))).collect(),
            })
        }
        _ => Err(Corrupt::new(format!("unknown column tag {tag}"), at)),
    }
}

/// Splits bytes into words of `N` bytes.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// Appends the column of one field of `items`.
pub(crate) fn write<T>(out: &mut Vec<u8>, items: &[T], field: impl Fn(&T) -> u64) {
    // Most columns of an index page are constant, which is detected before the numbers are copied.
    if let Some(first) = items.first().map(&field)
        && items.iter().all(|item| field(item) == first)
    {
        return encode(&[first], out);
    }
    let values: Vec<u64> = items.iter().map(field).collect();
    encode(&values, out);
}

/// Decodes the column of one field of `items`; `set` returns None for a value that does not fit.
pub(crate) fn read<T>(
    input: &mut Reader<'_>,
    items: &mut [T],
    what: &str,
    set: impl Fn(&mut T, u64) -> Option<()>,
) -> Result<(), Corrupt> {
    let at = input.position();
    let put = |item: &mut T, value: u64| {
        set(item, value).ok_or_else(|| Corrupt::new(format!("{what} cannot be {value}"), at))
    };
    if !items.is_empty() && input.peek() == Some(CONSTANT) {
        input.u8()?;
        let value = input.u64()?;
        return items.iter_mut().try_for_each(|item| put(item, value));
    }
    let values = decode(input, items.len())?;
    items.iter_mut().zip(values).try_for_each(|(item, value)| put(item, value))
}

/// The numbers of a decoded column.
#[derive(Debug)]
pub enum Numbers {
    /// One number for all entries.
    All(u64),
    /// One number for each entry.
    Each(Vec<u64>),
}

impl Numbers {
    /// Number `i`.
    ///
    /// # Panics
    /// If there are at most `i` numbers.
    #[inline]
    pub fn at(&self, i: usize) -> u64 {
        match self {
            Numbers::All(number) => *number,
            Numbers::Each(numbers) => numbers[i],
        }
    }

    /// The least and the greatest number; (0, 0) for an empty column.
    pub fn extremes(&self) -> (u64, u64) {
        match self {
            Numbers::All(number) => (*number, *number),
            Numbers::Each(numbers) if numbers.is_empty() => (0, 0),
            Numbers::Each(numbers) => {
                numbers.iter().fold((u64::MAX, 0), |(least, most), &v| (v.min(least), v.max(most)))
            }
        }
    }

    /// Bytes in memory besides the value itself.
    pub fn memory(&self) -> usize {
        match self {
            Numbers::All(_) => 0,
            Numbers::Each(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}

/// Decodes a column of `n` numbers up to `most`; the caller has bounded `n` as for [`decode`].
pub(crate) fn numbers(input: &mut Reader<'_>, n: usize, what: &str, most: u64) -> Result<Numbers, Corrupt> {
    numbers_if(input, n, what, |_, value| value <= most)
}

/// Decodes a column like [`numbers`], and refuses numbers for which the condition is false.
pub(crate) fn numbers_if(
    input: &mut Reader<'_>,
    n: usize,
    what: &str,
    fits: impl Fn(usize, u64) -> bool,
) -> Result<Numbers, Corrupt> {
    let at = input.position();
    let (numbers, misfit) = if n > 0 && input.peek() == Some(CONSTANT) {
        input.u8()?;
        let number = input.u64()?;
        (Numbers::All(number), (0..n).find(|&i| !fits(i, number)).map(|_| number))
    } else {
        let numbers = decode(input, n)?;
        let misfit = numbers.iter().enumerate().find(|&(i, &v)| !fits(i, v)).map(|(_, &v)| v);
        (Numbers::Each(numbers), misfit)
    };
    match misfit {
        Some(value) => Err(Corrupt::new(format!("{what} cannot be {value}"), at)),
        None => Ok(numbers),
    }
}

/// Smallest packing: least value, greatest common divisor of the distances from it, width of the quotients.
struct Packing {
    least: u64,
    scale: u64,
    width: usize,
}

impl Packing {
    fn of(values: &[u64]) -> Self {
        // The patterns of signed values are close to each other only if compared as signed.
        let (mut unsigned, mut signed) = ((u64::MAX, 0), (i64::MAX, i64::MIN));
        for &v in values {
            unsigned = (v.min(unsigned.0), v.max(unsigned.1));
            signed = (v.cast_signed().min(signed.0), v.cast_signed().max(signed.1));
        }
        let unsigned_span = unsigned.1.wrapping_sub(unsigned.0);
        let signed_span = signed.1.wrapping_sub(signed.0).cast_unsigned();
        let (least, span) = if signed_span < unsigned_span {
            (signed.0.cast_unsigned(), signed_span)
        } else {
            (unsigned.0, unsigned_span)
        };
        let mut scale = 0u64;
        for &v in values {
            let distance = v.wrapping_sub(least);
            if scale == 1 {
                break;
            }
            // A division takes longer than the rest of the loop.
            let is_multiple = match scale {
                0 => false,
                _ if scale.is_power_of_two() => distance & (scale - 1) == 0,
                _ => distance.is_multiple_of(scale),
            };
            if !is_multiple {
                scale = gcd(scale, distance);
            }
        }
        let scale = scale.max(1);
        let width = match span / scale {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        Packing { least, scale, width }
    }

    fn write(&self, values: &[u64], out: &mut Vec<u8>) {
        out.push(PACKED);
        out.extend_from_slice(&self.least.to_le_bytes());
        out.extend_from_slice(&self.scale.to_le_bytes());
        out.push(self.width as u8);
        match self.width {
            1 => self.push::<1>(values, out),
            2 => self.push::<2>(values, out),
            4 => self.push::<4>(values, out),
            _ => self.push::<8>(values, out),
        }
    }

    /// The quotients, `W` bytes each.
    fn push<const W: usize>(&self, values: &[u64], out: &mut Vec<u8>) {
        // A division takes longer than the rest of the loop.
        let shift = self.scale.is_power_of_two().then(|| self.scale.trailing_zeros());
        out.reserve(W * values.len());
        for &v in values {
            let distance = v.wrapping_sub(self.least);
            let x = shift.map_or_else(|| distance / self.scale, |shift| distance >> shift);
            out.extend_from_slice(x.to_le_bytes().first_chunk().unwrap_or(&[0; W]));
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The (count, stride) wheels, slowest first, that produce `values`; one wheel is an affine column. Takes at most one
/// pass.
fn odometer(values: &[u64]) -> Option<Vec<(u64, u64)>> {
    let first = *values.first()?;
    let mut wheels = Vec::new();
    let mut step = 1usize;
    while step < values.len() {
        // Equal distances among every step-th value form the next slower wheel.
        if wheels.len() == MAX_NDIM {
            return None;
        }
        let stride = values.get(step)?.wrapping_sub(first);
        let run = values
            .iter()
            .step_by(step)
            .zip(0u64..)
            .take_while(|&(&v, i)| v == first.wrapping_add(stride.wrapping_mul(i)))
            .count();
        wheels.push((run as u64, stride));
        step = step.checked_mul(run)?;
        // Irregular values are detected here: the fastest wheel repeats its first turn.
        let fastest = wheels.first().map(|&(_, stride)| stride);
        if let Some([begin, next]) = values.get(step..).and_then(|rest| rest.first_chunk())
            && Some(next.wrapping_sub(*begin)) != fastest
        {
            return None;
        }
    }
    wheels.reverse();
    Turning::new(first, &wheels).zip(values).all(|(a, &b)| a == b).then_some(wheels)
}

/// The values of an odometer, one after the other; the iteration does not end.
struct Turning {
    value: u64,
    /// (digit, count, stride), fastest first.
    wheels: Vec<(u64, u64, u64)>,
}

impl Turning {
    fn new(value: u64, wheels: &[(u64, u64)]) -> Self {
        Turning { value, wheels: wheels.iter().rev().map(|&(count, stride)| (0, count, stride)).collect() }
    }
}

impl Iterator for Turning {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let value = self.value;
        for (digit, count, stride) in &mut self.wheels {
            *digit += 1;
            self.value = self.value.wrapping_add(*stride);
            if digit < count {
                break;
            }
            self.value = self.value.wrapping_sub(stride.wrapping_mul(*count));
            *digit = 0;
        }
        Some(value)
    }
}

/// The first `n` values of an odometer, whole turns of its fastest wheel at a time.
fn turned(first: u64, wheels: &[(u64, u64)], n: usize) -> Vec<u64> {
    let mut values = Vec::with_capacity(n);
    let Some((&(count, stride), slower)) = wheels.split_last() else { return values };
    for begin in Turning::new(first, slower) {
        let many = count.min((n - values.len()) as u64);
        values.extend((0..many).map(|i| begin.wrapping_add(stride.wrapping_mul(i))));
        if values.len() >= n {
            break;
        }
    }
    values
}

/// Sets a field if the value fits.
pub(crate) fn set<T: TryFrom<u64>>(field: &mut T, value: u64) -> Option<()> {
    *field = T::try_from(value).ok()?;
    Some(())
}
