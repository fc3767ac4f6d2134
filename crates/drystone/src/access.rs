//! How a variable is expected to be read: as configured, else as declared, else every way equally.

use drystone_format::schema::{Schema, Variable};
use drystone_plan::layout::{Mix, Pattern, standard_mix};

use crate::container::Inner;
use crate::fragment::parsed;
use crate::{Error, Result};

/// The reads that a layout is weighed for, and who says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// In cells of one step.
    pub patterns: Vec<Pattern>,
    /// For people: "configured", "declared", "nobody said".
    pub from: String,
    /// Whether anybody said so.
    pub given: bool,
}

impl Inner {
    /// The reads expected of a variable, in an array of `shape` (without the step axis).
    ///
    /// `InvalidArgument` if the configuration names an axis that the variable has not. A declared text that is not understood
    /// changes nothing but `from`: it may be for a later version.
    pub(crate) fn expected(
        &self,
        schema: &Schema,
        path: &str,
        variable: &Variable,
        shape: &[u64],
    ) -> Result<Expected> {
        if let Some(mix) = self.config.as_deref().and_then(|config| config.access(path)) {
            let patterns = mix.of(shape, &variable.dims);
            let patterns =
                patterns.map_err(|e| Error::invalid(format!("the configured access of \"{path}\": {e}")))?;
            return Ok(Expected { patterns, from: "configured".into(), given: true });
        }
        let mut from = "nobody said".to_owned();
        for declaration in &schema.declarations {
            let program = parsed(declaration)?;
            let Some(text) = program.access(path) else { continue };
            match Mix::parse(text).and_then(|mix| mix.of(shape, &variable.dims)) {
                Ok(patterns) => {
                    return Ok(Expected { patterns, from: format!("declared: {text}"), given: true });
                }
                Err(e) => from = format!("nobody said; the declared \"{text}\" is not understood: {e}"),
            }
            break;
        }
        Ok(Expected { patterns: standard_mix(shape, false), from, given: false })
    }
}
