//! CRC-32C of payloads, one per unit, so that a part of a payload can be verified by itself.
//!
//! The caller chooses the unit (16 KiB for raw data) and records it with the checksums. The last unit may be shorter.
//! An empty payload has no units.

/// CRC-32C (Castagnoli) of one byte string, with the widest instructions that the processor has.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Appends one CRC-32C per `unit` bytes of `data` to `out`. `unit` must not be 0.
pub fn crc_units(data: &[u8], unit: usize, out: &mut Vec<u32>) {
    out.extend(data.chunks(unit).map(crc32c));
}

/// Checks `data` against the checksums that [`crc_units`] made. The error is the index of the first bad unit.
///
/// A missing or surplus checksum counts as a bad unit. With `unit` 0 the first unit is bad.
pub fn verify_units(data: &[u8], unit: usize, sums: &[u32]) -> Result<(), usize> {
    if unit == 0 {
        return if data.is_empty() && sums.is_empty() { Ok(()) } else { Err(0) };
    }
    for (i, chunk) in data.chunks(unit).enumerate() {
        if sums.get(i) != Some(&crc32c(chunk)) {
            return Err(i);
        }
    }
    let expected = data.len().div_ceil(unit);
    if sums.len() == expected { Ok(()) } else { Err(expected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_crc_32c() {
        let mut sums = Vec::new();
        crc_units(b"123456789", 9, &mut sums);
        assert_eq!(sums, [0xE306_9283]);
    }

    #[test]
    fn every_length_and_alignment_gives_what_another_implementation_gives() {
        let data: Vec<u8> = (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for from in [0, 1, 7, 8, 33] {
            let lengths = (0..1100).chain([4095, 4096, 4097, 16_383, 16_384, 39_000]);
            for len in lengths {
                let part = &data[from..from + len];
                assert_eq!(crc32c(part), ::crc32c::crc32c(part), "{len} bytes from {from}");
            }
        }
    }

    #[test]
    fn the_first_bad_unit_is_named() {
        let mut data: Vec<u8> = (0..1000u32).map(|i| (i * i) as u8).collect();
        let mut sums = Vec::new();
        crc_units(&data, 64, &mut sums);
        assert_eq!(sums.len(), 16);
        assert_eq!(verify_units(&data, 64, &sums), Ok(()));
        for at in [0, 63, 64, 999] {
            data[at] ^= 1;
            assert_eq!(verify_units(&data, 64, &sums), Err(at / 64));
            data[at] ^= 1;
        }
        assert_eq!(verify_units(&data, 64, &sums[..15]), Err(15));
        assert_eq!(verify_units(&data[..960], 64, &sums), Err(15));
        assert_eq!(verify_units(&[], 64, &[]), Ok(()));
        assert_eq!(verify_units(&data, 0, &sums), Err(0));
    }
}
