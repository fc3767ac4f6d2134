//! Bodies of the fuzz targets in `fuzz/`. A test also runs them with mutated bytes.
//!
//! No input makes a decoder panic, and an accepted value survives encoding and decoding unchanged.

use crate::block::decode_block;
use crate::branch::{Branch, Child, PageRef};
use crate::cache_unit::UnitHead;
use crate::cursor::Reader;
use crate::dtype::DType;
use crate::entry::{StoredPiece, encode_block};
use crate::frame::{self, FrameKind, Next};
use crate::identity::{self, Identity};
use crate::log::{FileHeader, decode_group, encode_group};
use crate::manifest::Manifest;
use crate::packs::{Floor, Table};
use crate::piece::{BlobRef, Trailer};
use crate::redundancy::{Group, ObjectHead};
use crate::schema::Schema;
use crate::staged::Registration;
use crate::statistics::Statistics;
use crate::steps::Steps;
use crate::value::Value;
use crate::{column, files, keys, log_packs, published, reads, source, table};

/// Frames, one after the other.
pub fn fuzz_frame(data: &[u8]) {
    let mut at = 0;
    while let Next::Frame { header, payload, end } = frame::next(data, at, u64::MAX) {
        assert_eq!((header.len, end), (payload.len() as u64, at + frame::padded(header.len)));
        at = end;
    }
    let _ = frame::next(data, u64::MAX, 0);
}

/// A length, then a column.
pub fn fuzz_column(data: &[u8]) {
    let mut r = Reader::new(data);
    let Ok(n) = r.u16() else { return };
    if let Ok(values) = column::decode(&mut r, n.into()) {
        let mut out = Vec::new();
        column::encode(&values, &mut out);
        assert_eq!(column::decode(&mut Reader::new(&out), n.into()), Ok(values));
    }
}

/// A type.
pub fn fuzz_dtype(data: &[u8]) {
    if let Ok(dtype) = DType::decode(data) {
        assert!(!dtype.leaves().is_empty() && !dtype.to_string().is_empty());
        assert_eq!(DType::decode(&dtype.encode()), Ok(dtype));
    }
}

/// The header of a journal of files, or its records.
pub fn fuzz_files(data: &[u8]) {
    if let Ok(header) = files::Header::decode(data) {
        assert_eq!(header.encode(), data);
    }
    if let Ok(records) = files::decode(data) {
        assert_eq!(files::decode(&files::encode(&records)), Ok(records));
    }
}

/// An attribute's value.
pub fn fuzz_value(data: &[u8]) {
    if let Ok(value) = Value::decode(data) {
        assert_eq!(value.validate(), Ok(()));
        // NaN differs from itself, but its bytes do not.
        let bytes = value.encode();
        assert_eq!(Value::decode(&bytes).map(|v| v.encode()), Ok(bytes));
    }
}

/// A schema section.
pub fn fuzz_schema(data: &[u8]) {
    if let Ok(schema) = Schema::decode(data) {
        schema.names.keys().for_each(|path| _ = schema.resolve(path));
        let bytes = schema.encode();
        assert_eq!(Schema::decode(&bytes).map(|s| s.encode()), Ok(bytes));
    }
}

/// A steps section.
pub fn fuzz_steps(data: &[u8]) {
    if let Ok(mut steps) = Steps::decode(data) {
        assert_eq!(Steps::decode(&steps.encode()).as_ref(), Ok(&steps));
        let inside = steps.runs.first().map_or(1, |run| run.first.saturating_add(1));
        for step in [0, 5, inside, u64::MAX - 1] {
            let (len, new) = (steps.len(), !steps.contains(step));
            steps.insert(step);
            assert!(steps.contains(step) && steps.len() == len + u64::from(new));
            assert_eq!(Steps::decode(&steps.encode()).as_ref(), Ok(&steps));
        }
    }
}

/// An entry block.
pub fn fuzz_entry_block(data: &[u8]) {
    if let Ok(entries) = decode_block(data) {
        for entry in &entries {
            assert_eq!(entry.validate(), Ok(()));
            let (_, count) = entry.subchunk_box(&[0; crate::MAX_NDIM]);
            assert!(entry.grid_len() == Some(entry.subchunks) && count <= entry.count.map(|n| n.max(1)));
            let _ = (entry.cells(), entry.end(), entry.piece.end());
        }
        let _ = Child::of_entries(&entries, PageRef::default());
        assert_eq!(decode_block(&encode_block(&entries)), Ok(entries));
    }
}

