//! The values of the vectors. They are small, and together contain every tag and every field, present and absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::cache_unit::UnitHead;
use drystone_format::column;
use drystone_format::derived::{self, Derived, Edge, Input};
use drystone_format::dtype::{DType, Member, Record, Scalar};
use drystone_format::entry::{Encoding, Entry, Stats, StoredPiece, encode_block};
use drystone_format::frame::{self, FrameKind};
use drystone_format::identity::{Durability, Identity, encode_hint, encode_mark};
use drystone_format::layout::{Cells, Layout, Order};
use drystone_format::log::{FileHeader, FileKind, GroupHead, Rank, encode_group};
use drystone_format::manifest::{Manifest, Root, Section};
use drystone_format::meaning::{Meaning, Scale, Unit};
use drystone_format::piece::{BlobRef, Trailer};
use drystone_format::published;
use drystone_format::redundancy;
use drystone_format::redundancy::{Group, object_head};
use drystone_format::schema::{Name, Schema, Variable};
use drystone_format::source::{Source, SourceState, encode_page};
use drystone_format::staged::{Registration, StagedPart};
use drystone_format::statistics::{Chunk, Statistics};
use drystone_format::steps::Steps;
use drystone_format::table::{self, Prefix, Subchunk};
use drystone_format::value::{TypedArray, Value};

/// Name of a vector, structure, bytes.
pub(crate) type Case = (&'static str, &'static str, Vec<u8>);

pub(crate) const UUID: [u8; 16] = [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8];

fn staged() -> Registration {
    Registration {
        uuid: UUID,
        writer: 0x0123_4567_89ab_cdef,
        node: "node7".into(),
        group: "rack \"2\"".into(),
        boot: "0f0e0d0c-0b0a-0908-0706-050403020100".into(),
        folders: vec!["/dev/shm/x/1032547698badcfe0102030405060708".into(), "/ssd/é".into()],
        parts: vec![
            StagedPart { part: 0, length: 4096, crc: 0x0102_0304, step: Some(41) },
            StagedPart { part: 3, length: 5_000_000_000, crc: 0, step: None },
        ],
    }
}

/// A group whose members' bytes are `(37 * member + 11 * at) % 251`.
fn parity_group(lengths: &[u64], copies: bool, parity: usize) -> Group {
    let member = |(number, length): (usize, &u64)| redundancy::Member {
        writer: 0x0123_4567_89ab_cde0 + number as u64,
        node: format!("node{number}"),
        folder: "/dev/shm/x/1032547698badcfe0102030405060708".into(),
        parts: match length {
            0 => vec![],
            length => {
                let crc = drystone_format::crc32c(&parity_bytes(number, *length as usize));
                vec![StagedPart { part: 0, length: *length, crc, step: Some(41) }]
            }
        },
    };
    let members = lengths.iter().enumerate().map(member).collect();
    Group { uuid: UUID, step: 41, copies, parity, members }
}

fn parity_bytes(member: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| ((37 * member + 11 * at) % 251) as u8).collect()
}

/// The parity object of a member of a small group, whose chunks are shorter than a row.
fn parity_object(group: &Group, keeper: usize) -> Vec<u8> {
    let (members, parity) = (group.members.len(), group.parity);
    let mut payload = Vec::new();
    for number in 0..parity {
        let stripe = (keeper + members - if group.copies { 1 } else { number }) % members;
        let chunk = group.chunk(stripe) as usize;
        let bytes = |(member, part): (usize, usize)| {
            let mut bytes = parity_bytes(member, group.members[member].length() as usize);
            bytes.resize(bytes.len().max((part + 1) * chunk), 0);
            bytes[part * chunk..(part + 1) * chunk].to_vec()
        };
        let data: Vec<Vec<u8>> = match group.copies {
            true => vec![bytes((stripe, 0))],
            false => {
                (0..members - parity).map(|part| bytes(((stripe + parity + part) % members, part))).collect()
            }
        };
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        payload.extend_from_slice(&drystone_parity::encode(&data, parity).expect("equal chunks")[number]);
    }
    let mut object = object_head(&group.encode(), keeper as u32, payload.len() as u64);
    object.extend_from_slice(&payload);
    object.extend_from_slice(&drystone_format::crc32c(&payload).to_le_bytes());
    object
}

