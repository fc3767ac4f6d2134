//! Integers in base -2, cut into bit planes.
//!
//! Base -2 needs no sign, and small numbers of either sign have leading zeros. So the first planes of a smooth field
//! are mostly zeros. Dropping the last k digits of a number changes it by less than 2^k.

const EVEN: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// The digits of a number in base -2, the least significant one in bit 0.
#[inline(always)]
pub(super) fn digits(number: i64) -> u64 {
    number.cast_unsigned().wrapping_add(EVEN) ^ EVEN
}

/// The number with these digits.
#[inline(always)]
pub(super) fn number(digits: u64) -> i64 {
    (digits ^ EVEN).wrapping_sub(EVEN).cast_signed()
}

/// Bytes of a plane of `count` bits.
pub(super) fn plane_len(count: usize) -> usize {
    count.div_ceil(8)
}

/// Appends one digit of every number, eight digits to a byte, the first in bit 0.
pub(super) fn cut(all: &[u64], digit: u32, out: &mut Vec<u8>) {
    out.extend(all.chunks(8).map(|eight| {
        eight.iter().enumerate().fold(0u8, |byte, (i, digits)| byte | ((digits >> digit & 1) as u8) << i)
    }));
}

/// Sets one digit of every number from its plane.
pub(super) fn join(plane: &[u8], digit: u32, all: &mut [u64]) {
    for (eight, byte) in all.chunks_mut(8).zip(plane) {
        for (i, digits) in eight.iter_mut().enumerate() {
            *digits |= u64::from(byte >> i & 1) << digit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_planes_too() {
        let all: Vec<u64> = [0, 1, -1, 2, -2, 77, -12345, 1 << 50, -(1 << 50)].map(digits).to_vec();
        assert_eq!(all[2], 0b11);
        assert!(
            all.iter().zip([0, 1, -1, 2, -2, 77, -12345, 1 << 50, -(1 << 50)]).all(|(d, n)| number(*d) == n)
        );
        let mut back = vec![0; all.len()];
        for digit in 0..64 {
            let mut plane = Vec::new();
            cut(&all, digit, &mut plane);
            assert_eq!(plane.len(), plane_len(all.len()));
            join(&plane, digit, &mut back);
        }
        assert_eq!(back, all);
    }

    #[test]
    fn the_last_digits_change_a_number_by_less_than_their_place() {
        for n in -3000i64..3000 {
            for k in 0..12 {
                let kept = number(digits(n) >> k << k);
                assert!((kept - n).abs() < 1 << k, "{n} {k}");
            }
        }
    }
}
