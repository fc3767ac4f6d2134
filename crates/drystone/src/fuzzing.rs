//! Bodies of the fuzz targets in `fuzz/`: containers from untrusted sources. A test also runs them with random bytes.
//!
//! [`fuzz_open`] makes objects of the bytes. [`fuzz_hostile`] decodes a valid container, changes values in it as the
//! bytes say, and encodes it again with correct checksums. So wrong numbers reach the engine, and not only the
//! decoders. Opening, reading, verifying, committing and recovering must always end, with or without an error.

use std::sync::{Arc, OnceLock};

use drystone_format::branch::PageRef;
use drystone_format::dtype::{DType, Member, Record, Scalar};
use drystone_format::entry::{Entry, StoredPiece, encode_block};
use drystone_format::frame::{self, FrameKind, Next};
use drystone_format::identity::{Durability, Identity, encode_hint};
use drystone_format::layout::{Cells, Layout, Order};
use drystone_format::log::{GroupHead, decode_group, encode_group};
use drystone_format::manifest::{Manifest, Root, Section};
use drystone_format::schema::Schema;
use drystone_format::source::{self, Source};
use drystone_format::steps::{StepRun, Steps};
use drystone_format::{keys, table};
use drystone_plan::listing::Listing;
use drystone_plan::selection::Selection;
use drystone_store::{MemoryStore, PutMode, Store, StoreExt};

use crate::base::array::{Source as Memory, Target};
use crate::base::checksum::crc32;
use crate::{
    Adopt, Container, CreateOptions, Limit, Mode, NewVariable, Precision, Result, SchemaOp, Snapshot,
    WriterOptions,
};

/// Number of cells that are read of a variable or block. The fuzzer bounds its requests as a caller would.
const CELLS: u64 = 1 << 16;
const WRITER: u64 = 0x0123_4567_89ab_cdef;
const UUID: [u8; 16] = *b"a stranger's one";

/// Passes bytes to the ranks of a program, as a broken communicator might deliver them.
pub fn fuzz_sent(data: &[u8]) {
    crate::collective::fuzz_sent(data);
}

/// Runs a plug-in codec that does whatever the bytes say.
#[doc(hidden)]
pub fn fuzz_plugin(data: &[u8]) {
    crate::plugin::fuzz_plugin(data);
}

/// Opens and uses objects that `data` names and fills.
pub fn fuzz_open(data: &[u8]) {
    let store = MemoryStore::new();
    let put = |key: &str, bytes: &[u8]| _ = store.put(key, &[bytes], PutMode::Replace, false);
    put(keys::IDENTITY, &identity().encode());
    let names = [
        keys::manifest(1),
        keys::manifest(2),
        keys::mark(1),
        keys::HINT.into(),
        keys::segment(WRITER, 0),
        keys::idx(WRITER, 0),
        keys::idx(WRITER, 1),
        keys::pages(7),
        keys::IDENTITY.into(),
    ];
    let mut rest = data;
    while let [name, low, high, bytes @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(bytes.len());
        let (object, behind) = bytes.split_at(len);
        put(&names[usize::from(*name) % names.len()], object);
        rest = behind;
    }
    exercise(store);
}

/// Opens and uses a valid container in which `data` has changed values.
pub fn fuzz_hostile(data: &[u8]) {
    static SOUND: OnceLock<Parts> = OnceLock::new();
    let mut parts = SOUND.get_or_init(Parts::sound).clone();
    let mut dice = Dice { data };
    for _ in 0..=dice.below(4) {
        parts.change(&mut dice);
    }
    if dice.one_in(8) {
        parts.identity.durability = Durability::Durable;
    }
    parts.mend_checks();
    if let Some(store) = parts.assemble(&mut dice) {
        exercise(store);
    }
}

fn identity() -> Identity {
    Identity {
        version: 1,
        uuid: UUID,
        durability: Durability::Async,
        features: Vec::new(),
        redundancy: String::new(),
        created: "2026-01-01T00:00:00Z".into(),
    }
}

/// Does everything that a program may do with a container. The fuzzer bounds its requests as a caller would.
fn exercise(store: MemoryStore) {
    let store = Arc::new(store);
    let Ok(c) = Container::open(store.clone(), Mode::Read) else { return };
    look(&c);
    _ = c.verify(&mut |_, _| true);
    _ = c.describe();
    _ = c.usage(true);
    if let Ok(history) = c.snapshots() {
        history.iter().take(3).filter_map(|v| c.at(*v).ok()).for_each(|old| look(&old));
    }
    let Ok(c) = Container::open(store, Mode::ReadWrite) else { return };
    _ = c.commit();
    look(&c);
    _ = c.recover(&Adopt::All, &[]);
    look(&c);
    _ = write(&c);
    _ = c.flush();
}

