//! A small container, written by hand, and the values that a reader must find in it.
//!
//! It has three writers, two ranked and one not; a record, strings, single values, a cut block, two codec chains,
//! overlapping puts, a replaced step, a clip, a link, a local variable; sections inline in one manifest and paged in
//! the next, a stale hint.

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone_format::Corrupt;
use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::dtype::{DType, Leaf, Member, Record, Scalar};
use drystone_format::entry::{Encoding, Entry, StoredPiece, encode_block, key_cmp, leaf_cmp};
use drystone_format::frame::{self, FrameKind};
use drystone_format::identity::{Durability, Identity, encode_hint, encode_mark};
use drystone_format::keys;
use drystone_format::log::{FileHeader, FileKind, GroupHead, Rank, encode_group};
use drystone_format::manifest::{Manifest, Root, Section};
use drystone_format::piece::{BlobRef, Trailer};
use drystone_format::schema::{Name, Schema, Variable};
use drystone_format::source::{Source, SourceState, encode_page};
use drystone_format::steps::Steps;
use drystone_format::table::{self, Subchunk};
use drystone_format::value::Value;

use super::cases::{UUID, variable};
use super::json::Json;

type Files = BTreeMap<String, Vec<u8>>;

/// The files by key, and the expected values.
pub(crate) fn container() -> Result<(Files, Json), Corrupt> {
    let mut schema = schema();
    let mut model = Model { cells: BTreeMap::new() };
    let mut writers = [Writer::new(0xa, Some(0)), Writer::new(0xb, Some(1)), Writer::new(0xc, None)];
    let [a, b, c] = &mut writers;

    // Commit 2: steps 0 and 1 of the ranked run, and values without step of the unranked writer.
    let floats =
        |n: u64, first: f32| (0..n).flat_map(|i| (first + i as f32).to_le_bytes()).collect::<Vec<u8>>();
    for step in 0..2u64 {
        let first = 100.0 * (step + 1) as f32;
        put(
            &schema,
            &mut model,
            a,
            Some(step),
            0,
            Put { cut: &[2, 3], ..Put::new(&[0, 0], &[4, 5], &floats(20, first)) },
        );
        put(&schema, &mut model, b, Some(step), 0, Put::new(&[1, 4], &[2, 2], &floats(4, -first)));
        put(&schema, &mut model, b, Some(step), 3, Put::new(&[], &[], &(7 - 9 * step as i32).to_le_bytes()));
        a.close_group(Some(step), false);
        b.close_group(Some(step), false);
    }
    let particles: Vec<u8> = (0..3 * 48u32).map(|i| (i * 7) as u8).collect();
    put(&schema, &mut model, c, None, 1, Put::new(&[1], &[3], &without_padding(&schema, 1, particles)));
    put_strings(&mut model, c, 2, 0, &["Trockenmauer", "", "石垣"]);
    let ints = |n: i32| (0..n).flat_map(|i| (i * i - 40).to_le_bytes()).collect::<Vec<u8>>();
    put(&schema, &mut model, c, None, 4, Put { unit_log2: 5, ..Put::new(&[0], &[30], &ints(30)) });
    let wide: Vec<u8> =
        "añ石".chars().chain("xy\0".chars()).flat_map(|c| u32::from(c).to_le_bytes()).collect();
    put(&schema, &mut model, c, None, 5, Put::new(&[0], &[2], &wide));
    put(&schema, &mut model, c, None, 6, Put { cut: &[16], ..Put::new(&[10], &[40], &ints(40)) });
    c.close_group(None, false);
    let mut entries = adopt(&mut writers, 2);
    let mut files = Files::new();
    let sources = writers.each_ref().map(|w| w.source());
    let mut steps = Steps::default();
    (0..2).for_each(|step| steps.insert(step));
    commit(&mut files, 2, &schema, &steps, &entries, &sources, false)?;
    files.insert(keys::mark(2), encode_mark(2));
    files.insert(keys::HINT.into(), encode_hint(2));

    // Commit 3: variable 4 was cut to 20 and grew back to 30; step 1 was replaced; step 4 was added; part of a record
    // was rewritten.
    let [a, b, c] = &mut writers;
    if let Some(v) = schema.variables.get_mut(&4) {
        v.clips.push((2, vec![20]));
    }
    model.clip(4, 20);
    model.forget_step(1);
    steps.hide(1, 3);
    steps.insert(4);
    put(&schema, &mut model, a, Some(1), 0, Put::new(&[0, 0], &[1, 6], &floats(6, 900.0)));
    a.close_group(Some(1), true);
    b.close_group(Some(1), true);
    put(&schema, &mut model, b, Some(4), 0, Put::new(&[3, 0], &[1, 6], &floats(6, f32::NAN)));
    put(&schema, &mut model, a, Some(4), 7, Put::new(&[], &[3], &ints(3)));
    put(&schema, &mut model, b, Some(4), 7, Put::new(&[], &[2, 1], &ints(2)));
    a.close_group(Some(4), false);
    b.close_group(Some(4), false);
    let particle: Vec<u8> = (0..48u32).map(|i| 255 - i as u8).collect();
    put(&schema, &mut model, c, None, 1, Put { members: &[1, 3], ..Put::new(&[2], &[1], &particle) });
    put_strings(&mut model, c, 2, 2, &["dry stone"]);
    put(&schema, &mut model, c, None, 4, Put::new(&[18], &[4], &ints(4)));
    c.close_group(None, false);
    entries.extend(adopt(&mut writers, 3));
    let sources = writers.each_ref().map(|w| w.source());
    commit(&mut files, 3, &schema, &steps, &entries, &sources, true)?;

    for writer in writers {
        files.insert(keys::segment(writer.id, 0), writer.segment);
        files.insert(keys::idx(writer.id, 0), writer.idx);
    }
    let identity = Identity {
        version: 1,
        uuid: UUID,
        durability: Durability::Async,
        features: vec![],
        redundancy: String::new(),
        created: "2026-01-01T00:00:00Z".into(),
    };
    files.insert(keys::IDENTITY.into(), identity.encode());
    Ok((files, model.describe(&schema, &steps)))
}

