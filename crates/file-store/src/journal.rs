//! Generations of the journal: follows the records of other mounts, and adds records.
//!
//! Generation G is an object to which one mount appends frames. Another mount that wants to write puts a claim on G+1;
//! frames that are appended to G after that do not count. Then it reads to the end of G and puts generation G+1, which
//! states how many bytes of G count. Exactly one such put succeeds. The writer of G looks for the claim after each
//! append: if there is none, its frame counts.
//!
//! Invariants
//! - the state results from all counting frames up to `end` of `generation`;
//! - a frame is applied only when it is certain that it counts;
//! - a mount that must be the only one that writes follows no generation of another mount: it fails from then on.

use std::time::{Duration, Instant};

use drystone_files::{Inode, Record, State};
use drystone_format::files::{self, Header};
use drystone_format::frame::{self, FrameKind, Next};
use drystone_format::keys::{self, FilesKey};
use drystone_store::{PutMode, Store, StoreError, StoreExt};

use crate::{Failure, Result};

/// A longer journal without a whole state is followed by one with a whole state.
const LONG: u64 = 1 << 20;
/// A journal that only one mount writes is followed by another when it is longer than this, and longer than four whole
/// states.
const ROTATE: u64 = 16 << 20;
/// How long a mount that has claimed a generation may take to put it, before another mount does.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most records in a frame of a whole state.
const TOGETHER: usize = 1024;

/// The position of a mount in the journal.
pub(crate) struct Journal {
    uuid: [u8; 16],
    /// The number of this mount; `None` if it only reads.
    me: Option<u32>,
    /// The generation; 0 if there is none yet.
    pub(crate) generation: u64,
    end: u64,
    ordinal: u64,
    /// Whether the generation is this mount's, and its end is known.
    own: bool,
    /// Bytes since the last whole state, and the length of that state.
    since_whole: u64,
    whole: u64,
    pub(crate) state: State,
    /// Inodes that records removed, for the caller.
    pub(crate) gone: Vec<(u64, Inode)>,
    /// The state before a new whole state is read.
    before: Option<State>,
    alone: Alone,
}

/// Whether a mount must be the only one that writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    No,
    Yes,
    /// It must, and it claimed a generation that it could not put, for example on a full disk. It puts the generation
    /// before it writes again, unless another mount has.
    Interrupted,
    /// It must, and another mount has begun to write.
    Fenced,
}

/// What became of a frame that was appended after a claim.
enum Settled {
    /// It counts, and has not been applied yet.
    Counts,
    /// It counts, and has been applied.
    Applied,
    /// It does not count.
    Lost,
}

/// A frame that was read: its end and its content.
struct Read {
    end: u64,
    records: Vec<Record>,
}

impl Journal {
    pub(crate) fn open(store: &dyn Store, uuid: [u8; 16], me: Option<u32>) -> Result<Self> {
        let mut journal = Journal {
            uuid,
            me,
            generation: 0,
            end: 0,
            ordinal: 0,
            own: false,
            since_whole: 0,
            whole: 0,
            state: State::default(),
            gone: Vec::new(),
            before: None,
            alone: Alone::No,
        };
        journal.load(store)?;
        journal.catch_up(store)?;
        Ok(journal)
    }

    /// Begins a generation of this mount, which must be the only one that writes. From then on, a generation of another
    /// mount is an error.
    pub(crate) fn alone(&mut self, store: &dyn Store) -> Result<()> {
        self.begin(store)?;
        self.alone = if self.own { Alone::Yes } else { Alone::Fenced };
        self.catch_up(store)
    }

    /// Another mount may write from now on. Returns whether that is news.
    pub(crate) fn fence(&mut self) -> bool {
        std::mem::replace(&mut self.alone, Alone::Fenced) != Alone::Fenced
    }

    /// The key of the journal that is written now.
    pub(crate) fn key(&self) -> String {
        keys::journal(self.generation)
    }

