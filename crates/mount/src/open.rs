//! An open view. It answers reads from pieces that were produced before, or produces the requested bytes.
//!
//! Invariant: if a longer piece cannot be produced, only the requested range is, so damage outside that range causes no
//! error.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use drystone::{Error, ErrorKind, Result};

use crate::ahead::{self, Seen, Way};
use crate::inodes::Node;
use crate::locks::locked;
use crate::pieces::{Part, Pieces};
use crate::room::with_room;
use crate::shown::Shown;

/// An open file.
pub(crate) struct Open {
    shown: Arc<Shown>,
    node: Node,
    /// Number of its inode.
    pub(crate) file: u64,
    size: u64,
    pub(crate) way: Way,
    pieces: Arc<Pieces>,
    reads: Mutex<Reads>,
}

#[derive(Default)]
struct Reads {
    /// The end of the previous read.
    before: Option<u64>,
    seen: Seen,
}

impl Open {
    pub(crate) fn new(
        shown: Arc<Shown>,
        node: Node,
        (file, size): (u64, u64),
        way: Way,
        pieces: Arc<Pieces>,
    ) -> Self {
        Open { shown, node, file, size, way, pieces, reads: Mutex::default() }
    }

    /// The observed reads.
    pub(crate) fn seen(&self) -> Seen {
        locked(&self.reads).seen
    }

    fn make(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let missing = || Error::new(ErrorKind::NotFound, "no such file");
        match &self.node {
            Node::Array { array, form, .. } => self.shown.read(*array, *form, offset, out),
            Node::Fragment(_, name) => self.shown.fragments.get(name).ok_or_else(missing)?.read(offset, out),
            Node::ZarrFile(_, path) => {
                let bytes = self.shown.zarr()?.bytes(path)?;
                let from = offset as usize;
                out.copy_from_slice(bytes.get(from..from + out.len()).ok_or_else(missing)?);
                Ok(())
            }
            _ => Err(missing()),
        }
    }

    fn make_timed(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let begun = Instant::now();
        self.make(offset, out)?;
        locked(&self.reads).seen.made(out.len() as u64, begun.elapsed());
        Ok(())
    }

    /// Reads a range, shorter at the end of the file, and passes its bytes to `give`. `for_mapping` says that the bytes
    /// fill pages that a program has mapped.
    pub(crate) fn read(
        self: &Arc<Self>,
        offset: u64,
        len: u32,
        for_mapping: bool,
        give: impl FnOnce(&[u8]),
    ) -> Result<()> {
        let asked = offset.min(self.size)..offset.saturating_add(len.into()).min(self.size);
        if asked.is_empty() {
            give(&[]);
            return Ok(());
        }
        let goes_on = {
            let mut reads = locked(&self.reads);
            reads.seen.read(asked.end - asked.start, for_mapping);
            let before = reads.before.replace(asked.end);
            ahead::goes_on(&asked, before)
        };
        let Some(parts) = self.parts(&asked, goes_on) else {
            return with_room((asked.end - asked.start) as usize, |room| {
                self.make_timed(asked.start, room)?;
                give(room);
                Ok(())
            });
        };
        if let Some(last) = parts.last().filter(|_| goes_on) {
            self.make_ahead(&last.piece);
        }
        match parts.as_slice() {
            [one] => give(one.bytes()),
            many => with_room((asked.end - asked.start) as usize, |room| {
                let mut rest = &mut *room;
                for part in many {
                    let (here, behind) = rest.split_at_mut(part.bytes().len());
                    here.copy_from_slice(part.bytes());
                    rest = behind;
                }
                give(room);
            }),
        }
        Ok(())
    }

    /// The parts of pieces that hold a range. Produces a piece now if it is longer than the range. `None` if the caller
    /// must produce the requested bytes.
    fn parts(&self, asked: &Range<u64>, goes_on: bool) -> Option<Vec<Part>> {
        if let Some(parts) = self.pieces.find(self.file, asked) {
            return Some(parts);
        }
        let range = match &self.node {
            // A chunk is decoded whole.
            Node::ZarrFile(..) => 0..self.size,
            _ => ahead::made(asked.clone(), goes_on, self.size),
        };
        if range == *asked {
            return None;
        }
        let mut making = self.pieces.begin(self.file, range)?;
        let start = making.range.start;
        self.make_timed(start, making.buffer()).ok()?;
        making.finish();
        self.pieces.find(self.file, asked)
    }

    /// Lets another thread produce the next piece, unless it exists or is being produced. If it fails, the read of that
    /// piece reports the error.
    fn make_ahead(self: &Arc<Self>, piece: &Range<u64>) {
        let Some(next) = ahead::next(piece, self.size) else { return };
        let Some(mut making) = self.pieces.begin(self.file, next) else { return };
        let open = self.clone();
        self.pieces.beside(move || {
            let start = making.range.start;
            if open.make_timed(start, making.buffer()).is_ok() {
                making.finish();
            }
        });
    }
}
