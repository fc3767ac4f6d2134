//! Valid bytes of every structure, which tests damage.

use drystone_format::cache_unit::UnitHead;
use drystone_format::column;
use drystone_format::dtype::DType;
use drystone_format::entry::{StoredPiece, encode_block};
use drystone_format::frame::{self, FrameKind};
use drystone_format::fuzzing::*;
use drystone_format::identity::{Durability, Identity, encode_hint};
use drystone_format::log::{GroupHead, encode_group};
use drystone_format::piece::{BlobRef, Trailer};
use drystone_format::redundancy;
use drystone_format::source::encode_page;
use drystone_format::staged;
use drystone_format::statistics::Statistics;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::values;

/// One structure.
pub(crate) struct Structure {
    pub(crate) name: &'static str,
    /// Valid encodings.
    pub(crate) samples: Vec<Vec<u8>>,
    /// Whether a CRC covers every bit, so that all damage must be detected.
    pub(crate) covered: bool,
    /// Whether a decoder accepts the bytes.
    pub(crate) sound: fn(&[u8]) -> bool,
    /// The body of its fuzz target.
    pub(crate) fuzz: fn(&[u8]),
}

/// Draws the same values in every run.
fn draw<T: std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
    encode: impl Fn(T) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    (0..24).map(|_| encode(strategy.new_tree(&mut runner).expect("nothing is filtered").current())).collect()
}

fn frames(payloads: Vec<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    for (ordinal, payload) in (0..).zip(payloads) {
        frame::push(&mut out, FrameKind::Group, ordinal, &payload);
    }
    out
}

fn all_frames_sound(bytes: &[u8]) -> bool {
    let (mut at, mut ordinal) = (0, 0);
    loop {
        match frame::next(bytes, at, ordinal) {
            frame::Next::Frame { end, .. } => (at, ordinal) = (end, ordinal + 1),
            frame::Next::End => return ordinal > 0,
            frame::Next::Torn(_) => return false,
        }
    }
}

fn with_length(values: Vec<u64>) -> Vec<u8> {
    let mut out = (values.len() as u16).to_le_bytes().to_vec();
    column::encode(&values, &mut out);
    out
}

fn trailer(payload: Vec<u8>) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_le_bytes().to_vec();
    out.push(4);
    out.extend(Trailer::of(&payload, 4, b"histogram".to_vec()).encode());
    out
}

fn trailer_sound(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_at_checked(5) else { return false };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]).into();
    let check = crc32(rest);
    let piece = StoredPiece { position: 0, length, trailer: rest.len() as u64, unit_log2: head[4], check };
    piece.validate().is_ok() && Trailer::decode(&piece, rest).is_ok()
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut framed = Vec::new();
    frame::push(&mut framed, FrameKind::Group, 0, bytes);
    frame::parse_header(&framed).expect("just made").payload_crc
}

fn identity() -> impl Strategy<Value = Identity> {
    (any::<[u8; 16]>(), vec("[a-z]{1,4}", 0..3)).prop_map(|(uuid, features)| Identity {
        version: 1,
        uuid,
        durability: Durability::Async,
        redundancy: if features.is_empty() { String::new() } else { "xor:8".into() },
        features,
        created: "2026-01-01T00:00:00Z".into(),
    })
}

fn group() -> impl Strategy<Value = redundancy::Group> {
    let part = (1u64..1 << 40, any::<u32>());
    let member = (any::<u64>(), "\\PC{1,9}", vec(part, 1..3));
    (any::<[u8; 16]>(), 0u64..1 << 40, any::<bool>(), vec(member, 3..6)).prop_map(
        |(uuid, step, copies, members)| {
            let staged = |(part, (length, crc))| staged::StagedPart { part, length, crc, step: Some(step) };
            let member = |(writer, node, parts): (u64, String, Vec<(u64, u32)>)| redundancy::Member {
                writer,
                node: node.clone(),
                folder: node,
                parts: (0..).zip(parts).map(staged).collect(),
            };
            let members: Vec<_> = members.into_iter().map(member).collect();
            redundancy::Group {
                uuid,
                step,
                copies,
                parity: if copies { 1 } else { members.len() % 2 + 1 },
                members,
            }
        },
    )
}

