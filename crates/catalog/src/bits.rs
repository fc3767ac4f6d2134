//! Sets of containers of a page, one bit for each.

/// A set of numbers below a length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// The empty set of numbers below `len`.
    pub(crate) fn none(len: usize) -> Self {
        Bits { words: vec![0; len.div_ceil(64)], len }
    }

    /// The set of all numbers below `len`.
    pub(crate) fn all(len: usize) -> Self {
        Bits::none(len).complement()
    }

    /// Adds a number; one beyond the length is ignored.
    pub(crate) fn insert(&mut self, n: u32) {
        if (n as usize) < self.len
            && let Some(word) = self.words.get_mut(n as usize / 64)
        {
            *word |= 1 << (n % 64);
        }
    }

    pub(crate) fn complement(mut self) -> Self {
        self.words.iter_mut().for_each(|word| *word = !*word);
        let spare = self.words.len() * 64 - self.len;
        if let (Some(last), true) = (self.words.last_mut(), spare > 0) {
            *last &= u64::MAX >> spare;
        }
        self
    }

    fn with(mut self, other: &Bits, both: impl Fn(u64, u64) -> u64) -> Self {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a = both(*a, *b));
        self
    }

    pub(crate) fn and(self, other: &Bits) -> Self {
        self.with(other, |a, b| a & b)
    }

    pub(crate) fn or(self, other: &Bits) -> Self {
        self.with(other, |a, b| a | b)
    }

    pub(crate) fn without(self, other: &Bits) -> Self {
        self.with(other, |a, b| a & !b)
    }

    /// The numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(n, &word)| {
            (0..64u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| n as u32 * 64 + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn a_complement_ends_where_the_set_ends() {
        let mut some = Bits::none(70);
        some.insert(3);
        some.insert(70);
        assert_eq!(some.iter().collect::<Vec<_>>(), [3]);
        assert_eq!(some.complement().iter().count(), 69);
    }
}
