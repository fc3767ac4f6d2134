//! Reads writers' logs: finds the closed groups after a watermark (docs/format/log.md, "Reading a log").
//!
//! Invariants
//! - a torn tail is the normal end of a log; missing bytes before a watermark are damage;
//! - no byte of a log is used before the CRC of its frame was checked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use drystone_format::entry::Entry;
use drystone_format::frame::{self, FrameHeader, FrameKind, Next};
use drystone_format::log::{self, FileHeader, FileKind, GroupEntries, GroupHead};
use drystone_format::{Corrupt, keys};
use drystone_store::{Request, Store, StoreError, StoreExt};

use crate::base::error::must_exist;
use crate::{Error, Result};

/// The most bytes of a file's header.
pub(crate) const HEAD: u64 = 4096;

/// A group whose frames are complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) number: u64,
    pub(crate) step: Option<u64>,
    pub(crate) replace: bool,
    /// In each entry, `source` holds the part number.
    pub(crate) entries: GroupEntries,
    /// For each part, the bytes of the segment that the entries need.
    pub(crate) ends: BTreeMap<u32, u64>,
    /// Id and uid of the entries' variables.
    pub(crate) variables: Vec<(u32, u64)>,
    /// When it was closed, in nanoseconds since 1970; 0: not known.
    pub(crate) closed: u64,
}

/// A group whose frames are being read.
#[derive(Default)]
struct Building {
    frames: u64,
    entries: GroupEntries,
    ends: BTreeMap<u32, u64>,
}

impl Building {
    fn add(&mut self, payload: &[u8]) -> std::result::Result<GroupHead, Corrupt> {
        let Building { entries, ends, .. } = self;
        log::decode_into(payload, entries, &mut |entry| needs(ends, entry))
    }
}

/// Records which bytes of a segment an entry needs.
fn needs(ends: &mut BTreeMap<u32, u64>, entry: &Entry) {
    let p = &entry.piece;
    if p.length > 0 {
        let payload = p.position.saturating_add(p.length);
        let end =
            if p.trailer == 0 { payload } else { payload.next_multiple_of(4).saturating_add(p.trailer) };
        let slot = ends.entry(entry.source).or_insert(0);
        *slot = end.max(*slot);
    }
}

impl Group {
    fn of(head: GroupHead, built: Building) -> Self {
        let (entries, ends) = (built.entries, built.ends);
        let GroupHead { step, replace, group, variables, closed, .. } = head;
        Group { number: group, step, replace, entries, ends, variables, closed }
    }

    /// A group of few entries that was just written.
    pub(crate) fn written(head: &GroupHead, few: &[Entry]) -> Self {
        let mut built = Building { entries: few.iter().cloned().collect(), ..Building::default() };
        few.iter().for_each(|entry| needs(&mut built.ends, entry));
        Group::of(head.clone(), built)
    }

    /// Whether its only frame is exactly these bytes.
    fn is_in(&self, bytes: &[u8]) -> bool {
        let Next::Frame { payload, end, .. } = frame::next(bytes, 0, u64::MAX) else { return false };
        let mut building = Building::default();
        let Ok(head) = building.add(payload) else { return false };
        let whole = head.last && head.part == 0 && end == bytes.len() as u64;
        whole && Group::of(head, building) == *self
    }
}

/// The position of a frame that may not be settled.
#[derive(Debug, Clone, Copy)]
struct FrameAt {
    part: u32,
    start: u64,
    group: u64,
}

/// One part, as far as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) part: u32,
    /// The position at which reading ended.
    pub(crate) end: u64,
    /// Whether it ends with CLOSE.
    pub(crate) closed: bool,
    /// The reason why bytes after the last valid frame are not one: a torn tail, or a frame being written.
    pub(crate) torn: Option<Corrupt>,
    /// Whether a valid frame follows the torn place. A crash of this writer alone cannot cause that.
    pub(crate) damaged: bool,
}

/// A writer's log after its watermarks.
#[derive(Debug, Clone)]
pub(crate) struct WriterLog {
    pub(crate) header: FileHeader,
    pub(crate) parts: Vec<Part>,
    /// Closed groups, in the order in which they were closed.
    pub(crate) groups: Vec<Group>,
    /// Numbers of groups that began and were neither closed nor aborted.
    pub(crate) open_groups: Vec<u64>,
    /// Numbers of groups that began and were aborted, or that a recovery gives up.
    pub(crate) aborted: Vec<u64>,
    frames: Vec<FrameAt>,
}

/// The position at which reading of one part begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartFrom {
    pub(crate) part: u32,
    pub(crate) watermark: u64,
    /// The length of the idx file in the listing.
    pub(crate) len: u64,
}

/// The end of an idx file that its writer has just appended, and need not read back.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    pub(crate) part: u32,
    pub(crate) header: FileHeader,
    /// The position of these bytes in the idx.
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    /// The group, if the bytes are one frame that begins and closes it.
    pub(crate) group: Option<Group>,
}

