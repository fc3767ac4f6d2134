//! Times in expressions: they are compared with texts, or converted first.

use drystone_expression::{Name, Tree};
use drystone_format::meaning::Meaning;
use drystone_format::schema::Schema;

use crate::schema::member::member;
use crate::{Error, Result};

/// The meaning of the integers of a variable or member.
pub(crate) fn meaning(schema: &Schema, name: &Name) -> Option<Meaning> {
    let variable = schema.resolve(name.path())?;
    let whole = variable.meaning.as_ref();
    match name.members() {
        [] => whole.cloned(),
        members => member(&variable.dtype, &members.join("."))?.meaning(whole).cloned(),
    }
}

/// Refuses an expression that computes with the integers of instants or durations without converting them.
pub(crate) fn refuse_bare_times(schema: &Schema, tree: &Tree) -> Result<()> {
    let shown = |name: &Name| match meaning(schema, name)? {
        Meaning::Instant(unit) => Some(format!("instants (datetime64{unit})")),
        Meaning::Duration(unit) => Some(format!("durations (timedelta64{unit})")),
        _ => None,
    };
    match tree.used_bare(|name| shown(name).is_some()) {
        Some(name) => Err(Error::invalid(format!(
            "`{name}` holds {}: compare it with a text, or write `i8({name})` to compute with its integers, of which the \
             least is NaT",
            shown(name).unwrap_or_default()
        ))),
        None => Ok(()),
    }
}
