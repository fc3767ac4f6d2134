//! The rows of a plan: for each tile and condition, what statistics decide, why, and how many bytes are left to read.

use std::fmt::Write;

use drystone_expression::{Bounds, Extremes, Scalar, Truth, Type};

use super::asked::Query;
use super::place::{Place, extents};
use super::plan::{Known, Term, Tile};
use crate::Result;

/// A row of a plan: one condition in one tile. No value was read for it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    /// The step, if the cells have steps.
    pub step: Option<u64>,
    /// The coordinates of the tile's first cell, and its extents, without the step axis.
    pub offset: Vec<u64>,
    #[allow(missing_docs)]
    pub shape: Vec<u64>,
    /// The condition.
    pub term: String,
    /// How many cells satisfy it: `none`, `all`, or `some` if values must be read to know.
    pub decided: &'static str,
    /// The stored bytes of the subchunks whose values it needs; 0 if no value of the tile is read.
    pub bytes: u64,
    /// The statistics of each name, and what else decides.
    pub why: String,
}

impl Query {
    /// Passes the rows of the plan to `act`, in the order of steps, tiles and conditions, until it returns false. Reads
    /// no values.
    pub fn explain_rows(&self, act: &mut dyn FnMut(PlanRow) -> bool) -> Result<()> {
        let asked = &*self.asked;
        for &(_, step) in &asked.present {
            let zones = asked.zones(step)?;
            let known = asked.known(step, &zones);
            if known.cells.is_empty() {
                continue;
            }
            let mut boxes: Vec<(Place, Place)> =
                known.boxes().into_iter().map(|(lo, hi, _)| (lo, hi)).collect();
            boxes.sort_unstable();
            for (lo, hi) in boxes {
                for row in rows(&asked.terms, &known, lo, hi) {
                    let step = asked.grid.steps.then_some(step);
                    if !act(PlanRow { step, ..row }) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// The rows of a tile.
fn rows(terms: &[Term], known: &Known<'_>, lo: Place, hi: Place) -> Vec<PlanRow> {
    let truths: Vec<Truth> = terms.iter().map(|term| known.truth(term, &lo, &hi)).collect();
    let excludes = truths.iter().position(|truth| *truth == Truth::None);
    let row = |number: usize, term: &Term| {
        let (mut bytes, mut why) = (0u64, String::new());
        for &input in &term.inputs {
            let said = said(&known.bounds(input, &lo, &hi), known.inputs[input].dtype);
            let comma = if why.is_empty() { "" } else { ", " };
            let _ = write!(why, "{comma}{}: {said}", known.inputs[input].name);
        }
        if truths[number] == Truth::Some {
            match excludes {
                Some(other) => {
                    let _ = write!(why, "; not read, since no cell satisfies {}", terms[other].text);
                }
                None => {
                    let needs = |input: &usize| {
                        let (lo, hi) = known.own(*input, &lo, &hi);
                        let stored = known.zones[*input].meeting(&lo, &hi).filter_map(|zone| zone.stored);
                        stored.fold(0u64, |sum, stored| sum.saturating_add(stored.bytes))
                    };
                    bytes = term.inputs.iter().map(needs).fold(0, u64::saturating_add);
                    let tile = Tile { lo, hi, open: Vec::new() };
                    if term.inputs.iter().any(|input| known.indexed_share(term, *input, &tile).is_some()) {
                        why.push_str("; an index of values can answer it");
                    }
                }
            }
        }
        let axes = &known.cells.axes;
        PlanRow {
            step: None,
            offset: axes.iter().zip(lo).map(|(axis, at)| axis.cell(at)).collect(),
            shape: extents(&lo, &hi, axes.len()),
            term: term.text.clone(),
            decided: match truths[number] {
                Truth::None => "none",
                Truth::All => "all",
                Truth::Some => "some",
            },
            bytes,
            why,
        }
    };
    terms.iter().enumerate().map(|(number, term)| row(number, term)).collect()
}

/// Statistics in words.
fn said(bounds: &Bounds, dtype: Type) -> String {
    let shown = |scalar: Scalar| match scalar {
        Scalar::Float(x) if dtype == Type::F4 => format!("{:?}", x as f32),
        Scalar::Float(x) => format!("{x:?}"),
        Scalar::Integer(n) => n.to_string(),
        Scalar::Bool(b) => b.to_string(),
    };
    let mut out = match bounds.extremes {
        Extremes::Unknown => "no statistics".into(),
        Extremes::Empty => "no number".into(),
        Extremes::Within(least, greatest) => format!("{} to {}", shown(least), shown(greatest)),
    };
    for (count, what) in [(bounds.nans, "NaN"), (bounds.unwritten, "unwritten")] {
        if count > 0 && !matches!(bounds.extremes, Extremes::Unknown) {
            let _ = write!(out, " and {what}");
        }
    }
    out
}
