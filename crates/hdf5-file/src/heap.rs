//! The global heap: values of any length that attributes and chunks refer to.
//!
//! That of attributes is filled twice, the same way: once to learn how long it gets, and once, begun at its
//! address, for good.

use crate::padded;

/// Bytes of collections but the last, about.
const COLLECTION: usize = 64 << 10;
/// HDF5 reads no smaller one.
const LEAST: usize = 4096;
/// In front of a collection, and in front of each of its objects.
const HEAD: usize = 16;

/// Values, in collections behind each other.
#[derive(Debug)]
pub struct Heap {
    /// Address of the first collection.
    address: u64,
    /// Whole collections.
    done: Vec<u8>,
    /// The objects of the present one.
    now: Vec<u8>,
    many: u16,
}

impl Heap {
    pub(super) fn new() -> Self {
        Heap { address: 0, done: Vec::new(), now: Vec::new(), many: 0 }
    }

    /// An empty one that will stand at an address, relative to the superblock; a multiple of 8.
    pub fn at(address: u64) -> Self {
        Heap { address, ..Heap::new() }
    }

    /// Empties it; it will stand at an address.
    pub(super) fn begin(&mut self, address: u64) {
        *self = Heap::at(address);
    }

    /// Adds a value of this many elements; returns the reference to it, 16 bytes. That of an empty value refers
    /// to nothing.
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
        // What is left is said to be free, for which there must be room.
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

    /// All collections, to be laid down at the address.
    pub fn bytes(mut self) -> Vec<u8> {
        if self.many > 0 {
            self.close();
        }
        self.done
    }
}