fn schema() -> Schema {
    let scalar = DType::Scalar;
    let mut schema = Schema::empty();
    let fill = Variable {
        dims: vec!["y".into(), "x".into()],
        fill: Some(1.5f32.to_le_bytes().to_vec()),
        chunks: Some(vec![2, 3]),
        attrs: BTreeMap::from([("units".into(), Value::Text("K".into())), ("n".into(), Value::Int(-3))]),
        ..variable(0, scalar(Scalar::F32), &[4, 6], true)
    };
    let coded = Variable { transform: "shuffle".into(), ..variable(6, scalar(Scalar::I32), &[50], false) };
    let local = Variable { local: true, ..variable(7, scalar(Scalar::I32), &[], true) };
    let variables = [
        ("t", fill),
        ("fields/particles", variable(1, record(), &[5], false)),
        ("names", variable(2, DType::String, &[3], false)),
        ("count", variable(3, scalar(Scalar::I32), &[], true)),
        (
            "clipped",
            Variable { transform: "zstd:3".into(), ..variable(4, scalar(Scalar::I32), &[30], false) },
        ),
        ("wide", variable(5, DType::Unicode(3), &[2], false)),
        ("coded", coded),
        ("local", local),
    ];
    for (path, v) in variables {
        schema.names.insert(path.into(), Name::Variable(v.id));
        schema.next_id = v.id + 1;
        schema.variables.insert(v.id, v);
    }
    schema.groups.insert("fields".into(), BTreeMap::from([("title".into(), Value::Text("wall".into()))]));
    schema.names.insert("latest".into(), Name::Link("fields".into()));
    schema
}

