//! Encoded subchunks that are read in part: collects their ranges, decodes them, and places the cells.
//!
//! Requests are made in the order of the bytes, so only a few works wait at any time. Their memory is bounded by what
//! the threads of a read may hold.

use std::collections::HashMap;
use std::sync::Mutex;

use drystone_plan::read_plan::Work;
use drystone_transform::{Fetched, StoredSubchunk, Want};

use super::{Buffers, Job};
use crate::Result;
use crate::base::sync::lock;
use crate::schema::element_type::MAX_SUBCHUNK;

/// The ranges that have arrived, by number of the work.
#[derive(Default)]
pub(super) struct Waiting {
    works: Mutex<HashMap<usize, Runs>>,
}

/// The ranges of one work that arrived before the last one, each with its position in the payload.
#[derive(Default)]
pub(super) struct Runs(Vec<(u64, Vec<u8>)>);

impl Waiting {
    /// Whether no work waits. The cells of a waiting work are missing.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.works).is_empty()
    }

    /// Records verified bytes at `start` of the payload. If these complete the work's `count` ranges, returns the
    /// other ranges; until then keeps a copy.
    pub(super) fn arrived(&self, work: usize, count: usize, start: u64, bytes: &[u8]) -> Option<Runs> {
        if count == 1 {
            return Some(Runs::default());
        }
        let mut works = lock(&self.works);
        let runs = works.entry(work).or_default();
        if runs.0.len() + 1 == count {
            return works.remove(&work);
        }
        runs.0.push((start, bytes.to_vec()));
        None
    }
}

impl Runs {
    /// Joins all ranges, including the one that arrived last.
    pub(super) fn join(&self, last: &[u8], start: u64, out: &mut Vec<u8>) {
        out.clear();
        let before = self.0.iter().filter(|(at, _)| *at < start);
        before.for_each(|(_, bytes)| out.extend_from_slice(bytes));
        out.extend_from_slice(last);
        let behind = self.0.iter().filter(|(at, _)| *at >= start);
        behind.for_each(|(_, bytes)| out.extend_from_slice(bytes));
    }

    /// All ranges as one view, including the one that arrived last.
    pub(super) fn view<'a>(&'a self, last: &'a [u8], start: u64) -> Fetched<'a> {
        let mut runs: Vec<(u64, &[u8])> = self.0.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
        runs.push((start, last));
        runs.sort_by_key(|(at, _)| *at);
        Fetched::new(runs)
    }
}

impl Job<'_> {
    /// Decodes the part of a subchunk that the fetched bytes cover, and places its cells.
    pub(super) fn coded_part(&self, work: &Work, fetched: &Fetched<'_>, buffers: &mut Buffers) -> Result<()> {
        let len = self.chunk_bytes(work);
        if len > MAX_SUBCHUNK {
            return Err(self.damaged(work, work.piece.position, "a subchunk claims more than 16 MiB"));
        }
        let entry = self.entry(work);
        let logical = self.logical(work)?;
        let ranges = work.wanted(&self.form(work)?);
        let want = Want { ranges: &ranges, precision: work.precision };
        // A prefix begins with the metadata that the transform needs.
        let before = work.prefix.map_or(0, |prefix| prefix.length);
        let meta = match self.trailer(work) {
            Some(trailer) => trailer.meta.as_slice(),
            None => fetched.get(0..before).map_err(|e| self.undecodable(work, &e))?,
        };
        let stored =
            StoredSubchunk { len: before.saturating_add(work.piece.length), meta, decoded_len: len as usize };
        let chain = self.chain(work, buffers)?;
        buffers.holds = None;
        buffers.decoded.resize(len as usize, 0);
        chain
            .decode_part(&stored, fetched, &logical, &want, &mut buffers.decoded, &mut buffers.scratch)
            .map_err(|e| self.undecodable(work, &e))?;
        buffers.keep_chain(&entry.encoding.chain, chain);
        self.place_whole(&[work], &buffers.decoded, &mut buffers.unrolled)
    }
}
