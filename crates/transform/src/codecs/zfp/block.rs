//! Encodes and decodes one block of zfp: up to 4 x 4 x 4 numbers.
//!
//! The numbers of a block become integers of one scale. A transform along each axis decorrelates neighbours. The
//! coefficients, coarse ones first, are written as bit planes in base -2: the most significant plane first, each
//! truncated after its last one bit. Lindstrom, "Fixed-Rate Compressed Floating-Point Arrays", 2014; the reversible
//! variant and the exact bits are those of zfp 1.0, codec version 5.
//!
//! Invariants
//! - any bits decode to some block: arithmetic wraps, and loops are bounded by the block;
//! - integers are at most 64 bits wide; those of float32 use the lower 32.

use super::bits::{Reader, Writer};

/// Numbers in the largest block.
pub(super) const MOST: usize = 64;
/// Most bits of a block, if nothing else limits it.
const MAX_BITS: u32 = 16_658;
const NEGABINARY: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// The differences between float32 and float64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// Bytes of a number.
    pub(super) width: usize,
}

/// Which bits of a block are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// This many bits for each block.
    Rate(u32),
    /// This many planes.
    Precision(u32),
    /// Planes of 2^this and above, and those that rounding needs.
    Accuracy(i32),
    Reversible,
}

/// The numbers of a block by their bits; the first `4^axes` are used.
pub(super) type Block = [u64; MOST];

impl Format {
    fn bits(self) -> u32 {
        8 * self.width as u32
    }