fn record() -> DType {
    let member = |name: &str, dtype, shape: &[u64], offset| Member {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        offset,
    };
    let members =
        vec![member("k", DType::Scalar(Scalar::I16), &[], 0), member("b", DType::Scalar(Scalar::U8), &[], 2)];
    let inner = DType::Record(Record { itemsize: 4, members });
    let members = vec![
        member("x", DType::Scalar(Scalar::I32), &[], 0),
        member("v", DType::Scalar(Scalar::U64), &[3], 8),
        member("a", inner, &[2], 32),
        member("s", DType::Bytes(5), &[], 40),
    ];
    DType::Record(Record { itemsize: 48, members })
}

fn var(schema: &Schema, id: u32) -> Variable {
    schema.variables.get(&id).cloned().unwrap_or_else(|| variable(id, DType::String, &[], false))
}

/// Elements with zeros in the padding between members.
fn without_padding(schema: &Schema, id: u32, mut bytes: Vec<u8>) -> Vec<u8> {
    let dtype = var(schema, id).dtype;
    let leaves = dtype.leaves();
    for (i, byte) in bytes.iter_mut().enumerate() {
        let at = i as u32 % dtype.item_size();
        if !leaves.iter().any(|l| l.offset <= at && at < l.offset + l.size) {
            *byte = 0;
        }
    }
    bytes
}

/// One writer's segment and idx, part 0.
struct Writer {
    id: u64,
    rank: Option<Rank>,
    segment: Vec<u8>,
    idx: Vec<u8>,
    extents: u64,
    groups: u64,
    puts: u64,
    /// Entries of the open group.
    open: Vec<Entry>,
    /// Entries of groups that are closed and not yet adopted.
    closed: Vec<Entry>,
}

impl Writer {
    fn new(id: u64, rank: Option<u32>) -> Writer {
        let rank = rank.map(|rank| Rank { rank, nranks: 2 });
        let header = |kind| {
            let rank = rank.filter(|_| kind == FileKind::Idx);
            let origin = "vectors:1".into();
            let header = FileHeader {
                kind,
                uuid: UUID,
                id,
                part: 0,
                run: 0,
                rank,
                fence: 0,
                time: 1,
                origin,
                process: String::new(),
                base: 0,
            };
            let mut out = Vec::new();
            frame::push(&mut out, FrameKind::File, 0, &header.encode());
            out
        };
        let (segment, idx) = (header(FileKind::Segment), header(FileKind::Idx));
        Writer { id, rank, segment, idx, extents: 0, groups: 0, puts: 0, open: vec![], closed: vec![] }
    }

    /// Appends an extent with one payload and its trailer; returns the position of the payload.
    fn extent(&mut self, payload: &[u8], trailer: &[u8]) -> u64 {
        let mut bytes = payload.to_vec();
        if !trailer.is_empty() {
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend(trailer);
        }
        self.extents += 1;
        let position = (self.segment.len() + frame::HEADER) as u64;
        frame::push(&mut self.segment, FrameKind::Extent, self.extents, &bytes);
        position
    }

    fn piece(&mut self, payload: &[u8], unit_log2: u8) -> StoredPiece {
        let trailer = match unit_log2 {
            0 => vec![],
            unit_log2 => Trailer::of(payload, unit_log2, vec![]).encode(),
        };
        let check = BlobRef::of(0, if trailer.is_empty() { payload } else { &trailer }).crc;
        let position = self.extent(payload, &trailer);
        StoredPiece {
            position,
            length: payload.len() as u64,
            trailer: trailer.len() as u64,
            unit_log2,
            check,
        }
    }

    fn close_group(&mut self, step: Option<u64>, replace: bool) {
        let entries = self.open.len() as u64;
        let head = GroupHead {
            step,
            last: true,
            replace,
            group: self.groups,
            part: 0,
            entries,
            variables: vec![],
            closed: 0,
        };
        frame::push(&mut self.idx, FrameKind::Group, self.groups + 1, &encode_group(&head, &self.open));
        self.groups += 1;
        self.closed.append(&mut self.open);
    }

