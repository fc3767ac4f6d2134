//! Writes HDF5 files: the metadata that turns existing bytes into an HDF5 (and netCDF-4) file.
//!
//! The caller writes the chunks first, at any addresses. Then it gets the metadata ([`File::metadata`]), which goes
//! after them, and the superblock ([`superblock`]), which goes before them. Only structures that every reader since
//! HDF5 1.8 supports are used: superblock 2, object headers 2 with links and attributes inside, version 1 B-trees for
//! chunks, global heaps.
//!
//! Invariants
//! - addresses are relative to the superblock; sizes and addresses have 8 bytes;
//! - the length of a structure does not depend on the addresses in it: addresses are assigned first, then everything is
//!   written;
//! - nothing here reads a file.

mod checksum;
mod datatype;
mod error;
mod heap;
mod message;
mod number;
mod object;
mod tree;

pub use datatype::{Datatype, Member};
pub use error::{Error, Result};
pub use heap::Heap;
pub use number::Number;

/// Bytes of the superblock.
pub const SUPERBLOCK: u64 = 48;
/// The address that means "undefined".
const UNDEFINED: u64 = u64::MAX;
/// Most bytes of a message in an object header.
const MOST_MESSAGE: usize = 65_000;

/// Number of an object in its file; the root group is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(usize);

/// The objects of a file, in the order in which they are added.
#[derive(Debug, Default)]
pub struct File {
    objects: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    kind: ObjectKind,
    attributes: Vec<(String, Attribute)>,
}

#[derive(Debug)]
enum ObjectKind {
    Group(Vec<(String, Id)>),
    Type(Datatype),
    Dataset(Dataset),
}

/// An array.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its extents.
    pub shape: Vec<u64>,
    /// The value of cells without storage, as the bytes of one element.
    pub fill: Option<Vec<u8>>,
    /// The storage of its values.
    pub storage: Storage,
}

/// Where the values of an array are stored.
#[derive(Debug, Clone)]
pub enum Storage {
    /// Nowhere: all cells have the fill value.
    Nothing,
    /// In the metadata, dense in row-major order.
    Inline(Vec<u8>),
    /// In one piece that is already written, dense in row-major order.
    Contiguous {
        /// Its address, relative to the superblock.
        address: u64,
        /// Its length: the product of the extents, times the size of an element.
        len: u64,
    },
    /// In chunks that are already written.
    Chunked {
        /// Extents of a chunk.
        chunk: Vec<u64>,
        /// Filters, in the order of encoding.
        filters: Vec<Filter>,
        /// The existing chunks, in any order.
        chunks: Vec<Chunk>,
    },
}

/// One chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its first cell.
    pub offset: Vec<u64>,
    /// Its address, relative to the superblock.
    pub address: u64,
    /// Stored bytes.
    pub len: u64,
}

/// A registered filter with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Its registered number.
    pub id: u16,
    /// The name, for filters that are not HDF5's own.
    pub name: &'static str,
    /// Its parameters.
    pub values: Vec<u32>,
}

/// The value of an attribute.
#[derive(Debug, Clone)]
pub enum Attribute {
    /// Dense elements; without a shape, a single value.
    Values {
        /// The type of its elements.
        datatype: Datatype,
        /// Its extents.
        shape: Option<Vec<u64>>,
        /// Its elements, dense in row-major order.
        bytes: Vec<u8>,
    },
    /// A text of fixed length, as netCDF writes characters.
    Text(String),
    /// Texts of any length.
    Texts(Vec<String>),
    /// For each axis, the objects that describe it: `DIMENSION_LIST`.
    Axes(Vec<Vec<Id>>),
    /// The datasets that refer to this object as an axis, and the number of that axis in each: `REFERENCE_LIST`.
    References(Vec<(Id, u32)>),
}

/// Metadata of a file, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The bytes, to be written at the given address.
    pub bytes: Vec<u8>,
    /// The address of the root group, relative to the superblock.
    pub root: u64,
}

/// Addresses of the parts of one object; zero until known.
#[derive(Debug, Clone, Copy, Default)]
struct ObjectOffsets {
    header: u64,
    /// Address of the inline values, or of the chunk tree.
    data: u64,
}

impl File {
    /// A file with an empty root.
    pub fn new() -> Self {
        let mut file = File::default();
        file.add(ObjectKind::Group(Vec::new()));
        file
    }

    /// The root group.
    pub fn root(&self) -> Id {
        Id(0)
    }

    fn add(&mut self, kind: ObjectKind) -> Id {
        self.objects.push(Object { kind, attributes: Vec::new() });
        Id(self.objects.len() - 1)
    }

    fn link(&mut self, group: Id, name: &str, id: Id) {
        if let ObjectKind::Group(links) = &mut self.objects[group.0].kind {
            links.push((name.to_owned(), id));
        }
    }