impl Tail {
    /// Whether these are all bytes that would be read.
    pub(crate) fn is(&self, from: &PartFrom) -> bool {
        self.part == from.part && self.at == from.watermark && self.at + self.bytes.len() as u64 == from.len
    }
}

impl WriterLog {
    /// Reads the given parts. They are ascending, and include all that exist from the first unsettled one on.
    pub(crate) fn scan(
        store: &dyn Store,
        writer: u64,
        uuid: &[u8; 16],
        parts: &[PartFrom],
        tail: Option<&Tail>,
    ) -> Result<Option<Self>> {
        let mut out: Option<WriterLog> = None;
        let mut building: BTreeMap<u64, Building> = BTreeMap::new();
        for from in parts {
            let key = keys::idx(writer, from.part);
            let known = tail.filter(|tail| tail.is(from));
            let read = match known {
                Some(tail) => Some((tail.header.clone(), Cow::Borrowed(tail.bytes.as_slice()), tail.at)),
                None => read_part(store, &key, writer, uuid, from)?
                    .map(|(header, bytes, at)| (header, Cow::Owned(bytes), at)),
            };
            let Some((header, bytes, at)) = read else { break };
            let log = out.get_or_insert_with(|| WriterLog {
                header,
                parts: Vec::new(),
                groups: Vec::new(),
                open_groups: Vec::new(),
                aborted: Vec::new(),
                frames: Vec::new(),
            });
            let mut part = Part { part: from.part, end: at, closed: false, torn: None, damaged: false };
            match known.and_then(|tail| tail.group.as_ref()).filter(|_| building.is_empty()) {
                Some(group) => {
                    debug_assert!(group.is_in(&bytes), "a tail is the frame of its group");
                    log.take(group, from, at, &mut part);
                }
                None => log.frames_of(&key, &bytes, at, &mut part, &mut building)?,
            }
            let whole = part.closed;
            log.parts.push(part);
            if !whole {
                break;
            }
        }
        if let Some(log) = &mut out {
            log.open_groups = building.into_keys().collect();
        }
        Ok(out)
    }

    /// Takes the only group of a tail, as [`frames_of`](Self::frames_of) would find it.
    fn take(&mut self, group: &Group, from: &PartFrom, at: u64, part: &mut Part) {
        self.frames.push(FrameAt { part: from.part, start: at, group: group.number });
        self.groups.push(group.clone());
        part.end = from.len;
    }

    fn frames_of(
        &mut self,
        key: &str,
        bytes: &[u8],
        base: u64,
        part: &mut Part,
        building: &mut BTreeMap<u64, Building>,
    ) -> Result<()> {
        let mut at = 0u64;
        let mut ordinal = u64::MAX; // the first frame may have any
        while !part.closed {
            let (header, payload, end) = match frame::next(bytes, at, ordinal) {
                Next::Frame { header, payload, end } => (header, payload, end),
                Next::End => break,
                Next::Torn(why) => {
                    part.torn = Some(why);
                    part.damaged = frame_behind(bytes, at);
                    break;
                }
            };
            ordinal = header.ordinal.saturating_add(1);
            match header.kind {
                FrameKind::File if base + at == 0 => {}
                FrameKind::Group => {
                    let head = log::head_of(payload);
                    let damaged = |c: Corrupt| Error::damaged(key, base + at + 32, &c);
                    let head = head.map_err(damaged)?;
                    self.frames.push(FrameAt { part: part.part, start: base + at, group: head.group });
                    let slot = building.entry(head.group).or_default();
                    slot.add(payload).map_err(damaged)?;
                    if slot.frames != head.part {
                        // The first frames of the group precede the watermark, so it was settled earlier.
                        building.remove(&head.group);
                        at = end.min(bytes.len() as u64);
                        part.end = base + at;
                        continue;
                    }
                    slot.frames += 1;
                    if head.last {
                        let built = building.remove(&head.group).unwrap_or_default();
                        let entries = &built.entries;
                        if entries.len() != head.entries {
                            let what =
                                format!("a group states {} entries and has {}", head.entries, entries.len());
                            return Err(Error::damaged(key, base + at, &Corrupt::new(what, 0)));
                        }
                        self.groups.push(Group::of(head, built));
                    }
                }
                FrameKind::Abort => {
                    let void: Vec<u64> = building.keys().copied().collect();
                    self.frames.retain(|f| !void.contains(&f.group));
                    self.aborted.extend(void);
                    building.clear();
                }
                FrameKind::Close => part.closed = true,
                other => {
                    let what = format!("a frame of kind {other:?} in a log");
                    return Err(Error::damaged(key, base + at, &Corrupt::new(what, 0)));
                }
            }
            at = end.min(bytes.len() as u64);
            part.end = base + at;
        }
        Ok(())
    }

