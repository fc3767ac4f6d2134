//! Lists of byte ranges that ascend and are not adjacent.

use std::ops::Range;

/// Adds a range that begins at or after the start of the last one. A range at most `gap` bytes behind the end of the
/// last one is joined to it, including the hole. An empty range adds nothing.
pub fn join(ranges: &mut Vec<Range<u64>>, range: Range<u64>, gap: u64) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_are_joined_and_separate_ones_are_not() {
        let joined = |gap: u64, of: &[Range<u64>]| {
            let mut ranges = Vec::new();
            of.iter().for_each(|range| join(&mut ranges, range.clone(), gap));
            ranges
        };
        assert_eq!(joined(0, &[0..4, 4..6, 5..5, 7..9]), [0..6, 7..9]);
        assert_eq!(joined(1, &[0..4, 2..3, 5..9]), [0..9; 1]);
        assert_eq!(joined(u64::MAX, &[3..3, 8..u64::MAX]), [8..u64::MAX; 1]);
    }
}
