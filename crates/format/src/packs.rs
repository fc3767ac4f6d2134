//! Packs of manifests, and the floor that names them (docs/format/packs.md).
//!
//! A pack holds the manifest files of consecutive versions, unchanged. The floor says up to which version a container's
//! manifests lie in packs, and in which packs.

use crate::Corrupt;
use crate::cbor::{Sink, Source};
use crate::frame::{self, FrameKind, Next};
use crate::manifest::{MAX_MANIFEST, MAX_PAGES, MAX_VERSION};

/// Most packs that a floor names.
pub const MAX_PACKS: usize = 4096;
/// Most members of a pack.
pub const MAX_MEMBERS: usize = 1 << 20;
/// Greatest length of a member: a manifest with its pages.
pub const MAX_MEMBER: u64 = (MAX_PAGES + MAX_MANIFEST + 4096) as u64;
/// Greatest length of a floor.
pub const MAX_FLOOR: u64 = 1 << 18;
/// Greatest length of the table of a pack, its frame included.
pub const MAX_TABLE: u64 = 1 << 25;

/// The versions that lie in packs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Floor {
    pub uuid: [u8; 16],
    /// No manifest up to this version is an object of its own; 0 if there are no packs.
    pub version: u64,
    /// Ascending and disjoint.
    pub packs: Vec<PackRef>,
}

/// A reference to a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PackRef {
    pub id: u64,
    /// The range of versions that it covers. Versions in the range that it does not hold have expired.
    pub first: u64,
    pub last: u64,
    /// Number of members.
    pub members: u64,
    /// Length of the object in bytes.
    pub length: u64,
}

impl Floor {
    /// The pack that covers a version.
    pub fn pack(&self, version: u64) -> Option<&PackRef> {
        let at = self.packs.partition_point(|pack| pack.last < version);
        self.packs.get(at).filter(|pack| pack.first <= version)
    }

    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Sink::new();
        out.map(3).u64(0).bytes(&self.uuid).u64(1).u64(self.version).u64(2).array(self.packs.len());
        for pack in &self.packs {
            out.array(5).u64(pack.id).u64(pack.first).u64(pack.last).u64(pack.members).u64(pack.length);
        }
        let mut file = Vec::new();
        frame::push(&mut file, FrameKind::Section, 0, &out.finish());
        file
    }

    /// Reads and verifies the object.
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        let (payload, end) = first_frame(file)?;
        if end != file.len() as u64 {
            return Err(Corrupt { what: "bytes after a floor".into(), at: end });
        }
        let mut source = Source::new(payload);
        let (mut uuid, mut version, mut packs) = (None, None, None);
        source.fields(|source, key| {
            match key {
                0 => uuid = Some(source.bytes16()?),
                1 => version = Some(source.u64()?),
                2 => packs = Some(source.list(PackRef::read)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        let floor = Floor {
            uuid: source.need(uuid, "uuid")?,
            version: source.need(version, "version")?,
            packs: source.need(packs, "packs")?,
        };
        floor.validate().map_err(|e| source.corrupt(format!("floor: {e}")))?;
        Ok(floor)
    }

    fn validate(&self) -> Result<(), String> {
        if self.version == 0 || self.version > MAX_VERSION || self.packs.len() > MAX_PACKS {
            return Err(format!("version {} with {} packs", self.version, self.packs.len()));
        }
        if !self.packs.is_sorted_by(|a, b| a.last < b.first)
            || self.packs.last().is_some_and(|pack| pack.last > self.version)
        {
            return Err("packs are out of order or above it".into());
        }
        let sound = |p: &PackRef| p.first > 0 && p.first <= p.last && p.members as usize <= MAX_MEMBERS;
        match self.packs.iter().find(|pack| !sound(pack)) {
            Some(p) => Err(format!("a pack of {} members stands for {}..{}", p.members, p.first, p.last)),
            None => Ok(()),
        }
    }
}

impl PackRef {
    fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        source.tuple(5)?;
        Ok(PackRef {
            id: source.u64()?,
            first: source.u64()?,
            last: source.u64()?,
            members: source.u64()?,
            length: source.u64()?,
        })
    }
}

/// The versions that a pack holds, and where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Table {
    pub uuid: [u8; 16],
    pub id: u64,
    pub first: u64,
    pub last: u64,
    /// Ascending by version.
    pub members: Vec<Member>,
}

