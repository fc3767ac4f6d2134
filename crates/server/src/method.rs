//! Methods that the server runs on objects of containers. A read program runs where the bytes are.
//!
//! Invariants
//! - a program is decoded, and its cost is compared with the budget, before anything is read or memory is allocated;
//! - every fault of a program or an object is reported in the reply, and counted.

use drystone_program::{
    Budget, FRAME_OVERHEAD, Mode, Payload, Program, Refusal as NotRun, Reply, Source, SourceError, run_on,
};
use drystone_store::{Store, StoreError, StoreExt};
use drystone_wire::Status;

use crate::Limits;
use crate::open::Opened;
use crate::reply::Refusal;

/// The supported methods, as `dry.version` lists them.
const METHODS: &str = "dry.version dry.read.1 dry.read.2";
/// The most steps of a program: some seconds of one processor.
const STEPS: u64 = 8_000_000_000;
/// Bytes of an output beside its results: heads, names of methods, refusals.
const OTHER: u64 = 64 << 10;
/// On a far store, pieces with a smaller hole between them are read in one request.
const HOLE: u64 = 4 << 10;

/// The method that an ask runs.
pub(crate) enum Method {
    /// `dry.version`.
    Versions,
    /// `dry.read.1` and `dry.read.2`. A program contains its own version.
    Read(Box<Program>),
    /// The same, with an input that is not a program or exceeds the budget.
    NotRun(NotRun),
    /// An unknown method.
    Unknown(String),
}

/// The budget of a program.
pub(crate) fn budget(limits: &Limits) -> Budget {
    Budget { bytes: limits.memory / 2, memory: limits.memory / 4 * 3, steps: STEPS }
}

impl Method {
    /// The method of this name with this input.
    pub(crate) fn of(name: &str, input: &[u8], budget: &Budget) -> Method {
        match name {
            "dry.version" => Method::Versions,
            "dry.read.1" | "dry.read.2" => match Program::decode(input).map_err(NotRun::from) {
                Ok(program) => match program.cost().within(budget) {
                    Ok(()) => Method::Read(Box::new(program)),
                    Err(refusal) => Method::NotRun(refusal),
                },
                Err(refusal) => Method::NotRun(refusal),
            },
            other => Method::Unknown(other.to_owned()),
        }
    }

    /// The most bytes of memory that it needs. On a far store, they include the bytes that are read ahead.
    pub(crate) fn memory(&self, is_far: bool) -> u64 {
        let Method::Read(program) = self else { return 0 };
        let cost = program.cost();
        let ahead = cost.bytes.saturating_add(program.items.len() as u64 * HOLE);
        cost.memory.saturating_add(if is_far { ahead } else { 0 })
    }

    /// The most bytes of its output.
    pub(crate) fn output(&self) -> u64 {
        let Method::Read(program) = self else { return OTHER };
        let each = |item| program.result_len(item).saturating_add(FRAME_OVERHEAD as u64);
        match program.items.iter().all(|item| item.condition.is_none()) {
            true => program.items.iter().map(each).fold(OTHER, u64::saturating_add),
            false => program.cost().memory,
        }
    }

    /// Runs it on an object. Returns the output, and whether anything was refused.
    pub(crate) fn run(
        &self,
        opened: &Opened,
        key: &str,
        limit: u64,
        budget: &Budget,
        more: &mut dyn FnMut() -> bool,
    ) -> Result<(Vec<u8>, bool), Refusal> {
        let output = match self {
            Method::Versions => return Ok((METHODS.into(), false)),
            Method::Unknown(name) => {
                let name: String = name.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
                return Err(Refusal::new(Status::Unsupported, format!("there is no method {name:?}")));
            }
            Method::NotRun(refusal) => return Ok((refusal.reply(), true)),
            Method::Read(program) => {
                let mut object = Object::of(opened.store.as_ref(), key, program);
                opened.with_bench(|bench| run_on(bench, program, &mut object, budget, more))
            }
        };
        if output.len() as u64 > limit {
            return Err(Refusal::new(
                Status::Invalid,
                format!("the output has {} bytes, more than the limit of {limit}", output.len()),
            ));
        }
        let refused = |frame: Result<drystone_program::Frame<'_>, _>| {
            frame.is_ok_and(|frame| matches!(frame.payload, Payload::Refused(_)))
        };
        let refused = Reply::new(&output).is_ok_and(|frames| frames.into_iter().any(refused));
        Ok((output, refused))
    }
}

/// An object of a store.
struct Object<'a> {
    store: &'a dyn Store,
    key: &'a str,
    /// Ranges that were read together from a far store, ascending: position in the object, position in `bytes`, length.
    ranges: Vec<(u64, usize, usize)>,
    bytes: Vec<u8>,
}

impl<'a> Object<'a> {
    fn of(store: &'a dyn Store, key: &'a str, program: &Program) -> Self {
        let mut object = Object { store, key, ranges: Vec::new(), bytes: Vec::new() };
        if store.features().far.is_some() && !object.read_ahead(program) {
            // After a failure, each piece is read by itself, so that its item reports the error.
            (object.ranges, object.bytes) = (Vec::new(), Vec::new());
        }
        object
    }

    /// Reads the pieces of all items at once.
    fn read_ahead(&mut self, program: &Program) -> bool {
        let stored = program.items.iter().flat_map(|item| {
            let piece = (item.mode != Mode::Prefix).then_some(&item.piece);
            piece.into_iter().chain(&item.prefix).map(|piece| (piece.position, piece.end()))
        });
        let mut stored: Vec<(u64, u64)> = stored.collect();
        stored.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in stored {
            match joined.last_mut() {
                Some(last) if from <= last.1.saturating_add(HOLE) => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        let mut all = 0_usize;
        for (from, to) in joined {
            let Ok(len) = usize::try_from(to.saturating_sub(from)) else { return false };
            self.ranges.push((from, all, len));
            let Some(sum) = all.checked_add(len) else { return false };
            all = sum;
        }
        if self.bytes.try_reserve_exact(all).is_err() {
            return false;
        }
        self.bytes.resize(all, 0);
        let ranges: Vec<(u64, usize)> = self.ranges.iter().map(|(from, _, len)| (*from, *len)).collect();
        self.store.read_ranges(self.key, &ranges, &mut self.bytes).is_ok()
    }

    /// Bytes of a range, if they were read ahead.
    fn at_hand(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let behind = self.ranges.partition_point(|(from, ..)| *from <= offset);
        let (from, place, room) = self.ranges.get(behind.checked_sub(1)?)?;
        let inside = usize::try_from(offset.checked_sub(*from)?).ok()?;
        let end = inside.checked_add(len).filter(|end| end <= room)?;
        self.bytes.get(place.checked_add(inside)?..place.checked_add(end)?)
    }
}

impl Source for Object<'_> {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        if let Some(found) = self.at_hand(offset, out.len()) {
            out.copy_from_slice(found);
            return Ok(());
        }
        self.store.read(self.key, offset, out).map_err(|error| match error {
            StoreError::ShortRead { .. } => SourceError::Short(offset.saturating_add(out.len() as u64)),
            // The message does not reveal paths of the server.
            other => SourceError::Failed(Refusal::from(other).message),
        })
    }
}
