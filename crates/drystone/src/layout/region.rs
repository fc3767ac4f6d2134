//! Boxes of cells, and their differences.

/// Positions along each axis, as half-open ranges.
pub(crate) type Region = Vec<(u64, u64)>;

/// Subtracts `taken`, which is not empty in any dimension, from the boxes.
pub(crate) fn subtract(boxes: Vec<Region>, taken: &Region) -> Vec<Region> {
    let mut out = Vec::with_capacity(boxes.len());
    for mut rest in boxes {
        if rest.iter().zip(taken).any(|(r, t)| r.1 <= t.0 || t.1 <= r.0) {
            out.push(rest);
            continue;
        }
        for d in 0..rest.len() {
            let ((low, high), Some(&(from, to))) = (rest[d], taken.get(d)) else { continue };
            if low < from {
                let mut side = rest.clone();
                side[d] = (low, from);
                out.push(side);
            }
            if to < high {
                let mut side = rest.clone();
                side[d] = (to, high);
                out.push(side);
            }
            rest[d] = (low.max(from), high.min(to));
        }
    }
    out
}
