//! One pass over the values of a box by all operations on it, on several threads, in pieces that fit in their caches.
//!
//! Invariants
//! - each byte of shared memory is read once, by a copy; operations see the copy, while it is in the cache;
//! - results have the same bits for any cut of a box into slabs, threads and pieces: extremes, counts and exact sums do
//!   not depend on order, and the cells of a coarse cell are added in the order of the box, by one thread at a time.

use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

use drystone::Result;
use drystone::format::dtype::{DType, Scalar};

use super::boxes::Bounds;
use super::error::invalid;
use super::exact_sum::ExactSum;
use super::kernel::{self, Counting};
use super::lease::Cells;
use super::operation::{Computed, Operation, decode, encode, encoded};
use super::slab::{Lent, Slab, slabs};

/// Bytes of a piece: its values as 64-bit floats fit in the second-level cache beside other things.
const PIECE: usize = 64 << 10;
/// A thread is used for at least this many bytes.
const SHARE: usize = 1 << 20;
/// Most threads of one pass.
const THREADS: usize = 16;

/// The part of a reduction for one box.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Partial {
    /// The least value.
    Least(f64),
    /// The greatest value.
    Greatest(f64),
    /// The sum, and the number of values.
    Sum(Box<ExactSum>, u64),
    /// Counts.
    Counts(Vec<u64>),
}

impl Partial {
    /// The part for the cells of both.
    pub(super) fn merge(&mut self, other: &Partial) {
        match (self, other) {
            (Partial::Least(kept), Partial::Least(x)) => *kept = kernel::min(&[*kept, *x]),
            (Partial::Greatest(kept), Partial::Greatest(x)) => *kept = kernel::max(&[*kept, *x]),
            (Partial::Sum(kept, n), Partial::Sum(sum, m)) => {
                kept.merge(sum);
                *n += m;
            }
            (Partial::Counts(kept), Partial::Counts(counts)) => {
                kept.iter_mut().zip(counts).for_each(|(all, n)| *all += n);
            }
            _ => {}
        }
    }
}

/// The result of a reduction, from the parts of disjoint boxes.
pub(super) fn merged<'a>(
    operation: &Operation,
    parts: impl IntoIterator<Item = &'a Partial>,
    of: &DType,
) -> Vec<u8> {
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next().cloned() else { return Vec::new() };
    parts.for_each(|part| all.merge(part));
    let number = match &all {
        Partial::Counts(counts) => return counts.iter().flat_map(|n| n.to_le_bytes()).collect(),
        Partial::Least(x) | Partial::Greatest(x) => *x,
        Partial::Sum(sum, n) if *operation == Operation::Mean => sum.rounded() / *n as f64,
        Partial::Sum(sum, _) => sum.rounded(),
    };
    let scalar = match (operation, of) {
        (Operation::Min | Operation::Max, DType::Scalar(scalar)) => *scalar,
        _ => Scalar::F64,
    };
    encoded(&[number], scalar)
}

/// A reduction while it passes over values.
enum Reducing {
    Ready(Partial),
    Counting(Counting),
}

impl Reducing {
    fn new(operation: &Operation) -> Self {
        Reducing::Ready(match operation {
            Operation::Histogram { bins, low, high } => {
                return Reducing::Counting(Counting::new(*bins, *low, *high));
            }
            Operation::Min => Partial::Least(f64::INFINITY),
            Operation::Max => Partial::Greatest(f64::NEG_INFINITY),
            _ => Partial::Sum(Box::default(), 0),
        })
    }

    fn add(&mut self, values: &[f64]) {
        match self {
            Reducing::Counting(counting) => counting.add(values),
            Reducing::Ready(Partial::Least(kept)) => *kept = kernel::min(&[*kept, kernel::min(values)]),
            Reducing::Ready(Partial::Greatest(kept)) => *kept = kernel::max(&[*kept, kernel::max(values)]),
            Reducing::Ready(Partial::Sum(sum, n)) => {
                sum.add(values);
                *n += values.len() as u64;
            }
            Reducing::Ready(Partial::Counts(_)) => {}
        }
    }

