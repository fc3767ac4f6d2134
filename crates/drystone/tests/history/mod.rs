//! Random histories: writers with and without ranks, schema changes, commits and flushes, through two handles on one
//! store.
//!
//! [`History::run`] continues until an operation fails. Then `states` holds what every version must show, `pending`
//! the groups that were closed and not committed, and `doubt` what the interrupted operation may have done.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(dead_code, unreachable_pub)]

pub mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone::{Container, CreateOptions, Durability, Error, Mode, Result, SchemaOp, Writer, WriterOptions};
use drystone_format::value::Value;
use drystone_store::Store;

use crate::common::dense;
use model::{Block, Group, Kind, State, Var};

/// The positions of some of the groups.
fn places(groups: &[&Group], some: &[&Group]) -> Vec<usize> {
    let is_one = |group: &Group| some.iter().any(|one| std::ptr::eq(*one, group));
    groups.iter().enumerate().filter(|(_, group)| is_one(group)).map(|(at, _)| at).collect()
}

/// Numbers that look random and are the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The kind of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub durability: Durability,
    /// Ranks of the run that writes steps; 0 for none. Beside several ranks, one more writer commits its own steps.
    pub nranks: u32,
    pub operations: usize,
    /// Writers keep to separate cells, and nothing shrinks, so groups that are adopted again in another order give
    /// the same values.
    pub apart: bool,
}

/// The possible effects of the interrupted operation.
#[derive(Clone, Debug, Default)]
pub struct Doubt {
    pub next: Option<State>,
    pub group: Option<Group>,
    /// The pending groups, by position, that it commits.
    pub taken: Vec<usize>,
}

struct Pen {
    writer: Writer,
    handle: usize,
    rank: Option<(u32, u32)>,
    step: u64,
    loose: Vec<Block>,
}

pub struct History {
    plan: Plan,
    random: Random,
    handles: Vec<Container>,
    pens: Vec<Pen>,
    /// States by version.
    pub states: Vec<State>,
    pub pending: Vec<Group>,
    pub doubt: Doubt,
    /// The newest version whose flush returned (`durable`: whose commit returned).
    pub flushed: usize,
    /// Every group that was closed or was being closed, in that order.
    pub groups: Vec<Group>,
    pub log: Vec<String>,
    uids: u32,
    puts: BTreeMap<usize, i64>,
}

const PENS_FREE: usize = 2;
/// The run of the writer beside several ranks.
const OTHER_RUN: u64 = 1 << 20;

impl History {
    /// Runs a history on an empty store. Returns the error with which it stopped. `None` if not even the container
    /// was created.
    pub fn run(store: Arc<dyn Store>, plan: Plan) -> (Option<History>, Option<Error>) {
        let made = (|| {
            let a = Container::create(
                store.clone(),
                CreateOptions { durability: plan.durability, ..CreateOptions::default() },
            )?;
            let b = Container::open(store, Mode::ReadWrite)?;
            Ok(vec![a, b])
        })();
        let handles = match made {
            Ok(handles) => handles,
            Err(error) => return (None, Some(error)),
        };
        let mut history = History {
            plan,
            random: Random::new(plan.seed),
            handles,
            pens: Vec::new(),
            states: vec![State::default()],
            pending: Vec::new(),
            doubt: Doubt::default(),
            flushed: 0,
            groups: Vec::new(),
            log: Vec::new(),
            uids: 0,
            puts: BTreeMap::new(),
        };
        let error = history.go().err();
        (Some(history), error)
    }

    pub fn now(&self) -> &State {
        self.states.last().unwrap()
    }

