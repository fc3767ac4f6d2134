//! Fields: expressions with neighbours, differences and reductions, evaluated over boxes of a grid.
//!
//! ```text
//! stages    a tree is cut into stages: inputs, neighbours, differences, reductions, and programs between them
//! reach     which cells of each stage a box of the result needs: the halo, known before anything is read
//! runner    evaluates the stages over a box           kernel    differences         reduce    reductions
//! gather    copies of boxes                           values    vectors of any type      spare     memory used again
//! ```
//!
//! Invariants
//! - the value of a cell depends on the cell alone: each cell is computed by the same operations in the same order, whatever box, tile
//!   or thread it is in;
//! - cells beyond the domain are what the edge rule says, and only there: inside, neighbours are read, whoever wrote them;
//! - reductions add up in row-major order of the domain.

mod gather;
mod kernel;
mod reach;
mod reduce;
mod runner;
mod spare;
mod stages;
mod values;

pub use reach::Reach;
pub use runner::{Act, Cells, Runner};
pub use spare::Spare;
pub use stages::{Edge, Field, Meaning};
pub use values::{Array, Values};
