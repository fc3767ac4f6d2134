//! `drystone fmt [--check] FILE...`: formats texts of the dataset language.

use drystone_dataset as dataset;

use super::check::{mistakes, read};
use crate::args::Fmt;
use crate::failure::{DAMAGE, Failure, IO, OK, Result, USAGE};
use crate::output::Output;

/// Formats every file in place; `--check` lists those that would change. A file with mistakes is left unchanged.
pub(crate) fn run(fmt: &Fmt, output: &mut Output) -> Result<i32> {
    let mut code = OK;
    for path in &fmt.files {
        let text = read(path)?;
        let shown = path.display().to_string();
        match dataset::format(&text) {
            Ok(formatted) if formatted == text => {}
            Ok(_) if fmt.check => {
                output.line(&shown);
                code = code.max(DAMAGE);
            }
            Ok(formatted) => std::fs::write(path, formatted)
                .map_err(|e| Failure::new(IO, format!("cannot write {shown}: {e}")))?,
            Err(diagnostics) => {
                mistakes(&shown, &diagnostics, &text).report();
                code = USAGE;
            }
        }
    }
    Ok(code)
}
