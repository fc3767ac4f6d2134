//! Bob Jenkins' lookup3 hash, the checksum of HDF5 metadata.

/// The hash of bytes, with the initial value zero.
pub(super) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let word = |part: &[u8], at: usize| {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(part.iter().skip(at)) {
            *to = *from;
        }
        u32::from_le_bytes(word)
    };
    let mut rest = bytes;
    while rest.len() > 12 {
        let (part, others) = rest.split_at(12);
        a = a.wrapping_add(word(part, 0));
        b = b.wrapping_add(word(part, 4));
        c = c.wrapping_add(word(part, 8));
        (a, b, c) = mix(a, b, c);
        rest = others;
    }
    if rest.is_empty() {
        return c;
    }
    a = a.wrapping_add(word(rest, 0));
    b = b.wrapping_add(word(rest, 4));
    c = c.wrapping_add(word(rest, 8));
    last(a, b, c)
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for (turn_a, turn_b, turn_c) in [(4, 6, 8), (16, 19, 4)] {
        a = a.wrapping_sub(c) ^ c.rotate_left(turn_a);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(turn_b);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(turn_c);
        b = b.wrapping_add(a);
    }
    (a, b, c)
}

fn last(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    #[test]
    fn a_superblock_of_the_hdf5_library_has_this_checksum() {
        let mut block = b"\x89HDF\r\n\x1a\n\x02\x08\x08\x00".to_vec();
        for address in [512u64, u64::MAX, 3515, 48] {
            block.extend_from_slice(&address.to_le_bytes());
        }
        assert_eq!(lookup3(&block).to_le_bytes(), [0x4b, 0x00, 0x7a, 0xec]);
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
