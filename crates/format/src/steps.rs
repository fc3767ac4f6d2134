//! Committed steps as runs, and hidden content (docs/format/manifest.md, Steps section).

/// `first`, `first + stride`, … `count` times; `stride` at least 1, `count` at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StepRun {
    pub first: u64,
    pub count: u64,
    pub stride: u64,
}

/// The committed steps in ascending order, and per step the commit below which content is hidden.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steps {
    /// Disjoint, ascending, not interleaved.
    pub runs: Vec<StepRun>,
    /// (step, commit), ascending by step, one per step at most.
    pub hidden: Vec<(u64, u64)>,
}
