//! Boxes of cells in dense buffers: copying between them, and runs cut into pieces that lie in one row.

/// A dense buffer that holds a box: its first cell and its sizes.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Dense<'a> {
    pub first: &'a [u64],
    pub count: &'a [u64],
}

/// The intersection of two boxes: first cell and sizes.
pub fn meet(a: Dense<'_>, b: Dense<'_>) -> Option<(Vec<u64>, Vec<u64>)> {
    let mut first = Vec::with_capacity(a.first.len());
    let mut count = Vec::with_capacity(a.first.len());
    for d in 0..a.first.len() {
        let from = a.first[d].max(b.first[d]);
        let to = (a.first[d] + a.count[d]).min(b.first[d] + b.count[d]);
        if to <= from {
            return None;
        }
        first.push(from);
        count.push(to - from);
    }
    Some((first, count))
}

/// Number of the cell in the buffer.
fn index(buffer: Dense<'_>, cell: &[u64]) -> usize {
    let mut at = 0u64;
    for ((cell, first), count) in cell.iter().zip(buffer.first).zip(buffer.count) {
        at = at * count + (cell - first);
    }
    at as usize
}

/// Calls back with (first byte in one buffer, in the other, bytes) for each row of a box that lies in both.
fn each_row(
    a: Dense<'_>,
    b: Dense<'_>,
    first: &[u64],
    count: &[u64],
    item: usize,
    mut row: impl FnMut(usize, usize, usize),
) {
    let rank = first.len();
    if rank == 0 {
        return row(0, 0, item);
    }
    let mut cell = first.to_vec();
    let bytes = count[rank - 1] as usize * item;
    loop {
        row(index(a, &cell) * item, index(b, &cell) * item, bytes);
        let Some(d) = (0..rank - 1).rev().find(|&d| cell[d] + 1 < first[d] + count[d]) else { return };
        cell[d] += 1;
        cell[d + 1..rank].copy_from_slice(&first[d + 1..]);
    }
}

/// Copies the cells that two boxes have in common.
pub fn copy(from: Dense<'_>, source: &[u8], to: Dense<'_>, target: &mut [u8], item: usize) {
    if let Some((first, count)) = meet(from, to) {
        each_row(from, to, &first, &count, item, |a, b, n| {
            target[b..b + n].copy_from_slice(&source[a..a + n])
        });
    }
}

/// `n` elements with these bytes; zeros if none are given.
pub fn filled(n: usize, element: Option<&[u8]>) -> Vec<u8> {
    match element {
        Some(e) if e.iter().any(|b| *b != 0) => e.repeat(n),
        Some(e) => vec![0; n * e.len()],
        None => Vec::new(),
    }
}

/// A run of cells in one row of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RowSpan {
    pub first: Vec<u64>,
    pub count: u64,
    /// Number of its first element in the order of transfer.
    pub at: u64,
}

/// Pieces that are read or written together, and the box around them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Group {
    pub first: Vec<u64>,
    pub count: Vec<u64>,
    pub pieces: Vec<RowSpan>,
    pub elements: u64,
}

impl Group {
    /// Elements of the box.
    pub fn volume(&self) -> u64 {
        self.count.iter().fold(1, |a: u64, n| a.saturating_mul(*n))
    }
}

/// Cuts runs over an extent into groups whose boxes hold at most `most` elements, unless a single piece has
/// more.
pub fn groups(extent: &[u64], runs: &[(u64, u64)], most: u64) -> Vec<Group> {
    let rank = extent.len();
    let mut out: Vec<Group> = Vec::new();
    let mut at = 0;
    for &(start, many) in runs {
        let (mut start, mut left) = (start, many);
        while left > 0 {
            let mut first = vec![0; rank];
            let mut rest = start;
            for d in (0..rank).rev() {
                first[d] = rest % extent[d].max(1);
                rest /= extent[d].max(1);
            }
            let count = left.min(extent[rank - 1] - first[rank - 1]);
            join(&mut out, RowSpan { first, count, at }, most);
            at += count;
            start += count;
            left -= count;
        }
    }
    out
}

fn join(out: &mut Vec<Group>, piece: RowSpan, most: u64) {
    let rank = piece.first.len();
    if let Some(group) = out.last_mut() {
        let (mut first, mut count) = (group.first.clone(), group.count.clone());
        for d in 0..rank {
            let n = if d == rank - 1 { piece.count } else { 1 };
            let end = (first[d] + count[d]).max(piece.first[d] + n);
            first[d] = first[d].min(piece.first[d]);
            count[d] = end - first[d];
        }
        if count.iter().try_fold(1u64, |a, n| a.checked_mul(*n)).is_some_and(|v| v <= most) {
            (group.first, group.count) = (first, count);
            group.elements += piece.count;
            group.pieces.push(piece);
            return;
        }
    }
    let mut count = vec![1; rank];
    count[rank - 1] = piece.count;
    out.push(Group { first: piece.first.clone(), count, elements: piece.count, pieces: vec![piece] });
}