fn write(c: &Container) -> Result<()> {
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() })?;
    w.begin_step(None, false)?;
    let data = [1; 64];
    w.put("raw", &DType::Scalar(Scalar::F32), &Memory::dense(&data, &[4, 4], 4)?, None, None)?;
    w.end_step()?;
    w.close()
}

fn look(c: &Container) {
    for path in c.schema().names.keys().take(16) {
        _ = look_at(c, path);
    }
}

fn look_at(c: &Container, path: &str) -> Result<()> {
    let reading = c.reading(path, None)?;
    let mut shape = reading.shape();
    if reading.variable().steps {
        shape[0] = shape[0].min(9);
    }
    let mut bytes = vec![0; usize::try_from(CELLS).unwrap_or(0) * 16];
    let item = reading.item() as usize;
    let mut target = |shape: &[u64]| -> Result<Option<()>> {
        let cells = shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s)).filter(|n| *n <= CELLS);
        let len =
            cells.and_then(|n| usize::try_from(n).ok()?.checked_mul(item)).filter(|n| *n <= bytes.len());
        let Some(len) = len else { return Ok(None) };
        let whole = Selection::all(shape);
        if reading.has_blobs() {
            return reading.read_records(&whole).map(|_| Some(()));
        }
        reading.read(&whole, &Target::dense(&mut bytes[..len], shape, item)?).map(|_| Some(()))
    };
    _ = target(&shape);
    _ = target(&shape.iter().map(|n| 3.min(*n)).collect::<Vec<_>>());
    for (precision, step) in [(Precision::Level(1), Some(0)), (Precision::Relative(0.1), None)] {
        let coarse = c.reading(path, None)?.with_precision(precision)?;
        let some: Vec<u64> = shape.iter().map(|n| 1000.min(*n)).collect();
        let cells = some.iter().try_fold(item as u64, |n, s| n.checked_mul(*s));
        if let Some(len) = cells.filter(|n| *n <= bytes.len() as u64) {
            _ = coarse.read(&Selection::all(&some), &Target::dense(&mut bytes[..len as usize], &some, item)?);
        }
        let cells = shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s));
        if cells.is_some_and(|n| n <= CELLS) {
            _ = coarse.value_range(step, Limit::Int(-3), Limit::Float(1e9));
        }
    }
    _ = reading.explain(&Selection::all(&shape.iter().map(|n| 100.min(*n)).collect::<Vec<_>>()));
    if !shape.contains(&0) {
        let corners = shape.iter().map(|_| 0).chain(shape.iter().map(|n| n - 1)).collect();
        let points = Listing::points(shape.len(), corners);
        let count = points.shape().iter().product::<u64>();
        if reading.has_blobs() {
            _ = reading.read_records(&points);
        } else if count as usize * item <= bytes.len() {
            let len = count as usize * item;
            _ = reading.read(&points, &Target::dense(&mut bytes[..len], &[count], item)?);
        }
    }
    _ = reading.steps();
    let steps = reading.snapshot().steps.iter().take(3).map(Some).chain([None]);
    for step in steps {
        for number in 0..reading.blocks(step).map_or(0, |blocks| blocks.len().min(4)) {
            let block = reading.block(step, number)?;
            let shape = block.shape();
            let cells = shape.iter().try_fold(item as u64, |n, s| n.checked_mul(*s));
            let Some(len) = cells.filter(|n| *n <= bytes.len() as u64) else { continue };
            if reading.has_blobs() {
                _ = reading.read_records(&block);
            } else {
                let place = Target::dense(&mut bytes[..len as usize], shape, item)?;
                _ = reading.read(&block, &place);
            }
        }
    }
    Ok(())
}

/// Decisions taken from bytes. When they run out, zeros follow.
struct Dice<'a> {
    data: &'a [u8],
}

