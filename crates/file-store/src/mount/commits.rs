//! Commits: records for the newest state, after earlier writes, and syncs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use drystone_files::{Extent, Inode, Record, State};
use drystone_format::files::MOST_EXTENTS;
use drystone_format::keys;
use drystone_store::StoreError;

use super::Files;
use super::known::{Core, Noted};
use crate::data::DataLog;
use crate::{Failure, Result, locked};

impl Files {
    /// Commits the writes to a file: other mounts see them, and they survive the end of this process.
    pub fn commit(&self, ino: u64) -> Result<()> {
        if !locked(&self.core).noted.contains_key(&ino) {
            return Ok(());
        }
        if self.durable {
            self.sync_data()?;
        }
        self.change_file(ino, |_| Ok(Vec::new())).map(drop)?;
        if self.durable { self.sync_journal() } else { Ok(()) }
    }

    /// Commits the writes to a file, and makes everything committed survive a power cut.
    pub fn sync(&self, ino: Option<u64>) -> Result<()> {
        if self.me.is_none() {
            return Ok(());
        }
        self.sync_data()?;
        if let Some(ino) = ino
            && locked(&self.core).noted.contains_key(&ino)
        {
            self.change_file(ino, |_| Ok(Vec::new())).map(drop)?;
        }
        self.sync_journal()
    }

    pub(crate) fn sync_data(&self) -> Result<()> {
        let logs: Vec<_> = locked(&self.logs).values().cloned().collect();
        let mut ends = Vec::new();
        for log in logs {
            let open = locked(&log);
            if open.end > open.synced {
                ends.push((keys::data_log(open.id), open.end, log.clone()));
            }
        }
        let names: Vec<&str> = ends.iter().map(|(key, ..)| key.as_str()).collect();
        if !names.is_empty() {
            self.store.sync(&names)?;
        }
        for (_, end, log) in &ends {
            let mut open = locked(log);
            open.synced = open.synced.max(*end);
        }
        Ok(())
    }

    pub(crate) fn sync_journal(&self) -> Result<()> {
        let key = {
            let core = locked(&self.core);
            (core.journal.generation > 0).then(|| core.journal.key())
        };
        match key.map(|key| self.store.sync(&[&key])) {
            // A whole state has replaced it, and was synced before.
            None | Some(Ok(()) | Err(StoreError::NotFound { .. })) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Changes the state by records that are made for the newest state.
    pub(super) fn change(
        &self,
        mut make: impl FnMut(&State) -> Result<Vec<Record>>,
    ) -> Result<MutexGuard<'_, Core>> {
        if self.me.is_none() {
            return Err(Failure::ReadOnly);
        }
        let mut core = locked(&self.core);
        core.journal.commit(self.store.as_ref(), &mut |journal| make(&journal.state))?;
        core.sort_out();
        Ok(core)
    }

    /// Changes a file by records that are made for its newest state, after its pending writes.
    pub(super) fn change_file(
        &self,
        ino: u64,
        mut make: impl FnMut(&Inode) -> Result<Vec<Record>>,
    ) -> Result<MutexGuard<'_, Core>> {
        if self.me.is_none() {
            let core = self.newest()?;
            return if make(core.inode(ino)?)?.is_empty() { Ok(core) } else { Err(Failure::ReadOnly) };
        }
        let mut guard = locked(&self.core);
        let core = &mut *guard;
        let mut journaled = Vec::new();
        if !core.orphans.contains_key(&ino) {
            let Core { journal, noted, .. } = core;
            let written = noted.get(&ino);
            journal.commit(self.store.as_ref(), &mut |journal| {
                journaled.clear();
                let Some(inode) = journal.state.get(ino) else { return Ok(Vec::new()) };
                let mut records = Vec::new();
                let Some(written) = written else { return make(inode) };
                self.flushed(ino, written, &mut records, &mut journaled);
                if written.kept {
                    records.push(Record::Attrs { ino, attrs: inode.attrs });
                }
                let behind = inode.behind(&records);
                records.extend(make(&behind)?);
                Ok(records)
            })?;
            if journal.state.get(ino).is_some() {
                noted.remove(&ino);
            }
            for (log, end) in journaled {
                locked(&log).sums_are_journaled(end);
            }
        }
        core.sort_out();
        if let Some(orphan) = core.orphans.get_mut(&ino) {
            let records = make(orphan)?;
            records.iter().for_each(|record| orphan.change(record));
        }
        Ok(guard)
    }

    /// The records of the pending writes to a file, after the checksums of their logs.
    pub(super) fn flushed(
        &self,
        ino: u64,
        written: &Noted,
        records: &mut Vec<Record>,
        journaled: &mut Vec<(Arc<Mutex<DataLog>>, u64)>,
    ) {
        let extents: Vec<Extent> = written.extents.iter().collect();
        let names: HashSet<u64> = extents.iter().map(|extent| extent.log).collect();
        let logs = locked(&self.logs);
        for log in names.iter().filter_map(|name| logs.get(name)) {
            let open = locked(log);
            if let Some(record) = open.new_sums() {
                journaled.push((log.clone(), open.end));
                records.push(record);
            }
        }
        for part in extents.chunks(MOST_EXTENTS) {
            records.push(Record::Extents { ino, mtime: written.mtime, extents: part.to_vec() });
        }
    }
}
