//! Which cells blocks have written: what a report of coverage subtracts.

use drystone_plan::selection::Axis;

use super::Reading;
use crate::Result;

/// First cells and extents of a box.
pub(crate) type Region = (Vec<u64>, Vec<u64>);

impl Reading {
    /// The visible boxes at a step (`None` for a variable without steps), per leaf that is read; cells that a shrink cut away
    /// are not in them. A step that is not there has none.
    pub(crate) fn covered(&self, step: Option<u64>) -> Result<Vec<Vec<Region>>> {
        let steps = Axis { start: step.unwrap_or(0), step: 1, count: 1 };
        let mut out = vec![Vec::new(); self.leaves.len()];
        let all = self.entries(&steps, None)?.into_values().flatten();
        for entry in all.filter(|entry| entry.encoding.replica == 0) {
            let n = usize::from(entry.ndim);
            let limit = self.limit(&entry);
            let offset = entry.offset[..n].to_vec();
            let count = offset.iter().zip(&entry.count).zip(&limit).map(|((first, count), limit)| {
                first.saturating_add(*count).min(*limit).saturating_sub(*first)
            });
            let count: Vec<u64> = count.collect();
            let leaf = self.leaves.iter().position(|(member, _)| *member == entry.member);
            if let Some(leaf) = leaf.and_then(|leaf| out.get_mut(leaf))
                && !count.contains(&0)
            {
                leaf.push((offset, count));
            }
        }
        Ok(out)
    }
}
