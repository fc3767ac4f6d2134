//! The cells of each stage that a box of the result needs, known before anything is read.

use super::Box;
use super::stages::{Edge, Field, What};
use crate::error::{Error, Kind};
use crate::tree::Stencil;

/// The cells of one name that a box of the result needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The index of the name in the tree.
    pub name: usize,
    /// Axes of the grid, in ascending order.
    pub axes: Vec<usize>,
    /// First position along each axis, inside the domain.
    pub lo: Vec<u64>,
    /// End position along each axis, exclusive.
    pub hi: Vec<u64>,
}

impl Field {
    /// Refuses a domain that is too small for its neighbours and differences.
    pub fn check_extents(&self, extents: &[u64]) -> Result<(), Error> {
        for (n, stage) in self.stages.iter().enumerate() {
            let need = |axis: usize, least: u64, what: &str| {
                let found = extents.get(axis).copied().unwrap_or(0);
                if found >= least || found == 0 {
                    return Ok(());
                }
                let found = format!(
                    "`{}`: {what} {least} cells along dimension {axis}, which has {found}",
                    self.text(n)
                );
                Err(Error::new(Kind::Limit, found)
                    .help("make the variable larger, or leave the neighbour out"))
            };
            match &stage.what {
                What::Shift(_, offsets) => {
                    for &(axis, by) in offsets {
                        need(axis, by.unsigned_abs() + 1, "a neighbour needs")?;
                    }
                }
                What::Call(call) => {
                    for (axis, halo) in stage.axes.iter().zip(&call.halo) {
                        need(*axis, halo.unsigned_abs() + 1, "the halo needs")?;
                    }
                }
                What::Difference(op, _, axis, _) => {
                    let least = match (op, self.edge) {
                        (_, Edge::Fill | Edge::Nan) => 1,
                        (Stencil::Diff, _) => 2,
                        (Stencil::Second, _) => 3,
                    };
                    need(*axis, least, "a difference needs")?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The box of each stage that the wanted boxes depend on; `None` for stages that are not needed. Operands
    /// of reductions are not followed.
    pub(super) fn boxes(&self, wanted: &[(usize, Box)], extents: &[u64]) -> Vec<Option<Box>> {
        let mut need: Vec<Option<Box>> = vec![None; self.stages.len()];
        for (stage, wanted) in wanted {
            join(&mut need[*stage], wanted);
        }
        for n in (0..self.stages.len()).rev() {
            let Some(own) = need[n].clone() else { continue };
            let stage = &self.stages[n];
            match &stage.what {
                What::Input(_) | What::Reduce(..) => {}
                What::Compute(_, of) => {
                    for &operand in of {
                        let part = self.project(&stage.axes, &own, operand);
                        join(&mut need[operand], &part);
                    }
                }
                What::Shift(of, offsets) => {
                    let mut part = own;
                    for (axis, (lo, hi)) in stage.axes.iter().zip(part.iter_mut()) {
                        let by = offsets.iter().find(|(a, _)| a == axis).map_or(0, |&(_, by)| by);
                        let last = extents[*axis] as i64 - 1;
                        (*lo, *hi) = match self.edge {
                            Edge::OneSided if *lo < *hi => {
                                ((*lo + by).clamp(0, last.max(0)), (*hi - 1 + by).clamp(0, last.max(0)) + 1)
                            }
                            _ => (*lo + by, *hi + by),
                        };
                    }
                    join(&mut need[*of], &part);
                }
                What::Call(call) => {
                    let mut part = call.grown(&self.inside(&stage.axes, &own, extents));
                    if self.edge == Edge::OneSided {
                        for (axis, side) in stage.axes.iter().zip(part.iter_mut()) {
                            let n = extents[*axis] as i64;
                            *side = (side.0.clamp(0, n), side.1.clamp(0, n));
                        }
                    }
                    join(&mut need[call.of], &part);
                }
                What::Difference(op, of, along, _) => {
                    let mut part = own;
                    for (axis, (lo, hi)) in stage.axes.iter().zip(part.iter_mut()) {
                        if axis != along || *lo >= *hi {
                            continue;
                        }
                        let n = extents[*axis] as i64;
                        (*lo, *hi) = match (self.edge, op) {
                            (Edge::OneSided, Stencil::Diff) => ((*lo - 1).max(0), (*hi + 1).min(n)),
                            // At an edge, the stencil of the next cell inside is used.
                            (Edge::OneSided, Stencil::Second) => {
                                ((*lo - 1).min(n - 3).max(0), (*hi + 1).max(3).min(n))
                            }
                            _ => (*lo - 1, *hi + 1),
                        };
                    }
                    join(&mut need[*of], &part);
                }
            }
        }
        need
    }

    /// The cells of the domain whose values a box takes: functions are called for no others. A periodic edge takes
    /// cells beyond the domain from the opposite end.
    pub(super) fn inside(&self, axes: &[usize], own: &Box, extents: &[u64]) -> Box {
        let side = |(axis, &(lo, hi)): (&usize, &(i64, i64))| {
            let n = extents[*axis] as i64;
            match self.edge {
                Edge::Periodic if lo < hi && (lo < 0 || hi > n) => (0, n),
                _ => (lo.clamp(0, n), hi.clamp(0, n)),
            }
        };
        axes.iter().zip(own).map(side).collect()
    }

    /// The part of a box along the axes of another stage.
    pub(super) fn project(&self, axes: &[usize], own: &Box, other: usize) -> Box {
        let of = |axis: &usize| axes.iter().position(|a| a == axis).map_or((0, 0), |at| own[at]);
        self.stages[other].axes.iter().map(of).collect()
    }

    /// The cells of each name that a box of the result reads, reductions included. A periodic edge rule maps
    /// cells beyond the domain to the opposite end; other rules leave them out.
    pub fn reach(&self, lo: &[u64], hi: &[u64], extents: &[u64]) -> Vec<Reach> {
        let mut out: Vec<Reach> = Vec::new();
        let axes = self.axes();
        let own: Box = (0..axes.len()).map(|d| (lo[d] as i64, hi[d] as i64)).collect();
        let mut open: Vec<(usize, Box)> =
            self.results.iter().map(|&result| (result, self.project(axes, &own, result))).collect();
        while !open.is_empty() {
            let boxes = self.boxes(&open, extents);
            open.clear();
            for (n, own) in boxes.iter().enumerate() {
                let Some(own) = own else { continue };
                match &self.stages[n].what {
                    What::Reduce(_, of, reduced) => {
                        open.push((*of, self.whole(n, own, *of, reduced, extents)))
                    }
                    What::Input(name) => self.add_reach(&mut out, *name, n, own, extents),
                    _ => {}
                }
            }
        }
        out
    }

    /// The cells of the operand that a box of a reduction needs.
    pub(super) fn whole(&self, n: usize, own: &Box, of: usize, reduced: &[usize], extents: &[u64]) -> Box {
        let kept = &self.stages[n].axes;
        let side = |axis: &usize| match kept.iter().position(|a| a == axis) {
            Some(at) if !reduced.contains(axis) => own[at],
            _ => (0, extents[*axis] as i64),
        };
        self.stages[of].axes.iter().map(side).collect()
    }

    fn add_reach(&self, out: &mut Vec<Reach>, name: usize, stage: usize, own: &Box, extents: &[u64]) {
        let axes = self.stages[stage].axes.clone();
        let (mut lo, mut hi) = (Vec::new(), Vec::new());
        for (axis, &(from, to)) in axes.iter().zip(own) {
            let n = extents[*axis] as i64;
            let wraps = self.edge == Edge::Periodic && (from < 0 || to > n);
            let (from, to) = if wraps { (0, n) } else { (from.clamp(0, n), to.clamp(0, n)) };
            lo.push(from as u64);
            hi.push(to.max(from) as u64);
        }
        match out.iter_mut().find(|reach| reach.name == name) {
            Some(known) => {
                for d in 0..axes.len() {
                    (known.lo[d], known.hi[d]) = (known.lo[d].min(lo[d]), known.hi[d].max(hi[d]));
                }
            }
            None => out.push(Reach { name, axes, lo, hi }),
        }
    }
}

/// Grows a box until it holds another.
fn join(known: &mut Option<Box>, more: &Box) {
    match known {
        None => *known = Some(more.clone()),
        Some(known) => {
            for ((lo, hi), &(from, to)) in known.iter_mut().zip(more) {
                (*lo, *hi) = ((*lo).min(from), (*hi).max(to));
            }
        }
    }
}