    /// Gives up groups, by their places in `groups`, with later groups of the same steps, which were written on top of
    /// them. They count as aborted from now on. Returns how many they are.
    pub(crate) fn give_up(&mut self, places: &BTreeSet<usize>) -> usize {
        let mut steps: BTreeSet<u64> = BTreeSet::new();
        let mut kept = Vec::with_capacity(self.groups.len());
        let before = self.groups.len();
        for (place, group) in std::mem::take(&mut self.groups).into_iter().enumerate() {
            if places.contains(&place) || group.step.is_some_and(|step| steps.contains(&step)) {
                steps.extend(group.step);
                self.aborted.push(group.number);
            } else {
                kept.push(group);
            }
        }
        self.groups = kept;
        before - self.groups.len()
    }

    /// Whether the writer closed its log.
    pub(crate) fn is_closed(&self) -> bool {
        self.parts.last().is_some_and(|p| p.closed)
    }

    /// The watermark of a part after the groups for which `settled` holds are settled.
    pub(crate) fn watermark(&self, part: &Part, settled: impl Fn(u64) -> bool) -> u64 {
        let pending =
            self.frames.iter().filter(|f| f.part == part.part && !settled(f.group)).map(|f| f.start).min();
        pending.unwrap_or(part.end)
    }
}

/// The header of a file of the log. `None` if the file is missing, torn, or belongs to another container. `len`: the
/// number of bytes to read.
pub(crate) fn header(store: &dyn Store, key: &str, len: u64, uuid: &[u8; 16]) -> Result<Option<FileHeader>> {
    let bytes = match store.read_vec(key, 0, len.min(HEAD) as usize) {
        Err(StoreError::NotFound { .. } | StoreError::ShortRead { .. }) => return Ok(None),
        other => other?,
    };
    let Next::Frame { header: FrameHeader { kind: FrameKind::File, .. }, payload, .. } =
        frame::next(&bytes, 0, 0)
    else {
        return Ok(None);
    };
    Ok(FileHeader::decode(payload).ok().filter(|header| header.uuid == *uuid))
}

/// Hints to a far store what [`WriterLog::scan`] will read of the logs of all these writers.
pub(crate) fn prefetch<'p>(store: &dyn Store, writers: impl Iterator<Item = (u64, &'p [PartFrom])>) {
    if store.features().far.is_none() {
        return;
    }
    for (writer, part) in writers.flat_map(|(writer, parts)| parts.iter().map(move |part| (writer, part))) {
        let head = (0, if part.watermark == 0 { part.len } else { part.len.min(HEAD) });
        let tail = (part.watermark, part.len.saturating_sub(part.watermark));
        let ranges = if part.watermark == 0 { vec![head] } else { vec![head, tail] };
        // A hint only: the read itself reports a failure.
        drop(store.submit(Request::Expect { key: keys::idx(writer, part.part), ranges }));
    }
}

/// The header, and the bytes of a part from the watermark (or the beginning) to the end. `None` if even the header is
/// torn.
fn read_part(
    store: &dyn Store,
    key: &str,
    writer: u64,
    uuid: &[u8; 16],
    from: &PartFrom,
) -> Result<Option<(FileHeader, Vec<u8>, u64)>> {
    if from.len < from.watermark {
        return Ok(None); // the missing part was settled, and is not needed again
    }
    let head_len = from.len.min(if from.watermark == 0 { from.len } else { HEAD });
    let mut bytes = match store.read_vec(key, 0, head_len as usize) {
        Err(StoreError::NotFound { .. }) if from.watermark == 0 => return Ok(None),
        other => other.map_err(must_exist)?,
    };
    let header = match frame::next(&bytes, 0, 0) {
        Next::Frame { header, payload, .. } if header.kind == FrameKind::File => {
            FileHeader::decode(payload).map_err(|c| Error::damaged(key, 32, &c))?
        }
        Next::Frame { .. } => {
            return Err(Error::damaged(key, 0, &Corrupt::new("the file header is missing", 0)));
        }
        Next::End | Next::Torn(_) if from.watermark == 0 => return Ok(None),
        Next::End => return Err(Error::damaged(key, 0, &Corrupt::new("the file is empty", 0))),
        Next::Torn(why) => return Err(Error::damaged(key, 0, &why)),
    };
    if header.kind != FileKind::Idx || header.id != writer || header.part != from.part || header.uuid != *uuid
    {
        return Err(Error::damaged(key, 0, &Corrupt::new("the header is another file's", 0)));
    }
    if from.watermark > 0 {
        bytes =
            store.read_vec(key, from.watermark, (from.len - from.watermark) as usize).map_err(must_exist)?;
    }
    Ok(Some((header, bytes, from.watermark)))
}

/// Whether a valid frame begins at an 8-byte boundary after `at`.
fn frame_behind(bytes: &[u8], at: u64) -> bool {
    let first = (at as usize / 8 + 1) * 8;
    (first..bytes.len().saturating_sub(frame::HEADER - 1))
        .step_by(8)
        .any(|i| matches!(frame::next(bytes, i as u64, u64::MAX), Next::Frame { .. }))
}