/// A unit with its bytes.
fn cache_unit(length: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..length).map(|n| (n * 7) as u8).collect();
    let mut unit = UnitHead::of(UUID, "log/0123456789abcdef-0002.seg", 4096, &bytes).encode();
    unit.extend(bytes);
    unit
}

/// All vectors.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = columns();
    cases.extend(files());
    cases.extend(index());
    cases.extend(sections());
    cases
}

fn columns() -> Vec<Case> {
    let odometer: Vec<u64> =
        (0..2).flat_map(|z| (0..3).flat_map(move |y| (0..4).map(move |x| 1000 * z + 64 * y + x))).collect();
    let signed: Vec<u64> = [-3i64, 0, 2, -1].into_iter().map(i64::cast_unsigned).collect();
    let columns: [(&str, Vec<u64>); 10] = [
        ("column_empty", vec![]),
        ("column_constant", vec![u64::MAX; 5]),
        ("column_affine", (0..9).map(|i| 100 + 7 * i).collect()),
        ("column_affine_falling", (0..9u64).map(|i| 5u64.wrapping_sub(3 * i)).collect()),
        ("column_odometer", odometer.clone()),
        ("column_odometer_cut_short", odometer[..20].to_vec()),
        ("column_packed_1", vec![4096 * 3 + 8, 8, 4096 * 200 + 8, 4096 + 8, 8]),
        ("column_packed_1_signed", signed),
        ("column_packed_4", vec![1, 1 << 30, 77, 2]),
        ("column_packed_8", vec![0x7ff8_0000_0000_0000, 1, 0xfff0_0000_0000_0000, 0x0123_4567_89ab_cdef]),
    ];
    let mut out: Vec<Case> = Vec::new();
    for (name, values) in columns {
        let mut bytes = (values.len() as u32).to_le_bytes().to_vec();
        column::encode(&values, &mut bytes);
        out.push((name, "column", bytes));
    }
    // Bytes that a writer would not choose, but a reader must accept.
    let mut bytes = 3u32.to_le_bytes().to_vec();
    bytes.push(3);
    bytes.extend(10u64.to_le_bytes());
    bytes.extend(5u64.to_le_bytes());
    bytes.push(2);
    [0u16, 1, 300].iter().for_each(|x| bytes.extend(x.to_le_bytes()));
    out.push(("column_packed_2", "column", bytes));
    out
}

