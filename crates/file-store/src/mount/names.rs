//! Names of files: looks them up, creates, moves and removes them, and changes their attributes.

use std::sync::atomic::Ordering;

use drystone_files::{Body, Owner, ROOT, Refused};

use super::{Files, Stat, now};
use crate::{Result, locked};

impl Files {
    /// The attributes of an inode.
    pub fn stat(&self, ino: u64) -> Result<Stat> {
        self.newest()?.stat(ino)
    }

    /// An entry of a folder. Its inode is in use until [`Files::forget`]: a program that looked a name up reads what
    /// it found, also if another file has that name by now.
    pub fn entry(&self, folder: u64, name: &[u8]) -> Result<Stat> {
        let mut core = self.newest()?;
        let state = &core.journal.state;
        if state.get(folder).is_some() && state.entries(folder).is_none() {
            return Err(Refused::NotFolder.into());
        }
        let ino = state.entry(folder, name).ok_or(Refused::Missing)?;
        let stat = core.stat(ino)?;
        core.keep(ino);
        Ok(stat)
    }

    /// Ends `times` uses of an inode, each of which [`Files::entry`] or [`Files::make`] began.
    pub fn forget(&self, ino: u64, times: u64) {
        if locked(&self.core).release(ino, times) {
            self.rolled.store(true, Ordering::Relaxed);
        }
    }

    /// The entries of a folder, with their attributes.
    pub fn entries(&self, folder: u64) -> Result<Vec<(Vec<u8>, Stat)>> {
        let core = self.newest()?;
        let entries = core.journal.state.entries(folder).ok_or(Refused::NotFolder)?;
        entries.iter().map(|(name, ino)| Ok((name.clone(), core.stat(*ino)?))).collect()
    }

    /// The parent of a folder.
    pub fn parent(&self, folder: u64) -> u64 {
        locked(&self.core).journal.state.parent(folder).unwrap_or(ROOT)
    }

    /// Creates an entry in a folder. Its inode is in use until [`Files::forget`].
    pub fn make(&self, folder: u64, name: &[u8], body: Body, mode: u32, owner: Owner) -> Result<Stat> {
        let time = now();
        let mut made = 0;
        let mut core = self.change(|state| {
            made = state.next();
            Ok(vec![state.make(folder, name, body.clone(), mode, owner, time)?])
        })?;
        let stat = core.stat(made)?;
        core.keep(made);
        Ok(stat)
    }

    /// Removes an entry of a folder.
    pub fn remove(&self, parent: u64, name: &[u8], folder: bool) -> Result<()> {
        let time = now();
        self.change(|state| Ok(vec![state.remove(parent, name, folder, time)?])).map(|_| ())
    }

    /// Moves an entry. With `exchange` the two entries are exchanged; with `keep` an existing target is an error.
    pub fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), exchange: bool, keep: bool) -> Result<()> {
        let time = now();
        self.change(|state| Ok(state.moved(from, to, (exchange, keep), time)?.into_iter().collect()))
            .map(|_| ())
    }

    /// Sets or removes an extended attribute.
    pub fn set_attribute(
        &self,
        ino: u64,
        name: &[u8],
        value: Option<&[u8]>,
        only: (bool, bool),
    ) -> Result<()> {
        self.change(|state| Ok(vec![state.attribute(ino, name, value, only)?])).map(|_| ())
    }

    /// The extended attributes.
    pub fn attributes(&self, ino: u64) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let core = self.newest()?;
        Ok(core.inode(ino)?.xattrs.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}
