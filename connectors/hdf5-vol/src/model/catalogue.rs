//! The catalogue: a file's tree as bytes, kept in the container beside the values (docs/guide/hdf5.md).
//!
//! ```text
//! offset  bytes
//!      0      8  "DRYHDF5C"
//!      8      4  version 1
//!     12      4  CRC-32C of the payload
//!     16      8  length of the payload
//!     24         payload
//! ```
//! Integers are little-endian, byte strings carry a 4-byte length, lists a 4-byte count. The bytes are
//! untrusted: decoding checks every length and every reference, and its result keeps the invariants of
//! [`Tree`].

use std::collections::{BTreeMap, BTreeSet};

use crate::model::tree::{
    Attribute, Body, Dataset, Filter, Group, Id, Link, Object, Properties, ROOT, Space, StoredType, Target,
    Times, Tree,
};

const MAGIC: &[u8; 8] = b"DRYHDF5C";
/// Bytes before the payload.
pub const HEADER: usize = 24;
/// Most dimensions of an HDF5 dataspace.
pub const MAX_NDIM: usize = 32;

/// The content of a catalogue: the tree and how much of the heap belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// The objects.
    pub tree: Tree,
    /// Bytes of the heap.
    pub heap: u64,
}

/// Why bytes are not a valid catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// What was expected.
    pub what: &'static str,
    /// Where, in bytes.
    pub at: usize,
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the catalogue is damaged at byte {}: {}", self.at, self.what)
    }
}

/// Length of a whole catalogue, from its first [`HEADER`] bytes.
pub fn length(header: &[u8]) -> Result<u64, Corrupt> {
    let corrupt = |what| Corrupt { what, at: 0 };
    if header.len() < HEADER || !header.starts_with(MAGIC) {
        return Err(corrupt("no catalogue begins here"));
    }
    let mut r = Reader { bytes: header, at: 8 };
    if r.u32()? != 1 {
        return Err(corrupt("written by a newer version"));
    }
    r.u32()?;
    r.u64()?.checked_add(HEADER as u64).ok_or(corrupt("length"))
}

impl Catalogue {
    /// As bytes.
    pub fn encode(tree: &Tree, heap: u64) -> Vec<u8> {
        Self::encode_as(tree, heap, Content::Everything)
    }

    /// A catalogue of what ranks must agree on: everything but times, and the locations of values in the
    /// container.
    pub fn definition(tree: &Tree) -> Vec<u8> {
        Self::encode_as(tree, 0, Content::Definition)
    }

    fn encode_as(tree: &Tree, heap: u64, content: Content) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(256 + tree.objects.len() * 128), content);
        w.0.resize(HEADER, 0);
        w.u64(heap);
        w.u64(tree.next);
        w.bytes(&tree.fcpl);
        w.count(tree.objects.len());
        for (id, object) in &tree.objects {
            w.u64(*id);
            w.object(object);
        }
        let mut out = w.0;
        let (payload, crc) = ((out.len() - HEADER) as u64, crc32c::crc32c(&out[HEADER..]));
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&1u32.to_le_bytes());
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out[16..24].copy_from_slice(&payload.to_le_bytes());
        out
    }

    /// Decodes bytes; bytes behind the catalogue are ignored.
    pub fn decode(bytes: &[u8]) -> Result<Catalogue, Corrupt> {
        let length = usize::try_from(length(bytes)?).map_err(|_| Corrupt { what: "length", at: 16 })?;
        let bytes = bytes.get(..length).ok_or(Corrupt { what: "bytes are missing", at: bytes.len() })?;
        let expected = Reader { bytes, at: 12 }.u32()?;
        if crc32c::crc32c(&bytes[HEADER..]) != expected {
            return Err(Corrupt { what: "checksum", at: 12 });
        }
        let mut r = Reader { bytes, at: HEADER };
        let heap = r.u64()?;
        let next = r.u64()?;
        let fcpl = r.bytes()?.to_vec();
        let count = r.count(40)?;
        let mut objects = BTreeMap::new();
        for _ in 0..count {
            let id = r.u64()?;
            let object = r.object()?;
            if id >= next || objects.insert(id, object).is_some() {
                return Err(r.corrupt("object id"));
            }
        }
        if r.at != bytes.len() {
            return Err(r.corrupt("bytes after the last object"));
        }
        let mut tree = Tree { objects, next, fcpl };
        forget_missing_types(&mut tree);
        check(&tree).map_err(|what| r.corrupt(what))?;
        Ok(Catalogue { tree, heap })
    }
}

