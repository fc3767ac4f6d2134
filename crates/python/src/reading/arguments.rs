//! Arguments of reads: boxes, steps, limits, precision.

use drystone::plan::selection::{Axis, Selection};
use drystone::{Limit, Precision};
use pyo3::prelude::*;

use super::ReadingHandle;
use crate::error::{Result, invalid, out_of_range};
use crate::key;

impl ReadingHandle {
    pub(super) fn box_of(
        &self,
        step: Option<&Bound<'_, PyAny>>,
        offset: Option<&Bound<'_, PyAny>>,
        count: Option<&Bound<'_, PyAny>>,
    ) -> Result<(Selection, Vec<u64>)> {
        let shape = self.reading.shape();
        let steps = self.reading.variable().steps;
        let cells = &shape[usize::from(steps)..];
        let offset = match offset {
            Some(offset) => key::extents(offset, "offset")?,
            None => vec![0; cells.len()],
        };
        let rest = || cells.iter().zip(&offset).map(|(n, o)| n.saturating_sub(*o)).collect();
        let count: Vec<u64> = count.map_or_else(|| Ok(rest()), |count| key::extents(count, "count"))?;
        if offset.len() != cells.len() || count.len() != cells.len() {
            return Err(invalid(format!(
                "offset has {} and count {} entries, the variable {} dimensions{}",
                offset.len(),
                count.len(),
                cells.len(),
                if steps { " (the step axis aside)" } else { "" }
            )));
        }
        for (d, n) in cells.iter().enumerate() {
            if offset[d].checked_add(count[d]).is_none_or(|end| end > *n) {
                return Err(out_of_range(format!(
                    "the box at offset {offset:?} with count {count:?} leaves the shape {cells:?} in dimension {d}"
                )));
            }
        }
        let mut selection = Selection::boxed(&offset, &count);
        if steps {
            let step = self
                .step_number(step, shape[0])?
                .ok_or_else(|| invalid("the variable has steps: say which (step=)"))?;
            selection.axes.insert(0, Axis { start: step, step: 1, count: 1 });
        } else if step.is_some() {
            return Err(invalid("the variable has no steps: leave step= out"));
        }
        Ok((selection, count))
    }

    /// A step; negative ones count from the end.
    pub(super) fn step_number(&self, step: Option<&Bound<'_, PyAny>>, axis: u64) -> Result<Option<u64>> {
        let Some(step) = step else { return Ok(None) };
        let selected = key::select(step, &[axis])?;
        match (selected.shape.is_empty(), selected.selection.axes.first()) {
            (true, Some(at)) => Ok(Some(at.start)),
            _ => Err(invalid(format!("step is one number, not {}", step.repr()?))),
        }
    }

    pub(super) fn block_step(&self, step: Option<&Bound<'_, PyAny>>) -> Result<Option<u64>> {
        self.step_number(step, self.reading.snapshot().step_axis())
    }
}

/// A bound of a range of values.
pub(super) fn limit(value: &Bound<'_, PyAny>) -> Result<Limit> {
    if let Ok(whole) = value.extract::<i128>() {
        return Ok(Limit::Int(whole));
    }
    Ok(Limit::Float(value.extract::<f64>()?))
}

/// The precision that `max_error=`, `relative=` and `precision=` of a read request together.
pub(crate) fn precision(
    error: Option<f64>,
    relative: bool,
    level: Option<&Bound<'_, PyAny>>,
) -> Result<Precision> {
    match (error, level) {
        (None, None) if relative => {
            Err(invalid("relative=True says how max_error is meant; give max_error too"))
        }
        (None, None) => Ok(Precision::Exact),
        (Some(_), Some(_)) => Err(invalid("give max_error or precision, not both")),
        (Some(error), None) if relative => Ok(Precision::Relative(error)),
        (Some(error), None) => Ok(Precision::Absolute(error)),
        (None, Some(level)) => {
            let level = key::unsigned(level, "the precision level")?;
            Ok(Precision::Level(u32::try_from(level).unwrap_or(u32::MAX)))
        }
    }
}
