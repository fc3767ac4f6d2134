//! Storing values of derived variables, or statistics of them, after the commit that made the cells of their inputs
//! visible.
//!
//! A value may need cells of other writers, which are known only after their commit; so values are stored
//! after it. Until they are stored, and wherever they cannot be, reads compute them.
//!
//! Invariants
//! - a failure here does not affect the commit: reads compute what is not stored;
//! - blocks record the snapshot from which they were computed, so reads show only current values, whichever
//!   process commits them and whenever it does.

use std::collections::BTreeSet;
use std::sync::Arc;

use drystone_format::derived::Kind;
use drystone_format::schema::Variable;
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::Chain;

use super::{Writer, WriterOptions, bounds_only};
use crate::base::array::{Source, Target};
use crate::commit::adoption;
use crate::commit::transaction::Committed;
use crate::container::{Container, Inner};
use crate::history::snapshot::Snapshot;
use crate::read::{Reading, first_put};
use crate::{Error, Result};

/// The most bytes of values computed after one commit.
const BUDGET: u64 = 1 << 30;
/// The most cells of one stored block.
const MOST: u64 = 1 << 22;
/// Number of cells that share statistics, in stored values and where only statistics are stored.
const ZONE: u64 = 1 << 15;
const BOUNDS_ZONE: u64 = 1 << 12;
/// A box with unknown cells is halved until its parts have this many cells.
const LEAST: u64 = 1 << 9;
/// The most blocks that one commit stores: the number of a put holds the version and the number of the block.
const MOST_BLOCKS: u64 = 1 << 23;

/// The transform's name for values that are stored exactly: a configuration, which may be lossy, does not
/// apply. No codec has this name.
pub(super) const EXACT: &str = "(exact)";

/// Reports which values of derived variables were stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredDerived {
    /// Blocks stored.
    pub blocks: u64,
    /// Cells whose values were computed.
    pub cells: u64,
    /// Bytes of these values.
    pub bytes: u64,
    /// Number of boxes left out because the budget was spent.
    pub left: u64,
}

/// Selects the variables and steps to store, and the budget of bytes.
struct Asked<'a> {
    /// Paths of variables; `None`: all.
    paths: Option<&'a [String]>,
    /// Keys of steps (step + 1, 0 without step); `None`: all.
    steps: Option<&'a BTreeSet<u64>>,
    budget: u64,
    /// Whether cells without a stored value are tried again although their inputs have not changed.
    voids: bool,
    /// Takes the failures of single variables; `None`: the call returns the first one after all variables.
    failures: Option<&'a mut Vec<String>>,
}

/// Stores the values that a commit makes necessary. A failure is only added to the commit's notes.
pub(super) fn follow(inner: &Arc<Inner>, mut done: Committed) -> Committed {
    if !done.changed || done.touched.is_empty() {
        return done;
    }
    let mut failures = Vec::new();
    let asked = Asked {
        paths: None,
        steps: Some(&done.touched),
        budget: BUDGET,
        voids: false,
        failures: Some(&mut failures),
    };
    match fill(inner, &done.snapshot, asked) {
        Ok((report, snapshot)) => {
            done.snapshot = snapshot.unwrap_or(done.snapshot);
            if report.left > 0 {
                done.notes.push(format!(
                    "{} boxes of derived values are not stored: they are more than {} MiB; store_derived() stores them",
                    report.left,
                    BUDGET >> 20
                ));
            }
        }
        Err(e) => {
            done.notes.push(format!("values of derived variables were not stored, reads compute them: {e}"))
        }
    }
    done.notes.extend(failures);
    done
}

impl Container {
    /// Computes and stores outdated values or statistics of derived variables: of all variables or those in
    /// `paths`, at all steps or some. Computes at most `budget` bytes of values if one is given. Errors:
    /// `NotFound`; `InvalidArgument` for a path whose kind stores nothing; errors of reading the inputs.
    pub fn store_derived(
        &self,
        paths: Option<&[String]>,
        steps: Option<&[u64]>,
        budget: Option<u64>,
    ) -> Result<StoredDerived> {
        self.inner.require_writable()?;
        let (snapshot, _) = self.inner.newest()?;
        self.inner.adopt_snapshot(snapshot.clone());
        for path in paths.unwrap_or_default() {
            if self.reading_at(snapshot.clone(), path, None)?.stored_kind().is_none() {
                return Err(Error::invalid(format!(
                    "nothing is stored of \"{path}\": derive it with the kind \"stored\" or \"bounds\""
                )));
            }
        }
        let keys: Option<BTreeSet<u64>> =
            steps.map(|steps| steps.iter().map(|step| step + 1).chain([0]).collect());
        let budget = budget.unwrap_or(u64::MAX);
        let asked = Asked { paths, steps: keys.as_ref(), budget, voids: true, failures: None };
        Ok(fill(&self.inner, &snapshot, asked)?.0)
    }
}

