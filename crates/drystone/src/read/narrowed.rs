//! Reads float64 values as float32: a server converts them before it sends them, which halves the bytes transferred.
//!
//! The result is still float64, but its values are float32 values. Converting a converted value again changes
//! nothing, so the result does not depend on where the conversion happens.

use drystone_format::dtype::{DType, Scalar};
use drystone_transform::Bound;

use super::Reading;
use crate::schema::member::Column;
use crate::{Error, Result};

/// The relative error of rounding to float32.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

impl Reading {
    /// The same reading, whose values may be rounded to float32. Values beyond the range of float32 become infinite.
    /// Errors: `InvalidArgument` if elements are not float64.
    pub fn narrowed(mut self) -> Result<Reading> {
        let is_wide = self.leaves.iter().all(|column| column.leaf.dtype == DType::Scalar(Scalar::F64));
        if !is_wide || self.variable.meaning.is_some() {
            return Err(Error::invalid(format!(
                "\"{}\" holds {}: only float64 can be read as float32",
                self.path, self.variable.dtype
            )));
        }
        // An element of several numbers is gathered as a unit; the reader converts it.
        self.narrow = matches!(self.leaves.as_slice(), [Column { leaf, .. }] if leaf.repeat == 1);
        Ok(self)
    }
}

/// The error bound after values of at most this magnitude were rounded to float32, given the earlier bound.
pub fn narrowed_bound(before: Bound, largest: f32) -> Bound {
    // Half of the distance between neighbouring values; below the normal numbers, half of the least number.
    let least = f64::from(f32::from_bits(1)) / 2.0;
    let own = (f64::from(largest) * ROUNDING * (1.0 + 4.0 * ROUNDING)).max(least);
    Bound { absolute: before.absolute + own, relative: before.relative + ROUNDING * (1.0 + before.relative) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_a_rounding_holds_for_values_that_are_hard_to_round() {
        let exact = Bound { absolute: 0.0, relative: 0.0 };
        for value in [1.0 + f64::EPSILON, 1.0 / 3.0, 16_777_217.0, 1e30, 1e-40, 3e-46, f64::from(f32::MAX)] {
            let rounded = value as f32;
            let bound = narrowed_bound(exact, rounded.abs());
            let error = (f64::from(rounded) - value).abs();
            let magnitude = value.abs().max(f64::from(f32::MIN_POSITIVE));
            assert!(error <= bound.absolute && error <= bound.relative * magnitude, "{value}");
        }
        let lossy = narrowed_bound(Bound { absolute: 0.5, relative: f64::INFINITY }, 1.0);
        assert!(lossy.absolute > 0.5 && lossy.relative.is_infinite());
    }
}
