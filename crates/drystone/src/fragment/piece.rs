//! Cuts a fragment into pieces: each is a strided box of one stored member, with the places of its values in the
//! fragment.
//!
//! All operations of a fragment work piece by piece: a read selects the box, a write puts it, coverage subtracts
//! existing blocks from it. Parts of one member that show the same box are in one piece, so the box is read once.

use std::collections::HashMap;

use drystone_copy::{Dim, Narrowing, StridedCopy};
use drystone_dataset::{Fragment, Leaf, Order, Source};
use drystone_plan::selection::Axis;
use drystone_rules::{self as rules, Block, Rule, Step, View};

use super::Shown;
use super::pairs::{Pairs, pairs};
use crate::base::error::rule_error;
use crate::{Error, Result};

/// The most pieces of one fragment.
const MAX_PIECES: usize = 1 << 16;

/// A box of one member of one variable.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// The number of the column in the fragment's columns.
    pub(crate) column: usize,
    /// The cells, without the step axis.
    pub(crate) axes: Vec<Axis>,
    pub(crate) parts: Vec<Part>,
}

/// Some values of a piece, and their places in the fragment.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Bytes of a value.
    pub(crate) size: u64,
    /// Bytes from the beginning of the member to the first value.
    pub(crate) at: u64,
    pub(crate) places: Places,
}

#[derive(Debug, Clone)]
pub(crate) enum Places {
    /// The places are given by strides.
    Strided {
        /// Bytes from the beginning of the fragment to the first value.
        offset: i64,
        /// Bytes per step of each axis.
        strides: Vec<i64>,
        /// Loops over arrays inside the member: count, stride in the member, stride in the fragment.
        inner: Vec<(u64, i64, i64)>,
        /// Further places of the same values: count, stride.
        repeats: Vec<(u64, i64)>,
    },
    /// The places lie along a curve: rules copy between the dense box and the fragment's variable.
    Curve {
        /// Bytes from the beginning of the fragment to the variable.
        offset: u64,
        /// Bytes of the variable.
        len: u64,
        scatter: Rule,
        gather: Rule,
    },
}

impl Piece {
    /// Cells along each axis.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|axis| axis.count).collect()
    }

    /// The part of the piece that has `count` cells from `from` on along an axis.
    pub(crate) fn cut(&self, axis: usize, from: u64, count: u64) -> Piece {
        let mut piece = self.clone();
        if let Some(a) = piece.axes.get_mut(axis) {
            *a = Axis { start: a.cell(from), step: a.step, count };
        }
        for part in &mut piece.parts {
            if let Places::Strided { offset, strides, .. } = &mut part.places {
                *offset += strides.get(axis).copied().unwrap_or(0) * from as i64;
            }
        }
        piece
    }

    /// Whether the piece can be cut. A piece along a curve cannot.
    pub(crate) fn is_strided(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.places, Places::Strided { .. }))
    }
}

impl Part {
    /// The number of values per cell of the box, counted at all their places.
    pub(crate) fn values_per_cell(&self) -> u64 {
        match &self.places {
            Places::Strided { inner, repeats, .. } => {
                let counts = inner.iter().map(|(n, _, _)| *n).chain(repeats.iter().map(|(n, _)| *n));
                counts.fold(1, u64::saturating_mul)
            }
            Places::Curve { .. } => 1,
        }
    }

    /// First byte and strides in the fragment, if every cell's part is a dense run of `item` bytes there.
    pub(crate) fn direct(&self, item: u64) -> Option<(i64, &[i64])> {
        let Places::Strided { offset, strides, inner, repeats } = &self.places else { return None };
        let mut run = self.size as i64;
        for (n, from, to) in inner.iter().rev() {
            if (*from, *to) != (run, run) {
                return None;
            }
            run = run.checked_mul(*n as i64)?;
        }
        (self.at == 0 && run as u64 == item && repeats.is_empty()).then_some((*offset, strides))
    }

    /// Copies between the dense box (elements of `item` bytes) and the fragment.
    pub(crate) fn scatter(&self, shape: &[u64], item: u64, dense: &[u8], fragment: &mut [u8]) -> Result<()> {
        match &self.places {
            Places::Strided { offset, repeats, .. } => {
                let mut dims = self.loops(shape, item, Dim::new);
                dims.extend(repeats.iter().map(|(n, stride)| Dim::new(*n, 0, *stride)));
                let copy = StridedCopy::new(self.at, *offset as u64, self.size as usize, dims);
                copy.and_then(|copy| copy.run(dense, fragment)).map_err(rule_error)
            }
            Places::Curve { offset, len, scatter, .. } => {
                let room = fragment.get_mut(*offset as usize..(*offset + *len) as usize);
                let room = room.ok_or_else(|| Error::invalid("the fragment's memory is too short"))?;
                scatter.run(dense, room).map_err(rule_error)
            }
        }
    }