    fn exponent_bits(self) -> u32 {
        if self.width == 4 { 8 } else { 11 }
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent_bits() - 1)) - 1
    }

    /// Number of bits that count the planes.
    fn plane_bits(self) -> u32 {
        if self.width == 4 { 5 } else { 6 }
    }

    pub(super) fn value(self, bits: u64) -> f64 {
        if self.width == 4 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits) }
    }

    /// The integer times 2^(exponent - bits + 2), as a float that is rounded once.
    fn number(self, integer: i64, exponent: i32) -> u64 {
        let scale = exponent - (self.bits() as i32 - 2);
        if self.width == 4 {
            u64::from((scaled(integer as f64, scale) as f32).to_bits())
        } else {
            scaled(integer as f64, scale).to_bits()
        }
    }

    /// The exponent of the largest magnitude, whose fraction is in 1/2 to 1; the least one if all are zero. Numbers
    /// that are not finite are ignored.
    fn exponent(self, block: &[u64]) -> i32 {
        let most =
            block.iter().map(|&bits| self.value(bits).abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        let exponent = (most.to_bits() >> 52) as i32 - 1022;
        if most == 0.0 { -self.bias() } else { exponent.max(1 - self.bias()) }
    }

    /// The error that a precision guarantees, as a part of the largest magnitude in a block.
    pub(super) fn promise(self, planes: u32, axes: usize) -> f64 {
        let digits = if self.width == 4 { 24 } else { 53 };
        scaled(1.0, (2 * axes as i32 + 3 - planes as i32).max(2 - digits))
    }

    /// Whether 2^-exponent times the range of the integers is a number of this format, as the reversible mode demands.
    fn scales(self, exponent: i32) -> bool {
        self.bits() as i32 - 2 - exponent <= self.bias()
    }

    fn integers(self, block: &[u64], exponent: i32) -> [i64; MOST] {
        let scale = self.bits() as i32 - 2 - exponent;
        let mut integers = [0; MOST];
        integers.iter_mut().zip(block).for_each(|(to, &bits)| *to = scaled(self.value(bits), scale) as i64);
        integers
    }

    /// Converts sign and magnitude to two's complement, and back: it is its own inverse.
    fn complemented(self, bits: u64) -> u64 {
        let sign = 1u64 << (self.bits() - 1);
        if bits & sign != 0 { bits ^ (sign - 1) } else { bits }
    }

    fn signed(self, bits: u64) -> i64 {
        if self.width == 4 { i64::from(bits as u32 as i32) } else { bits as i64 }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    fn negabinary(self, integer: i64) -> u64 {
        let mask = NEGABINARY & self.mask();
        ((integer as u64).wrapping_add(mask) ^ mask) & self.mask()
    }

    fn integer(self, digits: u64) -> i64 {
        let mask = NEGABINARY & self.mask();
        self.signed((digits ^ mask).wrapping_sub(mask) & self.mask())
    }
}

/// `x` times 2^`power`; exact unless the result cannot be.
fn scaled(x: f64, power: i32) -> f64 {
    let two_to = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
    let half = power / 2;
    x * two_to(half) * two_to(power - half)
}

/// Number of planes that a mode keeps in a block with this exponent.
fn planes(mode: Mode, exponent: i32, axes: usize) -> u32 {
    match mode {
        Mode::Rate(_) | Mode::Reversible => 64,
        Mode::Precision(planes) => planes,
        Mode::Accuracy(least) => (exponent - least + 2 * axes as i32 + 2).clamp(0, 64) as u32,
    }
}

/// Writes a block. Returns `false` if the error of some number would exceed `tolerance`, or the guarantee of a
/// precision.
pub(super) fn encode(
    format: Format,
    mode: Mode,
    axes: usize,
    block: &Block,
    tolerance: f64,
    out: &mut Writer<'_>,
) -> bool {
    let count = 1 << (2 * axes);
    let block = &block[..count];
    if mode == Mode::Reversible {
        encode_reversibly(format, axes, block, out);
        return true;
    }
    let (least, most) = if let Mode::Rate(bits) = mode { (bits, bits) } else { (1, MAX_BITS) };
    let exponent = format.exponent(block);
    let planes = planes(mode, exponent, axes);
    if planes == 0 || exponent == -format.bias() {
        out.put(0, 1);
        out.zeros(least - 1);
        return block.iter().all(|&bits| format.value(bits).abs() <= tolerance);
    }
    let head = 1 + format.exponent_bits();
    out.put(2 * (exponent + format.bias()) as u64 + 1, head);
    let mut integers = format.integers(block, exponent);
    transform(&mut integers, axes, lift);
    let mut digits = [0; MOST];
    digits
        .iter_mut()
        .zip(order(axes))
        .for_each(|(to, &from)| *to = format.negabinary(integers[usize::from(from)]));
    let used = head + put_planes(&digits[..count], format.bits(), planes, most - head, out);
    out.zeros(least.saturating_sub(used));
    let bound = match mode {
        Mode::Precision(planes) => format.promise(planes, axes) * scaled(0.5, exponent),
        _ => tolerance,
    };
    if bound.is_infinite() {
        return true;
    }
    // The coefficients that a reader will decode: lower planes are cut off.
    let cut = format.bits().saturating_sub(planes);
    let kept = if cut >= 64 { 0 } else { u64::MAX << cut };
    let mut seen = [0; MOST];
    unpack(format, axes, exponent, digits.map(|digits| digits & kept), &mut seen);
    block.iter().zip(&seen).all(|(&a, &b)| (format.value(a) - format.value(b)).abs() <= bound)
}

fn encode_reversibly(format: Format, axes: usize, block: &[u64], out: &mut Writer<'_>) {
    let exponent = format.exponent(block);
    let mut integers = [0; MOST];
    let exact = if exponent == -format.bias() {
        block.iter().all(|&bits| bits == 0)
    } else {
        integers = format.integers(block, exponent);
        // The integer of an infinity is clamped, and may be great enough to become infinite again.
        let same = |(&bits, &integer): (&u64, &i64)| {
            format.value(bits).is_finite() && format.number(integer, exponent) == bits
        };
        format.scales(exponent) && block.iter().zip(&integers).all(same)
    };
    if exact && exponent == -format.bias() {
        out.put(0, 1);
        return;
    }
    if exact {
        out.put(1, 2);
        out.put((exponent + format.bias()) as u64, format.exponent_bits());
    } else {
        out.put(3, 2);
        let signed = |(to, &bits): (&mut i64, &u64)| *to = format.signed(format.complemented(bits));
        integers.iter_mut().zip(block).for_each(signed);
    }
    transform(&mut integers, axes, difference);
    let mut digits = [0; MOST];
    let digits = &mut digits[..block.len()];
    digits
        .iter_mut()
        .zip(order(axes))
        .for_each(|(to, &from)| *to = format.negabinary(integers[usize::from(from)]));
    let all = digits.iter().fold(0, |all, digits| all | digits);
    let planes = if all == 0 { 1 } else { format.bits() - all.trailing_zeros() };
    out.put(u64::from(planes - 1), format.plane_bits());
    put_planes(digits, format.bits(), planes, MAX_BITS, out);
}

/// Reads a block.
pub(super) fn decode(format: Format, mode: Mode, axes: usize, input: &mut Reader<'_>, block: &mut Block) {
    if mode == Mode::Reversible {
        return decode_reversibly(format, axes, input, block);
    }
    let (least, most) = if let Mode::Rate(bits) = mode { (bits, bits) } else { (1, MAX_BITS) };
    if !input.bit() {
        block.fill(0);
        return input.skip(least - 1);
    }
    let head = 1 + format.exponent_bits();
    let exponent = input.take(format.exponent_bits()) as i32 - format.bias();
    let mut digits = [0; MOST];
    let planes = planes(mode, exponent, axes);
    let used = head
        + take_planes(
            &mut digits[..1 << (2 * axes)],
            format.bits(),
            planes,
            most.saturating_sub(head),
            input,
        );
    input.skip(least.saturating_sub(used));
    unpack(format, axes, exponent, digits, block);
}

/// Converts coefficients to numbers.
fn unpack(format: Format, axes: usize, exponent: i32, digits: [u64; MOST], block: &mut Block) {
    let mut integers = [0; MOST];
    for (&digits, &to) in digits.iter().zip(order(axes)) {
        integers[usize::from(to)] = format.integer(digits);
    }
    transform_back(&mut integers, axes, unlift);
    block.iter_mut().zip(integers).for_each(|(to, integer)| *to = format.number(integer, exponent));
}

fn decode_reversibly(format: Format, axes: usize, input: &mut Reader<'_>, block: &mut Block) {
    if !input.bit() {
        return block.fill(0);
    }
    let reinterpreted = input.bit();
    let exponent = if reinterpreted { 0 } else { input.take(format.exponent_bits()) as i32 - format.bias() };
    let planes = input.take(format.plane_bits()) as u32 + 1;
    let mut digits = [0; MOST];
    take_planes(&mut digits[..1 << (2 * axes)], format.bits(), planes, MAX_BITS, input);
    let mut integers = [0; MOST];
    for (&digits, &to) in digits.iter().zip(order(axes)) {
        integers[usize::from(to)] = format.integer(digits);
    }
    transform_back(&mut integers, axes, sum);
    for (to, integer) in block.iter_mut().zip(integers) {
        *to = if reinterpreted {
            format.complemented(integer as u64 & format.mask())
        } else {
            format.number(format.signed(integer as u64 & format.mask()), exponent)
        };
    }
}

/// Writes planes of digits, the most significant first, in at most `room` bits; returns the number of bits.
fn put_planes(digits: &[u64], width: u32, planes: u32, room: u32, out: &mut Writer<'_>) -> u32 {
    let (size, mut left, mut known) = (digits.len() as u32, room, 0);
    for plane in (width.saturating_sub(planes)..width).rev() {
        if left == 0 {
            break;
        }
        let mut ones = 0u64;
        for (i, digits) in digits.iter().enumerate() {
            ones |= (digits >> plane & 1) << i;
        }
        // Coefficients that had a one in an earlier plane take a bit each. For the others, each one follows, with the
        // zeros before it.
        let some = known.min(left);
        out.put(ones, some);
        left -= some;
        ones = ones.checked_shr(some).unwrap_or(0);
        while left > 0 && known < size {
            left -= 1;
            out.put(u64::from(ones != 0), 1);
            if ones == 0 {
                break;
            }
            // The last coefficient needs no bit, since it must be the one.
            while left > 0 && known < size - 1 {
                left -= 1;
                out.put(ones & 1, 1);
                if ones & 1 == 1 {
                    break;
                }
                ones >>= 1;
                known += 1;
            }
            ones >>= 1;
            known += 1;
        }
    }
    room - left
}

/// Reads what [`put_planes`] wrote.
fn take_planes(digits: &mut [u64], width: u32, planes: u32, room: u32, input: &mut Reader<'_>) -> u32 {
    let (size, mut left, mut known) = (digits.len() as u32, room, 0);
    for plane in (width.saturating_sub(planes)..width).rev() {
        if left == 0 {
            break;
        }
        let some = known.min(left);
        let mut ones = input.take(some);
        left -= some;
        while left > 0 && known < size {
            left -= 1;
            if !input.bit() {
                break;
            }
            // Zeros up to the next one; for the last coefficient the one is implied.
            let most = left.min(size - 1 - known).min(56);
            let run = input.peek().trailing_zeros();
            if run < most {
                input.skip(run + 1);
                left -= run + 1;
                known += run;
            } else {
                input.skip(most);
                left -= most;
                known += most;
                while left > 0 && known < size - 1 {
                    left -= 1;
                    if input.bit() {
                        break;
                    }
                    known += 1;
                }
            }
            ones |= 1 << known;
            known += 1;
        }
        while ones != 0 {
            let at = ones.trailing_zeros() as usize;
            if let Some(digits) = digits.get_mut(at) {
                *digits |= 1 << plane;
            }
            ones &= ones - 1;
        }
    }
    room - left
}

/// Applies `step` to every four integers along each axis, the fastest first.
fn transform(block: &mut [i64; MOST], axes: usize, step: fn([i64; 4]) -> [i64; 4]) {
    (0..axes).for_each(|axis| along(block, axes, axis, step));
}

fn transform_back(block: &mut [i64; MOST], axes: usize, step: fn([i64; 4]) -> [i64; 4]) {
    (0..axes).rev().for_each(|axis| along(block, axes, axis, step));
}

#[inline(always)]
fn along(block: &mut [i64; MOST], axes: usize, axis: usize, step: fn([i64; 4]) -> [i64; 4]) {
    let stride = 1 << (2 * axis);
    for slab in block[..1 << (2 * axes)].chunks_exact_mut(4 * stride) {
        for at in 0..stride {
            let four = step([slab[at], slab[at + stride], slab[at + 2 * stride], slab[at + 3 * stride]]);
            for (i, integer) in four.into_iter().enumerate() {
                slab[at + i * stride] = integer;
            }
        }
    }
}

/// The transform of four neighbours, in integers: mean, slope, curvature and remainder.
fn lift([x, y, z, w]: [i64; 4]) -> [i64; 4] {
    let add = i64::wrapping_add;
    let sub = i64::wrapping_sub;
    let x = add(x, w) >> 1;
    let w = sub(w, x);
    let z = add(z, y) >> 1;
    let y = sub(y, z);
    let x = add(x, z) >> 1;
    let z = sub(z, x);
    let w = add(w, y) >> 1;
    let y = sub(y, w);
    let w = add(w, y >> 1);
    let y = sub(y, w >> 1);
    [x, y, z, w]
}

fn unlift([x, y, z, w]: [i64; 4]) -> [i64; 4] {
    let add = i64::wrapping_add;
    let sub = i64::wrapping_sub;
    let y = add(y, w >> 1);
    let w = sub(w, y >> 1);
    let y = add(y, w);
    let w = sub(w << 1, y);
    let z = add(z, x);
    let x = sub(x << 1, z);
    let y = add(y, z);
    let z = sub(z << 1, y);
    let w = add(w, x);
    let x = sub(x << 1, w);
    [x, y, z, w]
}

/// Third differences, which the reversible mode uses instead.
fn difference([x, y, z, w]: [i64; 4]) -> [i64; 4] {
    let sub = i64::wrapping_sub;
    let (w, z, y) = (sub(w, z), sub(z, y), sub(y, x));
    let (w, z) = (sub(w, z), sub(z, y));
    [x, y, z, sub(w, z)]
}

fn sum([x, y, z, w]: [i64; 4]) -> [i64; 4] {
    let add = i64::wrapping_add;
    let w = add(w, z);
    let z = add(z, y);
    let w = add(w, z);
    let y = add(y, x);
    let z = add(z, y);
    [x, y, z, add(w, z)]
}

/// The order of the coefficients in a block, coarsest first: by the sum of their indices, then by the sum of squares.
fn order(axes: usize) -> &'static [u8] {
    match axes {
        1 => &[0, 1, 2, 3],
        2 => &[0, 1, 4, 5, 2, 8, 6, 9, 3, 12, 10, 7, 13, 11, 14, 15],
        _ => &[
            0, 1, 4, 16, 20, 17, 5, 2, 8, 32, 21, 6, 18, 24, 9, 33, 36, 3, 12, 48, 22, 25, 37, 40, 34, 10, 7,
            19, 28, 13, 49, 52, 41, 38, 26, 23, 29, 53, 11, 35, 44, 14, 50, 56, 42, 27, 39, 45, 30, 54, 57,
            60, 51, 15, 43, 46, 58, 61, 55, 31, 62, 59, 47, 63,
        ],
    }
}