impl Dice<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        *first
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % n.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// Numbers at which arithmetic goes wrong, and small numbers.
    fn number(&mut self) -> u64 {
        const EDGES: [u64; 18] = [
            0,
            1,
            2,
            7,
            8,
            255,
            4096,
            1 << 16,
            1 << 20,
            1 << 24,
            1 << 31,
            u32::MAX as u64,
            1 << 40,
            1 << 62,
            i64::MAX as u64,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        let pick = self.below(EDGES.len() + 6);
        match EDGES.get(pick) {
            Some(edge) => *edge,
            None => self.byte().into(),
        }
    }

    fn nudge(&mut self, field: &mut u64) {
        *field = match self.below(3) {
            0 => field.wrapping_add(1),
            1 => field.wrapping_sub(1),
            _ => self.number(),
        };
    }

    fn nudge32(&mut self, field: &mut u32) {
        let mut wide = u64::from(*field);
        self.nudge(&mut wide);
        *field = wide as u32;
    }
}

/// A container as values: the log of one writer, whose first groups are committed.
#[derive(Clone)]
struct Parts {
    identity: Identity,
    segment: Vec<u8>,
    header: Vec<u8>,
    groups: Vec<(GroupHead, Vec<Entry>)>,
    manifest: Manifest,
    entries: Vec<Entry>,
    schema: Schema,
    steps: Steps,
    source: Source,
}

fn variables() -> Vec<SchemaOp> {
    let f4 = DType::Scalar(Scalar::F32);
    let member = |name: &str, scalar, offset| Member {
        name: name.into(),
        dtype: DType::Scalar(scalar),
        shape: Vec::new(),
        offset,
    };
    let pair = DType::Record(Record {
        itemsize: 12,
        members: vec![member("a", Scalar::I32, 0), member("b", Scalar::F64, 4)],
    });
    let named = DType::Record(Record {
        itemsize: 20,
        members: vec![
            Member { dtype: DType::String, ..member("name", Scalar::I8, 0) },
            member("a", Scalar::I32, 16),
        ],
    });
    let new = |path: &str, dtype: &DType, shape: &[u64], set: &dyn Fn(&mut NewVariable)| {
        let mut new = NewVariable {
            dtype: dtype.clone(),
            shape: shape.iter().copied().map(Some).collect(),
            dims: Vec::new(),
            steps: true,
            local: false,
            transform: String::new(),
            chunks: None,
            access: String::new(),
            meaning: None,
            fill: None,
            attrs: Default::default(),
        };
        set(&mut new);
        SchemaOp::CreateVariable(path.into(), Box::new(new))
    };
    vec![
        new("raw", &f4, &[4, 4], &|_| {}),
        new("coded", &f4, &[6, 6], &|v| {
            v.transform = "shuffle,zstd:1".into();
            v.chunks = Some(vec![4, 4]);
        }),
        new("text", &DType::String, &[3], &|_| {}),
        new("pair", &pair, &[5], &|_| {}),
        new("local", &f4, &[], &|v| v.local = true),
        new("large", &f4, &[9000], &|_| {}),
        new("levels", &f4, &[9000], &|v| v.transform = "aplod".into()),
        new("index", &f4, &[9000], &|v| v.transform = "alacrity".into()),
        new("named", &named, &[3], &|_| {}),
    ]
}

impl Parts {
    /// A container that the engine wrote, decoded.
    fn sound() -> Parts {
        Self::made().unwrap_or_else(|e| panic!("the sample cannot be made: {e}"))
    }