/// Stores outdated values of a snapshot. If one variable fails, the others are stored.
/// Returns the snapshot that contains the values, if any were stored.
fn fill(
    inner: &Arc<Inner>,
    snapshot: &Arc<Snapshot>,
    mut asked: Asked<'_>,
) -> Result<(StoredDerived, Option<Arc<Snapshot>>)> {
    let mut filling = Filling {
        inner,
        snapshot,
        writer: None,
        report: StoredDerived::default(),
        budget: asked.budget,
        voids: asked.voids,
    };
    let stores = |v: &&Variable| v.derived.as_ref().is_some_and(|derived| derived.kind != Kind::Virtual);
    let mut failed = None;
    for variable in snapshot.schema.variables.values().filter(stores) {
        let Some((path, _)) = snapshot.schema.named().find(|(_, named)| named.id == variable.id) else {
            continue;
        };
        let named = |wanted: &String| {
            snapshot.schema.resolve(wanted.trim_matches('/')).is_some_and(|v| v.id == variable.id)
        };
        if asked.paths.is_some_and(|paths| !paths.iter().any(named)) {
            continue;
        }
        match (filling.variable(path, variable, asked.steps), &mut asked.failures) {
            (Ok(()), _) => {}
            (Err(e), None) => failed = failed.or(Some(e)),
            (Err(e), Some(failures)) => {
                failures.push(format!("values of \"{path}\" were not stored, reads compute them: {e}"));
            }
        }
    }
    let report = filling.report;
    let mut stored = None;
    if let Some(writer) = filling.writer {
        writer.seal()?;
        if report.blocks > 0 {
            stored = Some(adoption::commit_of(inner, &[writer.id()], |_, _| Ok(false))?.snapshot);
        }
    }
    match failed {
        None => Ok((report, stored)),
        Some(e) => Err(e),
    }
}

struct Filling<'a> {
    inner: &'a Arc<Inner>,
    snapshot: &'a Arc<Snapshot>,
    writer: Option<Writer>,
    report: StoredDerived,
    budget: u64,
    voids: bool,
}

impl Filling<'_> {
    fn writer(&mut self) -> Result<Writer> {
        if let Some(writer) = &self.writer {
            return Ok(writer.clone());
        }
        let writer = Writer::open(self.inner.clone(), WriterOptions::default())?;
        writer.number_puts_from(first_put(self.snapshot.version()))?;
        Ok(self.writer.insert(writer).clone())
    }

    /// Stores one variable, at all steps or some.
    fn variable(&mut self, path: &str, variable: &Variable, steps: Option<&BTreeSet<u64>>) -> Result<()> {
        let reading =
            Reading::open(self.inner.clone(), self.snapshot.clone(), path, variable.clone(), None)?.unnoted();
        let all: Vec<Option<u64>> = match variable.steps {
            false => vec![None],
            true => reading.steps()?.into_iter().map(Some).collect(),
        };
        for step in all {
            let key = step.map_or(0, |step| step + 1);
            if steps.is_none_or(|steps| steps.contains(&key)) {
                self.step(&reading, path, variable, step)?;
            }
        }
        Ok(())
    }

    /// Stores one variable at one step.
    fn step(&mut self, reading: &Reading, path: &str, variable: &Variable, step: Option<u64>) -> Result<()> {
        let groups = reading.outdated(step.unwrap_or(0), MOST, self.voids)?;
        if groups.is_empty() {
            return Ok(());
        }
        let mut begun = false;
        let done = self.boxes(reading, (path, variable), step, &groups, &mut begun);
        if begun && step.is_some() {
            self.writer()?.end_step()?;
        }
        done
    }

    /// Stores boxes of one variable at one step, each group as a whole. `begun` becomes true if the writer's step was
    /// begun.
    fn boxes(
        &mut self,
        reading: &Reading,
        (path, variable): (&str, &Variable),
        step: Option<u64>,
        groups: &[Vec<Selection>],
        begun: &mut bool,
    ) -> Result<()> {
        let bounds = reading.stored_kind() == Some(Kind::Bounds);
        let own = stored_form(variable, bounds);
        let item = u64::from(reading.item());
        for group in groups {
            let cells = group.iter().filter_map(Selection::cells).fold(0, u64::saturating_add);
            let bytes = cells.saturating_mul(item);
            if self.report.bytes.saturating_add(bytes) > self.budget || self.report.blocks >= MOST_BLOCKS {
                self.report.left += group.len() as u64;
                continue;
            }
            self.report.bytes += bytes;
            self.report.cells += cells;
            for part in group {
                for (offset, count, values) in &known_parts(reading, step, part)? {
                    let writer = self.writer()?;
                    if !*begun && let Some(step) = step {
                        writer.begin_step(Some(step), false)?;
                    }
                    *begun = true;
                    let source = Source::dense(values, count, item as usize)?;
                    writer.put_to((path, &own), &own.dtype, &source, Some(offset))?;
                    self.report.blocks += 1;
                }
            }
        }
        Ok(())
    }
}