fn files() -> Vec<Case> {
    let mut one = Vec::new();
    frame::push(&mut one, FrameKind::Group, 0, b"stone");
    let mut frames = Vec::new();
    frame::push(&mut frames, FrameKind::File, 0, b"header");
    frame::push(&mut frames, FrameKind::Extent, 1, &[7; 16]);
    frame::push(&mut frames, FrameKind::Group, 2, b"an odd number of bytes");
    frame::push(&mut frames, FrameKind::Abort, 3, b"");
    frame::push(&mut frames, FrameKind::Close, 4, b"");
    let identity = Identity {
        version: 1,
        uuid: UUID,
        durability: Durability::Async,
        features: vec![],
        redundancy: String::new(),
        created: "2026-01-01T00:00:00Z".into(),
    };
    let odd = Identity {
        durability: Durability::Durable,
        features: vec!["one".into(), "\"two\" \\ é".into()],
        ..identity.clone()
    };
    let header = FileHeader {
        kind: FileKind::Idx,
        uuid: UUID,
        id: 0x0123_4567_89ab_cdef,
        part: 2,
        run: 3,
        rank: Some(Rank { rank: 1, nranks: 4 }),
        fence: 3,
        time: 1_767_225_600_000_000_000,
        origin: "node7:4711".into(),
        process: String::new(),
        base: 0,
    };
    let pages =
        FileHeader { kind: FileKind::Pages, id: 99, part: 0, run: 0, rank: None, fence: 0, ..header.clone() };
    let segment = FileHeader { kind: FileKind::Segment, ..pages.clone() };
    let based = FileHeader { base: 17, ..header.clone() };
    let head = GroupHead {
        step: Some(41),
        last: true,
        replace: true,
        group: 7,
        part: 0,
        entries: 3,
        variables: vec![],
        closed: 0,
    };
    let entries = three_entries();
    let first = GroupHead {
        step: None,
        last: false,
        replace: false,
        group: 8,
        part: 0,
        entries: 0,
        variables: vec![],
        closed: 0,
    };
    let bare =
        Entry { variable: 2, subchunks: 1, piece: StoredPiece { length: 8, ..piece() }, ..Entry::default() };
    let blob = BlobRef::of(4096, "Trockenmauer".as_bytes()).encode().to_vec();
    vec![
        ("frame", "frames", one),
        ("frames", "frames", frames),
        ("identity", "identity", identity.encode()),
        ("identity_features", "identity", odd.encode()),
        ("cache_unit", "cache_unit", cache_unit(8)),
        ("cache_unit_blocks", "cache_unit", cache_unit(65_537)),
        ("staged", "staged", staged().encode()),
        ("staged_empty", "staged", Registration { parts: vec![], folders: vec![], ..staged() }.encode()),
        ("parity_group", "parity_group", parity_group(&[100, 37], true, 1).encode()),
        ("parity_copy", "parity_object", parity_object(&parity_group(&[100, 37], true, 1), 0)),
        ("parity_xor", "parity_object", parity_object(&parity_group(&[100, 37, 0], false, 1), 1)),
        ("parity_rs", "parity_object", parity_object(&parity_group(&[300, 100, 256, 7, 299], false, 2), 3)),
        ("hint", "hint", encode_hint(17)),
        ("mark", "mark", encode_mark(17)),
        ("file_header_ranked_idx", "file_header", header.encode()),
        ("file_header_pages", "file_header", pages.encode()),
        ("file_header_segment", "file_header", segment.encode()),
        ("file_header_base", "file_header", based.encode()),
        ("group_final", "group", encode_group(&head, &entries)),
        ("group_first_part_without_step", "group", encode_group(&first, &[bare])),
        (
            "group_closed",
            "group",
            encode_group(&GroupHead { entries: 0, closed: 1_767_225_600_000_000_001, ..head.clone() }, &[]),
        ),
        ("group_empty", "group", encode_group(&GroupHead { entries: 0, replace: false, ..head }, &[])),
        ("blob_reference", "blob_reference", blob),
        ("blob_reference_empty", "blob_reference", BlobRef::of(64, b"").encode().to_vec()),
        ("stored_piece_without_trailer", "stored_piece", stored_piece(b"seven..", 0, None)),
        ("stored_piece_with_histogram", "stored_piece", stored_piece(b"seven..", 0, Some(b"\x01histogram"))),
        ("stored_piece_in_units", "stored_piece", stored_piece(&[0xab; 70], 5, Some(b""))),
        (
            "stored_piece_with_metadata",
            "stored_piece",
            stored_piece(&[0xcd; 40], 5, Some(b"M\x04\0\0meta\x01histogram")),
        ),
    ]
}

fn stored_piece(payload: &[u8], unit_log2: u8, histogram: Option<&[u8]>) -> Vec<u8> {
    let trailer = histogram.map(|h| Trailer::of(payload, unit_log2, h.to_vec()).encode()).unwrap_or_default();
    let check = BlobRef::of(0, if trailer.is_empty() { payload } else { &trailer }).crc;
    let mut out = (payload.len() as u64).to_le_bytes().to_vec();
    out.extend((trailer.len() as u64).to_le_bytes());
    out.extend(u32::from(unit_log2).to_le_bytes());
    out.extend(check.to_le_bytes());
    out.extend(payload);
    if !trailer.is_empty() {
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(trailer);
    }
    out
}

fn piece() -> StoredPiece {
    StoredPiece { position: 96, length: 4096, trailer: 0, unit_log2: 0, check: 0xdead_beef }
}

fn place(dims: &[u64]) -> [u64; 8] {
    std::array::from_fn(|d| dims.get(d).copied().unwrap_or(0))
}

