//! Contents of files: open files, reads, writes, lengths and holes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use drystone_files::{Content, Extent, Inode, Record, Refused, SetAttrs, fits};
use drystone_store::StoreError;

use super::{Files, Stat, now};
use crate::data::{DataLog, ROLL, Wanted};
use crate::{Failure, Result, locked};

/// Most attempts of a read whose log is removed meanwhile.
const ATTEMPTS: usize = 3;

/// An open file.
pub struct Handle {
    ino: u64,
    log: Mutex<Option<Arc<Mutex<DataLog>>>>,
}

impl Handle {
    /// The inode.
    pub fn ino(&self) -> u64 {
        self.ino
    }
}

impl Files {
    /// Sets attributes and the length.
    pub fn set(&self, ino: u64, set: SetAttrs, size: Option<u64>) -> Result<Stat> {
        let time = now();
        let size = size.map(|size| fits(Some(size))).transpose()?;
        let any = set != SetAttrs::default();
        let core = self.change_file(ino, |inode| {
            let mut records = Vec::new();
            if let Some(size) = size {
                if !matches!(inode.content, Content::File { .. }) {
                    return Err(Refused::IsFolder.into());
                }
                records.push(Record::Size { ino, size, time });
            }
            if any {
                let mut attrs = inode.attrs;
                if size.is_some() {
                    attrs.mtime = time;
                }
                records.push(Record::Attrs { ino, attrs: set.on(attrs, time) });
            }
            Ok(records)
        })?;
        core.stat(ino)
    }

    /// Extends a file to `end` bytes if it is shorter.
    pub fn extend(&self, ino: u64, end: u64) -> Result<()> {
        let (time, end) = (now(), fits(Some(end))?);
        let grow = |inode: &Inode| {
            Ok(if inode.size() < end { vec![Record::Size { ino, size: end, time }] } else { Vec::new() })
        };
        self.change_file(ino, grow).map(|_| ())
    }

    /// Turns a range into zeros. With `extend`, a shorter file is extended to the end of the range.
    pub fn zero(&self, ino: u64, offset: u64, len: u64, extend: bool) -> Result<()> {
        let time = now();
        let end = fits(offset.checked_add(len))?;
        let core = self.change_file(ino, |inode| {
            let mut records = Vec::new();
            if len > 0 {
                records.push(Record::Hole { ino, offset, len, time });
            }
            if extend && inode.size() < end {
                records.push(Record::Size { ino, size: end, time });
            }
            Ok(records)
        })?;
        drop(core);
        Ok(())
    }

    /// The offset of the next data (or hole) at or after an offset; `None` if there is none before the end.
    pub fn seek(&self, ino: u64, offset: u64, data: bool) -> Result<Option<u64>> {
        let core = self.change_file(ino, |_| Ok(Vec::new()))?;
        let Content::File { size, extents } = &core.inode(ino)?.content else {
            return Err(Refused::Invalid.into());
        };
        if offset >= *size {
            return Ok(None);
        }
        Ok(match data {
            true => extents.next_data(offset),
            false => Some(extents.next_hole(offset).min(*size)),
        })
    }

    /// Opens a file.
    pub fn open_file(&self, ino: u64) -> Result<Handle> {
        let mut core = self.newest()?;
        match core.inode(ino)?.content {
            Content::File { .. } => {}
            _ => return Err(Refused::IsFolder.into()),
        }
        core.keep(ino);
        Ok(Handle { ino, log: Mutex::new(None) })
    }

    /// Closes a file and commits its writes. The file is closed even after an error.
    pub fn close(&self, handle: &Handle) -> Result<()> {
        let done = self.commit(handle.ino);
        if let Some(log) = locked(&handle.log).take() {
            locked(&self.free).push(log);
        }
        self.forget(handle.ino, 1);
        done
    }

    /// Reads bytes of a file from `offset` on. Returns the number of bytes.
    pub fn read(&self, ino: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // Another mount may have committed since this file was opened. A program that knows of the commit must read
            // the new bytes.
            let (len, wanted) = self.newest()?.wanted(ino, offset, out.len())?;
            match self.fill(&wanted, &mut out[..len]) {
                Ok(()) => return Ok(len),
                // The log was removed, since its bytes were moved meanwhile.
                Err(Failure::Store(StoreError::NotFound { .. })) if attempt < ATTEMPTS => {}
                Err(Failure::Store(StoreError::NotFound { .. })) if locked(&self.core).is_orphan(ino) => {
                    return Err(Failure::Stale);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&self, wanted: &[(usize, usize, Option<Wanted>)], out: &mut [u8]) -> Result<()> {
        for (from, to, place) in wanted {
            match place {
                Some(wanted) => self.reader.read(self.store.as_ref(), wanted, &mut out[*from..*to])?,
                None => out[*from..*to].fill(0),
            }
        }
        Ok(())
    }

    /// Writes bytes at an offset, or at the end of the file.
    pub fn write(&self, handle: &Handle, at: Option<u64>, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = at.is_none().then(|| locked(&self.append));
        let ino = handle.ino;
        let offset = match at {
            Some(offset) => offset,
            // Behind what other mounts have committed. A look costs a request of a far store.
            None if self.is_alone() || self.store.features().far.is_some() => {
                locked(&self.core).stat(ino)?.size
            }
            None => self.newest()?.stat(ino)?.size,
        };
        fits(offset.checked_add(bytes.len() as u64))?;
        let (log, position) = self.append(handle, bytes)?;
        let id = locked(&log).id;
        let extent = Extent { offset, len: bytes.len() as u64, log: id, position };
        let full = {
            let mut core = locked(&self.core);
            let noted = core.note(ino, extent, !self.is_alone());
            locked(&log).pending -= 1;
            noted?
        };
        if full { self.commit(ino) } else { Ok(()) }
    }

    /// Appends bytes to a log. A mount that is alone gets the writes of all handles from the kernel through any one of
    /// them, so there each takes the log that is free.
    fn append(&self, handle: &Handle, bytes: &[u8]) -> Result<(Arc<Mutex<DataLog>>, u64)> {
        if !self.is_alone() {
            return self.append_to(&mut locked(&handle.log), bytes);
        }
        let mut free = locked(&self.free).pop();
        let appended = self.append_to(&mut free, bytes);
        locked(&self.free).extend(free);
        appended
    }

    /// Appends bytes to a log, or to the next one if it is full.
    fn append_to(
        &self,
        mine: &mut Option<Arc<Mutex<DataLog>>>,
        bytes: &[u8],
    ) -> Result<(Arc<Mutex<DataLog>>, u64)> {
        loop {
            let log = match &mine {
                Some(log) => log.clone(),
                None => mine.insert(self.free_log()?).clone(),
            };
            let mut open = locked(&log);
            if open.closed || open.end >= ROLL {
                open.closed = true;
                self.rolled.store(true, Ordering::Relaxed);
                *mine = None;
                continue;
            }
            // Other threads with this handle append after it.
            let position = open.append(self.store.as_ref(), bytes)?;
            open.pending += 1;
            drop(open);
            return Ok((log, position));
        }
    }

    fn free_log(&self) -> Result<Arc<Mutex<DataLog>>> {
        if let Some(log) = locked(&self.free).pop() {
            return Ok(log);
        }
        let me = self.me.as_ref().ok_or(Failure::ReadOnly)?;
        let id = u64::from(me.id) << 32 | u64::from(self.next_log.fetch_add(1, Ordering::Relaxed));
        let log = Arc::new(Mutex::new(DataLog::new(id)));
        locked(&self.logs).insert(id, log.clone());
        Ok(log)
    }
}
