//! Packs of log parts, and the directory that names them (docs/format/log-packs.md).
//!
//! A pack holds the files of closed log parts as they were. The directory says which packs count.

use crate::Corrupt;
use crate::cbor::{Sink, Source};
use crate::frame::{self, FrameKind};
use crate::packs::first_frame;

/// Most packs that a directory names.
pub const MAX_PACKS: usize = 4096;
/// Most log parts in a pack.
pub const MAX_PARTS: usize = 1 << 16;
/// Greatest length of one of the two files of a part.
pub const MAX_FILE: u64 = u32::MAX as u64;
/// Greatest length of a directory.
pub const MAX_DIRECTORY: u64 = 1 << 18;
/// Greatest length of the table of a pack, its frame included.
pub const MAX_TABLE: u64 = 1 << 22;

/// Which packs count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Directory {
    pub uuid: [u8; 16],
    /// In the order in which they were made.
    pub packs: Vec<PackRef>,
}

/// One pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PackRef {
    pub id: u64,
    /// Number of log parts.
    pub parts: u64,
    /// Length of the table in bytes, its frame included.
    pub table: u64,
    /// Length of the object in bytes.
    pub length: u64,
}

impl Directory {
    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Sink::new();
        out.map(2).u64(0).bytes(&self.uuid).u64(1).array(self.packs.len());
        for pack in &self.packs {
            out.array(4).u64(pack.id).u64(pack.parts).u64(pack.table).u64(pack.length);
        }
        let mut file = Vec::new();
        frame::push(&mut file, FrameKind::Section, 0, &out.finish());
        file
    }

    /// Reads and verifies the object.
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        let (payload, end) = first_frame(file)?;
        if end != file.len() as u64 {
            return Err(Corrupt { what: "bytes after a directory of packs".into(), at: end });
        }
        let mut source = Source::new(payload);
        let (mut uuid, mut packs) = (None, None);
        source.fields(|source, key| {
            match key {
                0 => uuid = Some(source.bytes16()?),
                1 => packs = Some(source.list(PackRef::read)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        let directory =
            Directory { uuid: source.need(uuid, "uuid")?, packs: source.need(packs, "packs of log parts")? };
        directory.validate().map_err(|e| source.corrupt(format!("directory of packs: {e}")))?;
        Ok(directory)
    }

    fn validate(&self) -> Result<(), String> {
        if self.packs.len() > MAX_PACKS {
            return Err(format!("{} packs", self.packs.len()));
        }
        let sound = |p: &PackRef| {
            (1..=MAX_PARTS as u64).contains(&p.parts)
                && (1..=MAX_TABLE).contains(&p.table)
                && p.table <= p.length
        };
        if let Some(p) = self.packs.iter().find(|pack| !sound(pack)) {
            return Err(format!("a pack of {} parts, {} and {} bytes", p.parts, p.table, p.length));
        }
        let mut ids: Vec<u64> = self.packs.iter().map(|pack| pack.id).collect();
        ids.sort_unstable();
        match ids.windows(2).any(|pair| pair.first() == pair.last()) {
            true => Err("a pack is named twice".into()),
            false => Ok(()),
        }
    }
}

impl PackRef {
    fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        source.tuple(4)?;
        Ok(PackRef { id: source.u64()?, parts: source.u64()?, table: source.u64()?, length: source.u64()? })
    }
}

/// A log part with the bytes of its files; a file that does not exist is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Files {
    pub writer: u64,
    pub part: u32,
    pub idx: Vec<u8>,
    pub segment: Vec<u8>,
}

/// What a pack holds, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Table {
    pub uuid: [u8; 16],
    pub id: u64,
    /// Ascending by writer and part.
    pub parts: Vec<Packed>,
    /// Length of the pack in bytes.
    pub length: u64,
}

/// A log part in a pack. Offsets and lengths in bytes; a file of length 0 does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Packed {
    pub writer: u64,
    pub part: u32,
    pub idx: (u64, u64),
    pub segment: (u64, u64),
}

impl Table {
    /// A pack of these parts, ascending by writer and part; and what a directory says of it.
    pub fn pack(uuid: [u8; 16], id: u64, parts: &[Files]) -> Result<(PackRef, Vec<u8>), Corrupt> {
        let mut out = Sink::new();
        out.map(3).u64(0).bytes(&uuid).u64(1).u64(id).u64(2).array(parts.len());
        for files in parts {
            let (idx, segment) = (files.idx.len() as u64, files.segment.len() as u64);
            out.array(4).u64(files.writer).u64(files.part.into()).u64(idx).u64(segment);
        }
        let mut pack = Vec::new();
        frame::push(&mut pack, FrameKind::Section, 0, &out.finish());
        let table = pack.len() as u64;
        for file in parts.iter().map(|files| &files.segment).chain(parts.iter().map(|files| &files.idx)) {
            pack.extend_from_slice(file);
            pack.resize(pack.len().next_multiple_of(8), 0);
        }
        // What a reader would refuse must not be stored.
        Table::decode(&pack)?;
        Ok((PackRef { id, parts: parts.len() as u64, table, length: pack.len() as u64 }, pack))
    }

