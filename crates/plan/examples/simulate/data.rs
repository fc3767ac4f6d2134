//! The data that was written, and what its readers ask for: block entries as an index holds them, planned by the real
//! planner.

use std::sync::Arc;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Encoding, Entry, StoredPiece};
use drystone_format::table::Subchunk;
use drystone_plan::layout::{Device, Placement, Spread};
use drystone_plan::read_plan::{Options, ReadPlan, Slot, plan, resolve_slots};
use drystone_plan::resolve::Candidate;
use drystone_plan::selection::Selection;
use drystone_transform::Precision;
use drystone_transform::stats::ScalarKind;

use super::clients::Rpc;
use super::{BLOCK, ITEM, MACHINE};

/// The layout of the array.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// One row-major file in stripes of 1 MiB over all targets.
    Contiguous,
    /// A chunk per writer, each on one target, in the order of ranks.
    Whole,
    /// Each block is cut into this many parts along each of its two faster axes; its subchunks are spread over the
    /// targets.
    Cut {
        /// Parts per axis.
        ways: u64,
        /// How subchunks are spread over the targets.
        spread: Spread,
    },
}

/// An array of doubles written by `writers`^3 processes, 256^3 each.
pub(crate) struct World {
    writers: u64,
    targets: u64,
    layout: Layout,
    cut: [u64; 3],
    table: Vec<Subchunk>,
    placement: Placement,
    device: Device,
}

/// The distance of pieces in the simulated segments: nothing merges across it.
const APART: u64 = 1 << 40;
const UNIT_LOG2: u8 = 14;
const STRIPE: u64 = 1 << 20;

impl World {
    pub(crate) fn new(writers: u64, targets: u64, layout: Layout, device: Device) -> World {
        let (ways, spread) = match layout {
            Layout::Cut { ways, spread } => (ways, spread),
            _ => (1, Spread::RowMajor),
        };
        let edge = BLOCK.div_ceil(ways);
        let many = BLOCK.div_ceil(edge);
        let table = (0..many * many).map(|n| {
            let (y, x) = (n / many * edge, n % many * edge);
            let cells = BLOCK * edge.min(BLOCK - y) * edge.min(BLOCK - x);
            Subchunk { piece: piece(n * APART, cells * ITEM), ..Subchunk::default() }
        });
        let placement = Placement::new(&[writers, writers * many, writers * many], targets, spread).unwrap();
        World {
            writers,
            targets,
            layout,
            cut: [BLOCK, edge, edge],
            table: table.collect(),
            placement,
            device,
        }
    }

    /// The requests of `readers` that share the plane across an axis, in its middle. They read near-square tiles of
    /// equally many cells or, if `stored`, whole subchunks, as programs do that read in units of what is stored. Then
    /// some readers may have nothing to read.
    pub(crate) fn plane(&self, axis: usize, readers: u64, stored: bool) -> Vec<Vec<Rpc>> {
        let edge = self.writers * BLOCK;
        let faces: Vec<usize> = (0..3).filter(|a| *a != axis).collect();
        let edges = faces.iter().map(|a| if stored { self.edges(*a) } else { (0..=edge).collect() });
        let [high, wide] = <[Vec<u64>; 2]>::try_from(edges.collect::<Vec<_>>()).unwrap();
        let rows = (1u64 << (readers.ilog2() / 2)).min(high.len() as u64 - 1);
        let columns = (readers / rows).min(wide.len() as u64 - 1);
        let bounds = |edges: &[u64], part: u64, parts: u64| {
            let at = |part: u64| edges[(part * (edges.len() as u64 - 1) / parts) as usize];
            (at(part), at(part + 1) - at(part))
        };
        let tiles = (0..rows * columns).map(|r| {
            let mut offset = [edge / 2 + 77; 3];
            let mut count = [1; 3];
            (offset[faces[0]], count[faces[0]]) = bounds(&high, r / columns, rows);
            (offset[faces[1]], count[faces[1]]) = bounds(&wide, r % columns, columns);
            self.requests(offset, count)
        });
        tiles.collect()
    }

    /// Where subchunks begin along an axis, and its end.
    fn edges(&self, axis: usize) -> Vec<u64> {
        let end = self.writers * BLOCK;
        if matches!(self.layout, Layout::Contiguous) {
            return (0..=end).collect();
        }
        let starts = (0..self.writers)
            .flat_map(|b| (0..BLOCK).step_by(self.cut[axis] as usize).map(move |s| b * BLOCK + s));
        starts.chain([end]).collect()
    }

    /// The requests of `readers`, each of which reads the plane across an axis of one random block.
    pub(crate) fn many(&self, readers: u64) -> Vec<Vec<Rpc>> {
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let one = |_| {
            let mut offset = [0; 3].map(|_: u64| below(self.writers) * BLOCK);
            let mut count = [BLOCK; 3];
            let axis = below(3) as usize;
            (offset[axis], count[axis]) = (offset[axis] + below(BLOCK), 1);
            self.requests(offset, count)
        };
        (0..readers).map(one).collect()
    }

