//! How a variable is expected to be read: as configured, else as declared, else every way equally.

use drystone_dataset::{Access, Axes};
use drystone_format::schema::Variable;
use drystone_plan::layout::{Pattern, declared_mix, standard_mix};

use crate::container::Inner;
use crate::schema_op::expected_reads;
use crate::{Error, Result};

impl Inner {
    /// What the configuration says of the reads of a variable; `InvalidArgument` if that does not fit it.
    pub(crate) fn configured_access(&self, path: &str, axes: &Axes<'_>) -> Result<Option<Access>> {
        let Some(text) = self.config.as_deref().and_then(|config| config.access(path)) else {
            return Ok(None);
        };
        let access = Access::parse(text, axes);
        access.map(Some).map_err(|e| {
            Error::invalid(format!("the configured access \"{text}\" of \"{path}\": {}", e.message))
        })
    }

    /// The reads expected of a variable, in an array of `shape` (without the step axis), and who says so.
    ///
    /// A stored text that is not understood changes nothing but what is said: a later version may have written it.
    pub(crate) fn expected(
        &self,
        path: &str,
        variable: &Variable,
        shape: &[u64],
    ) -> Result<(Vec<Pattern>, String)> {
        let names: Vec<&str> = variable.dims.iter().map(String::as_str).collect();
        let axes = Axes { count: shape.len(), names: &names, steps: variable.steps };
        let of_a_step = |access: &Access| {
            let whole: Vec<u64> =
                variable.steps.then_some(1).into_iter().chain(shape.iter().copied()).collect();
            let mut mix = declared_mix(access, &whole, variable.steps);
            for pattern in mix.iter_mut().filter(|_| variable.steps) {
                pattern.count.remove(0);
            }
            mix
        };
        if let Some(access) = self.configured_access(path, &axes)? {
            return Ok((of_a_step(&access), format!("configured: {access}")));
        }
        Ok(match expected_reads(variable) {
            Ok(Some(access)) => (of_a_step(&access), format!("declared: {access}")),
            Ok(None) => (standard_mix(shape, false), "nobody said".into()),
            Err(e) => {
                let what = format!("nobody said; what is declared is not understood: {}", e.message);
                (standard_mix(shape, false), what)
            }
        })
    }
}
