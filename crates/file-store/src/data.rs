//! Data logs: appends with a checksum for each unit, and reads that are verified against the journal.
//!
//! Invariants
//! - published checksums cover a prefix of the log, and the bytes below it never change;
//! - bytes after that prefix are read only by the mount that appended them.

use std::sync::{Arc, Mutex};

use drystone_files::{Record, Sums};
use drystone_format::files::UNIT;
use drystone_format::{crc32c, keys};
use drystone_store::{Store, StoreExt};

use crate::{Failure, Result, locked};

/// A log that reaches this length gets a successor.
pub(crate) const ROLL: u64 = 64 << 20;
/// Number of verified units that are kept for reads of small extents.
const KEPT: usize = 64;

/// A data log that this mount writes.
pub(crate) struct DataLog {
    pub(crate) id: u64,
    pub(crate) end: u64,
    /// Bytes that survive a power cut.
    pub(crate) synced: u64,
    /// Bytes whose checksums are in the journal.
    pub(crate) journaled: u64,
    /// Whether no more bytes are appended.
    pub(crate) closed: bool,
    /// Number of appends whose extents are not in the state of the mount yet.
    pub(crate) pending: u32,
    /// Checksums of the complete units from `journaled / UNIT` on.
    whole: Vec<u32>,
    /// The bytes of the incomplete unit.
    tail: Vec<u8>,
}

impl DataLog {
    pub(crate) fn new(id: u64) -> Self {
        DataLog {
            id,
            end: 0,
            synced: 0,
            journaled: 0,
            closed: false,
            pending: 0,
            whole: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// Appends bytes, and returns their position. After an error the log is closed, since the bytes after its end are
    /// unknown.
    pub(crate) fn append(&mut self, store: &dyn Store, bytes: &[u8]) -> Result<u64> {
        let at = self.end;
        if let Err(error) = store.append(&keys::data_log(self.id), at, &[bytes]) {
            self.closed = true;
            return Err(error.into());
        }
        self.end += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            let now = rest.len().min(UNIT as usize - self.tail.len());
            let (part, behind) = rest.split_at(now);
            if now == UNIT as usize {
                self.whole.push(crc32c(part));
            } else {
                self.tail.extend_from_slice(part);
                if self.tail.len() == UNIT as usize {
                    self.whole.push(crc32c(&self.tail));
                    self.tail.clear();
                }
            }
            rest = behind;
        }
        Ok(at)
    }

    /// The record of the checksums that the journal does not have yet.
    pub(crate) fn new_sums(&self) -> Option<Record> {
        if self.journaled == self.end {
            return None;
        }
        let mut sums = self.whole.clone();
        if !self.tail.is_empty() {
            sums.push(crc32c(&self.tail));
        }
        Some(Record::Sums { log: self.id, first: self.journaled / UNIT, end: self.end, sums })
    }

    /// Records that the journal has the checksums up to `end`, which [`new_sums`](DataLog::new_sums) gave.
    pub(crate) fn sums_are_journaled(&mut self, end: u64) {
        let units = (end / UNIT - self.journaled / UNIT) as usize;
        self.whole.drain(..units.min(self.whole.len()));
        self.journaled = end;
    }
}

/// A range of a log to read, with the journal's checksums of its units.
pub(crate) struct Wanted {
    pub(crate) log: u64,
    pub(crate) position: u64,
    pub(crate) len: usize,
    /// Number of bytes of the log that have checksums.
    pub(crate) checked: u64,
    /// Checksums of the units that the range touches, as far as there are any.
    pub(crate) sums: Vec<u32>,
}

impl Wanted {
    pub(crate) fn new(log: u64, position: u64, len: usize, sums: Option<&Sums>) -> Self {
        let mut wanted = Wanted { log, position, len, checked: 0, sums: Vec::new() };
        if let Some(known) = sums {
            let (first, behind) = wanted.units();
            let behind = behind.min(known.units.len() as u64);
            wanted.checked = known.end;
            wanted.sums = known.units.get(first as usize..behind as usize).unwrap_or_default().to_vec();
        }
        wanted
    }