    /// Copies from the fragment to the dense box.
    pub(crate) fn gather(&self, shape: &[u64], item: u64, fragment: &[u8], dense: &mut [u8]) -> Result<()> {
        match &self.places {
            Places::Strided { offset, .. } => {
                let dims = self.loops(shape, item, |n, dense, fragment| Dim::new(n, fragment, dense));
                let copy = StridedCopy::new(*offset as u64, self.at, self.size as usize, dims);
                copy.and_then(|copy| copy.run(fragment, dense)).map_err(rule_error)
            }
            Places::Curve { offset, len, gather, .. } => {
                let room = fragment.get(*offset as usize..(*offset + *len) as usize);
                let room = room.ok_or_else(|| Error::invalid("the fragment's memory is too short"))?;
                gather.run(room, dense).map_err(rule_error)
            }
        }
    }

    fn loops(&self, shape: &[u64], item: u64, make: impl Fn(u64, i64, i64) -> Dim) -> Vec<Dim> {
        let Places::Strided { strides, inner, .. } = &self.places else { return Vec::new() };
        let mut dense = item as i64;
        let mut dims: Vec<Dim> = Vec::with_capacity(shape.len() + inner.len());
        for (n, stride) in shape.iter().zip(strides).rev() {
            dims.push(make(*n, dense, *stride));
            dense = dense.saturating_mul(*n as i64);
        }
        dims.extend(inner.iter().map(|(n, from, to)| make(*n, *from, *to)));
        dims
    }
}

/// Cuts a fragment into pieces; `bound` has the extents of the dimensions of a column's variable.
pub(crate) fn pieces(
    fragment: &Fragment,
    leaves: &[Leaf],
    columns: &[Shown],
    bounds: &[Vec<u64>],
) -> Result<Vec<Piece>> {
    let mut out: Vec<Piece> = Vec::new();
    let mut known: HashMap<(usize, Vec<Axis>), usize> = HashMap::new();
    for leaf in leaves {
        // Several declared columns may lie in one stored member. The first one represents it.
        let own = columns.iter().position(|c| c.is(leaf));
        let (Some(own), Some(shown)) = (own, own.and_then(|n| columns.get(n))) else { continue };
        let column = columns.iter().position(|c| c.same_member(shown)).unwrap_or(own);
        let Some(bound) = bounds.get(own) else { continue };
        let mut choices: Vec<Vec<Pairs>> = vec![Vec::new()];
        for (n, dim) in leaf.dims.iter().enumerate() {
            let extent = bound.get(n).copied().or(dim.extent).unwrap_or(u64::MAX);
            let run = match dim.map.source {
                Source::Binder(binder) => leaf.runs.get(binder).copied(),
                Source::Constant => None,
            };
            let found = pairs(&dim.map, run.unwrap_or(drystone_dataset::Run { start: 0, count: 1 }), extent)?;
            if found.len().saturating_mul(choices.len()).saturating_add(out.len()) > MAX_PIECES {
                return Err(Error::unsupported(format!(
                    "the fragment \"{}\" falls into more than {MAX_PIECES} pieces; use divisors without an index",
                    fragment.name
                )));
            }
            choices = choices
                .iter()
                .flat_map(|chosen| found.iter().map(move |p| chosen.iter().copied().chain([*p]).collect()))
                .collect();
        }
        for chosen in choices {
            let cells = chosen.get(..bound.len()).unwrap_or(&chosen);
            let axis = |p: &Pairs| {
                let (step, count) = if p.sy == 0 || p.n == 1 { (1, 1) } else { (p.sy, p.n) };
                Axis { start: p.y, step, count }
            };
            let axes: Vec<Axis> = cells.iter().map(axis).collect();
            let places = match leaf.strides() {
                Some(strides) => strided(leaf, shown, &strides, &chosen, bound.len())?,
                None => curve(fragment, leaf, shown, &axes)?,
            };
            let at = shown.column.at + member_offset(shown, &chosen, bound.len());
            let part = Part { size: leaf.prim.size(), at, places };
            match known.get(&(column, axes.clone())).and_then(|n| out.get_mut(*n)) {
                Some(piece) => piece.parts.push(part),
                None => {
                    known.insert((column, axes.clone()), out.len());
                    out.push(Piece { column, axes, parts: vec![part] });
                }
            }
        }
    }
    Ok(out)
}

fn member_offset(shown: &Shown, chosen: &[Pairs], cells: usize) -> u64 {
    let inside = chosen.iter().skip(cells).zip(&shown.column.strides);
    inside.map(|(p, stride)| p.y * stride).sum()
}

