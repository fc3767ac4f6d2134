//! Queries: which cells satisfy a condition, and what other variables hold there.
//!
//! ```text
//! asked     a query: terms, inputs, cells
//! answers   count, boxes, mask, explain              batches  hits in order, with values
//! names     what the names are, how their cells meet       plan    tiles: none, all or some cells, by statistics
//! inputs    values of the names over a box                 run     reads what is open, evaluates, term by term
//! apart     terms in conditions on one variable each       there   these, tried where the bytes are; site says where
//! hits      hits of a tile                                 gather  values at the hits
//! slab      hits in C order                                order   values and coordinates in that order
//! ```
//!
//! Statistics come first: a term that holds nowhere or everywhere in a tile costs no byte. Newest wins as in every read, and cells that nobody
//! wrote satisfy nothing (docs/decisions/102-expressions.md). docs/guide/queries.md has what users see.
//!
//! Invariants
//! - a query stays with the snapshot on which it was made;
//! - hits come in C order of the grid, steps first;
//! - memory is bounded by slabs and windows, whatever the number of hits.

mod answers;
mod apart;
mod asked;
mod batches;
mod bits;
mod column;
mod derived;
mod gather;
mod hits;
mod inputs;
mod keys;
mod names;
mod order;
mod place;
mod plan;
mod run;
mod site;
mod slab;
mod there;
mod words;

pub use answers::{HitBox, QueryReport};
pub use asked::Query;
pub use batches::{Batch, Batches, Columns, Found};
pub use plan::{QueryPlan, Summary, TermSummary};
pub use site::TermSite;