/// A branch.
pub fn fuzz_branch(data: &[u8]) {
    if let Ok(branch) = Branch::decode(data) {
        let _ = Child::of_branch(&branch, PageRef::default());
        assert_eq!(Branch::decode(&branch.encode()), Ok(branch));
    }
}

/// A subchunk table.
pub fn fuzz_table(data: &[u8]) {
    let n = Reader::new(data).u32().unwrap_or(0);
    if let Ok(subchunks) = table::decode(data, n.into()) {
        assert_eq!(table::decode(&table::encode(&subchunks), n.into()), Ok(subchunks));
    }
}

/// A source page.
pub fn fuzz_source_page(data: &[u8]) {
    if let Ok(sources) = source::decode_page(data) {
        assert_eq!(source::decode_page(&source::encode_page(&sources)), Ok(sources));
    }
}

/// The published section, and a page of shards.
pub fn fuzz_published(data: &[u8]) {
    if let Ok(arrays) = published::decode(data) {
        assert_eq!(published::decode(&published::encode(&arrays)), Ok(arrays));
    }
    if let Ok(shards) = published::decode_page(data) {
        assert_eq!(published::decode_page(&published::encode_page(&shards)), Ok(shards));
    }
}

/// Statistics of a shard, as they are and followed by a valid CRC.
pub fn fuzz_statistics(data: &[u8]) {
    let _ = Statistics::decode(data);
    let sealed = [data, &crate::crc32c(data).to_le_bytes()].concat();
    if let Ok(found) = Statistics::decode(&sealed) {
        assert_eq!(Statistics::decode(&found.encode()), Ok(found));
    }
}

/// The observed reads, as they are and followed by a valid CRC.
pub fn fuzz_reads(data: &[u8]) {
    let _ = reads::decode(data);
    let sealed = [data, &crate::crc32c(data).to_le_bytes()].concat();
    if let Ok(seen) = reads::decode(&sealed) {
        assert_eq!(reads::decode(&reads::encode(&seen)), Ok(seen));
    }
}

/// A manifest, as it is and in a valid frame.
pub fn fuzz_manifest(data: &[u8]) {
    let _ = Manifest::decode(data);
    let mut file = Vec::new();
    frame::push(&mut file, FrameKind::Manifest, 0, data.get(frame::HEADER..).unwrap_or(data));
    if let Ok(manifest) = Manifest::decode(&file) {
        assert_eq!(manifest.encode().and_then(|file| Manifest::decode(&file)), Ok(manifest));
    }
}

/// A file header.
pub fn fuzz_file_header(data: &[u8]) {
    if let Ok(header) = FileHeader::decode(data) {
        assert_eq!(FileHeader::decode(&header.encode()), Ok(header));
    }
}

/// The payload of a GROUP frame.
pub fn fuzz_group(data: &[u8]) {
    if let Ok((head, entries)) = decode_group(data) {
        assert_eq!(decode_group(&encode_group(&head, &entries)), Ok((head, entries)));
    }
}

/// An identity, as it is and followed by a valid CRC.
pub fn fuzz_identity(data: &[u8]) {
    let _ = Identity::decode(data);
    let head = data.len().checked_sub(26).and_then(|n| data.get(..n)).unwrap_or(data);
    let tail = format!("\"crc32c\": \"{:08x}\"\n}}\n", crate::crc32c(head));
    if let Ok(identity) = Identity::decode(&[head, tail.as_bytes()].concat()) {
        assert_eq!(Identity::decode(&identity.encode()), Ok(identity));
    }
}

/// A registration, as it is and followed by a valid CRC.
pub fn fuzz_staged(data: &[u8]) {
    let _ = Registration::decode(data);
    let head = data.len().checked_sub(23).and_then(|n| data.get(..n)).unwrap_or(data);
    let tail = format!("\"crc32c\": \"{:08x}\"\n}}\n", crate::crc32c(head));
    if let Ok(registration) = Registration::decode(&[head, tail.as_bytes()].concat()) {
        assert_eq!(Registration::decode(&registration.encode()), Ok(registration));
    }
}

