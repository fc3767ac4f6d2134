//! Verifies that replicas hold the same values as their originals.

use std::collections::BTreeMap;

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_plan::selection::Axis;

use super::Reading;
use crate::{ErrorKind, Result};

/// Identifies an original and its replicas: member, commit, rank or writer, put.
type Age = (u32, u64, u64, u64);

impl Reading {
    /// Compares the replicas at a step with their originals; returns the differences. Unreadable pieces are not
    /// reported here.
    pub(crate) fn compare_replicas(&self, step: Option<u64>) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        if self.variable.dtype.is_blob() || self.variable.local {
            return Ok(wrong);
        }
        let steps = Axis { start: step.unwrap_or(0), step: 1, count: 1 };
        let (mut put, mut replicas) = (BTreeMap::<Age, Vec<Entry>>::new(), Vec::new());
        for entry in self.entries(&steps, None)?.into_values().flatten() {
            if entry.encoding.replica > 0 {
                replicas.push(entry);
            } else {
                put.entry(age(&entry)).or_default().push(entry);
            }
        }
        for replica in replicas {
            let originals = put.get(&age(&replica)).map_or(&[][..], Vec::as_slice);
            match self.differs(&replica, originals) {
                Ok(None) => {}
                Ok(Some(what)) => wrong.push(format!("replica {}: {what}", replica.encoding.replica)),
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(wrong)
    }

    /// Reads every subchunk from a replica and from the original; returns the first difference.
    fn differs(&self, replica: &Entry, originals: &[Entry]) -> Result<Option<String>> {
        let Some(column) = self.leaves.iter().find(|column| column.number == replica.member) else {
            return Ok(None);
        };
        let mut column = column.clone();
        column.leaf.offset = 0;
        let ndim = usize::from(replica.ndim);
        let (grid, mut place) = (replica.grid(), [0; MAX_NDIM]);
        for _ in 0..replica.subchunks {
            let (low, count) = replica.subchunk_box(&place);
            let first: Vec<u64> = (0..ndim).map(|d| replica.offset[d].saturating_add(low[d])).collect();
            let read = |entries: &[Entry]| self.cells_of(&column, entries, (&first, &count[..ndim]));
            if read(originals)? != read(std::slice::from_ref(replica))? {
                return Ok(Some(format!("cells from {first:?} on differ from the original")));
            }
            for d in (0..ndim).rev() {
                place[d] += 1;
                if place[d] < grid[d] {
                    break;
                }
                place[d] = 0;
            }
        }
        Ok(None)
    }
}

fn age(entry: &Entry) -> Age {
    (entry.member, entry.commit, entry.order, entry.put)
}