/// Earlier versions removed a committed type that datasets or attributes still used. These keep its
/// definition as a type of their own.
fn forget_missing_types(tree: &mut Tree) {
    let missing: BTreeSet<Id> = tree
        .objects
        .values()
        .flat_map(Object::committed)
        .filter(|id| !tree.objects.contains_key(id))
        .collect();
    if missing.is_empty() {
        return;
    }
    for object in tree.objects.values_mut() {
        let own = match &mut object.body {
            Body::Dataset(dataset) => Some(&mut dataset.dtype),
            _ => None,
        };
        for dtype in own.into_iter().chain(object.attributes.values_mut().map(|a| &mut a.dtype)) {
            dtype.committed = dtype.committed.filter(|id| !missing.contains(id));
        }
    }
}

/// Checks that references lead somewhere and counts are right.
fn check(tree: &Tree) -> Result<(), &'static str> {
    if tree.group(ROOT).is_none() {
        return Err("no root group");
    }
    if tree.next > u64::MAX / 2 {
        return Err("next id");
    }
    let mut links: BTreeMap<Id, u32> = BTreeMap::from([(ROOT, 1)]);
    let is_type = |id: Id| matches!(tree.objects.get(&id).map(|o| &o.body), Some(Body::Type(_)));
    for object in tree.objects.values() {
        let mut types: Vec<&StoredType> = object.attributes.values().map(|a| &a.dtype).collect();
        match &object.body {
            Body::Group(group) => {
                for link in group.links.values() {
                    if let Target::Hard(id) = link.target {
                        if !tree.objects.contains_key(&id) {
                            return Err("a link leads nowhere");
                        }
                        *links.entry(id).or_default() += 1;
                    }
                }
            }
            Body::Dataset(dataset) => types.push(&dataset.dtype),
            Body::Type(_) => {}
        }
        if types.iter().any(|t| t.committed.is_some_and(|id| !is_type(id))) {
            return Err("a reference to a type that is not committed");
        }
    }
    // A program may have incremented the count (H5Oincr_refcount); there are never more links than it says.
    match tree.objects.iter().all(|(id, o)| links.get(id).copied().unwrap_or(0) <= o.nlink) {
        true => Ok(()),
        false => Err("number of links"),
    }
}

/// Encoding of objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Everything,
    Definition,
}

struct Writer(Vec<u8>, Content);

