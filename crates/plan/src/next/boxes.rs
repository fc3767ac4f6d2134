//! Predicts the boxes of one variable: constant steps, rasters with their wraps, diagonals.
//!
//! A raster is a nest of loops, fastest first: along each axis the box moves by a constant, and when a loop ends the
//! box returns to where the loop began and the next slower loop moves once. Boxes with ghost zones are clipped at the
//! edges of the array, so lengths vary there; a move is measured at the side that is not clipped.
//!
//! Invariants
//! - a box that is predicted lies inside the array;
//! - after a jump nothing is predicted until as many moves were predicted correctly as jumps were seen recently.

use crate::selection::{Axis, Selection};

/// Cells `start..stop` along an axis, every `step`-th of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Span {
    pub start: i64,
    pub stop: i64,
    pub step: i64,
}

/// A box, one span per axis.
pub type Spans = Vec<Span>;

/// Jumps that are remembered, at most.
const DOUBTS: u32 = 6;
/// After this many correct predictions one jump is forgotten.
const FORGIVEN: u32 = 8;

/// The box of a selection, whatever its direction; `None` if it has no cell, or numbers that no array has.
pub fn to_spans(selection: &Selection) -> Option<Spans> {
    let span = |axis: &Axis| {
        let last = axis.cell(axis.count.checked_sub(1)?);
        let (low, high) = (axis.start.min(last), axis.start.max(last));
        let step = if axis.count == 1 { 1 } else { i64::try_from(axis.step.unsigned_abs()).ok()? };
        Some(Span { start: i64::try_from(low).ok()?, stop: i64::try_from(high).ok()?.checked_add(1)?, step })
    };
    selection.axes.iter().map(span).collect()
}

/// The selection of a box, in ascending order.
pub fn from_spans(spans: &Spans) -> Selection {
    let axis = |span: &Span| Axis {
        start: span.start.unsigned_abs(),
        step: span.step.max(1),
        count: ((span.stop - span.start) as u64).div_ceil(span.step.max(1) as u64),
    };
    Selection { axes: spans.iter().map(axis).collect() }
}

/// How many cells a box has.
pub fn cells(spans: &Spans) -> u64 {
    spans.iter().fold(1, |n, span| {
        n.saturating_mul(((span.stop - span.start).max(0) as u64).div_ceil(span.step.max(1) as u64))
    })
}

/// A loop of a raster.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Loop {
    axis: usize,
    by: i64,
    /// Where it begins.
    first: Span,
    /// Moves since then.
    at: u64,
    /// The number of moves after which it ends, once it has been seen to end. Until then it ends at the edge of the
    /// array.
    moves: Option<u64>,
}

/// The reads of one variable, as far as they predict the next.
#[derive(Debug, Clone, Default)]
pub struct Track {
    last: Spans,
    /// Loops, fastest first.
    loops: Vec<Loop>,
    /// The last move if it was along several axes, and whether it was seen twice.
    diagonal: Option<(Vec<i64>, bool)>,
    /// The longest spans of this raster: those that no edge clips.
    whole: Vec<i64>,
    /// Number of boxes in a row that were predicted correctly.
    trust: u32,
    /// Jumps seen recently.
    doubt: u32,
}

impl Track {
    /// Records a box that is read. Returns whether it was predicted, or was the first.
    pub fn observe(&mut self, spans: &Spans, shape: &[u64], has_steps: bool) -> bool {
        if self.last.len() != spans.len() || spans.len() != shape.len() {
            *self = Track { last: spans.clone(), whole: lengths(spans), ..Track::default() };
            return true;
        }
        if self.last == *spans {
            return true;
        }
        let mut trial = self.clone();
        let came_true = trial.advance(shape, has_steps).as_ref() == Some(spans);
        if came_true {
            *self = trial;
            self.trust += 1;
            if self.trust.is_multiple_of(FORGIVEN) {
                self.doubt = self.doubt.saturating_sub(1);
            }
            return true;
        }
        let had_rule = !self.loops.is_empty() || self.diagonal.is_some();
        if !self.learn(spans, shape) {
            self.trust = 0;
            if had_rule {
                self.doubt = (self.doubt + 1).min(DOUBTS);
            }
        }
        self.last.clone_from(spans);
        false
    }