    fn go(&mut self) -> Result<()> {
        let first = [
            ("t", Kind::Float, vec![6, 8], false, true),
            ("z", Kind::Coded, vec![5, 7], false, true),
            ("s", Kind::Text, vec![4], false, true),
            ("r", Kind::Pair, vec![5], false, true),
            ("g/grow", Kind::Float, vec![0, 3], true, true),
            ("k", Kind::Float, vec![6], false, false),
        ];
        let mut state = self.now().clone();
        let mut ops = Vec::new();
        for (path, kind, shape, grows, steps) in first {
            let var = Var { uid: self.uids, kind, shape, grows, steps };
            self.uids += 1;
            ops.push(var.op(path));
            state.vars.insert(path.into(), var);
        }
        self.schema(0, ops, state)?;
        for rank in 0..self.plan.nranks {
            self.open(Some((rank, self.plan.nranks)), None, rank as usize % 2)?;
        }
        for free in 0..PENS_FREE {
            self.open(None, None, free % 2)?;
        }
        if self.plan.nranks > 1 {
            self.open(Some((0, 1)), Some(OTHER_RUN), 0)?;
        }
        for _ in 0..self.plan.operations {
            self.doubt = Doubt::default();
            self.operation()?;
        }
        self.doubt = Doubt::default();
        Ok(())
    }

    fn open(&mut self, rank: Option<(u32, u32)>, run: Option<u64>, handle: usize) -> Result<()> {
        let options = WriterOptions { rank, run, ..WriterOptions::default() };
        let writer = self.handles[handle].writer(options)?;
        self.pens.push(Pen { writer, handle, rank, step: 0, loose: Vec::new() });
        Ok(())
    }

    fn operation(&mut self) -> Result<()> {
        let handle = self.random.below(2) as usize;
        self.handles[handle].refresh()?;
        let pick = self.random.below(100);
        let own = self.uids;
        match pick {
            0..10 if own < 9 => {
                let kind = [Kind::Float, Kind::Coded, Kind::Text, Kind::Pair][self.random.below(4) as usize];
                let var = Var { uid: own, kind, shape: vec![4], grows: false, steps: !self.random.one_in(4) };
                self.uids += 1;
                let path = format!("x{own}");
                let mut state = self.now().clone();
                let op = var.op(&path);
                state.vars.insert(path, var);
                self.schema(handle, vec![op], state)
            }
            10..16 => {
                let mut state = self.now().clone();
                state.attr += 1;
                let value = Some(Value::Int(state.attr.into()));
                let op = SchemaOp::SetAttrs(String::new(), [("a".to_string(), value)].into());
                self.schema(handle, vec![op], state)
            }
            16..22 => {
                let Some(path) = self.now().vars.keys().find(|p| p.starts_with('x')).cloned() else {
                    return Ok(());
                };
                let mut state = self.now().clone();
                let var = state.vars.remove(&path).unwrap();
                if self.random.one_in(2) {
                    state.cells.retain(|(uid, _), _| *uid != var.uid);
                    return self.schema(handle, vec![SchemaOp::Delete(path)], state);
                }
                let to = format!("{path}y");
                state.vars.insert(to.clone(), var);
                self.schema(handle, vec![SchemaOp::Rename(path, to)], state)
            }
            22..28 if !self.plan.apart => self.resize(handle),
            28..60 if self.plan.nranks > 0 => self.ranked_step(),
            28..78 => {
                let pen = self.free_pen();
                let step = self.random.below(4);
                self.step(pen, step)
            }
            78..86 => self.loose(),
            86..95 => self.commit(handle),
            _ => {
                self.log.push("flush".into());
                self.handles[handle].flush()?;
                self.flushed = self.states.len() - 1;
                Ok(())
            }
        }
    }

    /// An operation that commits. `next` is the state if it does.
    fn committing<T>(&mut self, next: State, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.doubt.next = Some(next);
        let out = act(self)?;
        self.states.extend(self.doubt.next.take());
        if self.plan.durability == Durability::Durable {
            self.flushed = self.states.len() - 1;
        }
        Ok(out)
    }