    fn made() -> Result<Parts> {
        let store = Arc::new(MemoryStore::new());
        let c = Container::create(store.clone(), CreateOptions::default())?;
        c.apply(variables())?;
        let w = c.writer(WriterOptions::default())?;
        let f4 = DType::Scalar(Scalar::F32);
        let data: Vec<u8> = (0..36_000u32).map(|i| (i / 7) as u8).collect();
        for step in 0..4 {
            w.begin_step(Some(step), false)?;
            w.put("raw", &f4, &Memory::dense(&data[..64], &[4, 4], 4)?, None, None)?;
            w.put("raw", &f4, &Memory::dense(&data[64..80], &[2, 2], 4)?, Some(&[1, 2]), None)?;
            w.put("coded", &f4, &Memory::dense(&data[..144], &[6, 6], 4)?, None, None)?;
            w.put_strings("text", &[3], &[b"one", b"", b"three"], None, None)?;
            w.put_strings("named", &[3], &[b"three", b"", b"words"], None, Some("name"))?;
            let pair = &c.variable("pair")?.dtype;
            w.put("pair", pair, &Memory::dense(&data[..60], &[5], 12)?, None, None)?;
            w.put("local", &f4, &Memory::dense(&data[..8], &[2], 4)?, None, None)?;
            if step == 0 {
                for name in ["large", "levels", "index"] {
                    w.put(name, &f4, &Memory::dense(&data, &[9000], 4)?, None, None)?;
                }
            }
            w.end_step()?;
            if step < 3 {
                c.commit()?;
            }
        }
        w.close()?;
        let whole = |key: &str| store.read_all(key, u64::MAX);
        let (segment, idx) = (whole(&keys::segment(w.id(), 0))?, whole(&keys::idx(w.id(), 0))?);
        let (mut header, mut groups, mut at) = (Vec::new(), Vec::new(), 0);
        while let Next::Frame { header: head, payload, end } = frame::next(&idx, at, u64::MAX) {
            match head.kind {
                FrameKind::File => header = payload.to_vec(),
                FrameKind::Group => {
                    groups.push(decode_group(payload).map_err(|c| crate::Error::corrupt(c.to_string()))?)
                }
                _ => {}
            }
            at = end;
        }
        let snapshot: Arc<Snapshot> = c.snapshot();
        let mut entries = Vec::new();
        if let Some(root) = &snapshot.manifest.root {
            drystone_plan::tree::entries(&c.inner.pages, root, &mut |e| entries.push(e.clone()))?;
        }
        let source = snapshot.source(&c.inner.pages, 0)?;
        let mut parts = Parts {
            identity: Identity { uuid: c.identity().uuid, ..identity() },
            segment,
            header,
            groups,
            manifest: Manifest { version: 1, parent: 0, ..snapshot.manifest.clone() },
            entries,
            schema: (*snapshot.schema).clone(),
            steps: (*snapshot.steps).clone(),
            source,
        };
        // The last group is made uncommitted again.
        let last = parts.groups.len() as u64 - 1;
        parts.source.groups = last;
        parts.source.state = drystone_format::source::SourceState::Open;
        parts.manifest.ahead.clear();
        parts.entries.iter_mut().for_each(|e| e.commit = 1);
        Ok(parts)
    }

    fn change(&mut self, dice: &mut Dice<'_>) {
        match dice.below(8) {
            0 | 1 => {
                let at = dice.below(self.entries.len());
                if let Some(entry) = self.entries.get_mut(at) {
                    change_entry(entry, dice);
                }
            }
            2 => {
                let group = dice.below(self.groups.len());
                let Some((head, entries)) = self.groups.get_mut(group) else { return };
                let at = dice.below(entries.len());
                match dice.below(8) {
                    0 => dice.nudge(&mut head.group),
                    1 => dice.nudge(&mut head.part),
                    2 => dice.nudge(&mut head.entries),
                    3 => head.replace = !head.replace,
                    4 => head.variables.clear(),
                    5 => {
                        let mut step = head.entry_step();
                        dice.nudge(&mut step);
                        head.step = step.checked_sub(1);
                        entries.iter_mut().for_each(|e| e.step = step);
                    }
                    _ => entries.get_mut(at).into_iter().for_each(|e| change_entry(e, dice)),
                }
            }
            3 => self.change_schema(dice),
            4 => {
                let number = |dice: &mut Dice<'_>| dice.number();
                if dice.one_in(2) {
                    let run = StepRun { first: number(dice), count: number(dice), stride: number(dice) };
                    self.steps.runs = vec![run];
                } else {
                    self.steps.hidden = vec![(number(dice), number(dice))];
                }
            }
            5 => {
                let s = &mut self.source;
                match dice.below(7) {
                    0 => dice.nudge32(&mut s.kind),
                    1 => dice.nudge(&mut s.writer),
                    2 => dice.nudge32(&mut s.part),
                    3 => dice.nudge(&mut s.watermark),
                    4 => dice.nudge(&mut s.groups),
                    5 => dice.nudge(&mut s.idx_length),
                    _ => dice.nudge(&mut s.seg_length),
                }
            }
            6 => {
                let m = &mut self.manifest;
                match dice.below(6) {
                    0 => dice.nudge(&mut m.fence),
                    1 => dice.nudge(&mut m.version),
                    2 => m.marked = !m.marked,
                    3 => m.ahead = vec![(0, dice.number())],
                    4 => m.root = m.root.map(|r| Root { height: dice.byte(), ..r }),
                    _ => dice.nudge(&mut m.last_marked),
                }
            }
            _ => {
                let at = dice.below(self.segment.len());
                let value = dice.byte();
                if let Some(byte) = self.segment.get_mut(at) {
                    *byte = value;
                }
            }
        }
    }

