//! Where a file's catalogue and its values of variable length are.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Variable that holds the catalogue.
pub const CATALOGUE: &str = ".hdf5/catalogue";
/// Variable that holds values of variable length.
pub const HEAP: &str = ".hdf5/heap";

/// Most bytes of variable length that are kept of earlier reads.
const KEPT: usize = 16 << 20;

/// Values of variable length: the committed ones, and later ones.
#[derive(Default)]
pub struct Heap {
    /// Bytes in the container, or before `pending`.
    pub(crate) stored: u64,
    /// Bytes that follow them: written and not committed, or read.
    pub(crate) pending: Vec<u8>,
    /// Pages of the container that were read.
    pub(crate) pages: BTreeMap<u64, Arc<Vec<u8>>>,
    /// The first bytes, those of attributes, where HDF5 programs did not write the container. Others are read.
    pub(crate) attributes: Option<Vec<u8>>,
}

impl Heap {
    /// That of a container that HDF5 programs did not write.
    pub(super) fn of_attributes(bytes: Vec<u8>) -> Heap {
        Heap { stored: bytes.len() as u64, attributes: Some(bytes), ..Heap::default() }
    }

    /// A program begins to read: the values of earlier reads, which the library has converted, are dropped once
    /// they are many. A place is not used again, so an old reference leads to an error, never to other bytes.
    pub(super) fn begin_read(&mut self) {
        if self.attributes.is_some() && self.pending.len() > KEPT {
            self.stored += self.pending.len() as u64;
            self.pending.clear();
        }
    }
}
