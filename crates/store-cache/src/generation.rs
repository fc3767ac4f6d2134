//! Names of the generations of an object that is replaced under its key, such as a published shard.
//!
//! A caller that knows which generation it wants reads the object under the name of that generation: the key, `--`, the
//! object's first bytes in hexadecimal digits, `-`, and its length. Units are stored under this name, so the bytes of
//! two generations are never mixed.

use std::fmt::Write as _;

/// The number of first bytes that distinguish generations.
pub const FIRST: usize = 40;

/// The name of the generation of an object that begins with these bytes and has this length.
pub fn generation(key: &str, first: &[u8; FIRST], length: u64) -> String {
    let mut name = String::with_capacity(key.len() + 2 * FIRST + 20);
    name.push_str(key);
    name.push_str("--");
    first.iter().for_each(|byte| _ = write!(name, "{byte:02x}"));
    _ = write!(name, "-{length:x}");
    name
}

/// The parsed name of a generation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generation<'n> {
    pub(crate) key: &'n str,
    pub(crate) first: Vec<u8>,
    pub(crate) length: u64,
}

/// Parses the name of a generation; `None` for other keys.
pub(crate) fn parse(name: &str) -> Option<Generation<'_>> {
    let (rest, length) = name.rsplit_once('-')?;
    let (key, first) = rest.rsplit_once("--").filter(|(_, first)| first.len() == 2 * FIRST)?;
    let last = key.rsplit('/').next().filter(|last| !last.is_empty())?;
    if !last.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = |at: usize| u8::from_str_radix(first.get(at..at + 2)?, 16).ok();
    let first = (0..FIRST).map(|n| digits(2 * n)).collect::<Option<Vec<u8>>>()?;
    Some(Generation { key, first, length: u64::from_str_radix(length, 16).ok()? })
}

/// The key of an object, given as its key or as the name of a generation.
pub(crate) fn plain(name: &str) -> &str {
    parse(name).map_or(name, |generation| generation.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_key_first_bytes_and_length() {
        let first = std::array::from_fn(|n| n as u8 * 5);
        let name = generation("zarr/a--b/c/0/12", &first, 77);
        assert!(drystone_store::validate_key(&name).is_ok());
        let found = parse(&name).expect("it is one");
        assert_eq!((found.key, found.first.as_slice(), found.length), ("zarr/a--b/c/0/12", &first[..], 77));
        for other in ["zarr/a--b/c/0/12", "log/0123456789abcdef-0000.seg", "a--b-1", "", "--", &name[1..9]] {
            assert_eq!((parse(other), plain(other)), (None, other));
        }
    }
}