impl RowSpan {
    /// The range of its bytes in the order of transfer, and in a buffer that holds a box around it.
    pub fn bytes(&self, buffer: Dense<'_>, item: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let (there, here, n) =
            (self.at as usize * item, index(buffer, &self.first) * item, self.count as usize * item);
        (there..there + n, here..here + n)
    }
}

/// A box, and the pieces in it.
pub type Exact<'a> = (Vec<u64>, Vec<u64>, Vec<&'a RowSpan>);

/// Boxes that together are exactly these pieces, each with the pieces in it. Pieces that overlap stay apart,
/// in the order of transfer.
pub fn exact(pieces: &[RowSpan]) -> Vec<Exact<'_>> {
    let mut sorted: Vec<&RowSpan> = pieces.iter().collect();
    sorted.sort_by(|a, b| a.first.cmp(&b.first));
    let last = |piece: &RowSpan| piece.first.last().map_or(0, |n| n + piece.count);
    let row = |piece: &RowSpan| piece.first.len().saturating_sub(1);
    let apart = sorted.windows(2).all(|w| {
        w[0].first[..row(w[0])] != w[1].first[..row(w[1])]
            || last(w[0]) <= w[1].first.last().copied().unwrap_or(0)
    });
    let alone = |piece: &&RowSpan| {
        let mut count = vec![1; piece.first.len()];
        if let Some(n) = count.last_mut() {
            *n = piece.count;
        }
        (piece.first.clone(), count)
    };
    if !apart {
        return pieces.iter().map(|piece| (alone(&piece).0, alone(&piece).1, vec![piece])).collect();
    }
    let mut out: Vec<_> = sorted.iter().map(|piece| (alone(piece).0, alone(piece).1, vec![*piece])).collect();
    let rank = pieces.first().map_or(0, |piece| piece.first.len());
    for axis in (0..rank.saturating_sub(1)).rev() {
        // Boxes that differ only along this axis share a face.
        let but = |cell: &[u64]| [&cell[..axis], &cell[axis + 1..]].concat();
        out.sort_by_cached_key(|(first, count, _)| (but(first), but(count), first[axis]));
        let mut joined: Vec<Exact<'_>> = Vec::with_capacity(out.len());
        for (first, count, pieces) in out {
            match joined.last_mut() {
                Some((f, c, p))
                    if f[axis] + c[axis] == first[axis] && but(f) == but(&first) && but(c) == but(&count) =>
                {
                    c[axis] += count[axis];
                    p.extend(pieces);
                }
                _ => joined.push((first, count, pieces)),
            }
        }
        out = joined;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_what_two_boxes_share() {
        let a: Vec<u8> = (0..12).collect(); // 3 x 4 at (0, 0)
        let mut b = vec![99; 4]; // 2 x 2 at (1, 3)
        copy(
            Dense { first: &[0, 0], count: &[3, 4] },
            &a,
            Dense { first: &[1, 3], count: &[2, 2] },
            &mut b,
            1,
        );
        assert_eq!(b, [7, 99, 11, 99]);
    }

    #[test]
    fn groups_keep_the_order_of_transfer_and_the_limit() {
        let found = groups(&[4, 5], &[(3, 4), (16, 1)], 10);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].pieces[0], RowSpan { first: vec![0, 3], count: 2, at: 0 });
        assert_eq!(found[0].pieces[1], RowSpan { first: vec![1, 0], count: 2, at: 2 });
        assert_eq!(found[1].pieces[0].at, 4);
    }

    #[test]
    fn exact_boxes_hold_the_cells_of_the_pieces_and_no_others() {
        // Columns 1 and 2, and 5, of rows 0 to 3 of 4 x 8; then a selection that takes a cell twice.
        let runs: Vec<(u64, u64)> = (0..4).flat_map(|row| [(row * 8 + 1, 2), (row * 8 + 5, 1)]).collect();
        let group = groups(&[4, 8], &runs, 1000).remove(0);
        let found = exact(&group.pieces);
        let boxes: Vec<_> = found.iter().map(|(f, c, p)| (f.clone(), c.clone(), p.len())).collect();
        assert_eq!(boxes, [(vec![0, 1], vec![4, 2], 4), (vec![0, 5], vec![4, 1], 4)]);
        let twice = groups(&[8], &[(6, 1), (2, 3), (3, 1)], 1000).remove(0);
        let order: Vec<u64> = exact(&twice.pieces).iter().map(|(f, ..)| f[0]).collect();
        assert_eq!(order, [6, 2, 3]);
    }
}
