//! Chains chosen for variables whose transform is `auto`, and the reports that explain them.
//!
//! A writer keeps what it chose and chooses anew after twice as many blocks,
//! at the latest after 64: data changes, and trying must stay a small part of writing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use drystone_transform::{Auto, Chain, Choice, Sample, Scratch};

use crate::array::Source;
use crate::container::lock;
use crate::put::BlockPart;
use crate::{Error, Result};

/// Elements of a sample.
const SAMPLE_COUNT: u64 = 16 << 10;
/// Blocks after which a choice is made anew at the latest.
const LONGEST: u64 = 64;

struct Kept {
    path: String,
    choice: Arc<Choice>,
    puts: u64,
    next: u64,
}

/// What one writer chose, by variable, replica and member.
#[derive(Default)]
pub(crate) struct Choices {
    kept: Mutex<BTreeMap<(u32, u32, String), Kept>>,
}

impl Choices {
    /// The chain for a block, chosen from its data if it is time to.
    pub(crate) fn chain(
        &self,
        auto: &Auto,
        path: &str,
        variable: u32,
        block: &BlockPart<'_>,
        data: &Source<'_>,
    ) -> Result<Chain> {
        if block.laid.count.contains(&0) {
            return Ok(Chain::identity());
        }
        let member = block.member();
        let at = (variable, block.laid.replica, member.to_owned());
        if let Some(kept) = lock(&self.kept).get_mut(&at) {
            kept.puts += 1;
            if kept.puts < kept.next {
                return Ok(kept.choice.chain());
            }
        }
        let choice = Arc::new(choose(auto, block, data)?);
        let chain = choice.chain();
        let mut all = lock(&self.kept);
        let kept = all.entry(at).or_insert_with(|| Kept {
            path: if member.is_empty() { path.to_owned() } else { format!("{path}.{member}") },
            choice: choice.clone(),
            puts: 1,
            next: 1,
        });
        kept.choice = choice;
        kept.next = kept.puts + kept.puts.min(LONGEST);
        Ok(chain)
    }

    /// The newest choice of each variable, or member of a record, with its name.
    pub(crate) fn reports(&self) -> Vec<(String, Arc<Choice>)> {
        lock(&self.kept).values().map(|kept| (kept.path.clone(), kept.choice.clone())).collect()
    }
}

fn choose(auto: &Auto, block: &BlockPart<'_>, data: &Source<'_>) -> Result<Choice> {
    let boxes = Auto::boxes(&block.laid.count, SAMPLE_COUNT);
    let samples: Vec<Sample> =
        boxes.iter().map(|(first, extent)| block.sample(data, first, extent)).collect::<Result<_>>()?;
    let begin = Instant::now();
    auto.choose(&samples, None, &mut || begin.elapsed(), &mut Scratch::new())
        .map_err(|e| Error::invalid(format!("choosing a transform: {e}")))
}