/// A parity group, as it is and followed by a valid CRC; and the head of a parity object.
pub fn fuzz_redundancy(data: &[u8]) {
    let _ = (Group::decode(data), ObjectHead::decode(data));
    let head = data.len().checked_sub(23).and_then(|n| data.get(..n)).unwrap_or(data);
    let tail = format!("\"crc32c\": \"{:08x}\"\n}}\n", crate::crc32c(head));
    if let Ok(group) = Group::decode(&[head, tail.as_bytes()].concat()) {
        assert_eq!(Group::decode(&group.encode()).as_ref(), Ok(&group));
        for member in 0..group.members.len() {
            let _ = (group.chunk(member), group.payload(member));
        }
    }
    if let Some(head) = data.get(..24) {
        let sound = [head, &crate::crc32c(head).to_le_bytes()].concat();
        if let Ok(head) = ObjectHead::decode(&sound) {
            let _ = head.payload_range();
        }
    }
}

/// The head of a cache unit, as it is and followed by a valid CRC.
pub fn fuzz_cache_unit(data: &[u8]) {
    let _ = UnitHead::decode(data);
    let sealed = [data, &crate::crc32c(data).to_le_bytes()].concat();
    if let Ok(head) = UnitHead::decode(&sealed) {
        assert_eq!(head.encode(), sealed);
        let _ = (head.is_sound(0, data), head.is_sound(data.len(), data));
    }
}

/// A hint, a mark, a key.
pub fn fuzz_names(data: &[u8]) {
    if let Some(version) = identity::decode_hint(data) {
        assert_eq!(identity::encode_hint(version), data);
    }
    if let Ok(version) = identity::decode_mark(data) {
        assert_eq!(identity::encode_mark(version), data);
    }
    if let Ok(key) = std::str::from_utf8(data) {
        let _ = (keys::parse_manifest(key), keys::parse_mark(key), keys::parse_pages(key));
        if let Some((name, _)) = keys::parse_group(key) {
            assert_eq!(keys::group(name), key);
        }
        if let Some((name, member)) = keys::parse_parity_object(key) {
            assert_eq!(keys::parity_object(name, member), key);
        }
        if let Some((node, writer, number)) = keys::parse_staged(key) {
            let written = keys::staged(node, writer, number.max(1));
            assert_eq!(
                keys::parse_staged(&written),
                Some((keys::node(node).as_str(), writer, number.max(1)))
            );
        }
        if let Some(id) = keys::parse_log_pack(key) {
            assert_eq!(keys::log_pack(id), key);
        }
        if let Some((writer, part, is_idx)) = keys::parse_log(key) {
            assert_eq!(key, if is_idx { keys::idx(writer, part) } else { keys::segment(writer, part) });
        }
    }
}

/// A floor, and the table of a pack.
pub fn fuzz_packs(data: &[u8]) {
    if let Ok(floor) = Floor::decode(data) {
        assert_eq!(Floor::decode(&floor.encode()), Ok(floor.clone()));
        floor.packs.iter().for_each(|pack| assert_eq!(floor.pack(pack.first), Some(pack)));
    }
    if let Ok(table) = Table::decode(data) {
        table.members.iter().for_each(|member| assert_eq!(table.member(member.version), Some(member)));
    }
    let _ = Table::length(data);
}

/// A directory of packs of log parts, and the table of such a pack.
pub fn fuzz_log_packs(data: &[u8]) {
    if let Ok(directory) = log_packs::Directory::decode(data) {
        assert_eq!(log_packs::Directory::decode(&directory.encode()), Ok(directory));
    }
    if let Ok(table) = log_packs::Table::decode(data) {
        let ends = table.parts.iter().flat_map(|part| [part.idx, part.segment]).map(|(at, len)| at + len);
        assert!(ends.max().is_some_and(|end| end <= table.length));
    }
    let _ = log_packs::Table::table_length(data);
}

/// A length, a unit, a CRC, then a trailer; and a blob reference.
pub fn fuzz_trailer(data: &[u8]) {
    let mut r = Reader::new(data);
    let (Ok(length), Ok(unit_log2)) = (r.u32(), r.u8()) else { return };
    let Ok(bytes) = r.take(r.remaining()) else { return };
    let trailer = bytes.len() as u64;
    let piece =
        StoredPiece { position: 0, length: length.into(), trailer, unit_log2, check: crate::crc32c(bytes) };
    if piece.validate().is_ok()
        && let Ok(trailer) = Trailer::decode(&piece, bytes)
    {
        let _ = trailer.check(&piece, 0, bytes);
        assert_eq!(trailer.encode(), bytes);
    }
    if let Ok(blob) = BlobRef::decode(data) {
        assert_eq!(blob.encode(), data);
    }
}
