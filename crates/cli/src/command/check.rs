//! `drystone check FILE...`: finds mistakes in texts of the dataset language.

use std::io::IsTerminal;
use std::path::Path;

use drystone_dataset::{self as dataset, Diagnostic, Program};

use crate::args::Texts;
use crate::failure::{Failure, IO, NOT_FOUND, OK, Result, USAGE};
use crate::json::Json;
use crate::output::Output;
use crate::quantity::counted;

/// Checks every file; reports the mistakes of all files.
pub(crate) fn run(texts: &Texts, json: bool, output: &mut Output) -> Result<i32> {
    let mut code = OK;
    let mut reports = Vec::new();
    for path in &texts.files {
        let text = read(path)?;
        let shown = path.display().to_string();
        let found = dataset::check(&text);
        if json {
            reports.push(report(&shown, &found));
        } else if let Ok(program) = &found {
            output.line(&format!("{shown}: {}", summary(program)));
        }
        if let Err(diagnostics) = found {
            code = USAGE;
            if !json {
                mistakes(&shown, &diagnostics, &text).report();
            }
        }
    }
    if json {
        output.json(&Json::List(reports));
    }
    Ok(code)
}

/// Reads the text of a file.
pub(super) fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let size = std::fs::metadata(path).map(|m| m.len());
    if size.is_ok_and(|n| n > dataset::MAX_TEXT as u64) {
        return Err(Failure::usage(format!(
            "{shown} is longer than the {} bytes of a text",
            dataset::MAX_TEXT
        )));
    }
    let bytes = std::fs::read(path).map_err(|e| {
        let code = if e.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { IO };
        Failure::new(code, format!("cannot read {shown}: {e}"))
    })?;
    String::from_utf8(bytes).map_err(|e| {
        Failure::usage(format!("{shown} is not text: byte {} is not UTF-8", e.utf8_error().valid_up_to()))
    })
}

/// The mistakes in a text, each with its position; coloured on a terminal.
pub(super) fn mistakes(file: &str, diagnostics: &dataset::Diagnostics, text: &str) -> Failure {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let more = if diagnostics.is_truncated() { " or more" } else { "" };
    let mistakes = match (diagnostics.iter().count() as u64, more) {
        (many, "") => counted(many, "mistake"),
        (many, more) => format!("{many}{more} mistakes"),
    };
    Failure {
        code: USAGE,
        message: format!("{file} has {mistakes}"),
        place: Some(diagnostics.render(file, text, colour).trim_end().to_string()),
    }
}

fn summary(program: &Program) -> String {
    let variables = counted(program.variable_names().count() as u64, "variable");
    format!("{variables}, {}", counted(program.fragments().count() as u64, "fragment"))
}

fn report(file: &str, found: &std::result::Result<Program, dataset::Diagnostics>) -> Json {
    let texts = |names: Vec<&str>| Json::List(names.into_iter().map(Json::from).collect());
    let (variables, fragments, errors) = match found {
        Ok(program) => {
            let fragments = program.fragments().map(|f| f.name).collect();
            (texts(program.variable_names().collect()), texts(fragments), Vec::new())
        }
        Err(diagnostics) => (Json::Null, Json::Null, diagnostics.iter().map(mistake).collect()),
    };
    Json::Object(vec![
        ("file", file.into()),
        ("sound", found.is_ok().into()),
        ("variables", variables),
        ("fragments", fragments),
        ("mistakes", Json::List(errors)),
    ])
}

/// Positions are byte offsets in the text.
fn mistake(d: &Diagnostic) -> Json {
    Json::Object(vec![
        ("message", d.message.as_str().into()),
        ("expected", d.label.as_str().into()),
        ("help", d.help.as_deref().map_or(Json::Null, Json::from)),
        ("start", Json::Int(d.span.start.into())),
        ("end", Json::Int(d.span.end.into())),
    ])
}
