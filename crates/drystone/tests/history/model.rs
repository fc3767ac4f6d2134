//! The expected content of a container, in plain maps: variables, steps, and the tag of every cell.
//!
//! Every cell that is ever put gets its own tag, so a cell that is read shows which put wrote it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use drystone::{Container, ErrorKind, NewVariable, Result, SchemaOp};
use drystone_format::dtype::{DType, Member, Record, Scalar};
use drystone_plan::selection::Selection;

use crate::common::{create, f4};

/// The most cells of one put. The tag of a cell is put number x this + cell number.
pub const CELLS: i64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Float,
    Coded,
    Text,
    Pair,
}

impl Kind {
    pub fn dtype(self) -> DType {
        match self {
            Kind::Float => f4(),
            Kind::Coded => DType::Scalar(Scalar::I32),
            Kind::Text => DType::String,
            Kind::Pair => {
                let m =
                    |name: &str, dtype, offset| Member { name: name.into(), dtype, shape: vec![], offset };
                let members =
                    vec![m("a", DType::Scalar(Scalar::U16), 0), m("b", DType::Scalar(Scalar::F64), 8)];
                DType::Record(Record { itemsize: 16, members })
            }
        }
    }

    pub fn fill(self) -> i64 {
        if self == Kind::Float { -1 } else { 0 }
    }

    /// The element that carries a tag (text: any length, so that blobs differ).
    pub fn element(self, tag: i64) -> Vec<u8> {
        match self {
            Kind::Float => (tag as f32).to_le_bytes().to_vec(),
            Kind::Coded => (tag as i32).to_le_bytes().to_vec(),
            Kind::Text if tag == 0 => Vec::new(),
            Kind::Text => format!("{tag}{}", ".".repeat((tag % 23) as usize)).into_bytes(),
            Kind::Pair => {
                let mut out = vec![0; 16];
                out[..2].copy_from_slice(&(tag as u16).to_le_bytes());
                out[8..].copy_from_slice(&(tag as f64).to_le_bytes());
                out
            }
        }
    }

    fn tag(self, bytes: &[u8]) -> i64 {
        match self {
            Kind::Float => f32::from_le_bytes(bytes.try_into().unwrap()) as i64,
            Kind::Coded => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
            Kind::Text => {
                let text = std::str::from_utf8(bytes).unwrap();
                let tag = text.trim_end_matches('.').parse().unwrap_or(0);
                assert_eq!(self.element(tag), bytes, "a string is not what was put");
                tag
            }
            Kind::Pair => {
                let tag = f64::from_le_bytes(bytes[8..].try_into().unwrap()) as i64;
                assert_eq!(bytes[..2], (tag as u16).to_le_bytes(), "members of a record are of one put");
                tag
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    pub uid: u32,
    pub kind: Kind,
    pub shape: Vec<u64>,
    pub grows: bool,
    pub steps: bool,
}

impl Var {
    pub fn op(&self, path: &str) -> SchemaOp {
        let set = |v: &mut NewVariable| {
            v.steps = self.steps;
            if self.grows {
                v.shape[0] = None;
            }
            match self.kind {
                Kind::Float => v.fill = Some((-1.0f32).to_le_bytes().to_vec()),
                Kind::Coded => {
                    v.transform = "shuffle,zstd:1".into();
                    v.chunks = Some(vec![2; self.shape.len()]);
                }
                _ => {}
            }
        };
        create(path, self.kind.dtype(), &self.shape, set)
    }
}

/// One put.
#[derive(Clone, Debug)]
pub struct Block {
    pub put: i64,
    pub uid: u32,
    pub offset: Vec<u64>,
    pub count: Vec<u64>,
}

impl Block {
    /// The places and tags of its cells, row-major.
    pub fn cells(&self) -> impl Iterator<Item = (Vec<u64>, i64)> {
        let n: u64 = self.count.iter().product();
        let this = self.clone();
        (0..n).map(move |i| {
            let mut at = vec![0; this.count.len()];
            let mut rest = i;
            for d in (0..at.len()).rev() {
                at[d] = this.offset[d] + rest % this.count[d];
                rest /= this.count[d];
            }
            (at, this.put * CELLS + i as i64)
        })
    }
}

/// The blocks that one writer closed together.
#[derive(Clone, Debug)]
pub struct Group {
    pub writer: usize,
    /// The rank, or the id of the writer.
    pub order: u64,
    pub rank: Option<(u32, u32)>,
    pub step: Option<u64>,
    pub replace: bool,
    pub blocks: Vec<Block>,
}

type Cells = BTreeMap<Vec<u64>, i64>;

/// One committed state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub vars: BTreeMap<String, Var>,
    pub attr: i64,
    pub steps: BTreeSet<u64>,
    pub cells: BTreeMap<(u32, Option<u64>), Cells>,
}

impl State {
    /// The state after one commit has adopted these groups.
    pub fn adopt(&self, groups: &[&Group]) -> State {
        let mut out = self.clone();
        for group in groups {
            out.steps.extend(group.step);
            if group.replace {
                out.cells.retain(|(_, step), _| *step != group.step);
            }
        }
        let mut blocks: Vec<((usize, u64), Option<u64>, &Block)> = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            // A replacement hides what was closed before it.
            if groups.iter().skip(at + 1).any(|later| later.replace && later.step == group.step) {
                continue;
            }
            let age = age(groups, at);
            blocks.extend(group.blocks.iter().map(|block| (age, group.step, block)));
        }
        blocks.sort_by_key(|(age, _, block)| (*age, block.put));
        for (_, step, block) in blocks {
            let Some(var) = out.vars.values_mut().find(|v| v.uid == block.uid) else { continue };
            if var.grows {
                var.shape[0] = var.shape[0].max(block.offset[0] + block.count[0]);
            }
            out.cells.entry((block.uid, step)).or_default().extend(block.cells());
        }
        out
    }

    /// The closed groups that a commit takes: all but those of steps that some rank of the run has not closed.
    pub fn complete<'g>(groups: &[&'g Group]) -> Vec<&'g Group> {
        let whole = |g: &Group| match g.rank {
            Some((_, n)) => (0..n).all(|r| groups.iter().any(|o| o.rank == Some((r, n)) && o.step == g.step)),
            None => true,
        };
        groups.iter().copied().filter(|g| g.step.is_none() || whole(g)).collect()
    }

    /// The closed groups that a writer's own commit of a step takes: the complete ones of that step.
    pub fn joined<'g>(groups: &[&'g Group], step: Option<u64>) -> Vec<&'g Group> {
        State::complete(groups).into_iter().filter(|group| group.step == step).collect()
    }

    pub fn var(&self, uid: u32) -> Option<&Var> {
        self.vars.values().find(|v| v.uid == uid)
    }

    /// The tag of a cell in this state.
    pub fn tag(&self, uid: u32, step: Option<u64>, at: &[u64]) -> i64 {
        let fill = self.var(uid).map_or(0, |v| v.kind.fill());
        self.cells.get(&(uid, step)).and_then(|c| c.get(at)).copied().unwrap_or(fill)
    }
}

