//! Runs a program, item after item; each gives a frame. An item that fails is refused, and the others are still run.

use crate::condition;
use crate::cost::Budget;
use crate::piece::Workbench;
use crate::program::{Item, Program};
use crate::reply::{self, Refusal, Why};
use crate::source::Source;

/// Buffers that are reused by one program after another: allocating memory takes longer than a short program.
#[derive(Default)]
pub struct Bench {
    bench: Workbench,
    values: Vec<u8>,
}

impl Bench {
    /// Bytes of memory that it holds.
    pub fn held(&self) -> usize {
        self.bench.held().saturating_add(self.values.capacity())
    }
}

/// Runs a program on an object and returns the reply.
///
/// Reads nothing if the program costs more than the budget. `more` is called before each item; if it returns false,
/// that item and the following ones are refused as out of time.
pub fn run<S: Source + ?Sized>(
    program: &Program,
    source: &mut S,
    budget: &Budget,
    more: &mut dyn FnMut() -> bool,
) -> Vec<u8> {
    run_on(&mut Bench::default(), program, source, budget, more)
}

/// The same with the buffers of earlier programs. Only the memory is reused, no content.
pub fn run_on<S: Source + ?Sized>(
    bench: &mut Bench,
    program: &Program,
    source: &mut S,
    budget: &Budget,
    more: &mut dyn FnMut() -> bool,
) -> Vec<u8> {
    let Bench { bench, values } = bench;
    bench.forget();
    if let Err(refusal) = program.cost().within(budget) {
        return refusal.reply();
    }
    let mut out = Vec::new();
    let results = program.items.iter().fold(0u64, |sum, item| sum.saturating_add(program.result_len(item)));
    let room = usize::try_from(results).unwrap_or(usize::MAX);
    let conditional = program.items.iter().any(|item| item.condition.is_some());
    let room = room.saturating_add(program.items.len() * reply::FRAME_OVERHEAD + reply::REPLY_HEADER);
    if !conditional && out.try_reserve_exact(room).is_err() {
        return Refusal::new(Why::Budget, format!("{room} bytes of memory cannot be allocated")).reply();
    }
    reply::begin(&mut out);
    let mut on = true;
    for (number, item) in program.items.iter().enumerate() {
        let number = number as u32;
        on = on && more();
        let done = match on {
            true => one(program, item, number, source, (&mut *bench, &mut *values), &mut out),
            false => Err(Refusal::new(Why::Time, "time is up")),
        };
        if let Err(refusal) = done {
            reply::put_refusal(&mut out, Some(number), &refusal);
        }
    }
    out
}

fn one<S: Source + ?Sized>(
    program: &Program,
    item: &Item,
    number: u32,
    source: &mut S,
    (bench, values): (&mut Workbench, &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let malformed = |what: String| Refusal::new(Why::Malformed, what);
    let Some(rule) = program.rules.get(usize::from(item.rule)) else {
        return Err(malformed("no such rule".into()));
    };
    let bytes = bench.source_of(program, item, source)?;
    let len = rule.dst_len() as usize;
    let Some(condition) = item.condition.and_then(|n| program.conditions.get(usize::from(n))) else {
        return reply::put(out, number, false, |out| {
            let at = out.len();
            out.resize(at.saturating_add(len), 0);
            let place = out.get_mut(at..).unwrap_or_default();
            rule.run(bytes, place).map_err(|error| malformed(error.to_string()))
        });
    };
    values.clear();
    values.resize(len, 0);
    rule.run(bytes, values).map_err(|error| malformed(error.to_string()))?;
    reply::put(out, number, true, |out| condition::put_hits(condition, values, out).map_err(malformed))
}