    fn requests(&self, offset: [u64; 3], count: [u64; 3]) -> Vec<Rpc> {
        let blocks = self.candidates(offset, count);
        let slot = Slot {
            candidates: blocks,
            selection: Selection::boxed(&offset, &count),
            item: ITEM,
            from: 0,
            whole: ITEM,
            scalar: ITEM,
            kind: ScalarKind::F64,
        };
        let slots = [slot];
        let resolved = resolve_slots(&slots).unwrap();
        // Two choices of holes that are read over: up to the size that a request is worth, or hardly any. The cheaper
        // is taken.
        let gaps = [16 << 10, self.device.request_bytes() as u64];
        let plans = gaps.map(|gap| {
            let options = Options { gap, max_request: 4 << 20, precision: Precision::Exact };
            plan(&slots, &resolved, |_, _| &self.table[..], |_, _| None, &options).unwrap()
        });
        let cost = |p: &ReadPlan| self.device.seconds(p.requests as f64, p.read_bytes as f64);
        let [few, many] = plans;
        let chosen = if cost(&few) <= cost(&many) { few } else { many };
        self.rpcs(&slots[0], &chosen)
    }

    fn candidates(&self, offset: [u64; 3], count: [u64; 3]) -> Vec<Candidate> {
        let whole = matches!(self.layout, Layout::Contiguous);
        let edge = if whole { self.writers * BLOCK } else { BLOCK };
        let range = |a: usize| offset[a] / edge..(offset[a] + count[a]).div_ceil(edge);
        let mut out = Vec::new();
        for z in range(0) {
            for y in range(1) {
                for x in range(2) {
                    let mut entry = Entry {
                        ndim: 3,
                        put: (z * self.writers + y) * self.writers + x,
                        encoding: Arc::new(Encoding { item: ITEM as u32, ..Encoding::default() }),
                        subchunks: 1,
                        ..Entry::default()
                    };
                    entry.source = u32::try_from(entry.put).unwrap();
                    entry.offset[..3].copy_from_slice(&[z * edge, y * edge, x * edge]);
                    entry.count[..3].copy_from_slice(&[edge; 3]);
                    entry.cut[..3].copy_from_slice(
                        if whole { &entry.count[..3] } else { &self.cut }.to_vec().as_slice(),
                    );
                    entry.piece = piece(0, edge * edge * edge * ITEM);
                    if self.table.len() > 1 {
                        entry.subchunks = self.table.len() as u64;
                        entry.piece = StoredPiece { length: 4096, ..StoredPiece::default() };
                    }
                    out.push(Candidate { entry, limit: [u64::MAX; MAX_NDIM] });
                }
            }
        }
        out
    }

    /// The requests of a plan. Only the checksums of subchunks are read besides.
    fn rpcs(&self, slot: &Slot, plan: &ReadPlan) -> Vec<Rpc> {
        let mut out = Vec::new();
        let block = |source: u32| {
            slot.candidates.iter().find(|c| c.entry.source == source).map(|c| &c.entry).unwrap()
        };
        let cut = matches!(self.layout, Layout::Cut { .. });
        let trailers = plan.trailers.iter().filter(|_| cut).map(|t| (t.source, t.range.clone()));
        let payloads = plan.fetches.iter().map(|p| (p.source, p.range.clone()));
        for (source, range) in trailers.chain(payloads) {
            let mut at = range.start;
            while at < range.end {
                let step = (range.end - at).min(MACHINE.rpc - at % MACHINE.rpc);
                out.push(self.rpc(block(source), at, step));
                at += step;
            }
        }
        out
    }

    fn rpc(&self, entry: &Entry, at: u64, bytes: u64) -> Rpc {
        match self.layout {
            Layout::Contiguous => {
                let stripe = at / STRIPE;
                let target = stripe % self.targets;
                let at = stripe / self.targets * STRIPE + at % STRIPE;
                Rpc { target: target as u32, object: target, at, bytes }
            }
            _ => {
                let (number, at) = (at / APART, at % APART);
                let many = BLOCK.div_ceil(self.cut[1]);
                let block = |axis: usize| entry.offset[axis] / BLOCK;
                let cell = [block(0), block(1) * many + number / many, block(2) * many + number % many];
                let object = entry.put * self.table.len() as u64 + number;
                Rpc { target: self.placement.of(&cell) as u32, object, at, bytes }
            }
        }
    }
}

fn piece(position: u64, length: u64) -> StoredPiece {
    StoredPiece {
        position,
        length,
        trailer: 4 * length.div_ceil(1 << UNIT_LOG2),
        unit_log2: UNIT_LOG2,
        check: 0,
    }
}
