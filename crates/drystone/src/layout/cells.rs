//! What transforms and checks need to know of a subchunk's cells.

use drystone_format::dtype::Leaf;
use drystone_plan::form::Form;
use drystone_transform::Logical;

use crate::put::scalar_size;

/// A subchunk as transforms see it: its cells in stored order, extents from the slowest; along a curve it has one axis. Cells that
/// hold more than one element have no scalar: they are bytes.
pub(crate) fn logical(form: &Form, leaf: Option<&Leaf>, shape: &[u64]) -> Logical {
    let shape = match form.curve {
        Some(_) => vec![shape.iter().fold(1u64, |cells, n| cells.saturating_mul(*n))],
        None => form.dims().filter_map(|d| shape.get(d)).copied().collect(),
    };
    let scalar = leaf.filter(|_| form.room == form.item).map_or(1, |leaf| scalar_size(&leaf.dtype));
    Logical { item: form.room as usize, scalar, shape }
}