/// The variable in the form in which its values are put: exact values, or statistics only.
fn stored_form(variable: &Variable, bounds: bool) -> Variable {
    let mut own = variable.clone();
    own.derived = None;
    own.transform = if bounds { bounds_only::NAME } else { EXACT }.to_owned();
    let most = if bounds { BOUNDS_ZONE } else { ZONE };
    let mut edges: Vec<u64> = own.shape.iter().map(|n| (*n).max(1)).collect();
    while edges.iter().fold(1u64, |all, n| all.saturating_mul(*n)) > most {
        let Some(longest) = edges.iter_mut().rev().max_by_key(|n| **n) else { break };
        *longest = longest.div_ceil(2);
    }
    own.chunks = Some(edges);
    own
}

/// A box with its values.
type Valued = (Vec<u64>, Vec<u64>, Vec<u8>);

/// Computes a box; returns offsets, extents and values of its known parts.
fn known_parts(reading: &Reading, step: Option<u64>, part: &Selection) -> Result<Vec<Valued>> {
    let (shape, item) = (part.shape(), reading.item() as usize);
    let mut selection = part.clone();
    if let Some(step) = step {
        selection.axes.insert(0, Axis { start: step, step: 1, count: 1 });
    }
    let cells = shape.iter().product::<u64>() as usize;
    let mut values = vec![0u8; cells * item];
    let known = {
        let out = Target::dense(&mut values, &selection.shape(), item)?;
        reading.read_known(&selection, &out)?.1
    };
    let first: Vec<u64> = part.axes.iter().map(|axis| axis.start).collect();
    let Some(known) = known else { return Ok(vec![(first, shape, values)]) };
    let placed = |(lo, count): Cut| {
        let bytes = cut_out(&values, &shape, item, (&lo, &count));
        (first.iter().zip(&lo).map(|(first, lo)| first + lo).collect(), count, bytes)
    };
    Ok(known_boxes(&known, &shape, reading.components()?).into_iter().map(placed).collect())
}

/// A box: first cell and extents.
type Cut = (Vec<u64>, Vec<u64>);

/// Disjoint boxes of known cells. A box that encloses the known cells is halved while it contains unknown
/// cells, down to a size that is worth a block. Components, if there are several along the last axis, need different
/// neighbours, so each has boxes of its own.
fn known_boxes(known: &[u8], shape: &[u64], components: u64) -> Vec<Cut> {
    let (mut open, mut out) = (vec![(vec![0; shape.len()], shape.to_vec())], Vec::new());
    if let (Some((_, cells)), true) = (shape.split_last(), components > 1) {
        let of = |component| ([vec![0; cells.len()], vec![component]].concat(), [cells, &[1]].concat());
        open = (0..components).map(of).collect();
    }
    while let Some(outer) = open.pop() {
        let Some((lo, count)) = enclosing(known, shape, &outer) else { continue };
        let mut all = true;
        each_row(shape, (&lo, &count), |_, at, len| {
            all &= !known.get(at..at + len).unwrap_or_default().contains(&0);
        });
        if all {
            out.push((lo, count));
            continue;
        }
        let cells = count.iter().fold(1u64, |n, extent| n.saturating_mul(*extent));
        let Some(axis) = (0..count.len()).max_by_key(|d| count[*d]).filter(|_| cells > LEAST) else {
            continue;
        };
        let half = count[axis] / 2;
        let (mut behind, mut rest) = (lo.clone(), count.clone());
        behind[axis] += half;
        rest[axis] -= half;
        let mut front = count;
        front[axis] = half;
        open.push((behind, rest));
        open.push((lo, front));
    }
    out
}