    fn part(self) -> Partial {
        match self {
            Reducing::Ready(Partial::Sum(mut sum, n)) => {
                sum.carry();
                Partial::Sum(sum, n)
            }
            Reducing::Ready(partial) => partial,
            Reducing::Counting(counting) => Partial::Counts(counting.counts()),
        }
    }
}

/// The cells of a result of which each is computed from a block of cells of the source, or is one of them.
struct Coarse {
    by: u64,
    is_mean: bool,
    /// The box of the source.
    source: Bounds,
    /// The first cell of the result, and extents.
    first: Vec<u64>,
    count: Vec<u64>,
    /// Sums of blocks, or cells.
    cells: Vec<f64>,
}

/// An operation, and what it has made so far.
enum Running<'a> {
    Reduction(&'a Operation, Option<Partial>),
    Coarse(Coarse, Scalar),
    /// Each cell of the source has a cell of the result.
    Cells(&'a Operation, Scalar),
}

impl Running<'_> {
    fn take_cells(&mut self) -> Vec<f64> {
        match self {
            Running::Coarse(coarse, _) => std::mem::take(&mut coarse.cells),
            _ => Vec::new(),
        }
    }
}

/// What an operation has made of a box.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The part of a reduction.
    Part(Partial),
    /// Cells of the result; `None`: the box contributes none, or they were returned with their slabs.
    Cells(Option<Computed>),
}

/// Where the values of a slab are.
pub(super) enum From<'a> {
    /// In memory of this process.
    Here(&'a [u8]),
    /// In shared memory; they are copied to the buffer, which has their length.
    Lent(&'a dyn Lent, &'a mut [u8]),
}

/// Operations on a box; none by default.
#[derive(Default)]
pub(super) struct Pass<'a> {
    scalar: Option<Scalar>,
    offset: Vec<u64>,
    running: Vec<Running<'a>>,
    /// Threads share a slab at multiples of this; 0: anywhere.
    unit: u64,
    /// The bits of a finite value that a cast would make infinite; 0: there was none.
    beyond: AtomicU64,
}

/// What an operation writes to while one thread passes over a part of a slab.
enum Writing<'a> {
    Reduction(Reducing),
    /// Cells of the result from the one with this index on.
    Coarse(&'a mut [f64], usize),
    Cells(&'a mut [u8]),
}

/// One thread's part of a slab: rows of the axis that is shared, and where their values are.
struct Share<'a> {
    slab: Slab,
    from: From<'a>,
    writing: Vec<Writing<'a>>,
}

impl<'a> Pass<'a> {
    /// For a box of a variable of this shape and type. Fails if an operation cannot be applied to the box.
    pub(super) fn new(
        operations: impl IntoIterator<Item = &'a Operation>,
        cells: &Cells,
        shape: &[u64],
        dtype: &DType,
    ) -> Result<Self> {
        let (mut running, mut unit) = (Vec::new(), 1_u64);
        for operation in operations {
            let (to, _) = operation.result(dtype, shape)?;
            let DType::Scalar(to) = to else { continue };
            running.push(match operation {
                Operation::Downsample { factor } => {
                    unit = multiple(unit, *factor);
                    Running::Coarse(Coarse::new(cells, shape, *factor, true)?, to)
                }
                Operation::Stride { by } => Running::Coarse(Coarse::new(cells, shape, *by, false)?, to),
                Operation::Above { .. } | Operation::Cast { .. } => Running::Cells(operation, to),
                _ => Running::Reduction(operation, None),
            });
        }
        let scalar = match dtype {
            DType::Scalar(scalar) => Some(*scalar),
            _ => None,
        };
        Ok(Pass { scalar, offset: cells.offset.clone(), running, unit, beyond: AtomicU64::new(0) })
    }