    fn source(&self) -> Source {
        Source {
            kind: 0,
            writer: self.id,
            part: 0,
            watermark: self.idx.len() as u64,
            groups: self.groups,
            state: SourceState::Open,
            idx_length: self.idx.len() as u64,
            seg_length: self.segment.len() as u64,
        }
    }
}

/// The arguments of a `put`.
#[derive(Clone, Copy)]
struct Put<'a> {
    offset: &'a [u64],
    count: &'a [u64],
    cut: &'a [u64],
    elements: &'a [u8],
    unit_log2: u8,
    /// The leaf members that it writes; empty means all.
    members: &'a [usize],
}

impl<'a> Put<'a> {
    fn new(offset: &'a [u64], count: &'a [u64], elements: &'a [u8]) -> Put<'a> {
        Put { offset, count, cut: count, elements, unit_log2: 0, members: &[] }
    }
}

/// The coordinates of a box's cells in row-major order.
fn places(count: &[u64]) -> Vec<Vec<u64>> {
    count.iter().fold(vec![vec![]], |places, &n| {
        places
            .iter()
            .flat_map(|p| (0..n).map(|i| [p.as_slice(), &[i]].concat()).collect::<Vec<_>>())
            .collect()
    })
}

fn padded(dims: &[u64]) -> [u64; 8] {
    std::array::from_fn(|d| dims.get(d).copied().unwrap_or(0))
}

fn put(schema: &Schema, model: &mut Model, w: &mut Writer, step: Option<u64>, id: u32, put: Put<'_>) {
    let v = var(schema, id);
    let number = w.puts;
    w.puts += 1;
    for (member, leaf) in v.dtype.leaves().into_iter().enumerate() {
        if !put.members.is_empty() && !put.members.contains(&member) {
            continue;
        }
        let column = gather(&put, &leaf, v.dtype.item_size());
        let item = leaf.size as usize;
        let grid: Vec<u64> = put.count.iter().zip(put.cut).map(|(n, c)| n.div_ceil(*c)).collect();
        let mut pieces = Vec::new();
        for place in places(&grid) {
            let inside = |p: &Vec<u64>| p.iter().zip(put.cut).zip(&place).all(|((x, c), g)| x / c == *g);
            let all = places(put.count);
            let cells = all.iter().zip(column.chunks(item)).filter(|(p, _)| inside(p));
            let bytes: Vec<u8> = cells.flat_map(|(_, cell)| cell.to_vec()).collect();
            pieces.push(w.piece(&coded(&v.transform, &bytes, item), put.unit_log2));
        }
        let subchunks = pieces.len() as u64;
        let piece = match pieces.as_slice() {
            [one] => *one,
            many => {
                let table: Vec<Subchunk> =
                    many.iter().map(|&piece| Subchunk { piece, ..Subchunk::default() }).collect();
                w.piece(&table::encode(&table), 0)
            }
        };
        w.open.push(Entry {
            step: step.map_or(0, |s| s + 1),
            variable: id,
            member: member as u32,
            put: number,
            ndim: put.count.len() as u8,
            offset: if v.local { [0; 8] } else { padded(put.offset) },
            count: padded(put.count),
            cut: padded(put.cut),
            encoding: Arc::new(Encoding {
                chain: v.transform.clone(),
                item: leaf.size,
                ..Encoding::default()
            }),
            subchunks,
            piece,
            ..Entry::default()
        });
    }
    model.put(&v, step, w.id, &put);
}

fn gather(put: &Put<'_>, leaf: &Leaf, itemsize: u32) -> Vec<u8> {
    let range = leaf.offset as usize..(leaf.offset + leaf.size) as usize;
    put.elements
        .chunks(itemsize as usize)
        .flat_map(|e| e.get(range.clone()).unwrap_or_default().to_vec())
        .collect()
}

/// The stored form of docs/format/encodings.md; for zstd, the form for data that does not compress.
fn coded(chain: &str, bytes: &[u8], item: usize) -> Vec<u8> {
    match chain {
        "" => bytes.to_vec(),
        "shuffle" => {
            let planes = (0..item).flat_map(|j| bytes.iter().skip(j).step_by(item));
            [0x1f].iter().chain(planes).copied().collect()
        }
        _ => [&[0x10], bytes].concat(),
    }
}

fn put_strings(model: &mut Model, w: &mut Writer, id: u32, first: u64, strings: &[&str]) {
    let mut references = Vec::new();
    for text in strings {
        let position = if text.is_empty() { 0 } else { w.extent(text.as_bytes(), &[]) };
        references.extend(BlobRef::of(position, text.as_bytes()).encode());
    }
    let number = w.puts;
    w.puts += 1;
    let piece = w.piece(&references, 0);
    let count = padded(&[strings.len() as u64]);
    w.open.push(Entry {
        variable: id,
        put: number,
        ndim: 1,
        offset: padded(&[first]),
        count,
        cut: count,
        encoding: Arc::new(Encoding { chain: String::new(), item: 16, ..Encoding::default() }),
        subchunks: 1,
        piece,
        ..Entry::default()
    });
    model.strings(first as usize, strings);
}

/// Moves the entries of closed groups into the index of a commit.
fn adopt(writers: &mut [Writer; 3], commit: u64) -> Vec<Entry> {
    let mut out = Vec::new();
    for (source, w) in (0..).zip(writers) {
        let order = w.rank.map_or(w.id, |r| r.rank.into());
        out.extend(w.closed.drain(..).map(|e| Entry { commit, order, source, ..e }));
    }
    out
}

/// The page file and the manifest of a commit: one leaf and inline sections, or two leaves under a branch with all
/// sections in pages.
fn commit(
    files: &mut Files,
    version: u64,
    schema: &Schema,
    steps: &Steps,
    entries: &[Entry],
    sources: &[Source],
    paged: bool,
) -> Result<(), Corrupt> {
    let id = 0x9a9e_0000 + version;
    let mut pages = Vec::new();
    let mut ordinal = 1;
    let origin = "vectors:1".into();
    let header = FileHeader {
        kind: FileKind::Pages,
        uuid: UUID,
        id,
        part: 0,
        run: 0,
        rank: None,
        fence: 0,
        time: 1,
        origin,
        process: String::new(),
        base: 0,
    };
    frame::push(&mut pages, FrameKind::File, 0, &header.encode());
    let mut page = |kind, payload: &[u8]| {
        let (offset, length) = (pages.len() as u64, payload.len() as u32);
        frame::push(&mut pages, kind, ordinal, payload);
        ordinal += 1;
        PageRef { file: id, offset, length, crc: BlobRef::of(0, payload).crc }
    };
    let mut ordered = entries.to_vec();
    ordered.sort_by(key_cmp);
    let mut children = Vec::new();
    for part in ordered.chunks(if paged { ordered.len().div_ceil(2) } else { ordered.len() }) {
        let mut leaf = part.to_vec();
        leaf.sort_by(leaf_cmp);
        let at = page(FrameKind::Leaf, &encode_block(&leaf));
        children.push(Child::of_entries(&leaf, at));
    }
    let entries = ordered.len() as u64;
    let root = match children.as_slice() {
        [one] => Root { page: one.page, height: 0, entries },
        _ => Root {
            page: page(FrameKind::Branch, &Branch { height: 1, children }.encode()),
            height: 1,
            entries,
        },
    };
    let mut section = |bytes: Vec<u8>| match paged {
        true => Section::Page(page(FrameKind::Section, &bytes)),
        false => Section::Inline(bytes),
    };
    let (schema, steps) = (section(schema.encode()), section(steps.encode()));
    let manifest = Manifest {
        version,
        parent: version - 1,
        write_id: [version as u8; 16],
        uuid: UUID,
        time: version,
        marked: false,
        last_marked: version - 1,
        fence: 0,
        schema,
        steps,
        source_pages: vec![page(FrameKind::Section, &encode_page(sources))],
        source_count: sources.len() as u32,
        root: Some(root),
        ahead: vec![],
        published: None,
        boot: None,
    };
    files.insert(keys::manifest(version), manifest.encode()?);
    files.insert(keys::pages(id), pages);
    Ok(())
}

/// Variable, step + 1, and coordinates (for a local variable, the writer).
type Cell = (u32, u64, Vec<u64>);

/// The expected content, cell by cell, in the order of the puts.
struct Model {
    /// The element's bytes; for a local variable, its shape and elements.
    cells: BTreeMap<Cell, (Vec<u64>, Vec<u8>)>,
}

impl Model {
    fn put(&mut self, v: &Variable, step: Option<u64>, writer: u64, put: &Put<'_>) {
        let step = step.map_or(0, |s| s + 1);
        if v.local {
            self.cells.insert((v.id, step, vec![writer]), (put.count.to_vec(), put.elements.to_vec()));
            return;
        }
        let itemsize = v.dtype.item_size() as usize;
        let leaves = v.dtype.leaves();
        for (place, element) in places(put.count).into_iter().zip(put.elements.chunks(itemsize)) {
            let cell = place.iter().zip(put.offset).map(|(p, o)| p + o).collect();
            let blank = v.fill.clone().unwrap_or(vec![0; itemsize]);
            let (_, old) = self.cells.entry((v.id, step, cell)).or_insert((vec![], blank));
            for (i, leaf) in leaves.iter().enumerate() {
                if put.members.is_empty() || put.members.contains(&i) {
                    let range = leaf.offset as usize..(leaf.offset + leaf.size) as usize;
                    old[range.clone()].copy_from_slice(&element[range]);
                }
            }
        }
    }

