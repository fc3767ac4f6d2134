//! Texts in the dataset language that are stored in a schema.

use drystone_dataset::Program;
use drystone_format::schema::Declaration;

use crate::{Error, Result};

/// Parses a declared text. It was valid when it was declared, but a newer program may have used features unknown to
/// this one.
pub(crate) fn parsed(declaration: &Declaration) -> Result<Program> {
    drystone_dataset::check(&declaration.text).map_err(|diagnostics| {
        Error::unsupported(format!(
            "a declared text cannot be read by this program:\n{}",
            diagnostics.render("text", &declaration.text, false).trim_end()
        ))
    })
}

/// Messages and advice of diagnostics, without positions: the caller does not see the text.
pub(crate) fn said(diagnostics: &drystone_dataset::Diagnostics) -> String {
    let one = |d: &drystone_dataset::Diagnostic| match &d.help {
        Some(help) => format!("{} ({help})", d.message),
        None => d.message.clone(),
    };
    diagnostics.iter().map(one).collect::<Vec<_>>().join("; ")
}