/// A manifest file in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Member {
    pub version: u64,
    /// Offset in the pack.
    pub offset: u64,
    pub length: u64,
}

impl Table {
    /// The member of a version.
    pub fn member(&self, version: u64) -> Option<&Member> {
        let at = self.members.binary_search_by_key(&version, |member| member.version).ok()?;
        self.members.get(at)
    }

    /// A pack of these files, which ascend by version and cover `first..=last`; and the floor's reference to it.
    pub fn pack(
        uuid: [u8; 16],
        id: u64,
        (first, last): (u64, u64),
        files: &[(u64, Vec<u8>)],
    ) -> Result<(PackRef, Vec<u8>), Corrupt> {
        let mut out = Sink::new();
        out.map(4).u64(0).bytes(&uuid).u64(1).u64(id).u64(2).array(2).u64(first).u64(last);
        out.u64(3).array(files.len());
        for (version, file) in files {
            out.array(2).u64(*version).u64(file.len() as u64);
        }
        let mut pack = Vec::new();
        frame::push(&mut pack, FrameKind::Section, 0, &out.finish());
        for (_, file) in files {
            pack.extend_from_slice(file);
            pack.resize(pack.len().next_multiple_of(8), 0);
        }
        // A pack that a reader would refuse must not be stored.
        Table::decode(&pack)?;
        let members = files.len() as u64;
        Ok((PackRef { id, first, last, members, length: pack.len() as u64 }, pack))
    }