    fn change_schema(&mut self, dice: &mut Dice<'_>) {
        let at = dice.below(self.schema.variables.len());
        let Some(v) = self.schema.variables.values_mut().nth(at) else { return };
        let d = dice.below(v.shape.len());
        match dice.below(9) {
            0 => v.shape.get_mut(d).into_iter().for_each(|n| dice.nudge(n)),
            1 => v.growable.get_mut(d).into_iter().for_each(|g| *g = !*g),
            2 => v.steps = !v.steps,
            3 => v.local = !v.local,
            4 => v.transform = ["", "zstd:3", "shuffle", "unheard:9", "shuffle,zstd:1"][dice.below(5)].into(),
            5 => v.chunks = Some(v.shape.iter().map(|_| dice.number()).collect()),
            6 => v.clips = vec![(dice.number(), v.shape.iter().map(|_| dice.number()).collect())],
            7 => {
                let all = [
                    DType::Scalar(Scalar::U8),
                    DType::Scalar(Scalar::C128),
                    DType::String,
                    DType::Bytes(dice.number() as u32),
                    DType::Unicode(dice.number() as u32),
                ];
                v.dtype = all[dice.below(5)].clone();
            }
            _ => dice.nudge(&mut v.uid),
        }
    }

    /// Corrects the checksums of the bytes to which the entries now point, so that these bytes are used.
    fn mend_checks(&mut self) {
        let segment = &mut self.segment;
        let committed = self.entries.iter_mut();
        for entry in committed.chain(self.groups.iter_mut().flat_map(|(_, entries)| entries)) {
            if entry.subchunks > 1
                && let Some(range) = inside(&entry.piece, segment.len())
                && let Ok(mut subchunks) = table::decode(&segment[range.clone()], entry.subchunks)
            {
                for subchunk in &mut subchunks {
                    mend(&mut subchunk.piece, segment);
                    if let Some(prefix) = &mut subchunk.prefix {
                        let mut piece = prefix.piece();
                        mend(&mut piece, segment);
                        prefix.check = piece.check;
                    }
                }
                let bytes = table::encode(&subchunks);
                if bytes.len() == range.len() {
                    segment[range].copy_from_slice(&bytes);
                }
            }
            mend(&mut entry.piece, segment);
        }
    }

    /// Encodes the objects. `None` if these values cannot be encoded.
    fn assemble(mut self, dice: &mut Dice<'_>) -> Option<MemoryStore> {
        let store = MemoryStore::new();
        let put = |key: &str, bytes: &[u8]| store.put(key, &[bytes], PutMode::Replace, false).ok();
        put(keys::IDENTITY, &self.identity.encode())?;
        let (writer, part) = (self.entries.first().map(|_| self.source.writer)?, self.source.part);
        put(&keys::segment(writer, part), &self.segment)?;
        let mut idx = Vec::new();
        frame::push(&mut idx, FrameKind::File, 0, &self.header);
        for (number, (head, entries)) in self.groups.iter().enumerate() {
            if number + 1 == self.groups.len() && self.source.watermark != 0 && !dice.one_in(5) {
                self.source.watermark = idx.len() as u64;
                self.source.idx_length = idx.len() as u64;
            }
            let mut payload = encode_group(head, entries);
            spoil(&mut payload, dice);
            frame::push(&mut idx, FrameKind::Group, number as u64 + 1, &payload);
        }
        put(&keys::idx(writer, part), &idx)?;
        let mut pages = Vec::new();
        let mut frames = 0;
        let mut page = |kind: FrameKind, mut payload: Vec<u8>, dice: &mut Dice<'_>| {
            spoil(&mut payload, dice);
            let file = keys::IN_MANIFEST | self.manifest.version;
            let (offset, length, crc) = (pages.len() as u64, payload.len() as u32, crc32(&payload));
            frame::push(&mut pages, kind, frames, &payload);
            frames += 1;
            PageRef { file, offset, length, crc }
        };
        let leaf = page(FrameKind::Leaf, encode_block(&self.entries), dice);
        let sources = page(FrameKind::Section, source::encode_page(&[self.source]), dice);
        let schema = page(FrameKind::Section, self.schema.encode(), dice);
        let steps = page(FrameKind::Section, self.steps.encode(), dice);
        let root = Root { page: leaf, height: 0, entries: self.entries.len() as u64 };
        let height = self.manifest.root.map_or(0, |r| r.height);
        self.manifest.root = Some(Root { height, ..root });
        self.manifest.source_pages = vec![sources];
        self.manifest.source_count = 1;
        (self.manifest.schema, self.manifest.steps) = (Section::Page(schema), Section::Page(steps));
        let file = self.manifest.encode_after(pages, frames).ok()?;
        put(&keys::manifest(self.manifest.version), &file)?;
        put(keys::HINT, &encode_hint(self.manifest.version))?;
        Some(store)
    }
}

