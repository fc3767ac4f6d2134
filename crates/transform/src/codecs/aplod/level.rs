//! The value and the error of a number of which only the leading bytes are known.
//!
//! Unknown bits are read as the middle of their range, which halves the error of reading them as zeros. Floats whose
//! kept bits are all 0 are read as a zero of their sign. For infinities and NaN, unknown bits are read as zeros. Errors
//! are measured on the data at every level. A level at which a finite number would become infinite or NaN, or the
//! reverse, is marked by an infinite error and never used.

use crate::head::Head;
use crate::stats::class::Class;
use crate::stats::{Bf16, F16};
use crate::{Bound, Precision, TransformError};
use drystone_vectorised::vectorised;

/// A level before the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// Whether unknown bits are read as the middle of their range; else they are read as zeros.
    pub(crate) middle: bool,
    /// Largest error; infinite if the level must not be used.
    pub(crate) absolute: f64,
    pub(crate) relative: f64,
}

impl Level {
    /// Decodes a level as [`Level::write`] encodes it.
    pub(crate) fn read(head: &mut Head<'_>) -> Result<Level, TransformError> {
        let middle = head.u8()?;
        if middle > 1 {
            return Err(head.corrupt("an unknown way to fill"));
        }
        Ok(Level { middle: middle == 1, absolute: head.bound()?, relative: head.bound()? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.middle));
        out.extend(self.absolute.to_le_bytes());
        out.extend(self.relative.to_le_bytes());
    }
}

/// The fewest of `components` that are exact enough, and their error. `levels` has one entry for each component but the
/// last.
pub(crate) fn choose(levels: &[Level], components: usize, precision: Precision) -> (usize, Bound) {
    for (i, level) in levels.iter().enumerate() {
        let bound = Bound { absolute: level.absolute, relative: level.relative };
        let enough = match precision {
            Precision::Exact => false,
            Precision::Level(least) => i + 1 >= least as usize,
            precision => precision.allows(&bound),
        };
        if enough && level.absolute.is_finite() {
            return (i + 1, bound);
        }
    }
    (components, Bound::EXACT)
}

impl Class {
    /// Measures the error of a level at which `kept` leading bytes are known.
    pub(crate) fn measure(self, data: &[u8], width: usize, kept: usize) -> Level {
        let cut = Cut::new(width, kept, true);
        match (self, width) {
            (Class::Opaque, _) => Level { middle: false, absolute: f64::INFINITY, relative: f64::INFINITY },
            (Class::Half, _) => floats::<HalfBits>(data, cut),
            (Class::BFloat, _) => floats::<BFloatBits>(data, cut),
            (Class::Single, _) => floats::<SingleBits>(data, cut),
            (Class::Double, _) => floats::<DoubleBits>(data, cut),
            (Class::Signed, _) => integers(data, width, kept, true),
            (Class::Unsigned, _) => integers(data, width, kept, false),
        }
    }

    /// Corrects elements for which the middle is the wrong value; their unknown bytes hold the middle.
    pub(crate) fn mend(self, elements: &mut [u8], width: usize, kept: usize, middle: bool) {
        let cut = Cut::new(width, kept, middle);
        match self {
            Class::Half if middle => mend::<HalfBits>(elements, cut),
            Class::BFloat if middle => mend::<BFloatBits>(elements, cut),
            Class::Single if middle => mend::<SingleBits>(elements, cut),
            Class::Double if middle => mend::<DoubleBits>(elements, cut),
            _ => {}
        }
    }
}

/// Which bits are known, and the value of the others.
#[derive(Clone, Copy)]
struct Cut {
    keep: u64,
    fill: u64,
}

impl Cut {
    fn new(width: usize, kept: usize, middle: bool) -> Cut {
        let unknown = 8 * (width.saturating_sub(kept)).min(7) as u32;
        let low = (1u64 << unknown) - 1;
        Cut { keep: !low, fill: if middle { (low >> 1) + u64::from(unknown > 0) } else { 0 } }
    }
}

/// A float format, in terms of its bits.
trait Bits {
    const WIDTH: usize;
    const SIGN: u64;
    const EXPONENT: u64;
    fn value(bits: u64) -> f64;
}