fn registration() -> impl Strategy<Value = staged::Registration> {
    let part = (1u64..1 << 40, any::<u32>(), proptest::option::of(0u64..1 << 50));
    (any::<[u8; 16]>(), any::<u64>(), "\\PC{1,9}", vec("\\PC{0,9}", 0..3), vec(part, 0..5)).prop_map(
        |(uuid, writer, node, folders, parts)| staged::Registration {
            uuid,
            writer,
            group: node.clone(),
            node,
            boot: "0f0e0d0c-0b0a-0908-0706-050403020100".into(),
            folders,
            parts: (0..)
                .zip(parts)
                .map(|(part, (length, crc, step))| staged::StagedPart { part, length, crc, step })
                .collect(),
        },
    )
}

fn cache_unit() -> impl Strategy<Value = UnitHead> {
    (any::<[u8; 16]>(), "[a-z0-9./-]{1,60}", 0u64..1 << 40, vec(any::<u8>(), 1..70_000))
        .prop_map(|(uuid, key, offset, bytes)| UnitHead::of(uuid, &key, offset, &bytes))
}

/// Records of a journal of files, of every kind.
fn files_of(numbers: &[u64]) -> Vec<u8> {
    use drystone_format::files::{Attrs, Body, Extent, Record, encode};
    let attrs = Attrs { mode: 0o644, uid: 1, gid: 2, atime: -3, mtime: 4, ctime: 5 };
    let (ino, name, time) = (numbers[0] + 1, b"name".to_vec(), 77);
    let extents =
        numbers.iter().map(|n| Extent { offset: n * 7, len: n + 1, log: n % 3, position: n * n }).collect();
    let sums: Vec<u32> = numbers.iter().map(|n| *n as u32).collect();
    let end = sums.len() as u64 * drystone_format::files::UNIT;
    encode(&[
        Record::Make { ino, parent: 1, name: name.clone(), attrs, body: Body::File },
        Record::Make { ino: ino + 1, parent: 1, name: b"f".to_vec(), attrs, body: Body::Folder },
        Record::Make {
            ino: ino + 2,
            parent: 1,
            name: b"l".to_vec(),
            attrs,
            body: Body::Link(b"x/y".to_vec()),
        },
        Record::Extents { ino, mtime: 6, extents },
        Record::Size { ino, size: 12, time },
        Record::Hole { ino, offset: 3, len: 4, time },
        Record::Attrs { ino, attrs },
        Record::Xattr { ino, name: name.clone(), value: Some(vec![0; numbers.len()]) },
        Record::Xattr { ino, name: name.clone(), value: None },
        Record::Sums { log: 5, first: 0, end, sums },
        Record::Rename {
            parent: 1,
            name: name.clone(),
            new_parent: 2,
            new_name: b"n".to_vec(),
            exchange: false,
            time,
        },
        Record::Remove { parent: 1, name, time },
        Record::Gone { log: 5 },
        Record::Next { ino: ino + 3 },
    ])
}

