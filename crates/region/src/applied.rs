//! The results of registered functions for a release: neighbours are read, tiles are computed before a deadline.
//!
//! Invariants
//! - nothing is written here: a function that fails, hangs or does not fit leaves the container as it was;
//! - a call that its deadline leaves behind owns its memory, and later releases fail until it has returned.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Builder, available_parallelism};
use std::time::Instant;

use drystone::{Error, ErrorKind, Reading, Result};

use super::boxes::{Bounds, meet, outside};
use super::error::invalid;
use super::function::{Aligned, Declared, Function, Job};
use super::lease::Cells;
use super::operation::Computed;
use super::stencil::{Dense, common, computable, copy, grown, repeat_edges, surroundings, tiles, volume};
use super::stored::{of, read};
use super::sync::lock;

/// Bytes of a tile's output, at most; one cell at least.
const TILE: u64 = 4 << 20;
/// The most threads that call a function for one release.
const THREADS: usize = 16;

/// The part of the source, outside the released box, that the results of a function depend on: whether there is one,
/// and its frame.
pub(super) fn neighbours(function: &Function, cells: &Cells, shape: &[u64]) -> Option<Cells> {
    let released = (cells.offset.clone(), cells.count.clone());
    let around = surroundings(&released, &function.declared().halo, shape);
    (around != released).then(|| of(&cells.variable, cells.step, around))
}

/// The cells of a function's result that a release changes. `reading` has all that was released before in
/// [`neighbours`].
pub(super) fn results(
    function: &Arc<Function>,
    reading: &Reading,
    cells: &Cells,
    bytes: &[u8],
) -> Result<Vec<Computed>> {
    let declared = function.declared();
    let (shape, halo) = (&reading.variable().shape, &declared.halo);
    let released: Bounds = (cells.offset.clone(), cells.count.clone());
    let around = surroundings(&released, halo, shape);
    let mut written: Vec<Bounds> = Vec::new();
    if let Some(step) =
        cells.step.filter(|step| around != released && reading.snapshot().steps.contains(*step))
    {
        let blocks = reading.blocks(Some(step))?;
        written.extend(blocks.iter().map(|block| (block.offset.clone(), block.count.clone())));
        written.retain(|block| meet(block, &around));
    }
    let boxes = computable(&released, &written, halo, shape);
    let size = u64::from(declared.output.size());
    let made = boxes.iter().fold(0_u64, |all, part| all.saturating_add(volume(part).saturating_mul(size)));
    accept(declared, bytes.len() as u64, made)?;
    let all: Vec<Bounds> = boxes.iter().flat_map(|part| tiles(part, (TILE / size.max(1)).max(1))).collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let gather = Gather { reading, cells, bytes, released };
    let _turn = function.turn();
    if function.is_stuck() {
        return Err(deadline(format!(
            "function {:?} has not returned from a call that its deadline left behind: it is not called again before",
            declared.name
        )));
    }
    run(function, &all, &gather)
}

/// Fails if a release and its results are beyond the memory of the function.
pub(super) fn accept(declared: &Declared, released: u64, made: u64) -> Result<()> {
    if released.saturating_add(made) <= declared.memory {
        return Ok(());
    }
    Err(invalid(format!(
        "function {:?}: a release of {released} bytes with results of {made} bytes is beyond its memory of {} bytes: \
         release smaller boxes, or raise `memory` of the function",
        declared.name, declared.memory
    )))
}

/// Where the input of a tile comes from.
struct Gather<'a> {
    reading: &'a Reading,
    cells: &'a Cells,
    bytes: &'a [u8],
    released: Bounds,
}

impl Gather<'_> {
    /// The input of a tile, with its halo.
    fn tile(&self, function: &Function, number: usize, tile: &Bounds) -> Result<Job> {
        let variable = self.reading.variable();
        let (halo, item) = (&function.declared().halo, variable.dtype.item_size() as usize);
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let origin: Vec<i64> =
            tile.0.iter().zip(halo).map(|(at, halo)| signed(*at) - signed(*halo)).collect();
        let count: Vec<u64> = tile.1.iter().zip(halo).map(|(n, halo)| n.saturating_add(2 * halo)).collect();
        let inside = grown(tile, halo, &variable.shape);
        let len =
            usize::try_from(volume(&(Vec::new(), count.clone()))).ok().and_then(|n| n.checked_mul(item));
        let input = len.and_then(Aligned::zeros);
        let mut input = input.ok_or_else(|| invalid("a tile does not fit into memory"))?;
        let mut to = Dense { origin: &origin, count: &count, item, bytes: input.bytes_mut() };
        let at = |offset: &[u64]| offset.iter().map(|n| signed(*n)).collect::<Vec<i64>>();
        if let Some(part) = common(&inside, &self.released) {
            let origin = at(&self.released.0);
            let from = Dense { origin: &origin, count: &self.released.1, item, bytes: self.bytes };
            copy(&part, &from, &mut to);
        }
        for part in outside(&inside, &self.released) {
            let cells = of(&self.cells.variable, self.cells.step, part.clone());
            let bytes = read(self.reading, self.cells.step, &cells)?;
            let origin = at(&part.0);
            copy(&part, &Dense { origin: &origin, count: &part.1, item, bytes: bytes.as_slice() }, &mut to);
        }
        repeat_edges(&inside, &mut to);
        Ok(Job { number, step: self.cells.step, offset: tile.0.clone(), count: tile.1.clone(), input })
    }
}