    /// How many predicted boxes are worth a prefetch now.
    pub fn trusted(&self) -> usize {
        if self.trust < self.doubt {
            return 0;
        }
        match self.trust {
            0 => usize::from(self.is_plausible()),
            trust => 1 << trust.min(6),
        }
    }

    /// Whether one move alone looks like the beginning of a raster: to a neighbour, or to the next step.
    fn is_plausible(&self) -> bool {
        match self.loops.as_slice() {
            [one] => {
                let whole = self.whole.get(one.axis).copied().unwrap_or(0);
                one.by.abs() <= whole.max(1)
            }
            [_, ..] => true,
            [] => false,
        }
    }

    /// The next boxes, nearest first.
    pub fn ahead(&self, most: usize, shape: &[u64], has_steps: bool) -> Vec<Spans> {
        let mut trial = self.clone();
        (0..most).map_while(|_| trial.advance(shape, has_steps)).collect()
    }

    /// Learns from a move that was not predicted. Returns `false` if it is no part of the raster seen so far.
    fn learn(&mut self, next: &Spans, shape: &[u64]) -> bool {
        let mut moves = Vec::new();
        for (axis, ((a, b), n)) in self.last.iter().zip(next).zip(shape).enumerate() {
            if a == b {
                continue;
            }
            match (a.step == b.step).then(|| moved(a, b, *n as i64)).flatten() {
                Some(by) => moves.push((axis, by)),
                None => {
                    self.begin_again(next);
                    return false;
                }
            }
        }
        if self.wraps(&moves, next) {
            self.note_lengths(next);
            self.diagonal = None;
            return true;
        }
        let diagonal: Vec<i64> = (0..next.len())
            .map(|axis| moves.iter().find(|(moved, _)| *moved == axis).map_or(0, |(_, by)| *by))
            .collect();
        let again = self.diagonal.as_ref().is_some_and(|(before, _)| *before == diagonal);
        let first = moves.first().map(|&(axis, by)| (axis, by, self.last[axis]));
        self.begin_again(next);
        match (moves.len(), first) {
            (1, Some((axis, by, first))) => {
                self.whole[axis] = self.whole[axis].max(first.stop - first.start);
                self.loops.push(Loop { axis, by, first, at: 1, moves: None });
            }
            _ => self.diagonal = Some((diagonal, again)),
        }
        again
    }

    fn begin_again(&mut self, next: &Spans) {
        self.loops.clear();
        self.diagonal = None;
        self.whole = lengths(next);
    }

    /// Whether the moves end some loops and move the next slower one, which may be new.
    fn wraps(&mut self, moves: &[(usize, i64)], next: &Spans) -> bool {
        if self.loops.is_empty() || moves.is_empty() {
            return false;
        }
        for level in 0..=self.loops.len() {
            let returned = self.loops[..level].iter().all(|l| next.get(l.axis) == Some(&l.first));
            if !returned {
                return false;
            }
            let inner = |axis: usize| self.loops[..level].iter().any(|l| l.axis == axis);
            let left: Vec<_> = moves.iter().filter(|(axis, _)| !inner(*axis)).collect();
            let [one] = left.as_slice() else { continue };
            let (axis, by) = **one;
            let moves_level = match self.loops.get(level) {
                Some(l) => l.axis == axis && l.by == by,
                None => level > 0,
            };
            if !moves_level {
                continue;
            }
            for l in &mut self.loops[..level] {
                (l.moves, l.at) = (Some(l.at), 0);
            }
            match self.loops.get_mut(level) {
                Some(l) => {
                    l.at += 1;
                    l.moves = None;
                }
                None => self.loops.push(Loop { axis, by, first: self.last[axis], at: 1, moves: None }),
            }
            return true;
        }
        false
    }

    fn note_lengths(&mut self, spans: &Spans) {
        for (whole, span) in self.whole.iter_mut().zip(spans) {
            *whole = (*whole).max(span.stop - span.start);
        }
    }

