//! Determines which part of a fragment can be filled from others.
//!
//! The wanted elements of a destination are sets of index progressions per dimension. The elements that each source
//! holds are subtracted exactly; the remaining ones are reported, never guessed.

use std::fmt;

use crate::compile::{for_each_pair, for_each_product};
use crate::error::RuleError;
use crate::fragment::{Leaf, MemoryLayout};
use crate::progression::{Progression, join};

/// Most pieces into which the missing part of one member may fall.
const MOST_PIECES: usize = 1 << 14;

/// Indexes `start`, `start + step`, ... along one dimension of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexes {
    /// The first index.
    pub start: u64,
    /// Distance to the next.
    pub step: u64,
    /// Number of indexes.
    pub count: u64,
}

/// Elements of a view that no source holds: all combinations of the indexes of each dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Number of the view in the fragment.
    pub view: usize,
    /// Byte offset of the missing member, for the view's element at index 0.
    pub offset: u64,
    /// Indexes for each dimension of the view, then of arrays inside its elements.
    pub indexes: Vec<Indexes>,
}

/// How much of a fragment a set of sources can fill, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Bytes whose elements exist in the dataset.
    pub wanted: u64,
    /// Bytes of those that the sources hold.
    pub covered: u64,
    /// Bytes whose elements lie outside the dataset, such as halos of ranks at the boundary. No source holds them.
    pub unmapped: u64,
    /// Elements that are wanted and not covered; the parts do not overlap.
    pub missing: Vec<Missing>,
}

impl Coverage {
    /// Whether the sources hold all elements that exist.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Determines which part of `dst` the sources hold together.
pub fn coverage(sources: &[&MemoryLayout], dst: &MemoryLayout) -> Result<Coverage, RuleError> {
    let mut total = Coverage { wanted: 0, covered: 0, unmapped: 0, missing: Vec::new() };
    for leaf in &dst.leaves {
        let everything =
            leaf.binders.iter().fold(leaf.bytes, |size, binder| size.saturating_mul(binder.extent));
        let mut left = mapped(leaf)?;
        let wanted = bytes(&left, leaf);
        let one = MemoryLayout::with_leaf(dst, leaf);
        for source in sources {
            for_each_pair(source, &one, |from, to| {
                for_each_product(from, to, |loops| {
                    let mut held: Vec<Indexes> =
                        vec![Indexes { start: 0, step: 1, count: 1 }; to.binders.len()];
                    for (binder, steps) in loops.iter().filter_map(|one| Some((one.dst_binder?, one.steps))) {
                        held[binder] = Indexes::from_steps(steps.dst, steps.dst_step, steps.count);
                    }
                    left = subtract(std::mem::take(&mut left), &held)?;
                    Ok(())
                })
            })?;
        }
        total.wanted += wanted;
        total.covered += wanted - bytes(&left, leaf);
        total.unmapped += everything - wanted;
        total.missing.extend(left.into_iter().map(|indexes| Missing {
            view: leaf.view,
            offset: leaf.offset,
            indexes,
        }));
    }
    Ok(total)
}

impl Indexes {
    fn from_steps(start: i64, step: i64, count: u64) -> Self {
        let last = start + step * (count - 1) as i64;
        Indexes { start: start.min(last) as u64, step: step.unsigned_abs().max(1), count }
    }

    fn progression(self) -> Progression {
        Progression { x: 0, sx: 1, y: self.start as i64, sy: self.step as i64, n: self.count }
    }

    /// Positions `start..end` of these indexes, every `step`-th.
    fn part(self, start: u64, step: u64, end: u64) -> Option<Indexes> {
        (start < end).then(|| Indexes {
            start: self.start + start * self.step,
            step: self.step * step,
            count: (end - start).div_ceil(step),
        })
    }
}

/// The elements of a leaf that exist in the dataset.
fn mapped(leaf: &Leaf) -> Result<Vec<Vec<Indexes>>, RuleError> {
    let whole =
        leaf.binders.iter().map(|binder| Indexes { start: 0, step: 1, count: binder.extent }).collect();
    let mut sets: Vec<Vec<Indexes>> = vec![whole];
    if leaf.binders.iter().any(|binder| binder.extent == 0) {
        sets.clear();
    }
    for axis in &leaf.axes {
        let mut next = Vec::new();
        for set in &sets {
            for piece in &axis.pieces {
                let mut set = set.clone();
                if let Some(binder) = axis.binder {
                    set[binder] = Indexes::from_steps(piece.x, piece.sx, piece.n);
                }
                next.push(set);
            }
        }
        sets = limited(next)?;
    }
    Ok(sets)
}

fn bytes(sets: &[Vec<Indexes>], leaf: &Leaf) -> u64 {
    sets.iter()
        .map(|set| set.iter().fold(leaf.bytes, |size, indexes| size.saturating_mul(indexes.count)))
        .fold(0, u64::saturating_add)
}

/// The sets without the elements of `held`.
fn subtract(sets: Vec<Vec<Indexes>>, held: &[Indexes]) -> Result<Vec<Vec<Indexes>>, RuleError> {
    let mut left = Vec::with_capacity(sets.len());
    for set in sets {
        let shared: Option<Vec<_>> =
            set.iter().zip(held).map(|(set, held)| join(&set.progression(), &held.progression())).collect();
        let Some(shared) = shared else {
            left.push(set);
            continue;
        };
        // Dimension after dimension, the parts beside the shared part are split off.
        let mut core = set.clone();
        for (k, steps) in shared.iter().enumerate() {
            let Indexes { start, step, count } = Indexes::from_steps(steps.src, steps.src_step, steps.count);
            let beyond = start + step * (count - 1) + 1;
            let between = (1..step).filter_map(|r| set[k].part(start + r, step, beyond));
            let beside = [set[k].part(0, 1, start), set[k].part(beyond, 1, set[k].count)];
            for part in beside.into_iter().flatten().chain(between) {
                let mut beside = core.clone();
                beside[k] = part;
                left.push(beside);
                if left.len() > MOST_PIECES {
                    return limited(left);
                }
            }
            core[k] = Indexes { start: set[k].start + start * set[k].step, step: set[k].step * step, count };
        }
    }
    limited(left)
}

fn limited(sets: Vec<Vec<Indexes>>) -> Result<Vec<Vec<Indexes>>, RuleError> {
    if sets.len() > MOST_PIECES {
        return Err(RuleError::TooLarge { what: "pieces of what is missing", most: MOST_PIECES as u64 });
    }
    Ok(sets)
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes covered", self.covered, self.wanted)?;
        if self.unmapped > 0 {
            write!(f, ", {} outside the dataset", self.unmapped)?;
        }
        for part in &self.missing {
            write!(f, "\n  missing in view {} at byte {}: [", part.view, part.offset)?;
            for (k, Indexes { start, step, count }) in part.indexes.iter().enumerate() {
                let comma = if k > 0 { ", " } else { "" };
                let end = start + step * (count - 1) + 1;
                write!(f, "{comma}{start}..{end}")?;
                if *step > 1 {
                    write!(f, " by {step}")?;
                }
            }
            write!(f, "]")?;
        }
        Ok(())
    }
}
