//! Arguments that a read refuses before it begins.

use drystone_plan::selection::Selection;
use drystone_transform::{Bound, Precision};

use super::Reading;
use crate::base::array::Target;
use crate::{Error, ErrorKind, Result};

impl Reading {
    /// Refuses values that are less exact than requested: bits that were not stored cannot be read.
    pub(super) fn require_precision(&self, bound: &Bound) -> Result<()> {
        let (what, most) = match self.precision {
            Precision::Absolute(most) => ("", most),
            Precision::Relative(most) => (" of their magnitude", most),
            Precision::Exact | Precision::Level(_) => return Ok(()),
        };
        if self.precision.allows(bound) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "\"{}\" cannot be read within {most:e}{what}: its transform lost more when it was written ({bound}); ask for that much, or \
             read without an error, which gives what is stored",
            self.path
        )))
    }

    pub(super) fn require_array(&self) -> Result<()> {
        if self.variable.local {
            return Err(Error::invalid(format!(
                "\"{}\" is a local variable: it has blocks, not one array; use read_block or blocks",
                self.path
            )));
        }
        Ok(())
    }

    pub(super) fn check_selection(&self, selection: &Selection) -> Result<()> {
        self.require_array()?;
        let shape = self.shape();
        if selection.axes.len() != shape.len() {
            return Err(Error::invalid(format!(
                "the selection has {} axes, \"{}\" has {}",
                selection.axes.len(),
                self.path,
                shape.len()
            )));
        }
        for (d, (axis, n)) in selection.axes.iter().zip(&shape).enumerate() {
            if axis.count == 0 {
                continue;
            }
            let last = i128::from(axis.start) + i128::from(axis.step) * i128::from(axis.count - 1);
            if axis.start >= *n || last < 0 || last >= i128::from(*n) {
                return Err(Error::new(
                    ErrorKind::OutOfRange,
                    format!("the selection leaves \"{}\" in axis {d}, which has {n} cells", self.path),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn check_target(&self, shape: &[u64], out: &Target<'_>) -> Result<()> {
        if out.shape() != shape {
            return Err(Error::invalid(format!("out has shape {:?}, the selection {shape:?}", out.shape())));
        }
        if out.item() != self.item as usize {
            return Err(Error::invalid(format!(
                "out has elements of {} bytes, \"{}\" of {}",
                out.item(),
                self.path,
                self.item
            )));
        }
        Ok(())
    }

    /// Whether `read` would accept these arguments.
    pub(crate) fn check_read(&self, selection: &Selection, out: &Target<'_>) -> Result<()> {
        self.check_selection(selection)?;
        self.check_target(&selection.shape(), out)?;
        self.require_no_strings()
    }

    pub(super) fn require_no_strings(&self) -> Result<()> {
        if !self.has_blobs() {
            return Ok(());
        }
        Err(Error::invalid(match self.require_strings() {
            Ok(()) => format!("\"{}\" holds strings: read it with read_strings", self.path),
            Err(_) => format!(
                "\"{}\" holds {}: read a member, or whole records with read_records",
                self.path, self.variable.dtype
            ),
        }))
    }
}