/// Sometimes changes one byte of a payload before its checksum is made.
fn spoil(payload: &mut [u8], dice: &mut Dice<'_>) {
    if dice.one_in(12) {
        let (at, mask) = (dice.below(payload.len()), dice.byte());
        payload.get_mut(at).into_iter().for_each(|byte| *byte ^= mask);
    }
}

fn change_entry(entry: &mut Entry, dice: &mut Dice<'_>) {
    let d = dice.below(usize::from(entry.ndim)).min(drystone_format::MAX_NDIM - 1);
    match dice.below(16) {
        0 => dice.nudge(&mut entry.step),
        1 => dice.nudge32(&mut entry.variable),
        2 => dice.nudge32(&mut entry.member),
        3 => dice.nudge(&mut entry.commit),
        4 => dice.nudge(&mut entry.order),
        5 => dice.nudge(&mut entry.offset[d]),
        6 => dice.nudge(&mut entry.count[d]),
        7 => dice.nudge(&mut entry.cut[d]),
        8 => {
            // Makes the grid larger, consistently.
            (entry.count[d], entry.cut[d]) = (dice.number(), dice.number());
            entry.subchunks = entry.grid_len().unwrap_or(1);
        }
        9 => dice.nudge(&mut entry.subchunks),
        10 => dice.nudge32(&mut entry.source),
        11 => dice.nudge(&mut entry.piece.position),
        12 => dice.nudge(&mut entry.piece.length),
        13 => dice.nudge(&mut entry.piece.trailer),
        14 => entry.piece.unit_log2 = dice.byte(),
        _ => {
            let mut encoding = (*entry.encoding).clone();
            match dice.below(4) {
                0 => {
                    encoding.chain =
                        ["", "zstd:3", "shuffle", "unheard:9", "aplod", "alacrity"][dice.below(6)].into()
                }
                1 => dice.nudge32(&mut encoding.item),
                2 => encoding.part = Some(dice.byte().into()),
                _ => encoding.layout = odd_layout(dice),
            }
            entry.encoding = Arc::new(encoding);
        }
    }
}

fn odd_layout(dice: &mut Dice) -> Layout {
    let mut cells = Cells { room: 8, at: 0, order: Order::Hilbert };
    dice.nudge32(&mut cells.room);
    dice.nudge32(&mut cells.at);
    match dice.below(4) {
        0 => return Layout::Unknown(dice.byte().into()),
        1 => cells.order = Order::Morton,
        2 => cells.order = Order::Dims((0..dice.byte() % 4).rev().collect()),
        _ => {}
    }
    Layout::Cells(cells)
}

fn inside(piece: &StoredPiece, len: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(piece.position).ok()?;
    let end = start.checked_add(usize::try_from(piece.length).ok()?)?;
    (end <= len).then_some(start..end)
}

fn mend(piece: &mut StoredPiece, segment: &mut [u8]) {
    let Some(range) = inside(piece, segment.len()) else { return };
    if piece.trailer == 0 {
        piece.check = crc32(&segment[range]);
        return;
    }
    let from = range.end.next_multiple_of(4);
    let to = usize::try_from(piece.trailer).ok().and_then(|n| from.checked_add(n));
    let Some(to) = to.filter(|to| *to <= segment.len()) else { return };
    let unit = usize::try_from(piece.unit()).unwrap_or(usize::MAX);
    let sums: Vec<u8> = segment[range].chunks(unit).flat_map(|c| crc32(c).to_le_bytes()).collect();
    let room = sums.len().min(to - from);
    segment[from..from + room].copy_from_slice(&sums[..room]);
    piece.check = crc32(&segment[from..to]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unchanged_parts_are_a_sound_container_with_one_step_to_commit() {
        let mut parts = Parts::sound();
        parts.mend_checks();
        let store = parts.assemble(&mut Dice { data: &[] }).unwrap();
        let c = Container::open(Arc::new(store), Mode::ReadWrite).unwrap();
        assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, []);
        assert_eq!(c.snapshot().steps.len(), 3);
        assert!(c.snapshot().schema.names.keys().all(|path| look_at(&c, path).is_ok()));
        assert_eq!(c.commit().unwrap().notes, Vec::<String>::new());
        assert_eq!(c.snapshot().steps.len(), 4);
        assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, []);
    }
}
