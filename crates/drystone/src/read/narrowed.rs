//! Reads of float64 that are wanted as float32: a server converts before it sends, so that half of the bytes travel.
//!
//! What is read is float64 still, of values that are float32 where a server converted. To convert once more changes nothing, so
//! the result is the same whoever converts.

use drystone_format::dtype::{DType, Scalar};
use drystone_transform::Bound;

use super::Reading;
use crate::schema::member::Column;
use crate::{Error, Result};

/// The rounding to float32, as a part of the magnitude.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

impl Reading {
    /// The same, of which values may come rounded to float32; those beyond its range are infinite then. `InvalidArgument` where
    /// elements are no float64.
    pub fn narrowed(mut self) -> Result<Reading> {
        let is_wide = self.leaves.iter().all(|column| column.leaf.dtype == DType::Scalar(Scalar::F64));
        if !is_wide || self.variable.meaning.is_some() {
            return Err(Error::invalid(format!(
                "\"{}\" holds {}: what is read as float32 is float64",
                self.path, self.variable.dtype
            )));
        }
        // An element of several numbers is gathered as one, and converted by the reader.
        self.narrow = matches!(self.leaves.as_slice(), [Column { leaf, .. }] if leaf.repeat == 1);
        Ok(self)
    }
}

/// The largest error of values that were rounded to float32, the greatest of which has this magnitude, by what held before.
pub fn narrowed_bound(before: Bound, largest: f32) -> Bound {
    // Half of the distance between neighbours, of the value before rounding; below the normal numbers half of the least one.
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