    /// Whether there is nothing to compute.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Passes over a slab of the box; slabs come in their order. Returns the results that have a cell for each of the
    /// slab, by number of the operation.
    pub(super) fn take(&mut self, slab: &Slab, from: From<'_>) -> Vec<(usize, Vec<u8>)> {
        let cells = usize::try_from(slab.count.iter().product::<u64>()).unwrap_or(0);
        let item = slab.len.checked_div(cells).unwrap_or(0);
        let Some(cuts) = cuts(slab, &self.offset, item, self.unit) else { return Vec::new() };
        let mut outs: Vec<(usize, Vec<u8>)> = Vec::new();
        for (n, running) in self.running.iter().enumerate() {
            if let Running::Cells(_, to) = running {
                outs.push((n, vec![0; cells * to.size() as usize]));
            }
        }
        // The threads see the operations, and write to the cells beside them.
        let mut coarse: Vec<Vec<f64>> = self.running.iter_mut().map(Running::take_cells).collect();
        let mut shares = share(slab, &cuts, from);
        let mut writable = outs.iter_mut();
        for (running, cells) in self.running.iter().zip(&mut coarse) {
            match running {
                Running::Reduction(operation, _) => {
                    for share in &mut shares {
                        share.writing.push(Writing::Reduction(Reducing::new(operation)));
                    }
                }
                Running::Coarse(coarse, _) => {
                    let (mut rest, mut at) = (cells.as_mut_slice(), 0);
                    for share in &mut shares {
                        let region = coarse.region(&share.slab, &self.offset);
                        // A region that contributes nothing is empty and may lie anywhere.
                        let start = if region.is_empty() { at } else { region.start.max(at) };
                        let _ = rest.split_off_mut(..(start - at).min(rest.len()));
                        let len = region.len().min(rest.len());
                        let here = rest.split_off_mut(..len).unwrap_or_default();
                        at = start + len;
                        share.writing.push(Writing::Coarse(here, start));
                    }
                }
                Running::Cells(_, to) => {
                    let mut rest = writable.next().map(|(_, out)| out.as_mut_slice()).unwrap_or_default();
                    for share in &mut shares {
                        let len = share.slab.len.checked_div(item).unwrap_or(0) * to.size() as usize;
                        let here = rest.split_off_mut(..len.min(rest.len())).unwrap_or_default();
                        share.writing.push(Writing::Cells(here));
                    }
                }
            }
        }
        let (scalar, offset, running, beyond) = (self.scalar, &self.offset, &self.running, &self.beyond);
        let done = std::thread::scope(|scope| {
            let mut shares = shares.into_iter();
            let mine = shares.next();
            let others: Vec<_> = shares
                .map(|share| scope.spawn(move || share.run(item, (scalar, offset), running, beyond)))
                .collect();
            let mut done: Vec<Vec<Option<Partial>>> =
                mine.map(|share| share.run(item, (scalar, offset), running, beyond)).into_iter().collect();
            for other in others {
                match other.join() {
                    Ok(parts) => done.push(parts),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        for (running, cells) in self.running.iter_mut().zip(coarse) {
            if let Running::Coarse(coarse, _) = running {
                coarse.cells = cells;
            }
        }
        for parts in done {
            for (running, part) in self.running.iter_mut().zip(parts) {
                let (Running::Reduction(_, kept), Some(part)) = (running, part) else { continue };
                match kept {
                    Some(kept) => kept.merge(&part),
                    None => *kept = Some(part),
                }
            }
        }
        outs
    }

    /// Fails if a cast has made a finite value infinite.
    pub(super) fn check(&self, variable: &str) -> Result<()> {
        match self.beyond.load(Ordering::Relaxed) {
            0 => Ok(()),
            bits => Err(invalid(format!(
                "\"{variable}\" holds {:e}, which is beyond float32: keep the values as float64",
                f64::from_bits(bits)
            ))),
        }
    }

    /// What the operations have made of the box, in their order.
    pub(super) fn finish(self) -> Vec<Outcome> {
        self.running
            .into_iter()
            .map(|running| match running {
                Running::Reduction(operation, part) => {
                    Outcome::Part(part.unwrap_or_else(|| Reducing::new(operation).part()))
                }
                Running::Coarse(coarse, to) => Outcome::Cells(coarse.finish(to)),
                Running::Cells(..) => Outcome::Cells(None),
            })
            .collect()
    }
}

impl Coarse {
    fn new(cells: &Cells, shape: &[u64], by: u64, is_mean: bool) -> Result<Self> {
        let (offset, count) = (&cells.offset, &cells.count);
        let cuts = |((at, n), all): ((&u64, &u64), &u64)| {
            !at.is_multiple_of(by) || (!n.is_multiple_of(by) && at + n < *all)
        };
        if is_mean && offset.iter().zip(count).zip(shape).any(cuts) {
            return Err(invalid(format!(
                "the box at {offset:?} of {count:?} cells cuts blocks of downsample:factor={by}: release boxes that \
                 begin and end at multiples of {by}, or at the end of \"{}\"",
                cells.variable
            )));
        }
        let first: Vec<u64> = offset.iter().map(|at| at.div_ceil(by)).collect();
        let end = offset.iter().zip(count).map(|(at, n)| (at + n).div_ceil(by));
        let coarse: Vec<u64> = first.iter().zip(end).map(|(a, b)| b.saturating_sub(*a)).collect();
        let many = usize::try_from(coarse.iter().product::<u64>()).unwrap_or(0);
        let source = (offset.clone(), count.clone());
        Ok(Coarse { by, is_mean, source, first, count: coarse, cells: vec![0.0; many] })
    }

    /// The cells of the result that a part of the box contributes to, as one range. The part has one cell along each
    /// axis in front of the one that is cut, and all cells behind it.
    fn region(&self, part: &Slab, offset: &[u64]) -> Range<usize> {
        let mut range = 0..1;
        for axis in 0..self.count.len() {
            let of = |all: &[u64]| all.get(axis).copied().unwrap_or(0);
            let from = of(offset) + of(&part.offset);
            let (first, n, to) = (of(&self.first), of(&self.count), from + of(&part.count));
            let from = if self.is_mean { from / self.by } else { from.div_ceil(self.by) };
            let (from, to) = (from.saturating_sub(first), to.div_ceil(self.by).saturating_sub(first));
            if from >= to {
                return 0..0;
            }
            range = range.start * n + from..(range.end - 1) * n + to;
        }
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        index(range.start)..index(range.end)
    }

    /// Adds the values of a box at `at`, or takes some of them. `cells` begins at cell `start` of the result.
    fn add(&self, cells: &mut [f64], start: usize, (at, count): (&[u64], &[u64]), values: &[f64]) {
        let outer = count.len().saturating_sub(1);
        let (x, n) = (at.last().copied().unwrap_or(0), count.last().copied().unwrap_or(1));
        let (Ok(n), Ok(by)) = (usize::try_from(n), usize::try_from(self.by)) else { return };
        let column = |x: u64| x.saturating_sub(self.first.last().copied().unwrap_or(0));
        let (first, picked) = (x / self.by, x.div_ceil(self.by));
        let mut place: Vec<u64> = at.iter().take(outer).copied().collect();
        for row in values.chunks(n.max(1)) {
            if self.is_mean || place.iter().all(|x| x.is_multiple_of(self.by)) {
                let mut index = 0;
                for ((x, from), n) in place.iter().zip(&self.first).zip(&self.count) {
                    index = index * n + (x / self.by).saturating_sub(*from);
                }
                index *= self.count.last().copied().unwrap_or(1);
                index += column(if self.is_mean { first } else { picked });
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                let to =
                    index.checked_sub(start).and_then(|index| cells.get_mut(index..)).unwrap_or_default();
                if self.is_mean {
                    kernel::add_row(to, row, (x % self.by) as usize, by);
                } else {
                    let skipped = (picked * self.by - x) as usize;
                    let row = row.iter().skip(skipped).step_by(by);
                    to.iter_mut().zip(row).for_each(|(cell, x)| *cell = *x);
                }
            }
            for ((place, from), n) in place.iter_mut().zip(at).zip(count).rev() {
                *place += 1;
                if *place < from + n {
                    break;
                }
                *place = *from;
            }
        }
    }

    fn finish(mut self, to: Scalar) -> Option<Computed> {
        if self.count.contains(&0) {
            return None;
        }
        if self.is_mean {
            self.divide();
        }
        Some(Computed { offset: self.first, count: self.count, bytes: encoded(&self.cells, to) })
    }

    /// Divides each sum by the number of cells of its block: fewer at the end of the box.
    fn divide(&mut self) {
        let (offset, extent) = &self.source;
        let mut place = self.first.clone();
        for cell in &mut self.cells {
            let axes = place.iter().zip(offset.iter().zip(extent));
            let members = axes.fold(1, |all, (block, (at, n))| {
                let from = block * self.by;
                all * (from + self.by).min(at + n).saturating_sub(from.max(*at))
            });
            *cell /= members as f64;
            for ((place, from), n) in place.iter_mut().zip(&self.first).zip(&self.count).rev() {
                *place += 1;
                if *place < from + n {
                    break;
                }
                *place = *from;
            }
        }
    }
}

/// Whether a finite value is infinite in a type.
fn is_beyond(value: f64, to: Scalar) -> bool {
    to == Scalar::F32 && value.is_finite() && (value as f32).is_infinite()
}

/// The least common multiple; so large that nothing is cut if it is beyond all numbers.
fn multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// The axis that threads share, and the rows of each. `None`: the slab has no cells.
fn cuts(slab: &Slab, offset: &[u64], item: usize, unit: u64) -> Option<(usize, Vec<Range<u64>>)> {
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));
    if item == 0 {
        return None;
    }
    let threads = (*PROCESSORS).min(THREADS).min(slab.len / SHARE).max(1);
    Some(cuts_for(slab, offset, unit, threads as u64))
}

fn cuts_for(slab: &Slab, offset: &[u64], unit: u64, threads: u64) -> (usize, Vec<Range<u64>>) {
    // All axes in front have one cell, so the cells of a range of rows are one run.
    let axis = slab.count.iter().position(|n| *n > 1).unwrap_or(0);
    let of = |all: &[u64]| all.get(axis).copied().unwrap_or(0);
    let (n, first) = (slab.count.get(axis).copied().unwrap_or(1), of(offset) + of(&slab.offset));
    let (mut rows, mut from) = (Vec::new(), 0);
    for thread in 1..threads {
        let end = first + n * thread / threads;
        let end = (end - end % unit.max(1)).saturating_sub(first).min(n);
        if end > from {
            rows.push(from..end);
            from = end;
        }
    }
    rows.push(from..n);
    (axis, rows)
}

/// The parts of a slab, one for each thread.
fn share<'a>(slab: &Slab, (axis, rows): &(usize, Vec<Range<u64>>), from: From<'a>) -> Vec<Share<'a>> {
    let all = slab.count.get(*axis).copied().unwrap_or(1).max(1);
    let row = slab.len / usize::try_from(all).unwrap_or(usize::MAX);
    let mut rest = from;
    let mut shares = Vec::new();
    for rows in rows {
        let mut part = slab.clone();
        if let (Some(at), Some(n)) = (part.offset.get_mut(*axis), part.count.get_mut(*axis)) {
            *at += rows.start;
            *n = rows.end - rows.start;
        }
        part.at += rows.start as usize * row;
        part.len = (rows.end - rows.start) as usize * row;
        let from = match &mut rest {
            From::Here(bytes) => From::Here(bytes.split_off(..part.len).unwrap_or_default()),
            From::Lent(memory, buffer) => {
                From::Lent(*memory, buffer.split_off_mut(..part.len).unwrap_or_default())
            }
        };
        shares.push(Share { slab: part, from, writing: Vec::new() });
    }
    shares
}

