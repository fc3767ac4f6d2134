//! Drains one part as a whole. Each byte is read once and sent once, and the bytes are checked against the part's CRC.
//!
//! Invariants
//! - the home store has nothing of a part, a prefix of it, or all of it, so that a drain can continue after a kill;
//! - only one thread of this process drains a part at a time.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};

use crc_fast::{CrcAlgorithm, Digest};
use drystone_store::{BoundedUpload, PutMode, Result, Store, StoreError, StoreExt};

use super::TieredStore;
use super::node_copies::is_gone;
use crate::registry::guard;
use crate::staged::Staged;

/// A longer part is sent in pieces of this length, so that a drain needs little memory.
pub(super) const PIECE: u64 = 8 << 20;

/// Number of pieces of a part that are under way at once.
pub(super) const PIECES_UNDER_WAY: usize = 3;

/// Parts that are being moved.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    keys: Mutex<BTreeSet<String>>,
    moved: Condvar,
}

/// A part that is being moved, until this is dropped.
struct Move<'a>(&'a Moving, &'a str);

impl Moving {
    /// Waits until no other thread moves the part.
    fn begin<'a>(&'a self, key: &'a str) -> Move<'a> {
        let mut keys = guard(&self.keys);
        while keys.contains(key) {
            keys = self.moved.wait(keys).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        keys.insert(key.to_owned());
        Move(self, key)
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        guard(&self.0.keys).remove(self.1);
        self.0.moved.notify_all();
    }
}

/// The CRC of a part, computed while its bytes are copied, and the wanted one.
struct Checked {
    sum: Digest,
    wanted: Option<u32>,
}

impl Checked {
    fn of(one: &Staged) -> Self {
        Checked { sum: Digest::new(CrcAlgorithm::Crc32Iscsi), wanted: one.crc() }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.sum.update(bytes);
    }

    fn is_right(&self) -> bool {
        self.wanted.is_none_or(|wanted| wanted == self.sum.finalize() as u32)
    }
}

const OTHERS: &str = "its bytes are not those that were written";

impl TieredStore {
    /// Copies the whole part to the home store, unless it is there.
    pub fn drain_part(&self, key: &str) -> Result<()> {
        let _move = self.moving.begin(key);
        let Some(one) = self.find(key) else { return Ok(()) };
        if one.is_home() {
            return Ok(());
        }
        let features = self.home.features();
        let long = one.len > PIECE;
        let copied = if long && features.uploads {
            self.upload_to_home(key, &one)
        } else if features.append && (long || one.home.is_some()) {
            self.append_to_home(key, &one)
        } else {
            self.put_to_home(key, &one)
        };
        match copied {
            Err(StoreError::NotFound { .. } | StoreError::ShortRead { .. }) if self.is_lost(key, &one) => {
                return Err(match self.registered_now(key)? {
                    Some(said) => self.not_yet_home(key, &said),
                    None => self.damaged(key, one.tier, "its tier does not have it any more"),
                });
            }
            copied => copied?,
        }
        if let Some(now) = self.lock().get_mut(key) {
            now.home = Some(one.len);
        }
        Ok(())
    }

    /// Whether the part's tier no longer has it.
    fn is_lost(&self, key: &str, one: &Staged) -> bool {
        self.tiers().get(one.tier).is_none_or(|tier| is_gone(tier.store.as_ref(), key, one.len))
    }

    /// Copies it as one object.
    fn put_to_home(&self, key: &str, one: &Staged) -> Result<()> {
        let mut bytes = self.tier(one.tier, key)?.doing(|store| store.read_all(key, u64::MAX))?;
        // If the part has grown since, only the bytes that are known in `one` are copied.
        bytes.truncate(usize::try_from(one.len).unwrap_or(usize::MAX));
        let mut checked = Checked::of(one);
        checked.add(&bytes);
        if !checked.is_right() {
            return Err(self.damaged(key, one.tier, OTHERS));
        }
        let mode = if one.home.is_some() { PutMode::Replace } else { PutMode::IfAbsent };
        match self.home.put(key, &[&bytes], mode, false) {
            Ok(()) => Ok(()),
            Err(StoreError::AlreadyExists { .. }) => {
                let there = self.home.read_all(key, u64::MAX)?;
                if there == bytes {
                    return Ok(());
                }
                if bytes.starts_with(&there) && self.home.features().append {
                    return self.home.append(key, there.len() as u64, &[&bytes[there.len()..]]);
                }
                Err(self.damaged(key, one.tier, "home has another object of that name"))
            }
            Err(other) => Err(other),
        }
    }