    fn schema(&mut self, handle: usize, ops: Vec<SchemaOp>, state: State) -> Result<()> {
        self.log.push(format!("schema {}", ops.len()));
        if state == *self.now() {
            assert!(!self.handles[handle].apply(ops)?, "nothing changes");
            return Ok(());
        }
        self.committing(state, |h| h.handles[handle].apply(ops)).map(|changed| assert!(changed))
    }

    fn resize(&mut self, handle: usize) -> Result<()> {
        let rows = 3 + self.random.below(4);
        let mut state = self.now().clone();
        let var = state.vars.get_mut("t").unwrap();
        var.shape[0] = rows;
        let uid = var.uid;
        for ((_, _), cells) in state.cells.iter_mut().filter(|((u, _), _)| *u == uid) {
            cells.retain(|at, _| at[0] < rows || rows >= self.states.last().unwrap().vars["t"].shape[0]);
        }
        self.schema(handle, vec![SchemaOp::Resize("t".into(), vec![rows, 8])], state)
    }

    fn free_pen(&mut self) -> usize {
        self.plan.nranks as usize + self.random.below(PENS_FREE as u64) as usize
    }

    fn ranked_step(&mut self) -> Result<()> {
        let n = self.plan.nranks as usize;
        if n > 1 && self.random.one_in(4) {
            let step = self.random.below(4);
            return self.step(self.pens.len() - 1, step);
        }
        let any = self.random.below(n as u64) as usize;
        let slowest = (0..n).min_by_key(|p| self.pens[*p].step).unwrap();
        let pen = if self.random.one_in(3) { any } else { slowest };
        let step = if n == 1 && self.random.one_in(3) { self.random.below(3) } else { self.pens[pen].step };
        self.step(pen, step)
    }

    /// A random block of a variable for a pen.
    fn block(&mut self, pen: usize, steps: bool) -> Option<(String, Var, Block)> {
        let now = self.states.last().unwrap();
        let fit: Vec<(&String, &Var)> = now.vars.iter().filter(|(_, v)| v.steps == steps).collect();
        let (path, var) = fit[self.random.below(fit.len() as u64) as usize];
        let (path, var) = (path.clone(), var.clone());
        let pens = self.pens.len() as u64;
        let mut bounds: Vec<(u64, u64)> = var.shape.iter().map(|n| (0, *n)).collect();
        if var.grows {
            bounds[0] = (0, 5);
        }
        if self.plan.apart {
            let n = bounds[0].1;
            bounds[0] = (n * pen as u64 / pens, n * (pen as u64 + 1) / pens);
        }
        if bounds.iter().any(|(lo, hi)| lo >= hi) {
            return None;
        }
        let mut block = Block { put: 0, uid: var.uid, offset: Vec::new(), count: Vec::new() };
        for (lo, hi) in bounds {
            let from = lo + self.random.below(hi - lo);
            block.offset.push(from);
            block.count.push(1 + self.random.below(hi - from));
        }
        let puts: i64 = self.puts.values().sum();
        *self.puts.entry(pen).or_default() += 1;
        block.put = puts + 1;
        Some((path, var, block))
    }

    fn put(&mut self, pen: usize, steps: bool) -> Result<Option<Block>> {
        let Some((path, var, block)) = self.block(pen, steps) else { return Ok(None) };
        let writer = &self.pens[pen].writer;
        let values: Vec<Vec<u8>> = block.cells().map(|(_, tag)| var.kind.element(tag)).collect();
        if var.kind == Kind::Text {
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            writer.put_strings(&path, &block.count, &values, Some(&block.offset), None)?;
        } else {
            let item = values[0].len();
            let bytes = values.concat();
            let data = dense(&bytes, &block.count, item);
            writer.put(&path, &var.kind.dtype(), &data, Some(&block.offset), None)?;
        }
        Ok(Some(block))
    }