/// The calls of one release that are under way.
#[derive(Default)]
struct Calls {
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    calling: usize,
    /// No more calls begin.
    has_ended: bool,
    /// Calls under way were left behind.
    is_left: bool,
}

impl Calls {
    fn begin(&self) -> bool {
        let mut state = lock(&self.state);
        state.calling += usize::from(!state.has_ended);
        !state.has_ended
    }

    fn end(&self, function: &Function) {
        let mut state = lock(&self.state);
        state.calling -= 1;
        if state.is_left {
            function.left().fetch_sub(1, Ordering::AcqRel);
        }
        drop(state);
        self.returned.notify_all();
    }

    /// Begins no more calls, waits for those under way, and leaves them behind at the deadline.
    fn stop(&self, function: &Function, until: Instant) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        while state.calling > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.is_left = true;
                function.left().fetch_add(state.calling, Ordering::AcqRel);
                return;
            }
            state = match self.returned.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// The number of a tile, and its elements or the reason why there are none.
type Made = (usize, std::result::Result<Vec<u8>, String>);

fn run(function: &Arc<Function>, tiles: &[Bounds], gather: &Gather<'_>) -> Result<Vec<Computed>> {
    let declared = function.declared();
    let until = Instant::now() + declared.deadline;
    let threads = if declared.thread_safe { available_parallelism().map_or(1, usize::from) } else { 1 };
    let threads = threads.min(THREADS).min(tiles.len());
    let calls = Arc::new(Calls::default());
    let (give, jobs) = channel::<Job>();
    let (done, made) = channel::<Made>();
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..threads {
        let (function, calls, jobs, done) =
            (Arc::clone(function), Arc::clone(&calls), Arc::clone(&jobs), done.clone());
        let next = move || {
            while let Ok(mut job) = next_of(&jobs) {
                if !calls.begin() {
                    return;
                }
                let made = function.call(&mut job);
                calls.end(&function);
                if done.send((job.number, made)).is_err() {
                    return;
                }
            }
        };
        let begun = Builder::new().name(format!("drystone-{}", declared.name)).spawn(next);
        begun.map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
    }
    drop(done);
    let mut out = Vec::new();
    let (mut waiting, mut next) = (BTreeSet::new(), tiles.iter().enumerate());
    let outcome = loop {
        while waiting.len() < 2 * threads {
            let Some((number, tile)) = next.next() else { break };
            let job = match gather.tile(function, number, tile) {
                Ok(job) => job,
                Err(error) => {
                    calls.stop(function, until);
                    return Err(error);
                }
            };
            waiting.insert(number);
            drop(give.send(job));
        }
        let Some(first) = waiting.first().copied() else { break Ok(()) };
        let named = |number: usize| tiles.get(number).map_or_else(String::new, text);
        match made.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((number, Ok(bytes))) => {
                waiting.remove(&number);
                if let Some((offset, count)) = tiles.get(number).cloned() {
                    out.push(Computed { offset, count, bytes });
                }
            }
            Ok((number, Err(why))) => {
                break Err(invalid(format!(
                    "function {:?} for the tile {}: it {why}",
                    declared.name,
                    named(number)
                )));
            }
            Err(RecvTimeoutError::Timeout) => {
                break Err(deadline(format!(
                    "function {:?} did not return within {} s for the tile {}",
                    declared.name,
                    declared.deadline.as_secs_f64(),
                    named(first)
                )));
            }
            Err(RecvTimeoutError::Disconnected) => {
                break Err(invalid(format!("function {:?} ended its thread", declared.name)));
            }
        }
    };
    calls.stop(function, until);
    outcome.map(|()| out)
}

fn next_of(jobs: &Mutex<Receiver<Job>>) -> std::result::Result<Job, std::sync::mpsc::RecvError> {
    lock(jobs).recv()
}

/// `[0:4, 2:6]`
fn text((offset, count): &Bounds) -> String {
    let axes = offset.iter().zip(count).map(|(at, n)| format!("{at}:{}", at.saturating_add(*n)));
    format!("[{}]", axes.collect::<Vec<_>>().join(", "))
}

fn deadline(message: String) -> Error {
    Error::new(ErrorKind::Deadline, message)
}
