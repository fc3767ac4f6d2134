//! Fields: expressions with neighbours, differences and reductions, evaluated over boxes of a grid.
//!
//! ```text
//! stages    cuts a tree into stages: inputs, neighbours, differences, reductions, and programs between them
//! reach     the cells of each stage that a box of the result needs: the halo, known before anything is read
//! runner    evaluates the stages over a box           kernel    differences         reduce    reductions
//! call      tiles of registered functions             boxes     parts of boxes      lines     differences of rows
//! gather    copies of boxes                           values    vectors of any type      spare     reused memory
//! ```
//!
//! Invariants
//! - the value of a cell depends on the cell alone: each cell is computed by the same operations in the same
//!   order, whatever box, tile or thread computes it;
//! - the edge rule applies only to cells beyond the domain: inside it, neighbours are read whichever process
//!   wrote them;
//! - reductions add up in row-major order of the domain.

mod boxes;
mod call;
mod gather;
mod kernel;
mod lines;
mod reach;
mod reduce;
mod runner;
mod spare;
mod stages;
mod values;

/// First and end position (half-open) along each axis of a stage. Positions beyond the domain are negative or
/// at least its extent.
type Box = Vec<(i64, i64)>;

pub use call::{Called, Tile};
pub use reach::Reach;
pub use runner::{Act, Cells, Runner};
pub use spare::Spare;
pub use stages::{Edge, Field, Meaning};
pub use values::{Array, Values};