impl Share<'_> {
    /// Copies the values if they are in shared memory, and passes over them. Returns the parts of reductions.
    fn run(
        mut self,
        item: usize,
        (scalar, offset): (Option<Scalar>, &[u64]),
        running: &[Running<'_>],
        beyond: &AtomicU64,
    ) -> Vec<Option<Partial>> {
        let mut values = Vec::new();
        for piece in slabs(&self.slab.count, item, PIECE) {
            let range = piece.at..piece.at + piece.len;
            let bytes: &[u8] = match &mut self.from {
                From::Here(bytes) => bytes.get(range).unwrap_or_default(),
                From::Lent(memory, buffer) => {
                    let buffer = buffer.get_mut(range).unwrap_or_default();
                    memory.copy_out(self.slab.at + piece.at, buffer);
                    buffer
                }
            };
            let (false, Some(scalar)) = (running.is_empty(), scalar) else { continue };
            decode(bytes, scalar, &mut values);
            let inner = self.slab.offset.iter().zip(&piece.offset).map(|(a, b)| a + b);
            let at: Vec<u64> = offset.iter().zip(inner).map(|(a, b)| a + b).collect();
            let cells = piece.at / item..(piece.at + piece.len) / item;
            for (writing, running) in self.writing.iter_mut().zip(running) {
                match (writing, running) {
                    (Writing::Reduction(reducing), _) => reducing.add(&values),
                    (Writing::Coarse(to, start), Running::Coarse(coarse, _)) => {
                        coarse.add(to, *start, (&at, &piece.count), &values);
                    }
                    (Writing::Cells(out), Running::Cells(operation, to)) => {
                        let size = to.size() as usize;
                        let out = out.get_mut(cells.start * size..cells.end * size).unwrap_or_default();
                        match operation {
                            Operation::Above { value } => {
                                out.iter_mut().zip(&values).for_each(|(out, x)| *out = u8::from(x > value));
                            }
                            _ => {
                                if let Some(value) = values.iter().find(|x| is_beyond(**x, *to)) {
                                    beyond.store(value.to_bits(), Ordering::Relaxed);
                                }
                                encode(&values, *to, out);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        let part = |writing| match writing {
            Writing::Reduction(reducing) => Some(reducing.part()),
            _ => None,
        };
        self.writing.into_iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F8: DType = DType::Scalar(Scalar::F64);

    fn cells(offset: &[u64], count: &[u64]) -> Cells {
        Cells { variable: "T".into(), step: Some(0), offset: offset.to_vec(), count: count.to_vec() }
    }

    fn operations() -> Vec<Operation> {
        let texts = [
            "min",
            "max",
            "sum",
            "mean",
            "histogram:bins=7,low=-1,high=1",
            "downsample:factor=2",
            "downsample:factor=3",
            "stride:by=3",
            "stride:by=1",
            "above:value=0.25",
            "cast:dtype=f4",
        ];
        texts.iter().map(|text| Operation::parse(text).unwrap()).collect()
    }

    /// Values that make sums depend on their order, if they are rounded more than once.
    fn noise(many: u64) -> Vec<f64> {
        let one = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        (0..many).map(|n| one(n + 1) * f64::powi(10.0, (n % 5) as i32 - 2)).collect()
    }

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    /// The outcomes of a box that is cut into slabs of `most` bytes, and its results of each cell.
    fn outcomes(
        operations: &[Operation],
        box_: &Cells,
        shape: &[u64],
        values: &[f64],
        most: usize,
    ) -> Vec<Outcome> {
        let bytes = bytes(values);
        let mut pass = Pass::new(operations, box_, shape, &F8).unwrap();
        let mut all: Vec<Vec<u8>> = vec![Vec::new(); operations.len()];
        for slab in slabs(&box_.count, 8, most) {
            let here = From::Here(&bytes[slab.at..slab.at + slab.len]);
            for (n, some) in pass.take(&slab, here) {
                all[n].extend(some);
            }
        }
        let mut done = pass.finish();
        for (outcome, bytes) in done.iter_mut().zip(all) {
            if !bytes.is_empty() {
                assert_eq!(*outcome, Outcome::Cells(None));
                let (offset, count) = (box_.offset.clone(), box_.count.clone());
                *outcome = Outcome::Cells(Some(Computed { offset, count, bytes }));
            }
        }
        done
    }

    #[test]
    fn results_have_the_same_bits_for_any_cut_into_slabs() {
        let operations = operations();
        for (offset, count, shape) in [
            (vec![6, 0, 12], vec![6, 7, 10], vec![20, 7, 22]),
            (vec![0], vec![1000], vec![1000]),
            (vec![0, 0], vec![1, 300], vec![1, 300]),
            (vec![6, 6], vec![24, 1], vec![60, 7]),
            (vec![], vec![], vec![]),
        ] {
            let box_ = cells(&offset, &count);
            let values = noise(count.iter().product());
            let whole = outcomes(&operations, &box_, &shape, &values, usize::MAX);
            for most in [8, 24, 80, 200, 1000] {
                let cut = outcomes(&operations, &box_, &shape, &values, most);
                assert_eq!(format!("{cut:?}"), format!("{whole:?}"), "{count:?} in {most}");
            }
        }
    }

    #[test]
    fn threads_write_to_disjoint_cells_and_give_the_same_bits() {
        // Long enough for several threads where there are several processors.
        let (shape, factor) = ([130, 9, 500], 6);
        let operations: Vec<Operation> =
            operations().into_iter().chain([Operation::Downsample { factor }]).collect();
        let box_ = cells(&[0, 0, 0], &shape);
        let values = noise(shape.iter().product());
        let whole = outcomes(&operations, &box_, &shape, &values, usize::MAX);
        let cut = outcomes(&operations, &box_, &shape, &values, 4000);
        assert!(whole == cut);
        let slab = slabs(&shape, 8, usize::MAX).remove(0);
        for threads in 1..9 {
            let (axis, rows) = cuts_for(&slab, &[0, 0, 0], 6, threads);
            assert_eq!(axis, 0);
            assert!(rows.iter().skip(1).all(|rows| rows.start % 6 == 0) && rows.len() as u64 <= threads);
            assert_eq!(rows.iter().map(|rows| rows.end - rows.start).sum::<u64>(), 130);
            assert!(rows.windows(2).all(|two| two[0].end == two[1].start));
        }
    }

    #[test]
    fn lent_values_are_copied_once_and_computed_from_the_copy() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        struct Memory(Vec<u8>, AtomicUsize);
        impl Lent for Memory {
            fn len(&self) -> usize {
                self.0.len()
            }
            fn copy_out(&self, at: usize, out: &mut [u8]) {
                self.1.fetch_add(out.len(), Ordering::Relaxed);
                out.copy_from_slice(&self.0[at..at + out.len()]);
            }
        }
        let (shape, operations) = ([40, 100, 100], operations());
        let box_ = cells(&[0, 0, 0], &shape);
        let values = noise(shape.iter().product());
        let memory = Memory(bytes(&values), AtomicUsize::new(0));
        let mut copy = vec![0; memory.0.len()];
        let mut pass = Pass::new(&operations, &box_, &shape, &F8).unwrap();
        let slab = slabs(&shape, 8, usize::MAX).remove(0);
        let cells = pass.take(&slab, From::Lent(&memory, &mut copy));
        assert!(copy == memory.0 && cells.len() == 2);
        assert_eq!(memory.1.load(Ordering::Relaxed), copy.len());
        let whole = outcomes(&operations, &box_, &shape, &values, usize::MAX);
        assert!(pass.finish().iter().zip(&whole).take(9).all(|(a, b)| a == b));
    }

    #[test]
    fn coarse_cells_of_boxes_are_those_of_the_whole() {
        let shape = [5, 7];
        let values: Vec<f64> = (0..35).map(f64::from).collect();
        let one = |operation: &Operation, offset: &[u64], count: &[u64], values: &[f64]| {
            let one = std::slice::from_ref(operation);
            let mut done = outcomes(one, &cells(offset, count), &shape, values, usize::MAX);
            match done.remove(0) {
                Outcome::Cells(done) => done,
                Outcome::Part(_) => None,
            }
        };
        let floats = |done: &Computed| -> Vec<f64> {
            done.bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
        };
        let mean = Operation::Downsample { factor: 2 };
        let done = one(&mean, &[0, 0], &[5, 7], &values).unwrap();
        assert_eq!((&done.offset, &done.count), (&vec![0, 0], &vec![3, 4]));
        let means = floats(&done);
        assert_eq!((means[0], means[3], means[11]), (4.0, 9.5, 34.0));
        let done = one(&mean, &[4, 2], &[1, 2], &[30.0, 31.0]).unwrap();
        assert_eq!((&done.offset, &done.count), (&vec![2, 1], &vec![1, 1]));
        assert_eq!(floats(&done), [means[9]]);
        let cut = Pass::new([&mean], &cells(&[1, 0], &[2, 7]), &shape, &F8);
        assert!(cut.err().unwrap().to_string().contains("multiples of 2"));
        let stride = Operation::Stride { by: 3 };
        let done = one(&stride, &[1, 1], &[3, 4], &values[..12]).unwrap();
        assert_eq!((&done.offset, &done.count), (&vec![1, 1], &vec![1, 1]));
        assert_eq!(floats(&done), [10.0]);
        assert_eq!(one(&stride, &[1, 1], &[1, 1], &[0.0]), None);
    }
}