    fn step(&mut self, pen: usize, step: u64) -> Result<()> {
        let rank = self.pens[pen].rank;
        let solo = rank.is_some_and(|(_, n)| n == 1);
        let replace = solo && self.random.one_in(5);
        let give_up = self.random.one_in(9);
        self.log.push(format!("step {step} by pen {pen} (replace {replace}, abort {give_up})"));
        self.handles[self.pens[pen].handle].refresh()?;
        let writer = self.pens[pen].writer.clone();
        assert_eq!(writer.begin_step(Some(step), replace)?, step);
        let mut blocks = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            blocks.extend(self.put(pen, true)?);
        }
        if self.random.one_in(4) {
            writer.flush()?;
        }
        if give_up {
            return writer.abort_step();
        }
        let order = rank.map_or(writer.id(), |(r, _)| r.into());
        let group = Group { writer: pen, order, rank, step: Some(step), replace, blocks };
        self.doubt.group = Some(group.clone());
        self.groups.push(group.clone());
        if solo {
            let pending = self.pending.clone();
            let all: Vec<&Group> = pending.iter().collect();
            let mut taken = State::joined(&all, group.step);
            self.doubt.taken = places(&all, &taken);
            taken.push(&group);
            let next = self.now().adopt(&taken);
            self.committing(next, |_| writer.end_step())?;
            self.pending = self.left();
        } else {
            writer.end_step()?;
            self.pending.push(group);
        }
        self.doubt.group = None;
        self.pens[pen].step = self.pens[pen].step.max(step + 1);
        Ok(())
    }

    /// Values without step: a put, and now and then the close that commits them, or a commit after which the writer
    /// continues.
    fn loose(&mut self) -> Result<()> {
        let pen = self.free_pen();
        let handle = self.pens[pen].handle;
        self.handles[handle].refresh()?;
        let block = self.put(pen, false)?;
        self.pens[pen].loose.extend(block);
        self.log.push(format!("a value without step by pen {pen}"));
        if self.random.one_in(3) {
            return Ok(());
        }
        let blocks = std::mem::take(&mut self.pens[pen].loose);
        let writer = self.pens[pen].writer.clone();
        let goes_on = self.random.one_in(2);
        self.log.push(format!("close of pen {pen} (goes on {goes_on})"));
        let end = move || -> Result<bool> {
            if goes_on && writer.commit()? {
                return Ok(true);
            }
            writer.close().map(|()| false)
        };
        let went_on;
        let order = self.pens[pen].writer.id();
        if blocks.is_empty() {
            went_on = end()?;
        } else {
            let group = Group { writer: pen, order, rank: None, step: None, replace: false, blocks };
            self.doubt.group = Some(group.clone());
            self.groups.push(group.clone());
            let next = self.now().adopt(&[&group]);
            went_on = self.committing(next, |_| end())?;
            self.doubt.group = None;
        }
        if went_on {
            return Ok(());
        }
        let next = self.handles[handle].writer(WriterOptions::default())?;
        self.pens[pen].writer = next;
        Ok(())
    }

    fn commit(&mut self, handle: usize) -> Result<()> {
        self.log.push("commit".into());
        let pending = self.pending.clone();
        let all: Vec<&Group> = pending.iter().collect();
        let taken = State::complete(&all);
        if taken.is_empty() {
            let done = self.handles[handle].commit();
            assert!(!done?.changed, "there is nothing to commit");
            return Ok(());
        }
        self.doubt.taken = places(&all, &taken);
        let next = self.now().adopt(&taken);
        let done = self.committing(next, |h| h.handles[handle].commit())?;
        assert!(done.changed, "there was something to commit");
        self.pending = self.left();
        Ok(())
    }

    /// The pending groups that the operation does not commit.
    fn left(&self) -> Vec<Group> {
        let pending = self.pending.iter().enumerate();
        pending.filter(|(at, _)| !self.doubt.taken.contains(at)).map(|(_, group)| group.clone()).collect()
    }
}
