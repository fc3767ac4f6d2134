//! The global heap: values of any length that attributes and chunks refer to.
//!
//! The heap of attributes is filled twice in the same way: once to determine its length, and then, at its final
//! address, to be written.

use crate::padded;

/// Approximate length of every collection but the last.
const COLLECTION: usize = 64 << 10;
/// The least length of a collection that HDF5 reads.
const LEAST: usize = 4096;
/// Bytes of the head of a collection, and of each of its objects.
const HEAD: usize = 16;

/// Values, in consecutive collections.
#[derive(Debug)]
pub struct Heap {
    /// Address of the first collection.
    address: u64,
    /// Complete collections.
    done: Vec<u8>,
    /// The objects of the current collection.
    now: Vec<u8>,
    many: u16,
}

impl Heap {
    pub(super) fn new() -> Self {
        Heap { address: 0, done: Vec::new(), now: Vec::new(), many: 0 }
    }

    /// An empty heap for an address relative to the superblock, which must be a multiple of 8.
    pub fn at(address: u64) -> Self {
        Heap { address, ..Heap::new() }
    }

    /// Empties the heap and sets its address.
    pub(super) fn begin(&mut self, address: u64) {
        *self = Heap::at(address);
    }

    /// Adds a value of this many elements; returns the 16 bytes of the reference to it. The reference of an empty value
    /// refers to nothing.
    pub fn put(&mut self, count: u32, bytes: &[u8]) -> Vec<u8> {
        if bytes.is_empty() {
            return vec![0; 16];
        }
        if self.many > 0 && HEAD + self.now.len() + bytes.len() > COLLECTION {
            self.close();
        }
        self.many += 1;
        self.now.extend_from_slice(&self.many.to_le_bytes());
        self.now.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
        self.now.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.now.extend_from_slice(bytes);
        self.now.resize(padded(self.now.len() as u64) as usize, 0);
        let address = self.address + self.done.len() as u64;
        let mut out = count.to_le_bytes().to_vec();
        out.extend_from_slice(&address.to_le_bytes());
        out.extend_from_slice(&u32::from(self.many).to_le_bytes());
        out
    }

    fn close(&mut self) {
        let used = HEAD + self.now.len();
        // The rest of a collection is marked as free, for which there must be space.
        let len = if used + HEAD <= LEAST { LEAST } else { used };
        self.done.extend_from_slice(b"GCOL\x01\0\0\0");
        self.done.extend_from_slice(&(len as u64).to_le_bytes());
        self.done.append(&mut self.now);
        if len > used {
            self.done.extend_from_slice(&[0; 8]);
            self.done.extend_from_slice(&((len - used) as u64).to_le_bytes());
            self.done.resize(self.done.len() + len - used - HEAD, 0);
        }
        self.many = 0;
    }

    /// All collections, to be written at the address.
    pub fn bytes(mut self) -> Vec<u8> {
        if self.many > 0 {
            self.close();
        }
        self.done
    }
}