    /// Reads and verifies the table at the beginning of a pack. `file` holds at least the table.
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        let (payload, end) = first_frame(file)?;
        let mut source = Source::new(payload);
        let (mut uuid, mut id, mut range, mut lengths) = (None, None, None, None);
        source.fields(|source, key| {
            match key {
                0 => uuid = Some(source.bytes16()?),
                1 => id = Some(source.u64()?),
                2 => {
                    source.tuple(2)?;
                    range = Some((source.u64()?, source.u64()?));
                }
                3 => {
                    lengths = Some(source.list(|source| {
                        source.tuple(2)?;
                        Ok((source.u64()?, source.u64()?))
                    })?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        let (first, last) = source.need(range, "range of versions")?;
        let mut table = Table {
            uuid: source.need(uuid, "uuid")?,
            id: source.need(id, "id")?,
            first,
            last,
            members: Vec::new(),
        };
        let corrupt = |what: String| source.corrupt(format!("pack: {what}"));
        if first == 0 || first > last || last > MAX_VERSION {
            return Err(corrupt(format!("versions {first}..{last}")));
        }
        let (mut offset, mut above) = (end, first - 1);
        for (version, length) in source.need(lengths, "members")? {
            if version <= above || version > last || length == 0 || length > MAX_MEMBER {
                return Err(corrupt(format!("version {version} of {length} bytes behind {above}")));
            }
            table.members.push(Member { version, offset, length });
            (offset, above) = (offset + length.next_multiple_of(8), version);
        }
        if table.members.len() > MAX_MEMBERS {
            return Err(corrupt(format!("{} members", table.members.len())));
        }
        Ok(table)
    }

    /// The length of the frame that holds the table, from the pack's first 32 bytes.
    pub fn length(header: &[u8]) -> Result<u64, Corrupt> {
        let length = frame::padded(frame::parse_header(header)?.len);
        match length <= MAX_TABLE {
            true => Ok(length),
            false => Err(Corrupt::new(format!("the table of a pack is {length} bytes long"), 8)),
        }
    }
}

pub(crate) fn first_frame(file: &[u8]) -> Result<(&[u8], u64), Corrupt> {
    match frame::next(file, 0, 0) {
        Next::Frame { header, payload, end } if header.kind == FrameKind::Section => Ok((payload, end)),
        Next::Frame { .. } => Err(Corrupt::new("the frame is no section", 4)),
        Next::End => Err(Corrupt::new("it is empty", 0)),
        Next::Torn(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<(u64, Vec<u8>)> {
        vec![(3, vec![7; 8]), (4, b"void".to_vec()), (6, vec![9; 21])]
    }

    #[test]
    fn a_pack_says_where_its_members_are() {
        let (said, pack) = Table::pack([1; 16], 77, (2, 9), &files()).unwrap();
        let table = Table::decode(&pack).unwrap();
        assert_eq!((table.first, table.last, table.id, said.length), (2, 9, 77, pack.len() as u64));
        for (version, file) in files() {
            let member = table.member(version).unwrap();
            assert_eq!(&pack[member.offset as usize..][..member.length as usize], &file);
        }
        assert_eq!(table.member(5), None);
        assert_eq!(Table::length(&pack[..32]).unwrap(), table.members[0].offset);
    }

    #[test]
    fn a_floor_finds_the_pack_of_a_version() {
        let pack = |id, first, last| PackRef { id, first, last, members: 1, length: 80 };
        let floor = Floor { uuid: [2; 16], version: 20, packs: vec![pack(1, 3, 5), pack(2, 6, 18)] };
        assert_eq!(Floor::decode(&floor.encode()).unwrap(), floor);
        let found: Vec<Option<u64>> = [2, 3, 5, 6, 18, 19].map(|v| floor.pack(v).map(|p| p.id)).into();
        assert_eq!(found, [None, Some(1), Some(1), Some(2), Some(2), None]);
    }

    #[test]
    fn every_flipped_bit_is_found_and_nothing_panics() {
        let (said, pack) = Table::pack([1; 16], 77, (2, 9), &files()).unwrap();
        let floor = Floor { uuid: [1; 16], version: 9, packs: vec![said] }.encode();
        let table = Table::length(&pack[..32]).unwrap() as usize;
        for bit in 0..table * 8 {
            let mut bytes = pack.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Table::decode(&bytes).is_err(), "bit {bit} of a pack");
        }
        for bit in 0..floor.len() * 8 {
            let mut bytes = floor.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Floor::decode(&bytes).is_err(), "bit {bit} of a floor");
        }
    }

    #[test]
    fn the_vectors_are_read_as_what_stands_beside_them() {
        let pack = include_bytes!("../../../tests/vectors/packs/v1_pack.bin");
        let floor = Floor::decode(include_bytes!("../../../tests/vectors/packs/v1_floor.bin")).unwrap();
        let table = Table::decode(pack).unwrap();
        let members: Vec<(u64, u64)> = table.members.iter().map(|m| (m.version, m.length)).collect();
        assert_eq!(members, [(1, 128), (3, 4), (6, 132)]);
        let length = pack.len() as u64;
        let said = PackRef { id: 0x0123_4567_89ab_cdef, first: 1, last: 8, members: 3, length };
        assert_eq!((floor.version, floor.packs.as_slice()), (9, &[said][..]));
        assert_eq!(floor.encode(), include_bytes!("../../../tests/vectors/packs/v1_floor.bin"));
        assert_eq!(floor.uuid, table.uuid);
        let files: Vec<(u64, Vec<u8>)> = table
            .members
            .iter()
            .map(|m| (m.version, pack[m.offset as usize..][..m.length as usize].to_vec()))
            .collect();
        assert_eq!(Table::pack(table.uuid, table.id, (1, 8), &files).unwrap(), (said, pack.to_vec()));
    }

    #[test]
    fn packs_that_readers_refuse_are_not_made() {
        let out_of_order = vec![(4, vec![1; 8]), (3, vec![1; 8])];
        assert!(Table::pack([1; 16], 1, (1, 9), &out_of_order).is_err());
        assert!(Table::pack([1; 16], 1, (4, 9), &files()).is_err());
        assert!(Floor::decode(&Floor::default().encode()).is_err());
    }
}
