//! Committed steps as runs, and hidden content (docs/format/manifest.md, Steps section).

use crate::Corrupt;
use crate::cbor::{Sink, Source};

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
    /// (step, commit), ascending by step, at most one per step.
    pub hidden: Vec<(u64, u64)>,
}

impl StepRun {
    /// The greatest step of the run; None if it does not fit in 64 bits or the run is invalid.
    pub fn last(&self) -> Option<u64> {
        let reach = self.count.checked_sub(1)?.checked_mul(self.stride)?;
        self.first.checked_add(reach)
    }

    /// Number of its steps below `step`.
    fn below(&self, step: u64) -> u64 {
        match step.checked_sub(self.first) {
            None => 0,
            Some(distance) => distance.div_ceil(self.stride.max(1)).min(self.count),
        }
    }

    /// The run of the first `n` steps and the run of the others, in reverse order.
    fn split(self, n: u64) -> (StepRun, StepRun) {
        let head = StepRun { count: n, ..self };
        let first = self.first.saturating_add(n.saturating_mul(self.stride));
        (head, StepRun { first, count: self.count.saturating_sub(n), ..self })
    }
}

impl Steps {
    /// Whether the step is committed.
    pub fn contains(&self, step: u64) -> bool {
        let at = self.runs.partition_point(|run| run.first <= step);
        let Some(run) = at.checked_sub(1).and_then(|at| self.runs.get(at)) else { return false };
        (step - run.first).is_multiple_of(run.stride.max(1)) && run.last().is_some_and(|last| step <= last)
    }

    /// The greatest committed step.
    pub fn last(&self) -> Option<u64> {
        self.runs.last()?.last()
    }

    /// Number of committed steps.
    pub fn len(&self) -> u64 {
        self.runs.iter().fold(0, |n, run| n.saturating_add(run.count))
    }

    /// Whether no step is committed.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The committed steps, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.runs
            .iter()
            .flat_map(|run| (0..run.count).map(|i| run.first.saturating_add(i.saturating_mul(run.stride))))
    }

    /// Adds a step; a step that is already present changes nothing. The same steps form the same runs, whatever their
    /// order of arrival: from the lowest on, each run takes as many steps as are equally spaced. Appending takes O(1),
    /// other insertions O(runs).
    ///
    /// `u64::MAX` is not a step and is ignored.
    pub fn insert(&mut self, step: u64) {
        if step == u64::MAX || self.contains(step) {
            return;
        }
        let at = self.runs.partition_point(|run| run.first <= step).saturating_sub(1);
        let tail = self.runs.split_off(at.min(self.runs.len()));
        let mut new = Some(StepRun { first: step, count: 1, stride: 1 });
        for run in tail {
            let (head, rest) = run.split(run.below(step));
            self.push(head);
            if rest.count > 0
                && let Some(new) = new.take()
            {
                self.push(new);
            }
            self.push(rest);
        }
        if let Some(new) = new {
            self.push(new);
        }
    }

    /// Removes a step; the remaining steps form the same runs as if it had never been inserted. O(runs).
    pub fn remove(&mut self, step: u64) {
        if !self.contains(step) {
            return;
        }
        let at = self.runs.partition_point(|run| run.first <= step).saturating_sub(1);
        // If the run's first step goes, the run before it may go on.
        let tail = self.runs.split_off(at.saturating_sub(1));
        for run in tail {
            let (head, rest) = run.split(run.below(step));
            self.push(head);
            self.push(if rest.first == step { rest.split(1).1 } else { rest });
        }
    }

    /// Appends a run above all others: it continues the last run as far as it fits.
    fn push(&mut self, mut run: StepRun) {
        if run.count == 0 {
            return;
        }
        if let Some(last) = self.runs.last_mut() {
            let end = last.last().unwrap_or(last.first);
            let distance = run.first.saturating_sub(end);
            if last.count == 1 || distance == last.stride {
                last.stride = distance;
                if run.count == 1 || run.stride == distance {
                    last.count += run.count;
                    return;
                }
                last.count += 1;
                run = run.split(1).1;
            }
        }
        if run.count == 1 {
            run.stride = 1;
        }
        self.runs.push(run);
    }

    /// Hides entries that were adopted for `step` before `commit`. If called several times for a step, the greatest
    /// commit counts.
    pub fn hide(&mut self, step: u64, commit: u64) {
        match self.hidden.binary_search_by_key(&step, |&(step, _)| step) {
            Ok(at) => {
                if let Some((_, hidden)) = self.hidden.get_mut(at) {
                    *hidden = commit.max(*hidden);
                }
            }
            Err(at) => self.hidden.insert(at, (step, commit)),
        }
    }

    /// Entries of `step` adopted before this commit are hidden; 0 if none are.
    pub fn hidden_below(&self, step: u64) -> u64 {
        let found = self.hidden.binary_search_by_key(&step, |&(step, _)| step).ok();
        found.and_then(|at| self.hidden.get(at)).map_or(0, |&(_, commit)| commit)
    }

    /// The bytes of the steps section.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Sink::new();
        out.map(2).u64(0).array(self.runs.len());
        for run in &self.runs {
            out.array(3).u64(run.first).u64(run.count).u64(run.stride);
        }
        out.u64(1).array(self.hidden.len());
        for (step, commit) in &self.hidden {
            out.array(2).u64(*step).u64(*commit);
        }
        out.finish()
    }

    /// Decodes a steps section: runs ascend and do not interleave, hidden steps ascend.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(bytes);
        let mut steps = Steps::default();
        source.fields(|source, key| {
            match key {
                0 => {
                    let mut free = 0;
                    steps.runs = source.list(|source| {
                        source.tuple(3)?;
                        let run =
                            StepRun { first: source.u64()?, count: source.u64()?, stride: source.u64()? };
                        match run.last() {
                            Some(last) if run.stride > 0 && run.first >= free && last < u64::MAX => {
                                free = last + 1;
                                Ok(run)
                            }
                            _ => Err(source.corrupt(format!("impossible run of steps {run:?}"))),
                        }
                    })?;
                }
                1 => {
                    let mut above = None;
                    steps.hidden = source.list(|source| {
                        source.tuple(2)?;
                        let (step, commit) = (source.u64()?, source.u64()?);
                        if above.is_some_and(|a| step <= a) {
                            return Err(source.corrupt(format!("hidden step {step} is out of order")));
                        }
                        above = Some(step);
                        Ok((step, commit))
                    })?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        Ok(steps)
    }
}