    /// Starts again from the newest generation that contains a whole state.
    fn load(&mut self, store: &dyn Store) -> Result<()> {
        let mut generations: Vec<u64> = Vec::new();
        for item in store.list(keys::FILES)? {
            if let Some(FilesKey::Journal(generation)) = keys::parse_files(&item.key) {
                generations.push(generation);
            }
        }
        (self.generation, self.own) = (0, false);
        self.forget();
        let mut first = None;
        for generation in generations.into_iter().rev() {
            let (header, end) = self.header(store, generation)?;
            if header.whole {
                first = Some((generation, end));
                break;
            }
        }
        if let Some((generation, end)) = first {
            (self.generation, self.end, self.ordinal) = (generation, end, 1);
            (self.since_whole, self.whole) = (0, store.len(&keys::journal(generation))?);
        }
        Ok(())
    }

    /// Starts again from an empty state; removed files are determined afterwards.
    fn forget(&mut self) {
        let old = std::mem::take(&mut self.state);
        self.before.get_or_insert(old);
    }

    fn header(&self, store: &dyn Store, generation: u64) -> Result<(Header, u64)> {
        let key = keys::journal(generation);
        let len = store.len(&key)?.min(256) as usize;
        let bytes = store.read_vec(&key, 0, len)?;
        let damaged = |what: &str| Failure::Damaged { key: key.clone(), at: 0, what: what.to_owned() };
        match frame::next(&bytes, 0, 0) {
            Next::Frame { header, payload, end } if header.kind == FrameKind::Files => {
                let header = Header::decode(payload).map_err(|e| Failure::damaged(&key, e))?;
                if header.uuid != self.uuid || header.generation != generation {
                    return Err(damaged("it belongs to another container or generation"));
                }
                Ok((header, end))
            }
            Next::Torn(corrupt) => Err(Failure::damaged(&key, corrupt)),
            _ => Err(damaged("it does not begin with its header")),
        }
    }

    /// Frames after `end`, up to byte `to` of the generation; fewer if one is torn.
    fn frames(&self, store: &dyn Store, to: u64) -> Result<Vec<Read>> {
        let mut out = Vec::new();
        if to <= self.end {
            return Ok(out);
        }
        let key = self.key();
        let bytes = store.read_vec(&key, self.end, (to - self.end) as usize)?;
        let (mut at, mut ordinal) = (0, self.ordinal);
        while let Next::Frame { header, payload, end } = frame::next(&bytes, at, ordinal) {
            if header.kind != FrameKind::Files {
                break;
            }
            let records = files::decode(payload).map_err(|e| Failure::damaged(&key, e))?;
            out.push(Read { end: self.end + end, records });
            at = end;
            ordinal += 1;
        }
        Ok(out)
    }

    fn take(&mut self, frames: Vec<Read>) {
        for read in frames {
            self.apply(&read.records);
            self.since_whole += read.end - self.end;
            self.end = read.end;
            self.ordinal += 1;
        }
    }

    fn apply(&mut self, records: &[Record]) {
        for record in records {
            let gone = self.state.apply(record);
            self.gone.extend(gone);
        }
    }

    /// Applies the records that other mounts have added.
    pub(crate) fn catch_up(&mut self, store: &dyn Store) -> Result<()> {
        let done = self.reach_end(store);
        if let Some(before) = self.before.take() {
            let gone = before.into_inodes().filter(|(ino, _)| self.state.get(*ino).is_none());
            self.gone.extend(gone);
        }
        done
    }