/// A box in three dimensions, a box cut into 2 × 3 subchunks, and a single value, all of step 41.
fn three_entries() -> Vec<Entry> {
    let raw = Arc::new(Encoding { chain: String::new(), item: 8, ..Encoding::default() });
    let zstd = Arc::new(Encoding { chain: "shuffle,zstd:1".into(), item: 4, ..Encoding::default() });
    let cube = Entry {
        step: 42,
        variable: 1,
        put: 5,
        ndim: 3,
        offset: place(&[0, 8, 16]),
        count: place(&[8, 8, 8]),
        cut: place(&[8, 8, 8]),
        encoding: raw.clone(),
        subchunks: 1,
        piece: piece(),
        stats: Stats { min_max: Some(((-1.5f64).to_bits(), 2.25f64.to_bits())), nans: 1 },
        ..Entry::default()
    };
    let cut = Entry {
        variable: 2,
        member: 1,
        ndim: 2,
        offset: place(&[10, 0]),
        count: place(&[10, 9]),
        cut: place(&[5, 4]),
        encoding: zstd,
        subchunks: 6,
        piece: StoredPiece { position: 8192, length: 250, check: 17, ..piece() },
        stats: Stats { min_max: Some(((-7i64).cast_unsigned(), 7)), nans: 0 },
        ..cube.clone()
    };
    let single = Entry {
        variable: 3,
        ndim: 0,
        offset: place(&[]),
        count: place(&[]),
        cut: place(&[]),
        put: 6,
        piece: StoredPiece { position: 9000, length: 8, trailer: 18, unit_log2: 0, check: 1 },
        stats: Stats::default(),
        ..cube.clone()
    };
    vec![cube, cut, single]
}

/// A box of records stored whole, three members with one piece; and the same box of the first member as replica 2:
/// column-major, and along both curves.
fn layouts() -> Vec<Entry> {
    let with = |member, at, room, order, replica| Entry {
        member,
        ndim: 2,
        offset: place(&[4, 0]),
        count: place(&[16, 8]),
        cut: place(&[16, 8]),
        piece: StoredPiece {
            position: 96 + 8192 * u64::from(replica),
            length: 128 * u64::from(room),
            ..piece()
        },
        encoding: Arc::new(Encoding {
            chain: String::new(),
            item: 8,
            layout: Layout::Cells(Cells { room, at, order }),
            replica,
            part: None,
        }),
        ..three_entries().remove(0)
    };
    vec![
        with(0, 0, 24, Order::Dims(vec![0, 1]), 0),
        with(0, 0, 8, Order::Dims(vec![1, 0]), 2),
        with(0, 0, 8, Order::Morton, 3),
        with(1, 8, 24, Order::Dims(vec![0, 1]), 0),
        with(1, 0, 8, Order::Hilbert, 3),
        with(2, 16, 24, Order::Dims(vec![0, 1]), 0),
    ]
}

/// Statistics of a derived variable without values, computed from snapshot 7: a box of one part, and a box of six whose
/// statistics are in a subchunk table.
fn bounds() -> Vec<Entry> {
    let encoding = Arc::new(Encoding { chain: "bounds".into(), item: 4, ..Encoding::default() });
    let one = Entry {
        put: 7 << 24,
        encoding: encoding.clone(),
        subchunks: 1,
        offset: place(&[0, 0, 0]),
        count: place(&[8, 16, 32]),
        cut: place(&[8, 16, 32]),
        piece: StoredPiece { position: 96, ..StoredPiece::default() },
        stats: Stats { min_max: Some((0x8000_0001, 0xc000_0000)), nans: 3 },
        ..three_entries().remove(0)
    };
    let cut = Entry {
        put: (7 << 24) + 1,
        encoding,
        offset: place(&[8, 0]),
        count: place(&[32, 48]),
        cut: place(&[16, 16]),
        stats: Stats { min_max: Some((0x7fff_0000, 0xc100_0000)), nans: 0 },
        ..three_entries().remove(1)
    };
    vec![one, cut]
}

/// Two runs of elements of an array member, put together: bytes 0 to 8 row by row, 16 to 32 along a curve.
fn parts() -> Vec<Entry> {
    let with = |part, item, layout| {
        let mut entry = layouts().remove(0);
        entry.encoding = Arc::new(Encoding { item, layout, part: Some(part), ..Encoding::default() });
        entry.piece.position += 8192 * u64::from(part);
        entry.piece.length = 128 * u64::from(item);
        entry
    };
    let curve = Layout::Cells(Cells { room: 16, at: 0, order: Order::Hilbert });
    vec![with(0, 8, Layout::Dense), with(16, 16, curve)]
}

fn blocks(n: u64, check: impl Fn(u64) -> u32) -> Vec<Entry> {
    let block = |i: u64| Entry {
        step: 1,
        commit: 2,
        order: i,
        ndim: 2,
        offset: place(&[i / 8 * 16, i % 8 * 16]),
        count: place(&[16, 16]),
        cut: place(&[16, 16]),
        encoding: Arc::new(Encoding { chain: String::new(), item: 8, ..Encoding::default() }),
        subchunks: 1,
        source: i as u32,
        piece: StoredPiece { position: 104, length: 2048, check: check(i), ..StoredPiece::default() },
        ..Entry::default()
    };
    (0..n).map(block).collect()
}

