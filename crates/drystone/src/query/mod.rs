//! Queries: find the cells that satisfy a condition, and the values of other variables at these cells.
//!
//! ```text
//! asked     a query: terms, inputs, cells
//! answers   count, boxes, mask, explain             batches  hits in order, with values
//! names     meaning of names, joins of their cells    plan     tiles: none, all or some cells, by statistics
//! inputs    values of the names over a box            run      reads open tiles, evaluates term by term
//! apart     terms split by variable                   there    tests these at the store; site reports where
//! hits      hits of a tile                            gather   values at the hits
//! slab      hits in C order                           order    values and coordinates in that order
//! rows      the decision per tile and term, with its reason
//! ```
//!
//! Statistics come first: a term that holds for no cell or for all cells of a tile costs no byte. The newest block
//! counts, as in every read, and unwritten cells satisfy no condition (docs/decisions/102-expressions.md).
//! docs/guide/queries.md describes queries for users.
//!
//! Invariants
//! - a query keeps the snapshot on which it was made;
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
mod rows;
mod run;
mod site;
mod slab;
mod there;
mod words;

pub use answers::{HitBox, QueryReport};
pub use asked::Query;
pub use batches::{Batch, Batches, Columns, Found};
pub use plan::{QueryPlan, Summary, TermSummary};
pub use rows::PlanRow;
pub use site::TermSite;