impl Writer {
    fn u8(&mut self, v: u8) {
        self.0.push(v);
    }
    fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn i64(&mut self, v: i64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn count(&mut self, n: usize) {
        // Names, attributes and links are far fewer than 2^32, attribute values smaller: the library limits
        // them to 4 GiB.
        self.u32(u32::try_from(n).unwrap_or(u32::MAX));
    }
    fn bytes(&mut self, v: &[u8]) {
        self.count(v.len());
        self.0.extend_from_slice(v);
    }
    fn list(&mut self, v: &[u64]) {
        self.count(v.len());
        v.iter().for_each(|n| self.u64(*n));
    }

    fn dtype(&mut self, t: &StoredType) {
        self.bytes(&t.encoded);
        self.u32(t.size);
        self.u64(t.committed.unwrap_or(0));
    }

    fn space(&mut self, space: &Space) {
        match space {
            Space::Null => self.u8(2),
            Space::Scalar => self.u8(0),
            Space::Simple(dims, max) => {
                self.u8(1);
                self.list(dims);
                self.list(max);
            }
        }
    }

    fn object(&mut self, o: &Object) {
        self.u32(o.nlink);
        self.u8(u8::from(o.times.tracked));
        let everything = self.1 == Content::Everything;
        let times = [o.times.access, o.times.modified, o.times.changed, o.times.born];
        times.iter().for_each(|t| self.i64(if everything { *t } else { 0 }));
        self.bytes(&o.comment);
        self.u32(o.next_attribute);
        self.u8(o.attribute_order);
        self.u32(o.phase.0);
        self.u32(o.phase.1);
        self.count(o.attributes.len());
        for (name, a) in &o.attributes {
            self.bytes(name);
            self.u32(a.order);
            self.u8(a.cset);
            self.dtype(&a.dtype);
            self.space(&a.space);
            self.bytes(&a.data);
        }
        match &o.body {
            Body::Group(group) => {
                self.u8(0);
                self.i64(group.next_order);
                self.u8(group.order);
                self.count(group.links.len());
                for (name, link) in &group.links {
                    self.bytes(name);
                    self.i64(link.order);
                    self.u8(link.cset);
                    match &link.target {
                        Target::Hard(id) => {
                            self.u32(0);
                            self.u64(*id);
                        }
                        Target::Soft(path) => {
                            self.u32(1);
                            self.bytes(path);
                        }
                        Target::Custom(kind, value) => {
                            self.u32(*kind as u32);
                            self.bytes(value);
                        }
                    }
                }
            }
            Body::Dataset(d) => {
                self.u8(1);
                self.dtype(&d.dtype);
                self.space(&d.space);
                self.properties(&d.properties);
                self.u8(u8::from(d.fill.is_some()));
                self.bytes(d.fill.as_deref().unwrap_or(&[]));
                let variable = d.variable.filter(|_| everything);
                self.u8(u8::from(variable.is_some()));
                let (id, uid) = variable.unwrap_or((0, 0));
                self.u32(id);
                self.u64(uid);
                self.list(&d.high);
            }
            Body::Type(t) => {
                self.u8(2);
                self.dtype(t);
            }
        }
    }

    fn properties(&mut self, p: &Properties) {
        self.u8(p.layout);
        self.list(&p.chunk);
        self.count(p.filters.len());
        for filter in &p.filters {
            self.u32(filter.id as u32);
            self.u32(filter.flags);
            self.count(filter.values.len());
            filter.values.iter().for_each(|v| self.u32(*v));
        }
        self.u8(p.fill_defined);
        self.u8(p.fill_time);
        self.u8(p.alloc_time);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn corrupt(&self, what: &'static str) -> Corrupt {
        Corrupt { what, at: self.at }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Corrupt> {
        let end = self.at.checked_add(n).ok_or(self.corrupt("length"))?;
        let out = self.bytes.get(self.at..end).ok_or(self.corrupt("bytes are missing"))?;
        self.at = end;
        Ok(out)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let at = self.at;
        self.take(N)?.try_into().map_err(|_| Corrupt { what: "bytes are missing", at })
    }

    fn u8(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }
    fn u32(&mut self) -> Result<u32, Corrupt> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, Corrupt> {
        self.array().map(u64::from_le_bytes)
    }
    fn i64(&mut self) -> Result<i64, Corrupt> {
        self.array().map(i64::from_le_bytes)
    }
    fn flag(&mut self) -> Result<bool, Corrupt> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.corrupt("0 or 1")),
        }
    }
    fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    /// A count of items of at least `least` bytes each; a count that exceeds the bytes at hand is refused.
    fn count(&mut self, least: usize) -> Result<usize, Corrupt> {
        let n = self.u32()? as usize;
        match n.checked_mul(least) {
            Some(need) if need <= self.bytes.len() - self.at => Ok(n),
            _ => Err(self.corrupt("count")),
        }
    }

    fn list(&mut self) -> Result<Vec<u64>, Corrupt> {
        let n = self.count(8)?;
        (0..n).map(|_| self.u64()).collect()
    }

    fn dtype(&mut self) -> Result<StoredType, Corrupt> {
        let encoded = self.bytes()?.to_vec();
        let size = self.u32()?;
        let committed = Some(self.u64()?).filter(|id| *id != 0);
        if size == 0 || size > i32::MAX as u32 {
            return Err(self.corrupt("size of an element"));
        }
        Ok(StoredType { encoded, size, committed })
    }

    fn space(&mut self) -> Result<Space, Corrupt> {
        match self.u8()? {
            0 => Ok(Space::Scalar),
            2 => Ok(Space::Null),
            1 => {
                let (dims, max) = (self.list()?, self.list()?);
                let fits = dims.iter().zip(&max).all(|(n, m)| n <= m);
                let space = Space::Simple(dims.clone(), max.clone());
                let points = space.points().filter(|n| *n < 1 << 62);
                if !fits || dims.len() != max.len() || dims.len() > MAX_NDIM || points.is_none() {
                    return Err(self.corrupt("extent"));
                }
                Ok(space)
            }
            _ => Err(self.corrupt("kind of extent")),
        }
    }

