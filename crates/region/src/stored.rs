//! Cells of a variable as a snapshot has them.

use drystone::array::Target;
use drystone::plan::selection::Selection;
use drystone::{Reading, Result};

use super::boxes::Bounds;
use super::error::invalid;
use super::lease::Cells;

/// A box of a variable.
pub(super) fn of(variable: &str, step: Option<u64>, (offset, count): Bounds) -> Cells {
    Cells { variable: variable.to_owned(), step, offset, count }
}

/// The elements of a box.
pub(super) fn read(reading: &Reading, step: Option<u64>, cells: &Cells) -> Result<Vec<u8>> {
    let (offset, count) = (&cells.offset, &cells.count);
    let with = |first: Option<u64>, rest: &[u64]| -> Vec<u64> {
        first.into_iter().chain(rest.iter().copied()).collect()
    };
    let (offset, count) = (with(step, offset), with(step.map(|_| 1), count));
    let item = reading.variable().dtype.item_size() as usize;
    let cells = count.iter().fold(1, |cells: u64, n| cells.saturating_mul(*n));
    let len = usize::try_from(cells).ok().and_then(|cells| cells.checked_mul(item));
    let mut bytes = Vec::new();
    let len = len.filter(|len| bytes.try_reserve_exact(*len).is_ok());
    let len = len.ok_or_else(|| invalid(format!("a box of {count:?} cells does not fit into memory")))?;
    bytes.resize(len, 0);
    reading.read(&Selection::boxed(&offset, &count), &Target::dense(&mut bytes, &count, item)?)?;
    Ok(bytes)
}
