//! Units that this process has open, each with the set of its verified blocks.
//!
//! Why: opening a file and computing checksums take longer than copying a short range. A unit never changes, so each of
//! its blocks is verified when its bytes are first used; later loads only copy the bytes.
//!
//! Invariants
//! - a block counts as verified only for the open file whose bytes were compared with the checksum;
//! - a file that has lost its name, because it was evicted or replaced, is no longer used;
//! - at most [`MOST`] files and [`MOST_BYTES`] bytes are kept open. An evicted file takes space until it is closed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use drystone_format::cache_unit::{BLOCK_LOG2, UnitHead};

/// The most units that a process keeps open for one folder.
const MOST: usize = 128;
/// The most bytes of the units that a process keeps open for one folder.
const MOST_BYTES: u64 = 256 << 20;
/// The number of blocks that one word of a set of blocks describes.
const WORD: usize = 64;

/// An open unit.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    file: File,
    head: UnitHead,
    /// Offset of the unit's bytes in the file.
    before: u64,
    /// The set of verified blocks.
    verified: Vec<AtomicU64>,
    used: AtomicU64,
}

/// The result of a load from an open unit.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// The bytes were copied.
    Sound,
    /// The file has no name any more.
    Gone,
    /// A checksum differs, or the file is too short.
    Damaged,
    /// The device reports an error.
    Failed(std::io::Error),
}

impl OpenUnit {
    /// Takes an open file whose head was verified; the head is `before` bytes long.
    pub(crate) fn new(file: File, head: UnitHead, before: u64) -> Self {
        let blocks = head.length.div_ceil(1 << BLOCK_LOG2) as usize;
        let verified = (0..blocks.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect();
        OpenUnit { file, head, before, verified, used: AtomicU64::new(0) }
    }

    /// Copies the bytes from offset `start` of the unit on. Verifies blocks that are not verified yet.
    pub(crate) fn load(&self, start: u64, out: &mut [u8]) -> Loaded {
        match rustix::fs::fstat(&self.file) {
            Ok(found) if found.st_nlink > 0 => {}
            Ok(_) => return Loaded::Gone,
            Err(error) => return Loaded::Failed(error.into()),
        }
        let end = start + out.len() as u64;
        let blocks = (start >> BLOCK_LOG2) as usize..end.div_ceil(1 << BLOCK_LOG2) as usize;
        if blocks.clone().all(|block| self.is_verified(block)) {
            return match self.file.read_exact_at(out, self.before + start) {
                Ok(()) => Loaded::Sound,
                Err(error) => failed(error),
            };
        }
        let mut bytes = Vec::new();
        for block in blocks {
            let from = (block as u64) << BLOCK_LOG2;
            let to = (from + (1 << BLOCK_LOG2)).min(self.head.length);
            bytes.resize((to - from) as usize, 0);
            if let Err(error) = self.file.read_exact_at(&mut bytes, self.before + from) {
                return failed(error);
            }
            if !self.head.is_sound(block, &bytes) {
                return Loaded::Damaged;
            }
            let (low, high) = (from.max(start), to.min(end));
            let wanted = bytes.get((low - from) as usize..(high - from) as usize);
            let place = out.get_mut((low - start) as usize..(high - start) as usize);
            match (wanted, place) {
                (Some(wanted), Some(place)) => place.copy_from_slice(wanted),
                _ => return Loaded::Damaged,
            }
            if let Some(word) = self.verified.get(block / WORD) {
                word.fetch_or(1 << (block % WORD), Ordering::Relaxed);
            }
        }
        Loaded::Sound
    }

    fn is_verified(&self, block: usize) -> bool {
        let word = self.verified.get(block / WORD);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (block % WORD) & 1 == 1)
    }
}

fn failed(error: std::io::Error) -> Loaded {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Loaded::Damaged,
        _ => Loaded::Failed(error),
    }
}

/// The open units of a folder.
#[derive(Debug, Default)]
pub(crate) struct OpenUnits {
    units: Mutex<Vec<Arc<OpenUnit>>>,
    clock: AtomicU64,
}

impl OpenUnits {
    /// Records that a unit was used.
    pub(crate) fn used(&self, unit: &OpenUnit) {
        unit.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Keeps a unit open, and closes those that were used least recently.
    pub(crate) fn keep(&self, unit: &Arc<OpenUnit>) {
        self.used(unit);
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        units.push(Arc::clone(unit));
        let mut closed = Vec::new();
        while units.len() > MOST || units.iter().map(|unit| unit.head.length).sum::<u64>() > MOST_BYTES {
            let oldest =
                (0..units.len()).min_by_key(|at| units.get(*at).map(|u| u.used.load(Ordering::Relaxed)));
            let Some(oldest) = oldest else { break };
            closed.push(units.swap_remove(oldest));
        }
        drop(units); // files are closed after the lock is released
    }

    /// Closes the files that have lost their names, so that their space becomes free.
    pub(crate) fn close_nameless(&self) {
        let named =
            |unit: &Arc<OpenUnit>| rustix::fs::fstat(&unit.file).is_ok_and(|found| found.st_nlink > 0);
        self.units.lock().unwrap_or_else(PoisonError::into_inner).retain(named);
    }

    /// Closes a unit.
    pub(crate) fn close(&self, unit: &Arc<OpenUnit>) {
        self.units.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, unit));
    }
}
