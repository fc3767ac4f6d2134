//! One part of a writer's log: its segment and the idx file beside it.

use drystone_format::frame::{self, FrameKind};
use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::log::{FileHeader, FileKind, GroupEntries, GroupHead, Rank};

use crate::Result;
use crate::base::random;
use crate::base::writer_process::Process;
use crate::container::Inner;
use crate::log::runs::Runs;
use crate::log::scan::{Group, Tail};
use crate::log::segment::Segment;

/// The longest end of an idx that is kept in memory; a longer one is read back.
const MOST_TAIL: usize = 64 << 10;

pub(super) struct Part {
    pub(super) number: u32,
    pub(super) segment: Segment,
    header: FileHeader,
    pub(super) idx_pending: Vec<u8>,
    /// The bytes that were handed to the store last, at the end of the idx.
    idx_last: Vec<u8>,
    /// The group whose only frame is `idx_pending`; `group_last` is the same for `idx_last`.
    group_pending: Option<Group>,
    group_last: Option<Group>,
    pub(super) idx_len: u64,
    pub(super) idx_frames: u64,
    /// The header of the idx is on stable storage.
    pub(super) header_synced: bool,
}

impl Part {
    /// An empty part that ends at about `limit` bytes.
    pub(super) fn new(inner: &Inner, header: &FileHeader, limit: u64) -> Self {
        let store = &inner.store;
        // Without runs, the sync of a step writes to one place of the disk; with runs, to one place per piece.
        let apart = inner.identity.durability != Durability::Durable && store.features().write_at;
        let runs = apart.then(|| Runs::new(limit));
        let mut idx_pending = Vec::new();
        frame::push(&mut idx_pending, FrameKind::File, 0, &header.encode());
        let segment_header = FileHeader { kind: FileKind::Segment, ..header.clone() };
        let segment = Segment::new(store.clone(), &segment_header, runs);
        let in_tier = inner.tiers.as_ref().is_some_and(|tiers| tiers.is_used());
        Part {
            number: header.part,
            segment: if in_tier { segment.in_tier() } else { segment },
            header: header.clone(),
            idx_pending,
            idx_last: Vec::new(),
            group_pending: None,
            group_last: None,
            idx_len: 0,
            idx_frames: 1,
            header_synced: false,
        }
    }

    pub(super) fn idx_push(&mut self, kind: FrameKind, payload: &[u8]) {
        self.group_pending = None;
        frame::push(&mut self.idx_pending, kind, self.idx_frames, payload);
        self.idx_frames += 1;
    }

    /// Adds the final frame of a group. A commit that follows at once then need not decode it again.
    pub(super) fn idx_push_last(&mut self, head: &GroupHead, entries: GroupEntries) {
        let alone = self.idx_pending.is_empty() && head.part == 0;
        self.idx_push(FrameKind::Group, &entries.encode(head));
        self.group_pending = entries.few().filter(|_| alone).map(|entries| Group::written(head, entries));
    }

    /// Hands pending frames to a store with append.
    pub(super) fn idx_flush(&mut self, inner: &Inner, writer: u64) -> Result<()> {
        if self.idx_pending.is_empty() {
            return Ok(());
        }
        inner.store.append(&keys::idx(writer, self.number), self.idx_len, &[&self.idx_pending])?;
        self.idx_was_handed_over();
        Ok(())
    }

    /// On stores without append: the idx as the object to put, and its key.
    pub(super) fn take_idx(&mut self, writer: u64) -> (String, Vec<u8>) {
        let bytes = self.idx_pending.clone();
        self.idx_was_handed_over();
        (keys::idx(writer, self.number), bytes)
    }

    fn idx_was_handed_over(&mut self) {
        self.idx_len += self.idx_pending.len() as u64;
        std::mem::swap(&mut self.idx_last, &mut self.idx_pending);
        self.group_last = self.group_pending.take();
        self.idx_pending.clear();
    }

    /// The end of the idx as it was handed to the store, if it is short.
    pub(super) fn tail(&self) -> Option<Tail> {
        let at = self.idx_len - self.idx_last.len() as u64;
        let (part, header) = (self.number, self.header.clone());
        let (bytes, group) = (&self.idx_last, self.group_last.clone());
        (bytes.len() <= MOST_TAIL).then(|| Tail { part, header, at, bytes: bytes.clone(), group })
    }

    /// The pending bytes that follow the end of the idx, joined with that end; `None` if they are long.
    pub(super) fn pending_tail(&self) -> Option<(u64, Tail)> {
        let (part, header, at) = (self.number, self.header.clone(), self.idx_len);
        let (bytes, group) = (&self.idx_pending, self.group_pending.clone());
        (!bytes.is_empty() && bytes.len() <= MOST_TAIL)
            .then(|| (at + bytes.len() as u64, Tail { part, header, at, bytes: bytes.clone(), group }))
    }
}

pub(super) fn header(
    inner: &Inner,
    id: u64,
    part: u32,
    run: u64,
    rank: Option<Rank>,
    fence: u64,
) -> FileHeader {
    FileHeader {
        kind: FileKind::Idx,
        uuid: inner.identity.uuid,
        id,
        part,
        run,
        rank,
        fence,
        time: random::now(),
        origin: random::origin(),
        process: Process::current().text(),
        base: inner.snapshot().version(),
    }
}
