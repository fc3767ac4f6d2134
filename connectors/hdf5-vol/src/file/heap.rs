//! Where a file's catalogue and its values of variable length are.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Variable that holds the catalogue.
pub const CATALOGUE: &str = ".hdf5/catalogue";
/// Variable that holds values of variable length.
pub const HEAP: &str = ".hdf5/heap";

/// Values of variable length: the committed ones, and later ones.
#[derive(Default)]
pub struct Heap {
    /// Bytes in the container.
    pub(crate) stored: u64,
    /// Bytes that follow them.
    pub(crate) pending: Vec<u8>,
    /// How many of these stay, in a container that HDF5 programs did not write.
    pub(crate) fixed: usize,
    /// Pages of the container that were read.
    pub(crate) pages: BTreeMap<u64, Arc<Vec<u8>>>,
}
