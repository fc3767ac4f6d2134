//! File headers and groups of the log (docs/format/log.md).

use crate::Corrupt;
use crate::block::{Block, decode_block};
use crate::cbor::{Sink, Source};
use crate::cursor::Reader;
use crate::entry::{Entry, MAX_BLOCK_ENTRIES, encode_block};

/// The kind of a framed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FileKind {
    Segment,
    Idx,
    Pages,
}

/// Rank and number of ranks of a ranked writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Rank {
    pub rank: u32,
    pub nranks: u32,
}

/// First frame of a framed file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FileHeader {
    pub kind: FileKind,
    pub uuid: [u8; 16],
    /// Writer id, or page file id.
    pub id: u64,
    pub part: u32,
    pub run: u64,
    pub rank: Option<Rank>,
    pub fence: u64,
    pub time: u64,
    pub origin: String,
    /// A text by which another process can find out whether the writing process is alive; empty if unknown.
    pub process: String,
    /// The newest snapshot when the writer began this part; 0 if there was none, or it is unknown. A container without
    /// that snapshot has lost a manifest.
    pub base: u64,
}

/// Head of a GROUP frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct GroupHead {
    pub step: Option<u64>,
    pub last: bool,
    pub replace: bool,
    /// Number of the group in its writer.
    pub group: u64,
    /// Number of the frame in its group.
    pub part: u64,
    /// On the last frame: entries in the whole group.
    pub entries: u64,
    /// On the last frame: id and uid of the variables of the group's entries, ascending.
    pub variables: Vec<(u32, u64)>,
    /// On the last frame: when the group was closed, in nanoseconds since 1970; 0: not known.
    pub closed: u64,
}

