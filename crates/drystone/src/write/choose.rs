//! Codec chains chosen for variables with the transform `auto`, and the reports that explain the choices.
//!
//! A writer keeps a choice for a number of blocks, which doubles up to 64, and then chooses again. Data
//! changes, and trying codecs must stay a small part of writing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use drystone_transform::{Auto, Chain, Choice, Sample};

use super::block::{BlockPart, Encoder};
use crate::base::array::Source;
use crate::base::buffer_pool::Lent;
use crate::base::sync::lock;
use crate::{Error, Result};

/// The most blocks that are written before a new choice.
const LONGEST: u64 = 64;

struct Kept {
    path: String,
    choice: Arc<Choice>,
    puts: u64,
    next: u64,
}

/// Variable, number of the first member in a cell, replica.
type At = (u32, u32, u32);

/// The choices of one writer, by variable, member and replica.
#[derive(Default)]
pub(crate) struct Choices {
    kept: Mutex<BTreeMap<At, Kept>>,
}

impl Choices {
    /// The chain for a block. If a choice is due, it is made from the block's data. `bandwidth` is the
    /// measured bandwidth of the store, in MB/s.
    pub(crate) fn chain(
        &self,
        auto: &Auto,
        path: &str,
        variable: u32,
        part: &BlockPart<'_>,
        data: &Source<'_>,
        bandwidth: Option<u64>,
    ) -> Result<Chain> {
        if part.laid.count.contains(&0) {
            return Ok(Chain::identity());
        }
        let (member, path) = named(path, part);
        let at = (variable, member, part.laid.replica);
        if let Some(kept) = lock(&self.kept).get_mut(&at) {
            kept.puts += 1;
            if kept.puts < kept.next {
                return Ok(kept.choice.chain());
            }
        }
        let choice = Arc::new(choose(auto, part, data, bandwidth)?);
        let chain = choice.chain();
        let mut all = lock(&self.kept);
        let kept = all.entry(at).or_insert_with(|| Kept { path, choice: choice.clone(), puts: 1, next: 1 });
        kept.choice = choice;
        kept.next = kept.puts + kept.puts.min(LONGEST);
        Ok(chain)
    }

    /// The newest choice of each variable, or of each member of a record, with its name.
    pub(crate) fn reports(&self) -> Vec<(String, Arc<Choice>)> {
        lock(&self.kept).values().map(|kept| (kept.path.clone(), kept.choice.clone())).collect()
    }
}

/// The number of the first member in a part's cells, and a name of the part for messages.
fn named(path: &str, part: &BlockPart<'_>) -> (u32, String) {
    let mut members = part.laid.members.iter().filter_map(|(n, _)| part.leaves.get(*n));
    let first = members.next();
    let mut name = path.to_owned();
    if let Some(leaf) = first.map(|column| &column.leaf).filter(|leaf| !leaf.path.is_empty()) {
        name = format!("{path}.{}{}", leaf.path, if members.next().is_some() { ", ..." } else { "" });
    }
    if part.laid.replica > 0 {
        name += &format!(" (replica {})", part.laid.replica);
    }
    (first.map_or(0, |column| column.number), name)
}

fn choose(auto: &Auto, part: &BlockPart<'_>, data: &Source<'_>, bandwidth: Option<u64>) -> Result<Choice> {
    let mut samples = Vec::new();
    let Encoder { gathered, scratch } = &mut *Lent::<Encoder>::take();
    for (first, extent) in Auto::boxes(&part.laid.count, auto.sample_count()) {
        let bytes = part.stored(data, &first, &extent, gathered)?.to_vec();
        samples.push(Sample { data: bytes, logical: part.logical(&extent) });
    }
    // The processor time of this thread, which does not depend on other load.
    let mut clock = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
    };
    auto.choose(&samples, bandwidth, &mut clock, scratch)
        .map_err(|e| Error::invalid(format!("choosing a transform: {e}")))
}