fn strided(leaf: &Leaf, shown: &Shown, strides: &[u64], chosen: &[Pairs], cells: usize) -> Result<Places> {
    let too_large = || Error::invalid("the fragment does not fit the address space");
    let signed = |n: u64| i64::try_from(n).map_err(|_| too_large());
    let mut offset = signed(leaf.offset)?;
    let mut along = Vec::with_capacity(cells);
    let (mut inner, mut repeats) = (Vec::new(), Vec::new());
    let mut used = vec![false; leaf.runs.len()];
    for (n, (dim, pairs)) in leaf.dims.iter().zip(chosen).enumerate() {
        let mut stride = 0;
        if let Source::Binder(binder) = dim.map.source {
            let unit = strides.get(binder).copied().unwrap_or(0);
            offset = unit
                .checked_mul(pairs.x)
                .and_then(|o| offset.checked_add_unsigned(o))
                .ok_or_else(too_large)?;
            stride = unit.checked_mul(pairs.sx).map_or(Err(too_large()), signed)?;
            if let Some(used) = used.get_mut(binder) {
                *used = true;
            }
        }
        let constant = pairs.sy == 0;
        if constant && pairs.n > 1 {
            repeats.push((pairs.n, stride));
        }
        if n < cells {
            along.push(if constant { 0 } else { stride });
        } else if !constant && pairs.n > 1 {
            let unit = shown.column.strides.get(n - cells).copied().unwrap_or(0);
            inner.push((pairs.n, signed(unit)?.saturating_mul(pairs.sy), stride));
        }
    }
    for ((run, stride), used) in leaf.runs.iter().zip(strides).zip(used) {
        if !used {
            offset = stride
                .checked_mul(run.start)
                .and_then(|o| offset.checked_add_unsigned(o))
                .ok_or_else(too_large)?;
            if run.count > 1 {
                repeats.push((run.count, signed(*stride)?));
            }
        }
    }
    Ok(Places::Strided { offset, strides: along, inner, repeats })
}

/// The rules between the dense box of `axes` and a variable whose elements follow a curve.
fn curve(fragment: &Fragment, leaf: &Leaf, shown: &Shown, axes: &[Axis]) -> Result<Places> {
    let refuse = |why: &str| {
        Error::unsupported(format!(
            "the fragment \"{}\" follows a curve {why}; use row, col or perm",
            fragment.name
        ))
    };
    let ([level], Some(var)) = (&leaf.levels[..], fragment.vars.get(leaf.var)) else {
        return Err(refuse("with arrays in its elements"));
    };
    let whole = leaf.runs.iter().zip(&level.extents).all(|(run, n)| run.start == 0 && run.count == *n);
    if !whole || !shown.column.strides.is_empty() {
        return Err(refuse("over a part of its indices or of its elements"));
    }
    let order = if level.order == Order::Hilbert { rules::Order::Hilbert } else { rules::Order::Morton };
    let size = leaf.prim.size();
    let axis = |(n, dim): (usize, &drystone_dataset::DatasetDim)| {
        let map = match dim.map.source {
            Source::Constant => rules::IndexMap::constant(dim.map.b),
            Source::Binder(b) => rules::IndexMap::rational(b, dim.map.a, dim.map.b, dim.map.c, dim.map.d),
        };
        let end = axes.get(n).map_or(0, |a| a.start.max(a.cell(a.count - 1)) + 1);
        rules::Axis { extent: end, map }
    };
    let box_axis = |(n, a): (usize, &Axis)| {
        let start = i64::try_from(a.start).unwrap_or(i64::MAX);
        let end = a.start.max(a.cell(a.count - 1)) + 1;
        rules::Axis { extent: end, map: rules::IndexMap::affine(n, a.step, start) }
    };
    let counts: Vec<u64> = axes.iter().map(|a| a.count).collect();
    let record = |room: u64, offset: u64| Block::record(room, [(0, offset, Block::opaque(size))]);
    let views = |path: Vec<rules::Axis>, block: Block| {
        vec![View { var: 0, offset: 0, path: vec![Step::Index(path)], block }]
    };
    let dense_len = counts.iter().fold(size, |bytes, n| bytes.saturating_mul(*n));
    let dense = rules::MemoryLayout::new(
        views(
            axes.iter().enumerate().map(box_axis).collect(),
            record(size, 0).array(counts, rules::Order::Row),
        ),
        dense_len,
    );
    let field_offset = leaf.offset.saturating_sub(var.offset);
    let place = rules::MemoryLayout::new(
        views(
            leaf.dims.iter().enumerate().map(axis).collect(),
            record(level.unit, field_offset).array(level.extents.clone(), order),
        ),
        var.size(),
    );
    let (dense, place) = (dense.map_err(rule_error)?, place.map_err(rule_error)?);
    Ok(Places::Curve {
        offset: var.offset,
        len: var.size(),
        scatter: Rule::compile(&dense, &place, Narrowing::Refuse).map_err(rule_error)?,
        gather: Rule::compile(&place, &dense, Narrowing::Refuse).map_err(rule_error)?,
    })
}