    /// Adds a group to a group.
    pub fn group(&mut self, inside: Id, name: &str) -> Id {
        let id = self.add(ObjectKind::Group(Vec::new()));
        self.link(inside, name, id);
        id
    }

    /// Adds a named datatype, to which datasets refer by [`Datatype::Named`]. netCDF requires names for compounds.
    pub fn datatype(&mut self, inside: Id, name: &str, datatype: Datatype) -> Id {
        let id = self.add(ObjectKind::Type(datatype));
        self.link(inside, name, id);
        id
    }

    /// Adds an array to a group.
    pub fn dataset(&mut self, inside: Id, name: &str, dataset: Dataset) -> Id {
        let id = self.add(ObjectKind::Dataset(dataset));
        self.link(inside, name, id);
        id
    }

    /// Sets an attribute. An earlier one with the name is replaced.
    pub fn attribute(&mut self, of: Id, name: &str, value: Attribute) {
        let all = &mut self.objects[of.0].attributes;
        all.retain(|(known, _)| known != name);
        all.push((name.to_owned(), value));
    }

    /// Whether an object has an attribute with this name.
    pub fn has_attribute(&self, of: Id, name: &str) -> bool {
        self.objects[of.0].attributes.iter().any(|(known, _)| known == name)
    }

    /// The metadata for an address, which must be a multiple of 8. It is an error if an attribute or a chunk is too
    /// large.
    pub fn metadata(&self, address: u64) -> Result<Metadata> {
        let mut places = vec![ObjectOffsets::default(); self.objects.len()];
        let mut heap = Heap::new();
        let mut at = address;
        for (number, object) in self.objects.iter().enumerate() {
            places[number].data = at;
            at += padded(self.data(object, at)?.len() as u64);
            places[number].header = at;
            at += padded(self.header(object, ObjectOffsets::default(), &places, &mut heap)?.len() as u64);
        }
        heap.begin(at);
        let mut bytes = Vec::with_capacity((at - address) as usize);
        for (object, place) in self.objects.iter().zip(&places) {
            for part in [self.data(object, place.data)?, self.header(object, *place, &places, &mut heap)?] {
                bytes.extend_from_slice(&part);
                bytes.resize(padded(bytes.len() as u64) as usize, 0);
            }
        }
        bytes.extend_from_slice(&heap.bytes());
        Ok(Metadata { bytes, root: places[0].header })
    }

    /// The inline values or the chunk tree of an object, for an address.
    fn data(&self, object: &Object, address: u64) -> Result<Vec<u8>> {
        match &object.kind {
            ObjectKind::Dataset(Dataset { storage: Storage::Inline(bytes), .. }) => Ok(bytes.clone()),
            ObjectKind::Dataset(Dataset { storage: Storage::Chunked { chunk, chunks, .. }, .. }) => {
                tree::encode(chunk, chunks, address)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn header(
        &self,
        object: &Object,
        own: ObjectOffsets,
        places: &[ObjectOffsets],
        heap: &mut Heap,
    ) -> Result<Vec<u8>> {
        let mut messages = Vec::new();
        match &object.kind {
            ObjectKind::Group(links) => {
                message::group(links.len(), &mut messages);
                for (order, (name, id)) in links.iter().enumerate() {
                    messages.push(message::link(name, order as u64, places[id.0].header));
                }
            }
            ObjectKind::Type(datatype) => messages.push(message::datatype(datatype, places)),
            ObjectKind::Dataset(dataset) => message::dataset(dataset, own.data, places, &mut messages),
        }
        message::attribute_info(object.attributes.len(), &mut messages);
        for (name, value) in &object.attributes {
            let body = message::attribute(name, value, places, heap);
            if body.body.len() > MOST_MESSAGE {
                return Err(Error::AttributeTooLarge { name: name.clone(), len: body.body.len() });
            }
            messages.push(body);
        }
        Ok(object::header(&messages))
    }
}

/// Rounds up to a multiple of 8.
pub fn padded(len: u64) -> u64 {
    len.div_ceil(8) * 8
}

/// The superblock at address `base` of a file with a total length of `len` bytes.
pub fn superblock(base: u64, root: u64, len: u64) -> [u8; SUPERBLOCK as usize] {
    let mut out = Vec::with_capacity(SUPERBLOCK as usize);
    out.extend_from_slice(b"\x89HDF\r\n\x1a\n");
    out.extend_from_slice(&[2, 8, 8, 0]);
    for address in [base, UNDEFINED, len, root] {
        out.extend_from_slice(&address.to_le_bytes());
    }
    let check = checksum::lookup3(&out);
    out.extend_from_slice(&check.to_le_bytes());
    let mut whole = [0; SUPERBLOCK as usize];
    whole.copy_from_slice(&out);
    whole
}
