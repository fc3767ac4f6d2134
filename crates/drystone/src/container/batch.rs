//! Schema operations that are collected into one commit.

use std::sync::Arc;

use drystone_format::schema::{Schema, Variable};

use crate::Result;
use crate::schema_op::SchemaOp;

/// The operations so far, and the schema that results from them.
pub(crate) struct Batch {
    pub(crate) ops: Vec<SchemaOp>,
    pub(crate) preview: Arc<Schema>,
    /// The schema on which the batch began.
    pub(crate) base: Arc<Schema>,
}

impl Batch {
    /// Adds all operations or none. `version` is the commit that will contain them. Returns whether anything changed.
    ///
    /// The preview is changed in place: copying it for each of n operations would cost n times n. If an operation
    /// fails, the preview is made again from the earlier operations.
    pub(crate) fn extend(&mut self, ops: Vec<SchemaOp>, version: u64) -> Result<bool> {
        match apply_all(&ops, Arc::make_mut(&mut self.preview), version) {
            Ok(changed) => {
                self.ops.extend(ops);
                Ok(changed)
            }
            Err(failure) => {
                let mut preview = (*self.base).clone();
                apply_all(&self.ops, &mut preview, version)?;
                self.preview = Arc::new(preview);
                Err(failure)
            }
        }
    }

    /// The effect of the batch on the variable at a path. `None` if the path will denote the same variable after the
    /// batch, with all cells that are put until then.
    pub(crate) fn what_becomes_of(&self, path: &str) -> Option<&'static str> {
        let one = |v: &Variable| (v.id, v.uid);
        let (before, after) = (self.base.resolve(path), self.preview.resolve(path));
        let cuts = before.map(|v| &v.clips) != after.map(|v| &v.clips);
        match (before.map(one), after.map(one)) {
            (before, after) if before == after => cuts.then_some("cuts"),
            (None, _) => Some("makes"),
            (_, None) => Some("takes away"),
            _ => Some("replaces"),
        }
    }
}

/// Applies operations to a schema. Returns whether anything changed.
pub(crate) fn apply_all(ops: &[SchemaOp], schema: &mut Schema, version: u64) -> Result<bool> {
    let mut changed = false;
    for op in ops {
        changed |= op.apply(schema, version)?;
    }
    Ok(changed)
}
