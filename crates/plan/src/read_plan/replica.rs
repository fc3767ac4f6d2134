//! Replicas: the same cells stored more than once, each time in another layout; a read takes the cheapest.
//!
//! A plan is made for each number there is, as if only what was put and that replica were there, and the costs are compared. A
//! replica holds a part of what was put; what it does not hold comes from what was put.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use super::{ReadPlan, Slot};

/// What a read would cost by way of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Number of the replica; 0 is what was put.
    pub replica: u32,
    /// Bytes that would be read.
    pub bytes: u64,
    /// Requests for them.
    pub requests: usize,
    /// Whether this is what the plan does.
    pub chosen: bool,
}

impl Choice {
    /// That of a plan.
    pub fn of(replica: u32, plan: &ReadPlan) -> Choice {
        Choice { replica, bytes: plan.read_bytes, requests: plan.requests, chosen: false }
    }

    /// Bytes, where a request counts as `gap` of them.
    pub fn cost(&self, gap: u64) -> u64 {
        self.bytes.saturating_add((self.requests as u64).saturating_mul(gap))
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.replica {
            0 => f.write_str("default")?,
            number => write!(f, "replica {number}")?,
        }
        let plural = if self.requests == 1 { "" } else { "s" };
        write!(f, ": {} bytes in {} request{plural}", self.bytes, self.requests)?;
        f.write_str(if self.chosen { ", chosen" } else { "" })
    }
}

/// The numbers of the replicas among the candidates, ascending, without 0.
pub fn numbers(slots: &[Slot]) -> Vec<u32> {
    let all = slots.iter().flat_map(|slot| &slot.candidates).map(|c| c.entry.encoding.replica);
    all.filter(|number| *number > 0).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The slots with what was put and one replica (0: none) as candidates. Of blocks of one age the replica's are the later ones, so
/// they show.
pub fn offered(slots: &[Slot], replica: u32) -> Vec<Slot> {
    let of = |slot: &Slot, number: u32| {
        slot.candidates
            .iter()
            .filter(move |c| c.entry.encoding.replica == number)
            .cloned()
            .collect::<Vec<_>>()
    };
    let one = |slot: &Slot| {
        let mut candidates = of(slot, 0);
        if replica > 0 {
            candidates.extend(of(slot, replica));
        }
        Slot { candidates, selection: slot.selection.clone(), ..*slot }
    };
    slots.iter().map(one).collect()
}