    /// The numbers of the first unit, and of the one after the last.
    fn units(&self) -> (u64, u64) {
        (self.position / UNIT, (self.position + self.len as u64).div_ceil(UNIT))
    }
}

/// A verified unit: its log, its number, its bytes.
type Verified = (u64, u64, Arc<Vec<u8>>);

/// Reads data logs.
#[derive(Default)]
pub(crate) struct Reader {
    kept: Mutex<Vec<Verified>>,
}

impl Reader {
    /// Reads the bytes of a range, and verifies those that have checksums.
    pub(crate) fn read(&self, store: &dyn Store, wanted: &Wanted, out: &mut [u8]) -> Result<()> {
        let (first, behind) = wanted.units();
        let small = behind - first == 1 && behind * UNIT <= wanted.checked;
        let begin = first * UNIT;
        let from = (wanted.position - begin) as usize;
        if small && let Some(unit) = self.kept(wanted.log, first) {
            out.copy_from_slice(&unit[from..from + wanted.len]);
            return Ok(());
        }
        let key = keys::data_log(wanted.log);
        let end = (behind * UNIT).min(wanted.checked).max(wanted.position + wanted.len as u64);
        let bytes = store.read_vec(&key, begin, (end - begin) as usize)?;
        for (number, sum) in wanted.sums.iter().enumerate() {
            let at = number * UNIT as usize;
            let to = (at as u64 + UNIT).min(wanted.checked - begin) as usize;
            if bytes.get(at..to).map(crc32c) != Some(*sum) {
                let what = "its bytes do not match their checksum".to_owned();
                return Err(Failure::Damaged { key, at: begin + at as u64, what });
            }
        }
        out.copy_from_slice(&bytes[from..from + wanted.len]);
        if small {
            let mut kept = locked(&self.kept);
            if kept.len() >= KEPT {
                kept.remove(0);
            }
            kept.push((wanted.log, first, Arc::new(bytes)));
        }
        Ok(())
    }

    fn kept(&self, log: u64, unit: u64) -> Option<Arc<Vec<u8>>> {
        let kept = locked(&self.kept);
        kept.iter().find(|(l, u, _)| (*l, *u) == (log, unit)).map(|(_, _, bytes)| bytes.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_files::State;
    use drystone_store::MemoryStore;

    #[test]
    fn checksums_told_in_any_pieces_cover_the_log() {
        let store = MemoryStore::new();
        let mut log = DataLog::new(1 << 32);
        let mut state = State::default();
        let mut all = Vec::new();
        for (number, len) in [1, 100, 16383, 1, 16384, 40000, 7, 16377, 50000].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + number) as u8).collect();
            assert_eq!(log.append(&store, &bytes).expect("memory takes it"), all.len() as u64);
            all.extend_from_slice(&bytes);
            if number % 2 == 1 {
                state.apply(&log.new_sums().expect("there are bytes"));
                log.sums_are_journaled(log.end);
                assert_eq!(log.new_sums(), None);
            }
            let reader = Reader::default();
            for (from, len) in [(0, all.len()), (all.len() / 3, all.len() / 2), (all.len() - 1, 1)] {
                let wanted = Wanted::new(log.id, from as u64, len, state.logs().get(&log.id));
                let mut out = vec![0; len];
                reader.read(&store, &wanted, &mut out).expect("sound bytes");
                assert_eq!(out, all[from..from + len]);
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let store = MemoryStore::new();
        let mut log = DataLog::new(5 << 32 | 1);
        log.append(&store, &[3; 40000]).expect("memory takes it");
        let mut state = State::default();
        state.apply(&log.new_sums().expect("there are bytes"));
        let mut bytes = vec![3; 40000];
        bytes[39000] ^= 1;
        store
            .put(&keys::data_log(log.id), &[&bytes], drystone_store::PutMode::Replace, false)
            .expect("memory");
        let read = |at, len| {
            let wanted = Wanted::new(log.id, at, len, state.logs().get(&log.id));
            Reader::default().read(&store, &wanted, &mut vec![0; len])
        };
        assert!(read(0, 100).is_ok());
        assert!(matches!(read(32768, 10), Err(Failure::Damaged { at: 32768, .. })));
    }
}