/// All structures.
pub(crate) fn structures() -> Vec<Structure> {
    use drystone_format::*;
    let payloads = vec(vec(any::<u8>(), 1..40), 1..4);
    let structure = |name, covered, sound, fuzz, samples| Structure { name, samples, covered, sound, fuzz };
    vec![
        structure(
            "frames",
            true,
            all_frames_sound,
            fuzz_frame,
            draw(payloads.clone(), |p| frames(p[..1].to_vec())),
        ),
        structure("file", false, all_frames_sound, fuzz_frame, draw(payloads, frames)),
        structure(
            "column",
            false,
            |b| {
                let n = b.first_chunk().map_or(0, |n| u16::from_le_bytes(*n));
                let mut r = cursor::Reader::new(b.get(2..).unwrap_or_default());
                column::decode(&mut r, n.into()).is_ok()
            },
            fuzz_column,
            draw(values::column(), with_length),
        ),
        structure(
            "type",
            false,
            |b| DType::decode(b).is_ok(),
            fuzz_dtype,
            draw(values::dtype(), |d| d.encode()),
        ),
        structure(
            "value",
            false,
            |b| value::Value::decode(b).is_ok(),
            fuzz_value,
            draw(values::value(), |v| v.encode()),
        ),
        structure(
            "schema",
            false,
            |b| schema::Schema::decode(b).is_ok(),
            fuzz_schema,
            draw(values::schema(), |s| s.encode()),
        ),
        structure(
            "steps",
            false,
            |b| steps::Steps::decode(b).is_ok(),
            fuzz_steps,
            draw(values::steps(), |s| s.encode()),
        ),
        structure(
            "files",
            false,
            |b| files::decode(b).is_ok(),
            fuzz_files,
            draw(vec(0u64..1000, 1..6), |numbers| files_of(&numbers)),
        ),
        structure(
            "entry block",
            false,
            |b| drystone_format::block::decode_block(b).is_ok(),
            fuzz_entry_block,
            draw(values::entries(), |e| encode_block(&e)),
        ),
        structure(
            "branch",
            false,
            |b| branch::Branch::decode(b).is_ok(),
            fuzz_branch,
            draw(values::branch(), |b| b.encode()),
        ),
        structure(
            "table",
            false,
            |b| table::decode(b, b.first_chunk().map_or(0, |n| u32::from_le_bytes(*n)).into()).is_ok(),
            fuzz_table,
            draw(values::table(), |t| table::encode(&t)),
        ),
        structure(
            "source page",
            false,
            |b| source::decode_page(b).is_ok(),
            fuzz_source_page,
            draw(vec(values::source(), 0..9), |s| encode_page(&s)),
        ),
        structure(
            "published",
            false,
            |b| published::decode(b).is_ok(),
            fuzz_published,
            draw(vec(values::published(), 0..4), |a| published::encode(&a)),
        ),
        structure(
            "shard page",
            false,
            |b| published::decode_page(b).is_ok(),
            fuzz_published,
            draw(values::shards(), |s| published::encode_page(&s)),
        ),
        structure(
            "shard statistics",
            true,
            |b| Statistics::decode(b).is_ok(),
            fuzz_statistics,
            draw(values::shard_statistics(), |s| s.encode()),
        ),
        structure(
            "manifest",
            true,
            |b| manifest::Manifest::decode(b).is_ok(),
            fuzz_manifest,
            draw(values::manifest(), |m| m.encode().expect("within limits")),
        ),
        structure(
            "file header",
            false,
            |b| log::FileHeader::decode(b).is_ok(),
            fuzz_file_header,
            draw(values::file_header(), |h| h.encode()),
        ),
        structure(
            "group",
            false,
            |b| log::decode_group(b).is_ok(),
            fuzz_group,
            draw(values::group(), |(head, e)| {
                let head = GroupHead { last: true, part: 0, entries: e.len() as u64, ..head };
                encode_group(&head, &e)
            }),
        ),
        structure(
            "identity",
            true,
            |b| identity::Identity::decode(b).is_ok(),
            fuzz_identity,
            draw(identity(), |i| i.encode()),
        ),
        structure(
            "registration",
            true,
            |b| staged::Registration::decode(b).is_ok(),
            fuzz_staged,
            draw(registration(), |r| r.encode()),
        ),
        structure(
            "floor",
            true,
            |b| packs::Floor::decode(b).is_ok(),
            fuzz_packs,
            draw((any::<[u8; 16]>(), 1u64..1000, any::<u64>()), |(uuid, n, id)| {
                let pack =
                    packs::PackRef { id, first: n, last: 2 * n, members: n, length: 8 * id.min(1 << 40) };
                packs::Floor { uuid, version: 3 * n, packs: vec![pack] }.encode()
            }),
        ),
        structure(
            "directory of log packs",
            true,
            |b| log_packs::Directory::decode(b).is_ok(),
            fuzz_log_packs,
            draw((any::<[u8; 16]>(), 1u64..1000, any::<u64>()), |(uuid, n, id)| {
                let pack = log_packs::PackRef { id, parts: n, table: 8 * n, length: 8 * n + (id >> 20) };
                log_packs::Directory { uuid, packs: vec![pack] }.encode()
            }),
        ),
        structure(
            "group",
            true,
            |b| redundancy::Group::decode(b).is_ok(),
            fuzz_redundancy,
            draw(group(), |g| g.encode()),
        ),
        structure(
            "cache unit",
            true,
            |b| UnitHead::decode(b).is_ok(),
            fuzz_cache_unit,
            draw(cache_unit(), |head| head.encode()),
        ),
        structure(
            "hint",
            true,
            |b| identity::decode_hint(b).is_some(),
            fuzz_names,
            draw(0u64..1_000_000_000_000, encode_hint),
        ),
        structure("trailer", false, trailer_sound, fuzz_trailer, draw(vec(any::<u8>(), 1..99), trailer)),
        structure(
            "blob reference",
            false,
            |b| BlobRef::decode(b).is_ok(),
            fuzz_trailer,
            draw(any::<u32>(), |p| BlobRef::of(p.into(), b"blob").encode().to_vec()),
        ),
    ]
}
