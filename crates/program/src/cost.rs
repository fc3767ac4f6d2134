//! The cost of a program, and the budget for it. Both are known before anything is read.

use crate::program::{Arrangement, Item, Mode, Program};
use crate::reply::{FRAME_OVERHEAD, Refusal, Why};

/// The limits that a storage server sets for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes read from the object.
    pub bytes: u64,
    /// Peak bytes of memory, including the reply.
    pub memory: u64,
    /// Steps. A step is about a nanosecond on a slow processor, in which a plain copy moves a byte or two.
    pub steps: u64,
}

/// Upper bounds of what a program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Cost {
    pub bytes: u64,
    pub memory: u64,
    pub steps: u64,
}

impl Budget {
    /// The budget of a call inside a storage daemon, which executes no other requests of the placement group meanwhile.
    pub const OBJECT_CLASS: Budget = Budget { bytes: 48 << 20, memory: 192 << 20, steps: 800_000_000 };

    /// The budget of a program whose items are executed in this process.
    pub const LOCAL: Budget = Budget { bytes: 1 << 40, memory: 1 << 40, steps: u64::MAX };
}

impl Cost {
    /// Refuses a cost above the budget.
    pub fn within(&self, budget: &Budget) -> Result<(), Refusal> {
        let checks = [
            ("bytes to read", self.bytes, budget.bytes),
            ("bytes of memory", self.memory, budget.memory),
            ("steps", self.steps, budget.steps),
        ];
        match checks.into_iter().find(|(_, needs, has)| needs > has) {
            None => Ok(()),
            Some((what, needs, has)) => {
                Err(Refusal::new(Why::Budget, format!("{needs} {what} are needed, {has} are granted")))
            }
        }
    }
}

impl Program {
    /// Upper bounds of the program's cost; saturating.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost::default();
        let (mut largest, mut results, mut before) = (0, 0u64, None);
        for item in &self.items {
            let Some(arrangement) = self.arrangements.get(usize::from(item.arrangement)) else { continue };
            let result = self.result_len(item);
            let stored = stored_len(item);
            let (decoded, source) = (u64::from(arrangement.decoded), arrangement.source_len());
            results = results.saturating_add(result).saturating_add(FRAME_OVERHEAD as u64);
            // Payload, decoded bytes, intermediate buffers of codecs, unrolled cells with their table, and values with
            // a mask.
            let cells = arrangement.curve.as_ref().map_or(0, |curved| curved.cells());
            let held = [
                stored,
                decoded.saturating_mul(4),
                source,
                cells.saturating_mul(40),
                result.saturating_mul(3),
            ];
            largest = largest.max(held.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)));
            // A whole subchunk stays decoded for the next items.
            let same = (item.arrangement, item.mode, item.piece);
            if before.replace(same) != Some(same) || item.mode == Mode::Part {
                cost.bytes = cost.bytes.saturating_add(stored);
                cost.steps = cost.steps.saturating_add(self.decoding(arrangement, stored));
            }
            cost.steps = cost.steps.saturating_add(self.gathering(item));
        }
        cost.memory = largest.saturating_add(results);
        cost
    }

    fn decoding(&self, arrangement: &Arrangement, stored: u64) -> u64 {
        const PER_CURVED_CELL: u64 = 200;
        let chain = self.chains.get(usize::from(arrangement.chain)).map_or("", String::as_str);
        let per_byte: u64 = chain.split(',').filter(|codec| !codec.is_empty()).map(weight).sum();
        let cells = arrangement.curve.as_ref().map_or(0, |curved| curved.cells());
        let decoded = u64::from(arrangement.decoded).saturating_mul(per_byte);
        stored.saturating_add(decoded).saturating_add(cells.saturating_mul(PER_CURVED_CELL))
    }

    fn gathering(&self, item: &Item) -> u64 {
        const PER_TERM: u64 = 100;
        const PER_NODE_AND_CELL: u64 = 8;
        let Some(rule) = self.rules.get(usize::from(item.rule)) else { return 0 };
        let copied = rule.bytes().saturating_add(rule.dst_len()).saturating_mul(2);
        let terms = (rule.terms().len() as u64).saturating_mul(PER_TERM);
        let condition = item.condition.and_then(|n| self.conditions.get(usize::from(n)));
        let asked = condition.map_or(0, |condition| {
            let cells = rule.dst_len() / condition.dtype.size() as u64;
            let nodes = condition.tree.nodes().len() as u64;
            cells.saturating_mul(nodes).saturating_mul(PER_NODE_AND_CELL)
        });
        copied.saturating_add(terms).saturating_add(asked)
    }
}

/// Stored bytes of an item, including trailer and prefix.
pub(crate) fn stored_len(item: &Item) -> u64 {
    let piece = item.piece.end().saturating_sub(item.piece.position);
    match item.mode {
        Mode::Prefix => item.prefix.map_or(0, |prefix| prefix.length),
        _ => piece.saturating_add(item.prefix.map_or(0, |prefix| prefix.length)),
    }
}

/// Steps per decoded byte of a codec.
fn weight(codec: &str) -> u64 {
    let name = codec.split([':', '=']).next().unwrap_or_default();
    match name.trim() {
        "bzip2" => 60,
        "zlib" | "deflate" | "gzip" | "szip" | "zfp" => 12,
        "shuffle" | "bitshuffle" | "delta" | "lz4" => 3,
        _ => 6,
    }
}