macro_rules! formats {
    ($($name:ident, $width:literal, $exponent:literal, |$bits:ident| $value:expr;)*) => {$(
        struct $name;

        impl Bits for $name {
            const WIDTH: usize = $width;
            const SIGN: u64 = 1 << (8 * $width - 1);
            const EXPONENT: u64 = $exponent;
            #[inline(always)]
            fn value($bits: u64) -> f64 {
                $value
            }
        }
    )*};
}
formats! {
    HalfBits, 2, 0x7C00, |bits| f64::from(F16::widen(bits as u16));
    BFloatBits, 2, 0x7F80, |bits| f64::from(Bf16::widen(bits as u16));
    SingleBits, 4, 0x7F80_0000, |bits| f64::from(f32::from_bits(bits as u32));
    DoubleBits, 8, 0x7FF0_0000_0000_0000, |bits| f64::from_bits(bits);
}

#[inline(always)]
fn load(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)),
    }
}

/// The value as which the kept bits are read.
#[inline(always)]
fn read_as<B: Bits>(bits: u64, cut: Cut) -> u64 {
    let kept = bits & cut.keep;
    let special = kept & B::EXPONENT == B::EXPONENT;
    let zero = kept & !B::SIGN == 0;
    if special | zero { kept } else { kept | cut.fill }
}

vectorised! {
    fn mend<B: Bits>(elements: &mut [u8], cut: Cut) {
        for element in elements.chunks_exact_mut(B::WIDTH) {
            let bits = read_as::<B>(load(element), cut);
            element.copy_from_slice(&bits.to_le_bytes()[..B::WIDTH]);
        }
    }
}

vectorised! {
    /// The largest absolute and relative error, and whether a finite number became infinite or NaN, or the reverse. If
    /// all numbers are right but some bits are not, for instance of NaNs, the error is the least positive number
    /// instead of 0.
    fn errors<B: Bits>(data: &[u8], cut: Cut) -> (f64, f64, bool) {
        let (mut absolute, mut relative, mut lost) = (0f64, 0f64, false);
        let mut differ = 0;
        for element in data.chunks_exact(B::WIDTH) {
            let bits = load(element);
            let made = read_as::<B>(bits, cut);
            differ |= bits ^ made;
            let special = bits & B::EXPONENT == B::EXPONENT;
            let made_special = made & B::EXPONENT == B::EXPONENT;
            let mantissa = !B::SIGN & !B::EXPONENT & (u64::MAX >> (64 - 8 * B::WIDTH));
            let turned = special & ((bits & mantissa == 0) != (made & mantissa == 0));
            lost |= (special != made_special) | turned;
            let value = B::value(bits);
            let error = (value - B::value(made)).abs();
            let part = error / value.abs();
            // Comparisons with NaN, which special values and 0 / 0 give, are false.
            absolute = if error > absolute { error } else { absolute };
            relative = if part > relative { part } else { relative };
        }
        let least = if differ == 0 { 0.0 } else { f64::from_bits(1) };
        (absolute.max(least), relative.max(least), lost)
    }
}

fn floats<B: Bits>(data: &[u8], cut: Cut) -> Level {
    let (absolute, relative, lost) = errors::<B>(data, cut);
    let unusable = lost || !absolute.is_finite();
    let up = |error: f64| match error {
        _ if unusable => f64::INFINITY,
        0.0 => 0.0,
        error => error.next_up(),
    };
    Level { middle: true, absolute: up(absolute), relative: up(relative) }
}

/// The level of integers: unknown bits are zeros or the middle, whichever is closer for this data.
fn integers(data: &[u8], width: usize, kept: usize, signed: bool) -> Level {
    let measured = |middle: bool| {
        let cut = Cut::new(width, kept, middle);
        let (mut absolute, mut relative) = (0u64, 0f64);
        for element in data.chunks_exact(width) {
            let bits = load(element);
            let error = (bits & !cut.keep).abs_diff(cut.fill);
            let shift = 64 - 8 * width as u32;
            let magnitude =
                if signed { ((bits << shift) as i64 >> shift).unsigned_abs() } else { bits } as f64;
            let part = error as f64 / magnitude;
            absolute = absolute.max(error);
            relative = if part > relative { part } else { relative };
        }
        // Accounts for the rounding of the quotient and its operands.
        let up = |error: f64| if error > 0.0 { (error * (1.0 + 1e-15)).next_up() } else { 0.0 };
        let whole = absolute as f64;
        let absolute = if absolute < 1 << 53 { whole } else { whole.next_up() };
        Level { middle, absolute, relative: up(relative) }
    };
    let (zeros, middle) = (measured(false), measured(true));
    if zeros.absolute <= middle.absolute { zeros } else { middle }
}