fn index() -> Vec<Case> {
    let one = Entry { commit: 3, order: 2, source: 1, ..three_entries().remove(0) };
    let page = |offset| PageRef { file: 0xfeed, offset, length: 700, crc: 0x1234_5678 };
    let regular = blocks(64, |i| (i as u32).wrapping_mul(0x9e37_79b9));
    let children: Vec<Child> =
        (0..).step_by(736).zip(regular.chunks(16)).map(|(at, c)| Child::of_entries(c, page(at))).collect();
    let branch = Branch { height: 1, children };
    let above = Branch { height: 2, children: vec![Child::of_branch(&branch, page(4000))] };
    let subchunk = |i: u64| Subchunk {
        piece: StoredPiece {
            position: 1000 + 64 * i,
            length: 60 + i % 3,
            check: i as u32 * 7,
            ..StoredPiece::default()
        },
        stats: Stats { min_max: (i > 0).then_some((i, i + 100)), nans: i },
        prefix: None,
    };
    let table: Vec<Subchunk> = (0..6).map(subchunk).collect();
    let same = vec![Subchunk { piece: StoredPiece { trailer: 4, ..piece() }, ..Subchunk::default() }; 2000];
    let bounds_alone: Vec<Subchunk> =
        table.iter().map(|one| Subchunk { stats: one.stats, ..Subchunk::default() }).collect();
    let prefixed = |i: u64| {
        let first = StoredPiece {
            position: 200 + 48 * i,
            length: 40 + i,
            check: 11 * i as u32,
            ..StoredPiece::default()
        };
        let prefix = Prefix::new(&first, 1, 0.01 * i as f64, if i == 3 { f64::INFINITY } else { 0.03125 });
        Subchunk { prefix: (i != 2).then_some(prefix), ..subchunk(i) }
    };
    let prefixes: Vec<Subchunk> = (0..6).map(prefixed).collect();
    vec![
        ("entry_block_empty", "entry_block", encode_block(&[])),
        ("entry_block_one", "entry_block", encode_block(&[one])),
        ("entry_block_three", "entry_block", encode_block(&three_entries())),
        ("entry_block_layouts", "entry_block", encode_block(&layouts())),
        ("entry_block_parts", "entry_block", encode_block(&parts())),
        ("entry_block_bounds", "entry_block", encode_block(&bounds())),
        ("entry_block_regular", "entry_block", encode_block(&regular)),
        ("entry_block_padded", "entry_block", encode_block(&blocks(400, |_| 5))),
        ("branch", "branch", branch.encode()),
        ("branch_of_branches", "branch", above.encode()),
        ("subchunk_table", "subchunk_table", table::encode(&table)),
        ("subchunk_table_fronts", "subchunk_table", table::encode(&prefixes)),
        ("subchunk_table_bounds", "subchunk_table", table::encode(&bounds_alone)),
        ("subchunk_table_padded", "subchunk_table", table::encode(&same)),
    ]
}

fn record() -> DType {
    let member = |name: &str, dtype, shape: &[u64], offset| Member {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        offset,
    };
    let inner = DType::Record(Record {
        itemsize: 4,
        members: vec![
            member("k", DType::Scalar(Scalar::I16), &[], 0),
            member("b", DType::Scalar(Scalar::Bool), &[], 2),
        ],
    });
    DType::Record(Record {
        itemsize: 48,
        members: vec![
            member("x", DType::Scalar(Scalar::F32), &[], 0),
            member("v", DType::Scalar(Scalar::F64), &[3], 8),
            member("a", inner, &[2], 32),
            member("s", DType::Bytes(5), &[], 40),
        ],
    })
}

pub(crate) fn variable(id: u32, dtype: DType, shape: &[u64], steps: bool) -> Variable {
    Variable {
        uid: 0,
        access: String::new(),
        meaning: None,
        derived: None,
        id,
        dtype,
        shape: shape.to_vec(),
        growable: vec![false; shape.len()],
        dims: vec![],
        steps,
        local: false,
        transform: String::new(),
        chunks: None,
        fill: None,
        attrs: BTreeMap::new(),
        created: 1,
        clips: vec![],
    }
}