    /// Uploads it in pieces. The object appears after the last piece.
    fn upload_to_home(&self, key: &str, one: &Staged) -> Result<()> {
        let mut checked = Checked::of(one);
        let mut upload = BoundedUpload::begin(self.home.as_ref(), key, PIECES_UNDER_WAY)?;
        for (at, len) in pieces(0, one.len) {
            let bytes = self.tier(one.tier, key)?.doing(|store| store.read_vec(key, at, len))?;
            checked.add(&bytes);
            upload.add(bytes)?;
        }
        if !checked.is_right() {
            return Err(self.damaged(key, one.tier, OTHERS));
        }
        match upload.finish().0.wait() {
            Ok(_) => Ok(()),
            Err(StoreError::AlreadyExists { .. }) if self.home.len(key)? == one.len => {
                self.compare(key, one, one.len)
            }
            Err(other) => Err(other),
        }
    }

    /// Appends pieces to the prefix that the home store has.
    fn append_to_home(&self, key: &str, one: &Staged) -> Result<()> {
        let there = match self.home.len(key) {
            Ok(len) => len,
            Err(StoreError::NotFound { .. }) => 0,
            Err(other) => return Err(other),
        };
        if there > one.len {
            return Err(self.damaged(key, one.tier, "home has a longer object of that name"));
        }
        let mut checked = Checked::of(one);
        for (at, len) in pieces(0, there) {
            let bytes = self.tier(one.tier, key)?.doing(|store| store.read_vec(key, at, len))?;
            checked.add(&bytes);
            if self.home.read_vec(key, at, len)? != bytes {
                return self.replace_at_home(key, one);
            }
        }
        for (at, len) in pieces(there, one.len) {
            let bytes = self.tier(one.tier, key)?.doing(|store| store.read_vec(key, at, len))?;
            checked.add(&bytes);
            if at + len as u64 == one.len && !checked.is_right() {
                return Err(self.damaged(key, one.tier, OTHERS));
            }
            self.home.append(key, at, &[&bytes])?;
        }
        Ok(())
    }

    /// Replaces the prefix at home if it differs, for example after a power cut.
    fn replace_at_home(&self, key: &str, one: &Staged) -> Result<()> {
        self.put_to_home(key, &Staged { home: Some(0), ..one.clone() })
    }

    /// Fails unless the home store has the same first `len` bytes.
    fn compare(&self, key: &str, one: &Staged, len: u64) -> Result<()> {
        for (at, len) in pieces(0, len) {
            let near = self.tier(one.tier, key)?.doing(|store| store.read_vec(key, at, len))?;
            if self.home.read_vec(key, at, len)? != near {
                return Err(self.damaged(key, one.tier, "home has another object of that name"));
            }
        }
        Ok(())
    }

    fn damaged(&self, key: &str, tier: usize, what: &str) -> StoreError {
        StoreError::Io {
            key: key.to_owned(),
            store: self.tiers().get(tier).map_or_else(|| self.describe(), |tier| tier.store.describe()),
            operation: "drain",
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("{what}; keep the tier's folder and run recover()"),
            ),
        }
    }
}

/// The pieces of a range: offset and length of each.
fn pieces(from: u64, to: u64) -> impl Iterator<Item = (u64, usize)> {
    let piece = PIECE as usize;
    (from..to)
        .step_by(piece)
        .map(move |at| (at, usize::try_from(to - at).map_or(piece, |rest| rest.min(piece))))
}