    /// Moves to the next box, by the known loops and a guess of the next slower one.
    fn advance(&mut self, shape: &[u64], has_steps: bool) -> Option<Spans> {
        let mut next = self.last.clone();
        if self.loops.is_empty() {
            let (diagonal, true) = self.diagonal.as_ref()? else { return None };
            for ((span, by), n) in next.iter_mut().zip(diagonal).zip(shape) {
                let (start, stop) = (span.start + by, span.stop + by);
                if start < 0 || stop > *n as i64 {
                    return None;
                }
                *span = Span { start, stop, ..*span };
            }
            self.last.clone_from(&next);
            return Some(next);
        }
        for level in 0..self.loops.len() {
            let l = &mut self.loops[level];
            let goes_on = l.moves.is_none_or(|moves| l.at < moves);
            let (span, n, whole) = (next[l.axis], shape[l.axis] as i64, self.whole[l.axis]);
            if let Some(span) = shifted(&span, l.by, n, whole).filter(|_| goes_on) {
                l.at += 1;
                next[l.axis] = span;
                self.note_lengths(&next);
                self.last.clone_from(&next);
                return Some(next);
            }
            next[l.axis] = l.first;
            l.at = 0;
        }
        self.guess(&mut next, shape, has_steps)?;
        self.note_lengths(&next);
        self.last.clone_from(&next);
        Some(next)
    }

    /// Guesses the loop after the known ones: along the next slower axis that has more cells, with the overlap of the
    /// fastest loop.
    fn guess(&mut self, next: &mut Spans, shape: &[u64], has_steps: bool) -> Option<()> {
        let fast = self.loops.first()?.clone();
        let slowest = self.loops.iter().map(|l| l.axis).min()?;
        let is_step = |axis: usize| has_steps && axis == 0;
        for axis in (0..slowest).rev() {
            let (span, n) = (next[axis], shape[axis] as i64);
            if span.start == 0 && span.stop == n {
                continue;
            }
            let backwards = fast.by < 0 && !is_step(axis);
            let overlap = if is_step(axis) || is_step(fast.axis) {
                0
            } else {
                (self.whole[fast.axis] - fast.by.abs()).max(0)
            };
            let mut whole = span.stop - span.start;
            let clipped = if backwards { span.stop == n } else { span.start == 0 };
            if clipped {
                whole += overlap / 2;
            }
            let by = (whole - overlap).max(1) * if backwards { -1 } else { 1 };
            let Some(moved) = shifted(&span, by, n, whole) else { continue };
            self.whole[axis] = self.whole[axis].max(whole);
            self.loops.push(Loop { axis, by, first: span, at: 1, moves: None });
            next[axis] = moved;
            return Some(());
        }
        None
    }
}

fn lengths(spans: &Spans) -> Vec<i64> {
    spans.iter().map(|span| span.stop - span.start).collect()
}

/// How far a span moved along an axis of `n` cells. `None` if its two sides moved differently, except by clipping.
fn moved(a: &Span, b: &Span, n: i64) -> Option<i64> {
    let (start, stop) = (b.start - a.start, b.stop - a.stop);
    let by = match () {
        () if start == stop => start,
        () if a.stop == n || b.stop == n => start,
        () if a.start == 0 || b.start == 0 => stop,
        () => return None,
    };
    (by != 0).then_some(by)
}

/// A span of `whole` cells moved along an axis of `n`, clipped. `None` if it then lies outside the array, or was at the
/// edge before.
fn shifted(span: &Span, by: i64, n: i64, whole: i64) -> Option<Span> {
    let clipped = span.stop - span.start < whole;
    let (low, high) = match () {
        () if clipped && span.start == 0 => (span.stop - whole, span.stop),
        () if clipped && span.stop == n => (span.start, span.start + whole),
        () => (span.start, span.stop),
    };
    if by > 0 && span.stop >= n || by < 0 && span.start <= 0 {
        return None;
    }
    let (start, stop) = ((low + by).max(0), (high + by).min(n));
    (start < stop).then_some(Span { start, stop, step: span.step })
}