/// The smallest box that contains the known cells of a box; `None` if there are none.
fn enclosing(known: &[u8], shape: &[u64], (lo, count): &Cut) -> Option<Cut> {
    let (mut least, mut end) = (vec![u64::MAX; shape.len()], vec![0; shape.len()]);
    let mut any = false;
    each_row(shape, (lo, count), |row, at, len| {
        let cells = known.get(at..at + len).unwrap_or_default();
        let Some(first) = cells.iter().position(|known| *known != 0) else { return };
        any = true;
        let behind = cells.iter().rposition(|known| *known != 0).map_or(0, |last| last + 1);
        for (d, at) in row.iter().enumerate() {
            let (from, to) = match d + 1 == row.len() {
                true => (at + first as u64, at + behind as u64),
                false => (*at, at + 1),
            };
            (least[d], end[d]) = (least[d].min(from), end[d].max(to));
        }
    });
    any.then(|| {
        let extents = least.iter().zip(&end).map(|(lo, hi)| hi - lo).collect();
        (least, extents)
    })
}

/// Copies the values of a box out of a dense array.
fn cut_out(values: &[u8], shape: &[u64], item: usize, part: (&[u64], &[u64])) -> Vec<u8> {
    let mut out = Vec::with_capacity(part.1.iter().product::<u64>() as usize * item);
    each_row(shape, part, |_, at, len| {
        out.extend_from_slice(values.get(at * item..(at + len) * item).unwrap_or_default());
    });
    out
}

/// Calls `act` for each row of a box of a dense array, with the row's position, its first cell and its
/// length.
fn each_row(shape: &[u64], (lo, count): (&[u64], &[u64]), mut act: impl FnMut(&[u64], usize, usize)) {
    if count.contains(&0) {
        return;
    }
    let Some(last) = shape.len().checked_sub(1) else { return act(&[], 0, 1) };
    let mut at = lo.to_vec();
    loop {
        let first = at.iter().zip(shape).fold(0u64, |all, (at, n)| all * n + at);
        act(&at, first as usize, count[last] as usize);
        let Some(d) = (0..last).rev().find(|d| at[*d] + 1 < lo[*d] + count[*d]) else { return };
        at[d] += 1;
        at[d + 1..].copy_from_slice(&lo[d + 1..]);
    }
}

/// The chain of blocks with statistics only.
pub(super) fn bounds_chain() -> Result<Chain> {
    Chain::from_codecs(vec![Arc::new(bounds_only::BoundsOnly)]).map_err(|e| Error::invalid(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_boxes_are_disjoint_known_and_leave_little() {
        let shape = [40u64, 60];
        let known: Vec<u8> =
            (0..40 * 60).map(|n| u8::from(n / 60 >= 8 && !(n % 60 == 30 && n / 60 == 20))).collect();
        let mut seen = vec![0u8; known.len()];
        for (lo, count) in known_boxes(&known, &shape, 1) {
            each_row(&shape, (&lo, &count), |_, at, len| seen[at..at + len].iter_mut().for_each(|n| *n += 1));
        }
        assert!(seen.iter().zip(&known).all(|(seen, known)| *seen <= *known));
        let (some, all): (u32, u32) = (seen.iter().map(|n| u32::from(*n)).sum(), 32 * 60);
        assert!(some > all / 2, "{some} of {all} known cells are in a box");
        assert_eq!(known_boxes(&vec![1; 2400], &shape, 1), vec![(vec![0, 0], vec![40, 60])]);
        let inner: Vec<u8> = (0..2400).map(|n| u8::from(n / 60 > 0 && n % 60 < 59)).collect();
        assert_eq!(known_boxes(&inner, &shape, 1), vec![(vec![1, 0], vec![39, 59])]);
        assert_eq!(known_boxes(&vec![0; 2400], &shape, 1), Vec::new());
        // Two components, of which the second is known one row further.
        let both: Vec<u8> = (0..2400).map(|n| u8::from(n % 2 == 1 || n >= 80)).collect();
        let found = known_boxes(&both, &[30, 40, 2], 2);
        assert_eq!(found, vec![(vec![0, 0, 1], vec![30, 40, 1]), (vec![1, 0, 0], vec![29, 40, 1])]);
    }
}