/// The age of a group among those of a commit, which are in the order of closing: several ranks of one run are ordered
/// by rank and count as closed with the last of them; all others by closing.
fn age(groups: &[&Group], at: usize) -> (usize, u64) {
    let ranks = |g: &Group| g.rank.map(|(_, n)| n);
    let group = groups[at];
    let Some((rank, n)) = group.rank.filter(|(_, n)| *n > 1) else { return (at, 0) };
    if groups.iter().all(|g| ranks(g) == Some(n)) {
        return (0, rank.into());
    }
    let together = |g: &&Group| ranks(g) == Some(n) && g.step == group.step;
    (groups.iter().rposition(together).unwrap_or(at), rank.into())
}

/// Reads one variable whole, as tags by step and row-major cell.
pub fn read_tags(c: &Container, path: &str, kind: Kind) -> Result<Vec<i64>> {
    let reading = c.reading(path, None)?;
    let selection = Selection::all(&reading.shape());
    if kind == Kind::Text {
        let (values, _) = reading.read_strings(&selection)?;
        return Ok(values.iter().map(|v| kind.tag(v)).collect());
    }
    let bytes = crate::common::read(c, path, &selection)?;
    Ok(bytes.chunks_exact(reading.item() as usize).map(|b| kind.tag(b)).collect())
}

/// Compares everything that a container shows with a state. `torn`: a read may also fail, but only with damage.
pub fn expect(c: &Container, state: &State, torn: bool, what: &dyn Fn() -> String) {
    let differs = |detail: String| panic!("{}: {detail}", what());
    let schema = c.schema();
    let names: Vec<&String> = schema.names.keys().collect();
    if names != state.vars.keys().collect::<Vec<_>>() {
        differs(format!("variables are {names:?}, not {:?}", state.vars.keys()));
    }
    let attr = match schema.groups[""].get("a") {
        Some(drystone_format::value::Value::Int(n)) => i64::try_from(*n).unwrap(),
        None => 0,
        other => panic!("attribute {other:?}"),
    };
    if attr != state.attr {
        differs(format!("the attribute is {attr}, not {}", state.attr));
    }
    let steps: BTreeSet<u64> = c.snapshot().steps.iter().collect();
    if steps != state.steps {
        differs(format!("steps are {steps:?}, not {:?}", state.steps));
    }
    for (path, var) in &state.vars {
        let axis = if var.steps { state.steps.last().map_or(0, |s| s + 1) } else { 1 };
        let mut shape = vec![axis];
        shape.extend(&var.shape);
        let found = c.reading(path, None).unwrap().shape();
        if found != shape[usize::from(!var.steps)..] {
            differs(format!("\"{path}\" has shape {found:?}, not {shape:?}"));
        }
        let tags = match read_tags(c, path, var.kind) {
            Ok(tags) => tags,
            Err(e) if torn && e.kind() == ErrorKind::Corrupt => continue,
            Err(e) => return differs(format!("reading \"{path}\": {:?}: {e}", e.kind())),
        };
        let whole =
            Block { put: 0, uid: var.uid, offset: vec![0; var.shape.len()], count: var.shape.clone() };
        let mut found = tags.iter();
        for step in 0..axis {
            let step = var.steps.then_some(step);
            for (at, _) in whole.cells() {
                let (tag, expected) = (*found.next().unwrap(), state.tag(var.uid, step, &at));
                if tag != expected {
                    differs(format!(
                        "\"{path}\" at step {step:?} {at:?} is of put {} ({tag}), not of put {} ({expected})",
                        tag / CELLS,
                        expected / CELLS
                    ));
                }
            }
        }
    }
}