    /// Reads and verifies the table at the beginning of a pack, of which `file` holds at least that.
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        let (payload, end) = first_frame(file)?;
        if end > MAX_TABLE {
            return Err(Corrupt::new(format!("the table of a pack is {end} bytes long"), 8));
        }
        let mut source = Source::new(payload);
        let (mut uuid, mut id, mut lengths) = (None, None, None);
        source.fields(|source, key| {
            match key {
                0 => uuid = Some(source.bytes16()?),
                1 => id = Some(source.u64()?),
                2 => {
                    lengths = Some(source.list(|source| {
                        source.tuple(4)?;
                        Ok((source.u64()?, source.u64()?, source.u64()?, source.u64()?))
                    })?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        let (uuid, id) = (source.need(uuid, "uuid")?, source.need(id, "id")?);
        let lengths = source.need(lengths, "log parts")?;
        let corrupt = |what: String| source.corrupt(format!("pack: {what}"));
        if lengths.is_empty() || lengths.len() > MAX_PARTS {
            return Err(corrupt(format!("{} log parts", lengths.len())));
        }
        let mut at = end;
        let mut place = |length: u64| {
            let here = (at, length);
            at += length.next_multiple_of(8);
            here
        };
        let mut parts: Vec<Packed> = Vec::with_capacity(lengths.len());
        for &(writer, part, idx, segment) in &lengths {
            let known = u32::try_from(part).ok().filter(|_| idx <= MAX_FILE && segment <= MAX_FILE);
            let Some(part) = known.filter(|_| idx.max(segment) > 0) else {
                return Err(corrupt(format!("part {part} of {writer:016x} with {idx} and {segment} bytes")));
            };
            if parts.last().is_some_and(|last| (last.writer, last.part) >= (writer, part)) {
                return Err(corrupt(format!("part {part} of {writer:016x} is out of order")));
            }
            parts.push(Packed { writer, part, idx: (0, idx), segment: place(segment) });
        }
        for packed in &mut parts {
            packed.idx = place(packed.idx.1);
        }
        Ok(Table { uuid, id, parts, length: at })
    }

    /// The length of the frame that holds the table, from the pack's first 32 bytes.
    pub fn table_length(header: &[u8]) -> Result<u64, Corrupt> {
        let length = frame::padded(frame::parse_header(header)?.len);
        match length <= MAX_TABLE {
            true => Ok(length),
            false => Err(Corrupt::new(format!("the table of a pack is {length} bytes long"), 8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<Files> {
        let of = |writer, part, idx: usize, segment: usize| Files {
            writer,
            part,
            idx: vec![1; idx],
            segment: vec![2; segment],
        };
        vec![of(3, 0, 8, 21), of(3, 1, 16, 0), of(9, 0, 5, 64)]
    }

    #[test]
    fn a_pack_says_where_its_files_are() {
        let (said, pack) = Table::pack([1; 16], 77, &parts()).unwrap();
        let table = Table::decode(&pack).unwrap();
        assert_eq!((table.id, table.length, said.length), (77, pack.len() as u64, pack.len() as u64));
        assert_eq!((said.parts, said.table), (3, table.parts[0].segment.0));
        assert_eq!(Table::table_length(&pack[..32]).unwrap(), said.table);
        for (files, packed) in parts().iter().zip(&table.parts) {
            assert_eq!((files.writer, files.part), (packed.writer, packed.part));
            for (file, (at, length)) in [(&files.idx, packed.idx), (&files.segment, packed.segment)] {
                assert_eq!(&pack[at as usize..][..length as usize], file);
                assert_eq!(at % 8, 0);
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found_and_nothing_panics() {
        let (said, pack) = Table::pack([1; 16], 77, &parts()).unwrap();
        let directory = Directory { uuid: [1; 16], packs: vec![said] };
        assert_eq!(Directory::decode(&directory.encode()).unwrap(), directory);
        for bit in 0..said.table as usize * 8 {
            let mut bytes = pack.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Table::decode(&bytes).is_err(), "bit {bit} of a pack");
        }
        let bytes = directory.encode();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Directory::decode(&bytes).is_err(), "bit {bit} of a directory");
        }
    }

    #[test]
    fn what_no_reader_would_take_is_not_made() {
        let mut out_of_order = parts();
        out_of_order.swap(0, 1);
        assert!(Table::pack([1; 16], 1, &out_of_order).is_err());
        assert!(Table::pack([1; 16], 1, &[]).is_err());
        assert!(Table::pack([1; 16], 1, &[Files { writer: 1, ..Files::default() }]).is_err());
        let (said, _) = Table::pack([1; 16], 1, &parts()).unwrap();
        let twice = Directory { uuid: [1; 16], packs: vec![said, said] };
        assert!(Directory::decode(&twice.encode()).is_err());
    }

    #[test]
    fn the_vectors_are_read_as_what_stands_beside_them() {
        let pack = include_bytes!("../../../tests/vectors/log_packs/v1_log_pack.bin");
        let bytes = include_bytes!("../../../tests/vectors/log_packs/v1_log_directory.bin");
        let (directory, table) = (Directory::decode(bytes).unwrap(), Table::decode(pack).unwrap());
        let said = PackRef { id: 0x0123_4567_89ab_cdef, parts: 3, table: 88, length: pack.len() as u64 };
        assert_eq!((directory.packs.as_slice(), directory.uuid), (&[said][..], table.uuid));
        assert_eq!(directory.encode(), bytes);
        let cut = |(at, length): (u64, u64)| pack[at as usize..][..length as usize].to_vec();
        let files: Vec<Files> = table
            .parts
            .iter()
            .map(|p| Files { writer: p.writer, part: p.part, idx: cut(p.idx), segment: cut(p.segment) })
            .collect();
        let lengths: Vec<_> =
            files.iter().map(|f| (f.writer, f.part, f.idx.len(), f.segment.len())).collect();
        assert_eq!(lengths, [(7, 0, 24, 16), (7, 1, 8, 0), (0xabc, 12, 5, 21)]);
        assert_eq!(Table::pack(table.uuid, table.id, &files).unwrap(), (said, pack.to_vec()));
    }
}