fn every_value() -> Value {
    let scalar = TypedArray {
        dtype: DType::Scalar(Scalar::F32),
        shape: vec![],
        data: 1.5f32.to_le_bytes().to_vec(),
        meaning: None,
    };
    let array = TypedArray {
        dtype: DType::Scalar(Scalar::I16),
        shape: vec![2, 3],
        data: (0..12).collect(),
        meaning: None,
    };
    let floats = [0.1, -0.0, f64::INFINITY, f64::from_bits(0x7ff4_dead_beef_0001)];
    Value::Map(BTreeMap::from([
        ("null".into(), Value::Null),
        ("bools".into(), Value::List(vec![Value::Bool(false), Value::Bool(true)])),
        (
            "integers".into(),
            Value::List(
                [0, 23, 24, -1, i64::MIN.into(), u64::MAX.into()].into_iter().map(Value::Int).collect(),
            ),
        ),
        ("floats".into(), Value::List(floats.into_iter().map(Value::Float).collect())),
        ("text".into(), Value::Text("K·s⁻¹ \"quoted\"".into())),
        ("bytes".into(), Value::Bytes(vec![0, 255])),
        ("nested".into(), Value::Map(BTreeMap::from([(String::new(), Value::List(vec![]))]))),
        ("scalar".into(), Value::Array(scalar)),
        ("array".into(), Value::Array(array)),
    ]))
}

fn rich_schema() -> Schema {
    let mut schema = Schema::empty();
    schema.next_id = 9;
    schema.groups.insert(String::new(), BTreeMap::from([("every".into(), every_value())]));
    schema.groups.insert("fields/raw".into(), BTreeMap::new());
    let temperature = Variable {
        growable: vec![true, false],
        dims: vec!["time of day".into(), "x".into()],
        transform: "shuffle,zstd:1".into(),
        chunks: Some(vec![16, 16]),
        fill: Some(1.5f32.to_le_bytes().to_vec()),
        attrs: BTreeMap::from([("units".into(), Value::Text("K".into()))]),
        created: 2,
        clips: vec![(3, vec![20, 30]), (5, vec![10, 30])],
        ..variable(0, DType::Scalar(Scalar::F32), &[40, 30], true)
    };
    let local = Variable { local: true, ..variable(8, DType::Unicode(4), &[], true) };
    for v in [temperature, variable(3, record(), &[7], false), variable(4, DType::String, &[2], false), local]
    {
        schema.names.insert(format!("fields/v{}", v.id), Name::Variable(v.id));
        schema.variables.insert(v.id, v);
    }
    schema.names.insert("latest".into(), Name::Link("fields".into()));
    schema
}

/// Times and enumerations, as variables, members and an attribute.
fn schema_of_meanings() -> Schema {
    let mut schema = Schema::empty();
    let int = DType::Scalar(Scalar::I64);
    let instant = Meaning::Instant(Unit { scale: Scale::Nanosecond, count: 1 });
    let duration = Meaning::Duration(Unit { scale: Scale::Second, count: 25 });
    let names = Meaning::Names(vec![("solid".into(), 3), ("dark matter".into(), -1), ("gas".into(), 0)]);
    let when = TypedArray {
        dtype: int.clone(),
        shape: vec![2],
        data: [0i64, i64::MIN].iter().flat_map(|t| t.to_le_bytes()).collect(),
        meaning: Some(instant.clone()),
    };
    schema.groups.insert(String::new(), BTreeMap::from([("when".into(), Value::Array(when))]));
    let member = |name: &str, dtype: DType, shape: &[u64], offset| Member {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        offset,
    };
    let members = DType::Record(Record {
        itemsize: 24,
        members: vec![
            member("t", int.clone(), &[2], 0),
            member("n", DType::Scalar(Scalar::F32), &[], 16),
            member("phase", DType::Scalar(Scalar::I8), &[], 20),
        ],
    });
    let below = BTreeMap::from([("t".into(), duration.clone()), ("phase".into(), names.clone())]);
    for (dtype, meaning) in [
        (int.clone(), instant),
        (int, duration),
        (DType::Scalar(Scalar::I8), names),
        (members, Meaning::Members(below)),
    ] {
        let id = schema.next_id;
        schema.next_id += 1;
        schema.names.insert(format!("v{id}"), Name::Variable(id));
        schema.variables.insert(id, Variable { meaning: Some(meaning), ..variable(id, dtype, &[4], false) });
    }
    schema
}

