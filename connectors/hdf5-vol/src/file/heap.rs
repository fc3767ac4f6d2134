//! The locations of a file's catalogue and of its values of variable length.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Variable that holds the catalogue.
pub const CATALOGUE: &str = ".hdf5/catalogue";
/// Variable that holds values of variable length.
pub const HEAP: &str = ".hdf5/heap";

/// Most bytes of variable length that are kept from earlier reads.
const KEPT: usize = 16 << 20;

/// Values of variable length: the committed ones, and later ones.
#[derive(Default)]
pub struct Heap {
    /// Bytes in the container that precede `pending`.
    pub(crate) stored: u64,
    /// Bytes that follow them: written and uncommitted, or read.
    pub(crate) pending: Vec<u8>,
    /// Pages of the container that were read.
    pub(crate) pages: BTreeMap<u64, Arc<Vec<u8>>>,
    /// The first bytes, those of attributes, if HDF5 programs did not write the container. Others come from reads.
    pub(crate) attributes: Option<Vec<u8>>,
}

impl Heap {
    /// The heap of a container that HDF5 programs did not write.
    pub(super) fn of_attributes(bytes: Vec<u8>) -> Heap {
        Heap { stored: bytes.len() as u64, attributes: Some(bytes), ..Heap::default() }
    }

    /// Called when a program starts a read. Drops values of earlier reads, which the library has converted, once they
    /// take too much memory. An offset is not used again, so an old reference leads to an error, never to other bytes.
    pub(super) fn begin_read(&mut self) {
        if self.attributes.is_some() && self.pending.len() > KEPT {
            self.stored += self.pending.len() as u64;
            self.pending.clear();
        }
    }
}
