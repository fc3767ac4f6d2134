//! Replicas of committed blocks. Their pieces lie in a separate log, and only a commit names their entries.
//!
//! Invariants
//! - the log has no step records, so no other commit takes anything from it, and no CLOSE, so garbage collection leaves
//!   it alone while its process lives;
//! - a replica's entry has the age of its original: newer blocks hide both or neither;
//! - everything was handed to the store (`durable`: synced) before [`Aside::finish`] returns.

use std::sync::Arc;

use drystone_format::entry::Entry;
use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::log::FileHeader;
use drystone_transform::Chain;

use super::block::{self, BlockPart, Coded, Encoder, Place};
use super::encode::store_coded;
use super::part::{Part, header};
use super::uploads::Uploads;
use super::{SEGMENT_LIMIT, limit_on};
use crate::base::array::Source;
use crate::base::buffer_pool::Lent;
use crate::base::cpus::threads;
use crate::base::random;
use crate::commit::beside::{Beside, BesidePart};
use crate::container::Inner;
use crate::layout::Laid;
use crate::schema::member::Column;
use crate::{Error, Result};

/// Number of subchunks that each thread encodes before they are stored.
const EACH: usize = 2;

/// Reads the cells of a box of a block; the box is given by its first cell relative to the block and its
/// extents. Returns the codec chain for this box if it differs from the block's.
pub(crate) type Cells<'a> = dyn Fn(&[u64], &[u64]) -> Result<(Vec<u8>, Option<Chain>)> + Sync + 'a;

/// Stores replicas of committed blocks.
pub(crate) struct Aside {
    inner: Arc<Inner>,
    header: FileHeader,
    limit: u64,
    part: Part,
    uploads: Uploads,
    beside: Beside,
}

impl Aside {
    pub(crate) fn open(inner: Arc<Inner>) -> Result<Aside> {
        inner.require_writable()?;
        if inner.tiers.as_ref().is_some_and(|tiers| tiers.is_used()) {
            // Parts of this log are not registered at home.
            return Err(Error::unsupported(
                "a container that is open with tiers cannot be indexed: drain it and open it without tiers",
            ));
        }
        let fence = inner.snapshot().manifest.fence;
        let header = header(&inner, random::id64(), 0, fence, None, fence);
        let limit = limit_on(&inner, SEGMENT_LIMIT);
        let (part, uploads) = (Part::new(&inner, &header, limit), Uploads::default());
        let beside = Beside::of(header.id, header.process.clone());
        Ok(Aside { inner, header, limit, part, uploads, beside })
    }

    /// Stores the block of one leaf (`column`) again, as the replica with this number. Returns its stored
    /// size in bytes.
    pub(crate) fn put(
        &mut self,
        original: &Entry,
        (replica, chain, cut): (u32, &Chain, &[u64]),
        column: &Column,
        cells: &Cells<'_>,
    ) -> Result<u64> {
        if self.part.segment.size() >= self.limit {
            self.end_part()?;
            let next = FileHeader { part: self.header.part + 1, ..self.header.clone() };
            self.part = Part::new(&self.inner, &next, self.limit);
            self.header = next;
        }
        let ndim = usize::from(original.ndim);
        let (offset, count) = (original.offset[..ndim].to_vec(), original.count[..ndim].to_vec());
        let (members, room) = (vec![(0, 0)], column.leaf.size);
        let laid = Laid { offset, count, members, room, order: None, replica };
        let leaves = std::slice::from_ref(column);
        let from = vec![0; ndim];
        let part = BlockPart { laid: &laid, leaves, chain, cut, from: &from };
        let order = block::stored_order(&laid.count, cut);
        let grid = block::grid(&laid.count, cut);
        let boxes: Vec<_> = order.iter().filter_map(|n| grid.get(*n)).collect();
        let mut stored = Vec::with_capacity(boxes.len());
        for some in boxes.chunks(EACH * threads().max(1)) {
            let coded = encode(&part, some, cells)?;
            stored.extend(store_coded(&mut self.part.segment, &coded, boxes.len() > 1)?);
        }
        let bytes = stored.iter().map(|(piece, ..)| piece.length + piece.trailer).sum();
        let place =
            Place { step: original.step.checked_sub(1), variable: original.variable, put: original.put };
        let stored = block::numbered(&order, stored);
        let entries = part.entries(&place, &stored, &mut self.part.segment, self.part.number)?;
        let aged = |entry| Entry { commit: original.commit, order: original.order, ..entry };
        self.beside.entries.extend(entries.into_iter().map(aged));
        Ok(bytes)
    }

    /// Hands all pieces to the store. Returns what a commit may adopt.
    pub(crate) fn finish(mut self) -> Result<Beside> {
        self.end_part()?;
        self.uploads.settle(&self.inner, self.is_durable())?;
        Ok(self.beside)
    }

    fn is_durable(&self) -> bool {
        self.inner.identity.durability == Durability::Durable
    }

    fn end_part(&mut self) -> Result<()> {
        if !self.part.segment.has_content() {
            return Ok(());
        }
        let (store, id, number) = (self.inner.store.as_ref(), self.header.id, self.part.number);
        let bytes = self.part.segment.size();
        if store.features().append {
            self.part.segment.flush()?;
            self.part.idx_flush(&self.inner, id)?;
            if self.is_durable() {
                store.sync(&[self.part.segment.key(), &keys::idx(id, number)])?;
            }
        } else {
            let segment = self.part.segment.take_whole()?;
            let idx = self.part.take_idx(id);
            self.uploads.push(&self.inner, segment, idx, self.is_durable())?;
        }
        self.beside.parts.push(BesidePart { part: number, records: self.part.idx_len, bytes });
        Ok(())
    }
}

/// Reads and encodes boxes; each thread takes a share.
fn encode(part: &BlockPart<'_>, boxes: &[&(Vec<u64>, Vec<u64>)], cells: &Cells<'_>) -> Result<Vec<Coded>> {
    let one = |(first, extent): &(Vec<u64>, Vec<u64>)| {
        let (data, chain) = cells(first, extent)?;
        let part = &BlockPart { chain: chain.as_ref().unwrap_or(part.chain), ..*part };
        let source = Source::dense(&data, extent, part.laid.room as usize)?;
        let Encoder { gathered, scratch } = &mut *Lent::<Encoder>::take();
        // The source begins at the box.
        part.encode(&source, &vec![0; extent.len()], extent, gathered, scratch)
    };
    let share = boxes.len().div_ceil(threads().max(1)).max(1);
    let run = |boxes: &[&(Vec<u64>, Vec<u64>)]| {
        boxes.iter().map(|one_box| one(one_box)).collect::<Result<Vec<_>>>()
    };
    if boxes.len() < 2 {
        return run(boxes);
    }
    let run = &run;
    let results: Vec<Result<Vec<Coded>>> = std::thread::scope(|scope| {
        let started: Vec<_> = boxes.chunks(share).map(|some| scope.spawn(move || run(some))).collect();
        let panicked = || crate::Error::corrupt("an encoder thread panicked; please report it");
        started.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(panicked()))).collect()
    });
    let mut out = Vec::with_capacity(boxes.len());
    for result in results {
        out.extend(result?);
    }
    Ok(out)
}