    fn reach_end(&mut self, store: &dyn Store) -> Result<()> {
        let begun = Instant::now();
        loop {
            if self.alone != Alone::No {
                let next = match self.alone {
                    Alone::Interrupted => keys::journal(self.generation + 1),
                    _ => keys::journal_claim(self.generation + 1),
                };
                if self.alone == Alone::Fenced || !self.own || store.exists(&next)? {
                    self.alone = Alone::Fenced;
                    return Err(Failure::Fenced);
                }
                return Ok(());
            }
            if self.generation == 0 {
                self.load(store)?;
                if self.generation == 0 {
                    return Ok(());
                }
            }
            // The length is read first: frames that exist before there is a claim count.
            let mut len = self.end;
            if !self.own {
                match store.len(&self.key()) {
                    Ok(now) => len = now,
                    Err(StoreError::NotFound { .. }) => {
                        // Whole states have followed since.
                        self.load(store)?;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if !store.exists(&keys::journal_claim(self.generation + 1))? && !self.followed(store)? {
                let frames = self.frames(store, len)?;
                self.take(frames);
                return Ok(());
            }
            if self.follow(store)? {
                continue;
            }
            if newest(store)? > self.generation {
                self.load(store)?;
            } else if begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            } else if self.me.is_some() {
                // The mount that claimed it died.
                self.begin(store)?;
            } else {
                // A reader shows only what is certain.
                return Ok(());
            }
        }
    }

    /// Whether the next generation exists although its claim does not: claims on old generations are removed.
    fn followed(&self, store: &dyn Store) -> Result<bool> {
        Ok(!self.own && store.exists(&keys::journal(self.generation + 1))?)
    }

    /// Moves to the next generation, if it exists.
    fn follow(&mut self, store: &dyn Store) -> Result<bool> {
        let next = self.generation + 1;
        let (header, end) = match self.header(store, next) {
            Ok(found) => found,
            Err(Failure::Store(StoreError::NotFound { .. })) => return Ok(false),
            Err(error) => return Err(error),
        };
        if header.whole {
            // It contains a whole state.
            self.forget();
            (self.since_whole, self.whole) = (0, store.len(&keys::journal(next))?);
        } else {
            let frames = self.frames(store, header.taken)?;
            let reached = frames.last().map_or(self.end, |read| read.end);
            if reached != header.taken {
                let what = format!("{} bytes of it count, and only {reached} are sound", header.taken);
                return Err(Failure::Damaged { key: self.key(), at: reached, what });
            }
            self.take(frames);
        }
        (self.generation, self.end, self.ordinal, self.own) = (next, end, 1, false);
        Ok(true)
    }

    /// Begins a generation of this mount, unless another mount does; then the journal stays where it is.
    fn begin(&mut self, store: &dyn Store) -> Result<()> {
        let done = self.claim_and_put(store);
        match (&done, self.alone) {
            (Err(_), Alone::Yes) => self.alone = Alone::Interrupted,
            (Ok(()), Alone::Interrupted) => self.alone = Alone::Yes,
            _ => {}
        }
        done
    }

    fn claim_and_put(&mut self, store: &dyn Store) -> Result<()> {
        let me = self.me.ok_or(Failure::ReadOnly)?;
        let (mut taken, mut pending) = (0, Vec::new());
        if self.generation > 0 {
            match store.put(&keys::journal_claim(self.generation + 1), &[], PutMode::IfAbsent, false) {
                Ok(()) | Err(StoreError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if !self.own {
                pending = self.frames(store, store.len(&self.key())?)?;
            }
            taken = pending.last().map_or(self.end, |read| read.end);
        }
        let long = self.since_whole + (taken - self.end.min(taken)) > LONG.max(self.whole.saturating_mul(2));
        let whole = self.generation == 0 || long;
        let next = self.generation + 1;
        let header = Header { uuid: self.uuid, generation: next, taken, mount: me, whole };
        let mut bytes = Vec::new();
        frame::push(&mut bytes, FrameKind::Files, 0, &header.encode());
        let mut ordinal = 1;
        if whole {
            let records = match pending.is_empty() {
                true => self.state.records(),
                false => {
                    let mut state = self.state.clone();
                    pending.iter().flat_map(|read| &read.records).for_each(|record| _ = state.apply(record));
                    state.records()
                }
            };
            for part in records.chunks(TOGETHER) {
                frame::push(&mut bytes, FrameKind::Files, ordinal, &files::encode(part));
                ordinal += 1;
            }
        }
        // Everything on which the new generation relies must be as durable as the new generation.
        if self.generation > 0 {
            store.sync(&[&self.key()])?;
        }
        match store.put(&keys::journal(next), &[&bytes], PutMode::IfAbsent, true) {
            Ok(()) => {}
            Err(StoreError::AlreadyExists { .. }) => {
                self.own = false;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.take(pending);
        (self.generation, self.end, self.ordinal, self.own) = (next, bytes.len() as u64, ordinal, true);
        if whole {
            (self.since_whole, self.whole) = (0, bytes.len() as u64);
            self.clear(store)?;
        }
        Ok(())
    }

    /// Removes generations that a whole state has made superfluous. The one before it stays, for mounts that still
    /// follow it.
    fn clear(&self, store: &dyn Store) -> Result<()> {
        for item in store.list(keys::FILES)? {
            if matches!(keys::parse_files(&item.key), Some(FilesKey::Journal(g)) if g + 1 < self.generation) {
                store.delete(&item.key)?;
            }
        }
        Ok(())
    }

    /// Adds the records that `make` gives for the newest state, as one frame, and applies them. `make` is called again
    /// if another mount was faster.
    pub(crate) fn commit(
        &mut self,
        store: &dyn Store,
        make: &mut dyn FnMut(&mut Journal) -> Result<Vec<Record>>,
    ) -> Result<()> {
        loop {
            self.catch_up(store)?;
            let records = make(self)?;
            if records.is_empty() {
                return Ok(());
            }
            let is_interrupted = self.alone == Alone::Interrupted;
            if !self.own || is_interrupted || self.end > ROTATE.max(self.whole.saturating_mul(4)) {
                self.begin(store)?;
                continue;
            }
            let mut bytes = Vec::new();
            frame::push(&mut bytes, FrameKind::Files, self.ordinal, &files::encode(&records));
            match store.append(&self.key(), self.end, &[&bytes]) {
                Ok(()) => {}
                Err(StoreError::NotFound { .. } | StoreError::Conflict { .. }) => {
                    self.own = false;
                    continue;
                }
                Err(error) => {
                    // It is unknown how much of the frame exists, so the next generation states that none of it counts.
                    if self.begin(store).is_err() && self.alone != Alone::Interrupted {
                        self.own = false;
                    }
                    return Err(error.into());
                }
            }
            let end = self.end + bytes.len() as u64;
            if store.exists(&keys::journal_claim(self.generation + 1))? {
                match self.settle(store, end)? {
                    Settled::Lost => continue,
                    Settled::Applied => {}
                    Settled::Counts => self.apply(&records),
                }
                return Ok(());
            }
            self.apply(&records);
            self.since_whole += bytes.len() as u64;
            (self.end, self.ordinal) = (end, self.ordinal + 1);
            return Ok(());
        }
    }

    /// Determines whether the frame that ends at `end` counts. Afterwards the journal is in the next generation.
    fn settle(&mut self, store: &dyn Store, end: u64) -> Result<Settled> {
        let begun = Instant::now();
        let next = self.generation + 1;
        loop {
            match self.header(store, next) {
                Ok((header, behind)) => {
                    let counts = header.taken >= end;
                    // Everything that this mount has applied counts, except perhaps the frame in question.
                    (self.generation, self.end, self.ordinal, self.own) = (next, behind, 1, false);
                    if header.whole {
                        self.forget();
                        (self.since_whole, self.whole) = (0, store.len(&keys::journal(next))?);
                        self.catch_up(store)?;
                    }
                    return Ok(match (counts, header.whole) {
                        (false, _) => Settled::Lost,
                        (true, true) => Settled::Applied,
                        (true, false) => Settled::Counts,
                    });
                }
                Err(Failure::Store(StoreError::NotFound { .. })) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Failure::Store(StoreError::NotFound { .. })) => {
                    // The claiming mount died: this mount continues, without the frame.
                    self.own = true;
                    self.begin(store)?;
                    if self.generation == next {
                        return Ok(Settled::Lost);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Number of the newest generation; 0 if there is none.
fn newest(store: &dyn Store) -> Result<u64> {
    let generation = |key: &str| match keys::parse_files(key) {
        Some(FilesKey::Journal(generation)) => Some(generation),
        _ => None,
    };
    Ok(store.list(keys::FILES)?.iter().filter_map(|item| generation(&item.key)).max().unwrap_or(0))
}
