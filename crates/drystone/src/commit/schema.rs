//! Schema operations, each batch as one commit.

use std::sync::Arc;

use super::transaction::{Change, Decision, transact, transact_at_once};
use crate::base::sync::lock;
use crate::container::Container;
use crate::container::batch::{Batch, apply_all};
use crate::history::snapshot::Snapshot;
use crate::schema_op::SchemaOp;
use crate::{Error, Result};

impl Container {
    /// Applies schema operations as one commit, or adds them to the open batch. Returns whether anything changed.
    pub fn apply(&self, ops: Vec<SchemaOp>) -> Result<bool> {
        self.inner.require_writable()?;
        let mut batch = lock(&self.inner.batch);
        if let Some(batch) = batch.as_mut() {
            return batch.extend(ops, self.snapshot().version() + 1);
        }
        drop(batch);
        self.commit_ops(&ops, false)
    }

    /// `looked`: the newest snapshot was looked up some time ago. The put of the manifest may reveal a newer one.
    fn commit_ops(&self, ops: &[SchemaOp], looked: bool) -> Result<bool> {
        let decide = |base: &Arc<Snapshot>, version| {
            let mut schema = (*base.schema).clone();
            let changed = apply_all(ops, &mut schema, version)?;
            Ok(if changed {
                Decision::Apply(Box::new(Change { schema: Some(schema), ..Change::default() }))
            } else {
                Decision::Keep { incomplete: Vec::new(), notes: Vec::new() }
            })
        };
        let done = match looked {
            true => transact_at_once(&self.inner, false, decide)?,
            false => transact(&self.inner, decide)?,
        };
        if !done.changed {
            self.inner.adopt_snapshot(done.snapshot);
        }
        Ok(done.changed)
    }

    /// Begins a batch: schema operations are collected until `end_batch`.
    pub fn begin_batch(&self) -> Result<()> {
        self.inner.require_writable()?;
        let (newest, _) = self.inner.newest()?;
        self.inner.adopt_snapshot(newest);
        let preview = self.inner.snapshot().schema.clone();
        let mut batch = lock(&self.inner.batch);
        if batch.is_some() {
            return Err(Error::invalid("a batch is open already; batches do not nest"));
        }
        *batch = Some(Batch { ops: Vec::new(), base: preview.clone(), preview });
        Ok(())
    }

    /// Ends the batch: commits the collected operations, or discards them if `commit` is false.
    pub fn end_batch(&self, commit: bool) -> Result<()> {
        let batch = lock(&self.inner.batch).take();
        match batch {
            None => Err(Error::invalid("no batch is open")),
            Some(batch) if commit && !batch.ops.is_empty() => self.commit_ops(&batch.ops, true).map(|_| ()),
            Some(_) => Ok(()),
        }
    }
}