impl FileHeader {
    /// The payload of the FILE frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Sink::new();
        let optional = usize::from(!self.process.is_empty()) + usize::from(self.base > 0);
        out.map(8 + if self.rank.is_some() { 2 } else { 0 } + optional);
        out.u64(0).u64(match self.kind {
            FileKind::Segment => 1,
            FileKind::Idx => 2,
            FileKind::Pages => 3,
        });
        out.u64(1).bytes(&self.uuid).u64(2).u64(self.id).u64(3).u64(self.part.into()).u64(4).u64(self.run);
        if let Some(Rank { rank, nranks }) = self.rank {
            out.u64(5).u64(rank.into()).u64(6).u64(nranks.into());
        }
        out.u64(7).u64(self.fence).u64(8).u64(self.time).u64(9).text(&self.origin);
        if !self.process.is_empty() {
            out.u64(10).text(&self.process);
        }
        if self.base > 0 {
            out.u64(11).u64(self.base);
        }
        out.finish()
    }

    /// Reads the payload of a FILE frame.
    pub fn decode(payload: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(payload);
        let (mut kind, mut uuid, mut id, mut part, mut run) = (None, None, None, None, None);
        let (mut rank, mut nranks, mut fence, mut time, mut origin) = (None, None, None, None, None);
        let (mut process, mut base) = (None, None);
        source.fields(|source, key| {
            match key {
                0 => {
                    kind = Some(match source.u64()? {
                        1 => FileKind::Segment,
                        2 => FileKind::Idx,
                        3 => FileKind::Pages,
                        kind => return Err(source.corrupt(format!("unknown kind of file {kind}"))),
                    })
                }
                1 => uuid = Some(source.bytes16()?),
                2 => id = Some(source.u64()?),
                3 => part = Some(source.u32()?),
                4 => run = Some(source.u64()?),
                5 => rank = Some(source.u32()?),
                6 => nranks = Some(source.u32()?),
                7 => fence = Some(source.u64()?),
                8 => time = Some(source.u64()?),
                9 => origin = Some(source.text()?.to_owned()),
                10 => process = Some(source.text()?.to_owned()),
                11 => base = Some(source.u64()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        let rank = match (rank, nranks) {
            (None, None) => None,
            (Some(rank), Some(nranks)) if rank < nranks => Some(Rank { rank, nranks }),
            (rank, nranks) => return Err(source.corrupt(format!("rank {rank:?} of {nranks:?}"))),
        };
        Ok(FileHeader {
            kind: source.need(kind, "file kind")?,
            uuid: source.need(uuid, "uuid")?,
            id: source.need(id, "writer or page file id")?,
            part: source.need(part, "part")?,
            run: run.unwrap_or(0),
            rank,
            fence: fence.unwrap_or(0),
            time: source.need(time, "time")?,
            origin: origin.unwrap_or_default(),
            process: process.unwrap_or_default(),
            base: base.unwrap_or(0),
        })
    }
}

impl GroupHead {
    fn encode(&self) -> Vec<u8> {
        let mut out = Sink::new();
        let named = self.last && !self.variables.is_empty();
        let timed = self.last && self.closed > 0;
        let optional = [self.step.is_some(), self.last, named, timed];
        out.map(4 + optional.into_iter().filter(|there| *there).count());
        if let Some(step) = self.step {
            out.u64(0).u64(step);
        }
        out.u64(1).bool(self.last).u64(2).bool(self.replace).u64(3).u64(self.group).u64(4).u64(self.part);
        if self.last {
            out.u64(5).u64(self.entries);
        }
        if named {
            out.u64(6).array(self.variables.len());
            for (id, uid) in &self.variables {
                out.array(2).u64((*id).into()).u64(*uid);
            }
        }
        if timed {
            out.u64(7).u64(self.closed);
        }
        out.finish()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(bytes);
        let mut closed = None;
        let (mut step, mut last, mut replace) = (None, None, None);
        let (mut group, mut part, mut entries, mut variables) = (None, None, None, Vec::new());
        source.fields(|source, key| {
            match key {
                0 => step = Some(source.u64()?),
                1 => last = Some(source.bool()?),
                2 => replace = Some(source.bool()?),
                3 => group = Some(source.u64()?),
                4 => part = Some(source.u64()?),
                5 => entries = Some(source.u64()?),
                6 => {
                    variables = source.list(|source| {
                        source.tuple(2)?;
                        Ok((source.u32()?, source.u64()?))
                    })?
                }
                7 => closed = Some(source.u64()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        let last = source.need(last, "final")?;
        let sorted = variables.is_sorted_by(|a, b| a.0 < b.0) && (last || variables.is_empty());
        if step == Some(u64::MAX) || entries.is_some() != last || !sorted || (closed.is_some() && !last) {
            return Err(source.corrupt("impossible head of a group"));
        }
        Ok(GroupHead {
            step,
            last,
            replace: source.need(replace, "replace")?,
            group: source.need(group, "group number")?,
            part: source.need(part, "number in the group")?,
            entries: entries.unwrap_or(0),
            variables,
            closed: closed.unwrap_or(0),
        })
    }

    /// The `step` of each entry of the group.
    pub fn entry_step(&self) -> u64 {
        self.step.map_or(0, |step| step.saturating_add(1))
    }
}

/// The payload of a GROUP frame: head, then the entries in blocks.
pub fn encode_group(head: &GroupHead, entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    push_with_length(&mut out, &head.encode());
    entries.chunks(MAX_BLOCK_ENTRIES).for_each(|block| push_with_length(&mut out, &encode_block(block)));
    out
}

fn push_with_length(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The entries of a group that is being written, or was read. All but the last few are kept as blocks of a GROUP frame,
/// which take some 30 bytes per entry instead of several hundred.
#[derive(Debug, Clone, Default)]
pub struct GroupEntries {
    /// Encoded blocks, and the number of entries in them.
    blocks: Vec<Box<[u8]>>,
    encoded: u64,
    /// The last entries, fewer than a block holds.
    last: Vec<Entry>,
}

/// A block with at least this many entries is kept as it was read.
const KEPT_BLOCK: usize = MAX_BLOCK_ENTRIES / 4;

impl GroupEntries {
    /// Adds an entry.
    pub fn push(&mut self, entry: Entry) {
        self.last.push(entry);
        if self.last.len() >= MAX_BLOCK_ENTRIES {
            self.push_block(encode_block(&self.last).into());
            self.last.clear();
        }
    }

    fn push_block(&mut self, block: Box<[u8]>) {
        self.encoded += self.last.len() as u64;
        self.blocks.push(block);
    }

    /// Adds the entries of a block that was read, with its bytes.
    fn add_block(&mut self, block: &[u8], entries: Vec<Entry>) {
        if !self.last.is_empty() || entries.len() < KEPT_BLOCK {
            self.extend(entries);
            return;
        }
        self.last = entries;
        self.push_block(block.into());
        self.last = Vec::new();
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.encoded + self.last.len() as u64
    }

    #[allow(missing_docs)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.last.clear();
        self.encoded = 0;
    }

    /// The payload that [`encode_group`] would give.
    pub fn encode(&self, head: &GroupHead) -> Vec<u8> {
        let last = encode_block(&self.last);
        let blocks: usize = self.blocks.iter().map(|block| block.len() + 4).sum();
        let mut out = Vec::with_capacity(blocks + last.len() + 256);
        push_with_length(&mut out, &head.encode());
        self.blocks.iter().for_each(|block| push_with_length(&mut out, block));
        if !self.last.is_empty() {
            push_with_length(&mut out, &last);
        }
        out
    }

    /// Visits all entries, in their order, a block at a time.
    pub fn each<E: From<Corrupt>>(
        &self,
        visit: &mut dyn FnMut(Entry) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for block in &self.blocks {
            let block = Block::decode(block)?;
            (0..block.len()).try_for_each(|i| visit(block.entry(i)))?;
        }
        self.last.iter().cloned().try_for_each(visit)
    }

    /// The entries, if they are too few to have been encoded.
    pub fn few(&self) -> Option<&[Entry]> {
        (self.encoded == 0).then_some(&self.last)
    }
}

impl PartialEq for GroupEntries {
    /// Whether the entries are equal, in whatever form they are kept.
    fn eq(&self, other: &Self) -> bool {
        let all = |of: &Self| {
            let mut out = Vec::new();
            let each: Result<(), Corrupt> = of.each(&mut |entry| {
                out.push(entry);
                Ok(())
            });
            each.map(|()| out)
        };
        self.len() == other.len() && all(self) == all(other)
    }
}

impl Eq for GroupEntries {}

impl Extend<Entry> for GroupEntries {
    fn extend<T: IntoIterator<Item = Entry>>(&mut self, entries: T) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }
}

impl FromIterator<Entry> for GroupEntries {
    fn from_iter<T: IntoIterator<Item = Entry>>(entries: T) -> Self {
        let mut all = GroupEntries::default();
        all.extend(entries);
        all
    }
}

/// Decodes the payload of a GROUP frame; every entry is of the group's step.
pub fn decode_group(payload: &[u8]) -> Result<(GroupHead, Vec<Entry>), Corrupt> {
    let mut entries = Vec::new();
    let head = read_group(payload, &mut |_, block| entries.extend(block))?;
    Ok((head, entries))
}

/// Decodes the same payload, and adds the entries to `all`, which may hold very many.
pub fn decode_into(
    payload: &[u8],
    all: &mut GroupEntries,
    seen: &mut dyn FnMut(&Entry),
) -> Result<GroupHead, Corrupt> {
    read_group(payload, &mut |bytes, block| {
        block.iter().for_each(&mut *seen);
        all.add_block(bytes, block);
    })
}

/// The head of a GROUP frame alone.
pub fn head_of(payload: &[u8]) -> Result<GroupHead, Corrupt> {
    let r = &mut Reader::new(payload);
    let len = r.u32()? as usize;
    let at = r.position() as u64;
    GroupHead::decode(r.take(len)?).map_err(|e| Corrupt { what: e.what, at: at + e.at })
}

fn read_group(payload: &[u8], take: &mut dyn FnMut(&[u8], Vec<Entry>)) -> Result<GroupHead, Corrupt> {
    let r = &mut Reader::new(payload);
    let inner = |at: usize| move |e: Corrupt| Corrupt { what: e.what, at: at as u64 + e.at };
    let len = r.u32()? as usize;
    let at = r.position();
    let head = GroupHead::decode(r.take(len)?).map_err(inner(at))?;
    let (mut n, step) = (0u64, head.entry_step());
    while r.remaining() > 0 {
        let len = r.u32()? as usize;
        let at = r.position();
        let bytes = r.take(len)?;
        let entries = decode_block(bytes).map_err(inner(at))?;
        if let Some(e) = entries.iter().find(|e| e.step != step) {
            return Err(r.corrupt(format!("an entry of step {} in a group of {step}", e.step)));
        }
        n += entries.len() as u64;
        take(bytes, entries);
    }
    if head.last && (n > head.entries || head.part == 0 && n < head.entries) {
        return Err(r.corrupt(format!("{n} entries in a group of {}", head.entries)));
    }
    Ok(head)
}