    fn strings(&mut self, first: usize, strings: &[&str]) {
        for (i, text) in strings.iter().enumerate() {
            self.cells.insert((2, 0, vec![(first + i) as u64]), (vec![], text.as_bytes().to_vec()));
        }
    }

    fn forget_step(&mut self, step: u64) {
        self.cells.retain(|&(_, s, _), _| s != step + 1);
    }

    fn clip(&mut self, id: u32, len: u64) {
        self.cells.retain(|(v, _, cell), _| *v != id || cell.iter().all(|&c| c < len));
    }

    fn describe(&self, schema: &Schema, steps: &Steps) -> Json {
        let mut variables = Vec::new();
        for (path, name) in &schema.names {
            let Name::Variable(id) = name else { continue };
            let v = var(schema, *id);
            let steps: Vec<u64> = if v.steps { steps.iter().map(|s| s + 1).collect() } else { vec![0] };
            let reads = Json::list(steps, |step| {
                let at = step.checked_sub(1).map_or(Json::Null, Json::from);
                Json::object([("step", at), ("value", self.read(&v, step))])
            });
            variables.push((path.clone(), reads));
        }
        let steps = Json::list(steps.iter(), Json::from);
        Json::object([("steps", steps), ("variables", Json::Object(variables))])
    }

    fn read(&self, v: &Variable, step: u64) -> Json {
        if v.local {
            let blocks = self.cells.iter().filter(|((id, s, _), _)| (*id, *s) == (v.id, step));
            return Json::list(blocks, |(_, (shape, data))| {
                Json::object([("shape", Json::list(shape, |&n| n.into())), ("data", Json::hex(data))])
            });
        }
        let blank = v.fill.clone().unwrap_or(match v.dtype {
            DType::String => vec![],
            _ => vec![0; v.dtype.item_size() as usize],
        });
        let cell = |place| self.cells.get(&(v.id, step, place)).map_or(&blank, |(_, element)| element);
        let cells = places(&v.shape).into_iter().map(cell);
        if v.dtype == DType::String {
            return Json::list(cells, |c| Json::Text(String::from_utf8_lossy(c).into_owned()));
        }
        Json::hex(&cells.flatten().copied().collect::<Vec<u8>>())
    }
}
