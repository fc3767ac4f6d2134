//! Least and greatest values of all variables, from one pass over the index. Reads no values and no tables.
//!
//! The ranges cover everything that was written in all steps. Values that newer blocks hide count too, so a range may
//! be wider than the values that a reader sees. It is never narrower.

use std::collections::BTreeMap;

use drystone_plan::tree;
use drystone_transform::stats::Domain;

use crate::Result;
use crate::container::Container;
use crate::schema::element_type::kind_of;

/// A value in the form of statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extreme {
    /// An integer or truth value.
    Integer(i128),
    /// A float of any width.
    Float(f64),
}

/// The range of a variable, or of one member of its records.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueRange {
    /// Path of the variable.
    pub variable: String,
    /// Path of the member; empty if there are no members.
    pub member: String,
    /// The least value.
    pub least: Extreme,
    /// The greatest value.
    pub greatest: Extreme,
}

fn value(domain: Domain, bits: u64) -> Extreme {
    match domain {
        Domain::Signed => Extreme::Integer((bits as i64).into()),
        Domain::Unsigned => Extreme::Integer(bits.into()),
        Domain::Float => Extreme::Float(f64::from_bits(bits)),
    }
}

fn below(a: Extreme, b: Extreme) -> bool {
    match (a, b) {
        (Extreme::Integer(a), Extreme::Integer(b)) => a < b,
        (Extreme::Float(a), Extreme::Float(b)) => a < b,
        _ => false,
    }
}

impl Container {
    /// The ranges of all variables with numbers in the handle's snapshot, by path and member.
    pub fn value_ranges(&self) -> Result<Vec<ValueRange>> {
        self.inner.require_open()?;
        let snapshot = self.snapshot();
        let Some(root) = &snapshot.manifest.root else { return Ok(Vec::new()) };
        let mut found: BTreeMap<(u32, u32), (Extreme, Extreme)> = BTreeMap::new();
        let leaves: BTreeMap<u32, _> =
            snapshot.schema.variables.iter().map(|(id, v)| (*id, v.dtype.leaves())).collect();
        tree::entries(&self.inner.pages, root, &mut |entry| {
            let step = entry.step.checked_sub(1);
            let hidden = step.is_some_and(|s| entry.commit < snapshot.steps.hidden_below(s));
            let leaf = leaves.get(&entry.variable).and_then(|leaves| leaves.get(entry.member as usize));
            let domain = leaf.and_then(|leaf| kind_of(&leaf.dtype).domain());
            let (Some(domain), Some((low, high)), false) = (domain, entry.stats.min_max, hidden) else {
                return;
            };
            let (low, high) = (value(domain, low), value(domain, high));
            let range = found.entry((entry.variable, entry.member)).or_insert((low, high));
            if below(low, range.0) {
                range.0 = low;
            }
            if below(range.1, high) {
                range.1 = high;
            }
        })?;
        let mut out = Vec::new();
        for (path, name) in &snapshot.schema.names {
            let drystone_format::schema::Name::Variable(id) = name else { continue };
            for (&(_, member), &(least, greatest)) in found.range((*id, 0)..=(*id, u32::MAX)) {
                let leaf = leaves.get(id).and_then(|leaves| leaves.get(member as usize));
                let Some(member) = leaf.map(|leaf| leaf.path.to_string()) else { continue };
                out.push(ValueRange { variable: path.clone(), member, least, greatest });
            }
        }
        Ok(out)
    }
}
