//! Coverage: the cells that a fragment needs, and how many of them exist.

use crate::layout::region::{Region, subtract};
use std::ops::Range;

use drystone_plan::selection::Axis;
use drystone_transform::Precision;

use super::FragmentHandle;
use super::piece::Part;
use crate::Result;

/// The most boxes of missing cells that are listed; all are counted.
const MAX_MISSING: usize = 4096;

/// The values that a fragment needs, and those that a container holds. A value is one primitive member of an element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Number of values of the fragment.
    pub wanted: u64,
    /// Number of values that a block has written.
    pub covered: u64,
    /// Number of values without a counterpart: outside the dataset, or where an index map gives no integer.
    pub unmapped: u64,
    /// Number of values in the dataset that no block has written at the step. They read as the fill value.
    pub missing: u64,
    /// The boxes of missing values, disjoint per member: the first 4096.
    pub places: Vec<Missing>,
}

/// Cells of a variable, or of one member of it, that no block has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The variable's name.
    pub variable: String,
    /// The member, if it is not the whole element.
    pub field: Option<String>,
    /// The cells.
    pub axes: Vec<Axis>,
}

impl FragmentHandle {
    /// Counts the values that the fragment needs, those outside the dataset, and those that no block has written at
    /// the step.
    pub fn coverage(&self, step: Option<u64>) -> Result<Coverage> {
        self.check_step(step)?;
        let (readings, pieces) = self.opened(Precision::Exact)?;
        let mut report = Coverage::default();
        for leaf in &self.leaves {
            let values = leaf.runs.iter().fold(1u64, |n, run| n.saturating_mul(run.count));
            report.wanted = report.wanted.saturating_add(values);
        }
        let mut mapped = 0u64;
        let mut written: Vec<Option<Vec<_>>> = vec![None; readings.len()];
        for piece in &pieces {
            let shown = self.column(piece)?;
            let Some((reading, written)) = readings.get(piece.column).zip(written.get_mut(piece.column))
            else {
                continue;
            };
            if written.is_none() {
                *written = Some(reading.covered(step.filter(|_| shown.declared.steps))?);
            }
            let per_cell = piece.parts.iter().map(Part::values_per_cell).fold(0, u64::saturating_add);
            let cells = piece.shape().iter().fold(1u64, |n, count| n.saturating_mul(*count));
            mapped = mapped.saturating_add(per_cell.saturating_mul(cells));
            // A shown member exists where all of its leaves, or its parts of them, exist.
            let mut rest: Vec<Region> = Vec::new();
            let held = super::write::held(shown, &piece.parts);
            let shows = |bytes: &Range<u32>| {
                let mut bytes = held.iter().take(bytes.end as usize).skip(bytes.start as usize);
                bytes.any(|byte| *byte)
            };
            for (_, leaf) in written.iter().flatten().filter(|(bytes, _)| shows(bytes)) {
                let mut holes = vec![piece.axes.iter().map(|axis| (0, axis.count)).collect::<Region>()];
                for (offset, count) in leaf {
                    let met: Option<Region> = piece
                        .axes
                        .iter()
                        .zip(offset.iter().zip(count))
                        .map(|(axis, (first, n))| {
                            let range = axis.meeting(*first, first.saturating_add(*n));
                            (range.start < range.end).then_some((range.start, range.end))
                        })
                        .collect();
                    if let Some(met) = met {
                        holes = subtract(holes, &met);
                    }
                }
                for hole in holes {
                    let seen = std::mem::take(&mut rest);
                    let mut new = vec![hole];
                    for known in &seen {
                        new = subtract(new, known);
                    }
                    rest = seen;
                    rest.extend(new);
                }
            }
            for hole in rest {
                let cells = hole.iter().fold(1u64, |n, (from, to)| n.saturating_mul(to - from));
                report.missing = report.missing.saturating_add(cells.saturating_mul(per_cell));
                if report.places.len() < MAX_MISSING {
                    let cut = |(axis, (from, to)): (&Axis, &(u64, u64))| Axis {
                        start: axis.cell(*from),
                        step: axis.step,
                        count: to - from,
                    };
                    report.places.push(Missing {
                        variable: shown.declared.name.to_string(),
                        field: shown.column.field.clone(),
                        axes: piece.axes.iter().zip(&hole).map(cut).collect(),
                    });
                }
            }
        }
        report.unmapped = report.wanted.saturating_sub(mapped);
        report.covered = mapped.saturating_sub(report.missing);
        Ok(report)
    }
}
