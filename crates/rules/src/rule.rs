//! A rule: the compiled conversion between two buffers.
//!
//! A rule is data. It can be printed, compared, encoded, hashed and split into a gather (where the source lies) and a
//! scatter (where the result is wanted); it is run only after it has been checked against both buffers.
//!
//! Invariant: every term lies inside the two declared lengths.

use std::fmt;

use drystone_copy::{ConvertCopy, Dim, Side, StridedCopy};

use crate::error::RuleError;
use crate::optimise::optimise;
use crate::term::Term;
use crate::together;

/// The order in which a gather packs its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pack {
    /// In the destination's order: the scatter is sequential.
    #[default]
    Destination,
    /// In the source's order: the gather is sequential, for sources that are slow or busy.
    Source,
}

/// The two halves of a rule, with a buffer between them that holds exactly the bytes that are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halves {
    /// Copies from the source into the buffer.
    pub gather: Rule,
    /// Copies from the buffer into the destination.
    pub scatter: Rule,
    /// Size of the buffer in bytes.
    pub buffer_len: u64,
}

/// The compiled conversion between two buffers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    src_len: u64,
    dst_len: u64,
    terms: Vec<Term>,
}

impl Rule {
    /// A rule of these terms between buffers of these sizes. Terms that write the same byte run in order.
    pub fn new(src_len: u64, dst_len: u64, terms: Vec<Term>) -> Result<Rule, RuleError> {
        terms.iter().try_for_each(|term| term.check(src_len, dst_len))?;
        Ok(Rule { src_len, dst_len, terms })
    }

    /// Like [`new`](Self::new), for terms that were compiled from fragments of these sizes.
    pub(crate) fn from_terms(src_len: u64, dst_len: u64, terms: Vec<Term>) -> Rule {
        debug_assert!(terms.iter().all(|term| term.check(src_len, dst_len).is_ok()));
        Rule { src_len, dst_len, terms }
    }

    /// Size of the source for which the rule was made.
    pub fn src_len(&self) -> u64 {
        self.src_len
    }

    /// Size of the destination for which the rule was made.
    pub fn dst_len(&self) -> u64 {
        self.dst_len
    }

    /// The terms, in the order in which they run.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Bytes written by all terms.
    pub fn bytes(&self) -> u64 {
        self.terms.iter().fold(0, |sum, term| sum.saturating_add(term.bytes()))
    }

    /// Whether the rule copies nothing.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Checks that buffers of these sizes are at least as long as those for which the rule was made.
    pub fn check(&self, src_len: u64, dst_len: u64) -> Result<(), RuleError> {
        let sides = [(Side::Source, self.src_len, src_len), (Side::Destination, self.dst_len, dst_len)];
        for (side, needed, len) in sides {
            if needed > len {
                return Err(RuleError::OutOfBounds { side, touched: 0..needed, len });
            }
        }
        Ok(())
    }

    /// Checks both buffers, then converts on this thread, in one pass and without an intermediate buffer.
    pub fn run(&self, src: &[u8], dst: &mut [u8]) -> Result<(), RuleError> {
        self.run_threaded(src, dst, 1)
    }

    /// [`run`](Self::run) with up to `threads` threads for each large term.
    pub fn run_threaded(&self, src: &[u8], dst: &mut [u8], threads: usize) -> Result<(), RuleError> {
        self.check(src.len() as u64, dst.len() as u64)?;
        for batch in together::batches(&self.terms) {
            match batch {
                together::Batch::One(Term::Copy(copy)) => copy.run_threaded(src, dst, threads)?,
                together::Batch::One(Term::Convert(convert)) => convert.run(src, dst)?,
                together::Batch::Together(walk) => walk.run(src, dst, threads)?,
            }
        }
        Ok(())
    }

    /// Splits the rule for a source on another machine: the gather runs there, its buffer is sent, and the scatter runs
    /// here. Elements that the destination repeats are sent once; numbers are sent in the narrower of their two types.
    pub fn split(&self, pack: Pack) -> Result<Halves, RuleError> {
        let (mut gather, mut scatter) = (Vec::new(), Vec::new());
        let mut buffer_len = 0;
        for term in &self.terms {
            buffer_len = split_term(term, pack, buffer_len, &mut gather, &mut scatter)?;
        }
        Ok(Halves {
            gather: Rule::new(self.src_len, buffer_len, optimise(gather))?,
            scatter: Rule::new(buffer_len, self.dst_len, optimise(scatter))?,
            buffer_len,
        })
    }
}

/// Adds both halves of a term whose elements begin at `at` in the buffer; returns where they end.
fn split_term(
    term: &Term,
    pack: Pack,
    at: u64,
    gather: &mut Vec<Term>,
    scatter: &mut Vec<Term>,
) -> Result<u64, RuleError> {
    let (dims, packed_elem) = match term {
        Term::Copy(copy) => (copy.dims(), copy.elem_bytes()),
        Term::Convert(convert) => {
            let (_, _, (from, to), _, dims) = convert.parts();
            (dims, from.kind.bytes().min(to.kind.bytes()))
        }
    };
    let mut order: Vec<usize> = (0..dims.len()).filter(|&k| dims[k].src_stride != 0).collect();
    if pack == Pack::Source {
        order.sort_by_key(|&k| std::cmp::Reverse(dims[k].src_stride.unsigned_abs()));
    }
    // Dense strides in the buffer; loops that repeat one source element have none.
    let mut packed = vec![0i64; dims.len()];
    let mut size = packed_elem as u64;
    let overflow = RuleError::Overflow { what: "the buffer of a split rule" };
    for &k in order.iter().rev() {
        packed[k] = i64::try_from(size).map_err(|_| overflow.clone())?;
        size = size.checked_mul(dims[k].count).ok_or(overflow.clone())?;
    }
    let into: Vec<Dim> =
        order.iter().map(|&k| Dim::new(dims[k].count, dims[k].src_stride, packed[k])).collect();
    let out: Vec<Dim> =
        dims.iter().zip(&packed).map(|(dim, &p)| Dim::new(dim.count, p, dim.dst_stride)).collect();
    match term {
        Term::Copy(copy) => {
            gather.push(Term::Copy(StridedCopy::new(copy.src_offset(), at, packed_elem, into)?));
            scatter.push(Term::Copy(StridedCopy::new(at, copy.dst_offset(), packed_elem, out)?));
        }
        Term::Convert(convert) => {
            let (src, dst, (from, to), narrowing, _) = convert.parts();
            if packed_elem == from.kind.bytes() {
                gather.push(Term::Copy(StridedCopy::new(src, at, packed_elem, into)?));
                scatter.push(Term::Convert(ConvertCopy::new(at, dst, (from, to), narrowing, out)?));
            } else {
                gather.push(Term::Convert(ConvertCopy::new(src, at, (from, to), narrowing, into)?));
                scatter.push(Term::Copy(StridedCopy::new(at, dst, packed_elem, out)?));
            }
        }
    }
    at.checked_add(size).ok_or(overflow)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {} -> {}", self.bytes(), self.src_len, self.dst_len)?;
        self.terms.iter().try_for_each(|term| write!(f, "\n  {term}"))
    }
}