/// Lists of numbers, and references to objects and to regions.
fn schema_of_any_length() -> Schema {
    let mut schema = Schema::empty();
    for (dtype, meaning) in [
        (DType::Ragged(Scalar::F32), None),
        (DType::Ragged(Scalar::I64), None),
        (DType::String, Some(Meaning::Object)),
        (DType::String, Some(Meaning::Region)),
    ] {
        let id = schema.next_id;
        schema.next_id += 1;
        schema.names.insert(format!("v{id}"), Name::Variable(id));
        schema.variables.insert(id, Variable { meaning, ..variable(id, dtype, &[4], false) });
    }
    schema
}

/// A record whose members are a text, a list of numbers, references and an array of records with a text.
fn record_of_any_length() -> DType {
    let member = |name: &str, dtype: DType, shape: &[u64], offset| Member {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        offset,
    };
    let inner =
        vec![member("unit", DType::String, &[], 0), member("scale", DType::Scalar(Scalar::F64), &[], 16)];
    let inner = DType::Record(Record { itemsize: 24, members: inner });
    let members = vec![
        member("id", DType::Scalar(Scalar::I32), &[], 0),
        member("name", DType::String, &[], 4),
        member("hits", DType::Ragged(Scalar::F32), &[], 20),
        member("made_of", DType::String, &[2], 36),
        member("axes", inner, &[2], 68),
    ];
    DType::Record(Record { itemsize: 116, members })
}

/// Records with members of any length; one has a fill value, which names no blob.
fn schema_of_records_of_any_length() -> Schema {
    let mut schema = Schema::empty();
    let dtype = record_of_any_length();
    let mut fill = vec![0; dtype.item_size() as usize];
    fill.splice(..4, (-1i32).to_le_bytes());
    let below = BTreeMap::from([("made_of".to_owned(), Meaning::Object)]);
    for (fill, meaning) in [(None, None), (Some(fill), Some(Meaning::Members(below)))] {
        let id = schema.next_id;
        schema.next_id += 1;
        schema.names.insert(format!("v{id}"), Name::Variable(id));
        let plain = variable(id, dtype.clone(), &[4], false);
        schema.variables.insert(id, Variable { fill, meaning, ..plain });
    }
    schema
}

/// The definition `f8(u) * n`, whose variables now have other names.
fn derived_schema() -> Schema {
    let mut schema = Schema::empty();
    schema.next_id = 3;
    let name = |text: &str| [&[1, 0], (text.len() as u16).to_le_bytes().as_slice(), text.as_bytes()].concat();
    // A name, its cast to f8, the other name, and their product.
    let nodes = [&[0, 0, 0][..], &[74, 0, 0], &[0, 1, 0], &[109, 1, 0, 2, 0]].concat();
    let header = [&b"DRYX"[..], &[1, 0, 2, 0, 4, 0, 0, 0]].concat();
    let derived = Derived {
        kind: derived::Kind::Virtual,
        edge: Edge::Periodic,
        text: "f8(u)*n".into(),
        tree: [header, name("u"), name("n"), nodes].concat(),
        inputs: vec![Input { name: "n".into(), variable: 1 }, Input { name: "u".into(), variable: 0 }],
    };
    let product = Variable {
        fill: Some(f64::NAN.to_le_bytes().to_vec()),
        derived: Some(Box::new(derived)),
        ..variable(2, DType::Scalar(Scalar::F64), &[5], true)
    };
    let inputs = [
        variable(0, DType::Scalar(Scalar::F32), &[5], true),
        variable(1, DType::Scalar(Scalar::F64), &[5], false),
    ];
    for (path, v) in ["wind", "number", "product"].into_iter().zip(inputs.into_iter().chain([product])) {
        schema.names.insert(path.into(), Name::Variable(v.id));
        schema.variables.insert(v.id, v);
    }
    schema
}

