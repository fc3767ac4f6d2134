//! The expected reads of a variable: as configured, else as declared, else as observed, else equal weights for all
//! kinds.

use drystone_dataset::{Access, Axes};
use drystone_format::schema::Variable;
use drystone_plan::layout::{Pattern, learnt_mix, standard_mix};

use crate::container::Inner;
use crate::layout::declared_mix;
use crate::schema_op::expected_reads;
use crate::{Error, Result};

impl Inner {
    /// The configured reads of a variable. Errors: `InvalidArgument` if the configuration does not fit the variable.
    pub(crate) fn configured_access(&self, path: &str, axes: &Axes<'_>) -> Result<Option<Access>> {
        let Some(text) = self.config.as_deref().and_then(|config| config.access(path)) else {
            return Ok(None);
        };
        let access = Access::parse(text, axes);
        access.map(Some).map_err(|e| {
            Error::invalid(format!("the configured access \"{text}\" of \"{path}\": {}", e.message))
        })
    }

    /// The expected reads of a variable, in an array of `shape` (without the step axis), and the origin of the
    /// expectation.
    ///
    /// A stored text that cannot be parsed is only reported: a later version may have written it.
    pub(crate) fn expected(
        &self,
        path: &str,
        variable: &Variable,
        shape: &[u64],
    ) -> Result<(Vec<Pattern>, String)> {
        let names: Vec<&str> = variable.dims.iter().map(String::as_str).collect();
        let axes = Axes { count: shape.len(), names: &names, steps: variable.steps };
        let whole: Vec<u64> = variable.steps.then_some(1).into_iter().chain(shape.iter().copied()).collect();
        let without_steps = |mut mix: Vec<Pattern>| {
            for pattern in mix.iter_mut().filter(|_| variable.steps) {
                pattern.count.remove(0);
            }
            mix
        };
        let of_a_step = |access: &Access| without_steps(declared_mix(access, &whole, variable.steps));
        let learnt = || {
            let (mix, many) = learnt_mix(&self.learnt(variable.uid), &whole, variable.steps)?;
            Some((without_steps(mix), format!("learnt from {many} observed reads")))
        };
        if let Some(access) = self.configured_access(path, &axes)? {
            return Ok((of_a_step(&access), format!("configured: {access}")));
        }
        Ok(match expected_reads(variable) {
            Ok(Some(access)) => (of_a_step(&access), format!("declared: {access}")),
            Ok(None) => {
                learnt().unwrap_or_else(|| (standard_mix(shape, false), "default mix (none declared)".into()))
            }
            Err(e) => {
                let what =
                    format!("default mix (none declared); the declared one is not understood: {}", e.message);
                (standard_mix(shape, false), what)
            }
        })
    }
}
