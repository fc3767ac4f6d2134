//! The cells that blocks have written; a report of coverage subtracts them.

use std::ops::Range;

use drystone_plan::selection::Axis;

use super::Reading;
use super::seeking::holds;
use crate::Result;
use crate::schema::member::Column;

/// A box: first cell and extents.
pub(crate) type Region = (Vec<u64>, Vec<u64>);

impl Reading {
    /// The visible boxes at a step (`None` for a variable without steps), for each range of bytes of an element,
    /// without cells that a shrink removed. A step that does not exist has no boxes.
    pub(crate) fn covered(&self, step: Option<u64>) -> Result<Vec<(Range<u32>, Vec<Region>)>> {
        let steps = Axis { start: step.unwrap_or(0), step: 1, count: 1 };
        let entries = self.entries(&steps, None)?;
        let columns = self.columns(entries.values().flatten());
        let mut out = vec![Vec::new(); columns.len()];
        let all = entries.into_values().flatten();
        for entry in all.filter(|entry| entry.encoding.replica == 0) {
            let n = usize::from(entry.ndim);
            let limit = self.limit(&entry);
            let offset = entry.offset[..n].to_vec();
            let count = offset.iter().zip(&entry.count).zip(&limit).map(|((first, count), limit)| {
                first.saturating_add(*count).min(*limit).saturating_sub(*first)
            });
            let count: Vec<u64> = count.collect();
            if count.contains(&0) {
                continue;
            }
            for (column, boxes) in columns.iter().zip(&mut out) {
                if column.number == entry.member && holds(&entry, column) {
                    boxes.push((offset.clone(), count.clone()));
                }
            }
        }
        let bytes = |column: &Column| column.leaf.offset..column.leaf.offset + column.leaf.size;
        Ok(columns.iter().map(bytes).zip(out).collect())
    }
}