fn sections() -> Vec<Case> {
    let mut steps = Steps::default();
    (0..10).for_each(|i| steps.insert(5 * i));
    [46, 47, 48, 1000].into_iter().for_each(|step| steps.insert(step));
    steps.hide(5, 3);
    steps.hide(46, 9);
    let source = |i: u64| Source {
        kind: 0,
        writer: 0xa000 + i,
        part: i as u32 / 2,
        watermark: 1000 * i,
        groups: 3,
        state: [SourceState::Open, SourceState::Closed, SourceState::Fenced][i as usize % 3],
        idx_length: 1000 * i + 32,
        seg_length: 1 << (20 + i),
    };
    let page = |offset| PageRef { file: u64::MAX, offset, length: 12_345, crc: 0xffff_ffff };
    let first = Manifest {
        version: 1,
        parent: 0,
        write_id: [0x77; 16],
        uuid: UUID,
        time: 1_767_225_600_000_000_000,
        marked: false,
        last_marked: 0,
        fence: 0,
        schema: Section::Inline(Schema::empty().encode()),
        steps: Section::Inline(Steps::default().encode()),
        source_pages: vec![],
        source_count: 0,
        root: None,
        ahead: vec![],
        published: None,
        boot: None,
    };
    let later = Manifest {
        version: 123_456,
        parent: 123_450,
        marked: true,
        last_marked: 123_400,
        fence: 4,
        schema: Section::Page(page(40)),
        steps: Section::Page(page(80)),
        source_pages: vec![page(120), page(160)],
        source_count: 513,
        root: Some(Root { page: page(200), height: 2, entries: 1_000_000 }),
        ahead: vec![(0, 7), (0, 9), (512, 1)],
        ..first.clone()
    };
    let published =
        Manifest { version: 3, published: Some(Section::Inline(published::encode(&[]))), ..first.clone() };
    let boot = Some("6f1c0e3a-5b2d-4c8e-9f70-1a2b3c4d5e6f".to_owned());
    let booted = Manifest { version: 2, parent: 1, boot, ..first.clone() };
    let shard = |i: u64| published::Shard {
        number: 2 * i + i / 3,
        version: 17 + i % 2,
        fingerprint: u128::from(i + 1) << 100 | u128::from(1000 - i),
        length: 65_536 - 4 * i,
        index_check: 0xdead_beef ^ i as u32,
    };
    let array = |member, steps: bool| published::Array {
        node: format!("fields/p/{member}"),
        variable: 7,
        uid: u64::MAX - 3,
        member,
        version: 18,
        shape: if steps { vec![9, 100, 300] } else { vec![100, 300] },
        chunk: if steps { vec![1, 25, 64] } else { vec![25, 64] },
        shard: if steps { vec![4, 50, 320] } else { vec![100, 320] },
        zstd: steps,
        tail: u32::from(!steps),
        pages: vec![published::ShardPage { first: 0, count: 5, page: page(40) }],
    };
    vec![
        ("steps_empty", "steps", Steps::default().encode()),
        ("steps", "steps", steps.encode()),
        ("source_page", "source_page", encode_page(&(0..5).map(source).collect::<Vec<_>>())),
        ("dtype_record", "dtype", record().encode()),
        ("dtype_ragged", "dtype", DType::Ragged(Scalar::F32).encode()),
        ("dtype_record_any_length", "dtype", record_of_any_length().encode()),
        ("value", "value", every_value().encode()),
        ("schema_empty", "schema", Schema::empty().encode()),
        ("schema", "schema", rich_schema().encode()),
        ("schema_meanings", "schema", schema_of_meanings().encode()),
        ("schema_derived", "schema", derived_schema().encode()),
        ("schema_any_length", "schema", schema_of_any_length().encode()),
        ("schema_records_any_length", "schema", schema_of_records_of_any_length().encode()),
        ("manifest_first", "manifest", first.encode().unwrap_or_default()),
        ("manifest", "manifest", later.encode().unwrap_or_default()),
        ("manifest_published", "manifest", published.encode().unwrap_or_default()),
        ("manifest_boot", "manifest", booted.encode().unwrap_or_default()),
        ("published", "published", published::encode(&[array(0, true), array(1, false)])),
        ("shard_page", "shard_page", published::encode_page(&(0..5).map(shard).collect::<Vec<_>>())),
        ("shard_statistics", "shard_statistics", shard_statistics().encode()),
    ]
}

/// Statistics of a shard of three float32 chunks: ordinary values; only fill values; only NaN, with fill values not
/// counted.
fn shard_statistics() -> Statistics {
    let float = |x: f64| x.to_bits();
    let chunk = |values, fills, min_max, nans| Chunk { values, fills, stats: Stats { min_max, nans } };
    Statistics {
        fingerprint: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        version: 17,
        extents: vec![1, 10, 6],
        chunks: vec![
            chunk(24, Some(2), Some((float(-1.5), float(300.0))), 1),
            chunk(24, Some(24), Some((0, 0)), 0),
            chunk(12, None, None, 12),
        ],
    }
}