    fn object(&mut self) -> Result<Object, Corrupt> {
        let nlink = self.u32()?;
        let tracked = self.flag()?;
        let times = Times {
            tracked,
            access: self.i64()?,
            modified: self.i64()?,
            changed: self.i64()?,
            born: self.i64()?,
        };
        let comment = self.bytes()?.to_vec();
        let next_attribute = self.u32()?;
        let attribute_order = self.u8()?;
        let phase = (self.u32()?, self.u32()?);
        let count = self.count(26)?;
        let mut attributes = BTreeMap::new();
        for _ in 0..count {
            let name = self.bytes()?.to_vec();
            let (order, cset) = (self.u32()?, self.u8()?);
            let (dtype, space) = (self.dtype()?, self.space()?);
            let data = self.bytes()?.to_vec();
            let need = space.points().and_then(|n| n.checked_mul(u64::from(dtype.size)));
            if !data.is_empty() && need != Some(data.len() as u64) {
                return Err(self.corrupt("size of an attribute"));
            }
            if attributes.insert(name, Attribute { order, cset, dtype, space, data }).is_some() {
                return Err(self.corrupt("an attribute twice"));
            }
        }
        let body = match self.u8()? {
            0 => Body::Group(self.group()?),
            1 => Body::Dataset(Box::new(self.dataset()?)),
            2 => Body::Type(self.dtype()?),
            _ => return Err(self.corrupt("kind of object")),
        };
        Ok(Object { nlink, times, comment, attributes, next_attribute, attribute_order, phase, body })
    }

    fn group(&mut self) -> Result<Group, Corrupt> {
        let next_order = self.i64()?;
        let order = self.u8()?;
        let count = self.count(21)?;
        let mut links = BTreeMap::new();
        for _ in 0..count {
            let name = self.bytes()?.to_vec();
            let (at, cset) = (self.i64()?, self.u8()?);
            let target = match self.u32()? {
                0 => Target::Hard(self.u64()?),
                1 => Target::Soft(self.bytes()?.to_vec()),
                kind @ 64..=255 => Target::Custom(kind as i32, self.bytes()?.to_vec()),
                _ => return Err(self.corrupt("kind of link")),
            };
            if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
                return Err(self.corrupt("name of a link"));
            }
            if links.insert(name, Link { order: at, cset, target }).is_some() {
                return Err(self.corrupt("a link twice"));
            }
        }
        Ok(Group { links, next_order, order })
    }

    fn dataset(&mut self) -> Result<Dataset, Corrupt> {
        let (dtype, space) = (self.dtype()?, self.space()?);
        let properties = self.properties()?;
        let has_fill = self.flag()?;
        let fill = Some(self.bytes()?.to_vec()).filter(|_| has_fill);
        let has_variable = self.flag()?;
        let variable = Some((self.u32()?, self.u64()?)).filter(|_| has_variable);
        let high = self.list()?;
        let rank = space.dims().len();
        if fill.as_ref().is_some_and(|f| f.len() != dtype.size as usize)
            || high.len() != rank
            || !matches!(properties.chunk.len(), 0) && properties.chunk.len() != rank
            || properties.chunk.contains(&0)
            || space.points().and_then(|n| n.checked_mul(u64::from(dtype.size))).is_none_or(|n| n >= 1 << 62)
        {
            return Err(self.corrupt("a dataset's parts do not fit"));
        }
        Ok(Dataset { dtype, space, properties, fill, variable, high })
    }

    fn properties(&mut self) -> Result<Properties, Corrupt> {
        let layout = self.u8()?;
        let chunk = self.list()?;
        let count = self.count(12)?;
        let mut filters = Vec::new();
        for _ in 0..count {
            let (id, flags) = (self.u32()? as i32, self.u32()?);
            let n = self.count(4)?;
            let values = (0..n).map(|_| self.u32()).collect::<Result<_, _>>()?;
            filters.push(Filter { id, flags, values });
        }
        let (fill_defined, fill_time, alloc_time) = (self.u8()?, self.u8()?, self.u8()?);
        if layout > 3 || fill_defined > 2 || fill_time > 2 || alloc_time > 3 {
            return Err(self.corrupt("a creation property"));
        }
        Ok(Properties { layout, chunk, filters, fill_defined, fill_time, alloc_time })
    }
}
